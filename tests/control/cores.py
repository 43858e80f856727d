# SPDX-License-Identifier: MIT
"""Core files, also damaged ones (MEMCTX_TEST_CORES: how many), as TARGET of the verbs that read."""
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import tempfile
import time

import harness
from harness import Failure, Skip, check, check_equal, runtime_dir, test, wait_until
from hostile import ask
from outside_reading import (ADDRESSES_AT, MAGIC, address_number, compare, read, root_lists,
                             sleeps, start_python)
from wire import Wire


def core_of(target, directory, by=signal.SIGSEGV):
    """Ends the target by the signal `by`, so that the kernel writes its core file; returns the
    file's path."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if "/" in pattern or pattern.startswith("|") or "%" in pattern:
        return gcore_of(target, directory)
    where = os.readlink(f"/proc/{target.pid}/cwd")
    resource.prlimit(target.pid, resource.RLIMIT_CORE,
                     (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    target.process.send_signal(by)
    target.process.wait(60)
    for name in ("core", f"core.{target.pid}"):
        if os.path.exists(os.path.join(where, name)):
            path = os.path.join(directory, f"core.{target.pid}")
            shutil.move(os.path.join(where, name), path)
            return path
    raise Skip("the kernel wrote no core file here")


def gcore_of(target, directory):
    if not shutil.which("gcore"):
        raise Skip("core files go elsewhere here, and there is no gcore")
    done = harness.run_program(["gcore", "-o", os.path.join(directory, "core"), str(target.pid)],
                               harness.clean_env())
    path = os.path.join(directory, f"core.{target.pid}")
    if not os.path.exists(path):
        raise Skip(f"gcore may not trace here: {done.stderr[-200:]}")
    return path


def grown_since(target, mark, **options):
    done = harness.run_cli("diff", "--json", "--limit", "0", "--no-symbols", str(target), mark,
                           **options)
    check_equal(done.returncode, 0, f"diff; {done.stderr}")
    return {key: value for key, value in json.loads(done.stdout).items()
            if key in ("totals", "contexts")}


def records_of(target, place, **options):
    """The marks and notes of a process or a core file, from `memctx dump -o`."""
    saved = os.path.join(place, "records.json")
    done = harness.run_cli("dump", "--json", "--no-symbols", "-o", saved, str(target), **options)
    check_equal(done.returncode, 0, f"dump -o; {done.stderr}")
    with open(saved, encoding="utf-8") as file:
        return {key: value for key, value in json.load(file).items() if key in ("marks", "notes")}


@test
def memory_that_gcore_adds_is_not_resident():
    """gcore writes zeros for memory that was never touched, which is neither resident nor in huge
    pages."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with start_python(directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            with open(f"/proc/{target.pid}/status", encoding="ascii") as file:
                anonymous = next(int(line.split()[1]) << 10
                                 for line in file if line.startswith("RssAnon"))
            core = gcore_of(target, place)
        dump = json.loads(harness.run_cli("dump", "--json", "--no-symbols", core).stdout)
        # the file also has parts of mapped files, and what the process wrote as zeros counts as a
        # hole
        check(anonymous * 3 // 4 < dump["rss_bytes"] < anonymous * 5 // 4,
              f"{dump['rss_bytes']} of {anonymous} bytes")
        check("has no holes" in dump["how"], dump["how"])
        text = " ".join(harness.run_cli("frag", core).stdout.split())
        with open(core, "r+b") as file:
            file.truncate(os.path.getsize(core) - 8192)
        cut = read(core)
        check_equal((cut["program"], cut["totals"]["requested_bytes"]),
                    ("unknown program", dump["totals"]["requested_bytes"]),
                    "a file without its end, where gcore writes the list of mapped files")
        check("the file is cut off" in cut["how"], cut["how"])
        check("huge pages" not in text, f"the ledger: {text[:800]}")


@test
def the_title_in_a_core_of_gcore_is_cut():
    """gcore writes argument 0 in the place of the program's name, and a program may have made a
    title of it, as redis-server does."""
    shell = f"exec -a 'mctx: pool www' {harness.build_program('tests/cli/programs/allocate.c')}"
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with harness.Target(["/bin/bash", "-c", shell], directory,
                            MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "the target's line")
            target.wait_socket()
            core = gcore_of(target, place)
        check_equal(read(core)["program"], "mctx", "the program in the core file")
        shown = harness.run_cli("doctor", core).stdout
        check(f"\nmctx (pid {target.pid})" in shown, shown)


