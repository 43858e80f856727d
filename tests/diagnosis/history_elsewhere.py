# SPDX-License-Identifier: MIT
"""doctor's findings about memory that did not come from malloc, from marks (MEMCTX_MARKS)."""
import contextlib
import os
import re

import harness
from harness import Target, check, check_equal, in_tries, run_cli, runtime_dir, test
from history import MARKS, marks_of
from planted import command, doctor, installed, names

# Takes 40 MiB a second. "objects": python's own allocator keeps small objects. "maps": keeps
# mappings of 1 MiB. "buffer": fills a mapping of 800 MiB. "malloc": keeps chunks of malloc. "once"
# only touches 120 MiB after 0.5 s.
ELSEWHERE = """
import mmap, select, sys, time
case, kept, start, made, said = sys.argv[1], [], time.monotonic(), 0, False
step = b"x" * (1 << 20)
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
buffer = mmap.mmap(-1, 800 << 20, flags=private) if case == "buffer" else None
while not select.select([0], [], [], 0.005)[0]:
    now = time.monotonic() - start
    while made < now * 40 and made < 800 and case != "once":
        if case == "objects":
            kept.append([bytes(100 + i % 100) for i in range(6000)])
        elif case == "maps":
            kept.append(mmap.mmap(-1, 1 << 20, flags=private))
            kept[-1].write(step)
        elif case == "buffer":
            buffer.write(step)
        else:
            kept.append(bytes(1 << 20))
        made += 1
    if case == "once" and now > 0.5 and not kept:
        kept.append(mmap.mmap(-1, 120 << 20, flags=private))
        for i in range(120):
            kept[0].write(step)
    if now > 2 and not said:
        said = print("look", flush=True) is None
"""


def elsewhere(directory, case, **extra):
    return Target(["/usr/bin/python3", "-c", ELSEWHERE, case], directory, MEMCTX_MARKS=MARKS,
                  MEMCTX_CONTROL="eager", **extra)


def not_from_malloc(found):
    return [finding for finding in found["findings"] if finding["id"] == "growth-not-malloc"]


def growth_during(target, call):
    """Runs `call` while the process grows. Returns the result, and the least and the most that the
    resident set can have grown since the oldest mark when `call` looked."""
    oldest, rss = marks_of(target)[0]["rss_bytes"], harness.rss_kib(target.pid) << 10
    result = call()
    later = harness.rss_kib(target.pid) << 10
    return result, rss - marks_of(target)[0]["rss_bytes"], later - oldest


@test
@in_tries
def history_of_memory_that_is_not_from_malloc():
    """By the figures of the marks, a single run of doctor tells growth of memory that did not come
    from malloc, also of a saved snapshot. diff tells the resident sets."""
    for case in ("objects", "maps"):
        with runtime_dir() as directory, elsewhere(directory, case) as target:
            check_equal(target.hear(60), "look", "what the program says")
            live = growth_during(target, lambda one=target: not_from_malloc(doctor(one)))
            listed = marks_of(target)
            check(all(mark["rss_bytes"] > 1 << 20 for mark in listed),
                  f"resident sets of the marks: {listed}")
            saved = os.path.join(directory, "saved")
            done, *bounds = growth_during(target, lambda one=target, path=saved: run_cli(
                "dump", one.pid, "-o", path, env=one.cli_env))
            check_equal(done.returncode, 0, "dump -o")
            later = (not_from_malloc(doctor(target, pid=saved)), *bounds)
            name = listed[-1]["name"]
            text = run_cli("diff", target.pid, name, env=target.cli_env).stdout
            shown = command(target, "diff", target.pid, name)
            for (one, least, most), severity in ((live, "warning"), (later, "info")):
                check(len(one) == 1 and one[0]["severity"] == severity, f"{case}: {one}")
                check(least / 3 < one[0]["bytes"] < most, f"{case}: {one[0]['bytes']} of {least} "
                      f"to {most}: {one[0]['evidence']}")
                check(re.search(r"^private memory that did not come from malloc grew by \S+ MiB to "
                                r"\S+ MiB in [0-9.]+ s, over \d+ marks and now; \S+ MiB are in "
                                r"mappings that the program made itself now",
                                one[0]["evidence"]), one[0]["evidence"])
                check("PYTHONMALLOC=malloc" in one[0]["advice"], one[0]["advice"])
        check(re.search(r"Resident set: \d+ at the mark, \d+ now", text), text)
        check_equal(shown["from"]["rss_bytes"], listed[-1]["rss_bytes"],
                    "the mark's resident set in diff --json")


@test
@in_tries
def history_of_healthy_mappings():
    """A buffer of fixed size that the program fills, memory that it maps once, and chunks of malloc
    are no growth of memory that is not from malloc."""
    with runtime_dir() as directory, elsewhere(directory, "buffer") as buffer, \
         elsewhere(directory, "once") as once, elsewhere(directory, "malloc") as chunks:
        for case, target in (("buffer", buffer), ("once", once), ("malloc", chunks)):
            check_equal(target.hear(60), "look", "what the program says")
            check_equal(not_from_malloc(doctor(target)), [], case)


def mapper(directory, kind, rate, *more):
    program = harness.build_program("tests/diagnosis/mapper.c")
    return Target([program, kind, str(rate), *more], directory, MEMCTX_MARKS=MARKS,
                  MEMCTX_CONTROL="eager")


def look_at_all(directory, *rows):
    """Starts all programs of the rows (KIND, RATE, ...) at once; returns the findings about each
    and its marks."""
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(mapper(directory, *row)) for row in rows]
        for target in targets:
            check_equal(target.hear(60), "look", "what the program says")
        return [(doctor(target), marks_of(target)) for target in targets]


