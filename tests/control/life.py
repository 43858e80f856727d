# SPDX-License-Identifier: MIT
"""The control thread and socket in a process's life: start, descriptors, daemons, fork, exit; the
time of a dump."""
import contextlib
import ctypes
import os
import re
import socket
import statistics
import subprocess
import sys
import time

import harness
import wire
from harness import PATIENCE_S, Failure, Skip, check, check_equal, in_tries, runtime_dir, test
from hostile import attacked, start_target
from sockets import target_argv
from wire import Wire


def run_argv(*words):
    """The words that start the target under `memctx run`, which execs the target and so keeps its
    pid."""
    return [harness.CLI, "run", "--", *target_argv(*words)]


@test
def run_is_eager():
    """A program under memctx run has its socket at once, and removes it at its end."""
    with runtime_dir() as directory:
        with harness.Target(run_argv(), directory, preload=False) as target:
            check_equal(target.hear(), f"ready {target.pid}", "the target's line")
            path = target.wait_socket()
            harness.check_sums(target.dump())
            code, text = target.finish()
            check_equal((code, text), (0, ""), "exit status and stderr")
            check(not os.path.exists(path), "the socket is left behind")


@test
def control_modes():
    """MEMCTX_CONTROL: off gives no socket, auto one after the program's first thread, eager one at
    once."""
    idle = ["sleep", "600"]
    with runtime_dir() as directory:
        with harness.Target(idle, directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
        with harness.Target(idle, directory, MEMCTX_CONTROL="off") as target:
            with start_target(directory, MEMCTX_CONTROL="off") as busy:
                with start_target(directory, MEMCTX_CONTROL="auto") as automatic:
                    automatic.wait_socket()
                    time.sleep(0.5)
                    for other in (target, busy):
                        check(not os.path.exists(other.socket_path()), "off has a socket")
                        check_equal(threads_named_memctx(other.pid), 0, "control threads")
                    check_equal(threads_named_memctx(automatic.pid), 1, "control threads")


def threads_named_memctx(pid):
    count = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as file:
                count += file.read().strip() == "memctx"
    return count


@test
def children_of_a_process_with_threads_start_no_thread_at_once():
    program = harness.build_program("tests/control/fork_after_thread.c")
    with runtime_dir() as directory:
        done = harness.run_program([program], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="auto"))
        check_equal((done.returncode, done.stdout, done.stderr), (0, "0\n", ""), "children")


@test
def short_life_has_no_socket():
    """A process that lives some milliseconds leaves nothing in the socket directory."""
    with runtime_dir() as directory:
        for _ in range(20):
            done = harness.run_program(["/bin/true"],
                                       harness.preloaded_env(XDG_RUNTIME_DIR=directory))
            check_equal((done.returncode, done.stderr), (0, ""), "/bin/true")
        folder = os.path.join(directory, "memctx")
        check(not os.path.exists(folder) or not os.listdir(folder), "sockets are left behind")


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


@test
def closed_standard_descriptors():
    """If 0, 1 and 2 are closed at the start, they stay closed: no socket becomes standard
    output."""
    with runtime_dir() as directory:
        probe = ("import os, time\nfds = []\n"
                 "time.sleep(0.5)\n"
                 "for fd in range(64):\n"
                 "    try:\n        os.fstat(fd)\n        fds.append(fd)\n"
                 "    except OSError:\n        pass\n"
                 "out = os.open('%s/result', os.O_CREAT | os.O_WRONLY)\n"
                 "os.write(out, repr((fds, out)).encode())\n" % directory)
        shell = ["sh", "-c", 'exec "$0" -S -c "$1" <&- >&- 2>&-', "python3", probe]
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
def refusing(*calls, descriptors=None):
    """Starts the target with a filter that refuses these system calls. Without unshare the
    library's descriptors are in the program's table. descriptors: RLIMIT_NOFILE."""
    limited = ["prlimit", f"--nofile={descriptors}"] if descriptors else []
    argv = [*limited, harness.build_program("tests/control/refusing.c"), *calls, "--",
            *target_argv("contexts", "300")]
    with runtime_dir() as directory:
        # With eager no thread would start: the library cannot know that the filter allows its
        # calls.
        with harness.Target(argv, directory, MEMCTX_CONTROL="always") as target:
            check_equal(target.hear(), f"ready {target.pid}", "the target's line")
            yield target
            code, text = target.finish()
            check_equal((code, text), (0, ""), "exit status and stderr of the target")


