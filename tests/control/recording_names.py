# SPDX-License-Identifier: MIT
"""Recordings that keep names of functions."""
import contextlib
import os
import shutil
import signal
import tempfile
import time

import harness
from harness import check, check_equal, run_cli, runtime_dir, test, wait_until
from recorded import block_at, dump_of, functions_of, read, recorded, recording_of, wait_moments
from recording import own_memory_cgroup

NAMES_AT, NAMES_BYTES, NAMES = 15 << 20, 512 << 10, 0x4D4E4352


def names_of(path):
    """The sequence numbers of the two blocks of names; 0: the block is not valid."""
    data = read(path)
    found = [block_at(data, NAMES_AT + i * NAMES_BYTES, NAMES) for i in range(2)]
    return [block[0] if block else 0 for block in found]


@contextlib.contextmanager
def short_lived_program(*options, name="recorded", before=(), **env):
    """Runs a copy of the program, which a test can remove, under memctx run --record. `before`: the
    words before the command's name. Yields the target, the copy's path and the recording."""
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-[rec]-") as directory:
        program = os.path.join(directory, name)
        shutil.copy(harness.build_program("tests/control/recorded.c"), program)
        argv = [*before, harness.CLI, "run", f"--record={directory}", *options, "--", program]
        with harness.Target(argv, runtime, preload=False, **env) as target:
            check_equal(target.hear(), f"ready {target.pid}", "the target's line")
            yield target, program, os.path.join(directory, f"memctx-{target.pid}-{name}.rec")


