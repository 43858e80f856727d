# SPDX-License-Identifier: MIT
"""Output of the command about folded recursion, merged call paths and the share of whole paths."""
import json
import os
import re
import time

from clitest import expect, scratch, succeed, target
from harness import build_program, check, check_equal, test
from profiles import Made, export

RECURSE = "tests/cli/programs/recurse.c"
FLAGS = ["-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls"]
VISITS = {"visit", "generic_visit", "visit_call"}
# Lines whose figures change while the target waits; the tests do not compare them.
MOVING = r"(?m)^(recurse|metadata|control thread|page headers|freelist|mixed pages).*\n"


def still(text):
    return re.sub(MOVING, "", text)


def function(context):
    return context["frame"] and context["frame"]["function"]


def full_paths(dump):
    """Sums over the contexts in the JSON without a label such as [truncated] on their path."""
    labelled, sums = {}, {"requested_bytes": 0, "allocs": 0}
    for context in dump["contexts"]:
        labelled[context["id"]] = labelled.get(context["parent"], False) or (
            context["kind"] == "unknown" and context["parent"] is not None)
        for key in sums:
            sums[key] += 0 if labelled[context["id"]] else context["self"][key]
    return sums


@test
def recursion_reads_well():
    """A folded recursion is printed as its function and the functions of its loop, also from
    snapshots of both forms and in diff; profiles have the plain names."""
    program = build_program(RECURSE, "recurse", FLAGS)
    with target([program], MEMCTX_TABLES="768K", MEMCTX_FOLD="auto") as live, scratch() as where:
        env, names = live.cli_env, [os.path.join(where, name) for name in ("a", "b.json", "c")]
        tree, flat = (succeed("dump", live.pid, *words, env=env)
                      for words in ([], ["--flat", "--limit", "5"]))
        plain = succeed("dump", live.pid, "--json", env=env)
        dump = json.loads(plain)
        loops = {tuple(context["recursive"])
                 for context in dump["contexts"] if "recursive" in context}
        check(loops and all(loop and loop[0] == "visit" and set(loop) <= VISITS for loop in loops),
              f"loops {loops}")
        by_id = {context["id"]: context for context in dump["contexts"]}
        for context in dump["contexts"]:
            if "recursive" in context:
                check_equal(function(context), context["recursive"][0],
                            "a loop begins with its function")
                check_equal(function(by_id[context["recursive_from"]]), context["recursive"][-1],
                            "where it ends")
        want = {f"(recursive: {' > '.join(loop[:4])}" for loop in loops}
        for text, what in ((tree, "the tree"), (flat, "the list")):
            got = set(re.findall(r"^ *(?:< )?visit \(recurse\.c:\d+\)  (\(recursive: [^)]*)\)",
                                 text, re.M))
            check(got and got <= want, f"{what} has {got}, not {want}")
            check(">=" not in text and "since admitted" not in text, f"{what} has marks: {text}")
        check_equal(dump["full_paths"], full_paths(dump), "full call paths")
        succeed("dump", live.pid, "-o", names[0], env=env)
        succeed("dump", live.pid, "--json", "--output", names[1], env=env)
        for name in names[:2]:
            check_equal(still(succeed("dump", name)), still(tree), f"the tree of {name}")
            check_equal(still(succeed("dump", name, "--flat", "--limit", "5")), still(flat),
                        f"the list of {name}")
            again = json.loads(succeed("dump", name, "--json"))
            check_equal([again[key] for key in ("contexts", "full_paths")],
                        [dump[key] for key in ("contexts", "full_paths")],
                        f"what {name} keeps")
        succeed("dump", names[1], "-o", names[2])
        check_equal(json.loads(succeed("dump", names[2], "--json"))["contexts"], dump["contexts"],
                    "from one form to the other")
        live.ask("more")
        succeed("dump", live.pid, "-o", names[2], env=env)
        changes = succeed("diff", names[0], names[2])
        check(re.search(r"grow \(.*\(recursive: visit > ", changes, re.S), f"changes: {changes}")
        for word in (live.pid, *names):
            profile = export(word, where, env=env)
            texts = profile["string_table"]
            check(b"visit" in texts and not any(b"(recursive" in text for text in texts),
                  "names of functions are plain")