def served(target):
    """Waits until the target answers (before its exec another program may own the socket); returns
    the socket's path."""
    harness.wait_until(lambda: harness.run_cli("dump", "--self", target.pid, env=target.cli_env)
                       .returncode == 0, "an answer")
    return target.socket_path()


@test
def shared_descriptors_are_high():
    """Without unshare the library's descriptors have high numbers, and a client is served."""
    with refusing("unshare") as target:
        with Wire(served(target)) as client:
            client.dump()
            seen = target.ask("fds").split()
            numbers = [int(word) for word in seen[1:-2]]
            check_equal(numbers[:3], [0, 1, 2], "the program's own")
            check(len(numbers) >= 5, f"listener and client are not in the program's table: {seen}")
            check(all(number >= 500 for number in numbers[3:]), f"low numbers: {seen}")
            check_equal(seen[-1], "3", "the next descriptor")
    with refusing("unshare", descriptors=400) as target:
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
        with refusing("unshare") as target:
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
def close_range_that_is_not_known():
    """Without close_range (older kernels) the control thread's table has none of the program's
    files."""
    with refusing("close_range") as target:
        served(target)
        thread = harness.library_thread(target.pid)
        names = sorted(os.listdir(f"/proc/{target.pid}/task/{thread}/fd"))
        files = [os.readlink(f"/proc/{target.pid}/task/{thread}/fd/{name}") for name in names]
        check(all(file.startswith("socket:") for file in files), f"open in our table: {files}")


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


@test
def daemon_eager():
    daemon_gets_socket("eager")


@test
def daemon_auto():
    daemon_gets_socket("auto")


def daemon_gets_socket(mode):
    """A daemon (after two forks, with all descriptors closed) has its own socket."""
    with runtime_dir() as directory:
        parent = harness.Target(target_argv("daemon"), directory, MEMCTX_CONTROL=mode)
        with parent:
            pid = int(parent.hear().split()[1])
            try:
                check(pid != parent.pid, "the target is no daemon")
                parent.process.wait(timeout=PATIENCE_S)
                path = parent.wait_socket(pid)
                with Wire(path) as client:
                    check_equal(wire.get(client.hello, "wire_hello.pid"), pid, "pid of the hello")
                harness.check_sums(parent.dump(pid=pid))
                # The first process may have left a socket, because it ended by _exit, which runs no
                # exit handler. memctx ps removes that socket; one with a temporary name only when
                # it is old.
                for name in os.listdir(os.path.dirname(path)):
                    if name.endswith(".tmp"):
                        os.utime(os.path.join(os.path.dirname(path), name), (0, 0))
                def swept():
                    check_equal(harness.run_cli("ps", env=parent.cli_env).returncode, 0,
                                "memctx ps")
                    return os.listdir(os.path.dirname(path)) == [f"{pid}.sock"]
                harness.wait_until(swept, "no other sockets")
                parent.process.stdin.close()  # the daemon's standard input too, so it ends
                harness.wait_until(lambda: not os.path.exists(path), "the daemon's clean end")
            finally:
                # End the daemon if it still runs. Its command line proves that the pid is not
                # another process.
                if os.path.exists(f"/proc/{pid}") and b"control_target" in open(
                        f"/proc/{pid}/cmdline", "rb").read():
                    os.kill(pid, 9)


@test
def child_leaves_parents_socket():
    """A forked child that runs all exit handlers does not remove its parent's socket."""
    with attacked() as target:
        for _ in range(20):
            check_equal(target.ask("fork"), "fork 0", "the child's status")
            check(os.path.exists(target.socket_path()), "a child unlinked its parent's socket")


@test
def chroot_keeps_the_socket():
    if os.geteuid() != 0:
        raise Skip("needs root to chroot")
    with runtime_dir() as directory, runtime_dir() as root:
        with start_target(directory, "contexts", "50") as target:
            target.wait_socket()
            check_equal(target.ask(f"chroot {root}"), f"in {root}", "the target's line")
            with Wire(target.socket_path()) as client:
                client.dump()
            check_equal(os.listdir(root), [], "what came to lie in the new root")
            dump = target.dump("--no-symbols")
            check("how" not in dump, f"the command did not ask it: {dump.get('how')}")
            # without /proc the target cannot read its own
            rss_bytes = harness.rss_kib(target.pid) << 10
            check(rss_bytes / 2 < dump["rss_bytes"] < rss_bytes * 2,
                  f"resident: {dump['rss_bytes']}, {rss_bytes}")
            done = harness.run_cli("trim", str(target.pid), "--bytes", env=target.cli_env)
            check(done.returncode == 0 and "-1" not in done.stdout,
                  f"trim: {done.stdout}{done.stderr}")


