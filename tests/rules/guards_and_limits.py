# SPDX-License-Identifier: MIT
"""Options of rules: guards, pages, zeroing, limits."""
import json
import re
import signal

import harness
from harness import (check, check_equal, dump_json, run_cli, runtime_dir, test, test_named,
                     wait_until)
from rulestest import LIMIT, functions, listed, program, started, target, use

FAULTS = {
    "overflow": (signal.SIGSEGV, r"write to 0x[0-9a-f]+, 12 bytes past the end of a chunk of 100 "
                                 r"bytes; context \d+", False),
    "overflow_of_one": (signal.SIGSEGV, r"write to 0x[0-9a-f]+, 0 bytes past the end of a chunk of "
                                        r"4096 bytes; context \d+",
                        False),
    "overflow_read": (signal.SIGSEGV, r"read of 0x[0-9a-f]+, 0 bytes past the end of a chunk of 64 "
                                      r"bytes; context \d+", False),
    "overflow_in_tail": (signal.SIGABRT, r"write past the end of 0x[0-9a-f]+; a chunk with a guard "
                                         r"page of context \d+", False),
    "use_after_free": (signal.SIGSEGV, r"write to 0x[0-9a-f]+, in a chunk of 100 bytes that was "
                                       r"freed; context \d+", True),
    "use_long_after_free": (signal.SIGSEGV, r"read of 0x[0-9a-f]+, in a chunk of 100 bytes that "
                                            r"was freed; context \d+", True),
    "freed_by_another": (signal.SIGSEGV, r"write to 0x[0-9a-f]+, in a chunk of 100 bytes that was "
                                         r"freed; context \d+", True),
    "double_free":
    (signal.SIGABRT, r"double free of 0x[0-9a-f]+; a chunk with a guard page of context \d+", True),
}


def parts(lines):
    """Returns {"allocated", "freed", ...: functions of that call path} of a misuse report."""
    paths, now = {}, None
    for line in lines:
        if re.fullmatch(r"memctx:   \w+ by", line):
            now = paths.setdefault(line.split()[1], [])
        elif now is not None:
            now.append(line)
    return {title: functions(path) for title, path in paths.items()}


def guards_find(case, ending, line, freed):
    def run():
        for extra in ({}, {"MEMCTX_DEPTH": "5"}, {"MEMCTX_CHECK": "1"}):
            done = use(case, "row_new=guard", **extra)
            check_equal((done.returncode, done.stdout), (-ending, ""), f"{case} {extra}")
            first, *others = done.stderr.splitlines()
            check(re.fullmatch("memctx: " + line, first), f"said: {done.stderr}")
            paths = parts(others)
            check_equal(paths["allocated"][:3], ["row_new", case, "main"], "who allocated")
            if freed:
                check_equal(paths["freed"][0], "row_free", "who freed")
            else:
                check("freed" not in paths, f"said: {done.stderr}")
            by = paths["found" if case == "overflow_in_tail" else "misused"]
            check(case in by and "main" in by, f"who was at fault: {by}")
            said = done.stderr.split(" by\n")[-1].splitlines()[0]
            check("rules-use+0x" in said, f"the path begins where the signal came from: {said}")
        plain = use(case, "row_new=aset")
        check(plain.returncode in (0, -signal.SIGABRT) and "guard" not in plain.stderr,
              f"without: {plain.stderr}")
    test_named("guard-finds-" + case.replace("_", "-"))(run)


for fault, (ends, words, was_freed) in FAULTS.items():
    guards_find(fault, ends, words, was_freed)


@test
def guard_leaves_other_faults_to_the_program():
    done = use("own_handler", "row_new=guard")
    check_equal((done.returncode, done.stdout, done.stderr), (7, "own handler\n", ""),
                "its own handler")
    done = use("jumping_handler", "row_new=guard")
    check_equal((done.returncode, done.stdout, done.stderr),
                (0, "fault 1 at 0x10\nfault 1 at 0x11\n", ""), "a handler that jumps")


