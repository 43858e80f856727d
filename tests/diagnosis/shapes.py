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
    # Marks at long and at short intervals, the first of them before the leak began.
    "leak-in-uneven-intervals": (True, rows((1, 2, 3, 6, 23, 45), (10, 10, 10, 17, 76, 170))),
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