@test
def no_thread_to_be_had():
    """If RLIMIT_NPROC allows no control thread, the program runs without a socket."""
    if os.geteuid() != 0:
        raise Skip("needs root to become a user with a limit of its own")
    with runtime_dir(owner=harness.NOBODY) as directory:
        for verbose in ("0", "1"):
            argv = ["prlimit", "--nproc=1:1", "env",
                    f"LD_PRELOAD={harness.public_copy(harness.LIB)}",
                    f"XDG_RUNTIME_DIR={directory}", "MEMCTX_CONTROL=eager",
                    f"MEMCTX_VERBOSE={verbose}", "sh", "-c", "echo fine"]
            done = harness.run_program(argv, harness.clean_env(), uid=harness.NOBODY)
            check_equal((done.returncode, done.stdout), (0, "fine\n"), f"sh ({done.stderr})")
            lines = done.stderr.splitlines()
            check_equal(len(lines), int(verbose), f"lines on stderr: {lines}")


def stack_left(pid, room):
    """Returns the bytes from the start of the control thread's stack to the thread's stack pointer.
    The stack is at `room` in the library, or a mapping. 0: the thread does not wait just now."""
    with open(f"/proc/{pid}/task/{harness.library_thread(pid)}/syscall", encoding="ascii") as file:
        words = file.read().split()  # "running" while the thread does not wait
    if len(words) < 3:
        return 0
    pointer = int(words[-2], 16)
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        lines = [line.split() for line in file]
    mapped = [[int(word, 16) for word in line[0].split("-")] for line in lines]
    library = min(start for (start, _), line in zip(mapped, lines) if line[-1] == harness.LIB)
    own = library + room
    begins = own if own <= pointer < own + (256 << 10) else max(
        start for start, end in mapped if start <= pointer < end)
    return pointer - begins


@test
def thread_local_storage_leaves_stack():
    """The control thread of a program with much thread-local storage has 32 KiB of stack left:
    glibc puts the storage into the thread's stack."""
    symbols = subprocess.run(["nm", harness.LIB], capture_output=True, text=True, check=True,
                             timeout=60).stdout
    room = int(re.search(r"^([0-9a-f]+) b stack_room$", symbols, re.M)[1], 16)
    for kib in (4, 11, 150, 190, 216, 300):
        program = harness.build_program("tests/control/large_tls.c", f"large_tls_{kib}",
                                        (f"-DTLS_KIB={kib}",))
        with runtime_dir() as directory:
            with harness.Target([program], directory, MEMCTX_CONTROL="eager") as target:
                target.wait_socket()
                harness.check_sums(target.dump())
                left = harness.wait_until(lambda: stack_left(target.pid, room), "the thread's wait")
                check(left >= 32 << 10, f"{kib} KiB of storage leave {left} bytes of stack")


@test
def privileges_dropped():
    """A program that gives up root beside a control thread gives it up in all threads, and runs
    on."""
    if os.geteuid() != 0:
        raise Skip("needs root to give up")
    drop = ("import os, sys\n"
            "nobody = (65534,) * 3\n"
            "os.setgroups([]); os.setresgid(*nobody); os.setresuid(*nobody)\n"
            "print(os.getresuid(), os.getresgid())\nsys.stdin.read()\n")
    with runtime_dir() as directory:
        os.chmod(directory, 0o755)
        with harness.Target(["python3", "-c", drop], directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "(65534, 65534, 65534) (65534, 65534, 65534)", "ids")
            for tid in os.listdir(f"/proc/{target.pid}/task"):
                check_equal(harness.read_status(target.pid, "Uid", tid).split(), ["65534"] * 4,
                            f"uids of thread {tid}")
            target.finish()


USERS = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
sys.stdin.readline()
print(eval(sys.argv[1]), flush=True)
if sys.argv[2] == "sleep":
    while True:
        time.sleep(0.05)
