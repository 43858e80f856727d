# SPDX-License-Identifier: MIT
"""Names of functions: DWARF, inlined frames, stripped files, separate debug files, C++, Rust,
damaged files."""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess

from clitest import CLI, HERE, cli, expect, scratch, succeed, target, tool
from harness import Skip, check, check_equal, test

SOURCES = os.path.join(HERE, "programs")


def compile_c(where, *flags, name="frames"):
    path = os.path.join(where, name)
    tool("gcc", "-O2", "-fno-builtin", "-Wl,--build-id", *flags,
         os.path.join(SOURCES, "frames.c"), "-o", path)
    return path


def paths_of(dump):
    """[(figures, [frame, innermost first])] of every context with live bytes."""
    by_id = {context["id"]: context for context in dump["contexts"]}
    found = []
    for context in dump["contexts"]:
        if context["self"]["requested_bytes"]:
            frames, at = [], context
            while at["parent"] is not None:
                frames.append(at["frame"])
                at = by_id[at["parent"]]
            found.append((context["self"], frames))
    return found


def path_of_size(dump, size):
    found = [frames for figures, frames in paths_of(dump) if figures["requested_bytes"] == size]
    check_equal(len(found), 1, f"contexts with {size} bytes")
    return found[0]


def dump_of(program, *options):
    with target([program]) as live:
        return live.dump(*options)


def module_of(dump, program):
    return [module for module in dump["modules"] if module["path"] == os.path.realpath(program)][0]


def line_of(source, mark):
    with open(os.path.join(SOURCES, source), encoding="ascii") as file:
        lines = [number for number, line in enumerate(file, 1) if mark in line]
    check_equal(len(lines), 1, f"lines with {mark}")
    return lines[0]


def check_dwarf_names(dump):
    frames = path_of_size(dump, 12345)
    site = frames[0]
    check_equal([site["function"], site["line"]], ["outer", line_of("frames.c", "MARK middle")],
                "the machine function, at the line of its call")
    check_equal([(inlined["function"], inlined["line"]) for inlined in site["inlined"]],
                [("innermost", line_of("frames.c", "MARK malloc")),
                 ("middle", line_of("frames.c", "MARK innermost"))], "inlined, innermost first")
    check(all(inlined["addr"] == site["addr"] for inlined in site["inlined"]), "one address")
    check_equal(os.path.basename(site["file"]), "frames.c", "file")
    check_equal((frames[1]["function"], frames[1]["line"]),
                ("main", line_of("frames.c", "MARK outer")), "the caller")


@test
def dwarf_with_inlined_functions():
    with scratch() as where:
        for flags in (["-g"], ["-g", "-no-pie"], ["-g", "-gdwarf-4"], ["-g", "-gsplit-dwarf"],
                      ["-g", "-ffunction-sections", "-freorder-blocks-and-partition"]):
            program = compile_c(where, *flags)
            dump = dump_of(program)
            check_dwarf_names(dump)
            check_equal(module_of(dump, program)["symbols"], "dwarf", f"source with {flags}")


@test
def program_with_gaps_between_its_segments():
    """Names are found in a program like node, whose code lies far from its headers and unwind
    tables."""
    with scratch() as where:
        program = compile_c(where, "-g", "-no-pie", "-Wl,-Ttext=0x900000")
        dump = dump_of(program)
        check_equal(path_of_size(dump, 12345)[0]["function"], "outer", "the site")
        check_dwarf_names(dump)


@test
def symbol_table_without_dwarf():
    with scratch() as where:
        program = compile_c(where)
        dump = dump_of(program)
        frames = path_of_size(dump, 12345)
        check_equal([frame["function"] for frame in frames[:2]], ["outer", "main"], "functions")
        check_equal((frames[0]["file"], frames[0]["line"], frames[0]["inlined"]), (None, None, []),
                    "no lines")
        check_equal(module_of(dump, program)["symbols"], "symtab", "source")


@test
def stripped_program():
    with scratch() as where:
        program = compile_c(where, "-s", "-rdynamic")
        dump = dump_of(program)
        frames = path_of_size(dump, 12345)
        check_equal(frames[0]["function"], None, "a static function has no name left")
        check_equal((frames[0]["module"], frames[1]["function"]),
                    (os.path.realpath(program), "main"), "module; dynamic symbol")
        check(int(frames[0]["offset"], 16) > 0, "offset")
        check_equal(module_of(dump, program)["symbols"], "dynsym", "source")
        with target([program]) as live:
            check("frames+0x" in succeed("dump", live.pid, "--min", "0", env=live.cli_env),
                  "module and offset in the text")


