# SPDX-License-Identifier: MIT
"""Snapshot files give the same results as the process; damaged JSON files give a message. (Damaged
packed files: packed_snapshots.py.)"""
import fcntl
import functools
import json
import os
import re
import random
import shutil
import signal
import stat
import subprocess

from clitest import CLI, HERE, cli, expect, fake, scratch, succeed, target, tool
from harness import (build_program, check, check_equal, check_sums, dump_json, read_status, test,
                     wait_until)

T_KEYS = ["requested_bytes", "block_bytes", "reserved_bytes", "resident_bytes", "pinned_bytes",
          "sole_pinned_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes",
          "peak_requested_bytes", "pages"]


def allocate():
    return target([build_program("tests/cli/programs/allocate.c")])


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_json(path, dump):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dump, file, separators=(",", ":"))


def dump_json_of(live, path):
    """Writes a JSON snapshot of the process; returns its content, which a test may change."""
    succeed("dump", live.pid, "--json", "-o", path, env=live.cli_env)
    return json.loads(read(path))


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


@test
def a_snapshot_may_come_through_a_pipe():
    """The command reads a snapshot from a pipe, as in `memctx dump <(zcat FILE)`."""
    with allocate() as live, scratch() as where:
        for name in ("packed.mctx", "snapshot.json"):
            path = os.path.join(where, name)
            succeed("dump", live.pid, "--no-symbols",
                    *(["--json"] if name.endswith("json") else []), "-o", path, env=live.cli_env)
            out, into = os.pipe()
            fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 1 << 20)
            with os.fdopen(into, "wb") as pipe:
                pipe.write(read_bytes(path))
            done = subprocess.run([CLI, "dump", f"/dev/fd/{out}", "--json"], pass_fds=[out],
                                  capture_output=True, text=True,
                                  timeout=60, check=False)
            os.close(out)
            check_equal((done.returncode, done.stderr), (0, ""), name)
            check_equal(json.loads(done.stdout)["contexts"],
                        json.loads(succeed("dump", path, "--json"))["contexts"], name)


@test
def json_has_the_schema():
    with allocate() as live:
        dump = live.dump("--threads")
        for key, kind in (("schema", str), ("pid", int), ("exe", str), ("uptime_s", float),
                          ("depth", int), ("exact", bool), ("totals", dict), ("marks", list),
                          ("contexts", list)):
            check(isinstance(dump[key], kind), f"{key} is {dump[key]!r}")
        check_equal(list(dump["totals"]), T_KEYS, "keys of totals")
        seen = set()
        for context in dump["contexts"]:
            check_equal(set(context) - {"exact_address", "occupancy"},
                        {"id", "parent", "kind", "policy", "frame", "self", "total", "threads"},
                        "keys of a context")
            check(context["parent"] in seen or context["parent"] is None, "a parent comes first")
            seen.add(context["id"])
            check_equal(list(context["self"]), T_KEYS, "keys of self")
            if context["frame"]:
                check_equal(set(context["frame"]), {"addr", "module", "offset", "function", "file",
                                                    "line", "inlined"}, "keys of a frame")
        check_sums(dump)
        for field in ("allocs", "frees", "requested_cum_bytes", "requested_bytes", "live_chunks"):
            for context in dump["contexts"]:
                parts = sum(view[field] for view in context["threads"].values())
                check_equal(parts, context["self"][field], f"sum of {field} over the threads")
        first = [context for context in dump["contexts"]
                 if (context["frame"] or {}).get("function") == "allocate_first"]
        check_equal(len(first), 1, "contexts of allocate_first")
        check_equal((first[0]["self"]["requested_bytes"], first[0]["self"]["live_chunks"]),
                    (100000, 100), "figures of allocate_first")
        check_equal(os.path.basename(first[0]["frame"]["file"]), "allocate.c", "its file")
        check("threads" not in live.dump()["contexts"][0], "threads only when asked for")


