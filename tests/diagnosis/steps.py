# SPDX-License-Identifier: MIT
"""Arrays that grow by realloc in small steps are a finding, with the counts of calls and copies;
arrays that grow by a factor are none."""
import os
import re

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test, test_named
from planted import command, doctor, installed, names
from text import labelled, told

PYTHON_TEXT = """
import sys
def text_build(count):
    text = ""
    for number in range(count):
        text += "x"
    return text
kept = text_build(600000)
print("look", flush=True)
sys.stdin.readline()
"""
PYTHON_LIST = """
import sys
kept = []
for round in range(40):
    numbers = []
    for number in range(50000):
        numbers.append(None)
    kept.append(numbers)
print("look", flush=True)
sys.stdin.readline()
"""


def program(language, directory):
    if language != "rs":
        return harness.build_program(f"tests/diagnosis/steps.{language}", f"steps-{language}")
    made = os.path.join(directory, "steps-rs")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.rs")
    done = harness.run_program([installed("rustc"), "-O", "-g", source, "-o", made], os.environ)
    check_equal(done.returncode, 0, f"rustc: {done.stderr}")
    return made


def start(directory, language, case):
    argv = ["/usr/bin/python3", "-c", case] if language == "py" else [program(language, directory),
                                                                      case]
    return Target(argv, directory, MEMCTX_CONTROL="eager")


def counted(target):
    """The counts of the context with the most calls of realloc."""
    dump = command(target, "dump", target.pid)
    check_equal(dump["lost_reallocs"], 0, "calls that are not counted")
    return max(dump["reallocs"], key=lambda one: one["reallocs"])


def in_small_steps(language, case, function, calls, grown_bytes, at_least_copied=0, name=None):
    """Registers a test: doctor finds that `function` makes a chunk larger in small steps. The dump
    counts so many calls of realloc, bytes that were added, and bytes that were copied."""
    def run():
        with runtime_dir() as directory, start(directory, language, case) as target:
            check_equal(target.hear(120), "look", "what the program says")
            found = doctor(target)["findings"]
            text = told(target)
            counts = counted(target)
        check(found, "nothing was found")
        check_equal([one["id"] for one in found if one["id"] != "growth"], ["small-steps"],
                    "findings")
        first = found[0]
        check(names(first, function), f"{function} is not in the path: {first['path']}")
        check(abs(counts["reallocs"] - calls) <= calls / 1000, f"{calls} calls: {counts}")
        check(abs(counts["grown_bytes"] - grown_bytes) <= grown_bytes / 1000,
              f"{grown_bytes} bytes more: {counts}")
        check(counts["copied_bytes"] >= at_least_copied,
              f"copied at least {at_least_copied}: {counts}")
        check(counts["copies"] <= counts["grows"] <= counts["reallocs"], f"{counts}")
        check(f"{counts['grows']} calls of realloc made chunks larger" in first["evidence"],
              first["evidence"])
        check(f"{counts['copies']} of the calls copied" in first["evidence"], first["evidence"])
        check(re.search(rf"\b{function}\b", labelled(text, 1, "who")), text)
        check("by a factor" in labelled(text, 1, "fix"), text)
        check(labelled(text, 1, "sure").startswith("certain"), text)
        return first["evidence"]
    test_named(f"steps-{language}-{name or case}")(run)


in_small_steps("c", "log", "log_add", 399999, 1199997)
in_small_steps("c", "lines", "line_read", 3000 * 899, 3000 * 899)
in_small_steps("c", "tables", "table_extend", 300 * 99, 300 * 99 * 2048, 200 << 20)
in_small_steps("cc", "exact", "append", 4 * 149999, 4 * 149999 * 7)
in_small_steps("rs", "", "samples_push", 399999, 399999 * 8, name="vec")
in_small_steps("py", PYTHON_TEXT, "PyUnicode_Append", 599500, 599500, name="text")


def by_a_factor(language, case, name=None):
    """Registers a test: arrays that grow by a factor give no finding of small steps or short-lived
    chunks."""
    def run():
        with runtime_dir() as directory, start(directory, language, case) as target:
            check_equal(target.hear(120), "look", "what the program says")
            found = doctor(target)["findings"]
            counts = counted(target)
        listed = [(one["id"], one["evidence"]) for one in found]
        check(not {"small-steps", "temporary"} & {one["id"] for one in found}, f"{listed}")
        return f"{counts['reallocs']} calls"
    test_named(f"steps-healthy-{language}-{name or case}")(run)


