#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gadfly.py DIRECTORY STOP - dumps every process that has a socket in DIRECTORY, every 20 ms, until
the file STOP exists. Prints counts of what happened.

Exit status 1: an answer was malformed, or a running process refused or did not answer. A process
may end, or exec another program, during an answer.
"""
import collections
import glob
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import Failure  # noqa: E402
from wire import Closed, Wire, constant  # noqa: E402

PERIOD_S = 0.02
NO_MEMORY = constant("WIRE_NO_MEMORY")
ANSWER_S = 30  # so long because the machine may be heavily loaded


def stopped(pid):
    """True if the process is stopped, a zombie or gone, so that it need not answer."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "TtZX"
    except OSError:
        return True


def is_out_of_mappings(pid):
    """True if the process has nearly the maximum of mappings, so that it may refuse an answer for
    lack of memory."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps, open("/proc/sys/vm/max_map_count",
                                                           encoding="ascii") as limit:
            return maps.read().count(b"\n") > int(limit.read()) * 0.9
    except OSError:
        return True


def main(directory, stop):
    done = collections.Counter()
    seen = set()
    while not os.path.exists(stop):
        began = time.monotonic()
        for path in glob.glob(os.path.join(directory, "*.sock")):
            pid = os.path.basename(path).split(".")[0]
            try:
                with Wire(path, timeout_s=ANSWER_S) as wire:
                    _, size, _ = wire.dump()
                done["dumps"] += 1
                done["bytes"] += size
                seen.add(pid)
            except (Closed, OSError):  # the process ended, or executed another program
                done["ended meanwhile"] += 1
            except Failure as failure:
                if stopped(pid):
                    done["stopped"] += 1
                    continue
                if f"got {NO_MEMORY}," in str(failure) and is_out_of_mappings(pid):
                    done["without memory for it"] += 1
                    continue
                print(f"gadfly: process {pid}: {failure}", flush=True)
                return 1
        time.sleep(max(0.0, PERIOD_S - (time.monotonic() - began)))
    print(f"gadfly: {len(seen)} processes, " +
          ", ".join(f"{count} {what}" for what, count in done.items()), flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