@test
def core_equals_socket():
    """The core file of a crashed python3 has the figures that its socket gave before."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with start_python(directory, MEMCTX_CONTROL="eager", MEMCTX_HOLES="0") as target:
            target.wait_socket()
            for verb in (["mark", "planted"], ["reset"], ["mark", "second"]):
                done = harness.run_cli(verb[0], str(target.pid), *verb[1:], env=target.cli_env)
                check_equal(done.returncode, 0, f"{verb}; {done.stderr}")
                check_equal(target.ask("more"), "more", "its answer")
            with Wire(target.socket_path()) as client:
                for number in range(20):  # more notes than the library keeps
                    ask(client, "WIRE_NOTE", b"note %d" % number)
            inside = target.dump("--threads", "--no-symbols")
            check(inside["reallocs"], "counts of realloc are missing inside")
            kept = records_of(target.pid, place, env=target.cli_env)
            check_equal((len(kept["marks"]), len(kept["notes"])), (2, 16), "marks and notes inside")
            grown = grown_since(target.pid, "planted", env=target.cli_env)
            check(grown["contexts"], "nothing has grown since the mark")
            began = time.monotonic()
            uptime = target.dump("--no-symbols")["uptime_s"]
            core = core_of(target, place)
            latest = uptime + time.monotonic() - began
        outside = read(core)
        check(max(mark["uptime_s"] for mark in kept["marks"]) <= outside["uptime_s"] <= latest,
              f"uptime of the core: {outside['uptime_s']}; {latest}; marks: {kept['marks']}")
        check(records_of(core, place) == kept, "marks with their entries, or notes, differ")
        check(grown_since(core, "planted") == grown,
              "diff since a mark that a reset followed differs")
        check_equal(outside["how"], f"read from the core file {core}", "how")
        done = harness.run_cli("dump", f"{core}@-1m")
        check(done.returncode == 1 and "core file of one moment; @-1m needs" in done.stderr,
              done.stderr)
        check_equal((outside["exact"], outside["pid"]), (True, target.pid), "exact, pid")
        compare(inside, outside, core=True)
        saved = os.path.join(place, "saved.memctx")
        for verb in (["doctor", core], ["frag", core], ["dump", core, "-o", saved],
                     ["diff", core, saved],
                     ["dump", saved], ["dump", "--flat", core], ["export", core, "--folded", "-"]):
            done = harness.run_cli(*verb)
            check_equal(done.returncode, 0, f"{verb}; {done.stderr}")
        advice = harness.run_cli("doctor", core, "--all").stdout
        check("marks: too few" in advice and
              not re.search(r"memctx (mark|set|trim|isolate)", advice),
              f"doctor suggests what a core file cannot do: {advice}")
        page = os.path.join(place, "report.html")
        check_equal(harness.run_cli("report", core, "-o", page).returncode, 0, "report")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        check(f'"how":"read from the core file {core}"' in text, "the report does not say so")
        check('"threads":{"list":[[' in text, "the report of a core has no threads")
        long = f"{core}.{'x' * 120}"
        os.link(core, long)
        grown = json.loads(harness.run_cli("diff", "--json", long, core).stdout)
        check_equal([grown[key]["name"] for key in ("from", "to")], [long, core],
                    "names of the core files")
        check("exact" not in harness.run_cli("export", core, "--folded", "/dev/null").stderr,
              "a core's figures are exact")
        for target in (core, saved):
            text = harness.run_cli("frag", "--pages", target).stdout
            check(f"read from the core file {core}" in " ".join(text.split()),
                  f"frag does not say so: {text[:300]}")
            check("would save" in text and not re.search(r"memctx (set|trim|isolate)", text),
                  f"frag suggests what a core file cannot do: {text}")
        text = harness.run_cli("dump", saved).stdout
        check(f"read from the core file {core}" in text, "a snapshot of a core does not say so")
        for verb in (["mark", core, "x"], ["top", core], ["postmortem", core]):
            done = harness.run_cli(*verb)
            check_equal((done.returncode, " is a core file" in done.stderr), (1, verb[0] != "mark"),
                        f"{verb}: {done.stderr}")


@test
def core_tells_remote_frees():
    """doctor finds in a core file the frees of one thread for another."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with harness.Target([harness.build_program("tests/control/remote.c")], directory) as target:
            check_equal(target.hear(60), "ready", "what the program said")
            core = core_of(target, place)
        found = json.loads(harness.run_cli("doctor", "--json", core).stdout)["findings"]
        check("remote-frees" in [finding["id"] for finding in found], f"findings: {found}")