@test
def separate_debug_file_by_build_id():
    with scratch() as where:
        program = compile_c(where, "-g")
        debug = os.path.join(where, "frames.debug")
        tool("objcopy", "--only-keep-debug", program, debug)
        tool("strip", "--strip-all", program)
        build_id = [line.split()[-1] for line in tool("readelf", "-n", program).splitlines()
                    if "Build ID" in line][0]
        store = os.path.join(where, "store", ".build-id", build_id[:2])
        os.makedirs(store)
        shutil.move(debug, os.path.join(store, build_id[2:] + ".debug"))
        check_equal(path_of_size(dump_of(program), 12345)[0]["function"], None, "without it")
        check_dwarf_names(dump_of(program, "--debug-dir",
                                  os.path.relpath(os.path.join(where, "store"))))
        dump = dump_of(program, "--debug-dir", os.path.join(where, "store"))
        check_dwarf_names(dump)
        for wrong, why in (("no", "No such file or directory"),
                           ("store/../frames", "frames is a file")):
            expect(2, f"--debug-dir takes a directory; .*{why}", "dump", "1", "--debug-dir",
                   os.path.join(where, wrong))
        check_equal(module_of(dump, program)["symbols"], "dwarf", "source")


@test
def separate_debug_file_by_link():
    with scratch() as where:
        program = compile_c(where, "-g", "-Wl,--build-id=none")
        tool("objcopy", "--only-keep-debug", program, os.path.join(where, "frames.debug"))
        tool("strip", "--strip-all", program)
        tool("objcopy", "--add-gnu-debuglink=frames.debug", program, cwd=where)
        check_dwarf_names(dump_of(program))
        os.unlink(os.path.join(where, "frames.debug"))
        os.mkfifo(os.path.join(where, "frames.debug"))  # an open would wait for ever
        check_equal(path_of_size(dump_of(program), 12345)[0]["function"], None, "with a FIFO")


@test
def compressed_symbol_table():
    if shutil.which("xz") is None:
        raise Skip("no xz")
    with scratch() as where:
        program = compile_c(where)
        small = os.path.join(where, "small")
        tool("objcopy", "--only-keep-debug", program, small)
        tool("xz", small)
        tool("strip", "--strip-all", program)
        tool("objcopy", "--add-section", f".gnu_debugdata={small}.xz", program)
        frames = path_of_size(dump_of(program), 12345)
        check_equal([frame["function"] for frame in frames[:2]], ["outer", "main"], "functions")


@test
def libraries_loaded_by_relative_paths():
    """A library that dlopen got by a relative path, and one that LD_LIBRARY_PATH=. found, have
    names, although the command runs in another directory and the program has left its own."""
    with scratch() as where:
        source = os.path.join(SOURCES, "relative.c")
        for part in ("near", "plugin"):
            tool("gcc", "-O1", "-g", "-shared", "-fPIC", f"-DPART={part}", source, "-o",
                 os.path.join(where, f"{part}.so"))
        tool("gcc", "-O1", "-g", source, "near.so", "-o", "program", cwd=where)
        with target(["env", "-C", where, "./program"], LD_LIBRARY_PATH=".") as live:
            dump = live.dump()
        for part, size in (("near", 1111), ("plugin", 2222)):
            check_equal(path_of_size(dump, size)[0]["function"], f"{part}_allocate", part)
            check_equal(module_of(dump, os.path.join(where, f"{part}.so"))["symbols"], "dwarf",
                        "source")


@test
def cxx_names():
    with scratch() as where:
        for flags in (["-g"], []):
            program = os.path.join(where, "shop")
            tool("g++", "-O2", *flags, os.path.join(SOURCES, "shop.cc"), "-o", program)
            dump = dump_of(program)
            names = [[frame["function"] for frame in frames] for _, frames in paths_of(dump)]
            found = [name for frames in names for name in frames if name]
            check("shop::Cart::add(int)" in found, f"no shop::Cart::add(int) in {found}")
            check(any(name.startswith("void shop::fill<char>(") for name in found), "a template")
            check("shop::(anonymous namespace)::hidden(long)" in found, f"anonymous: {found}")
            check(not any(name.startswith("_Z") for name in found), f"mangled: {found}")


@test
def cxx_name_that_is_too_long_to_read():
    """A mangled name of some 300 bytes, whose readable form would have more bytes than any machine,
    stays mangled. Without -g, because the compiler writes readable names into debug information."""
    with scratch() as where:
        program = os.path.join(where, "doubling")
        tool("g++", "-O2", os.path.join(SOURCES, "doubling.cc"), "-o", program)
        dump = dump_of(program)
        name = path_of_size(dump, 1111)[0]["function"]
        check((name or "").startswith("_Z4fillI4Both"), f"a name that is too long: {name}")
        check_equal(path_of_size(dump, 2222)[0]["function"],
                    "void fill<Both<Both<int, int>, Both<int, int> > >(int)", "a short name")


