# SPDX-License-Identifier: MIT
"""The command against faulty servers: each fault gives its message, never a crash."""
import json
import os
import re
import time

import harness
from clitest import expect, fake, succeed
from harness import check, check_equal, in_tries, test, test_named


@test
def fake_server_is_understood():
    """The command accepts the fake server's answer without a fault; else the tests of faults prove
    nothing."""
    with fake("none") as live:
        dump = json.loads(succeed("dump", live.pid, "--json", "--threads", env=live.cli_env))
        check_equal(dump["schema"], "memctx/1", "schema")
        check_equal(dump["pid"], live.pid, "pid")
        check_equal(dump["totals"]["requested_bytes"], 600, "requested_bytes")
        root, label, generated, vdso = dump["contexts"]
        check_equal((root["kind"], root["parent"], root["frame"]), ("unknown", None, None), "root")
        check_equal(label["frame"]["function"], "?[31mred?label", "label, cleaned")
        check_equal(label["kind"], "unknown", "kind of a label")
        check_equal((generated["frame"]["addr"], generated["frame"]["module"]),
                    ("0x5000001", None), "place of generated code")
        check_equal(generated["total"]["requested_bytes"], 500, "a subtotal")
        check_equal((vdso["frame"]["module"], vdso["frame"]["offset"]), ("[vdso]", "0x123"), "vdso")
        check_equal(vdso["threads"]["77"]["allocs"], 5, "allocs of thread 77")
        check_equal(label["threads"]["exited"]["frees"], 2, "frees of exited threads")
        figures = ("private_bytes", "shared_bytes", "file_bytes", "data_bytes", "swap_bytes")
        check_equal(dump["marks"], [{"name": "first", "uptime_s": 1.0,
                                     "elsewhere": dict.fromkeys(figures, 0)}], "marks")
        text = succeed("dump", live.pid, "--min", "0", env=live.cli_env)
        check("Grand total: 600 total in 3 pages; 0 free (3 chunks); 600 used; 600 requested\n"
              in text, f"no grand total in {text}")


@test
def fake_server_small_requests():
    with fake("none") as live:
        check("returned 4096 " in succeed("trim", live.pid, env=live.cli_env), "trim")
        diff = json.loads(succeed("diff", live.pid, "first", "--json", env=live.cli_env))
        grown = {row["id"]: row["growth"]["requested_bytes"] for row in diff["contexts"]}
        check_equal(grown, {2: 200, 3: 250, 1: 100}, "growth since the mark")
        check_equal(diff["totals"]["growth"]["requested_bytes"], 550, "growth of the total")
        expect(1, 'no mark "other"', "diff", live.pid, "other", env=live.cli_env)
        for verb in (["options"], ["options", "--json"], ["dump", "--self"],
                     ["dump", "--self", "--json"], ["ps"], ["ps", "--json"]):
            succeed(*verb, *([] if verb[0] == "ps" else [live.pid]), env=live.cli_env)


@test
def generated_code_is_named_by_perf_map():
    """Code without a file has the name that /tmp/perf-PID.map gives it, if the map is the
    user's."""
    with fake("none") as live:
        path = f"/tmp/perf-{live.pid}.map"
        try:
            with open(path, "w", encoding="ascii") as file:
                # newer code has taken the place of "stale"
                file.write("4000000 10 before\nbroken line\n5000000 10 stale\n"
                           "4ffff00 200 Lfast;\033[2Jpath\n6000000 10 after\n")
            dump = json.loads(succeed("dump", live.pid, "--json", env=live.cli_env))
            check_equal(dump["contexts"][2]["frame"]["function"], "Lfast;?[2Jpath", "its name")
            # The command does not believe a map that belongs to another user.
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
                dump = json.loads(succeed("dump", live.pid, "--json", env=live.cli_env))
                check_equal(dump["contexts"][2]["frame"]["function"], None, "name from a stranger")
        finally:
            os.unlink(path)


