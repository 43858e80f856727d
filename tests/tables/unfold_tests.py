# SPDX-License-Identifier: MIT
"""memctx set TARGET CONTEXT unfold: new paths have every call of a recursion for a time, and the
dump equals the program's own counts."""
import json

import harness
from harness import check, check_equal, in_tries, test, wait_until
from target import (OTHERS, SEED, Program, Watch, check_books, check_lost, check_subtotals,
                    inside_main, paths_of)

PHASES = ("phase_a", "phase_b", "phase_c")


def ask(program, *words, pid=None):
    done = harness.run_cli("set", pid or program.pid, *words, "--json", env=program.target.cli_env)
    check_equal((done.returncode, done.stderr), (0, ""), f"set {words}")
    return json.loads(done.stdout)


def turns(dump, known=frozenset()):
    """Of the contexts that are not in `known` and have a full path: (those with a function twice,
    all)."""
    names = paths_of(dump)
    fresh = [inside_main(names[context["id"]])
             for context in dump["contexts"] if context["id"] not in known]
    paths = [[name for name in path if name.startswith("visit_")]
             for path in fresh if OTHERS not in path]
    return sum(len(set(path)) < len(path) for path in paths), len(paths)


def ids_of(dump):
    return {context["id"] for context in dump["contexts"]}


@test
def unfolded_for_a_time():
    """New paths are folded, after `unfold` not folded, and after `fold` folded again; the dump
    equals the program's own counts."""
    with Program("recursion", "allocs=20000", "stands=4", "deepest=9", f"seed={SEED}",
                 MEMCTX_TABLES="12M", MEMCTX_VERIFY=101) as program:
        program.go()  # paths from before the first folding have a function twice
        program.go()
        folded = program.dump()
        functions = program.figures()["folded_functions"]
        check(functions > 4, f"{functions} functions are folded")
        answer = ask(program, "--site", "visit_", "unfold", "--for", "600")
        check_equal(answer["functions"], functions, "all functions of the recursion")
        with Watch(program, 0.01) as watch:
            program.go()
        unfolded = program.dump()
        check_books(program, unfolded)
        twice, fresh = turns(unfolded, ids_of(folded))
        check(twice > fresh / 2, f"{twice} of {fresh} new contexts have a function twice")
        figures = program.figures()
        check_equal(figures["unfolded_functions"], functions, "unfolded functions")
        check(500 < figures["unfolded_seconds"] <= 600,
              f"unfolded for {figures['unfolded_seconds']} s")
        check_equal(ask(program, answer["contexts"][0], "fold")["unfolded_functions"], 0,
                    "unfolded then")
        program.go()
        again = program.dump()
        late, few = turns(again, ids_of(unfolded))
        check(few > 0, "no path is new")
        # A function that is folded later than the others may still stand twice in a path.
        check(late == 0 or functions < 8,
              f"{late} contexts with a function twice among {few} new ones, "
                                          f"{functions} functions were folded")
        check_books(program, again)
        check_subtotals(program, again, PHASES)
        check_lost(program)
        figures = program.figures()
        check(figures["verify_checked"] > 100, "some paths were compared with libunwind")
        check_equal(figures["verify_mismatches"], 0, "of these are different")
        told = watch.check(1, fixed=12 << 20)
        program.finish()
    return f"seed {SEED}, {functions} functions, {twice} of {fresh} new contexts with turns; {told}"


@test
@in_tries  # fails if the child does not run within four seconds
def unfolding_ends_by_itself():
    """When the time of `unfold` is over, the control thread folds again, also in a forked child."""
    with Program("recursion", "allocs=20000", "stands=3", "deepest=9", f"seed={SEED}",
                 MEMCTX_TABLES="12M") as program:
        program.go()
        program.go()
        before = program.dump()
        ask(program, "--site", "visit_", "unfold", "--for", "4")
        child = program.go("fork")
        program.target.wait_socket(child)
        for pid in (child, program.pid):
            wait_until(lambda: program.figures(pid)["unfolded_functions"] == 0,
                       f"{pid} is folded again")
        ends = program.dump()
        check(turns(program.dump(child), ids_of(before))[0] > 0, "the child's paths are unfolded")
        check_books(program, program.dump(child), totals=False)
        check_lost(program, child)
        check_equal(program.go(), program.pid, "who stands when the child has ended")
        check_equal(turns(program.dump(), ids_of(ends))[0], 0, "new contexts with a function twice")
        check_books(program, program.dump())
        check_lost(program)
        program.finish()
    return f"seed {SEED}"
