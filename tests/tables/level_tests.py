# SPDX-License-Identifier: MIT
"""A recursion that allocates at every level: each dump equals the program's own counts although
paths are folded and wait, while it forks, ends threads, handles signals, closes a library, or gets
requests."""
import json

import harness
from harness import check, check_equal, check_sums, test
from target import (ALLOCS, FIGURES, LIVE, OTHERS, SEED, Program, check_books, check_lost,
                    figures_of, function_of, outermost, paths_of, scaled, site_figures)

# A small limit, so that functions are folded soon and paths wait.
TABLES = "1M"


def build_step():
    return harness.build_program("tests/tables/step.c", "tables-step.so",
                                 [*harness.OWN_FRAMES, "-shared", "-fPIC"])


def build_levels(linked):
    """Builds levels.c with frame pointers if `linked` is true, else without."""
    name, flag = ("tables-linked-levels",
                  "-fno-omit-frame-pointer") if linked else ("tables-levels",
                                                             "-fomit-frame-pointer")
    return harness.build_program("tests/tables/levels.c", name, [*harness.OWN_FRAMES, "-O2", flag])


def levels(*options, linked=False, **env):
    walks = next((option for option in options if option.startswith("walks=")),
                 f"walks={scaled(20000, 200000)}")
    options = [option for option in options if option != walks]
    return Program("levels", walks, f"seed={SEED}", *options, program=build_levels(linked),
                   LEVELS_LIBRARY=build_step(),
                   **{"MEMCTX_TABLES": TABLES, **env})


def check_merged(program):
    """Checks that functions were folded, paths waited and nothing was lost."""
    figures = program.figures()
    check(figures["folded_functions"] > 2, f"{figures['folded_functions']} functions are folded")
    check(figures["paths_waited"] > 100, f"{figures['paths_waited']} allocations waited")
    check_lost(program)
    return (f"seed {SEED}, {figures['folded_functions']} functions folded, "
            f"{figures['paths_waited']} allocations waited")


def rounds(program, totals=True, count=3, look=None):
    for _ in range(count):
        program.go()
        dump = program.dump()
        check_books(program, dump, totals=totals)
        check_walks(program, dump)
        if look:
            look(dump)
    told = check_merged(program)
    program.finish()
    return told


def check_walks(program, dump, phase="phase_walk"):
    """Checks the total below the first function of all walks, over all threads, against the
    books."""
    nodes = outermost(dump, phase)
    got = tuple(map(sum, zip(*(figures_of(node, "total") for node in nodes))))
    want = program.sum_books(phase=phase)
    if any(node.get("partial") or node.get("late") for node in nodes):
        check(all(a <= b for a, b in zip(got, want)),
              f"{FIGURES} below {phase}: {got} are more than {want}")
    else:
        check_equal(got, want, f"{FIGURES} below {phase}")


def check_others(dump):
    """Checks that no context has two children [other callers] with figures. (A node that a sweep
    has taken out of the tree stands in dumps, without figures, until no thread can know it; the
    parent may have another such child by then.)"""
    parents = [context["parent"] for context in dump["contexts"]
               if function_of(context) == OTHERS and any(figures_of(context, "total"))]
    check(parents, f"nothing stands below {OTHERS}")
    check_equal(len(parents) - len(set(parents)), 0, f"further {OTHERS} of contexts that have one")


@test
def levels_alone():
    with levels(MEMCTX_DEPTH=64) as program:
        return rounds(program, look=check_others)


@test
def levels_while_a_library_is_closed():
    """The dump equals the program's own counts if a library on the paths is closed and loaded
    again, at its old address or another."""
    with levels("reload=500", MEMCTX_DEPTH=64) as program:
        return rounds(program, totals=False)


@test
def levels_while_threads_end():
    """The dump equals the program's own counts with threads that adopt heaps of ended threads with
    live chunks. Chunks without room in the tables are charged to [other callers]."""
    with levels(f"walks={scaled(2000, 20000)}", "threads=8", MEMCTX_DEPTH=64,
                MEMCTX_TABLES="4M") as program:
        for _ in range(3):
            program.go()
            dump = program.dump()
            check_sums(dump)
            check(dump["exact"] is True, "the dump is not exact")
            merged = site_figures(dump, {OTHERS})
            found = [site_figures(dump, {site}) for site in program.sites()]
            check_equal(tuple(map(sum, zip(merged, *found))), program.sum_books(),
                        f"{FIGURES} of all sites and {OTHERS}")
            if not any(merged):
                check_books(program, dump, totals=False)
                check_walks(program, dump)
        told = check_merged(program)
        program.finish()
    return f"{told}, {merged[ALLOCS]} below {OTHERS} of the process"


@test
def levels_while_it_forks():
    """Forked children that go on with the tables do not change their parent's figures."""
    with levels("forks=8", MEMCTX_DEPTH=64) as program:
        return rounds(program)


@test
def levels_while_signals_come():
    """Allocations of a signal handler, also inside malloc, are charged to no site of the
    recursion."""
    with levels(f"walks={scaled(60000, 600000)}", "signals=1", MEMCTX_DEPTH=64) as program:
        for _ in range(2):
            program.go()
        dump = program.dump()
        for site in program.sites():
            if site != "handler_site":
                check_equal(site_figures(dump, {site}), program.sum_books(site=site),
                            f"{FIGURES} of {site}")
        # The library counts lost allocations, which are charged to no context.
        got = (dump["totals"]["allocs"] - program.start["totals"]["allocs"] +
               program.figures()["lost"])
        check_equal(got, program.sum_books()[ALLOCS], "all allocations, those of the handler too")
        handled = program.sum_books(site="handler_site")[ALLOCS]
        check(handled > 50, f"only {handled} signals")
        program.finish()
    return f"seed {SEED}, {handled} signals"


