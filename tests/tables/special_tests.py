# SPDX-License-Identifier: MIT
"""The tables during forks, signal handlers, dumps, resets, marks and rules."""
import time

import harness
from harness import Failure, Repeated, check, check_equal, in_tries, test
from target import (ALLOCS, FIGURES, LIVE, SEED, Program, Watch, check_books, check_lost,
                    deep_path, figures_of, function_of, inside_main, path_figures, paths_of,
                    scaled, site_figures)
from wire import Wire, constant, frame, struct_bytes


# So small that many contexts reach it, although hundreds of paths share the live bytes.
PROMOTE_BYTES = 1024


def note(text=""):
    return f"seed {SEED}{', ' if text else ''}{text}"


@test
def a_child_goes_on():
    """After a fork with full tables, the dumps of parent and child equal their own counts, each
    within its limit."""
    options = (f"allocs={scaled(600000, 10000000)}", "stands=2", f"seed={SEED}")
    with Program("recursion", *options) as program:
        check_equal(program.go(), program.pid, "who stands")
        child = program.go("fork")
        check(child != program.pid, "the child does not stand")
        program.target.wait_socket(child)
        # the totals include the child's control thread
        check_books(program, program.dump(child), totals=False)
        check_lost(program, child)
        with Watch(program, 0.05, child) as watch:
            pass
        told = watch.check(1)
        check_equal(program.go(), program.pid, "who stands when the child has ended")
        check_books(program, program.dump())
        program.finish()
    return note(f"the child: {told}")


@test
def handlers_that_allocate():
    """Allocations of a signal handler that interrupts malloc are charged to [unwinding]."""
    options = (f"allocs={scaled(1000000, 50000000)}", "signals=1", f"seed={SEED}")
    with Program("recursion", *options) as program:
        with Watch(program) as watch:
            program.go()
        dump = program.dump()
        lost = program.figures()["lost"]
        missing = 0
        for site in program.sites():
            names = {site, "[unwinding]"} if site == "handler_site" else {site}
            got = site_figures(dump, names)
            want = program.sum_books(site=site)
            missing += want[ALLOCS] - got[ALLOCS]
            check(got == want or lost, f"{site}: the books say {want}, the dump {got}")
        check_equal(missing, lost, "allocations that are on no books")
        handled = program.sum_books(site="handler_site")[ALLOCS]
        check(handled > 100, f"only {handled} signals")
        told = watch.check(10)
        program.finish()
    return note(f"{handled} signals, {lost} lost; {told}")


@test
def asked_all_the_time():
    """Live figures stay exact during dumps, marks, resets and trims every 50 ms."""
    options = (f"allocs={scaled(1500000, 50000000)}", f"seed={SEED}")
    with Program("recursion", *options) as program:
        everything = struct_bytes("wire_reset_request", context=constant("WIRE_NONE"))
        requests = [frame(constant("WIRE_MARK"), b"m".ljust(constant("WIRE_MARK_NAME_MAX"), b"\0")),
                    frame(constant("WIRE_RESET"), everything),
                    frame(constant("WIRE_TRIM"), bytes(8))]
        path = program.target.wait_socket()
        with Wire(path, timeout_s=60) as wire, Watch(program, 0.05) as watch:
            turn = iter(range(1 << 30))

            def ask():
                wire.dump()
                status, body = wire.ask(requests[next(turn) % 3])
                check_equal(status, constant("WIRE_OK"), f"answer {body[:200]!r}")

            with Repeated(ask, 0.05) as repeated:
                program.go()
        check_books(program, program.dump(), fields=LIVE)
        check_lost(program)
        told = watch.check(10)
        check(repeated.calls > 5, f"asked {repeated.calls} times only")
        program.finish()
    return note(f"asked {repeated.calls} times; {told}")


def add_rule(program, rule):
    done = harness.run_cli("rules", program.pid, "--add", rule, env=program.target.cli_env)
    check_equal((done.returncode, done.stderr), (0, ""), f"rules --add {rule}")


@test
@in_tries
def a_path_named_by_a_rule():
    """A rarely used path that a rule names is complete, and its chunks have the rule's policy."""
    options = ("allocs=1200000", "stands=6", "ruled=1", f"seed={SEED}")
    with Program("recursion", *options, MEMCTX_PROMOTE_BYTES=0) as program:
        program.go()
        check_equal(program.sum_books(site="ruled_12"), (0, 0, 0, 0), "the path before the rule")
        add_rule(program, "ruled_12=slab")
        time.sleep(0.3)  # the library applies a rule within a tenth of a second
        for _ in range(5):
            program.go()
        dump = program.dump()
        check_books(program, dump)
        want, got = program.sum_books(site="ruled_12"), path_figures(dump, deep_path("ruled"))
        check(want[ALLOCS] > 20, f"only {want[ALLOCS]} allocations")
        names = paths_of(dump)
        placed = [(context["policy"], inside_main(names[context["id"]]), figures_of(context))
                  for context in dump["contexts"]
                  if function_of(context) == "ruled_12" and any(figures_of(context))]
        check_equal(got, want, f"{FIGURES} of the full path (of all its contexts: {placed[:4]})")
        check(all(policy == "slab" for policy, _, _ in placed), f"policies: {placed[:4]}")
        program.finish()
    return note(f"{want[ALLOCS]} allocations")


