# SPDX-License-Identifier: MIT
"""Very many call sites, and libraries that are loaded and closed again and again."""
import os
import shutil
import subprocess

import harness
from harness import check, check_equal, check_sums, in_tries, test
from target import (ALLOCS, FIGURES, LIVE, OTHERS, Program, Watch, check_lost, check_unknown,
                    figures_of, function_of, paths_of, scaled, site_figures, sums_by_function)

# Limit for the mean processor time of a malloc in the slowest tenth of all calls. It allows for two
# searches of the whole unwind information, which a new path needs at most.
MALLOC_NS = 5000
SITE = """generated_{0}:
.cfi_startproc
subq $8, %rsp
.cfi_adjust_cfa_offset 8
movl ${1}, %edi
call {2}@PLT
addq $8, %rsp
.cfi_adjust_cfa_offset -8
ret
.cfi_endproc
.type generated_{0}, @function
.size generated_{0}, .-generated_{0}
"""


def site_bytes(number):
    return 16 + number % 100


def build_sites(count, callee="malloc"):
    """Builds sites.c with `count` functions in assembler, because a compiler would take minutes.
    Each calls `callee`."""
    target = os.path.join(harness.BIN, f"tables-sites-{count}-{callee}")
    source = os.path.join(harness.ROOT, "tests/tables/sites.c")
    inputs = (source, __file__, os.path.join(os.path.dirname(source), "books.h"))
    newest = max(map(os.path.getmtime, inputs))
    if os.path.exists(target) and os.path.getmtime(target) > newest:
        return target
    os.makedirs(harness.BIN, exist_ok=True)
    assembler = f"{target}.{os.getpid()}.s"
    with open(assembler, "w", encoding="ascii") as file:
        file.write(".text\n")
        for number in range(count):
            file.write(SITE.format(number, site_bytes(number), callee))
        file.write(".section .data.rel.ro,\"aw\"\n.globl generated_sites\ngenerated_sites:\n")
        for number in range(count):
            file.write(f".quad generated_{number}\n")
        file.write(".section .rodata\n.globl generated_count\n.balign 8\n"
                   f"generated_count: .quad {count}\n"
                   ".section .note.GNU-stack,\"\",@progbits\n")
    flags = [flag for flag in harness.CFLAGS if flag != "-g"]
    made = f"{target}.{os.getpid()}.new"
    command = [os.environ.get("CC", "gcc"), "-std=gnu17", *flags, source, assembler, "-o", made]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    os.unlink(assembler)
    if done.returncode != 0:
        raise SystemExit(done.stderr[:2000])
    os.rename(made, target)
    return target


def generated_code(count, calls):
    with Program("sites", f"calls={calls}", program=build_sites(count)) as program:
        with Watch(program, 0.005) as watch:
            program.go()
        dump = program.dump()
        check_sums(dump)
        check_unknown(sums_by_function(dump))
        check(dump["exact"] is True, "the dump is not exact")
        for field, want in zip(FIGURES, program.sum_books()):
            got = dump["totals"][field] - program.start["totals"][field]
            check_equal(got, want, f"total {field}")
        known = 0
        for context in dump["contexts"]:
            name = function_of(context)
            if name.startswith("generated_"):
                requested, chunks, allocs, frees = figures_of(context)
                known += allocs
                check(requested == chunks * site_bytes(int(name[10:])) and not frees and
                      allocs == chunks <= calls,
                      f"{name}: {requested} bytes in {chunks} chunks, {allocs} allocations")
        check_lost(program)
        worst_ns = program.words["WORST_NS"]
        told = (f"{known} of {count * calls} allocations have their site; {watch.tell()}; "
                f"a malloc takes {worst_ns} ns in the slowest tenth")
        watch.check(3)
        check(worst_ns <= MALLOC_NS, told)
        program.finish()
    return told


@test
def generated_code_called_once():
    return generated_code(scaled(100000, 1000000), 1)


@test
def generated_code_called_thrice():
    return generated_code(scaled(30000, 300000), 3)


@test
def one_function_called_from_everywhere():
    """Very many functions call one function that allocates. Without room for a site with its caller
    for each of them, the function's figures stay exact."""
    count = scaled(100000, 1000000)
    with Program("sites", program=build_sites(count, "single_site")) as program:
        program.go()
        dump = program.dump()
        check_sums(dump)
        check_unknown(dump)
        check_equal(site_figures(dump, {"single_site"}), program.sum_books(),
                    f"{FIGURES} of single_site")
        check_lost(program)
        program.finish()


@test
def many_sites_within_a_small_limit():
    """The table of unwind rules grows only within the limit, too."""
    limit = 64 << 10
    with Program("sites", "calls=3", program=build_sites(3000), MEMCTX_TABLES=limit) as program:
        with Watch(program, 0.002) as watch:
            program.go()
        dump = program.dump()
        check_sums(dump)
        check_unknown(dump)
        check_lost(program)
        told = watch.check(1, fixed=limit)
        program.finish()
    return told


