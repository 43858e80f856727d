# SPDX-License-Identifier: MIT
"""The socket through a process's life: start, descriptors, daemons, fork, exit; and its speed."""
import contextlib
import os
import re
import socket
import statistics
import time

import harness
import wire
from harness import PATIENCE_S, Failure, Skip, check, check_equal, in_tries, runtime_dir, test
from hostile import attacked, start_target
from sockets import target_argv
from wire import Wire


def run_argv(*words):
    """The target under `memctx run`, which execs it: the pid stays."""
    return [harness.CLI, "run", "--", *target_argv(*words)]


@test
def run_is_eager():
    """memctx run's program has its socket without doing anything, and cleans up at its end."""
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
    """off never has a socket; auto has one after its first thread; eager at once."""
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
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as file:
            count += file.read().strip() == "memctx"
    return count


@test
def forks_come_first():
    """auto: while a young process forks again and again its thread waits for a pause, but starts after a
    second all the same: the fork of a program with two threads is dearer."""
    program = harness.build_program("tests/control/forking.c")
    with runtime_dir() as directory:
        done = harness.run_program([program], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="auto"), timeout_s=60)
        check_equal((done.returncode, done.stdout, done.stderr), (0, "started\n", ""), "its words")


@test
def short_life_has_no_socket():
    """A process of a few milliseconds leaves no trace in the directory."""
    with runtime_dir() as directory:
        for _ in range(20):
            done = harness.run_program(["/bin/true"],
                                       harness.preloaded_env(XDG_RUNTIME_DIR=directory))
            check_equal((done.returncode, done.stderr), (0, ""), "/bin/true")
        folder = os.path.join(directory, "memctx")
        check(not os.path.exists(folder) or not os.listdir(folder), "sockets are left behind")


@test
def descriptors_unseen():
    """The program sees 0, 1, 2 and gets 3 next; its tables look the same as without us."""
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
    """0, 1 and 2 closed at the start stay closed: a socket must not become standard output."""
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
    """The program puts a file of its own on every number that a descriptor of ours could have."""
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            check(target.ask("dup2").endswith(" next 900"), "not all numbers are in use")
            client.dump()


@contextlib.contextmanager
def refusing(*calls):
    """The target where the kernel refuses these system calls: our descriptors are in its table then."""
    argv = [harness.build_program("tests/control/refusing.c"), *calls, "--",
            *target_argv("contexts", "300")]
    with runtime_dir() as directory:
        # Eager would start no thread: the library cannot know that this filter allows a new thread.
        with harness.Target(argv, directory, MEMCTX_CONTROL="always") as target:
            check_equal(target.hear(), f"ready {target.pid}", "the target's line")
            yield target
            code, text = target.finish()
            check_equal((code, text), (0, ""), "exit status and stderr of the target")


def served(target):
    """Returns the path of the target's socket; waits until the target itself answers there, and not the program before its
    exec."""
    harness.wait_until(lambda: harness.run_cli("dump", "--self", target.pid, env=target.cli_env)
                       .returncode == 0, "an answer")
    return target.socket_path()


@test
def shared_descriptors_are_high():
    """Without unshare our descriptors are above what programs count on, and a client is served."""
    with refusing("unshare") as target:
        with Wire(served(target)) as client:
            client.dump()
            seen = target.ask("fds").split()
            numbers = [int(word) for word in seen[1:-2]]
            check_equal(numbers[:3], [0, 1, 2], "the program's own")
            check(len(numbers) >= 5, f"listener and client are not in the program's table: {seen}")
            check(all(number >= 500 for number in numbers[3:]), f"low numbers: {seen}")
            check_equal(seen[-1], "3", "the next descriptor")


@test
def shared_descriptors_closed_are_forgotten():
    """The program closes the library's descriptors and opens files with these numbers: the library neither reads, writes nor
    closes them."""
    for words in (("dup2",), ("closefrom", "dup2")):
        with refusing("unshare") as target:
            with Wire(served(target)) as client:
                client.dump()
                for word in words:
                    target.ask(word)
                spent = harness.library_thread_ns(target.pid)
                time.sleep(1.5)  # more than one round of the control thread's
                seen = target.ask("fds").split()
                check_equal(seen[1:], [*map(str, range(900)), "next", "900"], "descriptors, later")
                spent = harness.library_thread_ns(target.pid) - spent
                check(spent < 0.3e9, f"the control thread spun: {spent / 1e6:.0f} ms of 1500")


