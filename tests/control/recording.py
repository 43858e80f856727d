# SPDX-License-Identifier: MIT
"""Recordings (MEMCTX_RECORD): a recording is readable whatever ends the process, and says what it
lacks. The reader in this file is written from include/memctx/record.h alone. MEMCTX_RECORD_ROUNDS:
how many processes a test ends at a random time (make torture-control: 100)."""
import concurrent.futures
import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import harness
import screen
from harness import Skip, check, check_equal, run_cli, runtime_dir, test, wait_until

ROUNDS = int(os.environ.get("MEMCTX_RECORD_ROUNDS", "5"))
RING_AT = 4096 + 2 * (1536 << 10)
BLOCK = struct.Struct("<IIQQQ")
HEAD, END, DIRECTORY, MOMENT = 0x44484352, 0x44454352, 0x52444352, 0x4D4D4352
CGROUP_BYTES = 96 << 20
OLDEST_S = 60 if ROUNDS <= 5 else 12  # maximum age of the last moment: 10 s, more on a busy machine


def checksum(data):
    value = 0x6D656D637478
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at:at + 8].ljust(8, b"\0"), "little")
        value = (value ^ word) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        value ^= value >> 29
    return value


def block_at(data, at, kind):
    """(sequence, body) of the block at offset `at`; None if that block is not valid."""
    if len(data) < at + BLOCK.size:
        return None
    found, length, sequence, body_sum, head_sum = BLOCK.unpack_from(data, at)
    body = data[at + BLOCK.size:at + BLOCK.size + length]
    if (found != kind or len(body) != length or checksum(data[at:at + BLOCK.size - 8]) != head_sum
            or checksum(body) != body_sum):
        return None
    return sequence, body


def moments_of(data):
    """(offset, sequence, body) of each valid moment, the oldest first."""
    found, at = [], RING_AT
    while at < len(data):
        block = block_at(data, at, MOMENT) if data[at:at + 4] == b"RCMM" else None
        if block:
            found.append((at, *block))
        at += (BLOCK.size + len(block[1]) + 63) // 64 * 64 if block else 64
    return sorted(found, key=lambda moment: moment[1])


def patch(data, at, offset, bytes_new):
    """Changes bytes in the body of the block at `at`, and its checksums."""
    kind, length, sequence, _, _ = BLOCK.unpack_from(data, at)
    body = at + BLOCK.size
    data[body + offset:body + offset + len(bytes_new)] = bytes_new
    head = struct.pack("<IIQQ", kind, length, sequence, checksum(data[body:body + length]))
    data[at:at + BLOCK.size] = head + struct.pack("<Q", checksum(head))


def wall_s(moment):
    return struct.unpack_from("<Q", moment[2])[0] / 1e9


def recording_of(directory, pid):
    return os.path.join(directory, f"memctx-{pid}-recorded.rec")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def wait_moments(path, count=1):
    """Waits until the file has at least `count` moments."""
    return wait_until(lambda: os.path.exists(path) and len(moments_of(read(path))) >= count,
                      f"{count} moments in {path}", timeout_s=60)


@contextlib.contextmanager
def recorded(*words, members=None):
    """Starts the program under memctx run --record; yields it and the directory of the recording.
    `members`: cgroup.procs of a cgroup that the program enters first."""
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        argv = [harness.CLI, "run", f"--record={directory}", "--", program, *map(str, words)]
        if members:
            argv = ["/bin/sh", "-c", f'echo $$ >{members} && exec "$@"', "sh", *argv]
        with harness.Target(argv, runtime, preload=False) as target:
            check_equal(target.hear(), f"ready {target.pid}", "the target's line")
            yield target, directory


def dump_of(path, *options):
    done = run_cli("dump", "--json", "--no-symbols", *options, path)
    check_equal((done.returncode, done.stderr), (0, ""), f"memctx dump {path}")
    return json.loads(done.stdout)


def postmortem_of(path, *options):
    done = run_cli("postmortem", "--json", *options, path)
    check_equal((done.returncode, done.stderr), (0, ""), f"memctx postmortem {path}")
    return json.loads(done.stdout)


def check_whole(path, ended_s):
    """Checks that the last moment is complete and recent, and that its contexts add up to its
    totals."""
    moments = moments_of(read(path))
    check(moments, f"{path} has no moment")
    age = ended_s - wall_s(moments[-1])
    check(age < OLDEST_S, f"{path} is {age:.1f} s old")
    dump = dump_of(path)
    for field in ("requested_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes"):
        total = sum(context["self"][field] for context in dump["contexts"])
        check_equal(total, dump["totals"][field], f"sum of {field} over the contexts")
    said = struct.unpack_from("<qqqq", moments[-1][2], 120 + 40)
    totals = dump["totals"]
    check_equal((totals["requested_bytes"], totals["live_chunks"], totals["allocs"],
                 totals["frees"]),
                said, "the totals that the moment itself says")
    check(totals["requested_bytes"] > 0, "the recording is empty")
    labels = [(context["frame"] or {}).get("function") for context in dump["contexts"]]
    check("sessions" in labels, f"the named context is missing: {labels}")


