# SPDX-License-Identifier: MIT
"""Processes and commands that are confined: sandboxes, namespaces, other users, no /proc, filters
of system calls."""
import json
import os
import shutil

import harness
from harness import Failure, Skip, check, check_equal, runtime_dir, test, wait_until
from outside_reading import PYTHON, maps_of, read, start_python


def start_sandboxed(argv, directory):
    bwrap = shutil.which("bwrap")
    words = [bwrap, "--dev-bind", "/", "/", "--unshare-all", "--"] if bwrap else \
        ["unshare", "-U", "-r", "-i", "-n", "-u", "--"]
    return harness.Target([*words, *argv], directory, preload=False)


@test
def outside_in_a_sandbox():
    """A process in its own namespaces (bwrap, else unshare) and without a socket is read from
    outside."""
    with runtime_dir() as directory:
        program = ["env", f"LD_PRELOAD={harness.LIB}", "MEMCTX_CONTROL=off", "/usr/bin/python3",
                   "-c",
                   PYTHON.replace("'ready'", "'ready', flush=True) or print(len(kept)")]
        with start_sandboxed(program, directory) as target:
            try:
                target.hear(60)
            except Failure as failure:
                raise Skip(f"no sandbox here: {failure}") from failure
            inner = [int(name) for name in os.listdir("/proc") if name.isdigit()
                     and is_below(int(name), target.pid) and "libmemctx" in maps_of(int(name))]
            check(inner, "no process with the library")
            check(read(inner[-1])["totals"]["requested_bytes"] > 20 << 20, "too few bytes")


def is_below(pid, ancestor):
    while pid > 1 and pid != ancestor:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return pid == ancestor


@test
def no_process_is_seen_without_proc():
    """Without /proc, as in a chroot, the verbs say so, but can still read files."""
    hide = ["unshare", "--mount", "sh", "-c",
            f"mount -t tmpfs none /proc && cd {harness.ROOT} && exec \"$@\"", "sh"]
    if harness.run_program([*hide, "true"], harness.clean_env()).returncode != 0:
        raise Skip("needs root, to hide /proc in a mount namespace")
    for words in ("ps", "dump 1", "dump redis-server", "top --all", "watch --all --when rss>1",
                  "serve --all"):
        done = harness.run_program([*hide, harness.CLI, *words.split()], harness.clean_env())
        check(done.returncode == 3 and "/proc is not mounted" in done.stderr,
              f"{words}: {done.returncode} {done.stderr}")
    done = harness.run_program([*hide, harness.CLI, "dump", "Makefile"], harness.clean_env())
    check(done.returncode == 1 and "Makefile" in done.stderr,
          f"a file: {done.returncode} {done.stderr}")


@test
def pid_namespaces_that_share_a_directory():
    """Two processes with one pid in their namespaces share the name of a socket. The older one is
    read from outside, and the dump says why."""
    if os.geteuid() != 0:
        raise Skip("needs root, to make pid namespaces")
    program = harness.build_program("tests/cli/programs/allocate.c")
    argv = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", program]
    with runtime_dir() as directory, harness.Target(argv, directory,
                                                    MEMCTX_CONTROL="eager") as first:
        check_equal(first.hear(), "ready", "the first")
        with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as second:
            check_equal(second.hear(), "ready", "the second")
            pids = []
            for target in (first, second):
                with open(f"/proc/{target.pid}/task/{target.pid}/children",
                          encoding="ascii") as file:
                    pids.append(file.read().split()[0])
            wait_until(lambda: "how" not in read(pids[1]), "an answer of the second")
            how = read(pids[0])["how"]
            check(f"process {pids[1]} listens under its name" in how and
                  "XDG_RUNTIME_DIR or /tmp of its own" in how, how)


@test
def outside_forbidden():
    """A user cannot read another user's process, stopped or not."""
    if os.geteuid() != 0:
        raise Skip("needs root, to be another user")
    with runtime_dir() as directory, start_python(directory, MEMCTX_CONTROL="off") as target:
        for options in ([], ["--outside"]):
            done = harness.run_program([harness.public_copy(harness.CLI), "dump", *options,
                                        str(target.pid)],
                                       harness.clean_env(), uid=harness.NOBODY)
            check(done.returncode == 4 and "run memctx as" in done.stderr,
                  f"{options}: {done.returncode} {done.stderr}")


@test
def outside_of_a_user_with_a_foreign_directory():
    """A process with root's XDG_RUNTIME_DIR and without a socket is read from outside by its own
    user."""
    if os.geteuid() != 0:
        raise Skip("needs root, to be another user")
    with runtime_dir() as directory, harness.Target(["/bin/cat"], directory, uid=harness.NOBODY,
                                                    MEMCTX_CONTROL="off") as target:
        wait_until(lambda: "libmemctx" in maps_of(target.pid), "the library")
        done = harness.run_program([harness.public_copy(harness.CLI), "dump", "--json",
                                    str(target.pid)],
                                   harness.clean_env(), uid=harness.NOBODY)
        check_equal(done.returncode, 0, f"dump; {done.stderr}")
        check("MEMCTX_CONTROL=off" in json.loads(done.stdout)["how"], done.stdout[:300])


