# SPDX-License-Identifier: MIT
"""An offered policy saves what is predicted, within a tenth of the resident set."""
import copy
import re

import harness
from harness import Target, check, check_equal, runtime_dir, test, test_named
from more_cases import found_in, more_c, more_cc
from planted import command, doctor, planted
from text import labelled, told

# case -> (rows, smallest and largest bytes, alignment, order of frees, policies that must be
# offered)
ROWS = {
    "one-size": (20000, 1040, 1040, 0, "any", "slab"),
    "one-size-in-order": (20000, 1040, 1040, 0, "fifo", "slab generation"),
    "just-above-128": (150000, 130, 130, 0, "any", "slab"),
    "no-room": (200000, 100, 100, 0, "any", ""),
    "one-byte": (600000, 1, 1, 0, "fifo", "generation"),
    "no-byte": (400000, 0, 0, 0, "fifo", ""),
    "aligned-to-64": (80000, 192, 192, 64, "any", ""),
    "aligned-to-128": (60000, 384, 384, 128, "fifo", ""),
    "few-sizes": (40000, 517, 607, 0, "fifo", "slab generation"),
    "all-sizes": (60000, 100, 1000, 0, "fifo", "generation"),
    "above-1024": (6000, 5200, 5200, 0, "any", "slab"),
    "nine-to-a-page": (6000, 6200, 7000, 0, "fifo", ""),
    "half-freed": (60000, 520, 520, 0, "half", "slab"),
    "all-sizes-in-any-order": (60000, 100, 1000, 0, "any", ""),
    "few-sizes-in-any-order": (100000, 517, 607, 0, "any", "slab"),
    "above-9216": (4000, 9300, 9300, 0, "fifo", ""),
    "above-8192": (6000, 8200, 8200, 0, "fifo", "slab generation"),
}


def check_prediction(target, policy, offered, function):
    """Sets the policy, lets the program allocate all its chunks anew twice, and compares the saving
    with the prediction."""
    command(target, "trim", target.pid)
    before = harness.rss_kib(target.pid) << 10
    frag = command(target, "frag", target.pid)
    context = max((one for one in frag["contexts"] if function in one["path"][0]),
                  key=lambda one: one["requested_bytes"])
    predicted = command(target, "set", target.pid, context["id"],
                        f"policy={policy}")["predicted_bytes"]
    check((predicted > before / 50) == offered,
          f"{policy} is predicted to save {predicted} bytes of {before}")
    told = [one["now"] for one in doctor(target)["findings"] if "policy=slab" in (one["now"] or "")]
    check_equal(told, [], "slab proposed where a policy was set already")
    again = [one["what_if"] for one in command(target, "frag", target.pid)["pinners"]
             if one["context"] == context["id"]]
    for what_if in again:
        check_equal((what_if["slab_bytes"], what_if["generation_bytes"]), (0, 0), "proposed again")
    for _ in range(2):
        target.say("go on")
        check_equal(target.hear(), "look", "what the program says")
    command(target, "trim", target.pid)
    saved = before - (harness.rss_kib(target.pid) << 10)
    if offered:
        check(abs(predicted - saved) < before / 10,
              f"{policy} saved {saved} of {before} bytes, predicted {predicted}")
    return f"{policy}: predicted {predicted >> 10} KiB, saved {saved >> 10} of {before >> 10}"


def keep_rows(case, words):
    def run():
        notes = []
        for policy in ("slab", "generation", "bump"):
            with runtime_dir() as directory, more_c(directory, "rows",
                                                    *map(str, words[:5])) as target:
                check_equal(target.hear(), "look", "what the program says")
                target.wait_socket()
                wanted = policy.replace("bump", "generation") in words[5].split()
                notes.append(check_prediction(target, policy, wanted, "row_make"))
        return "; ".join(notes)
    test_named(f"policy-{case}")(run)


for rows_case, rows_words in ROWS.items():
    keep_rows(rows_case, rows_words)


def keep_aligned(case, offered):
    def run():
        with runtime_dir() as directory, more_cc(directory, case) as target:
            check_equal(target.hear(), "look", "what the program says")
            target.wait_socket()
            return check_prediction(target, "slab", offered, "sample_new")
    test_named(f"policy-{case}")(run)


keep_aligned("aligned-samples", False)
keep_aligned("plain-samples", True)

PYTHON_ROWS = """
import sys
rows = [None] * 20000
while True:
    for _ in range(3):
        for i in range(len(rows)):
            rows[i] = bytes(1030)
    print("look", flush=True)
    if not sys.stdin.readline():
        break
"""