@test
def recursion_is_unfolded_for_a_time():
    """`set unfold` makes new call paths keep every call of a recursion, `set fold` ends that; both
    refuse contexts that are not recursive."""
    program = build_program(RECURSE, "recurse", FLAGS)
    with target([program], MEMCTX_TABLES="1400K", MEMCTX_FOLD="auto") as live:
        def ask(*words):
            return succeed("set", live.pid, *words, env=live.cli_env)

        def refused(code, pattern, *words):
            expect(code, pattern, "set", live.pid, *words, env=live.cli_env)

        def figures():
            return json.loads(succeed("dump", live.pid, "--self", "--json",
                                      env=live.cli_env))["figures"]

        dump = json.loads(succeed("dump", live.pid, "--json", env=live.cli_env))
        recursive = [context["id"] for context in dump["contexts"] if "recursive" in context]
        plain = [context["id"] for context in dump["contexts"] if function(context) == "keep"]
        answer = json.loads(ask(recursive[0], "unfold", "--json"))
        want = {"schema": "memctx-unfold/1", "pid": live.pid, "contexts": recursive[:1],
                "seconds": 60, "functions": 3,
                "unfolded_functions": 3, "unfolded_seconds": 60}
        check_equal(answer, want, "the answer")
        live.ask("more")
        got = figures()
        check_equal((got["folded_functions"], got["unfolded_functions"]), (3, 3), "functions")
        fresh = [context for context in json.loads(succeed("dump", live.pid, "--json",
                                                           env=live.cli_env))["contexts"]
                 if context["id"] >= len(dump["contexts"]) and function(context) in VISITS]
        check(len(fresh) > 500, f"{len(fresh)} new contexts of the recursion")
        check_equal(ask("--site", "^visit", "fold"), "3 functions are folded again\n", "folded")
        check_equal(figures()["unfolded_functions"], 0, "unfolded functions")
        pid = int(live.pid)
        check_equal(ask("--site", "^visit ", "unfold", "--for", "7"),
                    "for 7 s, new call paths keep every call of 3 recursive functions, whoever "
                    "calls it;\n"
                    f"see memctx dump {pid}\n", "the answer")
        check_equal(ask(recursive[0], recursive[-1], "fold"), "3 functions are folded again\n",
                    "folded")
        check("nothing was unfolded there" in ask(recursive[0], "fold"), "a second fold")
        check_equal(json.loads(ask(recursive[0], "fold", "--json"))["functions"], 0,
                    "functions of a third fold")
        next_step = r"choose one that memctx dump shows as \(recursive: \.\.\.\)"
        refused(1, f"context {plain[0]} is not recursive; nothing on its path is folded; "
                   f"{next_step}", plain[0], "unfold")
        refused(1, f"no context has the id 4000000000; {next_step}", 4000000000, "unfold")
        refused(1, f'no recursive context whose function matches "keep"; {next_step}', "--site",
                "keep", "unfold")
        refused(2, "missing contexts", "unfold")
        refused(2, "contexts are chosen twice", "--site", "visit", recursive[0], "unfold")
        refused(2, 'a CONTEXT is a number that .*; got "two"', recursive[0], "two", "unfold")
        refused(2, "--for", recursive[0], "unfold", "--for", "86401")
        refused(2, "--for", recursive[0], "unfold", "--for", "0")
        refused(2, "--for applies to unfold only", recursive[0], "fold", "--for", "5")
        refused(2, "--for applies to unfold only", "fold=auto", "--for", "5")
        succeed("set", live.pid, "fold=off", env=live.cli_env)
        refused(1, "MEMCTX_FOLD is off; .* until memctx set TARGET fold=auto", recursive[0],
                "unfold")


