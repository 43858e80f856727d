# SPDX-License-Identifier: MIT
"""Programs that change their user, groups, capabilities or namespaces beside a control thread: no
thread keeps what the program gave up, and no call fails because of the control thread."""
import contextlib
import ctypes
import os
import subprocess
import sys
import time

import harness
from harness import PATIENCE_S, Failure, Skip, check, check_equal, runtime_dir, test
from life import threads_named_memctx


DROP = """
import os, sys
nobody = (65534,) * 3
os.setgroups([])
os.setresgid(*nobody)
os.setresuid(*nobody)
print(os.getresuid(), os.getresgid(), flush=True)
sys.stdin.read()
"""


@test
def privileges_dropped():
    """A program that gives up root beside a control thread gives it up in all threads, and runs
    on."""
    if os.geteuid() != 0:
        raise Skip("needs root to give up")
    with runtime_dir() as directory:
        os.chmod(directory, 0o755)
        with harness.Target(["python3", "-c", DROP], directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "(65534, 65534, 65534) (65534, 65534, 65534)", "ids")
            for tid in os.listdir(f"/proc/{target.pid}/task"):
                check_equal(harness.read_status(target.pid, "Uid", tid).split(), ["65534"] * 4,
                            f"uids of thread {tid}")
            target.finish()


# Makes the call in its first argument when it reads a line, and prints the result.
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


def became(target, name):
    """True if the process has executed the program `name`."""
    if target.process.poll() is not None:
        raise Failure(f"it has ended: {target.ending()}")
    with open(f"/proc/{target.pid}/comm", encoding="ascii") as file:
        return file.read() == name + "\n"


CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000

# Makes each call that it reads, and prints its errno. The line "allocate" allocates instead.
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
    for call in (f"unshare({CLONE_NEWUSER})", f"unshare({CLONE_NEWNS})", "setns(own('mnt'), 0)",
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


@test
def all_threads_enter_a_new_mount_namespace():
    """unshare gives a new mount namespace to the calling thread alone. A control thread that stayed
    in the old one would keep it and its working directory in use, and an unmount there would
    fail."""
    if entered(f"unshare({CLONE_NEWNS})", preload=False)[0] != "0":
        raise Skip("this user may make no mount namespace")
    for call in (f"unshare({CLONE_NEWNS})", f"syscall(272, {CLONE_NEWNS})"):
        with runtime_dir() as directory, harness.Target([sys.executable, "-c", ENTERS], directory,
                                                        MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "first line")
            harness.wait_until(lambda t=target: threads_named_memctx(t.pid) == 1,
                               "the control thread")

            def namespaces(pid):
                return {os.readlink(f"/proc/{pid}/task/{tid}/ns/mnt")
                        for tid in os.listdir(f"/proc/{pid}/task")}
            before = namespaces(target.pid)
            check_equal(target.ask(call), "0", f"{call}: errno")
            after = namespaces(target.pid)
            check(len(after) == 1 and after != before, f"{call}: {before} became {after}")


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
    # The command, a copy that all users may read, finds the library in its own folder.
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
