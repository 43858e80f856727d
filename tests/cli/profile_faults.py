# SPDX-License-Identifier: MIT
"""Tests of the tests: the rules of pprof_file.py detect planted faults."""
import copy
import gzip
import os

import pprof_file
from clitest import scratch, succeed
from harness import check, check_equal, test
from profiles import is_valid, export, Made


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
    """A fault that sets profile[path...] = value."""
    *path, last, value = path_and_value

    def spoil(profile):
        for step in path:
            profile = profile[step]
        profile[last] = value(profile[last]) if callable(value) else value

    return spoil


def again(kind, **changes):
    """A fault that appends to the list `kind` a copy of its first entry, with a new id and these
    changes."""

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
    """Each rule of pprof_file.py complains of the faults that are planted for that rule."""
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
    """The decoder of pprof_file.py refuses damaged bytes."""
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
