# SPDX-License-Identifier: MIT
"""doctor judges growth by its shape over time. The tests write marks with chosen times and figures
into a snapshot."""
import copy
import functools
import json
import math
import os

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test, test_named
from planted import ALARMING, names
from text import labelled, verdict

KEPT, WORK = "record_keep", "request_work"


@functools.lru_cache(None)
def taken():
    """Takes a snapshot of a program that keeps records and does work; returns it and the contexts
    of both."""
    program = harness.build_program("tests/diagnosis/history.c")
    with runtime_dir() as directory, Target([program, "late"], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(60), "look", "what the program says")
        target.wait_socket()
        dump = json.loads(run_cli("dump", "--json", "-o", "/dev/stdout", target.pid,
                                  env=target.cli_env).stdout)
    functions = harness.context_names(dump)
    found = {name: [one for one in dump["contexts"] if functions[one["id"]][0] == name and
                    one["self"]["allocs"] > 0]
             for name in (KEPT, WORK)}
    check(found[KEPT] and found[WORK], f"contexts: {set(functions.values())}")
    for one in found[WORK]:  # give the work a fixed number of allocations, most of all
        for figures in (one["self"], one["total"]):
            figures["allocs"] = figures["frees"] = 1000000
    return dump, found


FIGURES = ("requested_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes")


def looks_of(dump):
    """For each look, the rows of its contexts: those of each mark, and last those of the dump."""
    return [mark["contexts"] for mark in dump["marks"]] + [dump["contexts"]]


def figures_of(row):
    """The figures of a row of looks_of: a mark has one set, a dump has a context's own and those of
    its subtree."""
    return (row["self"], row["total"]) if "self" in row else (row,)


def growth_in(found):
    """Severity and evidence of the findings about growth."""
    return [(one["severity"], one["evidence"]) for one in found if one["id"] == "growth"]


def check_alarm(found, alarming, case):
    """Checks whether one of the findings about growth is an alarm."""
    growth = growth_in(found)
    check_equal(any(severity in ALARMING for severity, _ in growth), alarming,
                f"alarm about {case}: {growth}")


def leave_out_work(dump, found):
    """Removes the contexts of the work from the marks, as a mark does that is short of room."""
    work = [one["id"] for one in found[WORK]]
    for mark in dump["marks"]:
        left = [one for one in mark["contexts"] if one["id"] in work]
        mark["contexts"] = [one for one in mark["contexts"] if one["id"] not in work]
        mark["left_out"] = {"contexts": len(left), "ids_below": 1 << 20, "most_bytes": 0,
                            **{key: sum(one[key] for one in left) for key in FIGURES}}


def keep_work(dump, found):
    """Makes the work a path that keeps a second chunk for each record."""
    kept, (work, *others) = found[KEPT][0], [one["id"] for one in found[WORK]]
    for mark in dump["marks"]:
        row = next(one for one in mark["contexts"] if one["id"] == kept["id"])
        mark["contexts"] = [one for one in mark["contexts"]
                            if one["id"] not in (work, *others)] + [{**row, "id": work}]
    for context in dump["contexts"]:
        if context["id"] in (work, *others):
            for key in FIGURES:
                value = kept["self"][key] if context["id"] == work else 0
                context["self"][key] = context["total"][key] = value


