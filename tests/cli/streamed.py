# SPDX-License-Identifier: MIT
"""Streamed snapshots, written while the answers arrive: right figures, little memory, damaged files
give a message."""
import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess

import harness
from clitest import CLI, expect, fake, scratch, succeed, target
from harness import (Target, build_program, check, check_equal, run_program, runtime_dir, test,
                     wait_until)
from packed_snapshots import read, without, write
from watching import Watch, files_in, hold

MOVING = ("mappings", "uptime_s", "build_ns", "rss_bytes", "ledger")


@contextlib.contextmanager
def many(count):
    """Starts a program with at least ten times `count` contexts."""
    program = build_program("tests/control/many_contexts.c")
    with runtime_dir() as runtime, Target([program, str(count)], runtime, MEMCTX_CONTROL="eager",
                                          MEMCTX_TABLES="256M",
                                          MEMCTX_FOLD="off") as live:
        check(live.hear().startswith("ready"), "it did not start")
        live.wait_socket()
        yield live


@test
def streamed_says_what_a_dump_says():
    with scratch() as where, target([build_program("tests/cli/programs/allocate.c")]) as live:
        streamed, packed, again = (os.path.join(where, name)
                                   for name in ("streamed", "packed", "again"))
        for name in ("one", "two"):
            succeed("mark", live.pid, name, env=live.cli_env)
            live.ask("grow")
        succeed("isolate", live.pid, "--site", "allocate_first", env=live.cli_env)
        succeed("dump", live.pid, "--stream", "-o", streamed, env=live.cli_env)
        succeed("dump", live.pid, "-o", packed, env=live.cli_env)
        want = without(succeed("dump", packed, "--json"), *MOVING)
        got = without(succeed("dump", streamed, "--json"), *MOVING)
        check(want["has_names"] and "allocate_first" in json.dumps(want), "no names")
        for key in sorted(want | got):
            check_equal(got.get(key), want.get(key), key)
        for words in (["diff", streamed, packed, "--json"], ["diff", streamed, "two"],
                      ["frag", streamed], ["report", streamed, "-o", again]):
            succeed(*words)
        live.kill()  # names are then looked up in the program's files
        succeed("dump", streamed, "-o", again)
        check_equal(without(succeed("dump", again, "--json"), *MOVING), want, "packed later")
        both = [json.loads(succeed("dump", path, "--json")) for path in (again, streamed)]
        check_equal(both[0], both[1], "packed later, with all figures")


@test
def streamed_from_outside_says_so():
    with scratch() as where, hold() as live:
        path = os.path.join(where, "streamed")
        live.ask("give")
        os.kill(live.pid, signal.SIGSTOP)
        wait_until(lambda: harness.read_status(live.pid, "State")[0] == "T", "the stop")
        succeed("dump", live.pid, "--stream", "-o", path, env=live.cli_env)
        want = without(succeed("dump", live.pid, "--json", env=live.cli_env), *MOVING)
        os.kill(live.pid, signal.SIGCONT)
        got = without(succeed("dump", path, "--json"), *MOVING)
        check("from outside" in got["how"], got["how"])
        check(got["contexts"] == want["contexts"] and len(got["contexts"]) > 10, "other contexts")


@test
def streamed_refuses():
    with scratch() as where, hold() as live:
        path = os.path.join(where, "streamed")
        expect(2, "--stream says how -o FILE writes a snapshot; add -o FILE", "dump", live.pid,
               "--stream", env=live.cli_env)
        for words in (["--stream", "--json", "-o", path],
                      ["--stream", "--threads", "-o", path]):
            expect(2, "--stream says how -o FILE writes a snapshot", "dump", live.pid, *words,
                   env=live.cli_env)
        succeed("dump", live.pid, "--stream", "-o", path, env=live.cli_env)
        expect(1, "is a file; --stream needs a process", "dump", path, "--stream", "-o", path + "x")
        data = bytearray(read(path))
        for at, version in ((8, "2.13"), (12, "1.14")):
            data[at] += 1
            write(path, data)
            expect(1, rf"a snapshot of version {version}; this memctx reads 1.13; use the memctx",
                   "dump", path)
            data[at] -= 1
        check_equal(files_in(where), ["streamed"], "files")


