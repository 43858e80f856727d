# SPDX-License-Identifier: MIT
"""Random recursion: the limit of the tables, figures compared with the program's own counts,
subtotals, paths that must be complete."""
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
    """(resident KiB, peak) of the program on glibc's malloc at its last pause."""
    with Program(name, *options, preload=False) as plain:
        for _ in range(stands):
            plain.go()
        return plain.rss_kib(), plain.peak_kib()


@test
def random_recursion():
    """With three million paths nothing is lost or unknown, and memory is little more than with
    glibc."""
    allocs, stands = scaled(3000000, 300000000), 3
    options = (f"allocs={allocs}", f"stands={stands}", f"seed={SEED}")
    plain, plain_peak = rss_of_glibc("recursion", *options, stands=stands)
    resident = []
    with Program("recursion", *options) as program:
        for _ in range(stands):
            program.go()
            resident.append(program.rss_kib())
        peak = program.peak_kib()  # read before the dump, which needs memory itself
        check_books(program, program.dump())
        check_lost(program)
        program.finish()
    told = f"resident {resident} KiB, peak {peak}; glibc {plain}, peak {plain_peak}"
    check(max(resident[-1] - plain, peak - plain_peak) <= RSS_OVER_GLIBC_KIB, told)
    check(resident[-1] - resident[0] <= GROWTH_KIB, told)
    return note(told)


@test
def tables_at_every_moment():
    """The tables are within the limit all the time."""
    with Program("recursion", f"allocs={scaled(1000000, 20000000)}", f"seed={SEED}") as program:
        with Watch(program, 0.01) as watch:
            program.go()
        told = watch.check(50)
        program.finish()
    return note(told)


@test
def asking_costs_little():
    """Asking for the figures of the tables needs little memory, also with many contexts."""
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
    """Totals of phases and sites equal the program's own counts, with stacks below MEMCTX_DEPTH."""
    return subtotals("deepest=22")


@test
def subtotals_of_phases_deep():
    return subtotals(MEMCTX_DEPTH=64)


@test
def a_phase_that_comes_late():
    """A phase that begins when the tables are full, and makes half of all allocations, gets a node
    that has at least nine tenths of its live bytes."""
    with Program("recursion", f"allocs={scaled(1500000, 20000000)}", "late-phase=1", f"seed={SEED}",
                 MEMCTX_DEPTH=64) as program:
        program.go()
        dump = program.dump()
        check_books(program, dump)
        got = sum(figures_of(node, "total")[0] for node in outermost(dump, "phase_c"))
        want = program.sum_books(phase="phase_c")[0]
        check(want * 9 // 10 <= got <= want,
              f"phase_c: {got} of its {want} live bytes stand below it")
        # main has a node for each call in it. The node of its call of phase_c also comes late.
        check_subtotals(program, dump, ("phase_a", "phase_b"), whole="_start")
        program.finish()
    return note(f"phase_c has {got} of {want}")


@test
def paths_that_matter():
    """Paths that allocate often or hold much are complete among very many cold paths."""
    with Program("recursion", f"allocs={scaled(3000000, 30000000)}", "paths=1",
                 f"seed={SEED}") as program:
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
    """Runs a program with 400 MB and then 1 MB of live bytes; returns the samples of both parts."""
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
    """The limit of the tables grows with the live bytes: 5 % of them, or 4 MiB if that is more."""
    watch, _ = live_bytes_change()
    return note(watch.check(20))


@test
def live_bytes_that_shrink():
    """The tables shrink below their limit when the live bytes shrink."""
    watch, after = live_bytes_change()
    after.samples = after.samples[-3:]
    return note(f"{watch.tell()}; then {after.check(3, resident_counts=False)}")


@test
def resident_bytes_when_live_bytes_shrink():
    """When the live bytes shrink, memory of the tables goes back to the kernel."""
    watch, after = live_bytes_change()
    after.samples = after.samples[-3:]
    return note(f"{watch.tell()}; then {after.check(3)}")


@test
def chunks_of_one_byte():
    """The limit of the tables counts requested bytes, not the much larger blocks of chunks of one
    byte. (Half of the million bytes is below the least limit of 4 MiB, half of the blocks
    above.)"""
    options = ("allocs=1200000", "slots=1000000", "least=1", "spread=1", f"seed={SEED}")
    with Program("recursion", *options, MEMCTX_TABLES="50%") as program:
        with Watch(program, 0.1) as watch:
            program.go()
        told = watch.check(5, part=0.5)
        program.finish()
    return note(told)
