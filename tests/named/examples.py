# SPDX-License-Identifier: MIT
"""The programs in examples/: they do what docs/contexts.md and README.md show of them."""
import json
import os
import re

import harness
from harness import (Target, build_program, check, check_equal, clean_env, dump_json, preloaded_env,
                     run_program, runtime_dir, test)


def example(name):
    return build_program(f"examples/{name}", f"example-{name.removesuffix('.c')}", ["-pthread"])


def check_said_by(page, text):
    with open(os.path.join(harness.ROOT, page), encoding="utf-8") as file:
        check(text in file.read(), f"{page} does not show what the program prints: {text!r}")


@test
def example_server():
    program = example("server.c")
    done = run_program([program], preloaded_env(), stdin="abc\nrats live\n")
    check_equal((done.returncode, done.stdout, done.stderr),
                (0, "cba\nevil star\n", "allocated 4 chunks, freed 4, alive 0\n"), "the server")
    check_said_by("docs/contexts.md",
                  "$ printf 'abc\\nrats live\\n' | memctx run -- ./server\n"
                  f"{done.stdout}{done.stderr}")
    done = run_program([program], clean_env(), stdin="abc\n")
    check_equal((done.returncode, done.stdout), (0, "cba\n"), "without the library")


@test
def example_worker_pool():
    """examples/worker_pool.c frees three chunks of each job at once, also the one of another
    thread."""
    program = example("worker_pool.c")

    def said(chunks):
        return "".join(f"job {i}: {text}, {chunks} chunks freed at once\n"
                       for i, text in enumerate(("ONE", "TWO", "THREE", "FOUR")))

    done = run_program([program], preloaded_env())
    check_equal((done.returncode, done.stdout, done.stderr), (0, said(3), ""), "the pool")
    check_said_by("docs/contexts.md", f"$ memctx run -- ./worker_pool\n{done.stdout}")
    done = run_program([program], clean_env())
    check_equal((done.returncode, done.stdout, done.stderr), (0, said(0), ""),
                "without the library")


@test
def example_rule():
    """examples/rows.c: with the rule for a slab, the blocks are a tenth smaller."""
    program = example("rows.c")
    held = []
    for rules in ("", "row_new=slab"):
        with runtime_dir() as directory, Target([program], directory, MEMCTX_CONTROL="eager",
                                                MEMCTX_RULES=rules) as target:
            check_equal(target.hear(), "done", "first")
            target.wait_socket()
            rows = [context for context in dump_json(target.pid, env=target.cli_env)["contexts"]
                    if context["self"]["live_chunks"] > 10000]
            check_equal([context["policy"] for context in rows], ["slab" if rules else "aset"],
                        "policy")
            held.append(rows[0]["self"]["block_bytes"])
            target.say("")
    check(held[0] > 20000 * 1140 and held[1] < 20000 * 1060, f"blocks: {held}")
    return f"{held[0]} and {held[1]} bytes of blocks"


def masked(text):
    """The text in one line, with N in place of each number and its unit: the library's own memory
    is sometimes just below a MiB and sometimes just above."""
    return re.sub(r"\d+(\.\d+)?( [KMG]iB)?", "N", " ".join(text.split()))


def check_readme_shows(findings, pid):
    """Checks that README.md shows what doctor prints about examples/sessions.c, except numbers and
    the advice to set marks."""
    with open(os.path.join(harness.ROOT, "README.md"), encoding="utf-8") as file:
        shown = file.read().split("$ memctx doctor sessions\n")[1].split("```")[0]
    found = findings.split("0 marks")[0].replace("example-sessions", "sessions")
    check_equal(masked(shown), masked(re.sub(rf"(memctx \w+) {pid}\b", r"\1 sessions", found)),
                "the findings in README.md")


@test
def example_rule_for_a_fragmenting_program():
    """examples/sessions.c: with the rule, long-lived chunks have own pages, and the resident set is
    smaller."""
    program = example("sessions.c")
    resident = []
    for rules in ("", "session_new=aset"):
        with runtime_dir() as directory, Target([program], directory, MEMCTX_CONTROL="eager",
                                                MEMCTX_RULES=rules) as target:
            check_equal(target.hear(), "answered", "first")
            resident.append(harness.rss_kib(target.pid))
            if not rules:
                found = json.loads(harness.run_cli("doctor", "--json", target.pid,
                                                   env=target.cli_env).stdout)["findings"]
                check(found and found[0]["id"] == "nearly-empty-pages" and
                      "session_new" in json.dumps(found[0]["path"]),
                      f"doctor: {found[:1]}")
                check_readme_shows(harness.run_cli("doctor", target.pid, env=target.cli_env).stdout,
                                   target.pid)
            target.say("")
    check(resident[1] < resident[0] - (10 << 10), f"resident: {resident} KiB")
    return f"{resident[0]} and {resident[1]} KiB resident"