@test
def snapshot_gives_the_same():
    with allocate() as live, scratch() as where:
        env = live.cli_env
        succeed("mark", live.pid, "one", env=env)
        check_equal(live.ask("grow"), "ok", "grow")
        first, second = os.path.join(where, "first"), os.path.join(where, "second")
        succeed("dump", live.pid, "--threads", "-o", first, env=env)
        now = live.dump("--threads")
        saved = json.loads(succeed("dump", first, "--json", "--threads"))
        for key in ("uptime_s", "build_ns", "rss_bytes", "ledger", "mappings"):
            now.pop(key, None)
            saved.pop(key, None)
        # The target was idle, so both dumps have the same chunks.
        check_equal([context["self"]["requested_bytes"] for context in saved["contexts"]],
                    [context["self"]["requested_bytes"] for context in now["contexts"]],
                    "requested bytes by context")
        check_equal([context["frame"] for context in saved["contexts"]],
                    [context["frame"] for context in now["contexts"]], "frames")
        diff = json.loads(succeed("diff", live.pid, "one", "--json", env=env))
        plain = os.path.join(where, "plain.json")
        with open(plain, "w", encoding="utf-8") as file:
            file.write(succeed("dump", live.pid, "--json", env=env))
        for words in (("diff", plain, "one"), ("report", plain, "--before", "one", "-o", "-")):
            expect(1, 'holds the mark "one" without its counters', *words)
        live.kill()
        saved_diff = json.loads(succeed("diff", first, "one", "--json"))
        check_equal([(row["path"], row["growth"]) for row in saved_diff["contexts"]],
                    [(row["path"], row["growth"]) for row in diff["contexts"]], "diff")
        succeed("dump", first, "-o", second)
        check_equal(read_bytes(second), read_bytes(first), "a snapshot of a snapshot")
        check_equal(succeed("frag", second), succeed("frag", first), "frag")
        check_equal(succeed("dump", second, "--flat"), succeed("dump", first, "--flat"), "dump")
        check("allocate_more (allocate.c:" in succeed("dump", first), "names")
        for verb in ("mark", "reset", "trim", "options"):
            expect(1, f"{verb} needs a running process", verb, first)
        for words in (("doctor", "--watch", 5), ("export", "--seconds", 5, "--pprof", "-")):
            expect(1, f"{words[0]} {words[1]} needs a running process", words[0], first, *words[1:])


def check_ledger(text, explained):
    """Checks that the text begins with at most eight lines of 80 columns whose sum is the first
    line. Returns the last line."""
    head, rows, *_ = re.split(r"\n\n", text)[0].split("\n", 1)
    rows = re.sub(r"\n {25}(?! )", " ", rows).split("\n")
    parsed = [re.fullmatch(r" *(-?\d+) +(-?[0-9.]+) %  (.*)", row) for row in rows]
    check(all(parsed) and 3 <= len(rows) <= 8, f"{head}: {rows}")
    first, *parts = [int(row[1]) for row in parsed]
    check("resident set, as the kernel counts it" in rows[0], rows[0])
    check_equal(sum(parts), first, f"the sum of {rows}")
    check(abs(sum(float(row[2]) for row in parsed[1:]) - 100) < 0.5, f"the shares: {rows}")
    check(("the rest" in rows[-1]) != explained, f"the rest is explained where it is large: {rows}")
    check(all(len(line) <= 80
              for line in text.splitlines() if not line.startswith(" " * 20 + "memctx")), text)
    return rows[-1]


@test
def frag_adds_up():
    with allocate() as live:
        frag = json.loads(succeed("frag", live.pid, "--json", env=live.cli_env))
        ledger = frag["ledger"]
        check_equal(sum(line["bytes"] for line in ledger["lines"]), ledger["rss_bytes"], "the sum")
        check_equal(ledger["lines"][-1]["name"], "residue_bytes", "the last line")
        lines = {line["name"]: line["bytes"] for line in ledger["lines"]}
        check(lines["requested_bytes"] >= 100000 and lines["files_bytes"] > 0, f"ledger: {lines}")
        check(abs(lines["residue_bytes"]) < 1 << 20, f"residue: {lines}")
        for context in frag["contexts"]:
            check_equal(context["reserved_bytes"], context["requested_bytes"] +
                        context["rounding_bytes"] + context["holes_bytes"], "parts of reserved")
        text = succeed("frag", live.pid, env=live.cli_env)
        check_ledger(text, abs(lines["residue_bytes"]) <= ledger["rss_bytes"] / 100)
        check("--quick does not look at it" in check_ledger(succeed("frag", live.pid, "--quick",
                                                                    env=live.cli_env), False),
              "why there is a rest")
        check("<=6  <=12" not in text and
              "<=6 <=12" in succeed("frag", live.pid, "--pages", env=live.cli_env),
              "the table of pages")


