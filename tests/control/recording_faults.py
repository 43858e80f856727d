# SPDX-License-Identifier: MIT
"""Recordings on a full disk, without a directory, damaged; and what a recording costs."""
import contextlib
import json
import os
import random
import resource
import struct
import subprocess
import tempfile
import time

import harness
from harness import Skip, check, check_equal, run_cli, runtime_dir, test, wait_until
from recorded import (BLOCK, RING_AT, check_whole, dump_of, functions_of, moments_of, patch,
                      postmortem_of, read, recorded, recording_of, wait_moments)


WIRE_VERSION_AT = 684  # offset in the head
BLOCK_BYTES = 3000  # a test changes so many bytes of the block at offset 4096, the first directory


def statistics_of(target):
    """The library's statistics of its recording: name -> text of the figure."""
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
        with plain_program(runtime, "/tmp/" + 300 * "d/", MEMCTX_VERBOSE="1") as target:
            target.hear()
            target.wait_socket()
            target.say("exit")
            check_equal(target.process.wait(timeout=60), 7, "exit status")
            text = target.process.stderr.read().decode()
            check("MEMCTX_RECORD has more than 511 bytes" in text, f"stderr: {text}")
    with tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        long = os.path.join(directory, "d" * 255, "d" * 255)
        os.makedirs(long)
        for where in ("/dev/null/rec", "/proc", long):
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


def fill_disk(directory):
    with contextlib.suppress(OSError), open(os.path.join(directory, "fill"), "wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


@test
def recording_when_no_block_is_left():
    """On a full file system the moments written before stay readable, and lost ones are counted."""
    with tempfile.TemporaryDirectory(prefix="mctx-disk-") as disk:
        tiny_disk(disk, 1)
        try:
            check_full_disk(disk)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


@test
def a_full_disk_is_told_when_a_recording_begins():
    """memctx run --record and memctx set record= say that the disk is full, because the library
    only counts what it cannot write; the program runs all the same."""
    message = " KiB free, and a recording needs 300 KiB or more; "
    with tempfile.TemporaryDirectory(prefix="mctx-disk-") as disk, runtime_dir() as runtime:
        tiny_disk(disk, 1)
        try:
            done = run_cli("run", f"--record={disk}", "--", "true")
            check_equal((done.returncode, done.stderr), (0, ""), "a disk with 1 MiB of room")
            fill_disk(disk)
            done = run_cli("run", f"--record={disk}", "--", "true")
            check(done.returncode == 0 and message in done.stderr, f"run: {done.stderr}")
            program = harness.build_program("tests/control/recorded.c")
            with harness.Target([program], runtime, MEMCTX_CONTROL="eager") as target:
                target.hear()
                target.wait_socket()
                done = run_cli("set", target.pid, f"record={disk}", env=target.cli_env)
                check_equal((done.returncode, done.stdout), (0, f"record is now {disk}\n"), "set")
                check(message in done.stderr, f"set: {done.stderr}")
                done = run_cli("set", target.pid, "record=off", env=target.cli_env)
                check_equal((done.returncode, done.stderr), (0, ""), "record=off")
                target.say("exit")
                check_equal(target.process.wait(timeout=60), 7, "exit status")
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


def check_full_disk(disk):
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime:
        argv = [harness.CLI, "run", f"--record={disk}", "--", program]
        with harness.Target(argv, runtime, preload=False) as target:
            target.hear()
            path = recording_of(disk, target.pid)
            wait_moments(path, 2)  # root's programs write one at once, and one after 0.1 s
            fill_disk(disk)
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


@test
def recording_whose_file_is_spoiled():
    """If the file is cut off, as logrotate's copytruncate does, or removed, the recording begins
    anew: the file has a head, paths, moments and the end again. No other file is made, and a file
    that was moved away is written on."""
    def spoil(path, how):
        if how == "remove":
            os.remove(path)
        else:
            os.truncate(path, how)

    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        for how in ("remove", 0, 1000, 1 << 20, RING_AT + 64, "remove"):
            wait_moments(path, 2)
            before = dump_of(path)["totals"]["requested_bytes"]
            spoil(path, how)
            wait_until(lambda: os.path.exists(path) and len(moments_of(read(path))) >= 2 and
                       run_cli("dump", path).returncode == 0, f"moments after {how}")
            after, functions = functions_of(path)
            check(after["totals"]["requested_bytes"] > before, f"live bytes after {how}")
            check("leak_here" in functions, f"paths after {how}: {functions}")
        check_equal(os.listdir(directory), [os.path.basename(path)], "files")
        moved = path + ".moved"
        os.rename(path, moved)
        count = len(moments_of(read(moved)))
        wait_moments(moved, count + 2)
        check_equal(os.listdir(directory), [os.path.basename(moved)], "files after the move")
        os.rename(moved, path)
        target.say("exit")
        target.process.wait(timeout=60)
        check_equal(postmortem_of(path)["ended"], "normally", "how it ended")


def shares_of(targets):
    """For each target, the share of a core that its control thread uses during a second."""
    before_ns, began = [harness.library_thread_ns(each.pid) for each in targets], time.monotonic()
    time.sleep(1)
    took_s = time.monotonic() - began
    return [(harness.library_thread_ns(each.pid) - before) / took_s / 1e9
            for each, before in zip(targets, before_ns)]


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
