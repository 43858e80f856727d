# SPDX-License-Identifier: MIT
"""Very many threads: at a time, one after the other, idle, and one that frees another's chunks."""
import functools

from harness import check, in_tries, test, wait_until
from target import (SEED, Program, Watch, check_books, check_books_or_merged, check_lost,
                    scaled)

IDLE_RATIO = 1.2
CHURN_GROWTH_KIB = 2 << 10
HEAPS_AFTER_BURST = 40


def note(text):
    return f"seed {SEED}, {text}"


@test
def many_threads_at_a_time():
    """The tables stay within their budget with 500 threads at a time, each with its own paths. (The
    tables have no room for all sites of all threads.)"""
    paths = scaled(2000, 10000)
    options = ("threads=500", "together=500", f"paths={paths}", f"seed={SEED}")
    with Program("threads", *options) as program:
        with Watch(program, 0.01) as watch:
            program.go()
        told = watch.check(3)
        check_books_or_merged(program, program.dump())
        check_lost(program)
        program.finish()
    return note(told)


@functools.lru_cache(None)
def many_threads_end():
    """Runs 300 threads; returns the samples while they live and after they have ended."""
    options = ("threads=300", "together=300", "paths=500", f"seed={SEED}")
    with Program("threads", *options) as program:
        with Watch(program, 0.1) as watch:
            program.go()
        program.go()
        program.settle()
        with Watch(program) as after:
            after.wait_for(10)
        check_books_or_merged(program, program.dump())
        program.finish()
    return watch, after


@test
def tables_when_many_threads_have_ended():
    """When threads end, the limit falls by their share, and the tables shrink below it."""
    watch, after = many_threads_end()
    return note(f"{watch.tell()}; when they have ended {after.check(3, resident_counts=False)}")


@test
def resident_bytes_when_many_threads_have_ended():
    """When threads have ended, memory of their tables goes back to the kernel."""
    watch, after = many_threads_end()
    return note(f"{watch.tell()}; when they have ended {after.check(3)}")


@test
def heaps_of_a_burst_of_threads():
    """When 1 000 threads have ended and freed their chunks, most of their heaps go, so that the
    tables come below the limit."""
    options = ("threads=1000", "together=1000", "paths=600", "rest=0", f"seed={SEED}")
    with Program("threads", *options) as program:
        program.go()
        most = program.figures()["heaps"]
        program.go()
        check(most >= 1000, f"{most} heaps while the threads live")
        wait_until(lambda: program.figures()["heaps"] <= HEAPS_AFTER_BURST,
                   f"at most {HEAPS_AFTER_BURST} heaps")
        program.settle()  # figures of the heaps' paths have moved to the totals
        figures = program.figures()
        check(figures["tables_bytes"] <= figures["tables_limit_bytes"], str(figures))
        check_books_or_merged(program, program.dump())
        check_lost(program)
        program.finish()
    tables_kib = figures["tables_bytes"] >> 10
    return note(f"{most} heaps, then {figures['heaps']}; tables {tables_kib} KiB")


@test
def threads_that_come_and_go():
    """With 5 000 short threads, 50 at a time, memory does not grow, the limit holds and the dump
    equals the program's own counts. On a busy machine sweeps come late, so some allocations lack
    room in the tables and count in [other callers]."""
    with Program("threads", "threads=500", "together=50", "paths=200", f"seed={SEED}") as program:
        program.go()
        resident = [program.rss_kib()]
        program.finish()
    with Program("threads", "threads=5000", "together=50", "paths=200", f"seed={SEED}") as program:
        with Watch(program, 0.05) as watch:
            program.go()
        resident.append(program.rss_kib())
        check_books_or_merged(program, program.dump(), least=0.9)
        check_lost(program)
        told = watch.check(10, threads=52)
        program.finish()
    with Program("threads", "threads=5000", "together=50", "paths=200", preload=False) as plain:
        plain.go()
        plain_kib = plain.rss_kib()
    told += f"; resident {resident} KiB after 500 and 5 000 threads, glibc {plain_kib}"
    # resident[1] and plain_kib both include the chunks that 4 500 more threads leave.
    check(resident[1] - plain_kib <= resident[0] + CHURN_GROWTH_KIB, told)
    return note(told)