def build_plug(name="plug", *flags):
    return harness.build_program("tests/tables/plug.c", f"tables-{name}.so",
                                 ["-fno-optimize-sibling-calls", *flags, "-shared", "-fPIC"])


def run_loads(directory, count, *words, preload=True, **env):
    """Runs loads.c; returns (resident KiB, statistics) at each of three pauses, and the figures of
    [other callers]. Compares the dump with the program's own counts."""
    resident, figures = [], []
    with Program("loads", directory, count, *words, preload=preload, **env) as program:
        for _ in range(3):
            program.go()
            resident.append(program.rss_kib())
            if preload:
                figures.append(program.figures())
        if preload:
            dump = program.dump()
            check_sums(dump)
            check_unknown(sums_by_function(dump))
            check_lost(program)
            check(dump["exact"] is True, "the dump is not exact")
            # [other callers] has the figures of sites without room in the tables, and of dlopen
            # itself.
            merged = site_figures(dump, {OTHERS})
            found = [site_figures(dump, {site}) for site in program.sites()]
            for field, got, want in zip(LIVE, map(sum, zip(merged, *found)), program.sum_books()):
                check_equal(got, want, f"{field} of all sites and of {OTHERS}")
            if not any(merged):
                for site, got in zip(program.sites(), found):
                    check_equal(got, program.sum_books(site=site), f"{FIGURES} of {site}")
            return resident, figures, merged
        return resident, figures, None


def plugs(directory, count):
    plug = build_plug()
    for number in range(count):
        shutil.copy(plug, os.path.join(directory, f"{number}.so"))


@test
def libraries_with_room():
    """While the tables have room, each site of a closed library keeps its exact figures."""
    with harness.runtime_dir() as directory:
        plugs(directory, 300)
        _, figures, merged = run_loads(directory, 300)
    check_equal(merged, (0, 0, 0, 0), f"{FIGURES} of {OTHERS} itself")
    return f"tables {[figure['tables_bytes'] >> 10 for figure in figures]} KiB"


def loads_without_end(count, *words):
    with harness.runtime_dir() as directory:
        plugs(directory, 1 if "same" in words else count)
        plain, _, _ = run_loads(directory, count, *words, preload=False)
        resident, figures, merged = run_loads(directory, count, *words, MEMCTX_TABLES="128K")
    tables = [figure["tables_bytes"] >> 10 for figure in figures]
    metadata = [figure["metadata_resident_bytes"] >> 10 for figure in figures]
    limit = figures[0]["tables_limit_bytes"] >> 10
    told = (f"{count} libraries, limit {limit} KiB: tables {tables} KiB, metadata resident "
            f"{metadata}, all resident {resident}, glibc {plain}; {merged[ALLOCS]} allocations "
            f"without a site; {figures[2]['modules']} modules")
    check(all(figure["tables_bytes"] <= figure["tables_limit_bytes"] for figure in figures), told)
    check(metadata[2] - metadata[1] <= 64, told)
    check(resident[2] - resident[1] - (plain[2] - plain[1]) <= 128, told)
    return told


@test
def libraries_without_end():
    """With ever-new libraries that are loaded, used and closed, full tables do not grow."""
    return loads_without_end(scaled(600, 5001))


@test
def one_library_again_and_again():
    return loads_without_end(scaled(600, 5001), "same")


def check_turns(program, library):
    dump = program.dump()
    check_sums(dump)
    check_unknown(dump)
    names = paths_of(dump)
    turns = [names[context["id"]].count("plug_turn") for context in dump["contexts"]
             if function_of(context) == "plug_turn" and context["self"]["live_chunks"]]
    check_equal(turns, [6], f"calls of plug_turn on the path of the chunk of {library}")
    check_equal(program.figures()["folded_functions"], 0, f"functions folded in {library}")


@test
@in_tries  # fails if another mapping takes the place of the closed library first
def another_library_at_the_place_of_a_folded_function():
    """A function of a closed library is folded. Another library that is loaded at the same
    addresses begins with no folded function, also if it was loaded there before."""
    with harness.runtime_dir() as directory:
        shutil.copy(build_plug(), os.path.join(directory, "0.so"))
        shutil.copy(build_plug("plug-again", "-Wl,--build-id=0x0123456789abcdef"),
                    os.path.join(directory, "1.so"))
        with Program("loads", directory, 3, "turns", MEMCTX_TABLES="2M") as program:
            program.go()
            check_equal(program.figures()["folded_functions"], 1, "functions folded in 0.so")
            program.go()
            check_turns(program, "1.so")
            program.go()
            check_turns(program, "0.so, after functions of 1.so were folded there")
            program.finish()
