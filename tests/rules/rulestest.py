# SPDX-License-Identifier: MIT
"""Shared by the tests of rules: starts the program under test with rules, reads reports."""
import json
import os

import harness
from harness import Target, build_program, preloaded_env, run_cli, run_program

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1 << 20


def program():
    """The program under test, built of two files, so that rules can match a file."""
    return build_program("tests/rules/use.c", "rules-use",
                         flags=("-g", "-O1", "-pthread", os.path.join(HERE, "elsewhere.c")))


def use(case, rules, **extra):
    return run_program([program(), case], preloaded_env(MEMCTX_RULES=rules, **extra))


def target(directory, case, rules, **extra):
    extra.setdefault("MEMCTX_CONTROL", "eager")
    return Target([program(), case], directory, MEMCTX_RULES=rules, **extra)


def started(directory, argv, rules, **extra):
    """Starts a program by `memctx run --rule`, so that the command resolves the rules before the
    start."""
    extra.setdefault("MEMCTX_LIBRARY", harness.LIB)
    return Target([harness.CLI, "run", *[word for rule in rules for word in ("--rule", rule)], "--",
                   *argv], directory,
                  preload=False, **extra)


def rules_json(process, *options):
    return json.loads(run_cli("rules", "--json", *options, process.pid, env=process.cli_env).stdout)


def listed(process):
    return rules_json(process)["rules"]


def functions(lines):
    """The functions of the test program in the lines of a call path, by addr2line."""
    offsets = [line.split("+")[1] for line in lines if "rules-use+0x" in line]
    done = run_program(["addr2line", "-fe", program(), *offsets], dict(os.environ))
    return done.stdout.splitlines()[::2]