@test
def rust_names():
    if shutil.which("rustc") is None:
        raise Skip("no rustc")
    with scratch() as where:
        for flags in (["-g"], [], ["-g", "-C", "symbol-mangling-version=v0"]):
            program = os.path.join(where, "store")
            tool("rustc", "-O", *flags, os.path.join(SOURCES, "store.rs"), "-o", program)
            dump = dump_of(program)
            frames = [frame for _, path in paths_of(dump) for frame in path]
            names = [frame["function"] for frame in frames if frame["function"]]
            check("store::shelf::fill" in names, f"no store::shelf::fill in {names}")
            check(not any(name.startswith(("_ZN", "_R")) for name in names), f"mangled: {names}")
            if "-g" in flags:
                fill = [frame for frame in frames if frame["function"] == "store::shelf::fill"][0]
                check_equal(os.path.basename(fill["file"] or ""), "store.rs", "file")


@test
def code_made_at_run_time():
    with scratch() as where:
        program = os.path.join(where, "generate")
        tool("gcc", "-O1", "-g", os.path.join(SOURCES, "generate.c"), "-o", program)
        with target([program]) as live:
            try:
                dump = live.dump()
            finally:
                os.unlink(f"/tmp/perf-{live.pid}.map")
            frames = path_of_size(dump, 54321)
            check_equal((frames[0]["function"], frames[0]["module"]), ("LazyCompile:~fib", None),
                        "a frame of generated code")


@test
def file_that_was_replaced():
    with scratch() as where:
        program = compile_c(where, "-g")
        snapshot = os.path.join(where, "snapshot")
        with target([program]) as live:
            succeed("dump", live.pid, "--no-symbols", "-o", snapshot, env=live.cli_env)
            frames = path_of_size(json.loads(succeed("dump", snapshot, "--json")), 12345)
            check_equal(frames[0]["function"], "outer", "a snapshot is symbolised when it is read")
            os.rename(program, program + ".old")
            compile_c(where, "-g", "-O1")
            # The process still maps the old file, which the command opens through /proc.
            check_dwarf_names(live.dump())
        done = cli("dump", snapshot, "--json")
        check_equal(done.returncode, 0, "exit code")
        check("not the one that the process runs" in done.stderr, f"note: {done.stderr}")
        frames = path_of_size(json.loads(done.stdout), 12345)
        check_equal(frames[0]["function"], None, "names of another file are not believed")
        check_equal(frames[0]["module"], os.path.realpath(program), "module stays")
        os.unlink(program)
        dump = json.loads(succeed("dump", snapshot, "--json"))
        check_equal(module_of(dump, program)["symbols"], "missing", "a file that is gone")
        compile_c(where, "-g", "-Wl,--build-id=none")
        with target([program]) as live:
            succeed("dump", live.pid, "--no-symbols", "-o", snapshot, env=live.cli_env)
            os.rename(program, program + ".old")
            compile_c(where, "-g", "-Wl,--build-id=none", "-Douter=another")
            check_dwarf_names(live.dump())
        done = cli("dump", snapshot, "--json")
        frames = path_of_size(json.loads(done.stdout), 12345)
        check_equal(frames[0]["function"], "another", "the name in the file of today")
        check("no build-id" in done.stderr, f"note: {done.stderr}")


@test
def program_that_was_removed():
    """An upgrade removes the file of a running program. The program keeps its name, by which doctor
    knows the runtimes of languages."""
    with scratch() as where:
        program = os.path.realpath(compile_c(where, "-g", name="node"))
        with target([program]) as live:
            os.unlink(program)
            dump = live.dump()
            check_equal((dump["exe"], module_of(dump, program)["path"]), (program, program), "exe")


def snapshot_of_libraries(where, count):
    """A snapshot without names of a process with `count` libraries, each of its own file."""
    source, path = os.path.join(SOURCES, "many_libraries.c"), os.path.join(where, "0.so")
    tool("gcc", "-O2", "-g", "-fPIC", "-shared", "-DLIBRARY", "-Wl,--build-id", source, "-o", path)
    for number in range(1, count):
        shutil.copy(path, os.path.join(where, f"{number}.so"))
    program, snapshot = os.path.join(where, "program"), os.path.join(where, "snapshot")
    tool("gcc", "-O2", source, "-o", program, "-ldl")
    with target([program, where, str(count)]) as live:
        succeed("dump", live.pid, "--no-symbols", "-o", snapshot, env=live.cli_env)
    return snapshot