sys.stdin.read()
"""


def ids_of(pid):
    """The user, the groups and the capabilities of each thread of a process."""
    ids = set()
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            ids.add(tuple(harness.read_status(pid, name, tid)
                          for name in ("Uid", "Gid", "Groups", "CapEff", "CapPrm")))
    return ids


@test
def no_thread_keeps_what_libc_gives_up():
    """libc does not know the control thread. What a function of libc changes in all threads, the
    control thread changes, too, and stays: also if the program then tries in vain to become root
    again, or if the socket cannot be reached any more."""
    if os.geteuid() != 0:
        raise Skip("needs root to give up")
    group = "(ctypes.c_int * 1)(12345)"
    for call, waits in (("libc.setuid(65534)", "read"), ("libc.seteuid(65534)", "read"),
                        ("libc.setreuid(65534, 65534)", "read"),
                        ("libc.setresuid(65534, 65534, 65534)", "read"),
                        ("libc.setgid(65534)", "sleep"), ("libc.setegid(65534)", "sleep"),
                        ("libc.setregid(65534, 65534)", "sleep"),
                        ("libc.setresgid(65534, 65534, 65534)", "sleep"),
                        (f"libc.setgroups(ctypes.c_size_t(1), {group})", "sleep"),
                        ("libc.initgroups(b'nobody', 54321)", "sleep"),
                        ("[libc.seteuid(n) for n in (65534, 0) * 40][0]", "sleep"),
                        ("min(libc.setuid(65534), libc.setuid(0) + 1)", "read"),
                        ("[os.chroot('/tmp'), libc.setgid(65534), libc.setuid(65534)][2]",
                         "read")):
        with runtime_dir() as directory:
            os.chmod(directory, 0o777)
            argv = [sys.executable, "-c", USERS, call, waits]
            with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as target:
                check_equal(target.hear(), "ready", "it began")
                check_equal(threads_named_memctx(target.pid), 1, "control threads at first")
                threads = sorted(os.listdir(f"/proc/{target.pid}/task"))
                before = ids_of(target.pid)
                target.say("")
                check_equal(target.hear(), "0", call)
                harness.wait_until(lambda t=target: len(ids_of(t.pid)) == 1,
                                   f"{call}: the same in all threads")
                after = ids_of(target.pid)
                check_equal(sorted(os.listdir(f"/proc/{target.pid}/task")), threads,
                            f"{call}: the threads")
                check("0) * 40" in call or after != before, f"{call} changed nothing: {after}")


@test
def forks_in_a_handler_that_interrupted_a_fork():
    """In a process with two threads glibc holds a lock during a fork, so a fork in a handler that
    interrupted it would wait for ever. The control thread is no such thread."""
    program = harness.build_program("tests/control/signal_forks.c")
    with runtime_dir() as directory:
        done = harness.run_program([program], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="eager"), timeout_s=60)
        check_equal((done.returncode, done.stdout, done.stderr), (0, "interrupted\n", ""), "words")


@test
def no_thread_stays_root_unseen():
    """A program may give up root in a way that the library does not see. Then the control thread
    ends some time later, and starts again as the new user."""
    if os.geteuid() != 0:
        raise Skip("needs root to give up")
    program = harness.build_program("tests/control/unseen_user.c")
    with runtime_dir() as directory:
        with harness.Target([program], directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "it began")
            target.wait_socket()
            target.say("")
            check_equal(target.hear(), "done", "it gave up root")
            harness.wait_until(lambda: len(ids_of(target.pid)) == 1 and
                               threads_named_memctx(target.pid) == 1, "one user in all threads")
            harness.check_sums(target.dump())


@test
def no_thread_keeps_capabilities_unseen():
    """A program may give up capabilities in a way that the library does not see. Then the control
    thread, which goes on, gives them up some time later."""
    if os.geteuid() != 0:
        raise Skip("needs capabilities to give up")
    program = harness.build_program("tests/control/unseen_user.c")
    with runtime_dir() as directory:
        with harness.Target([program, "capabilities"], directory,
                            MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "it began")
            target.wait_socket()
            before = os.listdir(f"/proc/{target.pid}/task")
            target.say("")
            check_equal(target.hear(), "done", "it gave up its capabilities")
            harness.wait_until(lambda: len(ids_of(target.pid)) == 1,
                               "the same capabilities in all threads")
            check_equal(ids_of(target.pid).pop()[3:], ("0000000000000020",) * 2, "capabilities")
            check_equal(os.listdir(f"/proc/{target.pid}/task"), before, "threads")
            harness.check_sums(target.dump())


@test
def libc_knows_no_control_thread():
    """A program with one thread keeps libc's code for one thread, beside a control thread; when the
    program makes a thread, libc changes to its code for several."""
    program = harness.build_program("tests/control/one_thread.c", flags=("-pthread",))
    plain = subprocess.run([program], input="\n\n", capture_output=True, text=True, check=True,
                           env=harness.clean_env(), timeout=PATIENCE_S)
    with runtime_dir() as directory:
        with harness.Target([program], directory, MEMCTX_CONTROL="eager") as target:
            heard = [target.hear()]
            target.wait_socket()
            harness.check_sums(target.dump())
            target.say("")
            heard += [target.hear(), target.hear()]
            harness.check_sums(target.dump())
            target.say("")
    check_equal(heard, plain.stdout.splitlines(), "what libc uses")
    check(heard[0].split()[1:] != heard[2].split()[1:], f"the test shows nothing: {heard}")


def became(target, name):
    if target.process.poll() is not None:
        raise Failure(f"it has ended: {target.ending()}")
    with open(f"/proc/{target.pid}/comm", encoding="ascii") as file:
        return file.read() == name + "\n"


CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000

ENTERS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def own(kind):
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY)
print("ready", flush=True)
for line in sys.stdin:
    result = eval("libc." + line) if line.strip() != "allocate" else len(bytearray(4 << 20)) == 0
    print(result and ctypes.get_errno(), flush=True)
"""