def end_once(number, wait_s):
    """Ends a process wait_s after its first moment with the named context, and checks the
    recording. (Earlier moments may be older than main.)"""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        ready_s = time.time()
        wait_until(lambda: os.path.exists(path) and
                   any(wall_s(moment) > ready_s for moment in moments_of(read(path))),
                   f"a moment of main in {path}", timeout_s=60)
        time.sleep(wait_s)
        target.process.send_signal(number)
        ended_s = time.time()
        check_equal(target.process.wait(timeout=60), -number, "exit status")
        check_whole(path, ended_s)
        check_equal(postmortem_of(path)["ended"], "killed", "how it ended")


def end_at_random(number):
    """Ends ROUNDS processes by this signal at random times, several at once."""
    random.seed(number)
    waits = [random.random() * 0.6 for _ in range(ROUNDS)]
    harness.build_program("tests/control/recorded.c")
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        list(pool.map(end_once, [number] * ROUNDS, waits))


@test
def recording_outlives_sigkill():
    """After SIGKILL at a random time the recording is readable and at most 10 s old."""
    end_at_random(signal.SIGKILL)


@test
def recording_outlives_a_crash():
    """After SIGSEGV at a random time the recording is readable and at most 10 s old."""
    end_at_random(signal.SIGSEGV)


def own_memory_cgroup():
    """Creates a memory cgroup; returns (its directory, the file of its limit, a cgroup inside
    it)."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        groups = dict((line.split(":")[1], line.strip().split(":", 2)[2]) for line in file)
    v1 = "memory" in groups
    top = "/sys/fs/cgroup/memory" if v1 else "/sys/fs/cgroup"
    for place in (top + groups.get("memory" if v1 else "", "/"), top):
        group = os.path.join(place, f"mctx-test-{os.getpid()}")
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
            inner = os.path.join(group, "inner")
            os.mkdir(inner)
            return group, limit, inner
        os.rmdir(group)
    raise Skip("no control group can be made here")


@test
def recording_outlives_the_oom_killer():
    """If the OOM killer of a cgroup or its parent ends the process, the recording is readable and
    postmortem names the OOM killer."""
    group, limit, inner = own_memory_cgroup()
    members = os.path.join(inner, "cgroup.procs")
    try:
        for i in range(ROUNDS if ROUNDS > 5 else 2):
            above = i % 2
            for place, limit_bytes in ((group, 2 * CGROUP_BYTES - above * CGROUP_BYTES),
                                       (inner, (1 + above) * CGROUP_BYTES)):
                with open(os.path.join(place, os.path.basename(limit)), "w",
                          encoding="ascii") as file:
                    file.write(str(limit_bytes))
            with recorded(5, members=members) as (target, directory):
                check_oom(target, recording_of(directory, target.pid), above, members)
    finally:
        wait_until(lambda: not read(members), "the end of the group's members")
        os.rmdir(inner)
        os.rmdir(group)


def check_oom(target, path, above, members):
    """Lets the program leak until the kernel kills it, and checks the recording."""
    wait_moments(path)
    target.say("fast")
    check_equal(target.process.wait(timeout=60), -signal.SIGKILL, "exit status at the limit")
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


def read_state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "X"


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


@test
def recording_has_a_history():
    """FILE@start, FILE@-TIME and FILE@now read moments of a recording; doctor finds the growth
    between them."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path, 4)
        target.process.kill()
        target.process.wait(timeout=60)
        report = postmortem_of(path)
        # a control group that is nearly full makes the OOM killer the likely cause
        check(re.search("called _exit or exec$| of its limit: |OOM killer$", report["ended_text"]),
              report["ended_text"])
        moments = report["moments"]
        check_equal(len(moments), len(moments_of(read(path))), "moments")
        for at, moment in (("start", moments[0]), ("now", moments[-1])):
            check_equal(dump_of(f"{path}@{at}")["totals"]["requested_bytes"],
                        moment["requested_bytes"], f"live bytes at @{at}")
        last_s = moments[-1]["uptime_s"]
        back_ms = int((last_s - moments[2]["uptime_s"]) * 1000) + 1  # a time just before moment 2
        back = dump_of(f"{path}@-{back_ms}ms")
        check_equal(back["totals"]["requested_bytes"], moments[1]["requested_bytes"],
                    "the moment at @-TIME")
        done = run_cli("diff", "--json", f"{path}@start", f"{path}@now")
        grew = json.loads(done.stdout)
        check_equal(grew["totals"]["growth"]["requested_bytes"],
                    moments[-1]["requested_bytes"] - moments[0]["requested_bytes"],
                    "growth in diff")
        check("leak_here" in str(grew["contexts"][0]["path"]), "the leak is not first in diff")
        check_equal(report["growth"]["requested_bytes"],
                    grew["totals"]["growth"]["requested_bytes"], "growth in postmortem")
        env = {**harness.clean_env(), "TZ": "XYZ-5:30"}
        last = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(moments[-1]["time_s"]) + 19800))
        told = run_cli("postmortem", path, env=env).stdout
        check(f"last moment: {last} +0530, at" in told, f"{told}, want {last} +0530")
        taken = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(moments[0]["time_s"]))
        os.utime(path, (1, 1))
        check(f'"taken":"{taken}"' in run_cli("report", f"{path}@start", "-o", "-").stdout,
              f"the page of @start does not say {taken}")
        growth = postmortem_of(f"{path}@-{back_ms}ms", "--last", "100ms")["growth"]
        check(abs(growth["since_uptime_s"] - moments[0]["uptime_s"]) < 0.02,
              "the moment before moment 1")
        check_equal(growth["requested_bytes"],
                    moments[1]["requested_bytes"] - moments[0]["requested_bytes"],
                    "growth before moment 1")
        check_equal(postmortem_of(f"{path}@start", "--last", "100ms")["growth"], None,
                    "growth before the first moment")
        found = json.loads(run_cli("doctor", "--json", path).stdout)
        # Moments that follow each other closely share a mark.
        check(2 <= found["samples"] <= min(len(moments), 25),
              f"looks of doctor: {found['samples']}")
        for word, code in (("-99h", 1), ("soon", 2)):
            check_equal(run_cli("dump", f"{path}@{word}").returncode, code,
                        f"exit status of @{word}")
        check_equal(run_cli("frag", path).returncode, 1, "exit status of frag")
        for words in (("dump", path, "--sort", "reserved"),
                      ("dump", path, "--flat", "--sort", "waste"),
                      ("dump", path, "--svg", "-", "--sort", "pinned"),
                      ("export", path, "--folded", "-", "--metric", "waste")):
            done = run_cli(*words)
            check_equal((done.returncode, done.stdout), (1, ""),
                        f"exit status and output of {words}")
            check(f"a recording holds no pages, so {words[-1]} is not known" in done.stderr,
                  done.stderr)
        snapshot = os.path.join(directory, "kept.mctx")
        check_equal(run_cli("dump", path, "-o", snapshot).returncode, 0, "exit status of dump -o")
        check_equal(dump_of(snapshot)["totals"], dump_of(path)["totals"], "totals of the snapshot")
        for words in (("postmortem", snapshot), ("dump", f"{snapshot}@now")):
            done = run_cli(*words)
            check_equal(done.returncode, 1, f"exit status of {words}")
            check("recording" in done.stderr, done.stderr)


