# SPDX-License-Identifier: MIT
"""Recordings: the moments of a recording, and the contexts in them, over time."""
import contextlib
import json
import os
import re
import signal
import struct
import tempfile
import time

import harness
from harness import Skip, check, check_equal, run_cli, runtime_dir, test, wait_until
from recorded import (DIRECTORY, OLDEST_S, RING_AT, ROUNDS, as_version_2, block_at, check_whole,
                      dump_of, first_moments, forget_pages, ids_of, moments_of, patch,
                      postmortem_of, read, recorded, recording_of, wait_moments,
                      wall_s)


def older_recording(path):
    """Writes the recording as an older library would have written it. Returns the file's path."""
    data = bytearray(read(path))
    as_version_2(data)
    with open(path + ".older", "wb") as file:
        file.write(data)
    return path + ".older"


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
        doctor = json.loads(run_cli("doctor", "--json", path).stdout)
        check_equal((report["verdict"], report["largest"]), (doctor["verdict"], doctor["largest"]),
                    "what postmortem and doctor tell")
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
        done = run_cli("verify", path)
        check_equal((done.returncode, done.stdout), (1, ""), "exit status of verify")
        check("a recording holds no predictions; ask the process" in done.stderr, done.stderr)
        older = older_recording(path)
        for words in (("dump", "--sort", "reserved"), ("frag", "--sort", "waste"),
                      ("dump", "--flat", "--sort", "waste"),
                      ("dump", "--svg", "-", "--sort", "pinned"),
                      ("export", "--folded", "-", "--metric", "waste")):
            check_equal(run_cli(words[0], path, *words[1:]).returncode, 0, f"exit status, {words}")
            done = run_cli(words[0], older, *words[1:])
            check_equal((done.returncode, done.stdout), (1, ""),
                        f"exit status and output of {words}")
            check(f"this moment of the recording holds no pages, so {words[-1]} is not known" in
                  done.stderr, done.stderr)
        snapshot = os.path.join(directory, "kept.mctx")
        check_equal(run_cli("dump", path, "-o", snapshot).returncode, 0, "exit status of dump -o")
        check_equal(dump_of(snapshot)["totals"], dump_of(path)["totals"], "totals of the snapshot")
        for words in (("postmortem", snapshot), ("dump", f"{snapshot}@now")):
            done = run_cli(*words)
            check_equal(done.returncode, 1, f"exit status of {words}")
            check("recording" in done.stderr, done.stderr)


def frag_of(path):
    """frag of a recording or a snapshot: (lines of the ledger, contexts). The lines add up."""
    done = run_cli("frag", "--json", path)
    check_equal((done.returncode, done.stderr), (0, ""), f"frag {path}")
    frag = json.loads(done.stdout)
    lines = {line["name"]: line["bytes"] for line in frag["ledger"]["lines"]}
    check_equal(sum(lines.values()), frag["ledger"]["rss_bytes"], "sum of the ledger's lines")
    return lines, frag["contexts"]


@test
def frag_of_a_recording():
    """frag of a recording without figures of pages, which older libraries wrote, tells the ledger
    of each moment, in which rounding and free room are one line, and the contexts by live bytes. A
    snapshot of a moment has the same ledger. Without the bytes in pages, that line is missing."""
    pages_at = 112 + 88  # in a moment, the offset of ledger.pages_reserved in `dump`
    with first_moments() as new:
        path = older_recording(new)
        data = bytearray(read(path))
        moments = postmortem_of(path)["moments"]
        for at, body, moment in (("start", moments_of(data)[0][2], moments[0]),
                                 ("now", moments_of(data)[-1][2], moments[-1])):
            pages, = struct.unpack_from("<q", body, pages_at)
            lines, contexts = frag_of(f"{path}@{at}")
            check(pages >= moment["requested_bytes"] >= (at == "now"),
                  f"{pages} bytes in pages, {moment}")
            check_equal((lines.get("requested_bytes", 0), lines.get("pages_free_bytes", 0)),
                        (moment["requested_bytes"], pages - moment["requested_bytes"]),
                        f"ledger at @{at}")
            check_equal(sum(one["requested_bytes"] for one in contexts), moment["requested_bytes"],
                        f"sum over the contexts at @{at}")
            check_equal({(one["reserved_bytes"], one["holes_bytes"], one["occupancy"])
                         for one in contexts} - {(None, None, None)}, set(), "figures of pages")
        text = run_cli("frag", path, "--bytes").stdout
        check(re.search(r"a recorded moment: .*is not in the\sfile.*\n(.*\n)+ +\d+ +100.0 %  "
                        rf"resident set.*\n +{lines['requested_bytes']} .*requested by the "
                        rf"program\n +{lines['pages_free_bytes']} .*rounding, and free in pages",
                        text), text)
        check(re.search(r"Who holds what, by requested:\n +requested +chunks +context\n"
                        r" +\d+ +\d+  \d+\n +leak_here", text), text)
        for option in ("--map", "--pages"):
            done = run_cli("frag", path, option)
            check((done.returncode, done.stdout) == (1, "") and "a recording holds no single pages"
                  in done.stderr, f"{option}: {done}")
        check_same_ledger(path)
        tables = json.loads(run_cli("dump", path, "--json").stdout)["ledger"]
        check(tables["metadata_used"] < tables["metadata_mapped"], f"tables: {tables}")
        check_equal(lines["metadata_bytes"], tables["metadata_used"], "tables in the ledger")
        for at, _, _ in moments_of(data):
            patch(data, at, pages_at, bytes(8))
        with open(path, "wb") as file:
            file.write(data)
        lines, _ = frag_of(path)
        check("pages_free_bytes" not in lines and "not recorded: free in pages" in
              run_cli("frag", path).stdout, f"an older recording: {lines}")