@test
def many_libraries_of_which_some_are_damaged():
    """A child that looks up names reads several libraries; a damaged one costs only its own
    names."""
    count, damaged = 100, (0, 1, 30, 31, 50, 99)
    with scratch() as where:
        snapshot = snapshot_of_libraries(where, count)
        for number in damaged:
            path = os.path.join(where, f"{number}.so")
            os.truncate(path, os.path.getsize(path) // 2 if number % 2 else 0)
        dump = json.loads(succeed("dump", snapshot, "--json"))
        for number in range(count):
            function = path_of_size(dump, 1000 + number)[0]["function"]
            check(number in damaged or function == "library_hold",
                  f"library {number}: {function!r}")


@test
def few_children_look_up_names():
    """A process with many libraries costs no child for each: a fork copies page tables."""
    if os.geteuid() != 0:
        raise Skip("needs a pid namespace, which only root can make")
    with scratch() as where:
        snapshot = snapshot_of_libraries(where, 300)
        script = f"{CLI} dump {snapshot} > /dev/null; sh -c 'echo $$'"
        last = int(tool("unshare", "--pid", "--fork", "sh", "-c", script))
        check(last < 100, f"{last} processes for 300 libraries")


def kill_a_child(command):
    """Kills the newest child of the process; returns False if the process ended before."""
    while command.poll() is None:
        with contextlib.suppress(OSError):
            with open(f"/proc/{command.pid}/task/{command.pid}/children",
                      encoding="ascii") as file:
                children = file.read().split()
            if children:
                os.kill(int(children[-1]), signal.SIGKILL)
                return True
    return False


@test
def a_killed_child_is_told_from_a_damaged_file():
    """If memory is short, the kernel kills the child that looks up names. Another child then looks
    up those of the libraries behind the one that was read."""
    with scratch() as where:
        snapshot = snapshot_of_libraries(where, 200)
        for _ in range(50):
            with subprocess.Popen([CLI, "dump", snapshot, "--flat"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as command:
                killed = kill_a_child(command)
                told = command.stderr.read()
                check_equal(command.wait(), 0, "exit code")
                check("damaged" not in told, told)
                if killed and "was killed, as the kernel does when memory is short" in told:
                    check_equal(told.count("was killed"), 1, "libraries without names")
                    return
        check(False, "no dump told that its child was killed")


def section_ranges(program):
    """The places of the debug sections and symbol tables in a file: [(offset, bytes)]."""
    ranges = []
    for line in tool("readelf", "-SW", program).splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 6 and words[0].startswith("[") and (
                words[1].startswith(".debug") or words[1] in (".symtab", ".strtab", ".dynsym")):
            ranges.append((int(words[4], 16), int(words[5], 16)))
    return ranges


@test
def damaged_files():
    """With a damaged program file, a dump still has all contexts."""
    seed = int(os.environ.get("MEMCTX_SEED", "1"))
    rounds = int(os.environ.get("MEMCTX_ROUNDS", "60"))
    numbers = random.Random(seed)
    with scratch() as where:
        program = compile_c(where, "-g")
        snapshot = os.path.join(where, "snapshot")
        with target([program]) as live:
            succeed("dump", live.pid, "--no-symbols", "-o", snapshot, env=live.cli_env)
        with open(program, "rb") as file:
            whole = file.read()
        expected = len(json.loads(succeed("dump", snapshot, "--json"))["contexts"])
        ranges = section_ranges(program)
        check(len(ranges) >= 5, f"sections: {ranges}")
        named = 0
        for number in range(rounds):
            content = bytearray(whole)
            if number % 10 == 9:
                content = content[:numbers.randrange(len(content))]
            else:
                for _ in range(numbers.choice([1, 10, 300])):
                    start, size = numbers.choice(ranges)
                    content[start + numbers.randrange(size)] = numbers.randrange(256)
            if number % 10 == 8:  # damage the section headers
                table = int.from_bytes(whole[40:48], "little")
                content[table + 64:] = numbers.randbytes(len(content) - table - 64)
            with open(program, "wb") as file:
                file.write(content)
            done = cli("dump", snapshot, "--json")
            check_equal(done.returncode, 0, f"exit code, seed {seed}, round {number}: "
                                            f"{done.stderr}")
            dump = json.loads(done.stdout)
            check_equal(len(dump["contexts"]), expected, f"contexts, seed {seed}, round {number}")
            frames = path_of_size(dump, 12345)
            check(frames[0]["module"] == os.path.realpath(program), "module")
            named += frames[0]["function"] == "outer"
        check(0 < named < rounds, f"{named} of {rounds} damaged files gave the right name")