@test
def guard_leaves_sent_signals_as_they_are():
    done = use("sent_signal", "row_new=guard")
    check_equal((done.returncode, done.stdout, done.stderr), (-signal.SIGSEGV, "", ""),
                "a signal that was sent")
    done = use("ignored_signal", "row_new=guard")
    check_equal((done.returncode, done.stdout, done.stderr), (0, "ignored\n", ""),
                "one that is ignored")


@test
def guards_hold_in_forked_children():
    done = use("forked", "row_new=guard")
    check_equal((done.returncode, done.stdout), (0, f"{int(signal.SIGSEGV)}\n"),
                "how the child ended")
    check("12 bytes past the end of a chunk of 100 bytes" in done.stderr, done.stderr)


@test
def guards_are_counted():
    with runtime_dir() as directory, target(directory, "many", "row_*=guard") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        rule, = listed(process)
        check(rule["guarded"] > 10000 and rule["unguarded"] == 0, f"guarded: {rule}")
        dump = dump_json(process.pid, env=process.cli_env)
        check(dump["exact"] is True, "not exact")
        rows = [context for context in dump["contexts"] if context["self"]["live_chunks"] > 100]
        check(rows and all(row["why"] == "row_*=guard" for row in rows),
              f"why: {[row.get('why') for row in rows]}")
        findings = json.loads(run_cli("doctor", "--json", process.pid,
                                      env=process.cli_env).stdout)["findings"]
        check("rounding" not in [finding["id"] for finding in findings],
              "what a guard takes is not the program's rounding")
        process.say("")
        check_equal(process.hear(), "begun", "all freed")
        check_equal([rule["live_chunks"] for rule in listed(process)], [0], "what is left")
        process.say("")
        check_equal(process.process.wait(timeout=harness.PATIENCE_S), 0, "at the end")


@test
def guards_have_a_bound():
    """At most 16 000 chunks have a guard, because each needs mappings; further chunks have none."""
    with runtime_dir() as directory, target(directory, "past_the_bound", "row_*=guard") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        rule, = listed(process)
        check_equal((rule["guarded"], rule["unguarded"]), (16000, 1000), "guards")
        process.say("")
        check_equal(process.process.wait(timeout=harness.PATIENCE_S), 0, "at the end")


@test
def freed_chunks_with_guards_have_no_memory():
    done = use("freed_memory", "row_new=guard")
    check_equal((done.returncode, done.stderr), (0, ""), "how it ended")
    full, left = map(int, done.stdout.split())
    check(full > 20000000 and left < full / 4, f"{full} bytes with all rows, {left} without")


for wanted in ("own", "zero", "guard", "page:16K", "page:64K", "slab,own", "generation,own",
               "bump,zero", "simple", "simple,own,zero", "slab,page:64K,zero",
               "generation,page:16K", "limit:8M", "bump,limit:8M,zero", "warn:1M",
               "mixed,limit:8M"):
    def works(options=wanted):
        for extra in ({}, {"MEMCTX_CHECK": "1"}, {"MEMCTX_DEPTH": "1"},
                      {"MEMCTX_FREELIST_KIB": "0", "MEMCTX_DECAY_MS": "0"}):
            with runtime_dir() as directory, started(directory, [program(), "many"],
                                                     [f"regex:^row_(new|resize)$={options}"],
                                                      **extra) as process:
                check_equal(process.hear(), "begun", f"{options} {extra}")
                process.wait_socket()
                dump = dump_json(process.pid, "--threads", env=process.cli_env)
                harness.check_sums(dump)
                rows = [context for context in dump["contexts"] if context.get("why")]
                check(sum(row["self"]["live_chunks"] for row in rows) > 1000,
                      "the rule holds for the rows")
                if "own" in options or "page" in options or "zero" in options:
                    check(all(row["policy"] != "mixed" for row in rows), "own pages")
                process.say("")
                check_equal(process.hear(), "begun", f"{options} {extra}: all freed")
                process.say("")
                check_equal(process.process.wait(timeout=harness.PATIENCE_S), 0,
                            f"{options} {extra}")
    test_named("option-" + re.sub(r"\W+", "-", wanted))(works)