def entered(call, preload=True):
    """Starts python3, which makes the call. Returns its errno, and the number of control threads
    after some allocations."""
    with runtime_dir() as directory, harness.Target([sys.executable, "-c", ENTERS], directory,
                                                    preload=preload,
                                                    MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "ready", "first line")
        if not preload:
            return target.ask(call), 0
        harness.wait_until(lambda: threads_named_memctx(target.pid) == 1, "the control thread")
        result = target.ask(call)

        def starts_again():
            target.ask("allocate")
            return threads_named_memctx(target.pid) == 1
        harness.wait_until(starts_again, f"{call}: the control thread of later")
        return result, threads_named_memctx(target.pid)


@test
def a_process_with_one_thread_enters_namespaces():
    """The kernel lets only a process with one thread do this, so the control thread ends before,
    and starts again afterwards."""
    allowed = 0
    for call in (f"unshare({CLONE_NEWUSER})", "setns(own('mnt'), 0)",
                 f"setns(own('mnt'), {CLONE_NEWNS})",
                 f"syscall(272, {CLONE_NEWUSER})", "syscall(308, own('mnt'), 0)"):
        if entered(call, preload=False)[0] != "0":
            continue  # also fails without the library, as in some containers
        allowed += 1
        result, threads = entered(call)
        check_equal((result, threads), ("0", 1),
                    f"{call}: errno, and threads named memctx some time later")
    if allowed == 0:
        raise Skip("this user may enter no namespace")


CLONE_THREAD, PTRACE_SEIZE, WALL = 0x10000, 0x4206, 0x40000000


@test
def the_ended_thread_has_left_the_process():
    """pthread_join returns before the kernel takes the thread out of the process. A tracer makes
    this time longer: the thread stays until the tracer has waited for it."""
    libc = ctypes.CDLL(None)
    with runtime_dir() as directory, harness.Target([sys.executable, "-c", ENTERS], directory,
                                                    MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "ready", "first line")
        harness.wait_until(lambda: threads_named_memctx(target.pid) == 1, "the control thread")
        thread, = (int(tid) for tid in os.listdir(f"/proc/{target.pid}/task")
                   if int(tid) != target.pid)
        if libc.ptrace(PTRACE_SEIZE, thread, None, None) != 0:
            raise Skip("this user may trace no child")
        target.say(f"unshare({CLONE_THREAD})")
        time.sleep(0.02)
        os.waitpid(thread, WALL)
        check_equal(target.hear(), "0", "errno of unshare")


@test
def launchers_have_no_thread():
    """setpriv and unshare start no control thread, but the program that they exec has its socket.
    With two threads glibc would abort setpriv, whose second thread may not call setresgid, and the
    kernel would refuse unshare a user or mount namespace."""
    if os.geteuid() != 0:
        raise Skip("needs root to give up")
    allowed = 0
    cli = harness.public_copy(harness.CLI)
    # the public copy of the command finds the library in its folder
    harness.public_copy(harness.LIB)
    for argv in (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
                 ["unshare", "--user", "--map-root-user"],
                 ["nsenter", "--mount=/proc/self/ns/mnt", "--root=/"],
                 ["env", "setpriv", "--no-new-privs"]):
        if harness.run_program([*argv, "true"], harness.clean_env()).returncode != 0:
            continue  # also fails without the library, as in some containers
        allowed += 1
        for mode in ("auto", "eager"):
            with runtime_dir() as directory:
                os.chmod(directory, 0o777)
                with harness.Target([cli, "run", "--", *argv, "sleep", "600"], directory,
                                    preload=False, MEMCTX_CONTROL=mode) as target:
                    harness.wait_until(lambda t=target: became(t, "sleep"),
                                       f"{argv} with {mode}: what it becomes")
                    harness.wait_until(lambda t=target: threads_named_memctx(t.pid) == 1,
                                       f"{argv} with {mode}: the thread of what it became")
    check(allowed > 0, "nothing could be tried")


