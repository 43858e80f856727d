# SPDX-License-Identifier: MIT
"""Servers whose handlers are called through a pointer: each keeps memory by one habit, or is
healthy."""
import re

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test_named
from cases import check_healthy
from planted import ALARMING, found_at, names

FLAGS = ["-O2", "-std=c++17"]


def habits(directory, *arguments):
    program = harness.build_program("tests/diagnosis/habits.cc", flags=FLAGS)
    return Target([program, *arguments], directory, MEMCTX_CONTROL="eager")


FAULTY = {  # case -> (function to blame, chunks that it leaks for each look; None: not counted)
    "errors": ("error_make", 300),
    "replies": ("get", 4000),
    "listeners": ("listeners", None),
    "trees": ("tree_build", 15000),
    "polygons": ("polygons", 6000),
    "filters": ("filter_compile", None),
    "timeouts": ("timeout_set", None),
    "actors": ("actor_make", 3000),
    "metrics": ("metric_count", 12000),
    "tasks": ("task_submit", 18000),
    "failures": ("failure_note", None),
    "buffers": ("take", 150),
    "orders": ("row_new", None),
}


def check_pasted(finding, target):
    """The command that the finding proposes next works."""
    words = finding["action"].split()
    check_equal(words[0], "memctx", "first word of the next command")
    done = run_cli(*words[1:], env=target.cli_env)
    check_equal((done.returncode, done.stderr), (0, ""), finding["action"])
    check(done.stdout, f"{finding['action']} prints nothing")


def blame(case, function, chunks):
    def run():
        with runtime_dir() as directory, habits(directory, case) as target:
            found = found_at(target, 5)
            alarms = [one for one in found["findings"] if one["severity"] in ALARMING]
            check_equal([one["id"] for one in alarms], ["growth"], "alarms")
            check_pasted(alarms[0], target)
        check(names(alarms[0], function), f"{function} is not in {alarms[0]['path']}")
        check(re.search(rf"\b{function}\b", found["verdict"]), found["verdict"])
        if chunks:
            check(f" by {4 * chunks} chunks " in alarms[0]["evidence"], alarms[0]["evidence"])
        return alarms[0]["function"]
    test_named(f"habits-{case}")(run)


for faulty_case, (culprit, leaked) in FAULTY.items():
    blame(faulty_case, culprit, leaked)


def keep_healthy(case):
    def run():
        with runtime_dir() as directory, habits(directory, case) as target:
            # buffers grow by doubling, so the first looks cannot tell them from a leak
            return check_healthy(target, 5 if case == "lines" else 1)
    test_named(f"habits-healthy-{case}")(run)


for healthy_case in ("lines", "leases", "generations", "rooms", "undo", "bytes", "baskets"):
    keep_healthy(healthy_case)


# Sessions that end after six looks. The table of the OrderedDict has places for new entries only
# behind those of the ended sessions, so the interpreter makes the table anew from time to time.
SESSIONS = """
import collections, sys, time
live, made = collections.OrderedDict(), 0
for look in range(14):
    for _ in range(2000):
        live[made] = [made, bytearray(300), "a%d" % made, "b%d" % made]
        made += 1
        if len(live) > 12000:
            live.popitem(last=False)
    time.sleep(0.1)
    print("look", flush=True)
    sys.stdin.readline()
"""


@test_named("habits-healthy-sessions-of-a-script")
def sessions_of_a_script():
    argv = ["/usr/bin/python3", "-c", SESSIONS]
    with runtime_dir() as directory, Target(argv, directory, MEMCTX_CONTROL="eager",
                                            PYTHONMALLOC="malloc") as target:
        found = found_at(target, 14)["findings"]
        alarms = [one["evidence"] for one in found if one["severity"] in ALARMING]
        check_equal(alarms, [], "alarms")
