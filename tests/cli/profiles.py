# SPDX-License-Identifier: MIT
"""memctx export: what readers of profile.proto accept, fewer samples with the same sums, gzip."""

import copy
import csv
import gzip
import io
import json
import os
import random
import shutil
import subprocess
import time

import pprof_file
from clitest import CLI, expect, fake, scratch, succeed, target
from harness import build_program, check, check_equal, clean_env, test

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
    """A snapshot file whose contexts are ours."""

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
        """A context below `parent` (an id); its id."""
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
        """A frame of [vdso] that holds so much, allocated at once."""
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


# --- valid ----------------------------------------------------------------------------------------


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
    """Labels, named contexts, code without a file and the root have locations and mappings, too."""
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
        for path in range(10):  # one caller by ten paths; what is inlined there is told once
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
        )  # another line of the same function
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
        )  # interrupted there
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


@test
def profile_strings_are_utf8():
    """A file may be called anything, a string of profile.proto not."""
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
def profile_of_extreme_figures():
    """A damaged target's figures overflow nothing here, also not when they are added up."""
    with fake("extreme") as live, scratch() as where:
        for options in ((), ("--limit-samples", 2), ("--limit-samples", 1)):
            profile = export(live.pid, where, *options, env=live.cli_env)
            check(len(profile["sample"]) <= 3, "samples")


# --- planted faults -------------------------------------------------------------------------------


def valid_profile(where):
    made = Made(where)
    outer = made.holds(0, 0x10, 100, pinned_bytes=7)
    made.holds(outer, 0x20, 200)
    made.add(outer, "[truncated]", kind="unknown", requested_bytes=3, allocs=1)
    profile = export(made.save(), where)
    profile["sample"][0]["label"].append({"key": 1, "str": 1, "num": 0, "num_unit": 0})
    is_valid(profile)
    return profile


def put(*path_and_value):
    """A fault: profile[path...] = value."""
    *path, last, value = path_and_value

    def spoil(profile):
        for step in path:
            profile = profile[step]
        profile[last] = value(profile[last]) if callable(value) else value

    return spoil


def again(kind, **changes):
    """A fault: one more of the kind, like the first but for its number and these changes."""

    def spoil(profile):
        one = copy.deepcopy(profile[kind][0])
        one.update(id=len(profile[kind]) + 1, **changes)
        profile[kind].append(one)
        if kind == "location":
            profile["sample"][0]["location_id"].append(one["id"])

    return spoil


def move_away(profile):
    profile["location"][0]["address"] = profile["mapping"][0]["memory_limit"]


FAULTS = {
    "first_string_is_empty": [put("string_table", 0, b"x"), put("string_table", [])],
    "strings_are_utf8": [put("string_table", 3, b"\xff")],
    "strings_exist": [
        put("mapping", 0, "filename", 10000),
        put("mapping", 0, "build_id", -1),
        put("function", 0, "name", 10000),
        put("function", 0, "system_name", 10000),
        put("function", 0, "filename", 10000),
        put("sample_type", 0, "type", 10000),
        put("sample_type", 0, "unit", 10000),
        put("period_type", "unit", 10000),
        put("sample", 0, "label", 0, "key", 10000),
        put("sample", 0, "label", 0, "str", 10000),
        put("default_sample_type", 10000),
        lambda profile: put("mapping", 0, "filename", len(profile["string_table"]))(profile),
    ],
    "sample_types_are_named": [
        put("sample_type", []),
        put("sample_type", 1, "type", 0),
        put("sample_type", 1, "unit", 0),
        put("string_table", 1, b"inuse-space"),
        lambda profile: put("sample_type", 0, "type", profile["sample_type"][1]["type"])(profile),
    ],
    "default_type_exists": [put("default_sample_type", 0)],
    "samples_have_all_values": [
        put("sample", 0, "value", lambda old: old[1:]),
        put("sample", 0, "value", lambda old: old + [1]),
        put("sample_type", lambda old: old[1:]),
    ],
    "samples_have_something": [put("sample", 1, "value", lambda old: [0] * len(old))],
    "samples_have_locations": [
        put("sample", 0, "location_id", []),
        put("sample", 0, "location_id", 0, 0),
        put("sample", 0, "location_id", 0, 4),
    ],
    "labels_have_keys": [put("sample", 0, "label", 0, "key", 0)],
    "mappings_are_sequential": [
        put("mapping", 0, "id", 2),
        put("mapping", 1, "id", 1),
        put("mapping", lambda old: old[::-1]),
        put("mapping", 0, "id", 0),
    ],
    "mappings_have_files": [put("mapping", 1, "filename", 0)],
    "functions_are_sequential": [
        put("function", 0, "id", 0),
        put("function", lambda old: old[::-1]),
    ],
    "functions_have_names": [put("function", 0, "name", 0)],
    "functions_are_unique": [again("function")],
    "locations_are_sequential": [
        put("location", 0, "id", 0),
        put("location", lambda old: old[::-1]),
    ],
    "locations_have_mappings": [
        put("location", 2, "mapping_id", 0),
        put("location", 2, "mapping_id", 3),
    ],
    "locations_lie_in_their_mappings": [
        move_away,
        put("location", 0, "address", 0),
        put("location", 2, "mapping_id", 1),
    ],
    "locations_are_unique": [again("location")],
    "locations_are_used": [lambda profile: profile["sample"].pop()],
    "lines_have_functions": [
        put("location", 0, "line", []),
        put("location", 0, "line", 0, "function_id", 0),
        put("location", 0, "line", 0, "function_id", 4),
    ],
    "period_is_told": [put("period_type", None), put("period", 0), put("period_type", "type", 0)],
    "time_is_a_moment": [put("time_nanos", 0), put("duration_nanos", 1)],
}


