# SPDX-License-Identifier: MIT
"""doctor's text about memory that malloc did not give: its first line, and the text of each
label."""
import json
import os
import re
import shutil

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test, test_named
from more_cases import PYTHON_GROWS, more_c, more_cc
from planted import doctor, found_at, planted
from text import is_command, labelled, told, verdict

AMOUNT = r"[0-9.]+ [KMG]iB"


def check_told(target, kind, fix, following):
    """Checks that the first finding of `doctor --watch` is the growth of this kind of memory."""
    check_equal(target.hear(), "look", "what the program says")
    text = told(target, "--watch", "2")
    check(re.search(rf"in use: in [0-9.]+ s, {AMOUNT} were added to {kind}(;|$)", verdict(text)),
          text)
    check(re.search(r"^\n1\. (warning|critical): growth of memory", text, re.M), text)
    for label, says in (("since", r"^at least [0-9.]+ s ago$"), ("who", None),
                        ("why", "^The program, its libraries"), ("fix", fix),
                        ("now", "^no command returns memory that is not from malloc$"),
                        ("sure", "^likely: it grew while memctx watched"), ("next", following)):
        said = labelled(text, 1, label)
        check(bool(re.search(says, said or "")) if says else said is None,
              f"{label}, {says}: {text}")
    wide = [line for line in text.splitlines() if len(line) > 80 and not is_command(line)]
    check_equal(wide, [], "lines that do not fit")
    return verdict(text)


def keep_told(case, kind, start):
    def run():
        with runtime_dir() as directory, start(directory, case) as target:
            return check_told(target, kind, "^Find out which code maps this memory",
                              "^grep .*/maps$")
    test_named(f"growth-elsewhere-is-told-{case}")(run)


keep_told("brk", "the brk heap", more_c)
keep_told("moved", "mappings that the program made itself", more_cc)


@test
def growth_elsewhere_is_told_python():
    argv = ["/usr/bin/python3", "-c", PYTHON_GROWS]
    with runtime_dir() as directory, Target(argv, directory, MEMCTX_CONTROL="eager") as target:
        return check_told(target, "mappings that the program made itself",
                          "PYTHONMALLOC=malloc, each object has a call path",
                          "^start the program again, with PYTHONMALLOC=malloc")


@test
def growth_elsewhere_is_told_php():
    """The runtime is known by the name of its program."""
    with runtime_dir() as directory:
        program = shutil.copy(harness.build_program("tests/diagnosis/planted_more.c",
                                                    "planted-more-c"),
                              os.path.join(directory, "php8.2"))
        with Target([program, "maps"], directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "look", "what the program says")
            text = told(target, "--watch", "1")
    check(labelled(text, 1, "next") == "start the program again, with USE_ZEND_ALLOC=0, then look "
                                       "again", text)


@test
def a_report_says_that_no_policy_saves_rounding():
    """memctx report also says why no policy saves the rounding of a finding."""
    with runtime_dir() as directory, more_c(directory, "rows", "8000", "9300", "9300", "0",
                                            "any") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        page = os.path.join(directory, "page.html")
        done = run_cli("report", target.pid, "-o", page, env=target.cli_env)
        check_equal(done.returncode, 0, f"memctx report: {done.stderr}")
        with open(page, encoding="utf-8") as report:
            check("no policy saves this memory" in report.read(), "the reason")


@test
def room_behind_a_buffer_that_grows_is_no_rounding():
    """Behind a large chunk that realloc makes larger is room for its growth, and the chunk may have
    grown between the reading of its size and of its block. Its block is not the next larger size of
    blocks."""
    with runtime_dir() as directory:
        with planted(directory, "one-buffer") as target:
            found_at(target, 5, ask=lambda target: None)
            dump = target.dump()
        grows = {one["context"] for one in dump["reallocs"] if one["grows"] > 1000}
        for context in dump["contexts"]:
            for figures in (context["self"], context["total"]) if context["id"] in grows else ():
                figures["block_bytes"] += 9 << 20
        file = os.path.join(directory, "dump.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(dump, out)
        found = doctor(target, pid=file)["findings"]
        check_equal([one["id"] for one in found if one["id"] == "rounding"], [], f"{found}")