@test
def merged_paths_are_told():
    """If the tables are too small for all call paths, the dump says how much memory has its full
    path, and marks figures that may be too low."""
    program = build_program(RECURSE, "recurse", FLAGS)
    with target([program], MEMCTX_TABLES="64K", MEMCTX_FOLD="off") as live, scratch() as where:
        env, path = live.cli_env, os.path.join(where, "snapshot")
        # The library may still be removing nodes that hold nothing, so wait until their number is
        # stable.
        contexts = 0
        while contexts != (contexts := len(json.loads(succeed("dump", live.pid, "--json",
                                                              env=env))["contexts"])):
            time.sleep(1.5)
        tree = succeed("dump", live.pid, env=env)
        dump = json.loads(succeed("dump", live.pid, "--json", env=env))
        succeed("dump", live.pid, "-o", path, env=env)
        check_equal(still(succeed("dump", path)), still(tree), "from the snapshot")
        check_equal(json.loads(succeed("dump", path, "--json"))["contexts"], dump["contexts"],
                    "contexts of the snapshot")
        check_equal(dump["full_paths"], full_paths(dump), "full call paths")
        shares = [1000 * dump["full_paths"][key] // dump["totals"][key]
                  for key in ("requested_bytes", "allocs")]
        want = (f"full call paths: {shares[0] / 10:.1f} % of live bytes, {shares[1] / 10:.1f} % "
                "of allocations; the rest is under [other callers]; a larger MEMCTX_TABLES gives "
                "more paths room\n")
        check(max(shares) < 1000, f"something is merged: {shares}")
        for text in (tree, succeed("dump", live.pid, "--flat", "--limit", "3", env=env)):
            check(want in text, f"not {want!r} in {text[-900:]}")
        check(any(context.get("partial") for context in dump["contexts"]),
              "some contexts are partial")
        bound = re.search(r"^>= marks figures that may be too low, by at most (\d+); ", tree, re.M)
        check(bound and re.search(r"^ *\w+ \(.*\): >= \d+ total", tree, re.M),
              f"a context is marked: {tree}")
        # The figures of a printed context are too low by at most the sum of all merged paths.
        merged = sum(context["total"]["requested_bytes"] for context in dump["contexts"]
                     if function(context) == "[other callers]")
        check(0 < int(bound[1]) <= merged, f"{bound[0]} of {merged}")


@test
def folded_snapshots_of_any_shape():
    """The command prints loops, partial figures and late contexts of a snapshot that a test wrote,
    also if the snapshot names a loop that does not exist."""
    def made(where, change):
        snapshot = Made(where)
        for name in "main", "one", "two", "three", "four", "five":
            snapshot.add(len(snapshot.dump["contexts"]) - 1, name, address=16 * len(name), allocs=1,
                         requested_bytes=10)
        # context 7; its sibling 2 is the first instance of "one"
        snapshot.add(1, "one", address=5, allocs=2, requested_bytes=20)
        # context 8
        snapshot.add(1, "[other callers]", kind="unknown", allocs=3, requested_bytes=500)
        # context 9, below 7, does not count for the bound
        snapshot.add(7, "[other callers]", kind="unknown", allocs=3, requested_bytes=7000)
        change(snapshot.dump["contexts"])
        return snapshot.save()

    def tells(text, change):
        with scratch() as where:
            path = made(where, change)
            for word in (path, os.path.join(where, "packed")):
                if word != path:
                    succeed("dump", path, "-o", word)
                out = succeed("dump", word, "--min", "0")
                check(text in out, f"not {text!r} in {out}")
            return json.loads(succeed("dump", word, "--json"))

    def loop(last):
        return lambda contexts: contexts[7].update({"recursive": [],
                                                    **({"recursive_from": last} if last else {})})

    dump = tells("one  (recursive: one > two > three > four > ...): ", loop(6))
    check_equal(dump["contexts"][7]["recursive"], ["one", "two", "three", "four", "five"],
                "the whole loop")
    tells("one  (recursive: one > two): ", loop(3))
    tells("one  (recursive): ", loop(None))
    tells("one  (recursive): ", loop(1))  # context 1 has another caller
    tells("one  (recursive): ", loop(4000))  # no such context
    dump = tells("one: >= ", lambda contexts: contexts[7].update(partial=True))
    check_equal([context["id"] for context in dump["contexts"] if context.get("partial")], [7],
                "marked")
    tells(">= marks figures that may be too low, by at most 500; the rest is under [other callers]",
          lambda contexts: contexts[7].update(partial=True))
    dump = tells("one: since admitted ", lambda contexts: contexts[7].update(late=True))
    check_equal([context["id"] for context in dump["contexts"] if context.get("late")], [7], "late")
    tells('"since admitted" marks call paths whose earlier allocations are under [other callers] '
          'of an outer function',
          lambda contexts: contexts[7].update(late=True))
    check_equal(dump["full_paths"], {"requested_bytes": 80, "allocs": 8}, "full call paths")
    tells("full call paths: 1.0 % of live bytes, 57.1 % of allocations; the rest is under [other "
          "callers]",
          lambda contexts: None)
