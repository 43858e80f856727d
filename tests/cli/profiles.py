# SPDX-License-Identifier: MIT
"""memctx export: profiles that obey the rules of profile.proto's readers, and gzip."""

import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree

import pprof_file
from clitest import CLI, expect, fake, scratch, succeed, target
from harness import build_program, check, check_equal, clean_env, run_cli, test, wait_until

TYPES = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("reserved", "bytes"),
    ("waste", "bytes"),
    ("holes", "bytes"),
    ("pinned", "bytes"),
    ("resident", "bytes"),
]
FIGURES = {
    "alloc_objects": "allocs",
    "alloc_space": "requested_cum_bytes",
    "inuse_objects": "live_chunks",
    "inuse_space": "requested_bytes",
    "reserved": "reserved_bytes",
    "pinned": "pinned_bytes",
    "resident": "resident_bytes",
}


def is_valid(profile):
    found = pprof_file.complaints(profile)
    check(not found, f"{len(found)} complaints: {found[:5]}")


def export(word, where, *options, env=None):
    path = os.path.join(where, "profile.pb.gz")
    check_equal(succeed("export", word, "--pprof", path, *options, env=env), "", "output")
    profile = pprof_file.load(path)
    is_valid(profile)
    return profile


def csv_sums(word, env=None):
    rows = list(csv.DictReader(io.StringIO(succeed("export", word, "--csv", "-", env=env))))
    return {kind: sum(int(row[figure] or 0) for row in rows) for kind, figure in FIGURES.items()}


def check_same_sums(profile, wanted, what):
    found = pprof_file.sums(profile)
    check_equal({kind: found[kind] for kind in wanted}, wanted, what)


class Made:
    """Makes a snapshot file with the contexts that a test adds."""

    def __init__(self, where):
        self.path = os.path.join(where, "made.json")
        with fake("none") as live:
            succeed("dump", live.pid, "--json", "-o", self.path, env=live.cli_env)
        with open(self.path, encoding="utf-8") as file:
            self.dump = json.load(file)
        root = self.dump["contexts"][0]
        self.zeros = root["self"]
        self.dump["contexts"] = [root]
        self.dump["pages"] = []
        self.dump["marks"] = []

    def module(self, path, start, end):
        self.dump["modules"].append(
            {
                "path": path,
                "start": hex(start),
                "end": hex(end),
                "bias": hex(start),
                "build_id": None,
                "closed": False,
                "symbols": "missing",
            }
        )

    def add(
        self,
        parent,
        function=None,
        *,
        kind="path",
        address=None,
        module=None,
        file=None,
        line=None,
        inlined=(),
        exact=False,
        **figures,
    ):
        """Adds a context below the context `parent` (an id); returns its id."""
        number = len(self.dump["contexts"])
        bias = [int(one["bias"], 16) for one in self.dump["modules"] if one["path"] == module]
        context = {
            "id": number,
            "parent": parent,
            "kind": kind,
            "policy": "aset",
            "frame": {
                "addr": hex(address) if address is not None else None,
                "module": module,
                "offset": hex(address - bias[0]) if bias else None,
                "function": function,
                "file": file,
                "line": line,
                "inlined": [{"function": one, "file": None, "line": None} for one in inlined],
            },
            "self": {**self.zeros, **figures},
            "total": self.zeros,
            "occupancy": [0] * 7,
        }
        if exact:
            context["exact_address"] = True
        self.dump["contexts"].append(context)
        return number

    def holds(self, parent, address, size_bytes, **figures):
        """Adds a frame of [vdso] that holds size_bytes in one chunk."""
        return self.add(
            parent,
            f"f{address:x}",
            address=0x7FF00000 + address,
            module="[vdso]",
            requested_bytes=size_bytes,
            live_chunks=1,
            allocs=1,
            requested_cum_bytes=size_bytes,
            block_bytes=size_bytes,
            reserved_bytes=size_bytes,
            **figures,
        )

    def save(self):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.dump, file, separators=(",", ":"))
        return self.path


# --- profiles that obey the rules -----------------------------------------------------------------


