# SPDX-License-Identifier: MIT
"""Registers the tests of the misuse program: how each ends, to the signal and the line."""
import re
import signal

import harness
from harness import check, check_equal, runtime_dir, test_named

IN_BLOCK = r"; block of \d+ bytes of context \d+|; in a mixed page"
IN_LARGE = r"; in a large chunk of context \d+"
EMPTY = r"; in empty memory"

# What the library must say before it aborts. None: the pointer is none of ours (or its memory went
# back to the kernel long ago), so it is ignored and counted, and the program goes on.
DOUBLE = "double free of"
INVALID = "free of an invalid pointer"
ENDINGS = {
    "double-free-small": (DOUBLE, IN_BLOCK),
    "double-free-medium": (DOUBLE, IN_BLOCK),
    "double-free-large": (DOUBLE, EMPTY),
    "double-free-huge": None,
    "double-free-later": (DOUBLE, IN_BLOCK),
    "double-free-threads": (DOUBLE, IN_BLOCK),
    "interior-small": (INVALID, IN_BLOCK),
    "interior-odd": (INVALID, IN_BLOCK),
    "interior-medium": (INVALID, IN_BLOCK),
    "interior-large": (INVALID, IN_LARGE),
    "interior-huge": None,
    "realloc-freed": (DOUBLE, IN_BLOCK),
    "stack-pointer": None,
    "global-pointer": None,
    "literal-pointer": None,
    "foreign-mapping": None,
    "unreadable-pointer": None,
    "unmapped-pointer": None,
    "noncanonical-pointer": None,
    "low-pointer": None,
    "realloc-foreign": None,
    "usable-foreign": None,
}


def expect_abort(done, words, place):
    check_equal(done.returncode, -signal.SIGABRT, f"ending ({done.stderr.strip()})")
    lines = done.stderr.splitlines()
    pointers = [line.split()[1] for line in lines if re.match("(block|free|realloc) 0x", line)]
    said = [line for line in lines if line.startswith("memctx: ")]
    check_equal(len(said), 1, f"lines of ours in {done.stderr!r}")
    wanted = f"memctx: {words} {pointers[-1]}(?:{place})"
    check(re.fullmatch(wanted, said[0]), f"the line is {said[0]!r}, want {wanted!r}")
    check_equal(len(lines), len(pointers) + 1, f"lines in {done.stderr!r}")


def expect_survival(done):
    check_equal(done.returncode, 0, f"ending ({done.stderr.strip()})")
    check(done.stdout.startswith("survived "), f"stdout: {done.stdout!r}")
    check("memctx" not in done.stderr, f"stderr: {done.stderr!r}")


def register(name, ending):
    def run():
        program = harness.build_program("tests/abuse/misuse.c")
        with runtime_dir() as directory:
            for control in ("off", "eager"):
                env = harness.preloaded_env(XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL=control)
                done = harness.run_program([program, name], env)
                if ending:
                    expect_abort(done, *ending)
                else:
                    expect_survival(done)

    test_named(f"misuse-{name}")(run)


for test_name, test_ending in ENDINGS.items():
    register(test_name, test_ending)
