# SPDX-License-Identifier: MIT
"""Programs that live on: phases with call paths of their own, one after the other. Paths that are not
used any more make room, and the books stay exact."""
import threading

from harness import Failure, check, check_sums, test
from target import SEED, Program, Watch, check_books, check_lost, paths_of, sum_figures

SECONDS = 4


def hot_figures(dump, phase):
    """What stands under the path of twelve functions that a phase uses most."""
    wanted = [f"hot_{phase}_{number:02}" for number in range(12, 0, -1)] + [f"phase_{phase}"]
    names = paths_of(dump)
    return sum_figures(context for context in dump["contexts"]
                       if list(names[context["id"]][:len(wanted)]) == wanted)


def check_phase(program, dump, phase, totals):
    check_books(program, dump, totals=totals)
    allocs, want = hot_figures(dump, phase)[2], program.sum_books(site=f"hot_{phase}_12")[2]
    check(allocs >= want * 9 // 10,
          f"the path that phase {phase} uses most has {allocs} of its {want} allocations")
    return f"{allocs * 100 // want} %"


def run_phases(*options, count=3, totals=True, each=None, **env):
    shares = []
    with Program("phases", f"phases={count}", f"seconds={SECONDS}", f"seed={SEED}", *options,
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

    told = run_phases("threads=2", totals=False, each=each)
    check(len(dumps) >= 3, f"only {len(dumps)} dumps")
    return f"{len(dumps)} dumps; {told}"
