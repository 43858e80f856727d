# SPDX-License-Identifier: MIT
"""Recordings (MEMCTX_RECORD): a recording is readable whatever ends the process, and says how it
ended. MEMCTX_RECORD_ROUNDS: how many processes a test ends at a random time (make torture-control:
100)."""
import concurrent.futures
import contextlib
import json
import os
import random
import shutil
import signal
import tempfile
import time

import harness
from harness import Skip, check, check_equal, run_cli, runtime_dir, test, wait_until
from recorded import (END, ROUNDS, block_at, check_whole, moments_of, postmortem_of, read,
                      recorded, recording_of, wait_moments, wall_s)

CGROUP_BYTES = 96 << 20


def end_once(number, wait_s):
    """Ends a process wait_s after its first moment with the named context, and checks the
    recording. (Earlier moments may be older than main: a moment has the time of its end, so only
    the second one after "ready" surely began after it.)"""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        ready_s = time.time()
        wait_until(lambda: os.path.exists(path) and
                   sum(wall_s(moment) > ready_s for moment in moments_of(read(path))) >= 2,
                   f"two moments of main in {path}", timeout_s=60)
        time.sleep(wait_s)
        target.process.send_signal(number)
        ended_s = time.time()
        check_equal(target.process.wait(timeout=60), -number, "exit status")
        check_whole(path, ended_s)
        check_equal(postmortem_of(path)["ended"], "killed", "how it ended")