@test
def program_that_sees_no_proc():
    """Without /proc the library cannot tell whether system calls are filtered, so it starts its
    control thread only with MEMCTX_CONTROL=always. The program's functions have names."""
    program = harness.build_program("tests/cli/programs/allocate.c")
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0"', program]
    if harness.run_program([*hidden[:4], "mount -t tmpfs none /proc"],
                           harness.clean_env()).returncode != 0:
        raise Skip("needs root, to hide /proc in a mount namespace")
    for control, how in (("auto", "it sees no /proc"), ("always", None)):
        with runtime_dir() as directory, harness.Target(hidden, directory,
                                                        MEMCTX_CONTROL=control) as target:
            check_equal(target.hear(60), "ready", "what the program said")
            if not how:  # the shell may have left a socket when it executed the program
                wait_until(lambda: harness.run_cli("dump", "--self", target.pid,
                                                   env=target.cli_env).returncode == 0, "an answer")
            dump = target.dump()
            check(how in dump["how"] if how else "how" not in dump, f"{control}: {dump.get('how')}")
            check('"function":"allocate_first"' in json.dumps(dump, separators=(",", ":")),
                  f"{control}: a function of the program has no name")


GIVES_UP_PRIVILEGES = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0) # PR_SET_NO_NEW_PRIVS
print("ready", flush=True)
sys.stdin.readline()
allow = ctypes.create_string_buffer(b"\\6\\0\\0\\0\\0\\0\\377\\177") # SECCOMP_RET_ALLOW
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(1, ctypes.addressof(allow))
print(libc.syscall(317, 1, 0, ctypes.byref(program)), flush=True) # seccomp
sys.stdin.readline()
"""


@test
def program_that_only_gives_up_privileges():
    """haproxy sets no_new_privs, but no filter of system calls. With MEMCTX_CONTROL=always it keeps
    its control thread until it sets a filter."""
    argv = ["/usr/bin/python3", "-c", GIVES_UP_PRIVILEGES]
    with runtime_dir() as directory:
        with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "what the program said")
            how = target.dump()["how"]
            check("no_new_privs" in how and "start it with MEMCTX_CONTROL=always" in how, how)
        with harness.Target(argv, directory, MEMCTX_CONTROL="always") as target:
            check_equal(target.hear(), "ready", "what the program said")
            target.wait_socket()
            check("how" not in target.dump(), "the program did not answer")
            done = harness.run_cli("mark", target.pid, "m", env=target.cli_env)
            check_equal(done.returncode, 0, done.stderr)
            check_equal(target.ask("filter"), "0", "seccomp")
            check("filtered" in target.dump()["how"], "how a filtered program was read")
            check(not os.path.exists(target.socket_path()), "the socket is still there")


USES_LARGE_CHUNKS = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(20):
        zeroed = bytes(900_000) # calloc, of memory that was used before
    kept = bytearray(b"x") * (8 << 20)
    print("done", flush=True)
"""

RESIDENT_KEYS = ("segments_resident", "metadata_resident", "control_bytes")


@test
def filter_without_mincore():
    """A service manager's list of permitted calls lacks mincore (systemd's @system-service). With
    MEMCTX_CONTROL=always the library does not make that call under a filter. It finds the resident
    memory by other calls, and the same as without a filter."""
    filtering = harness.build_program("tests/preload/programs/filtering.c")
    argv = ["/usr/bin/python3", "-c", USES_LARGE_CHUNKS]
    resident = {}
    for group in (None, "nothing", "mincore"):
        started = [filtering, group, "--", *argv] if group else argv
        with runtime_dir() as directory, harness.Target(started, directory,
                                                        MEMCTX_CONTROL="always") as target:
            check_equal(target.hear(60), "ready", "what the program said")
            target.wait_socket()
            for _ in range(3):
                check_equal(target.ask("go"), "done", "large chunks")
            dump = target.dump()
            check("how" not in dump, f"{group}: {dump.get('how')}")
            resident[group] = [dump["totals"]["resident_bytes"],
                               *(dump["ledger"][key] for key in RESIDENT_KEYS)]
            check_equal(harness.run_cli("frag", target.pid, env=target.cli_env).returncode, 0,
                        "memctx frag")
            check_equal(target.ask("again"), "done", "after the questions")
    # Addresses of modules and the order of sets differ from run to run, so the figures do a bit.
    for group in ("nothing", "mincore"):
        check(all(0 < now and abs(now - free) < 0.2 * free
                  for now, free in zip(resident[group], resident[None])), resident)
