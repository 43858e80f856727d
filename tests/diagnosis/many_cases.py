# SPDX-License-Identifier: MIT
"""doctor of programs with a million call paths, and progress messages on a terminal."""
import contextlib
import os
import pty
import select
import subprocess
import threading
import time

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test
from more_cases import more_c, more_cc
from planted import ALARMING, command, doctor

MANY = {"MEMCTX_TABLES": "4G", "MEMCTX_FOLD": "off", "MEMCTX_DEPTH": "32"}


def look_at_many(target):
    """Checks that marks and doctor work with more than a million contexts, and that growth is
    found."""
    for number in range(4):
        check_equal(target.hear(120), "look", "what the program says")
        target.wait_socket()
        if number < 3:
            check_equal(run_cli("mark", target.pid, f"look-{number}",
                                env=target.cli_env).returncode, 0, "memctx mark")
            target.say("go on")
    rows = command(target, "ps")["processes"]
    contexts = next(row["contexts"] for row in rows if row["pid"] == target.pid)
    check(contexts > 1000000, f"only {contexts} contexts")
    started = time.monotonic()
    found = doctor(target)
    seconds = time.monotonic() - started
    check(found["findings"], "nothing was found")
    first = found["findings"][0]
    check_equal((first["id"], first["severity"] in ALARMING), ("growth", True),
                f"the first of {first}")
    check_equal([one["evidence"] for one in found["findings"] if one["id"] == "temporary"], [],
                "none was freed")
    return f"{contexts} contexts in {seconds:.2f} s"


@test
def a_million_contexts_by_recursion():
    with runtime_dir() as directory, more_c(directory, "paths", "220000", "10", **MANY) as target:
        return look_at_many(target)


@test
def a_million_contexts_without_recursion():
    with runtime_dir() as directory, more_cc(directory, "levels", **MANY) as target:
        return look_at_many(target)


# --- progress on a terminal -----------------------------------------------------------------------

def snapshot_of(directory):
    file = os.path.join(directory, "look.json")
    with Target(["/usr/bin/python3", "-c", "input()"], directory, MEMCTX_CONTROL="eager") as target:
        target.wait_socket()
        done = run_cli("dump", target.pid, "--json", "-o", file, env=target.cli_env)
        check_equal(done.returncode, 0, f"memctx dump: {done.stderr}")
    with open(file, "rb") as snapshot:
        return snapshot.read()


def read_slowly(directory, snapshot, words, stderr, may_go_on):
    """Runs a command that reads a snapshot from a pipe. The second half is written after
    may_go_on()."""
    path = os.path.join(directory, "slow")
    os.mkfifo(path)

    def write():
        with open(path, "wb") as slow:
            slow.write(snapshot[:len(snapshot) // 2])
            slow.flush()
            may_go_on()
            slow.write(snapshot[len(snapshot) // 2:])
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with subprocess.Popen([harness.CLI, words[0], path, *words[1:]], stdout=subprocess.PIPE,
                          stderr=stderr,
                          env=harness.clean_env()) as process:
        out = process.communicate(timeout=2 * harness.PATIENCE_S)[0]
    writer.join(60)
    return process.returncode, out.decode()


def hear_terminal(terminal, wanted, heard):
    """Reads from the terminal until `wanted` has come."""
    deadline = time.monotonic() + harness.PATIENCE_S
    while wanted not in b"".join(heard):
        check(time.monotonic() < deadline, f"no {wanted} on the terminal: {heard}")
        if select.select([terminal], [], [], 1)[0]:
            heard.append(os.read(terminal, 4096))


def hear_the_rest(terminal, heard):
    """Reads from the terminal until EIO: the other side is closed. (No data now is no end, because
    the kernel passes data on with a delay.)"""
    with contextlib.suppress(OSError):  # EIO
        while part := os.read(terminal, 4096):
            heard.append(part)


def keep_progress(*words):
    """Checks that a command that waits for its input says so on a terminal, and removes that line
    when the rest of the input has come."""
    with runtime_dir() as directory:
        snapshot = snapshot_of(directory)
        terminal, end = pty.openpty()
        heard = []
        try:
            status, out = read_slowly(directory, snapshot, words, end,
                                      lambda: hear_terminal(terminal, b"memctx: reading ", heard))
            os.close(end)
            end = None
            hear_the_rest(terminal, heard)
        finally:
            if end is not None:
                os.close(end)
            os.close(terminal)
        check_equal((status, "python3" in out), (0, True), f"{words}: {out[:200]}")
        said = b"".join(heard)
        check(said.endswith(b"\r\x1b[K"), f"the line is not removed: {said}")


@test
def a_terminal_shows_what_doctor_waits_for():
    keep_progress("doctor")


@test
def a_terminal_shows_what_frag_waits_for():
    keep_progress("frag", "--json")


@test
def a_file_gets_no_progress():
    """A command whose standard error is a file writes no progress there, however long it waits. (On
    a terminal it would write after 1 s.)"""
    with runtime_dir() as directory:
        snapshot = snapshot_of(directory)
        with open(os.path.join(directory, "said"), "w+b") as said:
            status, _ = read_slowly(directory, snapshot, ("doctor",), said, lambda: time.sleep(2.5))
            said.seek(0)
            check_equal((status, said.read()), (0, b""), "standard error")
