#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""spoil_dump.py DUMP PREFIX - writes copies of a good dump to PREFIX.KIND, each with a fault, and
prints the kinds of faults. check_dump.py must reject each copy."""
import copy
import json
import sys

KINDS = {}


def spoils(function):
    KINDS[function.__name__] = function
    return function


def alive(dump):
    """A context other than the root that has live chunks."""
    return next(context for context in dump["contexts"][1:]
                if context["self"]["live_chunks"] > 0)


@spoils
def other_schema(dump):
    dump["schema"] = "memctx/2"


@spoils
def key_missing(dump):
    del dump["uptime_s"]


@spoils
def figure_missing(dump):
    del alive(dump)["self"]["frees"]


@spoils
def figure_more(dump):
    alive(dump)["self"]["bytes"] = 1


@spoils
def figure_is_text(dump):
    alive(dump)["self"]["allocs"] = "7"


@spoils
def figure_is_broken(dump):
    alive(dump)["self"]["requested_bytes"] += 0.5


@spoils
def figure_is_null(dump):
    alive(dump)["self"]["requested_bytes"] = None


@spoils
def figure_is_negative(dump):
    alive(dump)["self"]["frees"] = -1


@spoils
def byte_lost(dump):
    alive(dump)["self"]["requested_bytes"] -= 1


@spoils
def byte_lost_everywhere_but_in_threads(dump):
    context = alive(dump)
    by_id = {other["id"]: other for other in dump["contexts"]}
    context["self"]["requested_bytes"] -= 1
    dump["totals"]["requested_bytes"] -= 1
    while context is not None:
        context["total"]["requested_bytes"] -= 1
        context = by_id.get(context["parent"])


@spoils
def totals_wrong(dump):
    dump["totals"]["live_chunks"] += 1


@spoils
def subtotal_wrong(dump):
    dump["contexts"][0]["total"]["block_bytes"] += 16


@spoils
def context_lost(dump):
    dump["contexts"].remove(alive(dump))


@spoils
def parent_after_child(dump):
    dump["contexts"].reverse()


@spoils
def id_twice(dump):
    dump["contexts"][-1]["id"] = dump["contexts"][-2]["id"]


@spoils
def kind_unknown(dump):
    alive(dump)["kind"] = "other"


@spoils
def frame_missing(dump):
    next(context for context in dump["contexts"] if context["kind"] == "path")["frame"] = None


@spoils
def address_decimal(dump):
    next(context for context in dump["contexts"]
         if context["kind"] == "path")["frame"]["addr"] = "1234"


@spoils
def ledger_wrong(dump):
    dump["ledger"]["mixed_block_bytes"] += 16


@spoils
def empty(dump):
    dump["contexts"] = []
    for key in dump["totals"]:
        dump["totals"][key] = 0


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        good = json.load(file)
    for kind, spoil in KINDS.items():
        dump = copy.deepcopy(good)
        spoil(dump)
        with open(f"{sys.argv[2]}.{kind}", "w", encoding="utf-8") as file:
            json.dump(dump, file)
        print(kind)


if __name__ == "__main__":
    main()