@test
def rounded_figures_have_the_next_unit():
    """A size that would be rounded to 1024.0 KiB has the next unit, and a share that would be
    rounded to -0.0 % has no sign."""
    with allocate() as live, scratch() as where:
        file = os.path.join(where, "snapshot.json")
        dump = dump_json_of(live, file)
        for context in dump["contexts"]:
            if context["self"]["requested_bytes"] == 100000:
                context["self"]["requested_bytes"] = 1048570
        write_json(file, dump)
        text = succeed("dump", file, "--human")
        check(re.search(r"allocate_first.*; 1\.0 MiB requested$", text, re.M), f"dump: {text}")
        # the last line of the ledger; its text may be so long that it goes on in the next line
        last = re.findall(r"^ +(-?\d+) +-?[\d.]+ %", succeed("frag", file), re.M)[-1]
        dump["ledger"]["rss_bytes"] -= int(last) + 1
        write_json(file, dump)
        check(" -1    0.0 %  " in succeed("frag", file), "frag")


@test
def doctor_counts_the_freelist_that_is_resident():
    """A large chunk that the program never touched goes to the freelist as a whole. Trim returns
    only what is resident."""
    with allocate() as live, scratch() as where:
        file = os.path.join(where, "snapshot.json")
        dump = dump_json_of(live, file)
        for resident, wanted in ((0, []), (100 << 20, ["freelist"])):
            dump["ledger"]["freelist_bytes"] = 512 << 20
            dump["ledger"]["segments_resident"] += resident
            write_json(file, dump)
            found = json.loads(succeed("doctor", file, "--json"))["findings"]
            found = [one for one in found if one["id"] == "freelist"]
            check_equal([one["id"] for one in found], wanted, f"{resident} bytes are resident")
        check(100 << 20 <= found[0]["bytes"] < 105 << 20, f"bytes: {found[0]}")
        text = succeed("frag", file, "--human")
        check(re.search(r"for reuse: 100\.\d MiB in\s+the freelist", text), text)


@test
def doctor_names_the_residue():
    """If most of the resident set is in no line of the ledger, doctor says so."""
    with allocate() as live, scratch() as where:
        file = os.path.join(where, "snapshot.json")
        dump = dump_json_of(live, file)
        dump["ledger"]["rss_bytes"] += 1 << 30
        write_json(file, dump)
        text = succeed("doctor", file)
        check("of memory that the ledger does not explain" in text, text)


@test
def frag_explains_the_residue():
    """The last line of frag's ledger says whether the lines above are too low or too high in
    sum."""
    with allocate() as live, scratch() as where:
        file = os.path.join(where, "snapshot.json")
        dump = dump_json_of(live, file)
        rss = dump["ledger"]["rss_bytes"]
        for change, text in ((1 << 20, "resident, but no line above explains it"),
                             (-1 << 20, "the lines above count this much more than is resident")):
            dump["ledger"]["rss_bytes"] = dump["mappings"]["rss_bytes"] = rss + change
            write_json(file, dump)
            check(check_ledger(succeed("frag", file), False).endswith(text), text)


@test
def marks_without_contexts_that_held_nothing():
    """The list of marks, and diff, say what the contexts held that a mark had no room for."""
    with allocate() as live, scratch() as where:
        file = os.path.join(where, "snapshot.json")
        succeed("mark", live.pid, "one", env=live.cli_env)
        dump = dump_json_of(live, file)
        figures = ("requested_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes")
        for contexts, most, held in ((408, 0, "408 contexts that held nothing"),
                                     (1, 0, "1 context that held nothing"),
                                     (3, 7, "3 contexts that held at most 7 bytes each")):
            dump["marks"][0]["left_out"] = dict.fromkeys(figures, 0) | {
                "contexts": contexts, "most_bytes": most, "ids_below": 1000}
            write_json(file, dump)
            check(f", without {held}\n" in succeed("mark", "--list", file), held)
            check(f"the mark has no counters of {held}" in succeed("diff", file, "one"), held)


