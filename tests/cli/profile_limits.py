# SPDX-License-Identifier: MIT
"""memctx export --limit-samples: fewer samples with unchanged sums."""
import os
import random

import pprof_file
from clitest import expect, scratch
from harness import check, check_equal, test
from profiles import export, Made


def outer_parts(stack):
    return {stack[at:] for at in range(len(stack) + 1)}


def inuse_and_allocs(profile):
    return {stack: (values[3], values[0]) for stack, values in pprof_file.stacks(profile)}


def check_limited(whole, limited, limit):
    """Checks that `limited` has at most `limit` samples, the sums of `whole`, and only paths that
    are the outer part of a path of `whole`."""
    check(
        0 < len(limited["sample"]) <= limit, f"{len(limited['sample'])} samples of at most {limit}"
    )
    check_equal(pprof_file.sums(limited), pprof_file.sums(whole), f"sums with at most {limit}")
    parts = set().union(*(outer_parts(stack) for stack, _ in pprof_file.stacks(whole))) | {
        ("[other paths]",)
    }
    strange = [stack for stack, _ in pprof_file.stacks(limited) if stack not in parts]
    check(not strange, f"not of any path: {strange[:3]}")


@test
def limit_keeps_every_sum():
    """Random trees of contexts keep their sums under every limit."""
    with scratch() as where:
        for seed in range(6):
            numbers = random.Random(seed)
            made = Made(where)
            made.dump["contexts"][0]["self"] = {
                **made.zeros,
                "requested_bytes": seed,
                "allocs": seed,
            }
            ends = [0]
            for address in range(1, 300):
                parent = numbers.choice(ends[-8:] if seed % 2 else ends)
                sizes = (0, 0, 16, 16, 16, numbers.randrange(1, 1 << numbers.randrange(1, 20)))
                ends.append(
                    made.holds(
                        parent,
                        8 * address,
                        numbers.choice(sizes),
                        pinned_bytes=numbers.choice((0, 0, 9)),
                        resident_bytes=numbers.randrange(1 << 40),
                    )
                )
            whole = export(made.save(), where)
            all_samples = len(whole["sample"])
            check(all_samples > 250, f"only {all_samples} samples")
            for limit in (1, 2, 3, 10, 100, all_samples - 1):
                limited = export(made.path, where, "--limit-samples", limit)
                check_limited(whole, limited, limit)
                check_equal(
                    len(limited["sample"]),
                    limit,
                    f"seed {seed}: samples, where so many can be kept",
                )
            for limit in (all_samples, 2147483647):
                check_equal(
                    export(made.path, where, "--limit-samples", limit),
                    whole,
                    f"limit {limit}, which is none",
                )


@test
def limit_merges_the_smallest():
    """Small samples with a common caller merge into one sample of that caller; a small sample among
    large ones is added to an outer caller."""
    with scratch() as where:
        made = Made(where)
        main = made.holds(0, 0x10, 0)
        made.dump["contexts"][main]["self"] = made.zeros
        loader, server = (
            made.add(main, name, address=0x7FF00000 + at, module="[vdso]")
            for name, at in (("loader", 0x20), ("server", 0x30))
        )
        made.holds(server, 0x40, 3000)
        made.holds(server, 0x50, 2500)
        made.holds(server, 0x60, 2)
        for number in range(100):
            made.holds(loader, 0x100 + number, 8 + number % 3)
        whole = export(made.save(), where)
        limited = export(made.path, where, "--limit-samples", 4)
        check_limited(whole, limited, 4)
        large = {("f40", "server", "f10"): (3000, 1), ("loader", "f10"): (899, 100)}
        check_equal(
            inuse_and_allocs(limited),
            {**large, ("f50", "server", "f10"): (2500, 1), ("f60", "server", "f10"): (2, 1)},
            "four",
        )
        limited = export(made.path, where, "--limit-samples", 3)
        check_limited(whole, limited, 3)
        check_equal(inuse_and_allocs(limited), {**large, ("server", "f10"): (2502, 2)}, "three")
        made.holds(0, 0x70, 1)
        made.holds(server, 0x80, 4000)
        limited = export(made.save(), where, "--limit-samples", 5)
        check_equal(
            inuse_and_allocs(limited),
            {
                **large,
                ("f50", "server", "f10"): (2500, 1),
                ("[other paths]",): (3, 2),
                ("f80", "server", "f10"): (4000, 1),
            },
            "five of another",
        )
        whole = export(made.path, where)
        limited = export(made.path, where, "--limit-samples", 103)
        check_equal(len(limited["sample"]), 103, "samples, some less than there are")
        check_limited(whole, limited, 103)


@test
def limit_counts_any_figure():
    """A path that holds nothing now but made most allocations keeps its own sample."""
    with scratch() as where:
        made = Made(where)
        made.add(
            0,
            "busy",
            address=0x7FF00010,
            module="[vdso]",
            allocs=100000,
            frees=100000,
            requested_cum_bytes=1,
        )
        for number in range(40):
            made.holds(0, 0x100 + number, 100)
        limited = export(made.save(), where, "--limit-samples", 2)
        found = {stack: values[0] for stack, values in pprof_file.stacks(limited)}
        check_equal(
            found, {("busy",): 100000, ("[other paths]",): 40}, "allocations of what is left"
        )


@test
def limit_counts_the_tiniest():
    """With a limit of two, a sample of one byte is kept beside a sample of terabytes."""
    with scratch() as where:
        made = Made(where)
        made.add(0, "large", address=0x7FF00010, module="[vdso]", requested_bytes=1 << 46)
        made.add(0, "tiny", address=0x7FF00020, module="[vdso]", requested_bytes=1)
        made.save()
        limited = export(made.path, where, "--limit-samples", 2)
        check_equal(
            {stack for stack, _ in pprof_file.stacks(limited)}, {("large",), ("tiny",)}, "two"
        )
        limited = export(made.path, where, "--limit-samples", 1)
        check_equal(
            [values[3] for _, values in pprof_file.stacks(limited)], [(1 << 46) + 1], "of one"
        )


@test
def limit_is_a_number():
    with scratch() as where:
        made, out = Made(where), os.path.join(where, "p")
        made.holds(0, 0x10, 1)
        made.save()
        for word in (
            "0",
            "-1",
            "few",
            "",
            "10k",
            "2147483648",
            "99999999999999999999",
            "0x10",
            " 5",
        ):
            expect(
                2,
                r'--limit-samples takes a number from 1 to 2147483647; got "' + word + '"',
                "export",
                made.path,
                "--pprof",
                out,
                f"--limit-samples={word}",
            )
        expect(
            2,
            "option --limit-samples needs a value",
            "export",
            made.path,
            "--pprof",
            out,
            "--limit-samples",
        )
        expect(
            2,
            "--limit-samples needs --pprof FILE",
            "export",
            made.path,
            "--folded",
            "-",
            "--limit-samples",
            5,
        )
        check(not os.path.exists(out), "a file was written all the same")