@test
def profile_of_a_process():
    with target([build_program("tests/cli/programs/frames.c")]) as live, scratch() as where:
        before_ns = time.time_ns()
        profile = export(live.pid, where, env=live.cli_env)
        check(before_ns <= profile["time_nanos"] <= time.time_ns(), f"time {profile['time_nanos']}")
        check_equal(pprof_file.types(profile), TYPES, "sample types")
        check_equal(
            pprof_file.text(profile, profile["default_sample_type"]), "inuse_space", "default"
        )
        check_equal(profile["period"], 1, "period")
        check_same_sums(profile, csv_sums(live.pid, live.cli_env), "sums")
        main = pprof_file.text(profile, profile["mapping"][0]["filename"])
        check_equal(os.path.basename(main), "frames", "the first mapping")
        inlined = [one for one in profile["location"] if len(one["line"]) > 1]
        check(inlined, "no location has an inlined function")
        addresses = {location["address"] for location in profile["location"]}
        returns = {
            int(context["frame"]["addr"], 16)
            for context in live.dump()["contexts"]
            if context["kind"] == "path" and context["self"]["live_chunks"]
        }
        check({address - 1 for address in returns} <= addresses, "a location is where the call is")


@test
def profile_of_what_is_no_frame():
    """Labels, named contexts, code without a file and the root also have locations and mappings."""
    with scratch() as where:
        made = Made(where)
        made.dump["contexts"][0]["self"] = {**made.zeros, "requested_bytes": 5, "allocs": 1}
        outer = made.add(0, "main", address=0x7FF00101, module="[vdso]", file="main.c", line=7)
        for number, parent in enumerate((0, outer)):
            made.add(parent, "[truncated]", kind="unknown", requested_bytes=10 + number, allocs=1)
            made.add(parent, "requests", kind="named", requested_bytes=20 + number, allocs=1)
        made.add(outer, None, address=0x5000001, requested_bytes=40, allocs=1)
        made.add(outer, "jitted", address=0x5000101, requested_bytes=41, allocs=1)
        made.add(outer, None, kind="unknown", requested_bytes=42, allocs=1)
        profile = export(made.save(), where)
        check_same_sums(
            profile,
            {"inuse_space": 5 + 10 + 11 + 20 + 21 + 40 + 41 + 42, "alloc_objects": 8},
            "sums",
        )
        by_mapping = {}
        for location in profile["location"]:
            mapping = pprof_file.text(
                profile, profile["mapping"][location["mapping_id"] - 1]["filename"]
            )
            by_mapping.setdefault(mapping, []).extend(pprof_file.functions(profile, location["id"]))
        check_equal(
            {mapping: sorted(names) for mapping, names in by_mapping.items()},
            {
                "[vdso]": ["main"],
                "[anon]": ["0x5000001", "jitted"],
                "[memctx]": ["[no call path]", "[truncated]", "[unnamed]", "requests"],
            },
            "locations",
        )
        addresses = {
            pprof_file.functions(profile, one["id"]): one["address"] for one in profile["location"]
        }
        made.add(outer, "[another]", kind="unknown", requested_bytes=1, allocs=1)
        made.dump["contexts"].insert(1, made.dump["contexts"].pop())
        made.dump["contexts"][1]["parent"] = 0
        later = export(made.save(), where)
        check_equal(
            {
                key: address
                for key, address in (
                    (pprof_file.functions(later, one["id"]), one["address"])
                    for one in later["location"]
                )
                if key != ("[another]",)
            },
            addresses,
            "addresses of a later profile",
        )


