# SPDX-License-Identifier: MIT
"""Functions that ended in a tail call: a call path names them if the debug information proves
them."""
import json
import os
import re
import shutil

import packed
import pprof_file
from clitest import scratch, succeed, target, tool
from harness import Skip, check, check_equal, test
from symbols import SOURCES, line_of, path_of_size

C_FILES = ("tails.c", "tails_far.c")


def compile_c(where, *flags, compiler="gcc"):
    program = os.path.join(where, "tails")
    objects = []
    for source in C_FILES + ("tails_plain.c",):
        debug = ("-g0",) if source == "tails_plain.c" else ("-g",)
        objects.append(os.path.join(where, source + ".o"))
        tool(compiler, "-O2", *flags, *debug, "-c", os.path.join(SOURCES, source), "-o",
             objects[-1])
    tool(compiler, *flags, *objects, "-o", program)
    return program


def compile_cxx(where, *flags):
    program = os.path.join(where, "tails")
    tool("g++", "-O2", "-g", *flags, os.path.join(SOURCES, "tails.cc"), "-o", program)
    return program


def steps_of(frames):
    """[(function, line, mark)] up to main, innermost first; the mark says that it ended in a tail
    call."""
    steps = []
    for tail in frames[0].get("tail_calls_to_malloc", []):
        steps.append((tail["function"], tail["line"], "tail"))
    for frame in frames:
        if frame["function"] in (None, "main"):
            break
        steps.append((frame["function"], frame["line"], ""))
        for tail in frame.get("tail_calls", []):
            steps.append((tail["function"], tail["line"], "tail"))
    return steps


def functions_of(dump, size):
    return [name + (" [tail call]" if mark else "")
            for name, _, mark in steps_of(path_of_size(dump, size))]


def lines_of(dump, size):
    return [line for _, line, mark in steps_of(path_of_size(dump, size)) if mark]


def check_c(dump, without=()):
    for size, expected in (
            (1011, ["one_work", "one [tail call]"]),
            (1022, ["two_work", "two_inner [tail call]", "two_outer [tail call]"]),
            (1032, ["either_work"]),  # ambiguous: called by either_left or either_right
            (1044, ["twice_work", "twice [tail call]"]),
            (1056, ["again_work"]),  # ambiguous: any number of rounds
            (1061, ["back_work"]),  # ambiguous: `back` may have called back_work again
            (1072, ["inlined_work", "inlined_outer [tail call]"]),
            (1081, ["pointer_work"]),  # a tail call through a pointer
            (1092, ["helper", "far_entry [tail call]", "helper [tail call]"]),
            (1101, ["plain_work"]),
            (1112, ["plain_last"]),  # plain_maybe may call any function
            (1121, ["libc_work", "or_libc [tail call]"]),
            (1131, ["make [tail call]"]),
            (1141, []),  # ambiguous: make_either or make_zeroed
            (3001, ["both_work", "both"]),
            (3000, ["both [tail call]"])):
        want = [] if size in without else expected
        check_equal(functions_of(dump, size), want, f"functions of {size} bytes")


def check_c_lines(dump):
    for size, marks in ((1011, ["one"]), (1022, ["two_inner", "two_outer"]),
                        (1072, ["inlined_outer"]), (1121, ["or_libc"]), (1131, ["make"])):
        check_equal(lines_of(dump, size), [line_of("tails.c", f"MARK {mark} ") for mark in marks],
                    f"lines of the tail calls of {size} bytes")
    check_equal(lines_of(dump, 1044), [None], "two tail calls: the line is not known")
    check_equal(lines_of(dump, 1092), [line_of("tails_far.c", "MARK far_entry"),
                                       line_of("tails.c", "MARK helper")], "lines in two files")
    tail = path_of_size(dump, 1072)[0]["tail_calls"][0]
    check_equal([(inlined["function"], inlined["line"]) for inlined in tail["inlined"]],
                [("inlined_step", line_of("tails.c", "MARK inlined_step"))],
                "the tail call stands in an inlined function")