# Each function changes the privileges of the calling thread alone. "drop": the effective set
# without CAP_SETGID (6), as squid makes it; "keep": capabilities that outlive the change of the
# user; "number": a system call by its number.
CHANGES = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
HEADER = (ctypes.c_uint32 * 2)(0x20080522, 0)
now = (ctypes.c_uint32 * 6)()
libc.capget(HEADER, now)
now[0] &= ~(1 << 6)
def drop(call):
    assert call(HEADER, now) == 0, ctypes.get_errno()
def keep():
    assert libc.prctl(28, 4, 0, 0, 0) == 0, ctypes.get_errno()
    os.setresuid(65534, 65534, 65534)
def number(call, *three):
    assert libc.syscall(call, *three) == 0, ctypes.get_errno()
print("ready", flush=True)
sys.stdin.readline()
eval(sys.argv[1])
try:
    os.setgroups([])
    print("done", flush=True)
except PermissionError:
    print("refused", flush=True)
while len(sys.argv) > 2:
    time.sleep(1.1)
"""


@test
def a_thread_changes_its_own_privileges():
    """A thread changes its capabilities, securebits, user or groups by a call that leaves other
    threads as they are, and then its groups by a function of glibc, which changes all threads.
    glibc aborts the process when some threads may do that and others may not. The control thread
    starts again later."""
    if os.geteuid() != 0:
        raise Skip("needs root to give up")
    for call, expected in (("drop(libc.capset)", "refused"),
                           ("drop(lambda *two: libc.syscall(126, *two))", "refused"),
                           ("keep()", "done"),
                           ("number(117, 65534, 65534, 65534)", "refused"),  # setresuid
                           ("number(105, 65534)", "refused"),  # setuid
                           ("[number(119, -1, n, -1) for n in (1, 2, 3, 0) * 5]", "done")):
        argv = [sys.executable, "-c", CHANGES, call]
        plain = subprocess.run(argv, input="\n", capture_output=True, text=True, check=False,
                               env=harness.clean_env(), timeout=PATIENCE_S)
        check_equal(plain.stdout.split(), ["ready", expected], f"{call} without us")
        with runtime_dir() as directory:
            os.chmod(directory, 0o777)
            with harness.Target([*argv, "stay"], directory, MEMCTX_CONTROL="eager") as target:
                check_equal(target.hear(), "ready", "it began")
                check_equal(threads_named_memctx(target.pid), 1, "control threads at first")
                target.say("")
                check_equal(target.hear(), expected, call)
                harness.wait_until(lambda t=target: threads_named_memctx(t.pid) == 1,
                                   f"{call}: the control thread, in a long wait")


@test
def capset_leaves_no_thread_with_more():
    """When a program has taken a capability out of its effective set by libc's capset, or by its
    number, no thread has this capability."""
    if os.geteuid() != 0:
        raise Skip("needs capabilities to give up")
    for capset in ("libc.capset(h, n)", "libc.syscall(126, h, n)"):
        call = (f"(lambda h, n: [libc.capget(h, n), n.__setitem__(0, n[0] & ~64), {capset}][2])"
                "((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())")
        with runtime_dir() as directory:
            argv = [sys.executable, "-c", USERS, call, "sleep"]
            with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as target:
                check_equal(target.hear(), "ready", "it began")
                check_equal(threads_named_memctx(target.pid), 1, "control threads at first")
                before = ids_of(target.pid)
                target.say("")
                check_equal(target.hear(), "0", capset)
                after = ids_of(target.pid)
                check(len(after) == 1 and after != before, f"{capset}: {before} became {after}")
                harness.wait_until(lambda t=target: threads_named_memctx(t.pid) == 1,
                                   f"{capset}: the control thread again")
                check_equal(ids_of(target.pid), after, f"{capset}: all threads")


def scheduling_of(pid, thread):
    """The policy, the nice value and the processors of a thread of this name ("": the first)."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as file:
            if file.read().strip() == thread if thread else int(tid) == pid:
                return (os.sched_getscheduler(int(tid)),
                        os.getpriority(os.PRIO_PROCESS, int(tid)), os.sched_getaffinity(int(tid)))
    return None


