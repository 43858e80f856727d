# SPDX-License-Identifier: MIT
"""Reads the raw file and computes what the tables show: ratios of medians to glibc."""

import csv
import dataclasses
import math
import statistics


@dataclasses.dataclass
class Cell:
    """The result of one peer on one row. `ratio` None: the peer or glibc has no result, or a run of
    the peer failed."""
    ratio: float | None = None
    low: float = 0.0   # low, high: the smallest and the largest ratio of a round
    high: float = 0.0
    median: float | None = None
    runs: int = 0
    errors: tuple = ()
    base: float | None = None  # glibc's median, if the row measures a time


class Results:
    """All runs of a raw file."""

    def __init__(self, path):
        self.head = {}
        self.runs = []
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.readlines()
        for line in lines:
            if line.startswith("# "):
                key, _, text = line[2:].rstrip("\n").partition(": ")
                self.head[key] = text
        for row in csv.DictReader(line for line in lines if not line.startswith("# ")):
            for name in ("value", "wall_s", "user_s", "system_s"):
                row[name] = float(row[name])
            for name in ("round", "peak_rss_kib", "end_rss_kib", "live_bytes"):
                row[name] = int(row.get(name) or 0)
            self.runs.append(row)
        self.peers = list(dict.fromkeys(row["peer"] for row in self.runs))
        self.rounds = 1 + max((row["round"] for row in self.runs), default=-1)

    def rows(self, group):
        """The workloads of a group, in order."""
        return list(dict.fromkeys(r["workload"] for r in self.runs if r["group"] == group))

    def measure(self, workload):
        """The measure of a row, such as "cpu"."""
        return next(r["measure"] for r in self.runs if r["workload"] == workload)

    def at_end(self, workload, peer):
        """Median of the KiB that are resident at the program's end. None: no round has read
        them."""
        seen = [r["end_rss_kib"] for r in self.runs
                if (r["workload"], r["peer"], r["result"]) == (workload, peer, "ok") and
                r["end_rss_kib"]]
        return statistics.median(seen) if seen else None

    def live_bytes(self, workload):
        """Requested bytes that are live at the program's end. 0: unknown."""
        return max((r["live_bytes"] for r in self.runs if r["workload"] == workload), default=0)

    def cell(self, workload, peer, column):
        """The figure `column` of one peer on one row, and its ratio to glibc's figure."""
        mine = [r for r in self.runs if r["workload"] == workload and r["peer"] == peer]
        base = {r["round"]: r[column] for r in self.runs
                if r["workload"] == workload and r["peer"] == "glibc" and r["result"] == "ok"}
        good = {r["round"]: r[column] for r in mine if r["result"] == "ok"}
        cell = Cell(runs=len(good),
                    errors=tuple(dict.fromkeys(r["result"] for r in mine if r["result"] != "ok")))
        if base and column == "value" and self.measure(workload) in ("wall", "cpu"):
            cell.base = statistics.median(base.values())
        if not good:
            return cell
        cell.median = statistics.median(good.values())
        # Compare only rounds that both have: heaptrack is measured in fewer rounds.
        common = [turn for turn in good if turn in base]
        if common and not cell.errors:
            cell.ratio = cell.median / statistics.median(base[turn] for turn in common)
            ratios = [good[turn] / base[turn] for turn in common]
            cell.low, cell.high = min(ratios), max(ratios)
        return cell


def geometric_mean(cells):
    """The geometric mean of the ratios. None if a cell has no ratio, so that a failed row shows."""
    ratios = [cell.ratio for cell in cells]
    if not ratios or None in ratios:
        return None
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