@test
def recording_has_the_latest_identifier():
    """The last moment names a context by the identifier that it had at that moment. The directory
    before the last one is still there, because the process may end while it writes one."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        for word in ("first", "/export of a customer"):
            target.say(f"identify {word}")
            wait_moments(path, (len(moments_of(read(path))) if os.path.exists(path) else 0) + 3)
        target.kill()
        labels = [(context["frame"] or {}).get("function") for context in dump_of(path)["contexts"]]
        check("sessions: /export of a customer" in labels, f"labels: {labels}")
        valid = [block_at(read(path), at, DIRECTORY) is not None
                 for at in (4096, 4096 + (1536 << 10))]
        check_equal(valid, [True, True], "the two directories")


def statistics_of(target):
    text = run_cli("dump", "--self", target.pid, env=target.cli_env).stdout
    return dict(line.split()[:2] for line in text.splitlines() if line.startswith("record_"))


def plain_program(runtime, record, **extra):
    program = harness.build_program("tests/control/recorded.c")
    return harness.Target([harness.CLI, "run", "--", program], runtime, preload=False,
                          MEMCTX_RECORD=record, **extra)


@test
def recording_without_a_directory():
    """If the directory cannot be created, the library counts that (and says so with
    MEMCTX_VERBOSE), and memctx run refuses to start the program."""
    with runtime_dir() as runtime:
        with plain_program(runtime, "/dev/null/rec", MEMCTX_VERBOSE="1") as target:
            target.hear()
            target.wait_socket()
            wait_until(lambda: int(statistics_of(target)["record_lost"]) > 0, "a lost moment")
            counts = statistics_of(target)
            check_equal((counts["record_moments"], counts["record_error"]), ("0", "20"), "counters")
            target.say("exit")
            check_equal(target.process.wait(timeout=60), 7, "exit status")
            text = target.process.stderr.read().decode()
            check("nothing is recorded" in text and "/dev/null/rec" in text, f"stderr: {text}")
    for where in ("/dev/null/rec", "/proc"):
        done = run_cli("run", f"--record={where}", "true")
        check_equal(done.returncode, 1, f"exit status of memctx run --record={where}")
        check("--record" in done.stderr, done.stderr)


@test
def recording_on_a_full_disk():
    """If the file cannot grow, newer moments replace older ones, and lost moments are counted."""
    for bytes_most, lost in ((RING_AT + (256 << 10), False), (0, False), (1 << 20, True)):
        with recorded() as (target, directory):
            path = recording_of(directory, target.pid)
            wait_until(lambda: os.path.exists(path), "the file")
            if not bytes_most:  # the next moment is refused, although its room is reserved
                wait_moments(path, 3)
                bytes_most = os.path.getsize(path)
            resource.prlimit(target.pid, resource.RLIMIT_FSIZE, (bytes_most, bytes_most))
            before = int(statistics_of(target)["record_moments"])
            if lost:
                wait_until(lambda: int(statistics_of(target)["record_lost"]) > 0, "a lost moment",
                           timeout_s=60)
                check_equal(statistics_of(target)["record_error"], "27", "the error")
            else:
                wait_until(lambda: int(statistics_of(target)["record_moments"]) > before + 2,
                           "further moments", timeout_s=60)
            target.say("exit")
            check_equal(target.process.wait(timeout=60), 7, "exit status")


def tiny_disk(directory, mebibytes):
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", directory],
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise Skip("no file system can be mounted here")


@test
def recording_when_no_block_is_left():
    """On a full file system the moments written before stay readable, and lost ones are counted."""
    with tempfile.TemporaryDirectory(prefix="mctx-disk-") as disk:
        tiny_disk(disk, 1)
        try:
            check_full_disk(disk)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


def check_full_disk(disk):
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime:
        argv = [harness.CLI, "run", f"--record={disk}", "--", program]
        with harness.Target(argv, runtime, preload=False) as target:
            target.hear()
            path = recording_of(disk, target.pid)
            wait_moments(path)
            with contextlib.suppress(OSError), open(os.path.join(disk, "fill"), "wb") as file:
                while True:
                    file.write(bytes(4096))
                    file.flush()
            wait_moments(path, 12)  # the ring of moments has got its first 256 KiB
            target.process.kill()
            target.process.wait(timeout=60)
            check_whole(path, time.time())


@test
def recording_that_is_damaged():
    """A recording that is cut, or has a changed byte, gives an older moment or a message, never a
    crash."""
    random.seed(28)
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path, 3)
        target.process.kill()
        target.process.wait(timeout=60)
        whole = read(path)
    moments = moments_of(whole)
    uptimes = [struct.unpack_from("<Q", moment[2], 8)[0] / 1e9 for moment in moments]
    with tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        path = os.path.join(directory, "damaged.rec")

        def check_damaged(data, codes):
            with open(path, "wb") as file:
                file.write(data)
            done = run_cli("dump", "--json", "--no-symbols", path)
            check(done.returncode in codes, f"exit {done.returncode}: {done.stderr}")
            check(done.returncode == 0 or done.stderr.startswith("memctx: "), done.stderr)
            return json.loads(done.stdout) if done.returncode == 0 else None

        torn = bytearray(whole)
        torn[moments[-1][0] + BLOCK.size + 60] ^= 1
        uptime = check_damaged(torn, [0])["uptime_s"]
        check(abs(uptime - uptimes[-2]) < 0.02,
              f"the state when the last moment is torn: {uptime}, want {uptimes[-2]}")
        other = bytearray(whole)
        patch(other, 0, WIRE_VERSION_AT, struct.pack("<I", 8))
        check_damaged(other, [1])
        check("figures of version 8; this memctx reads version" in run_cli("dump", path).stderr,
              "the message of another version")
        for at in (0, 10, 4095, 4096 + 50, RING_AT - 1, RING_AT, moments[0][0] + 100):
            check_damaged(whole[:at], [1])
        without_moments, without_paths = bytearray(whole), bytearray(whole)
        for moment in moments:
            without_moments[moment[0] + BLOCK.size] ^= 1
        for directory_at in (4096, (4096 + RING_AT) // 2):
            without_paths[directory_at + 4] ^= 1
        for data, message in ((without_moments, "none of its moments is complete"),
                              (whole[:RING_AT], "or the file is cut off"),
                              (without_paths,
                               "neither of its two directories of call paths is complete")):
            check_damaged(data, [1])
            found = run_cli("dump", path).stderr
            check(message in found, f"{found!r}, want {message!r}")
        written = [range(0, 2000), range(4096, 4096 + BLOCK_BYTES), range(RING_AT, len(whole))]
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(random.randrange(1, 20)):
                data[random.choice(random.choice(written))] = random.randrange(256)
            check_damaged(data, [0, 1])


WIRE_VERSION_AT = 684  # offset in the head
BLOCK_BYTES = 3000  # the test changes bytes at the beginning of the block at offset 4096


@test
def recording_of_a_quiet_process():
    """A process that does nothing still gets a moment every 10 s."""
    if ROUNDS <= 5:
        raise Skip("takes 12 s; make torture-control does it")
    with recorded(0) as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path)
        wait_until(lambda: len(moments_of(read(path))) > 1, "a second moment", timeout_s=OLDEST_S)


def shares_of(targets):
    """For each target, the share of a core that its control thread uses during a second."""
    before_ns, began = [harness.library_thread_ns(each.pid) for each in targets], time.monotonic()
    time.sleep(1)
    took_s = time.monotonic() - began
    return [(harness.library_thread_ns(each.pid) - before) / took_s / 1e9
            for each, before in zip(targets, before_ns)]


@test
def recording_judges_no_sum():
    """[smaller contexts] holds a buffer of stdio and saw two million strings come and go: no array
    grew by copying."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path)
        target.say("strings")
        wait_until(lambda: dump_of(path)["totals"]["frees"] >= 2000000, "a moment with the frees",
                   timeout_s=60)
        rest = next(one for one in dump_of(path)["contexts"]
                    if (one["frame"] or {}).get("function") == "[smaller contexts]")
        check(rest["self"]["frees"] >= 2000000, f"the sum has no frees: {rest}")
        findings = json.loads(run_cli("doctor", "--json", path).stdout)["findings"]
        check("copies" not in [one["id"] for one in findings], f"{findings}")