def looked(series, change=None, **ledger):
    """Runs doctor on a snapshot with a mark for each row; the last row is the present. A row is
    (seconds, bytes of records, records, work). Only the ratio of the figures to the last row's
    counts."""
    dump, found = taken()
    dump = copy.deepcopy(dump)
    *marks, last = series

    def at(context, row):
        share = {KEPT: (row[1] / last[1], row[2] / last[2], row[2] / last[2])}
        size, live, made = share[KEPT] if context in found[KEPT] else (0, 0, row[3] / last[3])
        whole = context["self"]
        allocs, chunks = round(whole["allocs"] * made), round(whole["live_chunks"] * live)
        return {"id": context["id"], "requested_bytes": round(whole["requested_bytes"] * size),
                "live_chunks": chunks,
                "allocs": allocs, "frees": allocs - chunks,
                "requested_cum_bytes": round(whole["requested_cum_bytes"] * made)}
    dump["marks"] = [{"name": f"look-{number}", "uptime_s": row[0],
                      "contexts": [at(one, row) for one in found[KEPT] + found[WORK]]}
                     for number, row in enumerate(marks)]
    if change:
        change(dump, found)
    dump["uptime_s"] = last[0]
    dump["ledger"].update(ledger)
    with runtime_dir() as directory:
        file = os.path.join(directory, "look.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(dump, out)
        done = run_cli("doctor", "--json", file)
        check_equal((done.returncode, done.stderr), (0, ""), "memctx doctor")
        return json.loads(done.stdout)["findings"], run_cli("doctor", file).stdout


def rows(seconds, sizes, work=None):
    """Rows with records of a fixed size."""
    return list(zip(seconds, sizes, sizes, work or [1 + number for number in range(len(sizes))],
                    strict=True))


def array(seconds, sizes):
    """Rows with one record, an array that is copied into a larger one. Size 0: it is not made
    yet."""
    return [(second, size, min(size, 1), second)
            for second, size in zip(seconds, sizes, strict=True)]


EVEN = (1, 2, 3, 4, 5, 6, 7, 8)
SHAPES = {  # case -> (whether doctor must raise an alarm, rows)
    "leak": (True, rows(EVEN[:5], (10, 20, 30, 40, 50))),
    "leak-in-four-looks": (True, rows(EVEN[:4], (10, 20, 30, 40))),
    # The leak grows by the clock, while the load rises or falls.
    "leak-while-the-load-rises": (True, rows(EVEN[:5], (10, 20, 30, 40, 50), (1, 2, 4, 8, 16))),
    "leak-while-the-load-falls": (True, rows(EVEN[:5], (10, 26, 38, 46, 50), (10, 26, 38, 46, 50))),
    "leak-with-pauses": (True, rows((1, 2, 6, 7, 11), (10, 20, 30, 40, 50))),
    "leak-in-bursts": (True, rows(EVEN, (10, 10, 20, 20, 30, 30, 40, 40))),
    # A queue that falls behind in bursts; the last row is in a dip.
    "queue-in-bursts": (True, rows(range(1, 16),
                                   (11, 34, 51, 74, 90, 116, 135, 149, 171, 190, 205, 228, 246, 256,
                                    253))),
    "leak-after-an-idle-start":
          (True, rows(EVEN, (10, 10, 10, 10, 20, 30, 40, 50), (1, 1, 1, 1, 20, 40, 60, 80))),
    # Marks of four hours dilute a leak of the last minutes.
    "leak-after-idle-hours": (True, rows((100, 3600, 7200, 10800, 14400, 14420, 14440, 14460,
                                          14480), (10, 10, 10, 10, 10, 20, 30, 40, 50))),
    # The program loads much at its start, is idle, and then leaks a little, not quite evenly.
    "leak-after-a-large-start": (True, rows((1, 2, 3, 4, 5), (800, 800, 900, 995, 1085))),
    # A cache that is full after three looks; from then on the program forgets some entries.
    "leak-after-a-cache-was-filled":
          (True, rows(range(1, 14), (600, 900, 1000, *range(1010, 1110, 10)))),
    # An array that doubles when it is full, and fills evenly: the next step will be at 34 s.
    "array-that-doubles":
          (True, array(range(1, 32), (1, 2, 4, 4) + 4 * (8,) + 8 * (16,) + 15 * (32,))),
    "array-that-is-made-later":
          (True, array(range(1, 34), (0, 0, 1, 2, 4, 4) + 4 * (8,) + 8 * (16,) + 15 * (32,))),
    # Memory of a garbage collector: the low points rise by chance, the high points rise much more.
    "collector": (False, rows(EVEN, (5, 12, 4, 15, 5, 20, 6.2, 21))),
    "pool-that-swings": (False, rows(range(1, 16),
                                     (20, 40, 60, 80, 100, 120, 140, 160, 163, 157, 164, 158, 165,
                                      161, 164))),
    # A cache of all keys that were asked for, also in a program that pauses.
    "keys": (False, rows(EVEN[:6], (50, 76, 92, 103, 111, 116))),
    "keys-with-pauses": (False, rows((0.4, 0.85, 1.30, 1.50), (103, 158, 196, 225))),
    "keys-after-a-long-pause": (False, rows((1, 2, 9, 10, 11), (50, 76, 92, 103, 111))),
    # The load begins shortly before the fifth look.
    "keys-after-an-idle-start": (False, rows(range(1, 10), (2, 2, 2, 2, 12, 55, 80, 91, 97),
                                             (1, 1, 1, 1, 5, 20, 40, 60, 80))),
    # Caches that fill more and more slowly, looked at for long.
    "cache-for-long": (False, rows(range(1, 17), [1000 * (1 - math.exp(-t / 6))
                                                  for t in range(1, 17)])),
    "keys-for-long": (False, rows(range(1, 17), [1000 * math.log(1 + t) for t in range(1, 17)])),
    # Caches with keys from a fixed set, of which the second holds 11 % at first, and 43 % later.
    # Its growth becomes slower by a third.
    "cache-of-a-few-keys": (False, rows(range(3, 8), [1000 * (1 - math.exp(-t / 9))
                                                      for t in range(3, 8)],
                                        range(3, 8))),
    "cache-of-a-few-keys-for-long": (False, rows(range(3, 15), [1000 * (1 - math.exp(-t / 25))
                                                                for t in range(3, 15)],
                                                 range(3, 15))),
    # Leaks in programs whose load happens to become a little lower.
    "leak-a-little-slower": (True, rows(EVEN[:5], (100, 200, 298, 392, 482))),
    "leak-slower-with-the-load": (True, rows(EVEN[:5], (100, 200, 290, 370, 440),
                                             (100, 200, 290, 370, 440))),
    # Pools that warm up, or grow to their maximum.
    "warm-up": (False, rows((0.1, 0.5, 0.9, 1.0), (16, 24, 28, 30))),
    "pool-nearly-full": (False, rows(EVEN[:4], (20, 40, 60, 64))),
    # Tables whose slots are filled at random; the first is looked at only four times.
    "slots-in-four-looks": (False, rows(EVEN[:4], (487, 899, 1268, 1569))),
    "slots-with-chance": (False, rows(EVEN, (119, 236, 312, 367, 420, 439, 467, 475))),
    # A pool that warms up, with chance in each interval.
    "warm-up-with-chance": (False, rows(EVEN[:4], (247, 317, 330, 351))),
    # A queue of at most five batches, each of about as many chunks.
    "batches": (False, rows(EVEN, (43, 37, 40, 43, 80, 74, 82, 82))),
    # Arrays whose next step is overdue, or comes later each time than even growth would explain.
    "array-full": (False, array(range(1, 32), (1, 2, 4, 4) + 4 * (8,) + 23 * (16,))),
    "array-of-keys": (False, array(range(1, 41), (1, 2, 2) + 8 * (4,) + 24 * (8,) + 5 * (16,))),
    "pool-full": (False, rows(EVEN[:6], (20, 40, 60, 64, 64, 64))),
}


def judge(case, alarming, series):
    def run():
        found, _ = looked(series)
        growth = [one for one in found if one["id"] == "growth"]
        alarms = [(one["severity"], one["evidence"])
                  for one in growth if one["severity"] in ALARMING]
        if not alarming:
            check(not alarms, f"alarms: {alarms}")
            return
        check(alarms, f"no alarm: {[(one['severity'], one['evidence']) for one in growth]}")
        check(names(growth[0], KEPT), f"path: {growth[0]['path']}")
        rises = all(before[1] < after[1] for before, after in zip(series, series[1:]))
        intervals = len(series) - 1
        said = f"grew over {intervals} intervals, with pauses or small dips"
        if case.startswith("array"):
            said = "grew in steps, each by a quarter or more"
        elif rises:
            said = f"grew in each of {intervals} intervals"
        if case.endswith("was-filled"):
            said = "grew fast at first, and then evenly in each of the last 10 intervals: by"
        check(said in growth[0]["evidence"], growth[0]["evidence"])
    test_named(f"shape-{case}")(run)


for shape, (alarm, figures) in SHAPES.items():
    judge(shape, alarm, figures)


@test
def shape_leak_with_a_mark_at_the_look():
    """A mark just before the look is left out, because growth seems to stop there. An interval as
    short, or without work, is judged if it is not both."""
    steady = rows(EVEN[:5], (10, 20, 30, 40, 50))
    for after_s in (0.1, 1.9):
        found, _ = looked(steady + [(5 + after_s, 50, 50, 5)])
        check_equal([one["severity"] in ALARMING for one in found if one["id"] == "growth"], [True],
                    f"{after_s} s after the mark: {found}")
        check("grew in each of 4 intervals" in found[0]["evidence"], found[0]["evidence"])
    hourly = [(3600 * second, *figures) for second, *figures in steady]
    found, _ = looked(hourly + [(18200, 50, 50, 5.01)])
    check("grew in each of 4 intervals" in found[0]["evidence"], found[0]["evidence"])
    for last in ((5.1, 50, 50, 6), (8, 50, 50, 5)):
        found, _ = looked(steady + [last])
        check("grew over 5 intervals, with pauses" in found[0]["evidence"], f"{last}: {found}")
    found, _ = looked(SHAPES["keys"][1] + [(6.1, 116, 116, 6)])
    alarms = [one["evidence"] for one in found if one["severity"] in ALARMING]
    check_equal(alarms, [], "alarms of a cache that fills")


@test
def shape_leak_with_two_marks_at_one_time():
    """Two marks that a script sets one behind the other count as one: growth seems to pause between
    them. A pause of 2 s or of a sixteenth of the interval before is judged."""
    def evidence_of(seconds):
        found, _ = looked(rows(seconds, *(2 * [[int(second) for second in seconds]])))
        return [one["evidence"] for one in found
                if one["id"] == "growth" and one["severity"] in ALARMING]
    for seconds in ((10, 700, 700.01, 2000, 2020, 2040, 2060, 2080, 2100),  # in the middle
                    (10, 700, 700.01, 700.02, 700.03, 2000, 2020, 2040, 2060, 2080, 2100),
                    (10, 10.01, 300, 600, 620, 640, 660),  # the first marks
                    (10, 300, 600, 620, 640, 660, 660.01, 670)):  # the last marks
        intervals = len({int(second) for second in seconds}) - 1
        found = evidence_of(seconds)
        check(found and f"grew in each of {intervals} intervals" in found[0], f"{seconds}: {found}")
    found = evidence_of((10, 20, 30, 30.9, 40, 50, 60))
    check(not found or "with pauses" in found[0], f"a pause: {found}")


@test
def shape_too_few_marks_of_which_some_are_not_counted():
    """Doctor says that it counts two marks once which were set one behind the other: otherwise its
    number of marks seems wrong to the user who set them."""
    left_out = "set directly before another one or just now"
    for seconds, told in (
            ((10, 700, 1400), "2 marks: too few"),
            ((10, 700, 700.01, 1400), f"2 marks (1 more, {left_out}, is not counted): too few"),
            ((10, 700, 700.01, 700.02, 1400, 1400.01),
             f"2 marks (3 more, {left_out}, are not counted): too few")):
        _, text = looked(rows(seconds, *(2 * [[int(second) for second in seconds]])))
        text = " ".join(text.split())
        check(f"{told} to find leaks" in text, f"{seconds}: {text[-400:]}")


@test
def shape_leak_of_little_in_a_large_process():
    """Growth by 1/50000 of the resident set is no alarm after a short time."""
    found, _ = looked(SHAPES["leak"][1], rss_bytes=200 << 30)
    alarms = [(one["severity"], one["evidence"]) for one in found if one["severity"] in ALARMING]
    check_equal(alarms, [], "alarms")


def come_and_go(dump, found):
    """Makes 1000 records come and go between two marks."""
    for number, rows in enumerate(looks_of(dump)):
        row = next(one for one in rows if one["id"] == found[KEPT][0]["id"])
        for figures in figures_of(row):
            figures["allocs"] += 1000 * number
            figures["frees"] += 1000 * number


def reset_last(dump, found):
    """Lowers the counts of allocations, as memctx reset does between the last mark and the dump."""
    for context in dump["contexts"]:
        for figures in (context["self"], context["total"]):
            figures["allocs"], figures["frees"] = figures["allocs"] // 1000, 0


@test
def shape_leak_with_a_reset():
    """If the counters were reset in between, an even leak is an alarm, and a cache that fills is
    none."""
    for case, alarming in (("leak", True), ("keys", False)):
        found, _ = looked(SHAPES[case][1], change=reset_last)
        check_alarm(found, alarming, case)


def in_module(path, mib, size=400):
    """Returns a change that puts the records, and the wrappers and functions around them, into a
    module of that path. At the end there are `mib` MiB of records of `size` bytes."""
    def change(dump, found):
        kept = [one["id"] for one in found[KEPT]]
        old = dump["exe"]
        whole = sum(one["self"]["requested_bytes"] for one in found[KEPT])
        for module in dump["modules"]:
            module["path"] = path if module["path"] == old else module["path"]
        for context in dump["contexts"]:
            if context["frame"] and context["frame"].get("module") == old:
                context["frame"]["module"] = path
        for rows_of in looks_of(dump):
            for row in (row for row in rows_of if row["id"] in kept):
                for figures in figures_of(row):
                    taken_bytes = figures["requested_bytes"] * (mib << 20) // whole
                    figures.update(requested_bytes=taken_bytes, live_chunks=taken_bytes // size,
                                   allocs=taken_bytes // size)
    return change


def thrice(dump, found):
    """Makes the path of the records allocate three chunks for each one that stays."""
    for rows_of in looks_of(dump):
        for row in (row for row in rows_of if row["id"] == found[KEPT][0]["id"]):
            for figures in figures_of(row):
                figures["allocs"] = 3 * figures["live_chunks"]
                figures["frees"] = 2 * figures["live_chunks"]


@test
def shape_one_of_three_chunks_stays():
    """A cache whose entries cost two short-lived chunks each grows evenly for each of its own
    allocations, also when it fills more and more slowly. A leak with such chunks is an alarm."""
    for sizes, alarming in (([1000 * (1 - math.exp(-t / 6)) for t in range(1, 17)], False),
                            (range(10, 170, 10), True)):
        found, _ = looked(rows(range(1, 17), sizes), change=thrice)
        growth = growth_in(found)
        check("one of 3 chunks stays" in growth[0][1], f"{growth}")
        check_alarm(found, alarming, sizes)


@test
def shape_growth_that_may_be_a_cache_says_so():
    """Even growth of which nothing was freed is no critical finding in the first ten minutes; the
    finding says when to look again. If a part of the chunks was freed, it is critical."""
    def found_of(step, change=None):
        found, _ = looked(rows([step * second for second in EVEN[:5]], (10, 20, 30, 40, 50)),
                          change=change, rss_bytes=20 << 20)
        return found[0]["severity"], found[0]["evidence"]

    def much(dump, found):
        in_module("/opt/server", 40)(dump, found)

    def much_thrice(dump, found):
        much(dump, found)
        thrice(dump, found)
    severity, evidence = found_of(1, much)
    check_equal(severity, "warning", evidence)
    check("look again in 60.0 s: by then a cache, or data that the program " in evidence, evidence)
    for step, change in ((200, much), (1, much_thrice)):
        severity, evidence = found_of(step, change)
        check_equal(severity, "critical", evidence)
        check("look again" not in evidence, evidence)


@test
def shape_garbage_of_runtimes():
    """Growth by no more than a runtime may leave as garbage is no alarm. More growth is one, and so
    is growth in a program that only has such a name."""
    tenfold, little = (10, 20, 30, 40, 50), (100, 102, 104, 106, 108)
    for path, sizes, mib, alarming in (
            ("/usr/bin/python3.11", tenfold, 4, False), ("/usr/bin/python3.11", tenfold, 10, True),
            ("/usr/bin/python3.11", little, 108, False), ("/usr/bin/python3", little, 270, True),
            ("/usr/lib/libpython3.11.so.1.0", tenfold, 4, False),
            ("/usr/bin/pythonize", tenfold, 4, True), ("/usr/bin/lua5.4", tenfold, 4, True),
            ("/usr/bin/lua5.4", (10, 13, 15, 17, 19), 50, False),
            ("/usr/lib/libruby-3.1.so.3.1", tenfold, 10, False),
            ("/usr/lib/libruby-3.1.so.3.1", tenfold, 40, True),
            ("/usr/bin/php8.2", tenfold, 8, False), ("/usr/bin/php8.2", tenfold, 12, True),
            ("/usr/bin/node", tenfold, 4, False), ("/usr/bin/node_exporter", tenfold, 4, True)):
        growth = [one for one in looked(rows(EVEN[:5], sizes), change=in_module(path, mib))[0]
                  if one["id"] == "growth"]
        check(growth, f"{path}, {mib} MiB: no growth")
        check_equal(growth[0]["severity"] in ALARMING, alarming, f"{path}, {mib} MiB: {growth}")
        if not alarming:
            check_equal(growth[0]["title"], "growth that may go on", f"{path}")
            check(growth[0]["sure"].startswith("open: ") and
                  "garbage" in growth[0]["sure"], growth[0]["sure"])
    found, _ = looked(rows(EVEN[:5], tenfold), change=in_module("/usr/bin/python3", 4, 20000))
    check(found[0]["severity"] in ALARMING, f"large buffers are no garbage: {found[0]}")
    for pause_s, alarming in ((60, False), (300, True)):
        times = [pause_s * number for number in range(1, 15)]
        found, _ = looked(rows(times, range(10, 150, 10)), change=in_module("/usr/bin/python3", 4))
        check_equal(found[0]["severity"] in ALARMING, alarming, f"{pause_s} s: {found[0]}")


def copied(dump, found):
    """Makes each larger array a new chunk; the old one is freed."""
    before, allocs = 0, 0
    for rows_of in [*(mark["contexts"] for mark in dump["marks"]), dump["contexts"]]:
        for row in (row for row in rows_of if row["id"] == found[KEPT][0]["id"]):
            each = (row["self"], row["total"]) if "self" in row else (row,)
            allocs += each[0]["requested_bytes"] > before
            before = each[0]["requested_bytes"]
            for figures in each:
                figures.update(live_chunks=1, allocs=allocs, frees=allocs - 1)


@test
def shape_table_with_three_steps():
    """A table that has become larger three times is no alarm yet: now it may have room for all that
    the program will ever add."""
    for looks_of in ((4, 3, 5, 4), (2, 4, 6, 4), (5, 4, 4, 3), (6, 5, 4, 3)):
        sizes = [1 << step for step, count in enumerate(looks_of) for _ in range(count)]
        found, _ = looked(array(range(1, len(sizes) + 1), sizes), change=copied)
        growth = [(one["severity"], one["evidence"]) for one in found if one["id"] == "growth"]
        check(growth and "grew in steps, each by a quarter or more" in growth[0][1], f"{growth}")
        check_equal([one for one in growth if one[0] in ALARMING], [], f"{looks_of}: alarms")


def with_buffers(dump, found):
    """Puts the records into node, and makes the work buffers of JavaScript, of 8 MiB now."""
    in_module("/usr/bin/node", 2)(dump, found)
    work = [one["id"] for one in found[WORK]]
    for context in dump["contexts"]:
        if context["id"] in work:
            context["frame"]["function"] = "v8::internal::BackingStore::Allocate"
    mib = (1, 9, 3, 7, 8)
    for bytes_of, rows_of in zip(mib, [*(mark["contexts"] for mark in dump["marks"]),
                                       dump["contexts"]], strict=True):
        for row in (row for row in rows_of if row["id"] == work[0]):
            for figures in (row["self"], row["total"]) if "self" in row else (row,):
                figures.update(requested_bytes=bytes_of << 20, live_chunks=bytes_of << 6)


@test
def shape_garbage_beside_buffers():
    """Objects of JavaScript may be garbage, however many buffers there are now."""
    found, _ = looked(rows(EVEN[:5], (10, 20, 30, 40, 50)), change=with_buffers)
    growth = [one for one in found if one["id"] == "growth"]
    check(growth and names(growth[0], KEPT), f"growth: {[one['path'] for one in growth]}")
    check_equal([one["evidence"] for one in growth if one["severity"] in ALARMING], [], "alarms")
    check("objects of JavaScript" in growth[0]["evidence"], growth[0]["evidence"])


@test
def shape_growth_in_few_intervals():
    """Growth in each interval, but nearly all of it in two, is no alarm: a queue of few batches
    grows like that. A leak before a large rise is one."""
    for sizes, alarming in (((129, 258, 262, 391), False), ((10, 20, 30, 40, 900), True)):
        found, _ = looked(rows(range(1, len(sizes) + 1), sizes))
        growth = [one for one in found if one["id"] == "growth"]
        check(growth, f"{sizes}: no growth")
        check_equal(growth[0]["severity"] in ALARMING, alarming, f"{sizes}: {growth}")
        check(alarming or growth[0]["sure"].startswith("open: nearly all of the growth was in "),
              growth[0]["sure"])


@test
def shape_slots_that_a_program_without_other_work_fills():
    """Slots that are filled and replaced at random, while the program allocates nothing else, are
    no leak, although times are uneven. As many chunks that all stay are one."""
    live = (300, 555, 773, 955)
    for replaced, alarming in ((True, False), (False, True)):
        def change(dump, found, replaced=replaced):
            kept, work = found[KEPT][0]["id"], [one["id"] for one in found[WORK]]
            for number, rows_of in enumerate(looks_of(dump)):
                chunks = live[number] if replaced else 300 + 300 * number
                allocs = 364 * (number + 1) if replaced else chunks
                for row in (row for row in rows_of if row["id"] in (kept, *work)):
                    for figures in figures_of(row):
                        if row["id"] == kept:
                            figures.update(live_chunks=chunks, allocs=allocs,
                                           frees=allocs - chunks, requested_bytes=1651 * chunks)
                        else:
                            figures.update(live_chunks=0, allocs=number, frees=number,
                                           requested_bytes=0)
        found, _ = looked(rows((1.9, 3.0, 4.2, 4.9), (1, 2, 3, 4)), change=change)
        check_alarm(found, alarming, replaced)


@test
def shape_few_frames():
    """A path that keeps one to four buffers of two sizes, and replaces one or two between looks,
    does not leak. A path whose chunks all stay leaks, although it has as many."""
    for made, alarming in ((True, False), (False, True)):
        def change(dump, found, made=made):
            kept, chunks = found[KEPT][0]["id"], (1, 2, 2, 3, 3, 3, 4)
            for number, rows_of in enumerate(looks_of(dump)):
                row = next(one for one in rows_of if one["id"] == kept)
                for figures in figures_of(row):
                    live = chunks[number]
                    allocs = 10 + 2 * number if made else live
                    figures.update(live_chunks=live, allocs=allocs, frees=allocs - live,
                                   requested_bytes=(6 * live - (number in (2, 4))) << 20)
        found, _ = looked(rows(EVEN[:7], range(1, 8)), change=change)
        check_alarm(found, alarming, made)


def many_threads(dump, found):
    """Gives the dump 33 threads besides those that have exited, a GiB of free memory in mixed
    pages, and counts of remote frees: those of exited threads stand in two records of one pair."""
    dump.pop("pages", None)
    dump["threads"] = [{"tid": number, "name": f"worker-{number}" if number else "exited"}
                       for number in range(34)]
    dump["ledger"].update(mixed_reserved=dump["ledger"]["mixed_block_bytes"] + (1 << 30),
                          rss_bytes=2 << 30)
    frees = [(0, 7, 600000), (8, 9, 1000000), (0, 7, 600000)]
    dump["remote_frees"] = [dict(zip(("freed_by", "owner", "frees"), row)) for row in frees]
    for one in found[WORK]:
        row = next(context for context in dump["contexts"] if context["id"] == one["id"])
        row["threads"] = {"8": dict.fromkeys(row["self"], 0) | {"frees": 1000000}}


@test
def shape_threads_that_have_exited():
    """Threads that have exited are one entry of a dump: it is not counted as a thread, and has no
    number in the text."""
    told = {one["id"]: one["evidence"] for one in looked(SHAPES["leak"][1], change=many_threads)[0]}
    check(told["thread-memory"].startswith("33 threads have mixed pages"), told["thread-memory"])
    check(told["remote-frees"].endswith("most frees for another thread are by threads that have "
                                        "exited: 1200000 chunks in pages of thread 7 "
                                        "(worker-7)"), told["remote-frees"])


@test
def shape_records_that_come_and_go():
    """A number of records that varies by chance is no growth, even if it is larger each time; an
    even rise of as many records is growth."""
    for alarming, counts in ((False, (9000, 9002, 9035, 9040, 9060)),
                             (True, (9000, 9015, 9030, 9045, 9060))):
        found, _ = looked(rows(EVEN[:5], counts), change=come_and_go)
        check_alarm(found, alarming, counts)


def replace(dump, found):
    """Gives the kept records as many allocations in each interval; those that do not add a record
    replace one."""
    kept = found[KEPT][0]["id"]
    last = next(one for one in dump["contexts"] if one["id"] == kept)["self"]["live_chunks"]
    for number, rows in enumerate(looks_of(dump)):
        row = next(one for one in rows if one["id"] == kept)
        for figures in figures_of(row):
            figures["allocs"] = last * number // 2 + last // 100
            figures["frees"] = figures["allocs"] - figures["live_chunks"]


@test
def shape_slots_that_are_filled_at_random():
    """A table of which ever more slots are in use is no alarm, if chance makes it grow a little
    more in the last interval than in the one before; a leak beside a table that is full is one."""
    seconds = (1, 2, 6, 7, 11, 16, 21)
    for alarming, sizes in ((False, (1, 207, 312, 390, 442, 458, 492)),
                            (True, (1, 207, 237, 261, 291, 315, 345))):
        found, _ = looked(rows(seconds, sizes), change=replace)
        check_alarm(found, alarming, sizes)


def small_chunks_go(dump, found):
    """Makes the work free a chunk of one byte for each record that is kept."""
    kept, work = found[KEPT][0]["id"], found[WORK][0]["id"]
    last = next(one for one in dump["contexts"] if one["id"] == kept)["self"]["live_chunks"]
    for rows in looks_of(dump):
        live = {row["id"]: row.get("self", row)["live_chunks"] for row in rows}
        row = next(one for one in rows if one["id"] == work)
        for figures in figures_of(row):
            figures["live_chunks"] = figures["requested_bytes"] = last - live[kept] + 100
            figures["frees"] = figures["allocs"] - figures["live_chunks"]


@test
def shape_small_chunks_that_go_as_large_ones_come():
    """A program that frees a small chunk for each large one that it keeps grows."""
    found, _ = looked(SHAPES["leak"][1], change=small_chunks_go)
    growth = [one for one in found if one["id"] == "growth" and one["severity"] in ALARMING]
    check(growth and names(growth[0], KEPT),
          f"{[(one['id'], one['severity'], one['evidence']) for one in found]}")


def number_chunks(dump, found):
    """Sets the chunks of the kept record: 1000 at first, and one more at each rise of its bytes."""
    kept, chunks, before = found[KEPT][0]["id"], 1000, 0
    for rows in looks_of(dump):
        row = next(one for one in rows if one["id"] == kept)
        for figures in figures_of(row):
            chunks += figures["requested_bytes"] > before > 0
            before = figures["requested_bytes"]
            figures["live_chunks"], figures["allocs"], figures["frees"] = chunks, chunks + 50, 50


@test
def shape_arena():
    """An arena, which takes one ever larger chunk when it is full, grows. A pool that takes chunks
    of one size at equal times may have a bound: it is no alarm."""
    arena = (8, 8, 12, 12, 12, 18, 18, 18, 18, 27, 27, 27, 27, 27, 27)
    for length in (15, 10):  # at the end of the shorter one, the arena has just grown
        found = looked(array(range(1, length + 1), arena[:length]), change=number_chunks)[0]
        growth = [one for one in found if one["id"] == "growth"]
        check(growth and names(growth[0], KEPT), f"{length}: {growth}")
        if length == 15:
            evidence = growth[0]["evidence"]
            check("grew in steps, each by a quarter or more" in evidence and
                  "; it is an arena, " in evidence, evidence)
    pool = [1 + number // 3 for number in range(15)]
    growth = [one for one in looked(array(range(1, 16), pool), change=number_chunks)[0]
              if one["id"] == "growth"]
    check(not [one for one in growth if "grew in steps" in one["evidence"]], f"{growth}")


@test
def shape_words_for_doubtful_growth():
    """If growth slows down, or was seen in one interval only, the text does not say that it does
    not stop."""
    text = looked(SHAPES["keys"][1])[1]
    check("1. info: growth that slows down, " in text and
          ", which slows down (record_keep" in verdict(text), text)
    check(labelled(text, 1, "why").startswith("A cache that fills grows like this"), text)
    check("1. info: growth that may go on, " in looked(rows((1, 2), (10, 20)))[1], "one interval")


@test
def shape_cache_whose_entries_have_two_chunks():
    """A cache whose entries have two chunks of different paths is no alarm: the second path's
    allocations are not taken for a load."""
    growth = growth_in(looked(SHAPES["keys"][1], change=keep_work)[0])
    check(growth and not [one for one in growth if one[0] in ALARMING], f"growth: {growth}")


def beside_falling(shares, wrapped=False):
    """Returns a change that gives the work the site of the records, and at each look a share of the
    bytes that the records have in the end. `wrapped`: a wrapper of malloc is the site of both."""
    def change(dump, found):
        contexts = {one["id"]: one for one in dump["contexts"]}
        kept, work = contexts[found[KEPT][0]["id"]], contexts[found[WORK][0]["id"]]
        size, chunks = kept["self"]["requested_bytes"], kept["self"]["live_chunks"]
        site = kept["frame"]
        new = {}
        for one in (kept, work) if wrapped else ():
            new[one["id"]] = len(contexts) + 100 + len(new)
            dump["contexts"].append({**copy.deepcopy(one), "id": new[one["id"]],
                                     "parent": one["id"], "frame": {**site, "function": "xmalloc"}})
            one["self"] = dict.fromkeys(one["self"], 0)
        if not wrapped:
            work["frame"] = site
        for share, rows in zip(shares, looks_of(dump), strict=True):
            for row in rows if rows is not dump["contexts"] else ():
                row["id"] = new.get(row["id"], row["id"])
            row = next(one for one in rows if one["id"] == new.get(work["id"], work["id"]))
            for figures in figures_of(row):
                figures["requested_bytes"] = round(size * share)
                figures["live_chunks"] = round(chunks * share)
                figures["frees"] = figures["allocs"] - figures["live_chunks"]
    return change


@test
def shape_leak_beside_memory_that_was_freed():
    """A leak is an alarm also if other memory of its site was freed once. If paths of the site lose
    half as much in each interval, their entries are replaced, and the growth is no leak. Paths that
    only share a wrapper of malloc have different sites."""
    once, always = (0.6, 0, 0, 0, 0), (0.65, 0.53, 0.41, 0.29, 0.17)
    for shares, wrapped, alarming in ((once, False, True), (always, False, False),
                                      (always, True, True)):
        found, _ = looked(SHAPES["leak"][1], change=beside_falling(shares, wrapped))
        check_alarm(found, alarming, f"{shares}, {wrapped}")


@test
def shape_cache_that_is_filled_and_then_replaced():
    """A cache is filled during the first half of the looks, while a second path replaces entries.
    In the second half, the second path grows by what the first one loses, and the cache as a whole
    does not grow. A path that grows by twice as much leaks."""
    for alarming, filled in ((False, (0, 0.3, 0.6, 0.4, 0.2)), (True, (0, 0.3, 0.6, 0.5, 0.4))):
        found, _ = looked(SHAPES["leak"][1], change=beside_falling(filled))
        check_alarm(found, alarming, filled)


@test
def shape_leak_of_as_many_chunks_as_a_cache_replaces():
    """A request replaces an entry of a cache, from another line than the entry was made at, and
    leaks a small chunk. The leak is an alarm, although as many chunks were freed: the new entries
    replaced these."""
    def change(dump, found):
        kept, work = found[KEPT][0]["id"], found[WORK][0]
        dump["contexts"].append({**copy.deepcopy(work), "id": 1 << 19,
                                 "frame": {**work["frame"], **{key: hex(int(work["frame"][key],
                                                                            16) + 1)
                                                               for key in ("addr", "offset")}}})
        last = next(one for one in dump["contexts"] if one["id"] == kept)["self"]["live_chunks"]
        for rows in looks_of(dump):
            live = next(row.get("self", row)["live_chunks"] for row in rows if row["id"] == kept)
            if rows is not dump["contexts"]:
                rows.append({**next(row for row in rows if row["id"] == work["id"]), "id": 1 << 19})
            for row in (row for row in rows if row["id"] in (work["id"], 1 << 19)):
                for figures in figures_of(row):
                    figures["live_chunks"] = live if row["id"] == 1 << 19 else last - live + 100
                    figures["requested_bytes"] = 9000 * figures["live_chunks"]
                    figures["frees"] = figures["allocs"] - figures["live_chunks"]
    found, _ = looked(SHAPES["leak"][1], change=change)
    growth = [one for one in found if one["id"] == "growth" and one["severity"] in ALARMING]
    check_equal([names(one, KEPT) for one in growth], [True],
                f"{[(one['severity'], one['evidence'], one['path'][:2]) for one in found]}")


@test
def shape_leak_in_marks_that_are_short_of_room():
    """A leak is an alarm also if the marks left out the contexts of the load: their allocations
    count as load."""
    found, _ = looked(SHAPES["leak-while-the-load-falls"][1], change=leave_out_work)
    growth = growth_in(found)
    check(growth and growth[0][0] in ALARMING, f"no alarm: {growth}")


@test
def shape_uneven():
    """Uneven growth is told without a rate and without a time at which memory is used up."""
    sizes = [5 + number + (80 if number > 13 else 0) for number in range(20)]
    found, text = looked(rows([0.1 + number / 10 for number in range(20)], sizes))
    growth = [one for one in found if one["id"] == "growth"]
    check(growth and names(growth[0], KEPT), f"found: {found}")
    check(not growth[0]["growth"] and not growth[0]["out"],
          f"made up: {growth[0]['growth']} {growth[0]['out']}")
    check(not labelled(text, 1, "out") and labelled(text, 1, "since").startswith("at least 1.9 s"),
          text)
    check("growth of " in verdict(text) and " in 1.9 s (record_keep" in verdict(text), text)


@test
def shape_larger_chunks():
    """If bytes grow and the number of chunks hardly does, the finding says that the chunks are
    larger."""
    found, _ = looked([(second, size, 1000 + second, second)
                       for second, size in zip(EVEN, (10, 20, 30, 40, 50))])
    evidence = next(one["evidence"] for one in found if one["id"] == "growth")
    check("the number of chunks hardly grew, so the chunks are larger" in evidence, evidence)
