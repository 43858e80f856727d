# SPDX-License-Identifier: MIT
"""Chunks that several call paths make larger in turn; causes that no single path shows; memory that
is in swap."""
import re

import harness
from harness import Target, check, check_equal, runtime_dir, test, test_named
from cases import check_healthy
from planted import ALARMING, found_at, names
from shapes import EVEN, looked, rows
from text import labelled, told, verdict


def in_turn(directory, case):
    program = harness.build_program("tests/diagnosis/in_turn.c", flags=["-O2"])
    return Target([program, case], directory, MEMCTX_CONTROL="eager")


def growth_at(case, looks):
    """Checks that doctor raises exactly one alarm at that look, about growth; returns it and the
    text."""
    with runtime_dir() as directory, in_turn(directory, case) as target:
        alarms = [one for one in found_at(target, looks)["findings"] if one["severity"] in ALARMING]
        check_equal([one["id"] for one in alarms], ["growth"],
                    f"alarms: {[one['evidence'] for one in alarms]}")
        return alarms[0], told(target)


FAULTY = {  # case -> (function to blame, looks, what the finding says of the chunks)
    "journal": ("text_add", 5, "it is one chunk, which became larger; the program adds more to it"),
    "eighth": ("text_add", 7, "it is one chunk, which became larger"),
    "long": ("text_add", 7, "it is one chunk, which became larger"),
    "rooms": ("text_add", 6, "the number of chunks did not grow, so the chunks are larger: 40 "
                             "chunks with a mean of"),
}


def blame(case, function, looks, said):
    def run():
        growth, text = growth_at(case, looks)
        check(said in growth["evidence"], growth["evidence"])
        check("these call paths make the same chunks larger in turn" in growth["evidence"],
              growth["evidence"])
        check(re.search(rf"\({function}, in_turn.c:\d+\)", verdict(text)), text)
        # the parts are the functions that call it
        who = labelled(text, 1, "who")
        callers = set(re.findall(rf"%, \S+ \S+: {function} \(\S+\) < (user_\w+) \(", who))
        check(len(callers) >= 2 and len(callers) == growth["contexts"], text)
        return growth["evidence"]
    test_named(f"in-turn-{case}")(run)


for faulty_case, row in FAULTY.items():
    blame(faulty_case, *row)


@test
def in_turn_split_function():
    """A function that the compiler divided in two, and that ends in a tail call, is one cause and
    no recursion."""
    growth, text = growth_at("shards", 5)
    check_equal(growth["contexts"], 3, growth["evidence"])
    check("so the chunks are larger: 3 chunks with a mean of 10.0 MiB" in growth["evidence"],
          growth["evidence"])
    check(re.match(r"shard_append \(\S+\) < shards_append \(\S+\) < main ",
                   labelled(text, 1, "who")), text)


@test
def in_turn_deep_recursion():
    """A function that calls itself stands once in the text, before its caller, also if the
    recursion is deeper than a path."""
    growth, text = growth_at("folders", 5)
    check(names(growth, "folder_read"), f"{growth['path']}")
    check(re.match(r"filled \(\S+\) < folder_read \([^)]*\) < folders_scan \(",
                   labelled(text, 1, "who")), text)


@test
def in_turn_few_tokens():
    """A leak that is small beside a large cache is told if it is even, although it is no alarm."""
    with runtime_dir() as directory, in_turn(directory, "tokens") as target:
        found = found_at(target, 6)["findings"]
        text = told(target)
    check_equal([(one["id"], one["severity"]) for one in found], [("growth", "info")], text)
    check(re.search(r"\bby 500 chunks\b", found[0]["evidence"]), found[0]["evidence"])
    check(names(found[0], "token_new") and "token_new" in verdict(text), text)


def keep_healthy(case):
    def run():
        with runtime_dir() as directory, in_turn(directory, case) as target:
            return check_healthy(target, 4)
    test_named(f"in-turn-healthy-{case}")(run)


for healthy_case in ("rotated", "emptied", "messages", "once"):
    keep_healthy(healthy_case)


# --- swap ------------------------------------------------------------------------------------

MORE = 16 << 20


def swapped(private, ours, swap, peak=0):
    """Returns the findings for a process with these figures at five looks: private memory that did
    not come from malloc, resident memory of malloc, and memory in swap, all in units of 16 MiB."""
    def change(dump, _):
        for number, mark in enumerate(dump["marks"]):
            mark["elsewhere"] = {"private_bytes": private[number] * MORE, "shared_bytes": 0,
                                 "file_bytes": 0, "data_bytes": 100 * MORE,
                                 "swap_bytes": swap[number] * MORE}
            mark["rss_bytes"] = (private[number] + ours[number]) * MORE
        last = (private[-1] + ours[-1]) * MORE
        dump["rss_bytes"] = last
        dump["mappings"].update(
            rss_bytes=last, file_bytes=0, anonymous_bytes=last, swap_bytes=swap[-1] * MORE,
            peak_rss_bytes=max(last, peak * MORE), counted_anonymous_bytes=last,
            counted_file_bytes=0, counted_data_bytes=100 * MORE,
            counted_swap_bytes=swap[-1] * MORE)
        dump["ledger"].update(segments_resident=ours[-1] * MORE, metadata_resident=0,
                              control_bytes=0, rss_bytes=last)
    found, _ = looked(rows(EVEN[:5], (50, 50, 50, 50, 50)), change)
    return {one["id"]: one for one in found}


@test
def swap_of_memory_that_grows():
    """Growth is found although the resident set stays as it is, because the kernel moves the new
    memory to swap."""
    found = swapped((5, 5, 5, 5, 5), (3, 3, 3, 3, 3), (0, 1, 2, 3, 4))
    growth = found.get("growth-not-malloc")
    check(growth, f"found: {list(found)}")
    check(abs(growth["bytes"] - 4 * MORE) < 1 << 20, growth["evidence"])
    check("64.0 MiB more of the process are in swap than then" in growth["evidence"],
          growth["evidence"])


@test
def swap_is_no_growth():
    """Chunks of malloc that go to swap, and memory that comes back from swap, are no growth of
    other memory; what is in swap is no peak of the past."""
    chunks = swapped((5, 5, 5, 5, 5), (7, 6, 5, 4, 3), (0, 1, 2, 3, 4))
    check("growth-not-malloc" not in chunks, f"chunks in swap: {list(chunks)}")
    back = swapped((2, 3, 4, 5, 6), (3, 3, 3, 3, 3), (4, 3, 2, 1, 0))
    check("growth-not-malloc" not in back, f"back from swap: {list(back)}")
    gone = swapped((9, 7, 5, 3, 1), (3, 3, 3, 3, 3), (0, 2, 4, 6, 8), peak=12)
    check("past-peak" not in gone, f"in swap: {list(gone)}")
    freed = swapped((9, 7, 5, 3, 1), (3, 3, 3, 3, 3), (0, 0, 0, 0, 0), peak=12)
    check("past-peak" in freed, f"freed: {list(freed)}")