@test
def profile_has_an_address_once():
    with scratch() as where:
        made = Made(where)
        made.module("/nowhere/fake", 0x400000, 0x500000)
        made.module("/nowhere/lib.so", 0x600000, 0x700000)
        ends = []
        # ten paths to one caller, whose location with its inlined functions stands once
        for path in range(10):
            outer = made.add(
                0,
                f"outer{path}",
                address=0x400100 + path,
                module="/nowhere/fake",
                file=f"{path % 2}.c",
                line=path + 1,
            )
            ends.append(
                made.add(
                    outer,
                    "caller",
                    address=0x600010,
                    module="/nowhere/lib.so",
                    file="lib.c",
                    line=3,
                    inlined=("inner", "middle"),
                    requested_bytes=100,
                    allocs=1,
                )
            )
        made.add(
            ends[0],
            "caller",
            address=0x600020,
            module="/nowhere/lib.so",
            file="lib.c",
            line=4,
            requested_bytes=1,
            allocs=1,
        )  # a call from another line of the function "caller"
        made.add(
            ends[1],
            "caller",
            address=0x60000F,
            module="/nowhere/lib.so",
            file="lib.c",
            line=3,
            inlined=("inner", "middle"),
            exact=True,
            requested_bytes=1,
            allocs=1,
        )  # an exact address, as of an interrupted instruction, not a return address
        profile = export(made.save(), where)
        check_equal(
            pprof_file.text(profile, profile["mapping"][0]["filename"]),
            "/nowhere/fake",
            "the program is first",
        )
        callers = [
            one
            for one in profile["location"]
            if "caller" in pprof_file.functions(profile, one["id"])
        ]
        check_equal(
            [(one["address"], pprof_file.functions(profile, one["id"])) for one in callers],
            [(0x60000F, ("inner", "middle", "caller")), (0x60001F, ("caller",))],
            "locations of caller",
        )
        check_equal([one["line"][-1]["line"] for one in callers], [3, 4], "lines")
        names = [pprof_file.text(profile, one["name"]) for one in profile["function"]]
        check_equal(
            sorted(names),
            sorted(["caller", "inner", "middle"] + [f"outer{i}" for i in range(10)]),
            "functions",
        )
        check_equal(len(profile["location"]), 12, "locations")
        check_equal(
            sorted(values[3] for _, values in pprof_file.stacks(profile)),
            [1, 1] + [100] * 10,
            "samples",
        )


@test
def profile_of_a_snapshot_has_its_time():
    with scratch() as where:
        path = Made(where).save()
        os.utime(path, ns=(1, 1700000000123456789))
        profile = pprof_file.decode(
            subprocess.run(
                [CLI, "export", path, "--pprof", "-"],
                env=clean_env(),
                capture_output=True,
                timeout=60,
                check=True,
            ).stdout
        )
        check_equal(profile["time_nanos"], 1700000000123456789, "time")
        taken = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(1700000000))
        check(f'"taken":"{taken}"' in succeed("report", path, "-o", "-"),
              f"the page does not say {taken}")


@test
def profile_strings_are_utf8():
    """Strings are valid UTF-8 although a file name is not."""
    with scratch() as where:
        program = os.path.join(os.fsencode(where), b"caf\xe9-\xe2\x82-\xed\xa0\x80\xe2\x82\xac")
        shutil.copy(build_program("tests/cli/programs/allocate.c"), program)
        with target([os.fsdecode(program)]) as live:
            profile = export(live.pid, where, env=live.cli_env)
        names = [string.decode() for string in profile["string_table"]]
        check(
            any(
                name.endswith("/caf\ufffd-\ufffd\ufffd-\ufffd\ufffd\ufffd\u20ac") for name in names
            ),
            f"no such name in {names}",
        )


@test
def profile_names_that_pprof_would_cut():
    """From a C++ name that equals the system name, pprof removes everything in () and <>. Names of
    which a wrong part would be left have no system name, so pprof keeps them."""
    kept = [
        "<A as core::clone::Clone>::clone",
        "alloc::vec::Vec<T>::from::<u8>",
        "(anonymous namespace)::fill()",
        "void (anonymous namespace)::fill<int>(int)",
        "shop::Sorter<fn(i32) -> i32>::run",
        "Handler::operator()(int) const",
        "Stream::operator<<(int)",
        "main::{lambda(int)#1}::operator()(int) const",
    ]
    cut = {
        "std::vector<int, std::allocator<int> >::push_back(int const&)": "std::vector::push_back",
        "main": "main",
    }
    with scratch() as where:
        made = Made(where)
        made.module("/opt/shop", 0x1000, 0x9000)
        for i, name in enumerate([*kept, *cut]):
            made.add(0, name, address=0x2000 + i, module="/opt/shop", requested_bytes=100,
                     live_chunks=1)
        profile = export(made.save(), where)
        texts = profile["string_table"]
        names = {
            texts[one["name"]].decode(): texts[one["system_name"]].decode()
            for one in profile["function"]
        }
        for name in kept:
            check_equal(names[name], "", f"system name of {name}")
        for name in cut:
            check_equal(names[name], name, f"system name of {name}")
        if shutil.which("go"):
            path = os.path.join(where, "names.pb.gz")
            succeed("export", made.path, "--pprof", path)
            top = subprocess.run(
                ["go", "tool", "pprof", "-top", "-nodefraction=0", path],
                env=clean_env(),
                capture_output=True,
                text=True,
                timeout=300,  # go may have to compile pprof first
                check=True,
            ).stdout
            for name in [*kept, *cut.values()]:
                check(re.search(rf"% +{re.escape(name)}$", top, re.M), f"{name}: {top}")


