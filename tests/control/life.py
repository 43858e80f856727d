# SPDX-License-Identifier: MIT
"""The control thread and socket in a process's life: start, daemons, fork, exit."""
import contextlib
import ctypes
import os
import re
import subprocess
import time

import harness
import wire
from harness import PATIENCE_S, Skip, check, check_equal, in_tries, runtime_dir, test
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
    """A forked child starts its control thread only when it has lived for some time, also if its
    parent had several threads."""
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


@test
def the_start_is_only_postponed():
    """If a process that begins to wait has no descriptor, no memory, or may make no thread, the
    control thread starts at a later wait."""
    program = harness.public_copy(harness.build_program("tests/control/postponed.c"))
    user = harness.NOBODY if os.geteuid() == 0 else None
    with runtime_dir(owner=user) as directory:
        env = harness.clean_env(LD_PRELOAD=harness.public_copy(harness.LIB),
                                XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="auto")
        for lacks in ("descriptors", "memory", "threads"):
            done = harness.run_program([program, lacks], env, uid=user)
            check_equal((done.returncode, done.stdout, done.stderr), (0, "1\n", ""),
                        f"{lacks}: exit status, control threads, stderr")


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
def forks_in_a_handler_that_interrupted_a_fork():
    """In a process with two threads glibc holds a lock during a fork, so a fork in a handler that
    interrupted it would wait for ever. The control thread is no such thread."""
    program = harness.build_program("tests/control/signal_forks.c")
    with runtime_dir() as directory:
        done = harness.run_program([program], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="eager"), timeout_s=60)
        check_equal((done.returncode, done.stdout, done.stderr), (0, "interrupted\n", ""), "words")


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
                # Only the library gives its mappings one of the flags hg and nh.
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