@test
def core_of_redis():
    """The figures in the core file of a redis-server are exact and add up."""
    server = shutil.which("redis-server")
    if not server:
        raise Skip("no redis-server")
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        argv = [server, "--port", "0", "--save", "", "--dir", place, "--unixsocket",
                os.path.join(place, "redis.sock")]
        with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            wait_until(lambda: "Server initialized" in target.hear(60), "redis")
            # On SIGSEGV, redis tests its memory: it writes patterns over all of it, 1 MiB at a
            # time. The control thread runs meanwhile; it may crash by what it reads there.
            core = core_of(target, place, by=signal.SIGQUIT)
            outside = read(core)
        check(outside["totals"]["requested_bytes"] > 500000, f"totals: {outside['totals']}")
        check_equal(outside["exact"], True, "exact")
        harness.check_sums(outside)


def small_core(directory, place):
    with harness.Target(["sleep", "60"], directory) as target:
        target.wait_socket()
        wait_until(lambda: sleeps(target.pid), "sleep")
        with Wire(target.socket_path()) as client:
            ask(client, "WIRE_NOTE", b"a note")
        check_equal(harness.run_cli("mark", str(target.pid), "planted",
                                    env=target.cli_env).returncode, 0, "mark")
        path = core_of(target, place)
    with open(path, "rb") as file:
        return bytearray(file.read())


class Tables:
    """Finds the library's tables in a core file, by the lists of include/memctx/outside.h."""

    def __init__(self, core):
        self.core = core
        names = root_lists()
        self.root = core.find(MAGIC)
        check(self.root > 0, "the core has no root")
        self.addresses_at = self.root + ADDRESSES_AT
        self.constants_at = self.addresses_at + 8 * len(names["ADDRESSES"])
        self.fields_at = self.constants_at + 4 * len(names["CONSTANTS"])
        self.structs_at = self.fields_at + 8 * len(names["FIELDS"])
        self.end = self.structs_at + 4 * len(names["STRUCTS"])
        check_equal(self.number(self.root + 36, 4), (self.end - self.root + 7) & ~7,
                    "bytes of the root")
        self.addresses = {name: self.number(self.addresses_at + 8 * i)
                          for i, name in enumerate(names["ADDRESSES"])}
        self.fields = {name.replace(", ", "."): self.number(self.fields_at + 8 * i, 4)
                       for i, name in enumerate(names["FIELDS"])}
        self.sizes = {name: self.number(self.structs_at + 4 * i, 4)
                      for i, name in enumerate(names["STRUCTS"])}
        count, at = self.number(56, 2), self.number(32)
        self.loads = [struct.unpack_from("<IIQQQQQQ", core, at + 56 * i) for i in range(count)]

    def number(self, at, size=8):
        return int.from_bytes(self.core[at:at + size], "little")

    def place(self, address):
        """The offset of an address in the file."""
        for kind, _, offset, start, _, held, _, _ in self.loads:
            if kind == 1 and start <= address < start + held:
                return offset + address - start
        raise Failure(f"0x{address:x} is not in the core")

    def word(self, address, size=8):
        return self.number(self.place(address), size)

    def targets(self):
        """Tables that memctx reads: name -> (offset in the file, bytes)."""
        heap = self.word(self.addresses["heap_global"] + self.fields["heap_global.first"])
        views = self.word(heap + self.fields["heap.views"])
        nodes = self.word(self.addresses["tree_blocks"])
        count = self.word(self.word(self.addresses["tree_count_shown"]), 4)
        modules = self.word(self.addresses["unwind_rules_shown"])
        near = self.addresses["segment_near"]
        flags = self.core[self.place(near):self.place(near) + 32768]
        number = next(i for i, flag in enumerate(flags) if flag == 1)
        segment = (self.word(self.addresses["segment_near_first"]) + number) << 22
        pages = segment + 2 * self.sizes["page"]
        marks = self.word(self.word(self.addresses["marks_shown"]))
        entries = self.word(marks + self.fields["mark.first"])
        return {"marks": (self.place(marks), self.sizes["mark"]),
                "entries of a mark": (self.place(entries), 400),
                "notes": (self.place(self.word(self.addresses["notes_shown"])), 16),
                "number of notes": (self.place(self.word(self.addresses["notes_made_shown"])), 4),
                "addresses": (self.addresses_at, self.constants_at - self.addresses_at),
                "constants": (self.constants_at, self.fields_at - self.constants_at),
                "fields": (self.fields_at, self.structs_at - self.fields_at),
                "structs": (self.structs_at, self.end - self.structs_at),
                "heaps": (self.place(self.addresses["heap_global"]), self.sizes["heap_global"]),
                "heap": (self.place(heap), 256),
                "views of the heap": (self.place(heap + self.fields["heap.views"]), 16),
                "views": (self.place(views), count * self.sizes["view"]),
                "nodes": (self.place(nodes) + 8 * self.sizes["tree_node"],
                          (count - 8) * self.sizes["tree_node"]),
                "fixed nodes":
                (self.place(self.addresses["tree_fixed_nodes"]), 8 * self.sizes["tree_node"]),
                "count of nodes": (self.place(self.word(self.addresses["tree_count_shown"])), 4),
                "modules": (self.place(modules), 3 * self.sizes["module"]),
                "count of modules":
                (self.place(self.word(self.addresses["unwind_rules_count_shown"])), 4),
                "mappings of tables":
                (self.place(self.word(self.addresses["meta_mappings_shown"])), 32),
                "count of mappings":
                (self.place(self.word(self.addresses["meta_mapping_count_shown"])), 8),
                "sums of tables": (self.place(self.word(self.addresses["meta_usage_shown"])), 16),
                "control thread's mappings":
                (self.place(self.word(self.addresses["buffers_shown"])), 96),
                "control thread's stack": (self.place(self.addresses["buffers_stack_top"]), 8),
                "segments": (self.place(near) + number - 8, 16),
                "page headers": (self.place(pages), 24 * self.sizes["page"])}


