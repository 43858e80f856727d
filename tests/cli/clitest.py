# SPDX-License-Identifier: MIT
"""Shared by the files of the cli suite: functions that run the command and check its result."""
import contextlib
import json
import os
import re
import subprocess
import tempfile

import harness
from harness import CLI, LIB, Target, check, check_equal, clean_env, run_program, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))


def cli(*words, env=None, timeout_s=60, stdin=""):
    """Runs the command. Fails if a signal ends it (a crash)."""
    done = run_program([CLI, *map(str, words)], env or clean_env(), timeout_s, stdin)
    check(done.returncode >= 0, f"memctx {' '.join(map(str, words))}: ended by signal "
                                f"{-done.returncode}: {done.stderr[-2000:]}")
    check("ERROR: AddressSanitizer" not in done.stderr and "runtime error" not in done.stderr,
          f"memctx {words}: {done.stderr[-3000:]}")
    return done


def expect(code, pattern, *words, env=None, timeout_s=60):
    """Runs the command; checks its exit code, and its standard error against the pattern."""
    done = cli(*words, env=env, timeout_s=timeout_s)
    what = f"memctx {' '.join(map(str, words))}"
    check(done.returncode == code, f"{what}: exit {done.returncode}, want {code}; stdout: "
                                   f"{done.stdout[:300]!r}; stderr: {done.stderr[:600]!r}")
    check(re.search(pattern, done.stderr), f"{what}: no /{pattern}/ in {done.stderr[:600]!r}")
    check("\033" not in done.stderr + done.stdout, f"{what}: an escape sequence came through")
    return done


def succeed(*words, env=None, timeout_s=60):
    """Runs the command, which must exit with 0; returns its standard output."""
    return expect(0, "", *words, env=env, timeout_s=timeout_s).stdout


def find_row(live):
    """The row of the target in memctx ps."""
    rows = json.loads(succeed("ps", "--json", env=live.cli_env))
    check_equal(rows["schema"], "memctx-ps/1", "schema")
    found = [row for row in rows["processes"] if row["pid"] == live.pid]
    check_equal(len(found), 1, "rows of the target in ps")
    return found[0]


def wait_for_library(pid):
    """Waits until the process has mapped the library."""
    def mapped():
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            return "libmemctx.so" in file.read()
    wait_until(mapped, "the library in the maps")


@contextlib.contextmanager
def scratch():
    """A temporary directory, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as path:
        yield path


@contextlib.contextmanager
def target(argv, **extra):
    """Starts a program under memctx in a private runtime directory, and waits until it prints
    "ready"."""
    with harness.runtime_dir() as runtime, Target(argv, runtime, MEMCTX_CONTROL="eager",
                                                  **extra) as live:
        heard = live.hear()
        check(heard == "ready", f"{argv[0]} said {heard!r}")
        live.wait_socket()
        yield live


@contextlib.contextmanager
def fake(fault, beside=None):
    """Starts a fake server, a program without the library that speaks wire.h with this fault.
    `beside`: the directory for its socket; if None, it gets a directory of its own."""
    program = harness.build_fake_server()
    with harness.runtime_dir() as own, Target([program, fault], beside or own,
                                              preload=False) as live:
        check(live.hear() == "ready", "the fake server did not start")
        yield live


def tool(*argv, **options):
    """Runs a tool such as readelf, which must succeed; returns its output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, **options)
    check(done.returncode == 0, f"{' '.join(argv)}: {done.stderr[-800:]}")
    return done.stdout


__all__ = ["CLI", "HERE", "LIB", "cli", "expect", "fake", "find_row", "os", "scratch", "succeed",
           "target", "tool", "wait_for_library"]