@test
@in_tries
def history_of_memory_of_each_kind():
    """doctor tells growth of mappings, of the brk heap, of stacks and of shared memory by their
    marks alone, with the amount, the rate and the mapping."""
    rate = 8 << 20
    wanted = {"maps": "mappings that the program made itself now",
              "heap": r"now the brk heap, .* is in \w+-\w+ \[heap\]",
              "memfd": r"shared memory .*, is in \w+-\w+ /memfd:cache"}
    if os.path.isdir("/dev/shm"):
        wanted["tmpfs"] = r"shared memory .*, is in \w+-\w+ /dev/shm/"
    with runtime_dir() as directory:
        found = look_at_all(directory, *((kind, rate) for kind in wanted))
    for (kind, where), (findings, marks) in zip(wanted.items(), found):
        first = findings["findings"][0]
        check_equal((first["id"], first["severity"]), ("growth-not-malloc", "warning"), kind)
        check(re.search(where, first["evidence"]), first["evidence"])
        check(abs(first["growth"]["bytes_per_s"] - rate) < rate / 4, f"{kind}: {first['growth']}")
        figure = "shared_bytes" if kind in ("memfd", "tmpfs") else "private_bytes"
        grown = marks[-1]["elsewhere"][figure] - marks[0]["elsewhere"][figure]
        check(grown < first["bytes"] * 5 / 4 and first["bytes"] < grown * 5 / 4 + (4 << 20),
              f"{kind}: {first['bytes']} of {grown}")


@test
@in_tries
def history_of_stacks():
    """doctor names the caller of pthread_create if the stacks of threads grow from mark to mark."""
    with runtime_dir() as directory:
        found = look_at_all(directory, ("stacks", 4 << 20), ("unjoined", 4 << 20))
    for findings, _ in found:
        growth = not_from_malloc(findings)
        check(len(growth) == 1 and growth[0]["severity"] == "warning", growth)
        check(names(growth[0], "thread_start") and "thread stacks" in growth[0]["evidence"], growth)


@test
@in_tries
def history_of_healthy_memory_of_each_kind():
    """Buffers of fixed size that fill, a file that is read, a sawtooth, a level at random, a pool
    that reaches its size, and one chunk that fills are no warnings about memory elsewhere."""
    rate = 20 << 20
    with runtime_dir() as directory:
        path = os.path.join(directory, "file")
        with open(path, "wb") as file:
            file.truncate(512 << 20)
        rows = [("buffer", rate), ("cache", rate), ("file", rate, path), ("sawtooth", rate),
                ("breathing", rate), ("plateau", rate), ("chunk", rate)]
        for (kind, *_), (findings, _) in zip(rows, look_at_all(directory, *rows)):
            alarms = [one for one in not_from_malloc(findings) if one["severity"] != "info"]
            check_equal(alarms, [], kind)
            if kind in ("buffer", "cache", "chunk"):
                check_equal(not_from_malloc(findings), [], kind)


ROWS = {
    "php": ["php", "-r", """$kept = []; $start = microtime(true); $n = 0; $said = false;
        stream_set_blocking(STDIN, false);
        while (true) { $now = microtime(true) - $start;
            if ($now > 3 && !$said) { $said = true; echo "look\\n"; }
            for (; $n < $now * 20000; $n++) $kept[] = ["id" => $n, "name" => "user$n"];
            usleep(3000); if ($said && fgets(STDIN) === false && feof(STDIN)) break; }"""],
    "node": ["node", "-e", """const kept = [], start = Date.now(); let said = false;
        setInterval(() => { const now = (Date.now() - start) / 1000;
            if (now > 3 && !said) { said = true; console.log("look"); }
            while (kept.length < now * 12000) kept.push({ id: kept.length, list: [1, 2, "x"] }); },
            5);
        process.stdin.on("end", () => process.exit()).resume();"""],
    "ruby": ["ruby", "-e", """kept = []; said = false; start = Process.clock_gettime(1)
        until IO.select([$stdin], nil, nil, 0.003)
            now = Process.clock_gettime(1) - start
            if now > 3 && !said then said = true; puts "look"; $stdout.flush end
            kept << [kept.size, kept.size.to_s] while kept.size < now * 40000
        end"""],
}


def of_interpreter(directory, name):
    return Target([installed(name), *ROWS[name][1:]], directory, MEMCTX_MARKS=MARKS,
                  MEMCTX_CONTROL="eager")


@test
@in_tries
def history_of_php():
    """doctor tells growth of PHP's own heap by marks alone, and how to see the call paths."""
    with runtime_dir() as directory, of_interpreter(directory, "php") as target:
        check_equal(target.hear(60), "look", "what the program says")
        first = doctor(target)["findings"][0]
    check_equal((first["id"], first["severity"]), ("growth-not-malloc", "warning"), f"{first}")
    check("USE_ZEND_ALLOC=0" in first["action"], first["action"])


@test
@in_tries
def history_of_heaps_before_a_collection():
    """Growth of the own heaps of node and Ruby is told by marks alone, but as info while the heap
    may be filling before garbage is collected."""
    for name in ("node", "ruby"):
        with runtime_dir() as directory, of_interpreter(directory, name) as target:
            check_equal(target.hear(60), "look", "what the program says")
            growth = not_from_malloc(doctor(target))
        check(len(growth) == 1 and growth[0]["severity"] == "info", f"{name}: {growth}")
        check(growth[0]["sure"].startswith("open: this runtime"), growth[0]["sure"])
