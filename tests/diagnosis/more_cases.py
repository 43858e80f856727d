# SPDX-License-Identifier: MIT
"""Doctor tells further faults, and only these: growth that is not malloc's, memory that was never touched, peaks."""
import re

import harness
from harness import Target, check, check_equal, runtime_dir, test, test_named
from planted import ALARMING, command, doctor, installed, pinner


def more_c(directory, *arguments, **extra):
    program = harness.build_program("tests/diagnosis/planted_more.c", "planted-more-c")
    return Target([program, *arguments], directory, MEMCTX_CONTROL="eager", **extra)


def more_cc(directory, *arguments, **extra):
    program = harness.build_program("tests/diagnosis/planted_more.cc", "planted-more-cc")
    return Target([program, *arguments], directory, MEMCTX_CONTROL="eager", **extra)


def watched(target, seconds=2):
    """What doctor finds when it watches, after the program has said that it works."""
    check_equal(target.hear(), "look", "what the program says")
    return doctor(target, "--watch", str(seconds))


def of_id(found, ident):
    return [finding for finding in found["findings"] if finding["id"] == ident]


# --- growth that is not malloc's ------------------------------------------------------------------

def check_mapped_growth(found, kind, place):
    listed = [(finding["id"], finding["severity"], finding["evidence"]) for finding in found["findings"]]
    check(listed, "nothing was found")
    check_equal(listed[0][0], "growth-not-malloc", f"the first of {listed}")
    check(listed[0][1] in ALARMING, f"only told: {listed}")
    evidence = of_id(found, "growth-not-malloc")[0]["evidence"]
    check(evidence.startswith(kind), f"what grows: {evidence}")
    check(re.search(r"is in [0-9a-f]+-[0-9a-f]+ " + place, evidence), f"the mapping that grew: {evidence}")
    return evidence


def keep_mapped_growth(case, kind, place, start=more_c):
    def run():
        with runtime_dir() as directory, start(directory, case) as target:
            return check_mapped_growth(watched(target), kind, place)
    test_named(f"grows-elsewhere-{case}")(run)


keep_mapped_growth("maps", "mappings that the program made itself", r"\[anon\]")
keep_mapped_growth("brk", "the brk heap", r"\[heap\]")
keep_mapped_growth("stacks", "thread stacks", r"\[anon\]")
keep_mapped_growth("shared", "shared memory", "/memfd:ledger")
keep_mapped_growth("moved", "mappings that the program made itself", r"\[anon\]", more_cc)

PYTHON_GROWS = """
import select, sys
kept = []
print("look", flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    kept.append([(i, str(i)) for i in range(3000)])
"""


@test
def grows_elsewhere_python():
    """Python's own allocator maps memory for small objects."""
    argv = ["/usr/bin/python3", "-c", PYTHON_GROWS]
    with runtime_dir() as directory, Target(argv, directory, MEMCTX_CONTROL="eager") as target:
        found = watched(target)
        evidence = check_mapped_growth(found, "mappings that the program made itself", r"\[anon\]")
        check("PYTHONMALLOC=malloc" in of_id(found, "growth-not-malloc")[0]["action"], "what to do")
        return evidence


@test
def growth_of_malloc_is_not_told_twice():
    with runtime_dir() as directory, more_c(directory, "mallocs") as target:
        found = watched(target)
        check_equal(of_id(found, "growth-not-malloc"), [], "growth elsewhere")
        check(of_id(found, "growth"), "growth of malloc's memory")


def check_no_alarm(found):
    alarms = [(finding["id"], finding["evidence"]) for finding in found["findings"] if finding["severity"] in ALARMING]
    check_equal(alarms, [], "alarms")


@test
def a_collectors_heap_is_no_alarm():
    with runtime_dir() as directory, more_c(directory, "collects") as target:
        check_no_alarm(watched(target))


NODE_WORKS = """
const kept = new Map(Array.from({length: 50000}, (_, i) => [i, 'x'.repeat(50)]));
function work() {
    for (let i = 0; i < 20; i++)
        JSON.parse(JSON.stringify(Array.from({length: 1000}, (_, k) => ({key: k, value: 'v' + k}))));
}
for (let i = 0; i < 200; i++)
    work();
setInterval(work, 10);
process.stdin.on('data', () => process.exit());
console.log('look');
"""


@test
def a_node_that_works_is_no_alarm():
    with runtime_dir() as directory, Target([installed("node"), "-e", NODE_WORKS], directory, MEMCTX_CONTROL="eager") as target:
        check_no_alarm(watched(target, 3))


# --- memory that was never touched ----------------------------------------------------------------

FREE_LINES = ("holes_bytes", "mixed_free_bytes", "kept_bytes", "freelist_bytes")


def check_waste_is_resident(target, live_is_touched):
    """No figure of free memory counts more than what is resident beside the live chunks."""
    check_equal(target.hear(), "look", "what the program says")
    found = doctor(target)
    ledger = command(target, "frag", target.pid)["ledger"]
    lines = {line["name"]: line["bytes"] for line in ledger["lines"]}
    rss = ledger["rss_bytes"]
    free = sum(lines[name] for name in FREE_LINES)
    check(0 < free < rss, f"{free} bytes are free, {rss} resident")
    if live_is_touched:
        check(abs(lines["not_resident_bytes"]) < rss / 33, f"not explained by touched memory: {lines}")
    for finding in found["findings"]:
        check(finding["bytes"] <= free * 1.1, f"only {free} bytes are free: {finding}")
    return found, free


@test
def waste_of_sleeping_threads_is_what_they_touched():
    with runtime_dir() as directory, more_c(directory, "sleepers") as target:
        found, free = check_waste_is_resident(target, True)
        return f"{free >> 10} KiB are free; {[(finding['id'], finding['bytes'] >> 10) for finding in found['findings']]}"


@test
def waste_of_buffers_is_what_they_touched():
    with runtime_dir() as directory, more_cc(directory, "barely-written") as target:
        found, free = check_waste_is_resident(target, False)
        first = of_id(found, "nearly-empty-pages")[0]
        check(first["bytes"] > free / 2, f"of {free} bytes that are free: {first}")
        held = pinner(target, "buffer_new")
        trimmed = command(target, "trim", target.pid, held["context"])
        target.say("malloc")  # the thread gives back its own pages with its next malloc
        check_equal(target.hear(), "look", "what the program says")
        came = trimmed["rss_before_bytes"] - (harness.rss_kib(target.pid) << 10)
        predicted = held["what_if"]["trim_bytes"]
        check(0 < predicted * 0.95 < came, f"trim of {predicted} bytes at least gave back {came}")
        return f"trim: predicted {predicted >> 10} KiB, {came >> 10} KiB came back"
