# SPDX-License-Identifier: MIT
"""Growth spread over many call paths, each too small for a finding of its own, is one finding. Two
leaks of one script are two findings."""
import json
import os
import re

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test, test_named
from cases import check_healthy
from planted import ALARMING, found_at, installed, names
from text import labelled, told


def spread(directory, language, case):
    program = harness.build_program(f"tests/diagnosis/spread.{language}", f"spread-{language}")
    return Target([program, case], directory, MEMCTX_CONTROL="eager")


def check_recorded(target, file):
    """Checks that the next command works also with a mark whose name begins with a dash, as the
    marks of a recording do."""
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
    """Registers a test: doctor tells one leak of `planted_bytes` bytes in about so many paths,
    whose cause is `function`. `bursts`: each path makes its chunks in one round."""
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


def alarms_at(target, looks):
    """Returns the alarms at that look; all are about growth."""
    alarms = [one for one in found_at(target, looks)["findings"] if one["severity"] in ALARMING]
    check_equal({one["id"] for one in alarms}, {"growth"}, f"alarms: {alarms}")
    return alarms


@test
def places_of_an_unrolled_loop_are_one_path():
    """Growth is found if each round has its own return address in one line of the source. The text
    names the whole path."""
    with runtime_dir() as directory, spread(directory, "c", "unrolled") as target:
        alarms, text = alarms_at(target, 4), told(target)
    check_equal([(one["function"].split(",")[0], one["contexts"]) for one in alarms],
                [("request_keep", 4)], "the findings")
    check("a cache that is not full yet" in alarms[0]["evidence"], alarms[0]["evidence"])
    check(re.match(r"request_keep \(spread.c:\d+\) < stage_keep \(spread.c:\d+\) < unrolled ",
                   labelled(text, 1, "who")), text)


@test
def tasks_and_their_buffers():
    """Chunks of two threads are one finding if there are equally many at each look, else two."""
    with runtime_dir() as directory, spread(directory, "c", "tasks") as target:
        alarms, text = alarms_at(target, 4), told(target)
    check_equal([one["contexts"] for one in alarms], [2], f"call paths: {alarms}")
    check("these call paths have no function in common, as those of different threads, but at each "
          "look there were as many chunks of one as of another" in alarms[0]["evidence"],
          alarms[0]["evidence"])
    check("task_spawn" in labelled(text, 1, "who") and "buffer_open" in labelled(text, 1, "who"),
          text)
    with runtime_dir() as directory, spread(directory, "c", "unlike") as target:
        alarms = alarms_at(target, 4)
    check_equal([one["contexts"] for one in alarms], [1, 1], f"call paths: {alarms}")


PYTHON_CACHES = """
import sys
pictures, texts = [], {}
for round in range(6):
    for i in range(2000 + 1500 * (round % 2) * uneven):
        pictures.append(bytearray(900))
    for i in range(1400 - 500 * (round % 2) * uneven):
        texts[round, i] = 'text %d ' % i * 90
    print("look", flush=True)
    sys.stdin.readline()
"""

PYTHON_CLASS = """
import random, sys
random.seed(2)
class Session:
    def __init__(self, number):
        self.number, self.name = number, "name %d" % number
        if random.random() < .6:
            self.note = bytearray(300)
        self.tags = [str(k) for k in range(number % 5)]
kept = {}
for round in range(6):
    for number in range(3000 + 1500 * (round % 2)):
        kept[round, number] = Session(number)
    print("look", flush=True)
    sys.stdin.readline()
"""


PYTHON_WAITING = """
import sys
kept = []
for waiting in (0, 260, 0, 260, 0, 260, 0, 260):
    for number in range(1000):
        kept.append((bytearray(600), "text %d " % number * 40))
    for number in range(60000):
        text = "text %d " % number * 40
    texts = ["text %d " % number * 40 for number in range(waiting)]
    print("look", flush=True)
    sys.stdin.readline()
"""

PYTHON_FEW = """
import random, sys
random.seed(2)
class Session:
    def __init__(self):
        self.page = bytearray(20000)
        if random.random() < .6:
            self.note = b"%d" % random.random() + bytes(9000)
kept = []
for round in range(12):
    kept += [Session() for number in range(40)]
    print("look", flush=True)
    sys.stdin.readline()
"""


def alarms_of_python(script, looks=6, **extra):
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", script], directory,
                                            MEMCTX_CONTROL="eager", **extra) as target:
        return alarms_at(target, looks)


@test
def two_leaks_of_a_script():
    """Two leaks are two findings if they grow in different intervals, or if their numbers have a
    fixed ratio that no object explains."""
    for uneven in "01":
        alarms = alarms_of_python(f"uneven = {uneven}\n{PYTHON_CACHES}")
        check_equal(["PyByteArray_Resize" in one["path"] for one in alarms], [True, False],
                    f"uneven {uneven}: {[one['path'] for one in alarms]}")


@test
def objects_of_a_script_that_own_different_chunks():
    """Objects are one finding, also if only some of them own a chunk of a kind."""
    alarms = alarms_of_python(PYTHON_CLASS, PYTHONMALLOC="malloc")
    check_equal(len(alarms), 1, f"alarms: {[(one['path'], one['evidence']) for one in alarms]}")


@test
def objects_beside_chunks_that_come_and_go():
    """Objects are one finding, also if the numbers of their chunks differ by chance: at a look,
    other chunks of one path may be alive, which are freed soon."""
    alarms = alarms_of_python(PYTHON_WAITING, looks=8, PYTHONMALLOC="malloc")
    check_equal(len(alarms), 1, f"alarms: {[(one['path'], one['evidence']) for one in alarms]}")


@test
def few_objects_in_many_intervals():
    """Objects are one finding, also if too few are made between two looks to tell their rhythm."""
    alarms = alarms_of_python(PYTHON_FEW, looks=12, PYTHONMALLOC="malloc")
    check_equal(len(alarms), 1, f"alarms: {[(one['path'], one['evidence']) for one in alarms]}")


@test
def buffers_of_several_depths_are_added_up():
    """Buffers of JavaScript are an alarm from 64 MiB on. The contexts of a recursion, which stand
    for one path, are added up."""
    with runtime_dir() as directory, spread(directory, "cc", "buffers") as target:
        alarms = alarms_at(target, 4)
    check_equal([(one["function"].split(",")[0], one["contexts"]) for one in alarms],
                [("v8::internal::BackingStore::Allocate", 10)], f"{alarms}")


PERL_TABLE = """
$| = 1;
srand(3);
my %table;
for my $round (1 .. 9) {
    for (1 .. 10000) {
        my $key = int rand 20000;
        my $text = "x" x int rand 1000;
        $table{$key} = $text;
    }
    print "look\\n";
    <STDIN>;
}
"""


@test
def table_of_texts_that_keep_their_largest_size():
    """The texts of a hash that is full keep the largest of their sizes. So their sum grows ever
    more slowly, and realloc moves them from call path to call path. That is no alarm."""
    with runtime_dir() as directory, Target([installed("perl"), "-e", PERL_TABLE], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_healthy(target)
