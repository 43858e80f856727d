# SPDX-License-Identifier: MIT
"""Programs with phases that each have their own call paths: unused paths of earlier phases are
evicted, and the dump equals the program's own counts."""
import harness
from harness import Repeated, check, check_sums, test
from target import (OTHERS, SEED, Program, Watch, check_books, check_lost, paths_of,
                    sum_figures)

SECONDS = 2


def hot_figures(dump, phase):
    """The figures of the path of twelve functions that a phase uses most (its hot path)."""
    wanted = [f"hot_{phase}_{number:02}" for number in range(12, 0, -1)] + [f"phase_{phase}"]
    names = paths_of(dump)
    return sum_figures(context for context in dump["contexts"]
                       if list(names[context["id"]][:len(wanted)]) == wanted)


def check_phase(program, dump, phase, totals):
    check_books(program, dump, totals=totals)
    allocs, want = hot_figures(dump, phase)[2], program.sum_books(site=f"hot_{phase}_12")[2]
    # On a quick machine nearly all of these allocations have their full path; without eviction
    # none.
    check(allocs >= want // 2,
          f"the path that phase {phase} uses most has {allocs} of its {want} allocations")
    return f"{allocs * 100 // want} %"


def run_phases(*options, count=3, totals=True, each=None, seconds=SECONDS, **env):
    shares = []
    with Program("phases", f"phases={count}", f"seconds={seconds}", f"seed={SEED}", *options,
                 **env) as program:
        for phase in range(count):
            with Watch(program, 0.1) as watch:
                if each:
                    each(program)
                else:
                    program.go()
            told = watch.tell()
            used, limit = zip(*((sample.figures["tables_bytes"],
                                 sample.figures["tables_limit_bytes"])
                                for sample in watch.samples))
            check(all(map(lambda pair: pair[0] <= pair[1], zip(used, limit))), told)
            shares.append(check_phase(program, program.dump(), phase, totals))
        evicted = program.figures()["paths_evicted"]
        check(evicted > 1000, f"only {evicted} paths were evicted; {told}")
        check_lost(program)
        program.finish()
    return f"seed {SEED}, {evicted} paths evicted, hot paths have {', '.join(shares)}; {told}"


@test
def phases_with_paths_of_their_own():
    """The hot path of each phase is complete, although earlier phases filled the tables."""
    return run_phases()


@test
def phases_of_four_threads():
    """Hot paths are complete with four threads that end with each phase. (libc's allocations for
    threads are in no book, so totals are not compared.)"""
    return run_phases("threads=4", "paths=20000", totals=False)


@test
def phases_while_dumps_are_read():
    """Each dump that is read while paths are evicted adds up."""
    dumps = []

    def each(program):
        def look():
            dump = program.dump()
            check_sums(dump)
            dumps.append(len(dump["contexts"]))

        with Repeated(look, 0.7):
            program.go()

    # No path is evicted while a dump is read, so the phases must be longer.
    told = run_phases("threads=2", totals=False, each=each, seconds=2 * SECONDS)
    check(len(dumps) >= 3, f"only {len(dumps)} dumps")
    return f"{len(dumps)} dumps; {told}"


def contexts_of(dump, phase):
    """The number of contexts below a phase that have allocations and a full path."""
    names = paths_of(dump)
    return sum(f"phase_{phase}" in names[context["id"]] and context["self"]["allocs"] > 0 and
               OTHERS not in names[context["id"]] for context in dump["contexts"])


@test
def phases_after_a_mark():
    """Contexts that a mark lists are not evicted while that mark exists."""
    counts = []
    with Program("phases", "phases=4", f"seconds={SECONDS}", f"seed={SEED}",
                 "paths=8000") as program:
        for phase in range(4):
            program.go()
            dump = program.dump()
            check_phase(program, dump, phase, True)
            counts.append(contexts_of(dump, 0))
            if phase in (0, 2):  # the second mark replaces the first
                harness.run_cli("mark", program.pid, "it", env=program.target.cli_env)
        evicted = program.figures()["paths_evicted"]
        program.finish()
    check(counts[0] == counts[1] == counts[2], f"contexts of phase 0 after each phase: {counts}")
    return f"seed {SEED}, contexts of phase 0 after each phase: {counts}, {evicted} paths evicted"


@test
def paths_that_repeat_after_a_start_that_filled_the_tables():
    """Paths that are used all the time get nodes, although the contexts of the start, all near the
    root, fill the tables, and some of them are alive for good."""
    with Program("starts") as program:
        program.go()
        program.go()
        dump = program.dump()
        check_sums(dump)
        check_lost(program)
        program.finish()
    names = paths_of(dump)
    again = [(OTHERS in names[context["id"]], context["self"]["allocs"])
             for context in dump["contexts"]
             if any(name.startswith("again_") for name in names[context["id"]])]
    full = sum(allocs for others, allocs in again if not others)
    every = 2500 * 1500
    # The share was about half when contexts near the root were never evicted.
    check(full >= every * 7 // 10, f"{full} of {every} allocations have a full path")
    return f"{full * 100 // every} % of the allocations have a full path"