# Fault, exit code, message.
HELLO_FAULTS = [
    ("version", 1, r"wire version 54 and this memctx .* speaks 13; use the memctx"),
    ("garbage", 1, r"does not answer like libmemctx.so"),
    ("close", 1, r"closed the connection before it said hello"),
    ("hello-half", 1, r"closed the connection in the middle of its hello"),
    ("hello-type", 1, r"damaged answer; a frame of type"),
    ("hello-length", 1, r"damaged answer; (a hello of|it announces) 8589934592 bytes"),
    ("hello-pid", 3, r"not the process that made its socket"),
    ("hello-ticks", 3, r"the pid was used again"),
]
ANSWER_FAULTS = [
    ("answer-version", 1, r"wire version 14 and this memctx"),
    ("answer-type", 1, r"damaged answer; a frame of type"),
    ("answer-huge", 1, r"announces 1152921504606846976 bytes"),
    ("answer-short", 1, r"8 bytes are not the head"),
    ("answer-empty", 1, r"0 bytes are not the head"),
    ("answer-truncated", 1, r"closed the connection in the middle of its answer"),
    ("answer-large", 1, r"closed the connection in the middle of its answer"),
    ("exe-open", 1, r"the name of the program is cut off"),
    ("piece-short", 1, r"8 bytes are too few for a piece"),
    ("piece-count", 1, r"a context record is cut off"),
    ("record-large", 1, r"a context record is cut off"),
    ("record-small", 1, r"a context record is cut off"),
    ("record-odd", 1, r"a context record is cut off"),
    ("further-first", 1, r"thread figures of a context that is not there"),
    ("views-outside", 1, r"a thread view is cut off"),
    ("no-contexts", 1, r"no contexts"),
    ("label-open", 1, r"a string is cut off"),
    ("label-outside", 1, r"a string is cut off"),
    ("path-open", 1, r"a string is cut off"),
    ("path-outside", 1, r"a string is cut off"),
    ("module-missing", 1, r"a module is missing"),
    ("parent-missing", 1, r"context 3 has no parent before it"),
    ("parent-later", 1, r"context 2 has no parent before it"),
    ("parent-itself", 1, r"context 2 has no parent before it"),
    ("two-roots", 1, r"context 2 has no parent before it"),
    ("no-root", 1, r"first context is not the root"),
    ("id-twice", 1, r"context 2 occurs twice"),
    ("kind", 1, r"kind or module that does not exist"),
    ("module", 1, r"kind or module that does not exist"),
    ("build-id", 1, r"build-id of 1000 bytes"),
    ("marks", 1, r"(a mark record is cut off|too many marks)"),
    ("deep", 1, r"more than 1024 levels deep"),
    ("refuse", 1, r" refused the request: no: \?\[31mnot today"),
    ("no-memory", 1, r" refused the request: it has no memory for an answer"),
]


def fault_test(fault, code, pattern):
    @test_named(f"fault-{fault}")
    def run():
        with fake(fault) as live:
            # the flat list does not show the fault
            flat = [] if fault == "deep" else [["dump", "--flat"]]
            # top reads neither the program's name nor marks.
            answers = fault in (entry[0] for entry in ANSWER_FAULTS) and fault not in ("exe-open",
                                                                                       "marks")
            live_view = [["top", "--batch", "1", "--interval", "0.1"]] if answers else []
            verbs = (["dump"], ["dump", "--json"], *flat, ["frag"], ["doctor"], *live_view)
            # After "close" each command tries again for 5 s, so they all run at a time.
            for_each = harness.together if fault == "close" else map
            list(for_each(lambda words: expect(code, pattern, *words, live.pid, env=live.cli_env),
                          verbs))
            succeed("ps", env=live.cli_env)  # ps works beside a faulty process


for entry in HELLO_FAULTS + ANSWER_FAULTS:
    fault_test(*entry)


def pages_test(fault, pattern):
    @test_named(f"fault-{fault}")
    def run():
        with fake(fault) as live:
            for words in (["frag"], ["frag", "--json"]):
                expect(1, pattern, *words, live.pid, env=live.cli_env)


for words in (("pages-count", "a page record is cut off"),
              ("pages-shares", "shares that do not exist"),
              ("pages-share", "shares that do not exist"),
              ("pages-further", "shares of a page that is not there"),
              ("pages-further-own", "shares that do not exist")):
    pages_test(*words)


@test
def fault_thread_heap():
    with fake("thread-heap") as live:
        expect(1, "a thread record is cut off", "dump", "--threads", live.pid, env=live.cli_env)


@test
def dropped_connections_are_made_again():
    """If the target closes the connection during a dump, the command says so and connects again."""
    with fake("dropped") as live:
        done = expect(0, "waiting for a free connection", "dump", live.pid, "--json",
                      env=live.cli_env)
        check_equal(json.loads(done.stdout)["totals"]["requested_bytes"], 600, "requested_bytes")
        expect(0, "waiting for a free connection", "diff", live.pid, "first", env=live.cli_env)


@test
def another_program_is_not_asked():
    """If the target executes another program during a dump, the command does not go on with the
    figures of that program."""
    for words in (("dump", "--json"), ("doctor",), ("trim", "2"), ("isolate", "2")):
        with fake("executes") as live:
            done = expect(3, "executed another program while it was asked", words[0], live.pid,
                          *words[1:], env=live.cli_env)
            check_equal(done.stdout, "", f"{words}: output")


@test
def connections_closed_between_looks_are_made_again():
    """If the target closes the connection after each look, every look of top has figures."""
    with fake("idle") as live, fake("idle", live.runtime) as other:
        text = succeed("top", live.pid, other.pid, "--batch", "2", "--interval", "0.1", "--json",
                       env=live.cli_env)
        seen = [one["reason"] for line in text.splitlines()
                for one in json.loads(line)["processes"]]
        check_equal(seen, len(seen) * [None], "reasons for looks without an answer")
        succeed("top", live.pid, "--batch", "2", "--interval", "0.1", env=live.cli_env)


