# SPDX-License-Identifier: MIT
"""The descriptors of the control thread: the program sees none of them, or only high ones, and may
close them."""
import contextlib
import glob
import os
import socket
import time

import harness
from harness import check, check_equal, runtime_dir, test
from hostile import attacked, start_target
from sockets import target_argv
from wire import Wire


@test
def descriptors_unseen():
    """The program has only the descriptors 0, 1, 2 and gets 3 next, as without the library."""
    with runtime_dir() as directory:
        with start_target(directory, "fds") as target:
            check_equal(target.first_line, "fds 0 1 2 next 3", "descriptors at the start")
            target.hear()
            target.wait_socket()
            with Wire(target.socket_path()) as client:
                client.dump()
                check_equal(target.ask("fds"), "fds 0 1 2 next 3", "with a client connected")


# Writes into a file which descriptors are open after half a second, and the one of the file.
OPEN_DESCRIPTORS = """
import os, sys, time
fds = []
time.sleep(0.5)
for fd in range(64):
    try:
        os.fstat(fd)
        fds.append(fd)
    except OSError:
        pass
out = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(out, repr((fds, out)).encode())
"""


@test
def closed_standard_descriptors():
    """If 0, 1 and 2 are closed at the start, they stay closed: no socket becomes standard
    output."""
    with runtime_dir() as directory:
        shell = ["sh", "-c", 'exec "$0" -S -c "$1" "$2" <&- >&- 2>&-', "python3", OPEN_DESCRIPTORS,
                 os.path.join(directory, "result")]
        results = []
        for env in (harness.clean_env(), harness.preloaded_env(
                XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="eager", MEMCTX_VERBOSE="1")):
            harness.run_program(shell, env)
            with open(os.path.join(directory, "result"), encoding="ascii") as file:
                results.append(file.read())
            os.unlink(os.path.join(directory, "result"))
        check_equal(results[1], results[0], "open descriptors and the next one")


@test
def closefrom_leaves_the_socket():
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            check_equal(target.ask("closefrom"), "fds 0 1 2 next 3", "descriptors")
            client.dump()


@test
def dup2_leaves_the_socket():
    """The socket still works after the program used dup2 on every descriptor number."""
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            check(target.ask("dup2").endswith(" next 900"), "not all numbers are in use")
            client.dump()


@contextlib.contextmanager
def refusing(*calls, descriptors=None, first=(), verbose=0):
    """Starts the target with a filter that refuses these system calls. Without unshare and
    close_range the library's descriptors are in the program's table. descriptors: RLIMIT_NOFILE.
    first: words before the command that starts it. verbose: MEMCTX_VERBOSE."""
    limited = ["prlimit", f"--nofile={descriptors}"] if descriptors else []
    argv = [*first, *limited, harness.build_program("tests/control/refusing.c"), *calls, "--",
            *target_argv("contexts", "300")]
    with runtime_dir() as directory:
        # With eager no thread would start: the library cannot know that the filter allows its
        # calls.
        with harness.Target(argv, directory, MEMCTX_CONTROL="always",
                            MEMCTX_VERBOSE=verbose) as target:
            check_equal(target.hear(), f"ready {target.pid}", "the target's line")
            yield target
            code, text = target.finish()
            told = ("memctx: the program restricts its system calls; the program runs without a "
                    "control socket\n") if verbose else ""  # of the program that sets the filter
            check_equal((code, text), (0, told), "exit status and stderr of the target")


def served(target):
    """Waits until the target answers (before its exec another program may own the socket); returns
    the socket's path."""
    harness.wait_until(lambda: harness.run_cli("dump", "--self", target.pid, env=target.cli_env)
                       .returncode == 0, "an answer")
    return target.socket_path()


def check_only_sockets(target):
    """Checks that the control thread has a descriptor table of its own, with nothing but
    sockets."""
    table = f"/proc/{target.pid}/task/{harness.library_thread(target.pid)}/fd"
    files = [os.readlink(os.path.join(table, name)) for name in sorted(os.listdir(table))]
    check(files and all(file.startswith("socket:") for file in files),
          f"open in our table: {files}")


