# SPDX-License-Identifier: MIT
"""doctor tells a leak from memory that rises and falls with the load of a server. The tests write
marks with chosen figures into a snapshot, as shapes.py does."""
import math

from harness import check, check_equal, test
from planted import ALARMING
from shapes import KEPT, figures_of, looked, looks_of, rows


def judged(live, allocs, seconds=None):
    """Judges growth of records: `live` of them at each look, `allocs` in the interval before it,
    both in parts of the last number of live records. `seconds`: the times of the looks."""
    def set_allocs(dump, found):
        ids, made = {one["id"]: one["self"]["live_chunks"] for one in found[KEPT]}, 0
        for here, contexts in zip(allocs, looks_of(dump), strict=True):
            made += here / live[-1]
            for row in contexts:
                for figures in figures_of(row) if row["id"] in ids else ():
                    figures["allocs"] = round(made * ids[row["id"]])
                    figures["frees"] = figures["allocs"] - figures["live_chunks"]
    found, _ = looked(rows(seconds or range(1, len(live) + 1), live), change=set_allocs)
    return [(one["severity"] in ALARMING, one["title"], one["evidence"])
            for one in found if one["id"] == "growth"]


RISING = (100, 200, 300, 400, 500, 600)
UNEVEN = [300 + 20 * number + 30 * (number * 7 % 5 - 2) for number in range(25)]


@test
def load_that_rises():
    """If a path allocates more often, and its chunks live as long as before, the load grew; also if
    the load rises unevenly."""
    for live in (RISING, UNEVEN):
        found = judged(live, [3 * chunks for chunks in live])
        check_equal([(alarm, title) for alarm, title, _ in found],
                    [(False, "growth with the load")],
                    f"{found}")
        check("so the load grew" in found[0][2], found[0][2])


@test
def load_that_is_even():
    """The same growth is a leak while the load is even."""
    for live in (RISING, UNEVEN):
        found = judged(live, [3 * live[-1]] * len(live))
        check_equal([alarm for alarm, _, _ in found], [True], f"{found}")


def days(leak):
    """Four days of a load with noise; `leak`: records that stay, each sixth of a day."""
    return [400 + 300 * math.sin(number * math.pi / 3 - 1.5) + 40 * (number * 7 % 5 - 2)
            + leak * number for number in range(25)]


@test
def load_in_waves_with_noise():
    """A leak below the load of four days, which has noise on the slopes of each day, is an alarm.
    Without the leak there is none."""
    for leak in (0, 25):
        found = judged(days(leak), [4 * live for live in days(0)])
        check_equal([alarm for alarm, _, _ in found if alarm], [True] if leak else [], f"{found}")
        check(not leak or "each of its low points was higher" in found[0][2], f"{found}")


def thrice(live):
    return [3 * chunks for chunks in live]


def waves(leak):
    """Eight days of a load that falls to a tenth each day; `leak`: records that stay, each sixth of
    a day."""
    return [900 + 800 * math.sin(number * math.pi / 3 - 1.5) + leak * number
            for number in range(49)]


LONG = [100 * number for number in range(1, 12)]
LITTLE = (1000, 1080, 1160, 1240, 1320, 1400)
LATE = waves(60)[:1] + waves(60)[:-1]  # a load that the memory follows one look earlier
FOLLOWS = {  # case -> (whether the memory follows the load, live records, allocations, seconds)
    "off in one of 5 intervals": (True, RISING, thrice((100, 200, 300, 290, 500, 710))),
    "off in 2 of 5 intervals": (False, RISING, thrice((100, 200, 300, 260, 640, 600))),
    "off in 2 of 10 intervals": (True, LONG, thrice((*LONG[:6], 490, 1010, 900, 1000, 1100))),
    "off in 4 of 10 intervals": (False, LONG, thrice((*LONG[:6], 490, 1010, 620, 1280, 1100))),
    "off in many intervals of waves": (True, waves(60), [4 * chunks for chunks in LATE]),
    "a leak below waves": (False, waves(60), [20 * chunks for chunks in waves(0)]),
    "little growth": (False, LITTLE, thrice(LITTLE)),
    "chunks that live for two intervals": (False, RISING, [chunks / 2 for chunks in RISING]),
    "a short interval at the end":
        (True, (*RISING, 620), [*thrice(RISING), 186], (1, 2, 3, 4, 5, 6, 6.1)),
    "a short interval after only 4 others":
        (False, (*RISING[:5], 520), [*thrice(RISING[:5]), 156], (1, 2, 3, 4, 5, 5.1)),
    "an interval at the end that is a little shorter":
        (True, RISING, thrice(RISING), (1, 2, 3, 4, 5, 5.9)),
    # Only the intervals become longer or shorter, not the load in a second or in an interval.
    "the load of an interval alone":
        (False, LONG, thrice(LONG), [0.01 + number * number for number in range(1, 12)]),
    "the load of a second alone":
        (False, LONG, [1650] * 11, [sum(10 / part for part in range(1, number + 1))
                                    for number in range(1, 12)]),
}


@test
def load_that_explains_the_growth_or_does_not():
    """Memory follows the load only if it does so in nearly all intervals, in a second as well as in
    an interval, if it grew by half or more, and if its chunks live no longer than an interval."""
    for case, (follows, *figures) in FOLLOWS.items():
        found = judged(*figures)
        check_equal([title == "growth with the load" for _, title, _ in found], [follows],
                    f"{case}: {found}")