@test
def frag_offers_no_trim_that_returns_nothing():
    """A shell that waits for input keeps no empty page, or only pages of which it freed a block
    last: a trim would return none of them."""
    with target(["/bin/sh", "-c", "echo ready; read word"]) as live:
        text = " ".join(succeed("frag", live.pid, env=live.cli_env).split())
        check(re.search("0 in the freelist, (0 in empty pages|[0-9]+ in empty pages; threads that "
                        "sleep keep it)$", text), text)


@test
def snapshots_of_two_runs_compare():
    with scratch() as where:
        files = [os.path.join(where, name) for name in ("quiet", "grown")]
        for path in files:
            with allocate() as live:
                if path == files[1]:
                    check_equal(live.ask("grow"), "ok", "grow")
                succeed("dump", live.pid, "-o", path, env=live.cli_env)
        diff = json.loads(succeed("diff", *files, "--json"))
        grown = diff["contexts"][0]
        check_equal(grown["growth"]["requested_bytes"], 500000, "growth between two runs")
        check("allocate_more" in grown["path"][0], f"path: {grown['path']}")
        check_equal(diff["totals"]["growth"]["requested_bytes"], 500000, "sum")
        back = json.loads(succeed("diff", *reversed(files), "--json"))
        check_equal(back["contexts"][-1]["growth"]["requested_bytes"], -500000, "the way back")
        text = succeed("diff", *reversed(files))
        check(re.search(r"^-500000 bytes in -500 chunks  allocate_more ", text, re.M),
              f"allocs and frees that are not known: {text}")
        text += succeed("dump", files[0], "--min", "0") + succeed("dump", files[0], "--flat",
                                                                  "--limit", "1")
        check("(1 chunk)" in text and not re.search(r"\b1 (chunks|pages|allocs|frees|more "
                                                    r"contexts)\b", text), f"one of a kind: {text}")
        check_equal(json.loads(succeed("diff", files[0], files[0], "--json"))["contexts"], [],
                    "a snapshot against itself")


@test
def snapshots_before_and_after_a_reset():
    """Counters that were reset between two states have no growth, also if they are higher than
    before. Live bytes have their growth."""
    with allocate() as live, scratch() as where:
        before, packed = os.path.join(where, "before"), os.path.join(where, "packed")
        written = os.path.join(where, "json")
        check_equal(live.ask("grow"), "ok", "grow")
        succeed("dump", live.pid, "-o", before, env=live.cli_env)
        check("counter_resets" not in live.dump(), "no reset yet")
        succeed("reset", live.pid, "--site", "allocate_more", env=live.cli_env)
        for _ in range(2):
            check_equal(live.ask("grow"), "ok", "grow")
        check_equal(live.dump()["counter_resets"], 1, "resets")
        os.kill(live.pid, signal.SIGSTOP)
        wait_until(lambda: read_status(live.pid, "State")[0] == "T", "the stop")
        outside = json.loads(succeed("dump", live.pid, "--json", env=live.cli_env))
        check_equal((outside["how"] is not None, outside["counter_resets"]), (True, 1), "outside")
        os.kill(live.pid, signal.SIGCONT)
        succeed("dump", live.pid, "-o", packed, env=live.cli_env)
        succeed("dump", live.pid, "--json", "-o", written, env=live.cli_env)
        for after in (packed, written, live.pid):
            done = expect(0, "note: counters were reset between .*; how many allocs and frees",
                          "diff", before, after, "--json", env=live.cli_env)
            diff = json.loads(done.stdout)
            grown = diff["contexts"][0]
            check("allocate_more" in grown["path"][0], f"path: {grown['path']}")
            for growth in (grown["growth"], diff["totals"]["growth"]):
                check_equal([growth[key] for key in ("requested_bytes", "allocs", "frees",
                                                     "requested_cum_bytes")],
                            [1000000, None, None, None], "growth")
        done = cli("diff", packed, written)
        check_equal(done.stderr, "", "no reset between these two")
        succeed("reset", live.pid, env=live.cli_env)
        diff = json.loads(cli("diff", packed, live.pid, "--json", env=live.cli_env).stdout)
        check_equal(diff["contexts"], [], "contexts of which only the counters differ")