def delays_of(pid, thread):
    """The I/O priority and the timer slack in ns of a thread of this name."""
    libc = ctypes.CDLL(None)
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as file:
            if file.read().strip() == thread:
                with open(f"/proc/{tid}/timerslack_ns", encoding="ascii") as slack:
                    return libc.syscall(252, 1, int(tid)) >> 13, int(slack.read())
    return None


@test
def a_real_time_thread_starts_an_ordinary_one():
    """A thread with a real-time policy, a high priority, or a processor of its own may start the
    control thread. The control thread then has an ordinary policy and priority, an ordinary I/O
    priority and timer slack, and the processors of the program's first thread. It does not take
    more than that: a lower priority, or another policy of the whole program, is kept."""
    if os.geteuid() != 0:
        raise Skip("needs root for a real-time policy")
    program = harness.build_program("tests/control/realtime.c")
    processors = os.sched_getaffinity(0)
    for policy, nice, kept in ((os.SCHED_FIFO, 0, (os.SCHED_OTHER, 0)),
                               (os.SCHED_RR, -5, (os.SCHED_OTHER, 0)),
                               (os.SCHED_OTHER, -20, (os.SCHED_OTHER, 0)),
                               (os.SCHED_OTHER, 7, (os.SCHED_OTHER, 7)),
                               (os.SCHED_BATCH, 3, (os.SCHED_BATCH, 3))):
        argv = [program, str(policy), str(nice), str(max(processors))]
        with runtime_dir() as directory, harness.Target(argv, directory) as target:
            check_equal(target.hear(), "ready", f"policy {policy}, nice {nice}")
            harness.wait_until(lambda t=target: threads_named_memctx(t.pid) == 1, "its thread")
            harness.wait_until(
                lambda t=target, want=(*kept, processors): scheduling_of(t.pid, "memctx") == want,
                f"policy {policy}, nice {nice}: the control thread's "
                f"{scheduling_of(target.pid, 'memctx')}", timeout_s=10)
            harness.wait_until(
                lambda t=target: delays_of(t.pid, "memctx") == (0, 50000),
                f"class of I/O priority, timer slack: {delays_of(target.pid, 'memctx')}",
                timeout_s=10)


@test
def a_blocked_signal_of_libc_stays_blocked():
    """A thread that blocks glibc's signals 32 and 33 starts the control thread. A signal 32 that is
    pending stays pending, and setgid ends afterwards. (Timers with SIGEV_THREAD send signal 32.)"""
    program = harness.build_program("tests/control/blocked_signals.c")
    plain = harness.run_program([program], harness.clean_env(), timeout_s=PATIENCE_S)
    check_equal((plain.returncode, plain.stdout), (0, "pending\nend\n"), "without us")
    with runtime_dir() as directory:
        done = harness.run_program([program, "await"], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="auto"), timeout_s=PATIENCE_S)
        check_equal((done.returncode, done.stdout), (0, "pending\nend\n"), "with us")


@test
def last_thread_ends_the_process():
    """A process ends when its own threads have ended, although the control thread runs."""
    program = harness.build_program("tests/control/last_thread.c")
    with runtime_dir() as directory:
        started = time.monotonic()
        done = harness.run_program([program], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="eager"), timeout_s=PATIENCE_S)
        took = time.monotonic() - started
        check_equal((done.returncode, done.stdout, done.stderr), (0, "end\n", ""), "how it ended")
        check_equal(os.listdir(directory), [], "sockets and directories that are left")
        check(took < PATIENCE_S / 2, f"the end took {took:.1f} s")


ENDINGS = ("cancel", "cancel-late", "cancel-others", "cancel-second", "cancel-joined",
           "cancel-child", "cancel-write", "cancel-child-write", "exit", "exit-others",
           "return")


@test
def ends_as_without_us():
    """However its threads end, the program ends with its last own thread, and runs its exit
    handlers, as without the library."""
    program = harness.build_program("tests/control/endings.c")
    harness.together(lambda how: ends_alike(program, how), ENDINGS)


def ends_alike(program, how):
    plain = harness.run_program([program, how], harness.clean_env(), timeout_s=PATIENCE_S)
    check(plain.stdout.endswith("end\n"), f"{how} without us: {plain.stdout!r}")
    for mode in ("run", "eager", "auto"):
        with runtime_dir() as directory:
            argv = [harness.CLI, "run", "--"] if mode == "run" else []
            env = {"XDG_RUNTIME_DIR": directory} if mode == "run" else {
                "XDG_RUNTIME_DIR": directory, "LD_PRELOAD": harness.LIB, "MEMCTX_CONTROL": mode}
            done = harness.run_program([*argv, program, how], harness.clean_env(**env),
                                       timeout_s=PATIENCE_S)
            check_equal((done.returncode, done.stdout, done.stderr),
                        (plain.returncode, plain.stdout, plain.stderr),
                        f"{how}, {mode}: the end")
            folder = os.path.join(directory, "memctx")
            left = os.listdir(folder) if os.path.exists(folder) else []
            check_equal(left, [], f"{how}, {mode}: sockets left")


