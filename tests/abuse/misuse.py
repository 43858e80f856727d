# SPDX-License-Identifier: MIT
"""Tests of misuse (double free, overflow, ...): the signal that ends the program, and its
message."""
import re
import signal

import harness
from harness import check, check_equal, runtime_dir, test_named

IN_BLOCK = r"; block of \d+ bytes of context \d+"
IN_LARGE = r"; in a large chunk of context \d+"
EMPTY = r"; in empty memory"

# The message before the library aborts. None: the pointer is of another allocator, or its memory
# went back to the kernel, so the library ignores and counts it, and the program goes on.
DOUBLE = "double free of"
INVALID = "free of an invalid pointer"
OVERFLOW = "write past the end of"
WRITTEN = "write into freed memory at"
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
    "interior-of-aligned": (INVALID, IN_BLOCK),
    "in-the-headers": (DOUBLE, EMPTY),
    "realloc-freed": (DOUBLE, IN_BLOCK),
    "realloc-freed-stays": (DOUBLE, IN_BLOCK),
    "realloc-freed-wide": (DOUBLE, IN_BLOCK),
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
RULED_ENDINGS = {  # the rule for the path that allocates, and the ending
    "interior-zeroed": ("zero", INVALID, IN_BLOCK),
    "interior-zeroed-odd": ("zero", INVALID, IN_BLOCK),
    "interior-zeroed-threads": ("zero", INVALID, IN_BLOCK),
    "double-free-rewound": ("generation,own", DOUBLE, r" of context \d+"),
}
CHECKED_ENDINGS = {  # with MEMCTX_CHECK=1
    "checked-realloc-freed": (DOUBLE, IN_BLOCK),
    "overflow-small": (OVERFLOW, IN_BLOCK),
    "overflow-nothing": (OVERFLOW, IN_BLOCK),
    "overflow-whole-block": (OVERFLOW, IN_BLOCK),
    "overflow-medium": (OVERFLOW, IN_BLOCK),
    "overflow-large": (OVERFLOW, IN_LARGE),
    "overflow-huge": (OVERFLOW, IN_LARGE),
    "overflow-far": (OVERFLOW, IN_BLOCK),
    "overflow-realloc": (OVERFLOW, IN_BLOCK),
    "overflow-threads": (OVERFLOW, IN_BLOCK),
    "write-after-free-small": (WRITTEN, IN_BLOCK),
    "write-after-free-medium": (WRITTEN, IN_BLOCK),
    "write-after-free-begin": (WRITTEN, IN_BLOCK),
}


def function_names(lines):
    """The functions of the lines "memctx: FILE+OFFSET" in the test's program, by addr2line."""
    names = []
    for line in lines:
        found = re.fullmatch(r"memctx:     (/.*)\+(0x[0-9a-f]+)", line)
        check(found, f"a frame is {line!r}")
        if found.group(1).endswith("/misuse"):
            done = harness.run_program(["addr2line", "-fe", *found.groups()], harness.clean_env())
            names.append(done.stdout.splitlines()[0])
    return names


def expect_abort(done, name, words, place):
    check_equal(done.returncode, -signal.SIGABRT, f"ending ({done.stderr.strip()})")
    lines = done.stderr.splitlines()
    pointers = [line.split()[1] for line in lines if re.match("(block|free|realloc) 0x", line)]
    said = [line for line in lines if line.startswith("memctx: ")]
    wanted = f"memctx: {words} {pointers[-1]}(?:{place})"
    check(re.fullmatch(wanted, said[0]), f"the line is {said[0]!r}, want {wanted!r}")
    check_equal(len(lines), len(pointers) + len(said), f"lines in {done.stderr!r}")
    function = name.replace("-", "_")
    caller = said.index("memctx:   found by" if words in (OVERFLOW, WRITTEN)
                        else "memctx:   misused by")
    if place != EMPTY:  # the message names the path that allocated the chunk
        check_equal(said[1], "memctx:   allocated by", "the second line")
        names = function_names(said[2:caller])
        check(names[0] in ("make", "write_after_free", function) and names[-1] == "_start",
              f"the path that allocated: {names}")
        check(function in names, f"{function} is not on the path that allocated: {names}")
    else:
        check_equal(caller, 1, "line of the path that misused")
    names = function_names(said[caller + 1:-1])
    check(names[0] in ("misuse_free", "free_it", "write_after_free", function),
          f"the path that misused begins with {names[0]}")
    if not name.endswith("-threads"):
        check(function in names and names[-1] == "_start",
              f"{function} is not on the path that misused: {names}")
    check(said[-1].startswith("memctx:   names: addr2line "), f"the last line is {said[-1]!r}")


def expect_survival(done):
    check_equal(done.returncode, 0, f"ending ({done.stderr.strip()})")
    check(done.stdout.startswith("survived "), f"stdout: {done.stdout!r}")
    check("memctx" not in done.stderr, f"stderr: {done.stderr!r}")


def register(name, ending, **extra):
    def run():
        program = harness.build_program("tests/abuse/misuse.c")
        with runtime_dir() as directory:
            for settings in ({"MEMCTX_CONTROL": "off"}, {"MEMCTX_CONTROL": "eager"},
                             # each context has its own pages
                             {"MEMCTX_CONTROL": "off", "MEMCTX_PROMOTE_BYTES": "0"}):
                env = harness.preloaded_env(XDG_RUNTIME_DIR=directory, **settings, **extra)
                done = harness.run_program([program, name], env)
                if ending:
                    expect_abort(done, name, *ending)
                else:
                    expect_survival(done)

    test_named(f"misuse-{name}")(run)


for test_name, test_ending in ENDINGS.items():
    register(test_name, test_ending)
for test_name, (test_rule, *test_ending) in RULED_ENDINGS.items():
    register(test_name, test_ending, MEMCTX_RULES=f"{test_name.replace('-', '_')}={test_rule}")
for test_name, test_ending in CHECKED_ENDINGS.items():
    register(test_name, test_ending, MEMCTX_CHECK="1")