@test
def a_snapshot_is_compared_with_a_process_by_its_name():
    """A word that is no mark of the snapshot may be the name of a process. A mark of that name is
    meant first."""
    name = f"diffed{os.getpid()}"[:15]
    with scratch() as where:
        program, file = os.path.join(where, name), os.path.join(where, "monday.mctx")
        shutil.copy(build_program("tests/cli/programs/allocate.c"), program)
        with target([program]) as live:
            env = live.cli_env
            succeed("mark", live.pid, "one", env=env)
            succeed("dump", live.pid, "-o", file, env=env)
            check_equal(live.ask("grow"), "ok", "grow")
            named, by_pid = (json.loads(succeed("diff", file, word, "--json", env=env))
                             for word in (name, live.pid))
            check_equal((named["to"]["name"], named["totals"]["growth"]),
                        (by_pid["to"]["name"], by_pid["totals"]["growth"]),
                        "the process, by name and by pid")
            check_equal(named["totals"]["growth"]["requested_bytes"], 500000, "growth")
            succeed("mark", live.pid, name, env=env)
            succeed("dump", live.pid, "-o", file, env=env)
            marked = json.loads(succeed("diff", file, name, "--json", env=env))
            check_equal(marked["from"]["name"], f'mark "{name}"', "the mark of that name")
            expect(1, f'{file} has no mark "{name}x"', "diff", file, name + "x", env=env)


@test
def snapshots_of_two_builds_compare_by_function():
    """In another build of a program, functions have other offsets. The build may stand in another
    folder. A state of another program gets a note."""
    source = os.path.join(HERE, "programs/rebuilt.c")
    with scratch() as where:
        files = {}
        for name, place, flags in (("old", "old/shop", []), ("here", "old/shop", ["-DNEWER"]),
                                   ("there", "new/shop", ["-DNEWER"]), ("other", "other", [])):
            program, files[name] = (os.path.join(where, end) for end in (place, name + ".mctx"))
            os.makedirs(os.path.dirname(program), exist_ok=True)
            tool("gcc", "-O1", "-g", "-Wl,--build-id", *flags, source, "-o", program)
            with target([program]) as live:
                succeed("dump", live.pid, "-o", files[name], env=live.cli_env)
        for name in ("here", "there"):
            done = expect(0, r"note: \S+ is of another build of \S+shop than \S+old\.mctx; there",
                          "diff", files["old"], files[name], "--json")
            rows = [(row["frame"]["function"], row["before"]["requested_bytes"],
                     row["after"]["requested_bytes"])
                    for row in json.loads(done.stdout)["contexts"]]
            check_equal(rows, [("first", 1000, 1500), ("added", 0, 300)], f"{name}: growth")
            expect(0, "another build", "report", files[name], "--before", files["old"], "-o",
                   os.path.join(where, "page.html"))
            done = cli("diff", files["old"], files[name], "--no-symbols", "--json")
            same = [row for row in json.loads(done.stdout)["contexts"]
                    if row["before"]["allocs"] and row["after"]["allocs"]]
            check_equal(same, [], "offsets of two builds are not compared")
        expect(0, r"note: \S+old.mctx is of the program shop and \S+other.mctx of other; only",
               "diff",
               files["old"], files["other"])
        done = cli("diff", files["old"], files["old"])
        check_equal(done.stderr, "", "a build and itself")


@test
def snapshot_file_is_whole_or_absent():
    with fake("none") as live, scratch() as where:
        path = os.path.join(where, "snapshot")
        old_mask = os.umask(0o027)
        try:
            succeed("dump", live.pid, "-o", path, env=live.cli_env)
        finally:
            os.umask(old_mask)
        check_equal(stat.S_IMODE(os.stat(path).st_mode), 0o640, "mode")
        succeed("dump", live.pid, "-o", path, env=live.cli_env)
        check_equal(os.listdir(where), ["snapshot"], "what is left in the directory")
        for mode, kept in ((0o600, 0o600), (0o777, 0o644)):
            os.chmod(path, mode)
            old_mask = os.umask(0o022)
            try:
                succeed("dump", live.pid, "-o", path, env=live.cli_env)
            finally:
                os.umask(old_mask)
            check_equal(stat.S_IMODE(os.stat(path).st_mode), kept, "mode of a file that was there")