def companions_of(pid):
    """The pids of the processes that write the names of process `pid` into its recording."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if (name.isdigit() and
                    read(f"/proc/{name}/cmdline").split(b"\0")[1:2] == [b"names of %d" % pid]):
                found.append(int(name))
    return found


@test
def recording_keeps_names():
    """--names stores function names in the recording; they are there after the program's file is
    removed. A FIFO with the name of a recording, which another user made, holds nobody up."""
    with short_lived_program("--names") as (target, program, path):
        os.mkfifo(os.path.join(os.path.dirname(path), f"memctx-{target.pid}-other.rec"))
        wait_until(lambda: os.path.exists(path) and any(names_of(path)), "names in the recording",
                   timeout_s=60)
        beside = companions_of(target.pid)
        check_equal(len(beside), 1, "processes beside the program")
        check_equal(os.stat(f"/proc/{beside[0]}/fd/0").st_rdev, os.stat("/dev/null").st_rdev,
                    "its standard input")
        check(int(read(f"/proc/{beside[0]}/stat").rsplit(b")", 1)[1].split()[1]) != target.pid,
              "it is a child of the program")
        # a service manager sends SIGTERM to all processes of a service
        os.kill(beside[0], signal.SIGTERM)
        time.sleep(0.1)
        check_equal(companions_of(target.pid), beside, "SIGTERM ended it before the program")
        shutil.copy(program, program + ".new")
        os.replace(program + ".new", program)  # as an upgrade does
        told = run_cli("postmortem", path).stdout
        check("executed another" not in told and "still runs" in told, told)
        target.process.send_signal(signal.SIGKILL)
        target.process.wait(timeout=60)
        wait_until(lambda: not companions_of(target.pid), "the end of the process beside",
                   timeout_s=60)
        os.unlink(program)
        dump, functions = functions_of(path)
        check(dump["has_names"] and "main" in functions, functions)
        check_equal(functions_of(path + "@start")[1] - {None}, functions - {None},
                    "at the first moment")
        told = run_cli("postmortem", path)
        check(told.returncode == 0 and "(recorded.c:" in told.stdout, told.stdout + told.stderr)
        check("main" not in {context["frame"] and context["frame"]["function"]
                             for context in dump_of(path)["contexts"]}, "--no-symbols")


def switches_of(pid):
    return int(harness.read_status(pid, "voluntary_ctxt_switches"))


@test
def names_leave_memory_to_the_program():
    """While the program's control group is nearly full, no look-up of names takes memory that the
    group lacks. Otherwise the kernel would kill the look-up, and with memory.oom.group the program,
    too. When the group has room, the names are looked up."""
    with own_memory_cgroup() as (_, limit, members):
        with open(limit, "w", encoding="ascii") as file:
            file.write(str(36 << 20))
        with recorded(1500, members=members, options=["--names"]) as (target, directory):  # 30 MB
            path = recording_of(directory, target.pid)
            beside = wait_until(lambda: companions_of(target.pid), "the process beside")[0]
            begun = switches_of(beside)
            wait_until(lambda: switches_of(beside) > begun, "the first look at the recordings")
            wait_until(lambda: companions_of(target.pid) == [beside], "the end of a look-up")
            with open(limit, "w", encoding="ascii") as file:
                file.write(str(256 << 20))
            wait_until(lambda: os.path.exists(path) and any(names_of(path)), "names",
                       timeout_s=60)
            folder = os.path.dirname(members)
            counts = [read(f"{folder}/{name}").decode() for name in
                      ("memory.oom_control", "memory.events")
                      if os.path.exists(f"{folder}/{name}")]
            check(counts and "oom_kill 0\n" in counts[0], counts)
            target.kill()


@test
def names_of_a_program_with_a_version():
    """A recording of ruby3.1 is called memctx-PID-ruby3.1.rec. --names does not take it for an
    older recording of ruby3."""
    with short_lived_program("--names", name="recorded3.1") as (_, _, path):
        wait_until(lambda: os.path.exists(path) and any(names_of(path)), "names in the recording",
                   timeout_s=60)


@test
def names_on_older_kernels():
    """On a kernel without pidfd_open, --names stores names, and the process beside the program ends
    after the program."""
    filtered = [harness.build_program("tests/control/refusing.c"), "pidfd_open", "--"]
    with short_lived_program("--names", before=filtered,
                             MEMCTX_CONTROL="always") as (target, _, path):
        wait_until(lambda: os.path.exists(path) and any(names_of(path)), "names in the recording",
                   timeout_s=60)
        check_equal(len(companions_of(target.pid)), 1, "processes beside the running program")
        target.process.send_signal(signal.SIGKILL)
        target.process.wait(timeout=60)
        wait_until(lambda: not companions_of(target.pid), "the end of the process beside",
                   timeout_s=60)
        check("main" in functions_of(path)[1], "names")


@test
def names_are_added_later():
    """`memctx postmortem --names` writes names to two places alternately; damaged names are
    ignored, and other files are refused."""
    with short_lived_program() as (target, program, path):
        wait_moments(path)
        target.process.send_signal(signal.SIGKILL)
        target.process.wait(timeout=60)
        check_equal(names_of(path), [0, 0], "names before")
        want = functions_of(path)[1]
        check_equal((run_cli("postmortem", "--names", path).returncode, names_of(path)),
                    (0, [1, 0]), "names")
        check_equal((run_cli("postmortem", "--names", path).returncode, names_of(path)),
                    (0, [1, 0]), "names that are there")
        os.rename(program, program + "-moved")
        check_equal(functions_of(path)[1], want, "with the program's file gone")
        with open(path, "r+b") as file:
            file.seek(NAMES_AT + 200)
            file.write(b"damage")
        check("main" not in functions_of(path)[1], "names of a damaged block")
        os.rename(program + "-moved", program)
        check_equal((run_cli("postmortem", "--names", path).returncode, names_of(path)),
                    (0, [0, 2]), "beside the damaged block")
        dump, functions = functions_of(path)
        check_equal((dump["has_names"], functions), (True, want), "again")
        snapshot = path + ".mctx"
        check_equal(run_cli("dump", path, "-o", snapshot).returncode, 0, "a snapshot of it")
        for words, code, message in ((["--names", "--no-symbols", path], 2,
                                      "contradict each other"),
                                     (["--names", snapshot], 1, "is a snapshot, not a recording")):
            done = run_cli("postmortem", *words)
            check(done.returncode == code and message in done.stderr,
                  f"{words}: {done.returncode} {done.stderr}")
        done = run_cli("run", "--names", "true")
        check(done.returncode == 2 and "add --record" in done.stderr, done.stderr)
