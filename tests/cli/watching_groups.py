# SPDX-License-Identifier: MIT
"""memctx watch in control groups: one action for a limit that processes share, real limits and
pressure."""
import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys

import harness
from harness import Skip, Target, build_program, check, check_equal, test, wait_until
from clitest import scratch, target
from watching import MIB, Watch, hold


@test
def watch_all_acts_once_for_a_limit_that_processes_share():
    """With --all, `used` begins to hold for all processes below a limit at one moment. Its actions
    are done once, for the largest of these processes; not again for a process that comes later."""
    with scratch() as where, contextlib.ExitStack() as running:
        program = os.path.join(where, f"sharer{os.getpid()}")
        shutil.copy(build_program("tests/cli/programs/hold.c"), program)
        first = running.enter_context(target([program]))
        words = ["--all", "--match", os.path.basename(program), "--when", "used>1%limit", "--dir",
                 where]

        def start():
            other = running.enter_context(Target([program], first.runtime, MEMCTX_CONTROL="eager"))
            check_equal(other.hear(), "ready", "another process")
            return other

        second = start()
        second.ask("take 60")
        with Watch(None, *words, "--do", "exec:true", env=first.cli_env) as watch:
            event = watch.until("condition")
            check_equal(event["pid"], second.pid, "the largest")
            check(event["text"].endswith("of 2 watched processes there, this is the largest"),
                  event)
            check(not event["limit_from"].startswith("RLIMIT"), event)
            watch.until("exec")
            third = start()
            while watch.until("found")["pid"] != third.pid:
                pass
            watch.quiet("condition")
            check_equal(watch.end(), (0, ""), "status and errors")
        with Watch(None, *words, "--do", "exec:false", "--cool", "1ms", env=first.cli_env) as watch:
            for _ in range(2):  # an action that failed is done again
                check_equal(watch.until("condition")["pid"], second.pid, "the largest")
                watch.until("failed")
            check_equal(watch.end()[0], 1, "status")


@contextlib.contextmanager
def real_cgroup(limit):
    """Creates a memory cgroup (v1 or v2) with this limit."""
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        mounts = [line.split() for line in file]
    made = None
    for mount in mounts:
        kind, options = mount[mount.index("-") + 1], mount[-1].split(",")
        if not (kind == "cgroup2" or (kind == "cgroup" and "memory" in options)):
            continue
        path = os.path.join(mount[4], f"memctx-test-{os.getpid()}")
        name = "memory.max" if kind == "cgroup2" else "memory.limit_in_bytes"
        try:
            os.mkdir(path)
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write(str(limit))
            made = path, name
            break
        except OSError:
            with contextlib.suppress(OSError):
                os.rmdir(path)
    if not made:
        raise Skip("no cgroup with a limit on memory can be made here")
    try:
        yield made
    finally:
        wait_until(lambda: _remove(made[0]), "the cgroup is empty")


def _remove(path):
    with contextlib.suppress(OSError):
        os.rmdir(path)
        return True
    return False


@test
def watch_in_a_real_cgroup():
    with real_cgroup(256 * MIB) as (path, name), hold() as live, scratch() as where:
        with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(live.pid))
        inner = f"{name} of /{os.path.basename(path)}"
        with Watch(live, "--when", "rss>50%limit", "--dir", where, "--no-symbols") as watch:
            found = watch.until("found")
            check_equal(found["limit_bytes"], 256 * MIB, "the limit")
            check(found["limit_from"].startswith(f"{name} of /") and
                  found["limit_from"].endswith(inner.rsplit("/", 1)[1]), found)
            live.ask("take 100")
            watch.quiet("condition", for_s=0.2)
            live.ask("take 40")
            event = watch.until("condition")
            check_equal((event["threshold"], event["limit_bytes"]), (128 * MIB, 256 * MIB),
                        "figures")
            watch.until("snapshot")
            check_equal(watch.end(), (0, ""), "status and errors")
        check_equal(len(glob.glob(f"{where}/*.mctx")), 1, "files")
        live.kill()


