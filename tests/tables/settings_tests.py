# SPDX-License-Identifier: MIT
"""MEMCTX_TABLES and MEMCTX_FOLD: values that they accept; the dump equals the program's own counts
with each value."""
import harness
from harness import check, check_equal, run_program, preloaded_env, test, test_named
from target import LEAST_BYTES, SEED, Program, Watch, check_books, check_lost, scaled

OPTIONS = (f"allocs={scaled(200000, 5000000)}", f"seed={SEED}")


def limit_is(value, limits, *options):
    def run():
        with Program("recursion", *OPTIONS, *options, MEMCTX_TABLES=value) as program:
            with Watch(program, 0.01) as watch:
                program.go()
            check_books(program, program.dump())
            check_lost(program)
            told = watch.check(5, **limits)
            last = watch.samples[-1].figures
            least = limits.get("fixed") or max(LEAST_BYTES, last["live_bytes"] * limits["part"] / 2)
            check(last["tables_limit_bytes"] >= least, f"the limit is less than {least}: {told}")
            program.finish()
        return f"seed {SEED}, {told}"
    test_named("limit-" + value.replace("%", "-percent").lower())(run)


limit_is("65536", {"fixed": 65536})
limit_is("256K", {"fixed": 256 << 10})
limit_is("1M", {"fixed": 1 << 20})
limit_is("1%", {"part": 0.01})
limit_is("50%", {"part": 0.5}, "least=500", "spread=1000")


@test
def wrong_limits_are_told():
    for value in ("0", "-1", "1000", "abc", "5", "60%", "1.5M", "2048G", ""):
        done = run_program(["/bin/true"], preloaded_env(MEMCTX_TABLES=value))
        check_equal(done.returncode, 0, f"exit status with {value!r}")
        begin = f"memctx: MEMCTX_TABLES={value} is not understood; it takes "
        check(done.stderr.startswith(begin) and
              done.stderr.endswith("the default is used: 5%\n") and done.stderr.count("\n") == 1,
              f"with {value!r} it says {done.stderr!r}")


def set_tables(program, value):
    return harness.run_cli("set", program.pid, f"tables={value}", env=program.target.cli_env)


@test
def the_limit_changes_meanwhile():
    """A lower limit lets the tables grow no more, and a higher one lets them grow again; the dump
    equals the program's own counts."""
    with Program("recursion", f"allocs={scaled(600000, 6000000)}", "stands=3",
                 f"seed={SEED}") as program:
        program.go()
        full = program.figures()["tables_bytes"]
        done = set_tables(program, "abc")
        check(done.returncode != 0 and "tables" in done.stderr,
              f"tables=abc: {done.returncode}, {done.stderr!r}")
        done = set_tables(program, "1M")
        check_equal((done.returncode, done.stderr), (0, ""), "set tables=1M")
        check_equal(program.figures()["tables_limit_bytes"],
                    (1 << 20) + (32 << 10), "the limit then")
        program.go()
        small = program.figures()["tables_bytes"]
        check_books(program, program.dump())
        check(small <= full + 4096, f"it grew from {full} to {small} bytes with a limit of 1 MiB")
        check_equal(set_tables(program, "6M").returncode, 0, "set tables=6M")
        program.go()
        large = program.figures()["tables_bytes"]
        check_books(program, program.dump())
        check(large > full, f"{full} bytes before, {large} with a limit of 6 MiB")
        program.finish()
    return f"seed {SEED}, {full} bytes, then {small}, then {large}"


@test
def nothing_is_folded():
    with Program("recursion", *OPTIONS, MEMCTX_FOLD="off") as program:
        with Watch(program, 0.01) as watch:
            program.go()
        check_books(program, program.dump())
        check_lost(program)
        check_equal(program.figures()["folded_functions"], 0, "folded functions")
        told = watch.check(5)
        program.finish()
    return f"seed {SEED}, {told}"
