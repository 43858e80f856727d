# SPDX-License-Identifier: MIT
"""Packed snapshot files: they keep all data, take little time and memory, and a damaged one does no
harm."""
import glob
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import time

import packed
from clitest import CLI, HERE, cli, expect, fake, scratch, succeed, target
from harness import BIN, ROOT, build_program, check, check_equal, clean_env, run_program, test

OLD = os.path.join(HERE, "data/snapshot-0.1.json")
# Sources of the command that snapshot_round.c needs.
PARTS = ["snapshot/snapshot", "snapshot/snapshot_read", "snapshot/snapshot_names",
         "snapshot/snapshot_write", "snapshot/snapshot_json", "snapshot/pack", "snapshot/unpack",
         "snapshot/share", "snapshot/zstd_file", "snapshot/recording",
         "snapshot/recording_entries", "snapshot/recording_names", "snapshot/stream_read",
         "model/wire_load", "model/wire_pages", "model/figures",
         "model/model", "model/model_store", "model/folding", "model/tails", "base/cli",
         "base/help", "base/nearest", "base/quantity", "base/progress", "base/terminal",
         "base/json", "base/text_file",
         "model/frames", "model/shorten", "formats/emit"]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def made_up(shape, contexts, path, *words, seed=1):
    """Writes the snapshot of a random model. The program that writes it also reads it back and
    compares."""
    tools = os.path.join(ROOT, "tools/memctx")
    sources = [os.path.join(tools, part + ".c") for part in PARTS]
    program = os.path.join(BIN, "snapshot_round")
    newest = max(map(os.path.getmtime, glob.glob(os.path.join(tools, "*/*.[ch]"))))
    if os.path.exists(program) and os.path.getmtime(program) < newest:
        os.unlink(program)
    program = build_program("tests/cli/programs/snapshot_round.c", flags=[
        "-O2", "-I" + tools, "-DMEMCTX_VERSION=\"test\"", *sources, "-Wl,--no-as-needed",
        "-ljansson", "-lzstd", "-lm"])
    done = run_program([program, shape, str(contexts), str(seed), path, *words], clean_env(), 120)
    check_equal((done.returncode, done.stderr), (0, ""),
                f"{shape}, {contexts} contexts, seed {seed}")
    return json.loads(done.stdout)


def peak_of(*words):
    """Runs the command; returns (seconds, peak of its resident set in KiB)."""
    start = time.monotonic()
    with subprocess.Popen([CLI, *words], stdout=subprocess.DEVNULL, env=clean_env()) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    check_equal(process.returncode, 0, f"memctx {words}")
    return time.monotonic() - start, usage.ru_maxrss


def without(text, *keys):
    dump = json.loads(text)
    for key in keys:
        dump.pop(key, None)
    return dump


@test
def packed_and_json_snapshots_say_the_same():
    with scratch() as where:
        plain, small, back, again = (os.path.join(where, name)
                                     for name in ("plain", "small", "back", "again"))

        def compare(options, env):
            succeed("dump", pid, *options, "--json", "-o", plain, env=env)
            succeed("dump", pid, *options, "-o", small, env=env)
            names = [option for option in options if option == "--no-symbols"]
            succeed("dump", small, *names, "--json", "-o", back)
            moving = ("mappings", "uptime_s", "build_ns", "rss_bytes", "ledger", "totals",
                      "contexts", "pages")
            # the figures of the fake server do not change
            moving = moving if pid == live_pid else ("mappings",)
            check_equal(without(read(back), *moving), without(read(plain), *moving),
                        f"{options}: as taken from the process")
            succeed("dump", plain, *names, "-o", small)
            succeed("dump", small, *names, "--json", "-o", again)
            check_equal(read(again), read(plain), f"{options}: JSON, packed and unpacked")
            succeed("dump", small, *names, "-o", again)
            check_equal(read(again), read(small), f"{options}: a snapshot of a snapshot")
            succeed("dump", plain, *names, "-o", again)
            check_equal(read(again), read(small), f"{options}: of the same model the same file")

        live_pid = None
        for fault in ("none", "extreme"):
            with fake(fault) as process:
                pid = process.pid
                for options in ([], ["--threads"], ["--no-symbols"]):
                    compare(options, process.cli_env)
        with target([build_program("tests/cli/programs/allocate.c")]) as process:
            live_pid = pid = process.pid
            for name in ("one", "two"):
                succeed("mark", pid, name, env=process.cli_env)
                process.ask("grow")
            succeed("isolate", pid, "--site", "allocate_first", env=process.cli_env)
            compare(["--threads"], process.cli_env)
            dump = json.loads(read(plain))
            check_equal([len(dump[key]) for key in ("marks", "notes")], [2, 1],
                        "marks and notes that are there")
            check("contexts" in dump["marks"][0] and len(dump["pages"]) > 2,
                  "entries of marks, and pages")


