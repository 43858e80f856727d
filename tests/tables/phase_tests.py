# SPDX-License-Identifier: MIT
"""Programs that live on: phases with call paths of their own, one after the other. Paths that are not
used any more make room, and the books stay exact."""
import threading

import harness
from harness import Failure, check, check_sums, test
from target import (OTHERS, SEED, Program, Watch, check_books, check_lost, paths_of,
                    sum_figures)

SECONDS = 3


def hot_figures(dump, phase):
    """What stands under the path of twelve functions that a phase uses most."""
    wanted = [f"hot_{phase}_{number:02}" for number in range(12, 0, -1)] + [f"phase_{phase}"]
    names = paths_of(dump)
    return sum_figures(context for context in dump["contexts"]
                       if list(names[context["id"]][:len(wanted)]) == wanted)


def check_phase(program, dump, phase, totals):
    check_books(program, dump, totals=totals)
    allocs, want = hot_figures(dump, phase)[2], program.sum_books(site=f"hot_{phase}_12")[2]
    # Nearly all, where the machine is quick; none, if nothing is ever evicted.
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
        check(evicted > 1000, f"only {evicted} paths were evicted")
        check_lost(program)
        program.finish()
    return f"seed {SEED}, {evicted} paths evicted, hot paths have {', '.join(shares)}; {told}"


@test
def phases_with_paths_of_their_own():
    """Each phase has its hot path in full, though the phases before filled the tables."""
    return run_phases()


@test
def phases_of_four_threads():
    """The same with threads that end with each phase. What libc allocates for them is in no book."""
    return run_phases("threads=4", "paths=20000", totals=False)


@test
def phases_while_dumps_are_read():
    """Sums hold in every dump that is made while paths are evicted."""
    dumps = []

    def each(program):
        failures, over = [], threading.Event()

        def look():
            try:
                while not over.wait(0.7):
                    dump = program.dump()
                    check_sums(dump)
                    dumps.append(len(dump["contexts"]))
            except Failure as failure:
                failures.append(failure)
        reader = threading.Thread(target=look)
        reader.start()
        program.go()
        over.set()
        reader.join()
        if failures:
            raise failures[0]

    # Nothing is evicted while a dump is read, so the phases are longer.
    told = run_phases("threads=2", totals=False, each=each, seconds=2 * SECONDS)
    check(len(dumps) >= 3, f"only {len(dumps)} dumps")
    return f"{len(dumps)} dumps; {told}"


def contexts_of(dump, phase):
    """How many contexts with figures of their own stand below a phase."""
    names = paths_of(dump)
    return sum(f"phase_{phase}" in names[context["id"]] and context["self"]["allocs"] > 0 and
               OTHERS not in names[context["id"]] for context in dump["contexts"])


@test
def phases_after_a_mark():
    """What a mark tells of is not evicted while it is there, nor when another one takes its place."""
    counts = []
    with Program("phases", "phases=4", f"seconds={SECONDS}", f"seed={SEED}", "paths=8000") as program:
        for phase in range(4):
            program.go()
            dump = program.dump()
            check_phase(program, dump, phase, True)
            counts.append(contexts_of(dump, 0))
            if phase in (0, 2):  # the second takes the place of the first
                harness.run_cli("mark", program.pid, "it", env=program.target.cli_env)
        evicted = program.figures()["paths_evicted"]
        program.finish()
    check(counts[0] == counts[1] == counts[2], f"contexts of phase 0 after each phase: {counts}")
    return f"seed {SEED}, contexts of phase 0 after each phase: {counts}, {evicted} paths evicted"
