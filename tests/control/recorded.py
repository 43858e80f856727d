# SPDX-License-Identifier: MIT
"""Starts programs with MEMCTX_RECORD, and reads their recordings. The reader in this file is
written from include/memctx/record.h alone."""
import contextlib
import json
import os
import struct
import tempfile

import harness
from harness import check, check_equal, run_cli, runtime_dir, wait_until

ROUNDS = int(os.environ.get("MEMCTX_RECORD_ROUNDS", "5"))
RING_AT = 4096 + 2 * (1536 << 10)
BLOCK = struct.Struct("<IIQQQ")
PAGED_AT, PAGES_BYTES, HELD_NUMBERS = 36, 64, 5  # in a moment
HEAD, END, DIRECTORY, MOMENT = 0x44484352, 0x44454352, 0x52444352, 0x4D4D4352
# The library records a moment at least every 10 s. The last moment may be so many seconds old;
# beside other suites the machine is busy.
OLDEST_S = 60 if ROUNDS <= 5 else 12


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


def entries_of(body):
    """The entries in the body of a moment, each a list of the bytes of its numbers."""
    count, entry_bytes = struct.unpack_from("<II", body, 16)
    paged, = struct.unpack_from("<I", body, PAGED_AT)
    numbers, start = [], len(body) - entry_bytes
    for at in range(start, len(body)):
        if body[at] < 128:
            numbers.append(body[start:at + 1])
            start = at + 1
    entries, at = [], 0
    while at < len(numbers):
        first = numbers[at][0]
        size = 3 + 2 * (first & 1) + (first >> 1 & 1)
        entries.append(numbers[at:at + size + HELD_NUMBERS * paged])
        at += size + HELD_NUMBERS * paged
    check_equal(len(entries), count, "entries of a moment")
    return entries


def ids_of(body):
    """The ids of the entries in the body of a moment."""
    ids, number = [], 0
    for entry in entries_of(body):
        number += sum((byte & 127) << 7 * k for k, byte in enumerate(entry[0])) >> 2
        ids.append(number)
    return ids


def forget_pages(data, moments):
    """Rewrites these of moments_of(data) so that they say nothing about pages."""
    for at, sequence, body in moments:
        entries = b"".join(b"".join(entry[:-HELD_NUMBERS]) for entry in entries_of(body))
        head = bytearray(body[:len(body) - PAGES_BYTES - struct.unpack_from("<I", body, 20)[0]])
        struct.pack_into("<I", head, 20, len(entries))
        struct.pack_into("<I", head, PAGED_AT, 0)
        new = bytes(head) + entries
        block = struct.pack("<IIQQ", MOMENT, len(new), sequence, checksum(new))
        block += struct.pack("<Q", checksum(block)) + new
        data[at:at + BLOCK.size + len(body)] = block.ljust(BLOCK.size + len(body), b"\0")


def as_version_2(data):
    """Makes the recording one of an older library, which wrote no figures of pages."""
    forget_pages(data, moments_of(data))
    patch(data, 0, 8, struct.pack("<I", 2))


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
def recorded(*words, members=None, options=()):
    """Starts the program under memctx run --record; yields it and the directory of the recording.
    `members`: cgroup.procs of a cgroup that the program enters first. `options`: of memctx run."""
    program = harness.build_program("tests/control/recorded.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        argv = [harness.CLI, "run", f"--record={directory}", *options, "--", program,
                *map(str, words)]
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
    said = struct.unpack_from("<qqqq", moments[-1][2], 112 + 40)
    totals = dump["totals"]
    check_equal((totals["requested_bytes"], totals["live_chunks"], totals["allocs"],
                 totals["frees"]),
                said, "the totals that the moment itself says")
    check(totals["requested_bytes"] > 0, "the recording is empty")
    labels = [(context["frame"] or {}).get("function") for context in dump["contexts"]]
    check("sessions" in labels, f"the named context is missing: {labels}")


def functions_of(path):
    """Returns a dump of the recording, and the set of the functions in its call paths."""
    done = run_cli("dump", "--json", path)
    check_equal((done.returncode, done.stderr), (0, ""), f"memctx dump {path}")
    dump = json.loads(done.stdout)
    return dump, {(context["frame"] or {}).get("function") for context in dump["contexts"]}


@contextlib.contextmanager
def first_moments():
    """Yields a recording of a process that grew and was killed."""
    with recorded() as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path, 6)
        target.kill()
        yield path