@test
def recording_costs_little():
    """A recording costs at most 0.2 % of a core and 2 MiB of address space."""
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        argv = [harness.CLI, "run", "--", program, "100"]
        recorded_argv = [*argv[:2], f"--record={directory}", *argv[2:]]
        with (harness.Target(argv, runtime, preload=False) as plain,
              harness.Target(recorded_argv, runtime, preload=False) as target):
            for each in (plain, target):
                each.hear()
                each.wait_socket()
            wait_moments(recording_of(directory, target.pid))
            for _ in range(10):  # several tries, because other programs may disturb one
                shares = shares_of((plain, target))
                if shares[1] - shares[0] < 0.002:
                    break
            sizes = [int(harness.read_status(each.pid, "VmSize").split()[0])
                     for each in (plain, target)]
    check(sizes[1] - sizes[0] <= 2048, f"address space in KiB: {sizes}")
    check(shares[1] - shares[0] < 0.002, f"share of a core: {shares}")


NAMES_AT, NAMES_BYTES, NAMES = 15 << 20, 512 << 10, 0x4D4E4352


def names_of(path):
    """The sequence numbers of the two blocks of names; 0: the block is not valid."""
    data = read(path)
    found = [block_at(data, NAMES_AT + i * NAMES_BYTES, NAMES) for i in range(2)]
    return [block[0] if block else 0 for block in found]