@test
def watch_all_tells_groups_with_long_paths_apart():
    """With --all, each of two control groups whose long paths begin alike is a figure of its own:
    the actions of `used` are done once for each, and the message has the end of the path."""
    with scratch() as where, contextlib.ExitStack() as running:
        program = os.path.join(where, f"distant{os.getpid()}")
        shutil.copy(build_program("tests/cli/programs/hold.c"), program)
        path, name = running.enter_context(real_cgroup(1 << 30))
        long = os.path.join(path, "a" * 200, "b" * 200)
        groups = [os.path.join(long, "c" * 150 + end) for end in "12"]
        for group in (os.path.dirname(long), long, *groups):
            if name == "memory.max":
                with open(os.path.join(os.path.dirname(group), "cgroup.subtree_control"), "w",
                          encoding="ascii") as file:
                    file.write("+memory")
            os.mkdir(group)
            running.callback(lambda group=group: wait_until(lambda: _remove(group), "its end"))
        live = []
        for group in groups:
            with open(os.path.join(group, name), "w", encoding="ascii") as file:
                file.write(str(128 * MIB))
            live.append(running.enter_context(
                Target([program], live[0].runtime, MEMCTX_CONTROL="eager") if live else
                target([program])))
            if len(live) > 1:
                check_equal(live[-1].hear(), "ready", "another process")
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(live[-1].pid))
            live[-1].ask("take 64")
        with Watch(None, "--all", "--match", os.path.basename(program), "--when", "used>30%limit",
                   "--dir", where, "--do", "exec:true", env=live[0].cli_env) as watch:
            events = [watch.until("condition") for _ in live]
            check_equal({event["pid"] for event in events}, {one.pid for one in live}, "processes")
            check_equal({event["limit_from"][-2:] for event in events}, {"c1", "c2"}, "the ends")
            check_equal(watch.end(), (0, ""), "status and errors")


# Reads a file larger than its cgroup's limit through a mapping, for some seconds.
THRASH = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
until = time.monotonic() + 4
while time.monotonic() < until:
    sum(pages[at] for at in range(0, len(pages), 4096))
"""


def stalled_us():
    try:
        with open("/proc/pressure/memory", encoding="ascii") as file:
            return int(re.search(r"some .*total=(\d+)", file.read()).group(1))
    except OSError:
        raise Skip("this kernel has no figures of memory pressure") from None


@test
def watch_wakes_up_under_pressure():
    """The kernel's pressure trigger (PSI) wakes watch up before the next look of --every."""
    before = stalled_us()
    if os.geteuid() != 0:
        raise Skip("other users than root may set no trigger on the machine's pressure")
    with real_cgroup(24 * MIB) as (path, _), hold() as live, scratch() as where:
        file = os.path.join(where, "file")
        with open(file, "wb") as out:
            out.write(os.urandom(64 * MIB))
            out.flush()
            os.fsync(out.fileno())
            # drop the cache, so that the pages are charged to the reader's cgroup
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        def enter():
            with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as procs:
                procs.write(str(os.getpid()))

        with Watch(live, "--when", "psi>50ms/2s", "--do", "exec:true", "--dir", where,
                   every="1h") as watch:
            check(watch.until("found")["text"].endswith(("memory.pressure",
                                                         "/proc/pressure/memory")), watch.seen)
            with subprocess.Popen([sys.executable, "-c", THRASH, file], preexec_fn=enter) as reader:
                try:
                    event = watch.until("condition", timeout_s=6)
                    check(event["value"] >= 50000 and event["threshold"] == 50000, event)
                except harness.Failure:
                    if stalled_us() - before < 500000:
                        raise Skip("no task waited for memory long enough") from None
                    raise
                finally:
                    reader.kill()
            watch.until("exec")