@test
def profile_rules_can_fail():
    """Each rule that profiles are held against complains of the faults that it is for."""
    check_equal(sorted(FAULTS), sorted(pprof_file.RULES), "rules with a planted fault")
    with scratch() as where:
        valid = valid_profile(where)
    for name, faults in FAULTS.items():
        for number, fault in enumerate(faults):
            spoiled = copy.deepcopy(valid)
            fault(spoiled)
            told = {
                broken
                for broken, complaint in pprof_file.complaints(spoiled)
                if complaint != pprof_file.UNREADABLE
            }
            check(name in told, f"fault {number} of {name} is told by {told or 'none'}")
    return f"{sum(map(len, FAULTS.values()))} faults"


@test
def profile_bytes_can_be_wrong():
    """The decoder is not one that takes anything."""
    with scratch() as where:
        path = Made(where)
        path.holds(0, 0x10, 1)
        succeed("export", path.save(), "--pprof", os.path.join(where, "p"))
        with open(os.path.join(where, "p"), "rb") as file:
            whole = gzip.decompress(file.read())
    pprof_file.read_message(whole, pprof_file.PROFILE)
    for spoiled in (
        whole[:-1],
        whole + b"\xff" * 11,
        whole + b"\x80",
        b"\x08\x01" + whole,
        b"\x4a\x00" + whole,
        b"\x85\x01" + whole,
        b"\x0b" + whole,
    ):
        try:
            pprof_file.read_message(spoiled, pprof_file.PROFILE)
        except pprof_file.Malformed:
            continue
        check(False, f"was taken: {spoiled[:3]!r}...{spoiled[-3:]!r}")


# --- fewer samples --------------------------------------------------------------------------------


def outer_parts(stack):
    return {stack[at:] for at in range(len(stack) + 1)}


def inuse_and_allocs(profile):
    return {stack: (values[3], values[0]) for stack, values in pprof_file.stacks(profile)}


def check_limited(whole, limited, limit):
    """At most so many; the same sums; each is the outer part of a path that was there."""
    check(
        0 < len(limited["sample"]) <= limit, f"{len(limited['sample'])} samples of at most {limit}"
    )
    check_equal(pprof_file.sums(limited), pprof_file.sums(whole), f"sums with at most {limit}")
    parts = set().union(*(outer_parts(stack) for stack, _ in pprof_file.stacks(whole))) | {
        ("[other paths]",)
    }
    strange = [stack for stack, _ in pprof_file.stacks(limited) if stack not in parts]
    check(not strange, f"not of any path: {strange[:3]}")


@test
def limit_keeps_every_sum():
    """Trees drawn at random: chains, wide families, samples inside of paths, equal sizes."""
    with scratch() as where:
        for seed in range(6):
            numbers = random.Random(seed)
            made = Made(where)
            made.dump["contexts"][0]["self"] = {
                **made.zeros,
                "requested_bytes": seed,
                "allocs": seed,
            }
            ends = [0]
            for address in range(1, 300):
                parent = numbers.choice(ends[-8:] if seed % 2 else ends)
                sizes = (0, 0, 16, 16, 16, numbers.randrange(1, 1 << numbers.randrange(1, 20)))
                ends.append(
                    made.holds(
                        parent,
                        8 * address,
                        numbers.choice(sizes),
                        pinned_bytes=numbers.choice((0, 0, 9)),
                        resident_bytes=numbers.randrange(1 << 40),
                    )
                )
            whole = export(made.save(), where)
            all_samples = len(whole["sample"])
            check(all_samples > 250, f"only {all_samples} samples")
            for limit in (1, 2, 3, 10, 100, all_samples - 1):
                limited = export(made.path, where, "--limit-samples", limit)
                check_limited(whole, limited, limit)
                check_equal(
                    len(limited["sample"]),
                    limit,
                    f"seed {seed}: samples, where so many can be kept",
                )
            for limit in (all_samples, 2147483647):
                check_equal(
                    export(made.path, where, "--limit-samples", limit),
                    whole,
                    f"limit {limit}, which is none",
                )


