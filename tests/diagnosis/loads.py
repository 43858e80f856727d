# SPDX-License-Identifier: MIT
"""doctor tells a leak from memory that rises and falls with the load of a server. The tests write
marks with chosen figures into a snapshot, as shapes.py does."""
import math

from harness import check, check_equal, test
from planted import ALARMING
from shapes import KEPT, figures_of, looked, looks_of, rows


def judged(live, allocs):
    """Judges growth of records: `live` of them at each look, `allocs` in the interval before it,
    both in parts of the last number of live records."""
    def set_allocs(dump, found):
        ids, made = {one["id"]: one["self"]["live_chunks"] for one in found[KEPT]}, 0
        for here, contexts in zip(allocs, looks_of(dump), strict=True):
            made += here / live[-1]
            for row in contexts:
                for figures in figures_of(row) if row["id"] in ids else ():
                    figures["allocs"] = round(made * ids[row["id"]])
                    figures["frees"] = figures["allocs"] - figures["live_chunks"]
    found, _ = looked(rows(range(1, len(live) + 1), live), change=set_allocs)
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