def page_bytes(options):
    """(reserved bytes, pages) of a path with one chunk that a rule with these options places."""
    with runtime_dir() as directory, target(directory, "patterns", f"row_new={options}") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        dump = dump_json(process.pid, env=process.cli_env)
        rows = [context for context in dump["contexts"]
                if context["self"]["requested_bytes"] == 3000 and context.get("why")]
        check_equal(len(rows), 1, f"paths with a reason: {rows}")
        return rows[0]["self"]["reserved_bytes"], rows[0]["self"]["pages"]


@test
def pages_are_its_own_from_the_first_chunk_on():
    check_equal([page_bytes(options)
                 for options in ("own", "slab,own", "bump,own", "bump,page:16K", "bump,page:64K")],
                [(65536, 1), (65536, 1), (65536, 1), (16384, 1), (65536, 1)], "bytes and pages")


@test
def zero_zeroes():
    for options in ("zero", "zero,slab", "zero,generation", "zero,bump", "zero,page:64K",
                    "zero,page:16K"):
        done = use("zeroed", f"row_*={options}")
        check_equal((done.returncode, done.stderr), (0, ""), options)
        check(re.fullmatch("1{12,13}\n", done.stdout), f"{options}: {done.stdout}")
    check("0" in use("zeroed", "row_*=own").stdout, "without it all is zero, too")


@test
def a_rule_with_the_number_of_a_cleared_one_holds():
    for before, then in (("own", "zero"), ("slab", "zero,slab"), ("bump", "zero")):
        with runtime_dir() as directory, target(directory, "zeroed_later",
                                                f"row_*={before}") as process:
            check_equal([process.hear() for _ in range(2)], ["0", "begun"], before)
            process.wait_socket()
            done = run_cli("rules", process.pid, "--clear", "--add", f"row_*={then}",
                           env=process.cli_env)
            check_equal(done.returncode, 0, done.stderr)
            check_equal([process.ask(""), process.hear()], ["1", "begun"], f"{before}, then {then}")


@test
def limit_fails_with_enomem():
    for options in ("", ",slab", ",generation", ",own", ",mixed", ",zero", ",simple"):
        with runtime_dir() as directory, target(directory, "limited",
                                                f"row_new=limit:1M{options}") as process:
            check_equal([process.hear() for _ in range(6)],
                        ["1048 ENOMEM", "again", "full", "other", "moved to another path", "begun"],
                        f"with limit:1M{options}")
            process.wait_socket()
            rule, = listed(process)
            check_equal((rule["limit_bytes"], rule["passed"]), (LIMIT, 2), "as the rule tells")
            text = run_cli("rules", process.pid, env=process.cli_env).stdout
            check("its limit of 1048576 was exceeded 2 times" in text, text)
            process.say("")
    check_equal(use("limited", "row_old=limit:1M").stdout.splitlines()[0], "4000 no limit",
                "another path")
    check_equal(use("limited_resizes", "row_*=limit:1M").stdout.split("\n")[:4],
                ["resized", "full", "full", "resized"], "realloc")


@test
def limit_holds_for_all_threads_together():
    most = LIMIT // 1000
    counts = [int(use("limited_threads", "row_new=limit:1M").stdout) for _ in range(5)]
    check(all(most <= count <= most + 8 for count in counts), f"granted {counts}, of {most}")


@test
def warn_names_the_path_once():
    with runtime_dir() as directory, target(directory, "warned", "row_new=warn:1M") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        wait_until(lambda: listed(process)[0].get("passed"), "the look at limits")
        process.say("")
        check_equal(process.hear(), "begun", "second")
        process.say("")
        check_equal(process.hear(), "begun", "third")
        process.say("")
        check_equal(process.process.wait(timeout=harness.PATIENCE_S), 0, "at the end")
        said = process.process.stderr.read()
        said = said.decode() if isinstance(said, bytes) else said
    lines = said.splitlines()
    check_equal(lines[0], "memctx: the limit of the rule row_new=warn:1M is exceeded; its latest "
                          "allocation", "the line")
    check_equal(sum("is exceeded" in line for line in lines), 1, f"said: {said}")
    check_equal(functions(lines)[:2], ["row_new", "warned"], "the path")