@test
def streamed_is_truncated_or_has_flipped_bits():
    numbers = random.Random(int(os.environ.get("MEMCTX_SEED", "1")))
    with fake("none") as live, scratch() as where:
        whole, path = os.path.join(where, "whole"), os.path.join(where, "path")
        succeed("dump", live.pid, "--stream", "-o", whole, env=live.cli_env)
        data, want = read(whole), succeed("dump", whole, "--json")
        for length in [*range(8, 40), *range(40, len(data), max(1, len(data) // 50)),
                       len(data) - 1]:
            write(path, data[:length])
            expect(1, "damaged snapshot; .*; take it again with memctx dump -o", "dump", path)
        for words in (["frag"], ["doctor"], ["export", "--csv", "-"]):
            expect(1, "damaged snapshot", words[0], path, *words[1:])
        for place in numbers.sample(range(12 * 8, len(data) * 8), 100):
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            write(path, flipped)
            done = run_program([CLI, "dump", path, "--json"], dict(os.environ), 60)
            check(done.returncode == 1 or (done.returncode == 0 and done.stdout == want),
                  f"bit {place}: {done.returncode} {done.stderr[:300]}")


@test
def watch_keeps_a_snapshot_that_it_may_not_pack():
    """If --memory 16M is too little to pack the snapshot, watch keeps the unpacked file, which can
    be packed later. --memory 1G gives more than a soft limit of 16 MiB that watch itself has."""
    soft = (16 << 20, resource.getrlimit(resource.RLIMIT_DATA)[1])
    with many(6000) as live, scratch() as where:
        with Watch(live, "--when", "rss>1K", "--memory", "1G", "--dir", where,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, soft)) as watch:
            done = watch.until("snapshot", timeout_s=60)
            check("without names" not in done["text"], done["text"])
        os.unlink(done["file"])
        with Watch(live, "--when", "rss>1K", "--memory", "16M", "--dir", where) as watch:
            done = watch.until("snapshot", timeout_s=60)
            check(re.search("without names of functions: .*memory", done["text"]), done["text"])
            check_equal(files_in(where), [os.path.basename(done["file"])], "files")
            check_equal(watch.end(), (0, ""), "status and errors")
        dump = succeed("dump", done["file"], "--flat", "--limit", "1")
        count = int(re.search(r"(\d+) contexts", dump)[1])
        check(count > 90000, dump[:300])
    return f"{count} contexts"


@test
def watch_limits_its_memory():
    with hold() as live:
        for word, message in (("15M", "at least 16M, or 0"), ("x", "takes a number of bytes"),
                              ("-1", "takes a number of bytes")):
            expect(2, message, "watch", live.pid, "--when", "rss>1K", "--memory", word,
                   env=live.cli_env)
        for word in ("0", "16M"):
            with scratch() as where, Watch(live, "--when", "rss>1K", "--memory", word, "--dir",
                                           where, "--do", "doctor") as watch:
                watch.until("doctor")


@test
def streamed_of_targets_that_fail():
    """If the target ends during the dump, no file is left; a wrong answer is detected when the file
    is read."""
    with scratch() as where:
        path = os.path.join(where, "streamed")
        for fault, message in (("answer-huge", "announces"), ("piece-short", "a piece of 8 bytes"),
                               ("piece-count", "a mark record is cut off"),
                               ("no-memory", "has no memory for an answer"),
                               ("refuse", "refused the request")):
            with fake(fault) as live:
                expect(1, message, "dump", live.pid, "--stream", "-o", path, env=live.cli_env)
                check_equal(files_in(where), [], f"files after {fault}")
        for fault in ("answer-short", "record-large", "record-odd", "label-open", "pages-count",
                      "pages-shares", "no-contexts", "exe-open"):
            with fake(fault) as live:
                succeed("dump", live.pid, "--stream", "-o", path, env=live.cli_env)
                expect(1, "damaged", "dump", path, "--json")
                os.unlink(path)
        for number in (signal.SIGTERM, signal.SIGPIPE):  # SIGPIPE: the reader of the messages ended
            with fake("answer-stalled") as live:
                dump = subprocess.Popen([CLI, "dump", str(live.pid), "--stream", "-o", path],
                                        env=live.cli_env, stderr=subprocess.DEVNULL)
                wait_until(lambda: files_in(where), "the unfinished file")
                dump.send_signal(number)
                check_equal((dump.wait(60), files_in(where)), (-number, []),
                            f"status and files after signal {number}")