@test
def contexts_keep_their_numbers_until_they_are_named():
    """A verb that looks for contexts in a dump sends their numbers before it ends that dump:
    afterwards the process may give these numbers other meanings, as this server does."""
    with fake("ids-go") as live:
        for words in (("isolate", live.pid, 2), ("trim", live.pid, 2),
                      ("isolate", live.pid, "--site", "."),
                      ("reset", live.pid, "--site", ".")):
            succeed(*words, env=live.cli_env)


@test
@in_tries  # fails if the command asks again before the server has closed the connection
def a_connection_that_was_idle_is_made_again():
    """A request that changes something is sent over a new connection, if the target has closed the
    old one while the command looked up names."""
    with fake("idle") as live:
        for words in (("isolate", "--site", "."), ("reset", "--site", ".")):
            succeed(words[0], live.pid, *words[1:], env=live.cli_env)


@test
def pages_without_end():
    """The command ends although a server always announces more pages, at a position already
    read."""
    with fake("pages-loop") as live:
        found = json.loads(succeed("frag", live.pid, "--json", env=live.cli_env))
        by_id = {context["id"]: context for context in found["contexts"]}
        check(by_id[3]["chunks_seen"] >= 40, f"context 3 was seen in two answers: {by_id[3]}")


@test
def pages_tell_who_shares_them():
    with fake("pages") as live:
        found = json.loads(succeed("frag", live.pid, "--json", env=live.cli_env))["pinners"]
        one = next(pinner for pinner in found if pinner["context"] == 3)
        check_equal((one["chunks"], one["alone_bytes"], one["alone_free_bytes"],
                     one["shared_free_bytes"], one["partners"]),
                    (20, 16384, 16384 - 15 * 64, (16384 - 15 * 64) * 5 // 15,
                     [{"context": 2, "block_bytes": 640}]), "context 3")
        check_equal(one["what_if"]["isolate_bytes"], -4096,
                    "apart: its five blocks need an OS page")
        shown = succeed("frag", live.pid, env=live.cli_env)
        check("these pages also hold 640 of context 2" in re.sub(r"\n +", " ", shown), shown)


@test
def fault_mark_missing():
    with fake("mark-missing") as live:
        expect(1, 'no longer has the mark "first"', "diff", live.pid, env=live.cli_env)


@test
def fault_trim_short():
    with fake("trim-short") as live:
        expect(1, "damaged answer", "trim", live.pid, env=live.cli_env)


@test
def fault_refused_small_requests():
    with fake("refuse") as live:
        for words in (["mark"], ["reset"], ["trim"], ["options"], ["dump", "--self"]):
            expect(1, r" refused the request: no: \?\[31mnot today", *words, live.pid,
                   env=live.cli_env)
        expect(1, " refused the request: ", "set", live.pid, "depth=5", env=live.cli_env)


@test
def extreme_figures_overflow_nothing():
    with fake("extreme") as live:
        dump = json.loads(succeed("dump", live.pid, "--json", env=live.cli_env))
        check_equal(dump["totals"]["requested_bytes"], None, "a sum with an unknown part")
        check_equal(dump["totals"]["allocs"], None, "a sum that does not fit")
        for words in (["dump"], ["dump", "--flat", "--human"], ["frag"], ["doctor"],
                      ["doctor", "--json"], ["frag", "--json"],
                      ["diff"], ["diff", "--json"], ["dump", "--sort", "waste", "--min", "0"],
                      ["top", "--batch", "2", "--interval", "0.1"],
                      ["top", "--batch", "2", "--interval", "0.1", "--tree", "--json"]):
            succeed(*words, live.pid, env=live.cli_env)


def late(fault, pattern, at_least_s, at_most_s):
    """Checks that the command gives up waiting for a server with this fault."""
    with fake(fault) as live:
        started = time.monotonic()
        expect(1, pattern, "dump", live.pid, env=live.cli_env)
        took = time.monotonic() - started
        check(at_least_s <= took <= at_most_s, f"the command gave up after {took:.1f} s")


@test
def silent_server_is_given_up():
    late("silent", "did not answer in time before it said hello", 3, 20)


@test
def stalled_server_is_given_up():
    late("answer-stalled", "did not answer in time in the middle.*memctx dump --outside [1-9]", 3,
         20)


@test
def stopped_server_is_given_up():
    late("answer-stopped", "was stopped when it was asked, so it cannot answer; kill -CONT [1-9]",
         0.5, 20)


@test
def slow_server_is_waited_for():
    with fake("slow") as live:
        check("Grand total" in succeed("dump", live.pid, env=live.cli_env), "no dump")
