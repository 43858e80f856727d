# SPDX-License-Identifier: MIT
"""Random recursion: the tables' bound, the books, the subtotals, and what must stand."""
import functools

from harness import Failure, check, test
from target import (SEED, Program, Watch, check_books, check_lost, check_path, check_subtotals,
                    figures_of, outermost, scaled)

PHASES = ("phase_a", "phase_b", "phase_c")
RSS_OVER_GLIBC_KIB = 10 << 10
GROWTH_KIB = 1 << 10


def note(text=""):
    return f"seed {SEED}, {text}"


def rss_of_glibc(name, *options, stands):
    """(resident now, at most) at the last standstill, without the library."""
    with Program(name, *options, preload=False) as plain:
        for _ in range(stands):
            plain.go()
        return plain.rss_kib(), plain.peak_kib()


@test
def random_recursion():
    """Three million paths: nothing lost or unknown, memory flat, little more than glibc's."""
    allocs, stands = scaled(3000000, 300000000), 3
    options = (f"allocs={allocs}", f"stands={stands}", f"seed={SEED}")
    plain, plain_peak = rss_of_glibc("recursion", *options, stands=stands)
    resident = []
    with Program("recursion", *options) as program:
        for _ in range(stands):
            program.go()
            resident.append(program.rss_kib())
        peak = program.peak_kib()  # before the dump, which takes memory of its own
        check_books(program, program.dump())
        check_lost(program)
        program.finish()
    told = f"resident {resident} KiB, peak {peak}; glibc {plain}, peak {plain_peak}"
    check(max(resident[-1] - plain, peak - plain_peak) <= RSS_OVER_GLIBC_KIB, told)
    check(resident[-1] - resident[0] <= GROWTH_KIB, told)
    return note(told)


@test
def tables_at_every_moment():
    """While it runs the tables are within the limit."""
    with Program("recursion", f"allocs={scaled(1000000, 20000000)}", f"seed={SEED}") as program:
        with Watch(program, 0.01) as watch:
            program.go()
        told = watch.check(50)
        program.finish()
    return note(told)


@test
def asking_costs_little():
    """The figures of the tables are had without much memory, however many contexts there are."""
    with Program("recursion", "allocs=300000", f"seed={SEED}") as program:
        program.go()
        before = program.rss_kib()
        contexts = [program.figures()["contexts"] for _ in range(5)][0]
        peak = program.peak_kib()
        program.finish()
    told = f"resident {before} KiB, {peak} when it was asked, {contexts} contexts"
    check(peak - before <= GROWTH_KIB, told)
    return note(told)


def subtotals(*options, **env):
    options = (f"allocs={scaled(1000000, 20000000)}", "stands=2", f"seed={SEED}", *options)
    with Program("recursion", *options, **env) as program:
        for _ in range(2):
            program.go()
            dump = program.dump()
            check_books(program, dump)
        check_subtotals(program, dump, PHASES)
        program.finish()
    return note(f"{len(dump['contexts'])} contexts")


@test
def subtotals_of_phases():
    """Each phase and each site has what it allocated. No stack is deeper than MEMCTX_DEPTH."""
    return subtotals("deepest=22")


@test
def subtotals_of_phases_deep():
    return subtotals(MEMCTX_DEPTH=64)


@test
def a_phase_that_comes_late():
    """When the tables are full long since, a new phase begins and makes half of all allocations.
    What was counted before its node was made may be missing below it, but no more than a tenth."""
    with Program("recursion", f"allocs={scaled(1500000, 20000000)}", "late-phase=1", f"seed={SEED}",
                 MEMCTX_DEPTH=64) as program:
        program.go()
        dump = program.dump()
        check_books(program, dump)
        got = sum(figures_of(node, "total")[0] for node in outermost(dump, "phase_c"))
        want = program.sum_books(phase="phase_c")[0]
        check(want * 9 // 10 <= got <= want,
              f"phase_c: {got} of its {want} live bytes stand below it")
        # main has a node for each of its calls, and that of phase_c comes late, too.
        check_subtotals(program, dump, ("phase_a", "phase_b"), whole="_start")
        program.finish()
    return note(f"phase_c has {got} of {want}")


@test
def paths_that_matter():
    """Among cold paths those that allocate often, or hold much, stand with all their functions."""
    with Program("recursion", f"allocs={scaled(3000000, 30000000)}", "paths=1", f"seed={SEED}") as program:
        with Watch(program) as watch:
            program.go()
        dump = program.dump()
        check_books(program, dump)
        watch.check(20)
        results = [check_path(program, dump, kind) for kind in ("often", "once", "late", "slowly")]
        program.finish()
    if not all(stands for stands, _ in results):
        raise Failure("\n".join(text for _, text in results))
    return note("; ".join(text for _, text in results))


@functools.lru_cache(None)
def live_bytes_change():
    """400 MB alive with many paths, then 1 MB: the watches of the two parts."""
    options = ("allocs=700000", "slots=400000", "least=500", "spread=1000", f"seed={SEED}")
    with Program("recursion", *options) as program:
        with Watch(program) as watch:
            program.go()
        with Watch(program, 0.1) as after:
            program.go("drain 1000")
            program.settle()
            after.wait_for(5)
        check_books(program, program.dump())
        program.finish()
    return watch, after


@test
def live_bytes_that_grow():
    """With more alive the tables may be larger than 4 MiB, but not more than a twentieth of it."""
    watch, _ = live_bytes_change()
    return note(watch.check(20))


@test
def live_bytes_that_shrink():
    """What the tables have grown to is given up when the live bytes are."""
    watch, after = live_bytes_change()
    after.samples = after.samples[-3:]
    return note(f"{watch.tell()}; then {after.check(3, resident_counts=False)}")


@test
def resident_bytes_when_live_bytes_shrink():
    """What the tables have grown to goes back to the kernel, too."""
    watch, after = live_bytes_change()
    after.samples = after.samples[-3:]
    return note(f"{watch.tell()}; then {after.check(3)}")


@test
def chunks_of_one_byte():
    """Blocks far larger than what was asked for do not raise the limit."""
    options = ("allocs=3500000", "slots=3000000", "least=1", "spread=1", f"seed={SEED}")
    with Program("recursion", *options, MEMCTX_TABLES="50%") as program:
        with Watch(program, 0.2) as watch:
            program.go()
        told = watch.check(5, part=0.5)
        program.finish()
    return note(told)