def functions_of(path):
    """Returns a dump of the recording, and the set of the functions in its call paths."""
    done = run_cli("dump", "--json", path)
    check_equal((done.returncode, done.stderr), (0, ""), f"memctx dump {path}")
    dump = json.loads(done.stdout)
    return dump, {(context["frame"] or {}).get("function") for context in dump["contexts"]}


@contextlib.contextmanager
def short_lived_program(*options, name="recorded"):
    """Runs a copy of the program, which a test can remove, under memctx run --record. Yields the
    target, the copy's path and the recording."""
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-[rec]-") as directory:
        program = os.path.join(directory, name)
        shutil.copy(harness.build_program("tests/control/recorded.c"), program)
        argv = [harness.CLI, "run", f"--record={directory}", *options, "--", program]
        with harness.Target(argv, runtime, preload=False) as target:
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
    removed."""
    with short_lived_program("--names") as (target, program, path):
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
        check("main" not in str(dump_of(path)["contexts"]), "--no-symbols")


@test
def names_of_a_program_with_a_version():
    """A recording of ruby3.1 is called memctx-PID-ruby3.1.rec. --names does not take it for an
    older recording of ruby3."""
    with short_lived_program("--names", name="recorded3.1") as (_, _, path):
        wait_until(lambda: os.path.exists(path) and any(names_of(path)), "names in the recording",
                   timeout_s=60)


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


@test
def recording_is_switched_on_and_off():
    """memctx set starts and stops recordings of a running process; each file is readable and says
    how it ended."""
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        with harness.Target([harness.CLI, "run", "--", program], runtime, preload=False) as target:
            target.hear()
            target.wait_socket()

            def switch(value, code=0, message=None):
                done = run_cli("set", target.pid, f"record={value}", env=target.cli_env)
                told = message or f"record is now {value}"
                check(done.returncode == code and told in done.stdout + done.stderr,
                      f"record={value}: {done.stdout}{done.stderr}")

            one, two = (os.path.join(directory, name) for name in ("one", "two"))
            plain = os.path.join(directory, "plain")
            with open(plain, "wb"):
                pass
            switch("off")
            for value, message in (("relative", "takes off, or the absolute path"),
                                   ("", "takes off, or the absolute path"),
                                   ("/" + "x" * 600, "takes off, or the absolute path"),
                                   (plain, "nothing can be recorded in"),
                                   (plain + "/x", "it is not a directory"),
                                   ("/proc/nothing/x", "its folder does not exist"),
                                   ("/proc", "no files can be made there" if os.geteuid() == 0
                                    else "permission denied")):
                switch(value, 1, message)
            check_equal(sorted(os.listdir(directory)), ["plain"], "files after refusals")
            for where in (one, two, two):
                switch(where)
                wait_moments(recording_of(where, target.pid))
            # the command fails, and the old recording goes on
            switch(two + "/nothing/x", 1, "its folder does not exist")
            kept = recording_of(two, target.pid).replace(".rec", ".1.rec")
            for path in (recording_of(one, target.pid), kept):
                check_whole(path, time.time())
                told = postmortem_of(path)
                check_equal(told["ended"], "switched-off", path)
                check("the process went on" in told["ended_text"], told["ended_text"])
            check_equal(postmortem_of(recording_of(two, target.pid))["ended"], "running",
                        "the last one")
            switch("off")
            switch("off")
            check_equal(postmortem_of(recording_of(two, target.pid))["ended"], "switched-off",
                        "the last one")
            switch(one)
            wait_until(lambda: len(os.listdir(one)) == 2, "a new file beside the old one")
            wait_moments(recording_of(one, target.pid))
            target.kill()
            check_equal(postmortem_of(recording_of(one, target.pid))["ended"], "killed",
                        "after the end of the process")
            check_whole(recording_of(one, target.pid), time.time())


def first_moments():
    """Yields a recording of a process that grew and was killed."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path, 6)
        target.kill()
        yield path


SLEPT_AT = 120 + 8  # offset of slept_ns in a moment


