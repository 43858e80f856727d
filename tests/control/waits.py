# SPDX-License-Identifier: MIT
"""In a program that is only preloaded, a wait in libc starts the control thread, and works as
before."""
import contextlib
import os
import re
import time

import harness
from harness import Skip, check, check_equal, runtime_dir, test

WAITS = """sleep usleep nanosleep clock_nanosleep clock_nanosleep-until thrd_sleep pause
sigsuspend sigwait sigwaitinfo sigtimedwait poll poll-in-pieces poll-for-ever ppoll __poll_chk
__ppoll_chk select pselect epoll_wait epoll_pwait accept accept4""".split()


def program():
    return harness.build_program("tests/control/waits.c")


def run(*words, **extra):
    done = harness.run_program([program(), *words], harness.preloaded_env(**extra))
    check_equal((done.returncode, done.stderr), (0, ""), f"{words}: exit status, stderr")
    return done.stdout


@test
def waits_start_the_thread():
    """A program that waits in any waiting function of libc gets its socket, without allocating
    again."""
    with runtime_dir() as directory, contextlib.ExitStack() as stack:
        targets = {name: stack.enter_context(harness.Target([program(), name], directory))
                   for name in WAITS}
        targets["sleep 60"] = stack.enter_context(harness.Target(["sleep", "60"], directory))
        for target in targets.values():
            target.wait_socket()
        for name in ("pause", "sleep 60"):
            check_equal(targets[name].dump()["pid"], targets[name].pid,
                        f"pid in the dump of {name}")


@test
def waits_of_a_program_with_a_jump_for_malloc():
    """In a program at a fixed address that takes the address of malloc, as Debian's python3 does,
    this address is that of a jump in the program. Its waits start the thread, too."""
    fixed = harness.build_program("tests/control/waits.c", "waits-plt", ("-fno-pie", "-no-pie"))
    with runtime_dir() as directory:
        with harness.Target([fixed, "plt", "poll-for-ever"], directory) as target:
            target.wait_socket()


@test
def waits_that_are_short():
    """A wait of some milliseconds in a process younger than 0.5 s, or with MEMCTX_CONTROL=off,
    starts no control thread."""
    with runtime_dir() as directory:
        for _ in range(20):  # on a busy machine the run may take 0.5 s; then the test tries again
            begin = time.monotonic()
            said = run("short", XDG_RUNTIME_DIR=directory)
            if time.monotonic() - begin < 0.4:
                break
        check_equal(said, "1\n", "threads")
        with harness.Target([program(), "sleep"], directory, MEMCTX_CONTROL="off") as off:
            with harness.Target([program(), "sleep"], directory) as automatic:
                automatic.wait_socket()
            harness.wait_until(lambda: harness.read_status(off.pid, "State").startswith("S"),
                               "its sleep")
            check_equal(harness.read_status(off.pid, "Threads"), "1",
                        "threads with MEMCTX_CONTROL=off")


@test
def waits_keep_their_meaning():
    """Waiting functions give the results, errno, remaining time and cancellation that libc's
    give."""
    want = harness.run_program([program(), "same"], harness.clean_env())
    check_equal(want.returncode, 0, "without the library")
    with runtime_dir() as directory:
        for control in ("auto", "off", "eager"):
            check_equal(run("same", XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL=control), want.stdout,
                        control)


@test
def waits_of_young_processes():
    """A process that waits right after its start gets libc's result, and no control thread if the
    wait is short."""
    want = harness.run_program([program(), "young"], harness.clean_env())
    check_equal(want.returncode, 0, "without the library")
    with runtime_dir() as directory:
        check_equal(run("young", XDG_RUNTIME_DIR=directory), want.stdout, "results")
        # a child that was scheduled after 20 ms has a control thread, so the test tries again
        for _ in range(20):
            lines = run("ready", XDG_RUNTIME_DIR=directory).splitlines()
            alone = [line for line in lines if line.endswith(", 1")]
            if len(alone) >= len(lines) / 2:
                return
        raise harness.Failure(f"threads in processes whose wait ended at once: {lines}")


