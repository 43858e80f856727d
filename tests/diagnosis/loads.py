# SPDX-License-Identifier: MIT
"""doctor tells a leak from memory that rises and falls with the load of a server. The tests write
marks with chosen figures into a snapshot, as shapes.py does."""
import math

from harness import check, check_equal, test
from planted import ALARMING
from shapes import KEPT, figures_of, looked, looks_of, rows


def judged(live, allocs, seconds=None, peak=None):
    """Judges growth of records: `live` of them at each look, `allocs` in the interval before it,
    `peak` at most; all in parts of the last number of live records. `seconds`: the times of the
    looks."""
    def set_allocs(dump, found):
        ids, made = {one["id"]: one["self"]["live_chunks"] for one in found[KEPT]}, 0
        for here, contexts in zip(allocs, looks_of(dump), strict=True):
            made += here / live[-1]
            for row in contexts:
                for figures in figures_of(row) if row["id"] in ids else ():
                    figures["allocs"] = round(made * ids[row["id"]])
                    figures["frees"] = figures["allocs"] - figures["live_chunks"]
        for one in dump["contexts"]:
            if peak and one["id"] in ids:
                most = one["self"]["requested_bytes"] * peak / live[-1]
                one["self"]["peak_requested_bytes"] = round(most)
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


def made(live, churn=0):
    """Allocations of a path that frees `churn` records in each interval."""
    return [live[0], *(max(0, now - before) + churn for before, now in zip(live, live[1:]))]


FILL = [250, 500, 750, 1000]  # a cache fills, and then the program forgets records
LEAKS = FILL + [1000 + 20 * number for number in range(1, 13)]
SETTLES = [900 * (1 - math.exp(-number / 6)) + 250 * math.sin(number * math.pi / 2) + 300
           for number in range(1, 26)]
SLOTS = (400, 650, 800, 870, 905, 921, 930, 928, 935, 940, 931, 938, 942, 939, 945)
EVENLY = [1000, *range(1000, 1040, 5)]
STOPS, SLOWS = "growth that does not stop", "growth that slows down"
SHAPES_WITH_LOAD = {  # case -> (title of the finding, None: no finding; live, allocations, seconds)
    "words of a language": (SLOWS, [300 * math.sqrt(number) for number in range(1, 26)]),
    "a cache and its waves settle": (SLOWS, SETTLES),
    "a cache that is full after an interval": (SLOWS, (500, 1000, 1001, 1003, 1009, 1015), 1000),
    "slots that are filled at random": (None, SLOTS, 900),
    "waves that rose before": (None, (1, 300, 600, 900, 1100, *(
        number for low in range(1250, 1300, 10) for number in (low + 50, low)))),
    "waves with two low points":
        (None, [200 + 50 * number - 260 * (number % 5 == 4) for number in range(13)]),
    "waves of which the high points alone go on rising":
        (None, [300 + 200 * (1 - math.exp(-number / 5)) + (100 + 12 * number) * (number % 3 == 1)
                for number in range(24)]),
    "waves of which the low points alone go on rising":
        (STOPS, [600 + 500 * (1 - math.exp(-number / 4)) if number % 3 == 1 else 300 + 12 * number
                 for number in range(24)]),
    "a small but even leak": (STOPS, EVENLY, 300),
    "the last look is in a dip": (STOPS, (*range(200, 800, 50), 740)),
    "a full cache leaks": (STOPS, LEAKS),
    # The leak becomes slower, in time or with the path's own allocations.
    "a full cache leaks more and more slowly":
        (SLOWS, LEAKS, 780, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 21, 24, 27)),
    "a full cache leaks less of what it allocates": (SLOWS, LEAKS, [1000] + 9 * [400] + 6 * [1600]),
}


@test
def growth_whose_shape_tells_whether_it_stops():
    """Waves, caches that are full, and leaks below them are told apart."""
    for case, (title, live, *rest) in SHAPES_WITH_LOAD.items():
        allocs, seconds = [*rest, None, None][:2]
        if not isinstance(allocs, list):
            allocs = made(live, allocs or 0)
        found = judged(live, allocs, seconds)
        check_equal([one for _, one, _ in found], [title] if title else [], f"{case}: {found}")
        check_equal([alarm for alarm, _, _ in found], [title == STOPS] if title else [], case)


# A table that is filled and emptied every 2.7 looks, so that the looks come ever later in the wave.
EMPTIED = (10, 100, 200, 30, 130, 230, 60, 160, 260, 90, 190)


@test
def load_in_waves_of_three_looks():
    """Looks that come later in each wave than in the wave before see growth that is none. The same
    waves with a leak are an alarm."""
    for leak in (0, 40):
        live = [chunks + leak * number for number, chunks in enumerate(EMPTIED)]
        found = judged(live, [100 + leak] * len(live))
        check_equal([alarm for alarm, _, _ in found], [True] if leak else [], f"{found}")


@test
def load_that_swings_between_the_looks():
    """If chunks live for less than an interval, and the path once had far more of them than at any
    look, its growth is no alarm. If it never had more, it is one."""
    live = (500, 600, 700, 800, 900)
    for peak, alarm, title in ((1500, False, "growth that may go on"),
                               (905, True, "growth that does not stop")):
        found = judged(live, [2000] * len(live), peak=peak)
        check_equal([one[:2] for one in found], [(alarm, title)], f"{found}")
