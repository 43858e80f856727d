# SPDX-License-Identifier: MIT
"""Growth spread over many call paths, each too small for a finding of its own, is one finding."""
import json
import os
import re

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test, test_named
from planted import ALARMING, found_at, names
from text import labelled, told


def spread(directory, language, case):
    program = harness.build_program(f"tests/diagnosis/spread.{language}", f"spread-{language}")
    return Target([program, case], directory, MEMCTX_CONTROL="eager")


def check_recorded(target, file):
    """The next command also works with a mark that is named like those of a recording."""
    check_equal(run_cli("dump", target.pid, "--json", "-o", file, env=target.cli_env).returncode, 0,
                "memctx dump")
    with open(file, encoding="utf-8") as saved:
        dump = saved.read()
    with open(file, "w", encoding="utf-8") as saved:
        saved.write(dump.replace('"look-1"', '"-2h05m00s"'))
    following = json.loads(run_cli("doctor", file, "--json").stdout)["findings"][0]["action"]
    check_equal(following, f"memctx diff {file} --limit 100 -- -2h05m00s", "what to do next")
    check_equal(run_cli(*following.split()[1:]).returncode, 0, following)


def leaks(language, case, function, paths, planted_bytes, bursts=False):
    def run():
        with runtime_dir() as directory, spread(directory, language, case) as target:
            found = [finding for finding in found_at(target, 4)["findings"]
                     if finding["id"] == "growth"]
            text = told(target)
            if case == "main":
                check_recorded(target, os.path.join(directory, "look.json"))
        check_equal(len(found), 1,
                    f"findings about growth: {[finding['function'] for finding in found]}")
        first = found[0]
        check(first["severity"] in ALARMING, f"only told: {first['evidence']}")
        check(first["function"].startswith(function + ", "), f"the cause is {first['function']}")
        check(names(first, function.split("<")[0]), f"path: {first['path']}")
        check(abs(first["contexts"] - paths) <= paths / 7,
              f"{first['contexts']} call paths instead of {paths}")
        check(abs(first["bytes"] - planted_bytes) <= planted_bytes / 20,
              f"{first['bytes']} bytes instead of {planted_bytes}")
        check(bursts or f"each of the {first['contexts']} call paths alone grew by fewer than 16 "
              "chunks" in first["evidence"], first["evidence"])
        check(not bursts or
              f"none of the {first['contexts']} call paths alone grew" in first["evidence"],
              first["evidence"])
        check(labelled(text, 1, "who").startswith(f"{function} (spread.{language}:"), text)
        check(re.search(rf"in {first['contexts']} call paths:", labelled(text, 1, "who")), text)
        check_equal(first["action"], f"memctx diff {target.pid} look-1 --limit 100",
                    "what to do next")
        return first["evidence"]
    test_named(f"spread-{language}-{case}")(run)


leaks("c", "leak", "handlers_run", 300, 300 * 3 * 3 * 1503)
leaks("c", "little", "handlers_run", 300, 300 * 20 * 3 * 63)
leaks("c", "main", "main", 300, 300 * 3 * 3 * 1503)
leaks("c", "bursts", "handlers_burst", 225, 225 * 40 * 1503, bursts=True)
leaks("cc", "leak", "import_all<...>", 200, 200 * 4 * 3 * 2100)


@test
def spread_below_the_function_of_another_finding():
    """Spread growth below the function of larger growth is a sentence of that finding, not a second
    finding."""
    with runtime_dir() as directory, spread(directory, "c", "served") as target:
        found = [finding for finding in found_at(target, 4)["findings"]
                 if finding["id"] == "growth"]
    check_equal([finding["function"].split(",")[0] for finding in found], ["serve"], "what grew")
    check(re.search(r"; below the function that these paths share, 300 more call paths "
                    r"\(handlers_run, spread.c:\d+\) grew by 3\.9 MiB in all",
                    found[0]["evidence"]), found[0]["evidence"])


@test
def spread_healthy():
    """Paths that replace chunks of other paths, and growth that stops, are no alarm."""
    for language, case in (("c", "replaced"), ("c", "full"), ("c", "phases"), ("cc", "bounded")):
        with runtime_dir() as directory, spread(directory, language, case) as target:
            growth = [finding for finding in found_at(target, 4)["findings"]
                      if finding["id"] == "growth"]
            check(not growth, f"{language} {case}: {growth}")


@test
def places_in_one_line_are_told_once():
    """Call paths that differ by their return addresses only are one line of the text."""
    with runtime_dir() as directory, spread(directory, "c", "line") as target:
        first = found_at(target, 4)["findings"][0]
        check_equal((first["id"], first["contexts"]), ("growth", 4), "the finding")
        text = told(target)
    who = labelled(text, 1, "who")
    check_equal(len(re.findall("line_keep", who)), 1 + len(re.findall(r"\d %", who)),
                f"the function and its parts: {who}")
    check(len(re.findall(r"\d %", who)) <= 1, f"a line twice: {who}")