@test
def flame_graph_has_letters_of_any_language():
    with scratch() as where:
        made = Made(where)
        made.add(0, "größe<&>", kind="named", requested_bytes=1000, allocs=1)
        made.add(0, "量" * 300, kind="named", requested_bytes=1000, allocs=1)
        name = "{http://www.w3.org/2000/svg}"
        root = xml.etree.ElementTree.fromstring(succeed("dump", made.save(), "--svg", "-"))
        found = [title.text.split(":")[0] for title in root.iter(name + "title")]
        check_equal(sorted(found), ["all", "größe<&>", "量" * 300], "titles")
        shown = [text.text for text in root.iter(name + "text")]
        check(any(text.startswith("量量") and text.endswith("量..") for text in shown), f"{shown}")


@test
def profile_of_extreme_figures():
    """Extreme figures of a damaged target overflow nothing, also when samples are added up."""
    with fake("extreme") as live, scratch() as where:
        for options in ((), ("--limit-samples", 2), ("--limit-samples", 1)):
            profile = export(live.pid, where, *options, env=live.cli_env)
            check(len(profile["sample"]) <= 3, "samples")
        # heaptrack's format would take a line for each of these chunks
        expect(1, "live chunks", "export", live.pid, "--heaptrack",
               os.path.join(where, "heaptrack"), env=live.cli_env)
        check("heaptrack" not in " ".join(os.listdir(where)), f"files: {os.listdir(where)}")


@test
def profile_of_a_recording_has_no_single_pages():
    """A recording does not know which memory is resident. Its profiles leave that figure out."""
    with scratch() as where:
        program = build_program("tests/cli/programs/allocate.c")
        with target([program], MEMCTX_RECORD=where) as live:
            file = os.path.join(where, f"memctx-{live.pid}-allocate.rec")
            wait_until(lambda: os.path.exists(file), "the recording")
            live.process.stdin.close()  # the program ends, and its recording with it
            live.process.wait(60)
        profile = export(file, where)
        kinds = [profile["string_table"][kind["type"]].decode() for kind in profile["sample_type"]]
        check_equal(kinds, [kind for kind, _ in TYPES[:-1]], "types of the samples")
        check(pprof_file.sums(profile)["inuse_space"] >= 100000, "live bytes")
        speedscope = json.loads(succeed("export", file, "--speedscope", "-"))
        check_equal([one["name"] for one in speedscope["profiles"]],
                    ["requested", "waste", "pinned", "live chunks", "allocations"],
                    "profiles of speedscope")
        succeed("export", file, "--otlp", os.path.join(where, "otlp"))


@test
def export_writes_utf8():
    """A name that is not UTF-8 makes no file unreadable."""
    with target([build_program("tests/serve/served.c", flags=["-O0"])]) as live:
        live.process.stdin.write(b'named caf\xe9, "rue"\n')
        live.process.stdin.flush()
        live.hear()
        for kind, name in (("folded", 'caf\ufffd, "rue" 123'), ("heaptrack", 's caf\ufffd, "rue"'),
                           ("csv", '"caf\ufffd, ""rue""",')):
            done = subprocess.run([CLI, "export", str(live.pid), f"--{kind}", "-"],
                                  env=live.cli_env,
                                  capture_output=True, timeout=60, check=True)
            check(name in done.stdout.decode("utf-8"), f"{kind}: {done.stdout}")


