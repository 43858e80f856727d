#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""check_dump.py [--pid N] [--quiescent] FILE - checks that FILE, the output of `memctx dump
--json`, has the schema "memctx/1" and figures that add up. Prints the first faults and exits 1, or
exits 0."""
import argparse
import json
import re
import sys

TOTALS = (
    "requested_bytes", "block_bytes", "reserved_bytes", "resident_bytes", "pinned_bytes",
    "sole_pinned_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes",
    "peak_requested_bytes", "pages",
)
# Figures that every dump has, and whose sums over the contexts are exact.
ADDED = ("requested_bytes", "block_bytes", "live_chunks", "allocs", "frees",
         "requested_cum_bytes", "pages", "reserved_bytes")
KINDS = ("path", "named", "thread", "unknown", "root")
FAULTS_SHOWN = 10

faults = []


def fault(text):
    faults.append(text)


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def keys_check(where, value, wanted):
    if not isinstance(value, dict):
        fault(f"{where} is no object: {value!r}")
        return False
    missing = [key for key in wanted if key not in value]
    if missing:
        fault(f"{where} lacks {', '.join(missing)}")
    return not missing


def totals_check(where, totals, exact_keys, signed=False):
    """Checks a group of figures: integers or null, exact_keys never null, live figures never
    negative."""
    if not keys_check(where, totals, TOTALS):
        return False
    good = True
    for key in totals:
        value = totals[key]
        if key not in TOTALS:
            fault(f"{where} has an unknown figure {key}")
            good = False
        elif value is None and key not in exact_keys:
            continue
        elif not is_integer(value):
            fault(f"{where}.{key} is {value!r}")
            good = False
        elif value < 0 and not signed:
            fault(f"{where}.{key} is negative: {value}")
            good = False
    return good


def frame_check(where, frame):
    if not keys_check(where, frame, ("addr", "module", "offset", "function", "file", "line",
                                     "inlined")):
        return
    for key in ("addr", "offset"):
        value = frame[key]
        if value is not None and not (isinstance(value, str) and
                                      re.fullmatch(r"0x[0-9a-f]+", value)):
            fault(f"{where}.{key} is {value!r}")
    for key in ("module", "function", "file"):
        if frame[key] is not None and not isinstance(frame[key], str):
            fault(f"{where}.{key} is {frame[key]!r}")
    if frame["line"] is not None and not is_integer(frame["line"]):
        fault(f"{where}.line is {frame['line']!r}")
    if not isinstance(frame["inlined"], list):
        fault(f"{where}.inlined is {frame['inlined']!r}")
        return
    for index, inlined in enumerate(frame["inlined"]):
        if keys_check(f"{where}.inlined[{index}]", inlined, ("function", "file", "line")):
            if not isinstance(inlined["function"], str) or not inlined["function"]:
                fault(f"{where}.inlined[{index}].function is {inlined['function']!r}")


def head_check(dump, pid):
    if not keys_check("the dump", dump, ("schema", "pid", "exe", "uptime_s", "depth", "exact",
                                         "totals", "marks", "contexts")):
        return False
    if dump["schema"] != "memctx/1":
        fault(f"schema is {dump['schema']!r}")
    if not is_integer(dump["pid"]) or (pid is not None and dump["pid"] != pid):
        fault(f"pid is {dump['pid']!r}")
    if not isinstance(dump["exe"], str) or not dump["exe"].startswith("/"):
        fault(f"exe is {dump['exe']!r}")
    if not isinstance(dump["uptime_s"], (int, float)) or dump["uptime_s"] < 0:
        fault(f"uptime_s is {dump['uptime_s']!r}")
    if not is_integer(dump["depth"]) or not 0 <= dump["depth"] <= 128:
        fault(f"depth is {dump['depth']!r}")
    if not isinstance(dump["exact"], bool):
        fault(f"exact is {dump['exact']!r}")
    if not isinstance(dump["marks"], list) or not isinstance(dump["contexts"], list):
        fault("marks or contexts is no list")
        return False
    return totals_check("totals", dump["totals"], ADDED)


def context_check(context, seen):
    if not keys_check("a context", context, ("id", "parent", "kind", "policy", "frame", "self",
                                             "total")):
        return False
    where = f"context {context['id']}"
    if not is_integer(context["id"]) or context["id"] in seen:
        fault(f"{where}: the id is no integer or comes twice")
        return False
    if context["parent"] is not None and context["parent"] not in seen:
        fault(f"{where}: its parent {context['parent']!r} did not come before it")
        return False
    if context["kind"] not in KINDS:
        fault(f"{where}: kind is {context['kind']!r}")
    if context["policy"] is not None and not isinstance(context["policy"], str):
        fault(f"{where}: policy is {context['policy']!r}")
    if context["frame"] is not None:
        frame_check(f"{where}.frame", context["frame"])
    elif context["kind"] == "path":
        fault(f"{where} is a path and has no frame")
    good = totals_check(f"{where}.self", context["self"], ADDED)
    return totals_check(f"{where}.total", context["total"], ADDED) and good


def figures_check(where, totals, quiescent):
    """Checks relations between the figures of one context. Some hold only in a quiescent process,
    because the counters of a running process are read one after the other."""
    if not totals["requested_bytes"] <= totals["block_bytes"] and quiescent:
        fault(f"{where}: requested {totals['requested_bytes']} in blocks {totals['block_bytes']}")
    if not totals["block_bytes"] <= totals["reserved_bytes"] and quiescent:
        fault(f"{where}: blocks {totals['block_bytes']} in reserved {totals['reserved_bytes']}")
    if quiescent and totals["live_chunks"] != totals["allocs"] - totals["frees"]:
        fault(f"{where}: {totals['allocs']} allocs - {totals['frees']} frees are not "
              f"{totals['live_chunks']} live chunks")
    if quiescent and totals["live_chunks"] == 0 and totals["requested_bytes"] != 0:
        fault(f"{where}: {totals['requested_bytes']} bytes requested by no chunk")
    if totals["requested_cum_bytes"] < totals["requested_bytes"] and quiescent:
        fault(f"{where}: {totals['requested_bytes']} live of {totals['requested_cum_bytes']} ever")


def books_check(dump, quiescent):
    contexts = {context["id"]: context for context in dump["contexts"]}
    below = {number: dict.fromkeys(ADDED, 0) for number in contexts}
    sums = dict.fromkeys(ADDED, 0)
    for context in reversed(dump["contexts"]):  # in a dump children come after their parents
        figures_check(f"context {context['id']}.self", context["self"], quiescent)
        for key in ADDED:
            sums[key] += context["self"][key]
            total = below[context["id"]][key] + context["self"][key]
            if total != context["total"][key]:
                fault(f"context {context['id']}.total.{key} is {context['total'][key]}, its parts "
                      f"add up to {total}")
            if context["parent"] is not None:
                below[context["parent"]][key] += total
    for key in ADDED:
        if sums[key] != dump["totals"][key]:
            fault(f"totals.{key} is {dump['totals'][key]}, the contexts add up to {sums[key]}")
    if sums["live_chunks"] == 0 or sums["requested_cum_bytes"] == 0:
        fault("nothing is alive: no program is like that")


def threads_check(dump, quiescent):
    """Checks that each context is the sum of its threads' figures."""
    keys = ("requested_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes")
    if "threads" not in dump:  # dumped without --threads
        return
    if sum(len(context["threads"]) for context in dump["contexts"]) == 0:
        fault("no context has a thread")
    for context in dump["contexts"]:
        where = f"context {context['id']}"
        for thread, view in context["threads"].items():
            if not re.fullmatch(r"\d+|exited", thread):
                fault(f"{where}: a thread is called {thread!r}")
            if not totals_check(f"{where}.threads[{thread}]", view, keys, signed=True):
                return
        for key in keys:
            total = sum(view[key] for view in context["threads"].values())
            if quiescent and total != context["self"][key]:
                fault(f"{where}.self.{key} is {context['self'][key]}, its threads add up to "
                      f"{total}")


def ledger_check(dump, quiescent):
    """Checks the ledger against the figures of the contexts."""
    ledger = dump.get("ledger")
    if not keys_check("ledger", ledger, (
            "segments_mapped", "pages_reserved", "mixed_reserved", "mixed_block_bytes",
            "freelist_bytes", "segment_headers", "metadata_mapped", "metadata_used", "rss_bytes")):
        return
    for key, value in ledger.items():
        if value is not None and (not is_integer(value) or value < 0):
            fault(f"ledger.{key} is {value!r}")
            return
    if not quiescent:
        return
    reserved = dump["totals"]["reserved_bytes"]
    if reserved != ledger["pages_reserved"] + ledger["mixed_block_bytes"]:
        fault(f"contexts reserve {reserved}, the ledger says {ledger['pages_reserved']} in pages "
              f"of their own and {ledger['mixed_block_bytes']} in mixed pages")
    parts = sum(ledger[key] for key in ("pages_reserved", "mixed_reserved", "freelist_bytes",
                                        "segment_headers"))
    if not ledger["mixed_block_bytes"] <= ledger["mixed_reserved"] <= parts <= \
            ledger["segments_mapped"]:
        fault(f"the ledger does not fit into itself: {ledger}")
    if ledger["metadata_used"] > ledger["metadata_mapped"]:
        fault(f"metadata: {ledger['metadata_used']} used of {ledger['metadata_mapped']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pid", type=int)
    parser.add_argument("--quiescent", action="store_true",
                        help="nothing ran while the dump was made")
    parser.add_argument("file")
    arguments = parser.parse_args()
    with open(arguments.file, encoding="utf-8") as file:
        dump = json.load(file, parse_constant=lambda word: fault(f"{word} is no JSON"))
    seen = set()
    good = head_check(dump, arguments.pid)
    for context in dump["contexts"] if good else ():
        good = context_check(context, seen) and good
        seen.add(context["id"])
    if good and not faults:
        books_check(dump, arguments.quiescent)
        threads_check(dump, arguments.quiescent)
        ledger_check(dump, arguments.quiescent)
    for text in faults[:FAULTS_SHOWN]:
        print(f"{arguments.file}: {text}")
    if len(faults) > FAULTS_SHOWN:
        print(f"{arguments.file}: and {len(faults) - FAULTS_SHOWN} more")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