@test
@in_tries
def rules_for_the_recursion():
    """Rules for a site and for a function of the recursion apply to all their contexts, merged or
    not, that hold more than twice MEMCTX_PROMOTE_BYTES. The limit holds."""
    options = (f"allocs={scaled(900000, 9000000)}", "stands=3", f"seed={SEED}")
    with Program("recursion", *options, MEMCTX_PROMOTE_BYTES=PROMOTE_BYTES) as program:
        program.go()
        add_rule(program, "site_2=slab")
        add_rule(program, "visit_3=generation")
        time.sleep(0.3)
        with Watch(program, 0.05) as watch:
            for _ in range(2):
                program.go()
        dump = program.dump()
        check_books(program, dump)
        told = watch.check(5)
        names = paths_of(dump)
        wrong, right = {}, 0
        for context in dump["contexts"]:
            path = names[context["id"]]
            policy = "slab" if path[0] == "site_2" else "generation" if "visit_3" in path else None
            if not policy or figures_of(context)[0] < 2 * PROMOTE_BYTES:
                continue
            right += context["policy"] == policy
            if context["policy"] != policy:
                merged = "[other callers]" in path
                count, chunks = wrong.get((policy, context["policy"], merged), (0, 0))
                chunks += figures_of(context)[1]
                wrong[policy, context["policy"], merged] = (count + 1, chunks)
        program.finish()
    if wrong:
        raise Failure("\n".join(f"{count} contexts with {chunks} chunks are {got} and not {want} "
                                f"({'below [other callers]' if merged else 'full paths'})"
                                for (want, got, merged), (count, chunks) in wrong.items()))
    check(right > 4, f"only {right} contexts have enough alive")
    return note(told)


@test
def pages_of_its_own_for_every_path():
    """The limit also holds if each path has own pages."""
    options = (f"allocs={scaled(100000, 1000000)}", f"seed={SEED}")
    with Program("recursion", *options, MEMCTX_PROMOTE_BYTES=0,
                 MEMCTX_RULES="site_?=own") as program:
        with Watch(program, 0.05) as watch:
            program.go()
        check_books(program, program.dump())
        check_lost(program)
        told = watch.check(2)
        program.finish()
    return note(told)


def rule_for_full_tables(rule, tables=None, allocs=900000):
    """Adds a rule when the tables are full, runs on, clears the rule and runs on. Checks the limit
    and the books. Returns the text of the watch, and the resident KiB before, with and after the
    rule."""
    options = (f"allocs={scaled(allocs, 9000000)}", "stands=5", f"seed={SEED}")
    with Program("recursion", *options, **({"MEMCTX_TABLES": tables} if tables else {})) as program:
        program.go()
        resident = [program.rss_kib()]
        with Watch(program, 0.05) as watch:
            add_rule(program, rule)
            program.go()
            program.go()
            resident.append(program.rss_kib())
            done = harness.run_cli("rules", program.pid, "--clear", env=program.target.cli_env)
            check_equal(done.returncode, 0, done.stderr)
            program.go()
            program.go()
        resident.append(program.rss_kib())
        check_books(program, program.dump())
        check_lost(program)
        told = watch.check(2, fixed=tables)
        program.finish()
    return told, resident


@test
def a_rule_that_asks_for_pages_of_every_path():
    """A rule gives each of very many paths pages of its own. The limit holds. After the rule was
    cleared, the program gets its pages back as it goes on."""
    told, (before, during, after) = rule_for_full_tables("site_?=own")
    check(during > before + (8 << 10),
          f"the rule took {during - before} KiB, too few for this test")
    check(after < before + (during - before) // 4,
          f"resident {before} KiB before the rule, {during} with it, {after} after it")
    return note(told)


@test
def a_rule_that_zeroes_the_chunks_of_every_path():
    """Paths whose freed chunks are zeroed share pages when the tables have no room for more."""
    return note(rule_for_full_tables("site_?=zero", allocs=300000)[0])


@test
def a_rule_that_makes_slabs_of_every_path():
    """The limit also counts the lists that a slab keeps for its pages."""
    return note(rule_for_full_tables("site_?=own,slab", 16 << 20, 400000)[0])