@test
def second_reader_agrees():
    with scratch() as where:
        small, plain = os.path.join(where, "small"), os.path.join(where, "plain")
        for shape in ("program", "extreme"):
            made_up(shape, 3000, small)
            succeed("dump", small, "--json", "-o", plain)
            want = without(read(plain), "totals", "start_ticks")
            for context in want["contexts"]:
                context.pop("total")
            got = packed.read(read(small))
            check_equal(got.pop("start_ticks") & packed.WORD,
                        4242 if shape == "program" else packed.WORD, "start")
            for key in sorted(want | got):
                check(got.get(key) == want.get(key), f"{shape}: {key} is read otherwise")


@test
def made_up_models_come_back():
    with scratch() as where:
        path = os.path.join(where, "snapshot")
        for seed in range(1, 13):
            made_up("extreme", (1, 2, 40, 3000)[seed % 4], path, seed=seed)
        made_up("extreme", 70000, path)  # too many for one block of the format
        succeed("dump", path, "--flat", "--limit", "1")


@test
def million_contexts():
    with scratch() as where:
        path, again = os.path.join(where, "snapshot"), os.path.join(where, "again")
        for _ in range(3):  # other programs may slow one try down
            made = made_up("program", 1000000, path)
            if max(made["write_s"], made["read_s"]) <= 2:
                break
        check(made["bytes"] <= 30 * made["contexts"], f"bytes: {made}")
        check(made["write_s"] <= 2 and made["read_s"] <= 2, f"seconds: {made}")
        check(made["write_kib"] * 5 < made["model_kib"], f"memory to write it: {made}")
        seconds, peak_kib = peak_of("dump", path, "-o", again)
        check(peak_kib < made["model_kib"] * 1.3,
              f"{peak_kib} KiB to read and write a model of {made['model_kib']}")
        check(read(again) == read(path), "a snapshot of it is another one")
        diff_kib = peak_of("diff", path, path)[1]
        check(diff_kib < made["model_kib"] * 2.75,
              f"{diff_kib} KiB to compare two models of {made['model_kib']}")
        return (f"{made['bytes'] / made['contexts']:.1f} B a context; written in {made['write_s']} "
                "s, read in "
                f"{made['read_s']} s; the command reads and writes it in {seconds:.2f} s and "
                f"{peak_kib} KiB")


@test
def packs_too_well_and_is_read():
    """Equal contexts pack so well that a reader would reject the file as a trap; the writer makes
    it longer."""
    with scratch() as where:
        path = os.path.join(where, "snapshot")
        made_up("uniform", 3000000, path)
        data = read(path)
        at = data.rindex(b"\x50\x2a\x4d\x18")
        padding, = struct.unpack("<I", data[at + 4:at + 8])
        check_equal((at + 8 + padding, data[at + 8:].strip(b"\0")), (len(data), b""),
                    "what it ends in")
        write(path, data[:-1])
        expect(1, "truncated snapshot", "dump", path)
        write(path, data[:at])
        expect(1, "more rows than a snapshot of its length", "dump", path)