@test
def one_thread_after_the_other():
    options = (f"threads={scaled(1000, 8000)}", "together=1", "paths=200", f"seed={SEED}")
    with Program("threads", *options) as program:
        with Watch(program, 0.02) as watch:
            program.go()
        check_books(program, program.dump(), totals=False)
        check_lost(program)
        told = watch.check(10, threads=3)
        program.finish()
    return note(told)


@test
def a_thread_that_frees_for_another():
    """The dump equals the program's own counts if a thread frees 20 000 chunks of 20 000 paths of
    another thread."""
    with Program("threads", "handover=1", "paths=20000", f"seed={SEED}") as program:
        with Watch(program, 0.005) as watch:
            program.go()
        check_books(program, program.dump(), totals=False)
        check_lost(program)
        told = watch.check(3, threads=4)
        program.finish()
    return note(told)


@test
def threads_that_free_each_others_chunks():
    """Sites keep their figures in full tables although each of 20 threads frees the chunks of all
    others, and so would need a view of each context."""
    options = ("threads=20", "together=20", "paths=20000", "exchange=1", f"seed={SEED}")
    with Program("threads", *options) as program:
        with Watch(program, 0.05) as watch:
            program.go()
        check_books_or_merged(program, program.dump(), least=0.99)
        check_lost(program)
        told = watch.check(3)
        program.go()
        check_books_or_merged(program, program.dump(), least=0.99)
        program.finish()
    return note(told)


def resident_parts(pid):
    """Resident KiB of a process: {"stacks", "anonymous" (other memory without a file), "files"}."""
    parts = {"stacks": 0, "anonymous": 0, "files": 0}
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and len(words) >= 5 and ":" not in words[0]:
                first, last = (int(end, 16) for end in words[0].split("-"))
                name = words[5] if len(words) > 5 else ""
                part = "files" if name.startswith("/") else "anonymous"
                if not name and last - first == 128 << 10:
                    part = "stacks"
            elif words[0] == "Rss:":
                parts[part] += int(words[1])
    return parts


@in_tries
def compare_idle(*more):
    """Compares the resident set of 500 idle threads with that under glibc. (A try may fail on a
    busy machine, where more threads get own heaps.)"""
    options = ("threads=500", "together=500", "alike=1", f"seed={SEED}", *more)
    with Program("threads", *options, preload=False) as plain:
        plain.go()
        plain_kib, plain_parts = plain.rss_kib(), resident_parts(plain.pid)
    with Program("threads", *options) as program:
        program.go()
        kib, parts = program.rss_kib(), resident_parts(program.pid)
        figures = program.figures()
        check_books(program, program.dump(), totals=False)
        check_lost(program)
        program.finish()
    told = (f"{', '.join(more)}: {kib} KiB, glibc {plain_kib}: {kib / plain_kib:.2f}; {parts}, "
            f"glibc {plain_parts}; metadata resident {figures['metadata_resident_bytes'] >> 10}, "
            f"tables {figures['tables_bytes'] >> 10}, pages "
            f"{figures['segment_bytes'] >> 10} for {figures['live_bytes'] >> 10} KiB alive")
    check(kib <= plain_kib * IDLE_RATIO, told)
    return f"{kib / plain_kib:.2f}"


@test
def idle_threads():
    """500 idle threads with some chunks take at most 1.2 times the memory that they take under
    glibc."""
    ratios = [compare_idle(*more) for more in (
        ("paths=1", "slots=1"), ("paths=6", "slots=6"), ("paths=20", "slots=20"),
        ("paths=40", "slots=10"), ("paths=6", "slots=6", "stdio=1"),
        ("paths=6", "slots=6", "large=1"))]
    return note(f"{', '.join(ratios)} times what glibc takes")