@test
def waits_in_odd_places():
    """A wait starts the control thread wherever it is: in a signal handler, below a function of
    libc such as qsort, below code without unwind information. It does not start the thread on an
    alternate stack, in a vfork child and in a process with seccomp."""
    with runtime_dir() as directory:
        got = dict(line.split(": ")
                   for line in run("places", XDG_RUNTIME_DIR=directory).splitlines())
        want = {"in a vfork child": "1", "in a restricted child": "1", "on an alternate stack": "1",
                "in a handler": "2", "in a handler below qsort": "2", "below qsort": "2",
                "below unknown code": "2", "in a child of a handler": "2", "plainly": "2"}
        check_equal(got, want, "threads after a wait")


@test
def waits_of_old_processes():
    """In a process older than 0.5 s, a call with time-out 0 starts no control thread. Many short
    waits on an alternate stack, which start none, do not keep a later long wait from starting
    it."""
    with runtime_dir() as directory:
        check_equal(run("old", XDG_RUNTIME_DIR=directory), "1 1 2\n",
                    "threads after no wait, short waits, a long wait")


@test
def waits_beside_other_preloads():
    """Another preloaded library that wraps poll works before and after libmemctx.so in
    LD_PRELOAD."""
    other = harness.build_program("tests/control/between.c", "between.so", ("-shared", "-fPIC"))
    with runtime_dir() as directory:
        for order in ((harness.LIB, other), (other, harness.LIB)):
            check_equal(run("poll-once", XDG_RUNTIME_DIR=directory, LD_PRELOAD=":".join(order)),
                        "100\n",
                        f"poll with {[os.path.basename(path) for path in order]}")


@test
def waits_of_a_users_library():
    """A library of the user may have a function with the name of one that waits, and with other
    arguments. Calls of the function reach it with all their arguments."""
    source = "tests/control/own_pause.c"
    library = harness.build_program(source, "own_pause.so", ("-shared", "-fPIC", "-DLIBRARY"))
    own = harness.build_program(source, "own_pause",
                                ("-Wl,--no-as-needed", library, f"-Wl,-rpath,{harness.BIN}"))
    for control in ("auto", "eager", "off"):
        done = harness.run_program([own], harness.preloaded_env(MEMCTX_CONTROL=control))
        check_equal((done.returncode, done.stdout), (0, "1.5\n3\n4.5\n"), control)


def run_until_end(source):
    with runtime_dir() as directory:
        return harness.run_program([harness.build_program(source)], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="auto"), timeout_s=harness.PATIENCE_S)


def check_interrupted_starts(source):
    """Runs a program that interrupts the start of the control thread at each of its calls."""
    done = run_until_end(source)
    if done.returncode == 77:
        raise Skip("no process can be traced here")
    calls, wrong = re.fullmatch(r"(?s:.*?)(\d+) calls, (\d+) wrong\n", done.stdout).groups()
    check_equal((done.returncode, int(wrong)), (0, 0), f"exit status, wrong: {done.stdout}")
    check(int(calls) > 5, f"the wait has {calls} calls, so it did not start the control thread")


@test
def a_fork_in_the_start():
    """A signal handler that interrupts the start of the control thread may fork. The copy does not
    wait for the start, which its parent makes, when it restricts its system calls."""
    check_interrupted_starts("tests/control/fork_in_start.c")


@test
def a_jump_out_of_the_start():
    """A signal handler that interrupts the start of the control thread may leave it by siglongjmp.
    Afterwards the thread can be cancelled, and the control thread starts at the next wait."""
    check_interrupted_starts("tests/control/jump_out.c")


@test
def an_overflow_in_the_start():
    """A program may recover from a stack overflow in a call that starts the control thread."""
    done = run_until_end("tests/control/overflow_in_start.c")
    ended, recovered = re.match(r"(\d+) ended, (\d+) recovered,", done.stdout).groups()
    check_equal((done.returncode, int(ended)), (0, 0), f"exit status, processes: {done.stdout}")
    check(int(recovered) > 0, f"no stack has overflowed: {done.stdout}")


@test
def the_last_descriptor():
    """The control thread starts if several threads begin to wait at once, and the process may open
    one more descriptor only."""
    last = harness.build_program("tests/control/last_descriptor.c")
    with runtime_dir() as directory:
        done = harness.run_program([last], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="auto"), timeout_s=2 * harness.PATIENCE_S)
    check_equal((done.returncode, done.stdout), (0, "0 without\n"), "exit status, processes")