@test
def levels_below_many_callers():
    """Once a recursion below 41 callers is folded, its paths are complete, although MEMCTX_DEPTH is
    32."""
    def below(dump, names, function):
        return sum(context["self"]["allocs"]
                   for context in dump["contexts"] if function in names[context["id"]])

    with levels("callers=1", MEMCTX_TABLES="4M") as program:
        counts = []
        for _ in range(3):
            program.go()
            dump = program.dump()
            check_books(program, dump)
            names = paths_of(dump)
            counts.append([program.sum_books()[ALLOCS], below(dump, names, "caller_50"),
                           below(dump, names, "[truncated]")])
        made, whole, truncated = (after - before for before, after in zip(*counts[1:]))
        told = (f"of {made} allocations of the last round {whole} are below caller_50, {truncated} "
                "below [truncated]")
        # a waiting path may be charged above caller_50
        check(whole > made // 2 and truncated == 0, told)
        longest = max((names[context["id"]]
                       for context in dump["contexts"] if context["self"]["allocs"]), key=len)
        for number in range(10, 51):
            check(f"caller_{number}" in longest,
                  f"the longest path lacks caller_{number}: {longest}")
        check_merged(program)
        program.finish()
    return f"seed {SEED}, {told}"


def command(program, *words):
    done = harness.run_cli(*words, env=program.target.cli_env)
    check_equal((done.returncode, done.stderr), (0, ""), f"memctx {words}")
    return done.stdout


@test
def levels_while_rules_come_and_go():
    """The dump equals the program's own counts while rules for functions of the recursion are added
    and cleared."""
    with levels(MEMCTX_DEPTH=64, MEMCTX_PROMOTE_BYTES=0) as program:
        program.go()
        command(program, "rules", program.pid, "--add", "level_3=slab", "--add", "level_5=own")
        program.go()
        check_books(program, program.dump())
        command(program, "rules", program.pid, "--clear", "--add", "level_1=generation")
        return rounds(program, count=1)


@test
def levels_while_marks_and_resets_are_asked():
    """The growth of each site since a mark, and its counts since a reset, equal the program's own
    counts."""
    with levels(MEMCTX_DEPTH=64) as program:
        program.go()
        command(program, "mark", program.pid, "then")
        before = {site: program.sum_books(site=site) for site in program.sites()}
        program.go()
        growth = {}
        diff = json.loads(command(program, "diff", program.pid, "then", "--json", "--limit", "0",
                                  "--min", "0"))
        for row in diff["contexts"]:
            site = row["frame"]["function"]
            had = growth.get(site, (0, 0, 0, 0))
            growth[site] = tuple(a + row["after"][field] - row["before"][field]
                                 for a, field in zip(had, FIGURES))
        for site in program.sites():
            after = program.sum_books(site=site)
            check_equal(growth.get(site), tuple(b - a for a, b in zip(before[site], after)),
                        f"growth of {FIGURES} at {site}")
        command(program, "reset", program.pid)
        before = {site: program.sum_books(site=site) for site in program.sites()}
        program.go()
        dump = program.dump()
        for site in program.sites():
            got, after = site_figures(dump, {site}), program.sum_books(site=site)
            check_equal(got[:2], after[:2], f"{LIVE} of {site}")
            check_equal(got[ALLOCS:], tuple(b - a for a, b in zip(before[site], after))[ALLOCS:],
                        f"since the reset at {site}")
        told = check_merged(program)
        program.finish()
    return told


@test
def a_recursion_deeper_than_any_before():
    """Replays of a recursion whose function is folded stop where the walked stack has no room."""
    program = harness.build_program("tests/tables/deep.c", "tables-deep",
                                    [*harness.OWN_FRAMES, "-O2", "-fomit-frame-pointer"])
    plain = harness.run_program([program], harness.clean_env())
    ours = harness.run_program([program], harness.preloaded_env())
    check_equal(ours.returncode, 0, f"status; {ours.stderr}")
    check_equal(ours.stdout, plain.stdout, "number of allocations")


@test
def trees_below_two_callers():
    """Equal stacks below two callers lead to the right caller: by folded traces, and by replays
    where nearly every stack is another one."""
    return "; ".join((trees("first"), trees("first", linked=True),
                      trees("paths_replayed", "mixed=1"),
                      trees("paths_replayed", "mixed=1", linked=True)))


def trees(way, *options, linked=False):
    """Checks that at least a tenth of the allocations was looked up in this way: a member of
    `dump --self`, or "first", the first guess."""
    with levels(f"trees={scaled(12, 120)}", "rounds=2", *options, linked=linked,
                MEMCTX_TABLES="4M") as program:
        for _ in range(2):
            program.go()
            dump = program.dump()
            check_books(program, dump)
            for phase in "tree_left", "tree_right":
                check_walks(program, dump, phase)
        figures = program.figures()
        figures["first"] = figures["allocs"] - figures["paths_guessed"] - \
            figures["paths_replayed"] - figures["paths_missed"]
        told = f"{way}: {figures[way]} of {figures['allocs']}"
        check(figures[way] > figures["allocs"] / 10, told)
        program.finish()
    return told