WILD = [0, 1, 7, 8, 127, 255, 4096, 2**31, 2**32 - 1, 2**63, 2**64 - 1]


def spoil(core, targets, kind, rng):
    """Returns a damaged copy of the core file: cut, or with overwritten headers or tables."""
    if kind == "cut":
        return core[:rng.randrange(len(core))]
    core = bytearray(core)
    first, length = {"head": (0, 4096), "notes": (4096, 12288), **targets}[kind]
    for _ in range(rng.choice([1, 2, 8, 40])):
        size = rng.choice([1, 2, 4, 4, 8, 8])
        at = first + rng.randrange(max(1, length - size)) // size * size
        value = int.from_bytes(core[at:at + size], "little")
        wild = rng.choice([*WILD, value + 1, value + 8, value ^ 4096, rng.getrandbits(64)])
        core[at:at + size] = (wild % 2**(8 * size)).to_bytes(size, "little")
    return core


@test
def core_damaged():
    """Damaged core files give figures or a message within a bounded time, never a crash."""
    rounds = int(os.environ.get("MEMCTX_TEST_CORES", "120"))
    rng = random.Random(int(os.environ.get("MEMCTX_TEST_SEED", "1")))
    seen = set()
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        core = small_core(directory, place)
        targets = Tables(core).targets()
        kinds = ["cut", "head", "notes", *targets]
        path = os.path.join(place, "core.spoilt")
        for number in range(rounds):
            kind = kinds[number % len(kinds)]
            with open(path, "wb") as file:
                file.write(spoil(core, targets, kind, rng))
            done = harness.run_cli("dump", "--json", "--threads", "--no-symbols", path,
                                   timeout_s=60)
            what = f"round {number}, {kind}: exit status {done.returncode} {done.stderr[-1500:]}"
            check(done.returncode in (0, 1, 3), what)
            check("damaged answer" not in done.stderr and "damaged dump" not in done.stderr, what)
            check((done.returncode == 0) == (done.stdout != ""), f"half an answer: {what}")
            seen.add(done.returncode)
        check({0, 1} <= seen, f"all cores ended alike: {seen}")


def with_headers(core, kind, headers, tail=b""):
    """Returns a copy of the core file without program headers of a kind, but with some more."""
    at, count = int.from_bytes(core[32:40], "little"), int.from_bytes(core[56:58], "little")
    old = [bytes(core[at + 56 * i:at + 56 * (i + 1)]) for i in range(count)]
    kept = [header for header in old if int.from_bytes(header[:4], "little") != kind]
    core = core + tail
    core[32:40] = len(core).to_bytes(8, "little")
    core[56:58] = (len(kept) + len(headers)).to_bytes(2, "little")
    return core + b"".join(kept + headers)