@test
def recording_of_a_machine_that_slept():
    """@-TIME, --last and the names of marks count the time that the machine slept."""
    with contextlib.contextmanager(first_moments)() as path:
        data = bytearray(read(path))
        moments = moments_of(data)
        for at, _, body in moments[-2:]:
            patch(data, at, SLEPT_AT,
                  struct.pack("<Q", struct.unpack_from("<Q", body, SLEPT_AT)[0] + 3 * 3600 * 10**9))
        with open(path, "wb") as file:
            file.write(data)
        uptimes = [moment["uptime_s"] for moment in postmortem_of(path)["moments"]]
        check(abs(dump_of(f"{path}@-1h")["uptime_s"] - uptimes[-3]) < 0.02, "the moment at @-1h")
        since_s = postmortem_of(path, "--last", "1h")["growth"]["since_uptime_s"]
        check(abs(since_s - uptimes[-3]) < 0.02, "the moment of --last 1h")
        text = run_cli("postmortem", path, "--last", "1h").stdout
        check(re.search(r"\nin the last 108\d\d\.\d s of the recording", text), text)
        names = [mark["name"] for mark in dump_of(path)["marks"]]
        check(names and all(name.startswith("-3h00m") for name in names[:-1]), f"marks: {names}")


@test
def top_prints_a_recording():
    """top --batch of a recording prints its moments: totals, contexts, and growth since the moment
    before."""
    with contextlib.contextmanager(first_moments)() as path:
        moments = postmortem_of(path)["moments"]
        done = run_cli("top", path, "--batch", "1000", "--json", "--limit", "500")
        frames = [json.loads(line) for line in done.stdout.splitlines()]
        check_equal((done.returncode, done.stderr, len(frames)), (0, "", len(moments)), "frames")
        for before, moment, frame in zip([None, *moments], moments, frames):
            process = frame["process"]
            check_equal(frame["interval_s"], None, "the distance of the moments varies")
            for key in ("requested_bytes", "live_chunks", "rss_bytes", "uptime_s", "time_s"):
                check_equal(round(process[key], 3), round(moment[key], 3),
                            f"{key} of frame {frame['frame']}")
            check_equal(sum(one["requested_bytes"] for one in frame["list"]),
                        moment["requested_bytes"], "sum over the contexts")
            rate = before and ((moment["requested_bytes"] - before["requested_bytes"]) /
                               (moment["uptime_s"] - before["uptime_s"]))
            check(rate is None if process["growth_bytes_per_s"] is None
                  else abs(process["growth_bytes_per_s"] - rate) < 1 + abs(rate) / 100,
                  f"growth of frame {frame['frame']}: {process['growth_bytes_per_s']}, want {rate}")
        want = {context["id"]: context["self"]["requested_bytes"]
                for context in dump_of(path)["contexts"] if context["self"]["live_chunks"]}
        check_equal({one["id"]: one["requested_bytes"]
                     for one in frames[-1]["list"] if one["live_chunks"]}, want, "the last moment")
        text = run_cli("top", path + "@start", "--batch", "9", "--no-symbols", "--tree").stdout
        check(text.startswith("moment of 2") and "frame 1 of 1:" in text, text)
        snapshot = path + ".mctx"
        check_equal(run_cli("dump", path, "-o", snapshot).returncode, 0, "a snapshot of it")
        for words, code, message in ((["top", snapshot, "--batch", "1"], 1,
                                      "is a snapshot of one moment; top takes a process or a "
                                      "recording"),
                                     (["top", path + "@-9h", "--batch", "1"], 1, "begins only"),
                                     (["top", path, path], 1,
                                      "is a file; top needs a running process"),
                                     (["top", path], 2, "--batch N prints N frames")):
            done = run_cli(*words)
            check(done.returncode == code and message in done.stderr,
                  f"{words}: {done.returncode} {done.stderr}")


def frames_of(path):
    """What top --batch prints for each moment of a recording."""
    return [json.loads(line) for line in run_cli("top", path, "--batch", "1000", "--json",
                                                 "--limit", "500").stdout.splitlines()]


def churned(contexts):
    """The contexts of churn's own chunks among those that diff or top prints."""
    paths = ((context, context["path"]) for context in contexts)
    return [context for context, path in paths
            if (path if isinstance(path, str) else path[0]).startswith("churn ")]