by_a_factor("c", "doubles")
by_a_factor("c", "lists")
by_a_factor("c", "few")
by_a_factor("cc", "doubling")
by_a_factor("py", PYTHON_LIST, name="list")


@test
def steps_of_arrays_that_double_and_stay():
    """Large arrays that double and stay give a finding of copies, with the counted calls and
    bytes."""
    with runtime_dir() as directory, start(directory, "c", "stay") as target:
        check_equal(target.hear(120), "look", "what the program says")
        found = doctor(target)["findings"]
        counts = counted(target)
    check_equal([one["id"] for one in found], ["copies"], "findings")
    check(names(found[0], "array_double"), f"path: {found[0]['path']}")
    check(found[0]["sure"].startswith("certain"), found[0]["sure"])
    check_equal(counts["reallocs"], 1500, f"{counts}")
    check(f"realloc was called 1500 times, and copied a chunk to another place {counts['copies']} "
          "times" in found[0]["evidence"],
          found[0]["evidence"])
    check_equal(found[0]["bytes"], counts["copied_bytes"], "bytes")
    return found[0]["evidence"]


def looked_at(case):
    with runtime_dir() as directory, start(directory, "c", case) as target:
        check_equal(target.hear(120), "look", "what the program says")
        return doctor(target)["findings"], told(target)


def by_copies(case, mean_freed):
    """Registers a test: doctor finds arrays that grow in small steps by malloc, memcpy and free.
    The freed chunks have a mean of `mean_freed` bytes."""
    def run():
        found, text = looked_at(case)
        check_equal([one["id"] for one in found], ["copies"], "findings")
        check(names(found[0], "text_push"), f"path: {found[0]['path']}")
        check("arrays seem to grow in small steps by being copied" in found[0]["evidence"],
              found[0]["evidence"])
        check(f" chunks of {mean_freed} on average were freed" in found[0]["evidence"],
              found[0]["evidence"])
        check(labelled(text, 1, "fix").startswith("Let the array grow by a factor"), text)
    test_named(f"steps-c-{case}-copied")(run)


by_copies("text", "2.9 KiB")
by_copies("texts", "199 B")


@test
def steps_healthy_c_messages():
    """Messages are no finding although freed chunks have half the size of those that stay, as
    copied arrays would: many of the freed chunks were live at one time."""
    found, _ = looked_at("messages")
    check_equal([one["evidence"] for one in found], [], "findings")


@test
def steps_c_reserved():
    """Chunks whose memory is hardly touched are a finding; an array that has just doubled is
    none."""
    found, text = looked_at("reserved")
    check_equal([one["id"] for one in found], ["untouched"], "findings")
    check_equal(found[0]["function"].split(",")[0], "rows_reserve", text)
    check(abs(found[0]["bytes"] - 20 * ((2 << 20) + (64 << 10))) < 1 << 20,
          f"{found[0]['bytes']} bytes: {text}")
    check("40 chunks, 41.2 MiB in all: " in text.replace("\n", " "), text)


@test
def steps_c_unused():
    """No more than the chunks' own bytes takes no memory, although their blocks are larger."""
    found, text = looked_at("unused")
    check_equal([(one["id"], one["bytes"]) for one in found], [("untouched", 4000 * 20000)], text)


@test
def steps_are_kept_in_a_file_and_reset():
    """Packed and JSON snapshots keep the counts of realloc; memctx reset sets them to zero."""
    with runtime_dir() as directory, start(directory, "c", "log") as target:
        check_equal(target.hear(120), "look", "what the program says")
        target.wait_socket()
        live = command(target, "dump", target.pid)["reallocs"]
        for suffix in ("mctx", "json"):
            path = os.path.join(directory, f"now.{suffix}")
            done = run_cli("dump", target.pid, "-o", path, env=target.cli_env)
            check_equal(done.returncode, 0, f"memctx dump: {done.stderr}")
            check_equal(command(target, "dump", path)["reallocs"], live, path)
            check_equal(doctor(target, pid=path)["findings"][0]["id"], "small-steps",
                        f"doctor of {path}")
        done = run_cli("reset", target.pid, env=target.cli_env)
        check_equal(done.returncode, 0, f"memctx reset: {done.stderr}")
        check_equal(command(target, "dump", target.pid)["reallocs"], [], "after the reset")
        check(not [one for one in doctor(target)["findings"] if one["id"] == "small-steps"],
              "told after the reset")