@test
def core_that_lists_its_bytes_again_and_again():
    """A small core file that claims much memory, or many notes, is read or refused within a bounded
    time: segments that overlap, notes that are listed 60 000 times, a large file of holes."""
    load, note, none = 1, 4, 0

    def header(kind, offset, address, size):
        return struct.pack("<IIQQQQQQ", kind, 6, offset, address, 0, size, size, 4096)

    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        core = small_core(directory, place)
        size, notes = len(core), 5 << 20
        pieces = [(1 << 40) + (i << 30) for i in range(60000)]
        nothing = core.replace(MAGIC, bytes(len(MAGIC)))
        cases = [(with_headers(core, none, [header(load, 0, at, size) for at in pieces]), 1,
                  "gives bytes of the file to a second part of the memory"),
                 (with_headers(core, none, [header(note, size, 0, notes)] * 60000, bytes(notes)), 0,
                  f'"pid":{read(self_of(core, place))["pid"]},'),
                 (with_headers(nothing, note, [header(load, (1 << 34) + (i << 26), at, 1 << 26)
                                               for i, at in enumerate(pieces[:6000])]), 3,
                  "the core file has no list of mapped files")]
        path = os.path.join(place, "core.forged")
        for number, (content, code, words) in enumerate(cases):
            with open(path, "wb") as file:
                file.write(content)
                if code == 3:
                    file.truncate((1 << 34) + (6000 << 26))
            done = harness.run_cli("dump", "--json", "--no-symbols", path)
            check(done.returncode == code and words in done.stdout + done.stderr,
                  f"core {number}: {done.returncode} {done.stderr[-500:]}")


def self_of(core, place):
    """Writes the core file as it is, and returns its path."""
    path = os.path.join(place, "core.whole")
    with open(path, "wb") as file:
        file.write(core)
    return path


@test
def core_without_tables():
    """A core file of another layout, or without anonymous memory, gives a message with the
    reason."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        core = small_core(directory, place)
        path = os.path.join(place, f"core.{'x' * 120}")
        tables = Tables(core)
        for end, code, words in ((tables.root, 1, "the data of libmemctx.so among them"),
                                 (len(core) - 4096, 0, "")):
            with open(path, "wb") as file:
                file.write(core[:end])
            said = read(path, code=code)
            check(code or not said["exact"], "a cut core is exact")
            said = said if code else said["how"]
            check(path in said, f"the name of the core file: {said}")
            check(re.search("the file is cut off|the core file is cut off", said) and words in said,
                  f"a cut core: {said}")
        for words in (["diff", path, path], ["export", path, "--folded", "-"],
                      ["dump", path, "--svg", "/dev/null"]):
            done = harness.run_cli(*words)
            check("the file is cut off" in (done.stdout if words[0] == "diff" else done.stderr),
                  f"{words}: {done.stderr}")
        with open(path, "wb") as file:
            file.write(core)
        done = harness.run_program(["/bin/sh", "-c", 'cat "$1" | "$2" dump /dev/stdin', "sh", path,
                                    harness.CLI], harness.clean_env())
        check(done.returncode == 1 and "a core file is not read from a pipe" in done.stderr,
              f"a core from a pipe: {done.stderr}")
        for packer, suffix in (("gzip", "gz"), ("xz", "xz"), ("zstd", "zst"), ("bzip2", "bz2")):
            if shutil.which(packer):
                packed = harness.run_program([packer, "-k", path], harness.clean_env())
                check_equal(packed.returncode, 0, packer)
                check(f": {packer} -d {path}.{suffix}" in read(f"{path}.{suffix}", code=1),
                      f"a core packed by {packer}")
        at = tables.addresses_at + 8 * address_number("segment_global")
        with open(path, "wb") as file:
            file.write(core[:at] + struct.pack("<Q", 4096) + core[at + 8:])
        dump = read(path)
        check("incomplete: 1 part of" in dump["how"] and not dump["exact"],
              f"a core without the sums of memory: {dump['how']}")
        held = tables.place(tables.addresses["heap_global"] + tables.fields["heap_global.lock"])
        with open(path, "wb") as file:
            file.write(core[:held] + b"\1" + core[held + 1:])
        dump = read(path)
        check("figures were being moved" in dump["how"] and not dump["exact"],
              f"a core while a thread ends: {dump['how']}")
        core[core.find(MAGIC) + 32] = 99
        with open(path, "wb") as file:
            file.write(core)
        check("tables have layout 99" in read(path, code=1), "another layout")
        with harness.Target(["sleep", "60"], directory) as target:
            wait_until(lambda: sleeps(target.pid), "sleep")
            with open(f"/proc/{target.pid}/coredump_filter", "w", encoding="ascii") as file:
                file.write("0")
            path = core_of(target, place)
        check("coredump_filter" in read(path, code=1), "a core without anonymous memory")