@test
def snapshot_is_truncated():
    with fake("none") as live, scratch() as where:
        whole, cut = os.path.join(where, "whole"), os.path.join(where, "cut")
        succeed("dump", live.pid, "--threads", "--json", "-o", whole, env=live.cli_env)
        content = read(whole).encode()
        check(len(content) > 2000, "a snapshot of some size")
        for length in range(30, len(content) - 2, max(1, len(content) // 60)):
            with open(cut, "wb") as file:
                file.write(content[:length])
            expect(1, "(truncated|damaged) snapshot", "dump", cut)
        with open(cut, "wb") as file:
            file.write(content[:len(content) // 2])
        for words in (["dump"], ["frag"], ["doctor"], ["diff"]):
            expect(1, "truncated snapshot; it ends after", *words, cut)
        expect(1, "truncated snapshot", "diff", whole, cut)


@test
def snapshot_of_another_version():
    with fake("none") as live, scratch() as where:
        path = os.path.join(where, "snapshot")
        succeed("dump", live.pid, "--json", "-o", path, env=live.cli_env)
        text = read(path)
        for content, pattern in (
                (text.replace("memctx/1", "memctx/2"), r"schema memctx/2; this memctx .* memctx/1"),
                ('{"schema":"memctx/2","anything":[]}', r"schema memctx/2; this memctx"),
                ('{"schema":"memctx-diff/1"}', "not a memctx snapshot"),
                ('{"schema":1}', "not a memctx snapshot"),
                ('{"a":1}', "not a memctx snapshot"),
                ("[1,2]", "not a memctx snapshot"),
                ("hello\n", "not a memctx snapshot"),
                ("", "not a memctx snapshot"),
                ("\x7fELF\x02\x01\x01", "not a memctx snapshot")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            for verb in ("dump", "frag", "doctor", "diff"):
                expect(1, pattern, verb, path)
        expect(1, "is a directory, not a snapshot; name a file in it\n", "dump", where)
        for age, name in enumerate(("older.rec", "newest.rec", "middle.rec", "other")):
            with open(os.path.join(where, name), "w", encoding="ascii"):
                pass
            os.utime(os.path.join(where, name), (0, {"newest.rec": 9, "other": 10}.get(name, age)))
        expect(1, f"is a directory, not a snapshot; its newest recording is {where}/newest.rec\n",
               "postmortem", where)


@test
def snapshot_with_random_damage():
    seed = int(os.environ.get("MEMCTX_SEED", "1"))
    rounds = int(os.environ.get("MEMCTX_ROUNDS", "120"))
    numbers = random.Random(seed)
    with fake("none") as live, scratch() as where:
        path = os.path.join(where, "snapshot")
        succeed("dump", live.pid, "--threads", "--json", "-o", path, env=live.cli_env)
        whole = read(path).encode()
        codes = set()
        for number in range(rounds):
            content = bytearray(whole)
            for _ in range(numbers.randint(1, 4)):
                at = numbers.randrange(len(content))
                kind = numbers.randrange(3)
                if kind == 0:
                    content[at] = numbers.randrange(256)
                elif kind == 1:
                    del content[at:at + numbers.randint(1, 40)]
                else:
                    content[at:at] = whole[at:at + numbers.randint(1, 40)]
            with open(path, "wb") as file:
                file.write(content)
            words = [["dump"], ["dump", "--json", "--threads"], ["frag"], ["diff"]][number % 4]
            done = cli(*words, path)
            codes.add(done.returncode)
            check(done.returncode in (0, 1), f"seed {seed}, round {number}: {words} ended with "
                                             f"{done.returncode}: {done.stderr}")
        check_equal(codes, {0, 1}, "exit codes that came up")


@test
def snapshot_parts_that_contradict():
    with fake("none") as live, scratch() as where:
        path = os.path.join(where, "snapshot")
        succeed("dump", live.pid, "--threads", "--json", "-o", path, env=live.cli_env)
        whole = read(path)

        def spoil(change, pattern):
            dump = json.loads(whole)
            change(dump)
            write_json(path, dump)
            expect(1, pattern, "dump", path)

        spoil(lambda dump: dump["contexts"].clear(), "no contexts")
        spoil(lambda dump: dump["contexts"][3].update(parent=77), "no parent before it")
        spoil(lambda dump: dump["contexts"][2].update(parent=3), "no parent before it")
        spoil(lambda dump: dump["contexts"][3].update(id=2), "occurs twice")
        spoil(lambda dump: dump["contexts"][3].update(id=-1), "no id")
        spoil(lambda dump: dump["contexts"][3].pop("self"), "no figures")
        spoil(lambda dump: dump["contexts"][3].update(frame=3), "no frame")
        spoil(lambda dump: dump["modules"].clear(), "not listed")
        spoil(lambda dump: dump["modules"][0].pop("path"), "no path")
        spoil(lambda dump: dump["threads"].clear(), "not listed")
        spoil(lambda dump: dump.pop("ledger"), "no ledger")
        spoil(lambda dump: dump.pop("exe"), "no pid or no exe")
        spoil(lambda dump: dump.update(filtered=True), "holds only some contexts")

        dump = json.loads(whole)
        dump["mappings"] = {}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dump, file)
        ledger = succeed("frag", path).split("\n\n")[0]
        check("?" not in ledger and "0.0 %  files, stacks" in ledger,
              f"figures that are missing count as 0: {ledger}")


@test
def text_options():
    with allocate() as live:
        env = live.cli_env
        check_equal(live.ask("grow"), "ok", "grow")
        text = succeed("dump", live.pid, "--site", "allocate_first", env=env)
        check("allocate_more" not in text, f"--site shows another: {text}")
        line = [line for line in text.splitlines() if "allocate_first" in line][0]
        check(line.endswith("; 100000 requested"), f"its line: {line}")
        flat = succeed("dump", live.pid, "--flat", "--limit", "1", env=env).splitlines()
        check("allocate_more" in flat[1] and flat[2].startswith("    < main "), f"flat: {flat}")
        check(any(line.startswith("... ") for line in flat), "the rest has a line")
        text = succeed("dump", live.pid, "--min", "400K", env=env)
        check("allocate_more" in text and "allocate_first" not in text, f"--min: {text}")
        check("more contexts, " in text, f"what is hidden has a line: {text}")
        text = succeed("dump", live.pid, "--min", "1M", "--site", "allocate_first", env=env)
        check("\n... 1 more context, 100000 bytes\n" in text, f"--min and --site: {text}")
        text = succeed("dump", live.pid, "--no-symbols", env=env)
        check("allocate_more" not in text and "allocate+0x" in text, f"--no-symbols: {text}")
        check_equal(live.dump("--no-symbols")["contexts"][-1]["frame"]["function"], None, "name")
        check("KiB requested" in succeed("dump", live.pid, "--human", env=env), "--human")
        for key in "requested reserved allocs frees waste pinned peak chunks".split():
            check("Grand total: " in succeed("dump", live.pid, "--sort", key, env=env), key)
        few = dump_json(live.pid, "--site", "allocate_first", env=env)
        check(few["filtered"] and len(few["contexts"]) < len(live.dump()["contexts"]), "filtered")
        check("- thread " in succeed("dump", live.pid, "--threads", env=env), "--threads")


@test
def a_list_by_peak_says_which_peaks_are_not_known():
    """A list by peaks prints the peaks. If several threads used a context, its peak is not known;
    the context stands at the end of the list."""
    with target([build_program("tests/cli/programs/lively.c")]) as live:
        list_by_peak = functools.partial(succeed, "dump", live.pid, "--flat", "--sort", "peak",
                                         "--limit", "0", env=live.cli_env)
        first = [line for line in list_by_peak().splitlines() if line.startswith("load_chunk")]
        check_equal(first[0].split("; ")[-1], "Maximum Storage: 100000", "the peak of main")
        check_equal(live.ask("drop"), "ok", "drop")
        rows = [line for line in list_by_peak().splitlines() if "Maximum Storage: " in line]
        known = [row.split(" (")[0] for row in rows if not row.endswith("not known")]
        unknown = [row.split(" (")[0] for row in rows[len(known):]]
        check("load_chunk" in known and "feed_chunk" in unknown, "\n".join(rows))