@test
def old_snapshot_is_read():
    with scratch() as where:
        small = os.path.join(where, "small")
        succeed("dump", OLD, "-o", small)
        check(len(read(small)) * 5 < os.path.getsize(OLD), f"{len(read(small))} bytes")
        for words in (["dump"], ["dump", "--json", "--threads"], ["dump", "--flat"], ["frag"],
                      ["frag", "--json"],
                      ["doctor", "--json"], ["diff", "--json"], ["verify", "--json"],
                      ["export", "--folded", "-"],
                      ["export", "--csv", "-"]):
            of_old, of_new = cli(words[0], OLD, *words[1:]), cli(words[0], small, *words[1:])
            check_equal(of_old.returncode, 0, f"{words}: {of_old.stderr}")
            check_equal(of_new.stdout.replace(small, OLD), of_old.stdout, f"{words}")
        check("allocate_first" in succeed("dump", OLD), "a name in it")
        check_equal(json.loads(succeed("diff", OLD, small, "--json"))["contexts"], [], "difference")
        for name in (OLD, small):
            succeed("report", name, "-o", os.path.join(where, "report"))


@test
def packed_is_truncated():
    with fake("none") as live, scratch() as where:
        whole, cut = os.path.join(where, "whole"), os.path.join(where, "cut")
        succeed("dump", live.pid, "--threads", "-o", whole, env=live.cli_env)
        data = read(whole)
        for length in [*range(1, 40), *range(40, len(data), max(1, len(data) // 100)),
                       len(data) - 1]:
            write(cut, data[:length])
            expect(1, "truncated snapshot; it ends too early, after .* take it again", "dump", cut)
        for words in (["frag"], ["doctor"], ["diff"], ["export", "--csv", "-"], ["verify"]):
            expect(1, "truncated snapshot", words[0], cut, *words[1:])
        for extra in (b"\0", b"\x50\x2a\x4d\x18", b"\x50\x2a\x4d\x18\x05\0\0\0abcd"):
            write(cut, data + extra)
            expect(1, "truncated snapshot", "dump", cut)
        for extra in (b"\0" * 8, data, packed.zstd(b"")):
            write(cut, data + extra)
            expect(1, "damaged snapshot; something follows its end", "dump", cut)
        write(cut, data + b"\x5f\x2a\x4d\x18\x04\0\0\0abcd")
        check_equal(succeed("dump", cut, "--json"), succeed("dump", whole, "--json"),
                    "with a skippable frame")


@test
def packed_with_flipped_bits():
    seed = int(os.environ.get("MEMCTX_SEED", "1"))
    numbers = random.Random(seed)
    with fake("none") as live, scratch() as where:
        path = os.path.join(where, "snapshot")
        succeed("dump", live.pid, "--threads", "-o", path, env=live.cli_env)
        data, want = read(path), succeed("dump", path, "--json", "--threads")
        places = [*range(24 * 8), *numbers.sample(range(24 * 8, len(data) * 8), 250)]
        refused = 0
        for place in places:
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            write(path, flipped)
            done = cli("dump", path, "--json", "--threads")
            if done.returncode == 0:  # the changed bit has no meaning
                check_equal(done.stdout, want, f"seed {seed}, bit {place}")
            else:
                refused += 1
                check_equal(done.returncode, 1, f"seed {seed}, bit {place}: {done.stderr}")
                check("; " in done.stderr and done.stderr.count("\n") == 1,
                      f"bit {place}: {done.stderr}")
        check(refused > len(places) * 0.97, f"only {refused} of {len(places)} were seen")


@test
def packed_of_another_version():
    with scratch() as where:
        path = os.path.join(where, "snapshot")
        made_up("program", 10, path)
        data = read(path)
        for content, pattern in (
                (data[:8] + struct.pack("<I", 2) + data[12:],
                 "snapshot of version 2; this memctx .* use the memctx that"),
                (data[:8] + struct.pack("<I", 1 << 31) + b"anything",
                 "snapshot of version 2147483648"),
                (data[:7] + b"\r" + data[8:], "not a memctx snapshot"),
                (data[12:], "not a memctx snapshot; it is compressed; unpack it first: zstd -d "),
                (b"\x1f\x8b\x08\0",
                 "not a memctx snapshot; it is compressed; unpack it first: gzip -d "),
                (packed.MAGIC + struct.pack("<I", 1) +
                 packed.zstd(packed.body_of(data), "--no-check"), "no checksum"),
                (packed.file_of(packed.body_of(data), "--long=27"), "damaged snapshot; .*memory")):
            write(path, content)
            for verb in ("dump", "frag", "diff"):
                expect(1, pattern, verb, path)
        with open(path, "wb") as file:
            os.ftruncate(file.fileno(), 1 << 40)
        expect(1, "not a memctx snapshot", "dump", path)
        with open(path, "r+b") as file:
            file.write(data)
        expect(1, "damaged snapshot; a snapshot has at most", "dump", path)


@test
def what_is_too_long_is_not_read():
    """The command does not read a GiB before it refuses a packed snapshot that is too long, or JSON
    with zeros behind it."""
    with scratch() as where:
        path = os.path.join(where, "snapshot")
        made_up("program", 10, path)
        for start in (read(path), b'{"schema": "memctx/1"'):
            with open(path, "wb") as file:
                file.write(start)
                os.ftruncate(file.fileno(), 2 << 30)
            with subprocess.Popen([CLI, "dump", path], env=clean_env(), text=True,
                                  stderr=subprocess.PIPE) as command:
                message = command.stderr.read()
                _, status, usage = os.wait4(command.pid, 0)
                command.returncode = os.waitstatus_to_exitcode(status)
            check_equal(command.returncode, 1, f"exit status: {message}")
            check(re.search("damaged snapshot|not a memctx snapshot", message), message)
            check(usage.ru_maxrss < 200 << 10, f"took {usage.ru_maxrss} KiB")


def each(values):
    return b"".join(map(packed.put_varint, values))


@test
def packed_parts_that_contradict():
    """A file with a right checksum and contradicting content gives a message."""
    with scratch() as where:
        path = os.path.join(where, "snapshot")
        made_up("extreme", 40, path)
        blocks = packed.blocks_of(packed.body_of(read(path)))
        check_equal([block[0] for block in blocks], [*range(1, 16), packed.RESIZES],
                    "a block of each table but that of tail calls")

        def spoil(pattern, change, options=()):
            copy = [[table, rows, dict(columns)] for table, rows, columns in blocks]
            body = change(copy)
            write(path, packed.file_of(packed.body_from(copy) if body is None else body, *options))
            expect(1, pattern, "dump", path)

        def column(table, number, value, row=None):
            def change(copy):
                _, rows, columns = next(block for block in copy if block[0] == table)
                codes = list(packed.Table(blocks, table).numbers(number))
                codes[rows - 1 if row is None else row] = value
                columns[number] = each(codes)
            return change

        def whole_column(table, number, data):
            return lambda copy: copy[table - 1][2].update({number: data})

        huge = 1 << 63
        spoil("text has a 0 byte", whole_column(packed.TEXTS, 2, b"\0" * len(blocks[0][2][2])))
        spoil("cannot be read", column(packed.TEXTS, 1, 5000))
        spoil("cannot be read", column(packed.TEXTS, 1, huge))
        spoil("no pid or no exe", column(packed.PROCESS, 1, 0))
        spoil("no pid or no exe", column(packed.PROCESS, 2, 0))
        spoil("cannot be read or does not exist", column(packed.PROCESS, 7, 1 << 40))
        spoil("figure has no name", column(packed.FIGURES, 2, 0))
        spoil("module has no path", column(packed.MODULES, 1, 0))
        spoil("cannot be read", column(packed.MODULES, 5, 25))
        spoil("cannot be read", column(packed.FUNCTIONS, 1, 100000))
        spoil("cannot be read", column(packed.FUNCTIONS, 4, 2))
        spoil("inlined into nothing", column(packed.FUNCTIONS, 4, 1, 0))
        spoil("module that is not listed", column(packed.FRAMES, 2, 13))
        spoil("names that are not listed", column(packed.FRAMES, 3, 1 << 33))
        spoil("has an id that does not exist", column(packed.CONTEXTS, 1, 1 << 40))
        spoil("loop ends in a context that does not exist", column(packed.CONTEXTS, 10, 41))
        spoil("loop ends in a context that does not exist", column(packed.CONTEXTS, 10, 1 << 40))
        spoil("occurs twice", column(packed.CONTEXTS, 1, 1))
        spoil("no parent before it", column(packed.CONTEXTS, 2, 0))
        spoil("no parent before it", column(packed.CONTEXTS, 2, 40))
        spoil("no parent before it", column(packed.CONTEXTS, 2, 1 << 40))
        spoil("is not the root", column(packed.CONTEXTS, 3, 0))
        spoil("is not the root", column(packed.CONTEXTS, 3, 1, 0))
        spoil("cannot be read", column(packed.CONTEXTS, 4, 256))
        spoil("frame that is not listed", column(packed.CONTEXTS, 7, 1 << 20))
        spoil("cannot be read", column(packed.CONTEXTS, 8, 1 << 20))
        spoil("cannot be read", column(packed.CONTEXTS, 16, 1 << 32))
        spoil("thread that is not listed", column(packed.VIEWS, 2, 6))
        spoil("thread view belongs to a context", column(packed.VIEWS, 1, 40))
        spoil("thread view belongs to a context", column(packed.VIEWS, 1, huge))
        spoil("remote frees belong to a thread", column(packed.REMOTES, 1, 6))
        spoil("are missing", column(packed.MARKS, 4, 14))
        spoil("cannot be read", column(packed.MARKS, 4, huge))
        spoil("mark has a context", column(packed.ENTRIES, 1, 81))
        spoil("page belongs to a context", column(packed.PAGES, 6, 41))
        spoil("are missing", column(packed.PAGES, 18, (1 << 32) - 1))
        spoil("page belongs to a context", column(packed.SHARES, 1, 40))
        spoil("reallocs belong to a context", column(packed.RESIZES, 1, 1 << 40))
        spoil("note has no text", column(packed.NOTES, 1, 0))
        # Faults in the rows of tables
        spoil("no process, or several", lambda copy: copy.pop(packed.PROCESS - 1) and None)
        spoil("no process, or several", lambda copy: copy.insert(2, copy[packed.PROCESS - 1]))
        spoil("no contexts", lambda copy: packed.body_from(copy[:packed.FRAMES]))
        spoil("out of order", lambda copy: copy.insert(2, copy.pop(3)))
        spoil("cannot be read", whole_column(packed.CONTEXTS, 3, each([0] + [1] * 38)))
        spoil("cannot be read", whole_column(packed.CONTEXTS, 4, each([1] * 41)))
        spoil("cannot be read", whole_column(packed.CONTEXTS, 4, b"\x80" * 40))
        spoil("cannot be read", whole_column(packed.PROCESS, 6, b"\xff" * 9 + b"\x02"))
        spoil("cannot be read", whole_column(packed.PROCESS, 6, b"\xff" * 10 + b"\x01"))
        # Faults in the blocks
        raw = packed.body_from(blocks)
        spoil("last block is missing", lambda copy: raw[:-4])
        spoil("a block is cut off", lambda copy: raw[:-30])
        spoil("something follows its last block", lambda copy: raw + b"\0")
        spoil("last block is missing", lambda copy: b"")
        spoil("too long", lambda copy: b"\x01" + packed.put_varint(1 << 26) + raw)
        spoil("too long", lambda copy: b"\xff" * 20)
        for content in (b"", b"\x01", each([65537, 0]), each([1, 65, 1]), each([1, 1, 64, 0]),
                        each([1, 1, 1, 9]) + b"abc",
                        each([1, 2, 1, 1, 1, 1]) + b"aa", each([1, 1, 1, 1]) + b"aa",
                        each([1, 1, 1, huge]) + b"aa"):
            spoil("columns do not fit", lambda copy,
                  content=content: b"\x01" + each([len(content)]) + content + raw)


def little_memory_and_time():
    """Limits a command to 512 MiB of address space and five seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (5, 6))


@test
def packed_traps():
    """Small files that would unpack to gigabytes are rejected with little memory and time."""
    with scratch() as where:
        path = os.path.join(where, "snapshot")
        zeros = packed.put_block(99, 0, {1: b"\0" * (16 << 20)})
        many = packed.put_block(packed.TEXTS, 65536, {})
        for body, pattern in ((zeros * 40, "more bytes than a snapshot of its length"),
                              (many * 2000, "more rows than a snapshot of its length"),
                              (b"\x63\x02\0\0" * (6 << 20),
                               "more bytes than a snapshot of its length")):
            write(path, packed.file_of(body, "-9"))
            check(os.path.getsize(path) < 200000, "it is little")
            done = subprocess.run([CLI, "dump", path], capture_output=True, text=True, timeout=120,
                                  check=False,
                                  env=clean_env(), preexec_fn=little_memory_and_time)
            check_equal(done.returncode, 1, done.stderr)
            check(pattern in done.stderr, f"{pattern}: {done.stderr}")


@test
def later_versions_fields_are_skipped():
    with scratch() as where:
        path, later = os.path.join(where, "snapshot"), os.path.join(where, "later")
        made_up("extreme", 40, path)
        blocks = packed.blocks_of(packed.body_of(read(path)))
        for block in blocks:
            block[2][50] = b"\xff\xff\xff any bytes"
        for at, number in ((15, 77), (6, 27), (0, 1 << 40)):
            blocks.insert(at, [number, 3, {1: b"abc", 2: b""}])
        blocks[-1][2][63] = each(range(2))
        kinds = next(block[2] for block in blocks if block[0] == packed.CONTEXTS)
        check(b"\x03" in kinds[3], "a context that is labelled")
        kinds[3] = kinds[3].replace(b"\x03", b"\x70")  # a context kind of a later version
        write(later, packed.file_of(packed.body_from(blocks)))
        for words in (["--json", "--threads"], ["--flat"]):
            check_equal(succeed("dump", later, *words), succeed("dump", path, *words),
                        "what is known")
        # A missing column of figures reads as unknown (null).
        for block in blocks:
            if block[0] == packed.CONTEXTS:
                del block[2][32 + packed.TOTALS.index("pages")]
        write(later, packed.file_of(packed.body_from(blocks)))
        dump = json.loads(succeed("dump", later, "--json"))
        check_equal({context["self"]["pages"] for context in dump["contexts"]}, {None},
                    "a figure that is not there")


@test
def snapshot_that_cannot_be_written():
    with scratch() as where:
        whole, path = os.path.join(where, "whole"), os.path.join(where, "snapshot")
        made_up("extreme", 5000, whole)
        write(path, b"what was there")

        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

        for options in ([], ["--json"]):
            done = subprocess.run([CLI, "dump", whole, *options, "-o", path], capture_output=True,
                                  text=True, timeout=60,
                                  check=False, env=clean_env(), preexec_fn=limited)
            check_equal(done.returncode, 1, f"a disk that is full: {done.stderr}")
            check("could not be written; File too large; " in done.stderr,
                  f"message: {done.stderr}")
            check_equal((sorted(os.listdir(where)), read(path)),
                        (["snapshot", "whole"], b"what was there"), "what is left")
        expect(1, "could not be written; No space left on device; ", "dump", whole, "-o",
               "/dev/full")
        expect(1, "cannot be written; No such file or directory; ", "dump", whole, "-o",
               where + "/no/snapshot")
        expect(1, "cannot be written; Not a directory; ", "dump", whole, "-o", path + "/snapshot")
        os.mkdir(where + "/directory")
        expect(1, "directory: (cannot|could not) be written; Is a directory; ", "dump", whole, "-o",
               where + "/directory")
        expect(2, "when you read it", "dump", whole, "-o", path, "--min", "1")
        check_equal(sorted(os.listdir(where)), ["directory", "snapshot", "whole"], "what is left")