@test
@in_tries
def exit_is_not_delayed():
    """A client that does not read its answer does not delay the program's exit."""
    with runtime_dir() as directory, start_target(directory, "contexts", "2500") as target:
        with Wire(target.wait_socket(), receive_buffer=4096) as client:
            client.send(wire.piece_request("CONTEXTS"))
            started = time.monotonic()
            code, text = target.finish()
            took = time.monotonic() - started
            check_equal((code, text), (0, ""), "exit status and stderr")
            check(took < 5, f"the end took {took:.1f} s")


# --- time and settings ----------------------------------------------------------------------


@test
def ten_thousand_contexts():
    """Prints how long a dump of 10 000 contexts takes; the time has no limit."""
    with runtime_dir() as directory:
        with start_target(directory, "contexts", "2000", MEMCTX_FOLD="off") as target:
            target.wait_socket()
            before = int(target.ask("ops").split()[1])
            times = []
            for _ in range(15):
                started = time.monotonic()
                done = harness.run_cli("dump", "--json", "--no-symbols", target.pid,
                                       env=target.cli_env)
                times.append((time.monotonic() - started) * 1000)
                check_equal(done.returncode, 0, f"dump ({done.stderr})")
            contexts = done.stdout.count('"parent"')
            check(contexts >= 10000, f"only {contexts} contexts")
            builds = []
            with Wire(target.socket_path()) as client:
                for _ in range(15):
                    took, size, _ = client.dump()
                    builds.append(took / 1e6)
            after = int(target.ask("ops").split()[1])
            check(after > before, "the target stood still")
            leaves = target.dump("--no-symbols")["totals"]["live_chunks"]
            check(leaves >= 2000, f"{leaves} chunks")
    return (f"{contexts} contexts, {size} bytes: command {statistics.median(times):.1f} ms "
            f"(least {min(times):.1f}), in the library {statistics.median(builds):.2f} ms")


@test
def huge_pages_as_asked_for():
    """MEMCTX_THP sets the huge page flags of the mappings of segments and large chunks."""
    if not os.path.exists("/sys/kernel/mm/transparent_hugepage"):
        raise Skip("the kernel has no transparent huge pages")
    program = ["python3", "-S", "-c",
               "big = bytearray(9 << 20); print('ready', flush=True); input()"]
    # Without a setting the first segments, and the tables of the library, get no huge pages.
    for mode, want, other, most in ((None, None, "hg", 0), ("default", None, "hg", 0),
                                    ("always", "hg", "nh", 1 << 10), ("never", "nh", "hg", 0)):
        with runtime_dir() as directory:
            with harness.Target(program, directory, MEMCTX_THP=mode) as target:
                target.hear()
                with open(f"/proc/{target.pid}/smaps", encoding="utf-8") as file:
                    maps = file.read().split("VmFlags:")
                flags = [flag.split("\n")[0].split() for flag in maps[1:]]
                # Readable anonymous mappings without a name are the library's segments and large
                # chunks.
                sizes = [int(line.split()[1]) for text in maps for line in text.splitlines()
                         if line.startswith("Size:")]
                marked = sum(size for size, flag in zip(sizes, flags) if want in flag)
                check(not want or marked >= 12 << 10, f"{mode}: {marked} KiB are marked {want}")
                others = sum(size for size, flag in zip(sizes, flags) if other in flag)
                check(others <= most, f"{mode}: {others} KiB are marked {other}")


@test
def statistics_move():
    """The library's statistics have a fixed set of names, and their figures change while it
    works."""
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            before = client.statistics()
            target.ask("ops")
            harness.wait_until(lambda: client.statistics()["allocs"] > before["allocs"],
                               "the figure of allocations grows")
            after = client.statistics()
        check(before and before.keys() == after.keys(), "the list of statistics changes")
        check(all(re.fullmatch("[a-z0-9_]+", name) for name in before), f"names: {list(before)}")
        check_equal((after["foreign_frees"], after["lost"], after["verify_mismatches"]), (0, 0, 0),
                    "foreign frees, lost operations, mismatches")
        check(after["contexts"] >= 300, f"{after['contexts']} contexts")
    return ", ".join(f"{name} {value}" for name, value in after.items())