@test
def close_range_that_is_not_known():
    """Older kernels: what the program has open is closed in the control thread's table all the same."""
    with refusing("close_range") as target:
        served(target)
        thread = harness.library_thread(target.pid)
        names = sorted(os.listdir(f"/proc/{target.pid}/task/{thread}/fd"))
        files = [os.readlink(f"/proc/{target.pid}/task/{thread}/fd/{name}") for name in names]
        check(all(file.startswith("socket:") for file in files), f"open in our table: {files}")


@test
def no_descriptor_left_is_no_spin():
    """A client waits, but the process may have no more descriptors: nobody is served, nothing spins."""
    # The listener and each client have one; with fewer allowed than there are, poll itself is refused.
    for limit, others in ((0, 0), (1, 0), (5, 4), (9, 8), (3, 8)):
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
                check(spent < 0.3e9, f"limit {limit}: the thread spun: {spent / 1e6:.0f} ms of 1200")
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
    """Two forks and closed descriptors later, the grandchild has a socket of its own."""
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
                # The first process may have had a socket, or been about to, before it left by _exit, which runs no
                # handler. memctx ps removes what that process left, a socket with a temporary name only when it is
                # old.
                for name in os.listdir(os.path.dirname(path)):
                    if name.endswith(".tmp"):
                        os.utime(os.path.join(os.path.dirname(path), name), (0, 0))
                def swept():
                    check_equal(harness.run_cli("ps", env=parent.cli_env).returncode, 0, "memctx ps")
                    return os.listdir(os.path.dirname(path)) == [f"{pid}.sock"]
                harness.wait_until(swept, "no other sockets")
                parent.process.stdin.close()  # the daemon has it too: it ends
                harness.wait_until(lambda: not os.path.exists(path), "the daemon's clean end")
            finally:
                # It is ours: its socket carries the pid that it printed to our own pipe.
                if os.path.exists(f"/proc/{pid}") and b"control_target" in open(
                        f"/proc/{pid}/cmdline", "rb").read():
                    os.kill(pid, 9)


@test
def child_leaves_parents_socket():
    """A child that exits with all exit handlers unlinks nothing."""
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
            rss_bytes = harness.rss_kib(target.pid) << 10  # the process itself does not know it without /proc
            check(rss_bytes / 2 < dump["rss_bytes"] < rss_bytes * 2, f"resident: {dump['rss_bytes']}, {rss_bytes}")
            done = harness.run_cli("trim", str(target.pid), "--bytes", env=target.cli_env)
            check(done.returncode == 0 and "-1" not in done.stdout, f"trim: {done.stdout}{done.stderr}")


@test
def no_thread_to_be_had():
    """RLIMIT_NPROC too small for our thread: the program runs, there is just no socket."""
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
def privileges_dropped():
    """A program that gives up root beside the control thread gives it up in every thread, and is not killed for it."""
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


def became(target, name):
    if target.process.poll() is not None:
        raise Failure(f"it has ended: {target.ending()}")
    with open(f"/proc/{target.pid}/comm", encoding="ascii") as file:
        return file.read() == name + "\n"


@test
def launchers_have_no_thread():
    """setpriv keeps its capabilities over setresuid and then calls setresgid, which would fail in a
    thread beside it, and glibc aborts the program for that; the kernel lets only a process of one
    thread change its user or mount namespace. What they become has its socket at once."""
    if os.geteuid() != 0:
        raise Skip("needs root to give up")
    allowed = 0
    cli = harness.public_copy(harness.CLI)
    harness.public_copy(harness.LIB)  # found beside it
    for argv in (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
                 ["unshare", "--user", "--map-root-user"],
                 ["nsenter", "--mount=/proc/self/ns/mnt", "--root=/"],
                 ["env", "setpriv", "--no-new-privs"]):
        if harness.run_program([*argv, "true"], harness.clean_env()).returncode != 0:
            continue  # a container may forbid it without us
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