def check_same_ledger(path):
    """Checks that a snapshot of the recording's last moment has the ledger of that moment."""
    snapshot = path + ".mctx"
    check_equal(run_cli("dump", path, "-o", snapshot).returncode, 0, "exit status of dump -o")
    check_equal(frag_of(snapshot)[0], frag_of(path)[0], "ledger of the snapshot")


def pinners_of(target):
    """What frag tells of the pinners: by the functions of each path, its figures."""
    done = run_cli("frag", "--json", target)
    check_equal((done.returncode, done.stderr), (0, ""), f"frag {target}")
    keys = ("chunks", "requested_bytes", "alone_bytes", "alone_free_bytes", "shared_free_bytes")
    return {tuple(one["path"]): [one[key] for key in keys]
            for one in json.loads(done.stdout)["pinners"]}, json.loads(done.stdout)


@contextlib.contextmanager
def killed_with_holes():
    """Yields the recording of a program that was killed while a hundredth of its chunks kept most
    of its pages, and what frag told of the process just before."""
    program = harness.build_program("tests/control/sparse.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        argv = [harness.CLI, "run", f"--record={directory}", "--", program, "100000", "100"]
        with harness.Target(argv, runtime, preload=False) as target:
            path = os.path.join(directory, f"memctx-{target.pid}-sparse.rec")
            target.hear()
            ready = time.time()
            wait_until(lambda: os.path.exists(path) and moments_of(read(path)) and
                       wall_s(moments_of(read(path))[-1]) > ready, "a moment with holes", 120)
            live = pinners_of(str(target.pid))
            target.kill()
        yield path, *live


@test
def frag_of_a_recording_names_the_path_that_holds_pages():
    """A program is killed while few chunks keep many pages. frag of its recording names their call
    path, with the figures that frag of the process told just before; so does doctor. If the last
    moment lacks figures of pages, frag names the last moment that has them."""
    with killed_with_holes() as (path, pinners, live):
        found, frag = pinners_of(path)
        check_equal(found, pinners, "pinners of the recording and of the process")
        check("make" in next(iter(found))[0], f"the path that holds most pages: {found}")
        rest = next(iter(found.values()))
        check_equal(rest[0], 1000, "chunks that hold pages")
        check(rest[3] > 10_000_000, f"{rest} of 30 MB")
        for key in ("requested_bytes", "rounding_bytes", "holes_bytes", "mixed_free_bytes"):
            values = [next(line["bytes"] for line in one["ledger"]["lines"] if line["name"] == key)
                      for one in (live, frag)]
            check(abs(values[0] - values[1]) <= 65536, f"{key}: {values}")
        check_same_ledger(path)
        verdict = json.loads(run_cli("doctor", "--json", path).stdout)["findings"][0]
        check(verdict["id"] == "nearly-empty-pages" and "make" in str(verdict["path"]),
              f"the first finding: {verdict}")
        data = bytearray(read(path))
        moments = moments_of(data)
        forget_pages(data, moments[-1:])
        with open(path, "wb") as file:
            file.write(data)
        text = run_cli("frag", path).stdout.replace("\n", " ")
        back_ms = int((wall_s(moments[-1]) - wall_s(moments[-2])) * 1000)
        named = re.search(r"memctx frag \S+@-(\d+)ms shows the last moment that has them", text)
        check(named and abs(int(named.group(1)) - back_ms) < 1000, text)
        earlier = run_cli("frag", f"{path}@-{named.group(1)}ms").stdout
        check("sums for each call path" in earlier.replace("\n", " "), earlier)


@test
def pages_that_paths_of_a_recording_share_are_not_known():
    """1024 call paths keep pages that they share with each other only. frag and doctor of the
    process say that all of these pages come back. The recording has only the sum of what each path
    holds, so there the figure is a lower bound, and both say so."""
    program = harness.build_program("examples/sessions.c")
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
        argv = [harness.CLI, "run", f"--record={directory}", "--", program]
        with harness.Target(argv, runtime, preload=False) as target:
            check_equal(target.hear(), "answered", "first line of the target")
            path = os.path.join(directory, f"memctx-{target.pid}-sessions.rec")
            ready = time.time()
            wait_until(lambda: os.path.exists(path) and moments_of(read(path)) and
                       wall_s(moments_of(read(path))[-1]) > ready, "a moment with holes", 120)
            live = " ".join(run_cli("doctor", target.pid, env=target.cli_env).stdout.split())
            _, live_frag = pinners_of(str(target.pid))
            target.kill()
        check("freeing all these chunks returns these pages" in live, live)
        check_equal([one["alone_exact"] for one in live_frag["pinners"]], [True], "of the process")
        _, frag = pinners_of(path)
        (pinner, *_), (alive, *_) = frag["pinners"], live_frag["pinners"]
        check_equal(pinner["alone_exact"], False, f"pinner {pinner}")
        check(pinner["alone_bytes"] < alive["alone_bytes"] // 4, f"{pinner} and {alive}")
        text = " ".join(run_cli("doctor", path).stdout.split())
        check("freeing all these chunks returns at least " in text, text)
        text = run_cli("frag", path).stdout
        check(re.search(r"\n +>= [0-9]+  ", text), text)


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


@test
def recording_of_a_quiet_process():
    """A process that does nothing still gets a moment every 10 s."""
    if ROUNDS <= 5:
        raise Skip("takes 12 s; make torture-control does it")
    with recorded(0) as (target, directory):
        path = recording_of(directory, target.pid)
        wait_moments(path)
        wait_until(lambda: len(moments_of(read(path))) > 1, "a second moment", timeout_s=OLDEST_S)


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

            one, two, three = (os.path.join(directory, name) for name in ("one", "two", "three"))
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
            switch(three)
            wait_moments(recording_of(three, target.pid))
            os.remove(recording_of(three, target.pid))
            switch("off")
            for name in os.listdir(three):  # a moment may have come before the end
                check(moments_of(read(os.path.join(three, name))), "a file without a moment")
            switch(one)
            wait_until(lambda: len(os.listdir(one)) == 2, "a new file beside the old one")
            wait_moments(recording_of(one, target.pid))
            target.kill()
            check_equal(postmortem_of(recording_of(one, target.pid))["ended"], "killed",
                        "after the end of the process")
            check_whole(recording_of(one, target.pid), time.time())


SLEPT_AT = 112 + 8  # offset of slept_ns in a moment


@test
def recording_of_a_machine_that_slept():
    """@-TIME, --last and the names of marks count the time that the machine slept."""
    with first_moments() as path:
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


# The piece of a directory that says, for each id, from which moment on the id has its meaning.
SINCE = 0x53444352
STOPS = 50  # times that the process is stopped to find the last directory and the last moment


def newest_directory(data):
    """(offset, body) of the newest directory; the body is empty if there is none."""
    sequence, body, at = max((*(block_at(data, at, DIRECTORY) or (0, b"")), at)
                             for at in (4096, (4096 + RING_AT) // 2))
    return at, body if sequence else b""


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
                if pieces_of(newest_directory(read(path))[1], SINCE):
                    break
            time.sleep(0.3)
        # The library writes a directory before its moment. A process that is stopped in between has
        # a directory that is newer than the last moment. A directory is not written anew when
        # contexts are only dropped, so it may list more contexts than the last moment has.
        for _ in range(STOPS):
            os.kill(target.pid, signal.SIGSTOP)
            data = bytearray(read(path))
            at, directory = newest_directory(data)
            pieces = pieces_of(directory, SINCE)
            listed = [pair for offset, length in pieces
                      for pair in struct.iter_unpack("<II", directory[offset:offset + length])]
            last = moments_of(data)[-1]
            if all(since <= last[1] for _, since in listed):
                break
            os.kill(target.pid, signal.SIGCONT)
            time.sleep(0.1)
        target.kill()
        check(listed and listed == sorted(listed), f"since: {listed}")
        ids = ids_of(last[2])
        check(ids and set(ids) <= {number for number, _ in listed},
              f"the last moment has {ids}, the directory {listed}")
        check(any(since for _, since in listed) and all(since <= last[1] for _, since in listed),
              f"since: {listed}")
        before = dump_of(path)
        for offset, length in pieces:  # as if all ids had got their meaning just now
            new = b"".join(struct.pack("<II", number, last[1])
                           for number, _ in struct.iter_unpack("<II",
                                                              directory[offset:offset + length]))
            patch(data, at, offset, new)
        with open(path, "wb") as file:
            file.write(data)
        check_equal(dump_of(path)["contexts"], before["contexts"], "the last moment")
        first = dump_of(f"{path}@start")
        check_whole_sums(first)
        check_equal(bytes_of(first, "[forgotten paths]") + bytes_of(first, "[smaller contexts]"),
                    first["totals"]["requested_bytes"], "the first moment")
