# SPDX-License-Identifier: MIT
"""One cause is one finding, although the objects own chunks that are allocated in several ways."""
import os
import re

import harness
from harness import Target, check, check_equal, runtime_dir, test, test_named
from planted import ALARMING, command, found_at, names, pinner

FLAGS = ["-O2", "-std=c++17", "-pthread"]


def build(directory):
    """Builds the program and its library, which has no debug information; returns the program."""
    source = os.path.join(harness.ROOT, "tests/diagnosis/owners.cc")
    library, program = (os.path.join(directory, name) for name in ("libowners.so", "owners"))
    for flags in (["-DLIBRARY", "-fPIC", "-shared", "-o", library],
                  ["-g", "-o", program, library, f"-Wl,-rpath,{directory}"]):
        done = harness.run_program([os.environ.get("CXX", "g++"), *FLAGS, source, *flags],
                                   os.environ)
        check_equal(done.returncode, 0, f"compiler: {done.stderr}")
    return program


def alarms_at(argv, directory, looks, **extra):
    with Target(argv, directory, MEMCTX_CONTROL="eager", **extra) as target:
        found = found_at(target, looks)
    return found["verdict"], [one for one in found["findings"] if one["severity"] in ALARMING]


CASES = {  # case -> (function of the finding, paths of its contexts)
    "feeds": ("feed_load", 4),
    "pictures": ("picture_open", 4),
    "letters": ("letter_keep", 3),
    "waiters": ("operator()", 2),
}


def joined(case, function, paths):
    def run():
        with runtime_dir() as directory:
            verdict, alarms = alarms_at([build(directory), case], directory, 5)
        check_equal([one["id"] for one in alarms], ["growth"], f"alarms of {case}")
        check_equal(alarms[0]["contexts"], paths, "contexts")
        check(names(alarms[0], function), f"{function} is not in {alarms[0]['path']}")
        check(re.search(re.escape(function), verdict), verdict)
        return alarms[0]["function"]
    test_named(f"owners-{case}")(run)


for one_case, (culprit, contexts) in CASES.items():
    joined(one_case, culprit, contexts)


# One function of the interpreter makes nearly all of the memory, and there are three texts for two
# numbers.
SCRIPT = """
import sys
texts, numbers, made = [None] * 200000, [None] * 200000, 0
for look in range(14):
    for _ in range(3000):
        texts[made] = "text" * 200 + str(made)
        if made % 3 < 2:
            numbers[made] = made * 1.5
        made += 1
    print("look", flush=True)
    sys.stdin.readline()
"""


@test
def owners_of_a_script():
    with runtime_dir() as directory:
        verdict, alarms = alarms_at(["/usr/bin/python3", "-c", SCRIPT], directory, 6,
                                    PYTHONMALLOC="malloc")
    check_equal([one["id"] for one in alarms], ["growth"], "alarms")
    check("_PyEval_EvalFrameDefault" in verdict, verdict)


@test
def isolating_blocks_of_several_sizes_is_not_promised():
    """A call path had chunks of several sizes at different times, and freed most of them. Its holes
    are its own, so isolating it would have saved nothing."""
    with runtime_dir() as directory, Target([build(directory), "sizes"], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(60), "look", "what the program says")
        target.wait_socket()
        held = pinner(target, "part_make")
        placed = command(target, "isolate", target.pid, "--site", "part_make")
    check(held["alone_free_bytes"] > 16 << 20, f"{held}")
    check_equal((held["what_if"]["isolate_bytes"], placed["predicted_bytes"]), (None, None),
                "predicted for isolate")