@test
def recording_of_a_context_that_grows_late():
    """A context is summed with others until it is large, so the growth of its counters is not known
    at first. diff and top do not show all of its allocations as growth."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path, 3)
        target.say("churn")
        wait_until(lambda: any(churned(frame["list"]) for frame in frames_of(path)),
                   "churn in the recording", timeout_s=60)
        target.kill()
        frames, moments = frames_of(path), postmortem_of(path)["moments"]
        first = next(i for i, frame in enumerate(frames) if churned(frame["list"]))
        check(first > 0, "churn is large at the first moment")
        row = churned(frames[first]["list"])[0]
        check_equal((row["requested_bytes"], row["allocs_per_s"]), (8 << 20, None),
                    "the rate of churn")
        rates = [one["allocs_per_s"]
                 for one in frames[first]["list"] if one["path"] == "[smaller contexts]"]
        check_equal(rates, [None], "the rate of the smaller contexts")
        back_ms = int((moments[-1]["uptime_s"] - moments[first - 1]["uptime_s"]) * 1000)
        diff = json.loads(run_cli("diff", "--json", f"{path}@-{back_ms}ms", path).stdout)
        row = churned(diff["contexts"])[0]
        check_equal((row["growth"]["allocs"], row["growth"]["requested_bytes"]), (None, 8 << 20),
                    "the growth of churn")
        check(diff["totals"]["growth"]["allocs"] > 0, "the growth of all contexts")


@contextlib.contextmanager
def phases(**env):
    """Starts recorded_phases.c under memctx run --record; yields it and the path of its
    recording."""
    program = harness.build_program("tests/control/recorded_phases.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        argv = [harness.CLI, "run", f"--record={directory}", "--", program]
        with harness.Target(argv, runtime, preload=False, **env) as target:
            check_equal(target.hear(), f"ready {target.pid}", "the target's line")
            yield target, os.path.join(directory, f"memctx-{target.pid}-recorded_phases.rec")


def bytes_of(dump, label):
    return sum(context["self"]["requested_bytes"] for context in dump["contexts"]
               if (context["frame"] or {}).get("function") == label)


@test
def recording_of_paths_that_were_dropped():
    """Contexts of an early moment whose paths the newest directory lacks are [forgotten paths]."""
    with phases() as (target, path):
        for number in range(4):
            check_equal(target.ask(f"phase {number}"), "done", "a phase")
        target.kill()
        check_whole_sums(early := dump_of(f"{path}@-5s"))
        check(bytes_of(early, "[forgotten paths]") > early["totals"]["requested_bytes"] / 2,
              f"forgotten: {early['totals']}")
        check(bytes_of(early, "[smaller contexts]") < 100000, "the smaller contexts")
        last = dump_of(path)
        check_equal(bytes_of(last, "[forgotten paths]"), 0, "forgotten at the end")
        check_whole_sums(last)


def check_whole_sums(dump):
    total = sum(context["self"]["requested_bytes"] for context in dump["contexts"])
    check_equal(total, dump["totals"]["requested_bytes"], "the sum over the contexts")


def pieces_of(body, part):
    """(offset, bytes) of the pieces of this part in a directory."""
    found, at = [], 0
    while at < len(body):
        kind, length = struct.unpack_from("<II", body, at)
        if kind == part:
            found.append((at + 8, length))
        at += 8 + length
    return found


SINCE = 0x53444352


@test
def recording_of_ids_that_changed_their_meaning():
    """After a path got the id of a removed one, the directory says from which moment on the ids
    have their meaning. Figures of earlier moments are [forgotten paths]."""
    with phases(MEMCTX_TABLES="1M") as (target, path):
        target.ask("phase 0")
        for number in range(1, 60):
            target.ask("paths")
            if number % 15 == 0:
                target.ask(f"phase {number // 15 % 4}")
                wait_moments(path, len(moments_of(read(path))) + 2)
                newest = max((block_at(read(path), at, DIRECTORY) or (0, b"")
                              for at in (4096, (4096 + RING_AT) // 2)))
                if pieces_of(newest[1], SINCE):
                    break
            time.sleep(0.3)
        target.kill()
        data = bytearray(read(path))
        found = {at: block for at in (4096, (4096 + RING_AT) // 2)
                 if (block := block_at(data, at, DIRECTORY))}
        at = max(found, key=lambda at: found[at][0])
        pieces = pieces_of(found[at][1], SINCE)
        listed = [pair for offset, length in pieces
                  for pair in struct.iter_unpack("<II", found[at][1][offset:offset + length])]
        check(listed and listed == sorted(listed), f"since: {listed}")
        last = moments_of(data)[-1]
        check_equal(len(listed), struct.unpack_from("<I", last[2], 20)[0],
                    "an element for each entry of the last moment")
        check(any(since for _, since in listed) and all(since <= last[1] for _, since in listed),
              f"since: {listed}")
        before = dump_of(path)
        for offset, length in pieces:  # as if all ids had got their meaning just now
            new = b"".join(struct.pack("<II", number, last[1])
                           for number, _ in struct.iter_unpack("<II", found[at][1][offset:offset +
                                                                                   length]))
            patch(data, at, offset, new)
        with open(path, "wb") as file:
            file.write(data)
        check_equal(dump_of(path)["contexts"], before["contexts"], "the last moment")
        first = dump_of(f"{path}@start")
        check_whole_sums(first)
        check_equal(bytes_of(first, "[forgotten paths]") + bytes_of(first, "[smaller contexts]"),
                    first["totals"]["requested_bytes"], "the first moment")


@test
def top_shows_a_recording():
    """top of a recording: keys move along the time axis, and sparklines show the whole recording
    with a cursor."""
    with contextlib.contextmanager(first_moments)() as path:
        count = len(postmortem_of(path)["moments"])
        env = {**harness.clean_env(), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        with screen.Terminal([harness.CLI, "top", path, "--interval", "0.1"], env, 24,
                             120) as terminal:
            def at(moment):
                terminal.wait(rf"moment {moment} of {count}, 2", f"moment {moment}")

            at(count)
            terminal.wait(r"total +▁.*█", "the time axis")
            terminal.press("[")
            at(count - 1)
            terminal.press("[[[[[[[[[[" * 3)
            at(1)
            terminal.wait(r"growth \?/s", "growth that is not known")
            terminal.wait(r"\n +\d\S* +\? +\? +\? ", "a line whose growth is not known")
            terminal.press("m")
            terminal.wait("the figures now are the base", "the base")
            terminal.press("]d")
            at(2)
            terminal.wait(r"DIFFERENCES to \d", "differences")
            terminal.wait(r"\n *\+\d\S* +\+", "a difference of a line")
            terminal.press("t")
            terminal.wait("a recording has no figures of threads", "threads")
            terminal.press("p")
            at(count)
            terminal.press("{")
            terminal.wait(rf"moment (?!{count} of)\d+ of", "a tenth back")
            terminal.press("v")
            terminal.wait("TREE OF CALL PATHS", "the tree")
            terminal.press("g")
            terminal.until(lambda: "whole program" in terminal.screen.marked()[-1],
                           "the root is marked")
            terminal.wait(r"total +(▁\S*█ .*\S) *\nline +\1 *\n", "the axis of the whole tree")
            terminal.press("q")
            check_equal(terminal.ended(), 0, "the exit code after q")


@test
def top_goes_from_a_process_to_its_recording():
    """In top, [ shows the recording of the process and b the process again. Without a recording [
    gives a message; it also finds a recording that memctx set started or stopped meanwhile."""
    program = harness.build_program("tests/control/recorded.c")
    with recorded() as (target, directory), runtime_dir() as runtime:
        wait_moments(recording_of(directory, target.pid), 3)
        env = {**target.cli_env, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        with screen.Terminal([harness.CLI, "top", str(target.pid), "--interval", "0.2"], env, 24,
                             120) as terminal:
            terminal.wait(rf"memctx top: pid {target.pid} \(recorded\), up", "the process")
            terminal.press("[")
            terminal.wait(rf"moment \d+ of \d+, 2.*; pid {target.pid}, recorded", "its recording")
            terminal.wait("b now", "the way back")
            terminal.wait("recorded.c:", "names")
            terminal.press("b")
            terminal.wait(rf"memctx top: pid {target.pid} \(recorded\), up", "the process again")
            target.kill()
            terminal.wait("was killed by signal 9", "its end")
            terminal.press("[")
            terminal.wait(rf"moment \d+ of \d+, 2.*; pid {target.pid}, recorded",
                          "the recording of the ended process")
            terminal.wait("recorded.c:", "names of the ended process")
            terminal.press("b")
            terminal.wait("was killed by signal 9", "its end again")
            terminal.press("q")
            check_equal(terminal.ended(), 0, "the exit code after q")
        with harness.Target([harness.CLI, "run", "--", program], runtime, preload=False) as other:
            other.hear()
            other.wait_socket()
            with screen.Terminal([harness.CLI, "top", str(other.pid)], {**env, **other.cli_env}, 24,
                                 120) as terminal:
                terminal.wait("resident", "the process")
                terminal.press("[")
                terminal.wait(f"this process writes no recording; memctx set {other.pid} "
                              "record=DIR begins one", "none")
                done = run_cli("set", str(other.pid), f"record={directory}", env=other.cli_env)
                check_equal(done.returncode, 0, done.stderr)
                wait_moments(recording_of(directory, other.pid))
                terminal.press("[")
                terminal.wait(rf"moment \d+ of \d+, 2.*; pid {other.pid}, recorded",
                              "a recording that began later")
                terminal.press("b")
                terminal.wait(rf"memctx top: pid {other.pid} \(recorded\), up", "the process again")
                check_equal(run_cli("set", str(other.pid), "record=off",
                                    env=other.cli_env).returncode, 0, "record=off")
                terminal.press("[")
                terminal.wait(rf"moment \d+ of \d+, 2.*; pid {other.pid}, recorded",
                              "a recording that was switched off")
                terminal.press("b")
                os.remove(recording_of(directory, other.pid))
                terminal.press("[")
                terminal.wait("this process writes no recording", "a recording that was removed")


@test
def recording_in_a_container_is_read_from_outside():
    """A recording in a container's file system is read through /proc/PID/root, and gets names of
    the program in the container."""
    if os.geteuid() != 0:
        raise Skip("making namespaces takes root")
    program = harness.build_program("tests/control/recorded.c")
    script = ("mount --make-rprivate / && mount -t tmpfs tmpfs /opt && mkdir /opt/rec && cp \"$1\" "
              "/opt/recorded && "
              "exec \"$2\" run --record=/opt/rec -- /opt/recorded")
    argv = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh",
            program, harness.CLI]
    with runtime_dir() as runtime, harness.Target(argv, runtime, preload=False) as target:
        if target.hear() != "ready 1":
            raise Skip("this machine makes no such namespaces")
        pid = int(read(f"/proc/{target.pid}/task/{target.pid}/children").split()[0])
        path = f"/proc/{pid}/root/opt/rec/memctx-1-recorded.rec"
        wait_moments(path, 2)
        told = postmortem_of(path)
        check_equal((told["ended"], told["pid"]), ("running", 1), "how it ended")
        # The ids of threads in the dump are those of the container's pid namespace.
        threads = json.loads(run_cli("dump", "--outside", "--threads", "--json", "--no-symbols",
                                     str(pid)).stdout)["threads"]
        check((1, "recorded") in {(thread["tid"], thread["name"]) for thread in threads},
              f"threads: {threads}")
        check_equal(run_cli("postmortem", "--names", path).returncode, 0, "keeping names")
        with tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
            copy = shutil.copy(path, os.path.join(directory, "copy.rec"))
            os.kill(pid, signal.SIGKILL)
            target.process.wait(timeout=60)
            dump, functions = functions_of(copy)
            check(dump["has_names"] and {"main", "leak_here"} <= functions, functions)
            check_equal(postmortem_of(copy)["ended"], "killed", "afterwards")