def end_at_random(number):
    """Ends ROUNDS processes by this signal at random times, several at once."""
    harness.allow_more_time(1 + ROUNDS // 25)
    random.seed(number)
    waits = [random.random() * 0.6 for _ in range(ROUNDS)]
    harness.build_program("tests/control/recorded.c")
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        list(pool.map(end_once, [number] * ROUNDS, waits))


@test
def recording_outlives_sigkill():
    """After SIGKILL at a random time the recording is readable, and not older than OLDEST_S."""
    end_at_random(signal.SIGKILL)


@test
def recording_outlives_a_crash():
    """After SIGSEGV at a random time the recording is readable, and not older than OLDEST_S."""
    end_at_random(signal.SIGSEGV)


@contextlib.contextmanager
def own_memory_cgroup(number=0):
    """Creates a memory cgroup with another one inside it; yields (the outer one's directory, the
    file of its limit, the inner one's file of members). Removes both when they are empty."""
    group, limit = made_memory_cgroup(number)
    inner = os.path.join(group, "inner")
    os.mkdir(inner)
    members = os.path.join(inner, "cgroup.procs")
    try:
        yield group, limit, members
    finally:
        wait_until(lambda: not read(members), "the end of the group's members")
        os.rmdir(inner)
        os.rmdir(group)


def made_memory_cgroup(number):
    """Creates a memory cgroup; returns its directory and the file of its limit."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        groups = dict((line.split(":")[1], line.strip().split(":", 2)[2]) for line in file)
    v1 = "memory" in groups
    top = "/sys/fs/cgroup/memory" if v1 else "/sys/fs/cgroup"
    for place in (top + groups.get("memory" if v1 else "", "/"), top):
        group = os.path.join(place, f"mctx-test-{os.getpid()}-{number}")
        limit = os.path.join(group, "memory.limit_in_bytes" if v1 else "memory.max")
        try:
            os.mkdir(group)
        except OSError:
            continue
        if os.path.exists(limit):
            if not v1:
                with open(os.path.join(group, "cgroup.subtree_control"), "w",
                          encoding="ascii") as file:
                    file.write("+memory")
            return group, limit
        os.rmdir(group)
    raise Skip("no control group can be made here")


def end_at_limit(number):
    """Lets a program leak until it is at the limit of its control group, or, for odd numbers, of
    the group above it, and checks the recording."""
    above = number % 2
    with own_memory_cgroup(number) as (group, limit, members):
        for place, limit_bytes in ((group, 2 * CGROUP_BYTES - above * CGROUP_BYTES),
                                   (os.path.dirname(members), (1 + above) * CGROUP_BYTES)):
            with open(os.path.join(place, os.path.basename(limit)), "w",
                      encoding="ascii") as file:
                file.write(str(limit_bytes))
        with recorded(5, members=members) as (target, directory):
            check_oom(target, recording_of(directory, target.pid), above, members)


@test
def recording_outlives_the_oom_killer():
    """If the OOM killer of a cgroup or its parent ends the process, the recording is readable and
    postmortem names the OOM killer."""
    rounds = ROUNDS if ROUNDS > 5 else 2
    harness.allow_more_time(1 + rounds // 25)
    harness.build_program("tests/control/recorded.c")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ended = len(list(pool.map(end_at_limit, range(rounds))))
    return f"{ended} processes"


@test
def recording_does_not_count_cached_files():
    """File contents that nobody used lately fill most control groups up to their limit; the use in
    a recording does not have them, so postmortem takes no killed process for one of the OOM killer,
    and finds no limit that is near."""
    with own_memory_cgroup() as (_, limit, members):
        with open(limit, "w", encoding="ascii") as file:
            file.write(str(CGROUP_BYTES))
        # 30 MB, and then no growth
        with recorded(1500, members=members) as (target, directory):
            path = recording_of(directory, target.pid)
            wait_moments(path)
            cached = os.path.join(directory, "cached")
            harness.run_program(["/bin/sh", "-c", f"echo $$ >{members} && dd if=/dev/zero "
                                                  f"of={cached} bs=1M count={CGROUP_BYTES >> 20} "
                                                  "conv=fsync"], os.environ)
            use = int(read(limit.replace("limit_in_bytes", "usage_in_bytes")
                           .replace("memory.max", "memory.current")))
            if use < CGROUP_BYTES * 0.9:
                raise Skip(f"the files take no memory of the group, which uses {use} bytes")
            wait_moments(path, len(moments_of(read(path))) + 1)
            target.kill()
            report = postmortem_of(path)
        check("perhaps" not in report["ended_text"], report["ended_text"])
        check(report["cgroup_bytes"] < CGROUP_BYTES // 2, f"the use: {report['cgroup_bytes']}")
        check_equal(report["cgroup_limit_bytes"], CGROUP_BYTES, "the limit")
        check("little memory left" not in json.dumps(report), report)


def wait_while_it_works(target):
    """Waits for the end of a process as long as it goes on using the processor: on a busy machine
    a process at the end of the queue needs minutes for the second that it takes to leak so much."""
    used, since_s = 0, time.monotonic()
    while target.process.poll() is None:
        now = processor_ticks(target.pid)
        if now != used:
            used, since_s = now, time.monotonic()
        check(time.monotonic() - since_s < harness.PATIENCE_S, f"it hangs: {now} ticks")
        time.sleep(0.02)


def check_oom(target, path, above, members):
    """Lets the program leak until the kernel kills it, and checks the recording."""
    wait_moments(path)
    target.say("fast")
    wait_while_it_works(target)
    check_equal(target.process.returncode, -signal.SIGKILL, "exit status at the limit")
    check_whole(path, time.time())
    report = postmortem_of(path)
    check_equal(report["ended"], "killed", "how the program ended")
    check(report["cgroup_oom_kills_since"] >= 1, f"kills since: {report}")
    check("most likely the OOM killer" in report["ended_text"], report["ended_text"])
    check_equal((report["cgroup_limit_bytes"], report["cgroup_above"]), (CGROUP_BYTES, above),
                "the limit in the recording")
    text = run_cli("postmortem", path).stdout
    check(("a control group above its own: " if above else "\ncontrol group: ") in text, text)
    group = os.path.dirname(members)
    wait_until(lambda: not read(members), "the end of the group's members")
    os.rmdir(group)
    os.mkdir(group)
    check_equal(postmortem_of(path)["cgroup_oom_kills_since"], None,
                "kills in another group of this path")


def stat_of(pid):
    """The fields of /proc/PID/stat from the state on; only a state if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X"]


def read_state(pid):
    return stat_of(pid)[0]


def processor_ticks(pid):
    """The processor time of all threads of a process, of user and system."""
    return [int(ticks) for ticks in stat_of(pid)[11:13]]


@test
def recording_of_a_child():
    """A forked child has its own recording, and its end does not change its parent's. An older file
    with the child's pid and name is renamed to .1.rec."""
    with recorded() as (target, directory):
        own = recording_of(directory, target.pid)
        wait_moments(own)
        child = int(target.ask("fork").split()[1])
        path = recording_of(directory, child)
        with contextlib.suppress(FileExistsError):  # the child already has its file
            with open(path, "x", encoding="ascii") as file:
                file.write("older")
            kept = path.replace(".rec", ".1.rec")
            wait_until(lambda: os.path.exists(kept), "the older file", timeout_s=60)
            check_equal(read(kept), b"older", "the older file")
        wait_moments(path)
        before = len(moments_of(read(own)))
        os.kill(child, signal.SIGSEGV)
        wait_until(lambda: read_state(child) in "ZX", "the end of the child")
        check_whole(path, time.time())
        check_equal(postmortem_of(path)["pid"], child, "pid in the child's recording")
        wait_moments(own, before + 1)
        report = postmortem_of(own)
        check_equal((report["pid"], report["ended"]), (target.pid, "running"),
                    "the parent's recording")


@test
def recording_tells_an_exit():
    """postmortem says "normally" after exit and "killed" after _exit; the exit status is the
    program's, also if a FIFO has replaced the recording."""
    for word, status, ended in (("exit", 7, "normally"), ("_exit", 8, "killed"),
                                ("exit", 7, "fifo")):
        with recorded() as (target, directory):
            path = recording_of(directory, target.pid)
            wait_moments(path)
            if ended == "fifo":
                os.unlink(path)
                os.mkfifo(path)
                target.say(word)
                check_equal(target.process.wait(timeout=20), status, "exit status with a FIFO")
                continue
            target.say(word)
            check_equal(target.process.wait(timeout=60), status, f"exit status after {word}")
            check_equal(bool(block_at(read(path), 3072, END)), word == "exit", "the end")
            check_equal(postmortem_of(path)["ended"], ended, f"how it ended after {word}")
    if os.geteuid() == 0:
        tell_exit_of_another_user()


@test
def recording_of_a_program_that_leaves_its_root_and_user_at_once():
    """A server of root that changes its root directory and its user as its first act has a
    recording, although it could not make a file in the directory any more. Its resident set is
    not known if the moment comes after the change, because /proc is then out of reach."""
    if os.geteuid() != 0:
        raise Skip("needs root to chroot")
    program = harness.build_program("tests/control/confined.c")
    with tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory, \
         tempfile.TemporaryDirectory(prefix="mctx-root-") as root:
        done = harness.run_cli("run", f"--record={directory}", "--", program, root)
        check_equal((done.returncode, done.stderr), (0, ""), "the program")
        check(done.stdout.startswith("uid 65534, root again: -1"), done.stdout)
        files = [file for file in os.listdir(directory) if file.endswith("-confined.rec")]
        check_equal(len(files), 1, f"recordings: {os.listdir(directory)}")
        path = os.path.join(directory, files[0])
        report = postmortem_of(path)
        check(report["moments"] and report["moments"][0]["requested_bytes"] >= 0, report)
        check(report["moments"][0]["rss_bytes"] != 0, report)
        check(report["ended"] in ("killed", "unknown"), report["ended"])


@test
def recording_tells_an_exec_of_the_same_program():
    """If the process has executed its program once more, postmortem says so of the older
    recording."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path)
        check_equal(target.ask("again"), f"ready {target.pid}", "the program once more")
        kept = path.replace(".rec", ".1.rec")
        wait_until(lambda: os.path.exists(kept), "the older file", timeout_s=60)
        wait_moments(path)
        check_equal([postmortem_of(each)["ended"] for each in (kept, path)],
                    ["executed-another", "running"], "how they ended")


@test
def recordings_of_replicas():
    """Processes that have the same pid and name in their containers, and one directory, have a
    recording each. From outside, postmortem sees that they still run."""
    if os.geteuid() != 0:
        raise Skip("making namespaces takes root")
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory, \
         contextlib.ExitStack() as stack:
        argv = ["unshare", "--pid", "--fork", "--mount-proc", harness.CLI, "run",
                f"--record={directory}", "--", program]
        paths = [recording_of(directory, 1).replace(".rec", f"{number}.rec")
                 for number in ("", "-2", "-3")]
        replicas = []
        for path in paths:
            replicas.append(stack.enter_context(harness.Target(argv, runtime, preload=False)))
            if replicas[-1].hear() != "ready 1":
                raise Skip("this machine makes no such namespaces")
            wait_moments(path, 2)
        check_equal(sorted(os.listdir(directory)), sorted(map(os.path.basename, paths)), "files")
        copy = shutil.copy(paths[0], os.path.join(directory, "copy"))
        for path in (*paths, copy):
            check_equal(postmortem_of(path)["ended"], "running", path)
        for replica, path in zip(replicas, paths):
            replica.say("exit")
            check_equal(replica.process.wait(timeout=60), 7, "exit status")
            check_equal(postmortem_of(path)["ended"], "normally", path)


def tell_exit_of_another_user():
    """If the program changed its user and cannot open the file at exit, postmortem does not guess
    the end."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path)
        check_equal(target.ask("drop"), "drop 0", "setuid")
        wait_moments(path, len(moments_of(read(path))) + 2)
        target.say("exit")
        check_equal(target.process.wait(timeout=60), 7, "exit status")
        check_equal(postmortem_of(path)["ended"], "unknown", "how it ended as another user")


@test
def recording_names_the_program():
    """The recording has the program's name, also if the program overwrites its arguments with a
    title, or has a space in its path."""
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        spaced = os.path.join(directory, "my recorded")
        shutil.copy(program, spaced)
        for path, title, want in ((program, "recorded: worker of /tmp/x", "recorded"),
                                  (program, "recorded *:6379", "recorded"),
                                  (program, "-recorded", "recorded"),
                                  (spaced, spaced, "my recorded")):
            argv = [harness.CLI, "run", f"--record={directory}", "--", "/bin/bash", "-c",
                    'exec -a "$1" "$2"', "bash", title, path]
            with harness.Target(argv, runtime, preload=False) as target:
                check_equal(target.hear(), f"ready {target.pid}", "the target's line")
                name = os.path.basename(path).replace(" ", "_")
                file = os.path.join(directory, f"memctx-{target.pid}-{name}.rec")
                wait_moments(file)
                check_equal(postmortem_of(file)["program"], want, f"the name of {title}")