@test
def policy_python_rows():
    argv = ["/usr/bin/python3", "-c", PYTHON_ROWS]
    with runtime_dir() as directory, Target(argv, directory, MEMCTX_CONTROL="eager",
                                            PYTHONMALLOC="malloc") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        return check_prediction(target, "slab", True, "")


# --- rounding that no policy saves ----------------------------------------------------------------

@test
def policy_jobs_that_another_thread_frees():
    """generation and bump are not offered for chunks that another thread frees, whose order is not
    known: in `behind` the newest are freed first, and these policies would need more memory."""
    with runtime_dir() as directory, planted(directory, "behind") as target:
        seen = 0
        for _ in range(4):
            check_equal(target.hear(60), "look", "what the program says")
            target.wait_socket()
            pinners = command(target, "frag", target.pid)["pinners"]
            seen += len(pinners)
            offered = [(one["what_if"]["generation_bytes"], one["what_if"]["bump_bytes"])
                       for one in pinners]
            check(all(pair == (0, 0) for pair in offered), f"offered: {offered}")
            target.say("")
    check(seen > 0, "frag predicts nothing at all")


def check_rounding(target, now, fix):
    """Checks that the finding "rounding" comes once, and its text at the labels "now" and "fix"."""
    check_equal(target.hear(), "look", "what the program says")
    found = [one for one in doctor(target)["findings"] if one["id"] == "rounding"]
    check_equal(len(found), 1, f"rounding: {found}")
    text = told(target)
    check_equal(text.count("(rounding)"), 1, text)
    for label, says in (("now", now), ("fix", fix)):
        said = labelled(text, 1, label)
        check(said and re.search(says, said), f"{label}, {says}: {text}")
    return labelled(text, 1, "now")


@test
def rounding_of_nodes_is_no_alarm():
    """Nodes of 40 bytes need blocks of 48, because malloc aligns chunks to 16 bytes."""
    with runtime_dir() as directory, more_c(directory, "rows", "1200000", "40", "40", "0",
                                            "fifo") as target:
        check_equal(target.hear(60), "look", "what the program says")
        found = [one for one in doctor(target)["findings"] if one["id"] == "rounding"]
    check_equal([one["severity"] for one in found], ["info"], f"{found}")


@test
def rounding_of_two_callers_is_one_warning():
    """The rounding of each caller is below the floor of a warning, that of both is above it."""
    with runtime_dir() as directory, more_c(directory, "callers") as target:
        check_equal(target.hear(60), "look", "what the program says")
        found = [one for one in doctor(target)["findings"] if one["id"] == "rounding"]
    check_equal([(one["severity"], one["contexts"]) for one in found], [("warning", 2)],
                f"{found}")


@test
def rounding_above_9216_has_no_cure():
    with runtime_dir() as directory, more_c(directory, "rows", "8000", "9300", "9300", "0",
                                            "any") as target:
        return check_rounding(target, "^no policy saves this memory, because chunks above 9216 "
                                      "bytes take whole OS pages$",
                              "^1108 bytes less in each chunk")


@test
def rounding_of_blocks_that_came_later_is_not_known():
    """The pages are read after the figures of the contexts. If chunks were allocated between the
    two readings, their blocks are no rounding."""
    with runtime_dir() as directory, more_c(directory, "rows", "8000", "9300", "9300", "0",
                                            "any") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        dump = target.dump("-o", "/dev/stdout")
        found = {}
        for part in (1, 0.5, 0):
            changed = copy.deepcopy(dump)
            one = max((one["self"] for one in changed["contexts"]), key=lambda one: one["allocs"])
            check_equal(one["live_chunks"], 8000, "live chunks")
            for name in ("live_chunks", "requested_bytes"):
                one[name] = int(one[name] * part)
            found[part] = found_in(directory, changed, "rounding")
    check_equal(found, {1: [22], 0.5: [11], 0: []}, "MiB of rounding")


@test
def rounding_of_aligned_rows_has_no_cure():
    with runtime_dir() as directory, more_c(directory, "rows", "140000", "520", "520", "64",
                                            "any") as target:
        return check_rounding(target, "^no policy is known to save most of this memory; other "
                                      "sizes", "^Slightly smaller chunks")


@test
def rounding_of_chunks_in_order_has_a_cure():
    with runtime_dir() as directory, more_c(directory, "rows", "140000", "513", "600", "0",
                                            "fifo") as target:
        return check_rounding(target, "policy=generation puts the next chunks one behind the "
                                      "other, which would save [0-9.]+ MiB, if",
                              "^Slightly smaller chunks")