@test
def tail_calls_of_c():
    with scratch() as where:
        for flags in ((), ("-gdwarf-4",), ("-no-pie", "-fno-pie"), ("-gsplit-dwarf",),
                      ("-fPIE", "-pie", "-fno-plt"), ("-O3", "-fcf-protection=full")):
            with target([compile_c(where, *flags)]) as live:
                dump = live.dump()
            check_c(dump)
            check_c_lines(dump)


@test
def tail_calls_of_clang():
    """Tail calls of a program that clang compiled. Its DWARF has tail calls, but none of malloc."""
    compiler = shutil.which("clang") or shutil.which("clang-14")
    if not compiler:
        raise Skip("no clang")
    with scratch() as where:
        for flags in (("-gdwarf-5",), ("-gdwarf-4",)):
            program = compile_c(where, "-Wno-unknown-attributes", *flags, compiler=compiler)
            with target([program]) as live:
                check_c(live.dump(), without=(1131, 3000))


@test
def tail_calls_of_cxx():
    with scratch() as where:
        for flags in ((), ("-gdwarf-4",), ("-no-pie",)):
            with target([compile_cxx(where, *flags)]) as live:
                dump = live.dump()
            check_equal(functions_of(dump, 2011)[:2],
                        ["shop::Shelf::fill(unsigned long)",
                         "shop::Shelf::order(unsigned long) [tail call]"], "a member function")
            check_equal(functions_of(dump, 2022)[:1], ["shop::Shelf::fill(unsigned long)"],
                        "the callee of a virtual call")
            check("visit" not in str(functions_of(dump, 2022)), "a virtual call may lead anywhere")
            names = functions_of(dump, 64 * 32)
            check_equal(len(names), 2, f"a template, and an anonymous namespace: {names}")
            check("shop::make<" in names[0] and names[0].endswith("[tail call]"), names[0])
            check("::rows(" in names[1] and names[1].endswith("[tail call]"), names[1])
            check_equal(lines_of(dump, 64 * 32), [line_of("tails.cc", "MARK make"),
                                                  line_of("tails.cc", "MARK rows")], "lines")
            frames = functions_of(dump, 301 * 8)
            check(any("prepare(" in name and name.endswith("[tail call]") for name in frames),
                  f"the caller of a function that calls operator new itself: {frames}")


def compile_across(where, source, compiler, *library_flags):
    """Compiles a program and the shared libraries that it calls."""
    path, script = os.path.join(SOURCES, source), os.path.join(where, "versions")
    with open(script, "w", encoding="ascii") as file:
        file.write("V1 { global: *; };\n")
    program, libraries = os.path.join(where, "across"), []
    for name, macro in (("first", "LIBRARY"), ("second", "SECOND")):
        if macro == "SECOND" and compiler == "g++":
            continue
        libraries.append(os.path.join(where, f"lib{name}.so"))
        tool(compiler, "-O2", *library_flags, "-fPIC", "-shared", f"-D{macro}",
             f"-Wl,--version-script={script}", path, "-o", libraries[-1])
    tool(compiler, "-O2", "-g", path, "-Wl,--no-as-needed", *libraries, f"-Wl,-rpath,{where}", "-o",
         program)
    return program


@test
def tail_calls_into_a_library():
    with scratch() as where:
        for flags in (("-g",), ("-g", "-gdwarf-4"), ("-g0",)):
            with target([compile_across(where, "tails_across.c", "gcc", *flags)]) as live:
                dump = live.dump()
            known = flags != ("-g0",)  # the library has debug information
            for size, expected in (
                    (1201, ["lib_work", "wrap [tail call]"]),
                    (1213, ["inside", "lib_open [tail call]", "wrap_open [tail call]"] if known
                     else None),
                    (1222, ["inside", "lib_open [tail call]"] if known else None),
                    (1232, ["inside"] if known else None),  # ambiguous: lib_open or lib_other
                    (1251, ["lib_make [tail call]"] if known else []),
                    (1263, []),  # ambiguous: a function of the first library or of the second
                    (1285, ["inside", "lib_version_1 [tail call]"] if known else None),
                    (1271, ["called"])):  # lib_call may call any function
                if expected is not None:
                    check_equal(functions_of(dump, size), expected,
                                f"functions of {size} bytes with {flags}")
            names = functions_of(dump, 1240)
            check_equal((len(names), names[-1]), (2, "copy [tail call]"),
                        f"into the C library: {names}")
            check_equal(lines_of(dump, 1201), [line_of("tails_across.c", "MARK wrap ")],
                        "line of the program")
            if known:
                check_equal(lines_of(dump, 1213), [line_of("tails_across.c", "MARK lib_open"),
                                                   line_of("tails_across.c", "MARK wrap_open")],
                            "lines of both")
                tails = path_of_size(dump, 1213)[0]["tail_calls"]
                check_equal([os.path.basename(tail["module"]) for tail in tails],
                            ["libfirst.so", "across"], "modules")