@test
def last_thread_ends_the_process():
    """The control thread does not keep a process alive whose own threads have all ended."""
    program = harness.build_program("tests/control/last_thread.c")
    with runtime_dir() as directory:
        started = time.monotonic()
        done = harness.run_program([program], harness.preloaded_env(
            XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="eager"), timeout_s=PATIENCE_S)
        took = time.monotonic() - started
        check_equal((done.returncode, done.stdout, done.stderr), (0, "end\n", ""), "how it ended")
        check_equal(os.listdir(os.path.join(directory, "memctx")), [], "sockets left")
        check(took < PATIENCE_S / 2, f"the end took {took:.1f} s")


ENDINGS = ("cancel", "cancel-late", "cancel-others", "cancel-second", "cancel-joined",
           "cancel-child", "exit", "exit-others", "return")


@test
def ends_as_without_us():
    """However its threads end, the program ends with the last of its own, by its exit handlers. (glibc
    alone hangs where a thread of the program's own was there and the last one cancels itself at once.)"""
    program = harness.build_program("tests/control/endings.c")
    for how in ENDINGS:
        plain = harness.run_program([program, how], harness.clean_env(), timeout_s=PATIENCE_S)
        check(plain.stdout.endswith("end\n"), f"{how} without us: {plain.stdout!r}")
        for mode in ("run", "eager", "auto"):
            with runtime_dir() as directory:
                argv = [harness.CLI, "run", "--"] if mode == "run" else []
                env = {"XDG_RUNTIME_DIR": directory} if mode == "run" else {
                    "XDG_RUNTIME_DIR": directory, "LD_PRELOAD": harness.LIB, "MEMCTX_CONTROL": mode}
                done = harness.run_program([*argv, program, how], harness.clean_env(**env), timeout_s=PATIENCE_S)
                check_equal((done.returncode, done.stdout, done.stderr),
                            (plain.returncode, plain.stdout, plain.stderr), f"{how}, {mode}: the end")
                folder = os.path.join(directory, "memctx")
                left = os.listdir(folder) if os.path.exists(folder) else []
                check_equal(left, [], f"{how}, {mode}: sockets left")


@test
@in_tries
def exit_is_not_delayed():
    """A client that holds its connection does not keep the program from ending."""
    with runtime_dir() as directory, start_target(directory, "contexts", "2500") as target:
        with Wire(target.wait_socket(), receive_buffer=4096) as client:
            client.send(wire.piece_request("CONTEXTS"))
            started = time.monotonic()
            code, text = target.finish()
            took = time.monotonic() - started
            check_equal((code, text), (0, ""), "exit status and stderr")
            check(took < 5, f"the end took {took:.1f} s")


# --- how fast -------------------------------------------------------------------------------


@test
def ten_thousand_contexts():
    """Prints what a dump of 10 000 contexts takes. The figure never decides: machines differ."""
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
    """MEMCTX_THP reaches the kernel: the mappings of segments and of large chunks say so."""
    if not os.path.exists("/sys/kernel/mm/transparent_hugepage"):
        raise Skip("the kernel has no transparent huge pages")
    program = ["python3", "-S", "-c", "big = bytearray(9 << 20); print('ready', flush=True); input()"]
    for mode, want, other in ((None, None, ("hg", "nh")), ("default", None, ("hg", "nh")),
                              ("always", "hg", ("nh",)), ("never", "nh", ("hg",))):
        with runtime_dir() as directory:
            with harness.Target(program, directory, MEMCTX_THP=mode) as target:
                target.hear()
                with open(f"/proc/{target.pid}/smaps", encoding="utf-8") as file:
                    maps = file.read().split("VmFlags:")
                flags = [flag.split("\n")[0].split() for flag in maps[1:]]
                # Without a name or a file, and readable: the interpreter's own memory is ours.
                sizes = [int(line.split()[1]) for text in maps for line in text.splitlines()
                         if line.startswith("Size:")]
                marked = sum(size for size, flag in zip(sizes, flags) if want in flag)
                check(not want or marked >= 12 << 10, f"{mode}: {marked} KiB are marked {want}")
                check(not any(flag in flags_of for flag in other for flags_of in flags),
                      f"{mode}: a mapping is marked {other}")


@test
def statistics_move():
    """What the library says of itself: always the same names, figures that move."""
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