@test
def limit_merges_the_smallest():
    """Small samples of one place become one there; one among large ones goes further out."""
    with scratch() as where:
        made = Made(where)
        main = made.holds(0, 0x10, 0)
        made.dump["contexts"][main]["self"] = made.zeros
        loader, server = (
            made.add(main, name, address=0x7FF00000 + at, module="[vdso]")
            for name, at in (("loader", 0x20), ("server", 0x30))
        )
        made.holds(server, 0x40, 3000)
        made.holds(server, 0x50, 2500)
        made.holds(server, 0x60, 2)
        for number in range(100):
            made.holds(loader, 0x100 + number, 8 + number % 3)
        whole = export(made.save(), where)
        limited = export(made.path, where, "--limit-samples", 4)
        check_limited(whole, limited, 4)
        large = {("f40", "server", "f10"): (3000, 1), ("loader", "f10"): (899, 100)}
        check_equal(
            inuse_and_allocs(limited),
            {**large, ("f50", "server", "f10"): (2500, 1), ("f60", "server", "f10"): (2, 1)},
            "four",
        )
        limited = export(made.path, where, "--limit-samples", 3)
        check_limited(whole, limited, 3)
        check_equal(inuse_and_allocs(limited), {**large, ("server", "f10"): (2502, 2)}, "three")
        made.holds(0, 0x70, 1)
        made.holds(server, 0x80, 4000)
        limited = export(made.save(), where, "--limit-samples", 5)
        check_equal(
            inuse_and_allocs(limited),
            {
                **large,
                ("f50", "server", "f10"): (2500, 1),
                ("[other paths]",): (3, 2),
                ("f80", "server", "f10"): (4000, 1),
            },
            "five of another",
        )
        whole = export(made.path, where)
        limited = export(made.path, where, "--limit-samples", 103)
        check_equal(len(limited["sample"]), 103, "samples, some less than there are")
        check_limited(whole, limited, 103)


@test
def limit_counts_any_figure():
    """A path that holds nothing now, but made most allocations, is not small."""
    with scratch() as where:
        made = Made(where)
        made.add(
            0,
            "busy",
            address=0x7FF00010,
            module="[vdso]",
            allocs=100000,
            frees=100000,
            requested_cum_bytes=1,
        )
        for number in range(40):
            made.holds(0, 0x100 + number, 100)
        limited = export(made.save(), where, "--limit-samples", 2)
        found = {stack: values[0] for stack, values in pprof_file.stacks(limited)}
        check_equal(
            found, {("busy",): 100000, ("[other paths]",): 40}, "allocations of what is left"
        )


@test
def limit_counts_the_tiniest():
    """A sample of one byte beside terabytes is one sample, too."""
    with scratch() as where:
        made = Made(where)
        made.add(0, "large", address=0x7FF00010, module="[vdso]", requested_bytes=1 << 46)
        made.add(0, "tiny", address=0x7FF00020, module="[vdso]", requested_bytes=1)
        made.save()
        limited = export(made.path, where, "--limit-samples", 2)
        check_equal(
            {stack for stack, _ in pprof_file.stacks(limited)}, {("large",), ("tiny",)}, "two"
        )
        limited = export(made.path, where, "--limit-samples", 1)
        check_equal(
            [values[3] for _, values in pprof_file.stacks(limited)], [(1 << 46) + 1], "of one"
        )


@test
def limit_is_a_number():
    with scratch() as where:
        made, out = Made(where), os.path.join(where, "p")
        made.holds(0, 0x10, 1)
        made.save()
        for word in (
            "0",
            "-1",
            "few",
            "",
            "10k",
            "2147483648",
            "99999999999999999999",
            "0x10",
            " 5",
        ):
            expect(
                2,
                r'--limit-samples takes a number from 1 to 2147483647; got "' + word + '"',
                "export",
                made.path,
                "--pprof",
                out,
                f"--limit-samples={word}",
            )
        expect(
            2,
            "option --limit-samples needs a value",
            "export",
            made.path,
            "--pprof",
            out,
            "--limit-samples",
        )
        expect(
            2,
            "--limit-samples needs --pprof FILE",
            "export",
            made.path,
            "--folded",
            "-",
            "--limit-samples",
            5,
        )
        check(not os.path.exists(out), "a file was written all the same")


# --- gzip -----------------------------------------------------------------------------------------


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
        made.dump["contexts"][2:] = []  # so little that nothing is written before the end
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
        expect(
            1,
            "cannot be written; No such file",
            "export",
            made.path,
            "--csv",
            os.path.join(where, "no/where.gz"),
        )