@test
def unshare_is_refused_in_a_container():
    """Where unshare is refused, as by Docker's profile, the program sees no descriptor of ours, and
    we keep none of the program's, also with MEMCTX_VERBOSE."""
    for verbose in (0, 1):
        with refusing("unshare", verbose=verbose) as target:
            with Wire(served(target)) as client:
                client.dump()
                check_equal(target.ask("fds"), "fds 0 1 2 next 3", "descriptors of the program")
                check_only_sockets(target)


@test
def shared_descriptors_are_high():
    """Without unshare and close_range the library's descriptors have high numbers, and a client is
    served."""
    with refusing("unshare", "close_range") as target:
        with Wire(served(target)) as client:
            client.dump()
            seen = target.ask("fds").split()
            numbers = [int(word) for word in seen[1:-2]]
            check_equal(numbers[:3], [0, 1, 2], "the program's own")
            check(len(numbers) >= 5, f"listener and client are not in the program's table: {seen}")
            check(all(number >= 500 for number in numbers[3:]), f"low numbers: {seen}")
            check_equal(seen[-1], "3", "the next descriptor")
    with refusing("unshare", "close_range", descriptors=400) as target:
        with Wire(served(target)) as client:
            client.dump()
            seen = target.ask("fds").split()
            check(all(250 <= int(word) < 400 for word in seen[4:-2]) and seen[-1] == "3",
                  f"of 400: {seen}")


@test
def shared_descriptors_closed_are_forgotten():
    """If the program closes the library's descriptors and opens files with these numbers, the
    library does not read, write or close these files."""
    for words in (("dup2",), ("closefrom", "dup2")):
        with refusing("unshare", "close_range") as target:
            with Wire(served(target)) as client:
                client.dump()
                for word in words:
                    target.ask(word)
                spent = harness.library_thread_ns(target.pid)
                time.sleep(1.5)  # the control thread looks once a second
                seen = target.ask("fds").split()
                check_equal(seen[1:], [*map(str, range(900)), "next", "900"], "descriptors, later")
                spent = harness.library_thread_ns(target.pid) - spent
                check(spent < 0.3e9, f"the control thread spun: {spent / 1e6:.0f} ms of 1500")


@test
def shared_descriptors_all_used():
    """If the process has no descriptor for the socket at the start, without unshare, it gets the
    socket when it has one. (The library reads /proc/self/status with the last descriptor; the
    socket needs two, one of them with a high number.)"""
    with refusing("unshare", "close_range", descriptors="4:1024") as target:
        time.sleep(0.5)  # the thread tries to make the socket, or the program has not started it
        check_equal(glob.glob(os.path.join(target.runtime, "memctx/*")), [],
                    "sockets at the start")
        target.ask("limit 1024")
        with Wire(served(target)) as client:
            client.dump()


@test
def close_range_that_is_not_known():
    """Without close_range (older kernels) the control thread's table has none of the program's
    files, not even the one with the last number of the table, which is above RLIMIT_NOFILE.
    Otherwise a pipe would never end. Also with MEMCTX_VERBOSE, for which the thread keeps standard
    error at first."""
    high = ("bash", "-c", 'exec "$@" 3</dev/null 511</dev/null', "bash")
    for verbose in (0, 1):
        with refusing("close_range", descriptors=300, first=high, verbose=verbose) as target:
            served(target)
            check_only_sockets(target)


@test
def no_descriptor_left_is_no_spin():
    """If RLIMIT_NOFILE allows no descriptor for a waiting client, the control thread does not
    spin."""
    # The listener and each client use a descriptor. With a lower limit, poll itself fails.
    harness.together(waits_without_spin, (0, 1, 5, 9, 3), (0, 0, 4, 8, 8))


def waits_without_spin(limit, others):
    with attacked() as target, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Wire(target.socket_path())) for _ in range(others)]
        target.ask(f"limit {limit}")
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(target.socket_path())
            waiting.settimeout(1.2)
            spent = harness.library_thread_ns(target.pid)
            try:
                said = len(waiting.recv(1))
            except TimeoutError:
                said = 0
            spent = harness.library_thread_ns(target.pid) - spent
            check_equal(said, 0, f"limit {limit}: bytes for the one who waits")
            check(spent < 0.3e9,
                  f"limit {limit}: the thread spun: {spent / 1e6:.0f} ms of 1200")
        for client in clients:
            client.close()
        target.ask("limit 1024")
        harness.wait_until(lambda: harness.run_cli(
            "dump", "--self", target.pid, env=target.cli_env).returncode == 0, "an answer")