@test
def tail_calls_into_a_library_of_cxx():
    with scratch() as where:
        with target([compile_across(where, "tails_across.cc", "g++", "-g")]) as live:
            dump = live.dump()
        check_equal(functions_of(dump, 1301),
                    ["fill(unsigned long)", "shop::Shelf::order(unsigned long) [tail call]"],
                    "order")
        check_equal(functions_of(dump, 1311), ["shop::Shelf::make(unsigned long) [tail call]"],
                    "make")


@test
def no_tail_calls_without_optimisation():
    """At -O0 each function is an ordinary frame, and no function is named as a tail call."""
    with scratch() as where:
        with target([compile_c(where, "-O0")]) as live:
            dump = live.dump()
        check("tail_calls" not in json.dumps(dump["contexts"]), "keys")
        check_equal(functions_of(dump, 1022), ["two_work", "two_inner", "two_outer"], "functions")
        check_equal(functions_of(dump, 1131), ["make"], "functions")


@test
def tail_calls_in_every_output():
    with scratch() as where:
        snapshot = os.path.join(where, "snapshot")
        with target([compile_c(where)]) as live:
            env = live.cli_env
            tree = succeed("dump", live.pid, "--min", "0", env=env)
            succeed("dump", live.pid, "--threads", "-o", snapshot, env=env)
            flat = succeed("dump", live.pid, "--flat", "--limit", "0", env=env)
            by_site = succeed("dump", live.pid, "--site", "^make ", "--flat", env=env)
            frag = succeed("frag", live.pid, "--pages", "--limit", "0", env=env)
            page = os.path.join(where, "page.html")
            succeed("report", live.pid, "-o", page, env=env)
            plain = live.dump("--no-symbols")
            folded = succeed("export", live.pid, "--folded", "-", env=env)
        line = line_of("tails.c", "MARK one ")
        check(f"  one [tail call] (tails.c:{line}) > one_work (tails.c:" in tree, tree)
        check(f" > make [tail call] (tails.c:{line_of('tails.c', 'MARK make ')}): " in tree, tree)
        check(f"\n    < one [tail call] (tails.c:{line})\n    < main (" in flat, flat)
        check("\nboth [tail call] (" in flat, flat)
        check("make [tail call]" in by_site and "one" not in by_site, by_site)
        check(f" < one [tail call] (tails.c:{line}) < main (" in frag, frag)
        check("tail_calls" not in json.dumps(plain["contexts"]), "--no-symbols")
        check("main;one;one_work 1011\n" in folded and "main;make 1131\n" in folded, folded)
        with open(page, encoding="utf-8") as file:
            check("one [tail call]" in file.read(), "the report")
        dump = json.loads(succeed("dump", snapshot, "--json"))
        check_c(dump)
        with open(snapshot, "rb") as file:
            second = packed.read(file.read())
        check_equal([context["frame"] for context in second["contexts"]],
                    [context["frame"] for context in dump["contexts"]], "a second reader")
        json_snapshot = os.path.join(where, "snapshot.json")
        succeed("dump", snapshot, "--json", "--threads", "-o", json_snapshot)
        check_c(json.loads(succeed("dump", json_snapshot, "--json")))