# --- gzip -----------------------------------------------------------------------------------------


def check_links(snapshot, where):
    """The file that a symbolic link leads to is replaced or made, and the link stays."""
    os.mkdir(os.path.join(where, "far"))
    for link, leads_to, file in (("old", "far/file", "far/file"), ("two", "old", "far/file"),
                                 ("far/new", "../made", "made"), ("round", "round", None)):
        os.symlink(leads_to, os.path.join(where, link))
        if link == "round":
            expect(1, "round: cannot be written; Too many levels", "export", snapshot, "--csv",
                   os.path.join(where, link))
            continue
        if link == "old":
            with open(os.path.join(where, file), "w", encoding="ascii") as out:
                out.write("old")
        succeed("export", snapshot, "--csv", os.path.join(where, link))
        check(os.path.islink(os.path.join(where, link)), f"the link {link} was replaced")
        check(os.path.getsize(os.path.join(where, file)) > 100, f"what {link} leads to")
    check_equal(sorted(os.listdir(os.path.join(where, "far"))), ["file", "new"], "files left")
    check_foreign_link(snapshot, os.path.join(where, "all"))


def check_foreign_link(snapshot, folder):
    """A link that another user may have put into a directory like /tmp is not followed, whatever
    fs.protected_symlinks is."""
    if os.geteuid() != 0:
        return
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    link, target = os.path.join(folder, "link"), os.path.join(folder, "../secret")
    os.symlink(target, link)
    os.lchown(link, 65534, 65534)
    run_cli("export", snapshot, "--csv", link)
    check(not os.path.exists(target), "a link of another user was followed to a new file")
    with open(target, "w", encoding="ascii") as file:
        file.write("old")
    if not os.path.islink(link):
        os.remove(link)
        os.symlink(target, link)
        os.lchown(link, 65534, 65534)
    run_cli("export", snapshot, "--csv", link)
    check_equal(os.path.getsize(target), 3, "bytes of the file behind a link of another user")
    os.remove(target)
    shutil.rmtree(folder)


@test
def export_compresses_what_is_called_gz():
    with scratch() as where:
        made = Made(where)
        for number in range(2000):
            made.holds(0, number, 100 + number)
        made.save()
        for kind in ("folded", "speedscope", "heaptrack", "csv"):
            plain, packed = os.path.join(where, kind), os.path.join(where, f"{kind}.gz")
            succeed("export", made.path, f"--{kind}", plain)
            succeed("export", made.path, f"--{kind}", packed)
            with open(plain, "rb") as one, gzip.open(packed) as other:
                content = one.read()
                check_equal(other.read(), content, f"content of {kind}.gz")
            check(
                0 < os.path.getsize(packed) < len(content) / 2,
                f"{kind}: {os.path.getsize(packed)} bytes",
            )
            os.remove(packed)
        check_equal(
            sorted(os.listdir(where)),
            ["csv", "folded", "heaptrack", "made.json", "speedscope"],
            "what is left in the directory",
        )
        # so little output that it is written only when the file is closed
        made.dump["contexts"][2:] = []
        made.save()
        for kind in ("pprof", "csv"):
            full = os.path.join(where, "full.gz")
            os.symlink("/dev/full", full)
            expect(
                1,
                "full.gz: could not be written; No space left on device",
                "export",
                made.path,
                f"--{kind}",
                full,
            )
            os.remove(full)
        link, aim = os.path.join(where, "link"), os.path.join(where, "csv")
        os.symlink("/proc/self/fd/1", link)  # a link like /dev/stdout
        with open(aim, "ab") as out:
            before = out.tell()
            code = subprocess.run([CLI, "export", made.path, "--csv", link], stdout=out,
                                  check=False).returncode
        check_equal(code, 0, "memctx export --csv link")
        check(os.path.islink(link), "the link was replaced; /dev/stdout would be so for all users")
        check(os.path.getsize(aim) > before > 0, "nothing was added to the standard output")
        check_links(made.path, where)
        expect(
            1,
            "cannot be written; No such file",
            "export",
            made.path,
            "--csv",
            os.path.join(where, "no/where.gz"),
        )