@test
def tail_calls_in_profiles():
    """In pprof, speedscope and heaptrack files, a function that ended in a tail call is a frame."""
    with scratch() as where:
        names = {kind: os.path.join(where, kind)
                 for kind in ("pprof", "few", "speedscope", "heaptrack", "heaptrack.gz")}
        with target([compile_c(where)]) as live:
            env = live.cli_env
            succeed("export", live.pid, "--pprof", names["pprof"], "--speedscope",
                    names["speedscope"], env=env)
            succeed("export", live.pid, "--heaptrack", names["heaptrack"], env=env)
            succeed("export", live.pid, "--heaptrack", names["heaptrack.gz"], env=env)
            snapshot = os.path.join(where, "snapshot")
            succeed("dump", live.pid, "-o", snapshot, env=env)
            held = sum(context["self"]["live_chunks"] for context in live.dump()["contexts"])
        profile = pprof_file.load(names["pprof"])
        check_equal(pprof_file.complaints(profile), [], "pprof")
        check_stacks({stack: values[3] for stack, values in pprof_file.stacks(profile)})
        for limit in range(1, 18):
            succeed("export", snapshot, "--pprof", names["few"], "--limit-samples", limit)
            few = pprof_file.load(names["few"])
            check_equal(pprof_file.complaints(few), [], f"{limit} samples")
            check_equal(pprof_file.sums(few), pprof_file.sums(profile), f"sums of {limit} samples")
            merged = [values[3] for stack, values in pprof_file.stacks(few) if stack[0] == "both"]
            # `both` allocates 3000 bytes, and calls both_work, which allocates 3001.
            check(set(merged) <= {3000, 3001, 6001},
                  f"{limit} samples: what others allocated is told of `both`: {merged}")
        with open(names["speedscope"], encoding="utf-8") as file:
            content = json.load(file)
        frames = [frame["name"] for frame in content["shared"]["frames"]]
        requested = content["profiles"][0]
        check_stacks({tuple(frames[at] for at in reversed(sample)): weight
                      for sample, weight in zip(requested["samples"], requested["weights"])})
        if not shutil.which("heaptrack_print"):
            raise Skip("no heaptrack_print")
        for kind in ("heaptrack", "heaptrack.gz"):
            text = tool("heaptrack_print", "-l", "1", "-n", "100", "-f", names[kind])
            check(f"calls to allocation functions: {held} " in text, f"{kind}: chunks")
            leaks = text[text.index("MEMORY LEAKS"):]
            check(re.search(r"leaked over 1 calls from\n *make\n.*\n.*\n.* from:\n *main\n", leaks),
                  f"{kind}: make\n{leaks}")
            check(re.search(r"\n *one_work\n.*\n.*\n.* from:\n *one\n.*\n.*\n *main\n", leaks),
                  f"{kind}: one\n{leaks}")


def check_stacks(held):
    """Checks the stacks of a profile. `held`: stack, innermost function first -> bytes."""
    def up_to_main(*names):
        return [size for stack, size in held.items() if stack[:len(names)] == names and
                stack[len(names)] == "main"]
    check_equal(up_to_main("one_work", "one"), [1011], "one")
    check_equal(up_to_main("two_work", "two_inner", "two_outer"), [1022], "two")
    check_equal(up_to_main("inlined_work", "inlined_step", "inlined_outer"), [1072],
                "across an inlined function")
    check_equal(up_to_main("either_work"), [1032], "two ways")
    check_equal(up_to_main("make"), [1131], "malloc")
    check_equal((up_to_main("both"), up_to_main("both_work", "both")), ([3000], [3001]),
                "one return address")


@test
def tail_calls_in_the_paths_of_doctor():
    with scratch() as where:
        source = os.path.join(where, "grow.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(GROW)
        program = os.path.join(where, "grow")
        tool("gcc", "-O2", "-g", source, "-o", program)
        with target([program]) as live:
            found = json.loads(succeed("doctor", live.pid, "--json", env=live.cli_env))["findings"]
            paths = [finding["path"] for finding in found if "add_record" in finding["path"]]
            check(paths, f"no finding names the function that ends in malloc: {found}")
            check_equal(paths[0][0], "add_record", "the innermost function")
            text = succeed("doctor", live.pid, env=live.cli_env)
            check("add_record [tail call]" in text, text)


# A program that frees most chunks; the others keep its pages in use.
GROW = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *kept[400000];
__attribute__((noipa)) static void *add_record(size_t bytes) { return malloc(bytes + 1); }
int main(void) {
    for (int i = 0; i < 400000; i++)
        kept[i] = add_record(119);
    for (int i = 0; i < 400000; i++)
        if (i % 50)
            free(kept[i]);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
"""
