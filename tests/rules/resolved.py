# SPDX-License-Identifier: MIT
"""Rules that the command resolves from debug information: inlined functions, files, regular
expressions; hostile code ranges."""
import json
import os
import re
import shutil

import harness
import wire
from harness import (Target, build_program, check, check_equal, dump_json,
                     run_cli, run_program, runtime_dir, test, wait_until)
from rulestest import HERE, listed, program, rules_json, started, target, use
from wire import Wire, constant, frame


def library(name):
    return build_program("tests/rules/elsewhere.c", f"librules{name}.so",
                         flags=("-shared", "-fPIC"))


def code_program():
    return build_program("tests/rules/code.c", "rules-code",
                         flags=("-Wl,--no-as-needed", library("shelf"), "-Wl,-rpath,$ORIGIN"))


def ruled(process):
    """Returns (function, rule that placed it, chunks) for the contexts with at least 3000 bytes."""
    return sorted((context["frame"]["function"], context.get("why", ""),
                   context["self"]["live_chunks"])
                  for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                  if context["self"]["requested_bytes"] >= 3000 and
                  context["frame"]["function"] in ("elsewhere_new", "market"))


@test
def inlined_functions_have_names():
    for pattern in ("stall_new", "regex:^stall_", "file:stall.h", "file:*/tests/rules/stall.?"):
        with runtime_dir() as directory, started(directory, [code_program()],
                                                 [f"{pattern}=own"]) as process:
            check_equal(process.hear(), "begun", pattern)
            process.wait_socket()
            check_equal(ruled(process), [("elsewhere_new", "", 1), ("market", f"{pattern}=own", 1)],
                        pattern)
            check_equal(rules_json(process)["unresolved"], [], pattern)
    with runtime_dir() as directory, Target([code_program()], directory, MEMCTX_CONTROL="eager",
                                            MEMCTX_RULES="stall_new=own") as process:
        check_equal(process.hear(), "begun", "alone")
        process.wait_socket()
        check_equal([why for _, why, _ in ruled(process)], ["", ""], "the library does not know it")
        rules_json(process, "--again")
        check_equal([why for _, why, _ in ruled(process)], ["", "stall_new=own"],
                    "the command does")
        process.say("")
        check_equal(process.finish(), (0, ""), "nothing was said of a plain name")


def reserved_first(rule):
    """(reserved bytes, pages) of a library's function that allocates a single chunk under this
    rule."""
    with runtime_dir() as directory, started(directory, [code_program()], [rule]) as process:
        check_equal(process.hear(), "begun", rule)
        process.wait_socket()
        row, = [context for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                if context["self"]["requested_bytes"] == 3000 and
                context["frame"]["function"] == "elsewhere_new"]
        return row["self"]["reserved_bytes"], row["self"]["pages"]


@test
def libraries_are_resolved_before_the_first_chunk():
    for pattern in ("regex:^elsewhere", "file:elsewhere.c", "elsewhere_new"):
        check_equal([reserved_first(f"{pattern}={options}")
                     for options in ("bump,page:16K", "bump,page:64K")],
                    [(16384, 1), (65536, 1)], f"{pattern}: bytes and pages")


@test
def rules_alone_say_what_waits():
    rules = "regex:^row_=own;file:use.c=own;row_new=slab"
    done = use("patterns", rules)
    check_equal((done.returncode, done.stdout), (0, "begun\n"), "the program")
    line, = done.stderr.splitlines()
    check("regex: and file: rules have no effect" in line and "memctx run" in line and
          "memctx rules TARGET --again" in line, line)
    check_equal(use("patterns", "row_new=slab;module:libc*=own").stderr, "",
                "plain names wait for nobody")
    with runtime_dir() as directory, target(directory, "patterns", rules) as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        names = sorted((row["rule"], row["contexts"]) for row in listed(process))
        check_equal(names, [("file:use.c=own", 0), ("regex:^row_=own", 0), ("row_new=slab", 1)],
                    "plain names hold")
        waiting = rules_json(process)["unresolved"]
        check(program() in waiting and not any("libmemctx" in path for path in waiting),
              f"unresolved: {waiting}")
        text = run_cli("rules", process.pid, env=process.cli_env).stdout
        check(f"regex: and file: rules are not resolved in {program()}\n" in text and
              text.endswith("--again resolves them\n"), text)
        check_equal(rules_json(process, "--again")["unresolved"], [], "after --again")
        names = sorted((row["rule"], row["contexts"]) for row in listed(process))
        check([rule for rule, contexts in names if contexts] ==
              ["file:use.c=own", "regex:^row_=own"], f"all hold: {names}")


@test
def objects_that_are_loaded_later():
    later = library("later")
    for pattern in ("regex:^elsewhere", "elsewhere_new"):
        with runtime_dir() as directory, started(directory, [code_program(), later],
                                                 [f"{pattern}=own"]) as process:
            why = f"{pattern}=own"
            check_equal(process.hear(), "begun", pattern)
            process.wait_socket()
            check_equal(rules_json(process)["unresolved"], [], "what was there")
            check_equal(process.ask(""), "loaded", "the library")
            if pattern == "elsewhere_new":
                wait_until(lambda: [place for _, place, _ in ruled(process)]
                           .count("elsewhere_new=own") == 2, "plain names, late")
                continue
            check_equal(rules_json(process)["unresolved"], [later], "what is there now")
            check_equal([place for _, place, _ in ruled(process)], ["", why, ""], "before")
            check_equal(rules_json(process, "--again")["unresolved"], [], "after --again")
            check_equal(process.ask(""), "again", "another path, or the same")
            check_equal({place for name, place, _ in ruled(process) if name == "elsewhere_new"},
                        {why}, "after")


@test
def programs_that_the_first_one_starts():
    with runtime_dir() as directory, started(directory, ["/bin/sh", "-c", f"exec {code_program()}"],
                                             ["regex:^elsewhere|^stall=own"]) as process:
        check_equal(process.hear(), "begun", "first")
        # The shell has become the program by exec, so its socket may still be there without a
        # server.
        harness.wait_until(lambda: harness.run_cli("rules", process.pid,
                                                   env=process.cli_env).returncode == 0,
                           "the socket of the second program")
        waiting = rules_json(process)["unresolved"]
        check(code_program() in waiting and not any("libc.so" in path for path in waiting),
              f"the shell's libraries are known: {waiting}")
        check_equal(rules_json(process, "--again")["unresolved"], [], "after --again")
        check_equal([why for _, why, _ in ruled(process)], ["regex:^elsewhere|^stall=own"] * 2,
                    "why")


@test
def interpreters_of_scripts():
    """Rules are resolved in the interpreter of a script, also if env finds it."""
    own, name = os.path.split(code_program())
    for line in (code_program(), f"/usr/bin/env {name}",
                 f"/usr/bin/env -S A=1 {name} {library('shelf')}"):
        with runtime_dir() as directory:
            script = os.path.join(directory, "script")
            with open(script, "w", encoding="ascii") as file:
                file.write(f"#!{line}\n")
            os.chmod(script, 0o755)
            with started(directory, [script], ["regex:^elsewhere|^stall=own"],
                         PATH=f"{own}:{os.environ['PATH']}") as process:
                check_equal(process.hear(), "begun", line)
                harness.wait_until(lambda: harness.run_cli("rules", process.pid,
                                                           env=process.cli_env).returncode == 0,
                                   "the socket")
                check_equal(rules_json(process)["unresolved"], [], line)
                check_equal([why for _, why, _ in ruled(process)],
                            ["regex:^elsewhere|^stall=own"] * 2, line)


def altered(name, *objcopy):
    """A copy of the program whose debug information objcopy has stored in another way."""
    copy = os.path.join(harness.BIN, name)
    done = run_program(["objcopy", *objcopy, program(), copy], dict(os.environ))
    check_equal(done.returncode, 0, done.stderr)
    return copy


@test
def debug_information_is_read_as_it_comes():
    compressed = altered("rules-zlib", "--compress-debug-sections=zlib")
    older = altered("rules-zdebug", "--compress-debug-sections=zlib-gnu")
    for binary, shape in ((compressed, r"\.debug_info .*\n.* C "), (older, r"\.zdebug_info ")):
        sections = run_program(["readelf", "-S", binary], dict(os.environ)).stdout
        check(re.search(shape, sections), f"{binary} is not what it is to be: {sections}")
    os.makedirs(os.path.join(harness.BIN, ".debug"), exist_ok=True)
    debug = altered(".debug/rules-apart.debug", "--only-keep-debug")
    apart = altered("rules-apart", "--strip-all", f"--add-gnu-debuglink={debug}")
    for binary in (compressed, older, apart):
        for pattern in ("file:elsewhere.c", "regex:^else"):
            check_equal(functions_of_rows(binary, f"{pattern}=own"), ["elsewhere_new"],
                        f"{pattern} in {binary}")


def functions_of_rows(binary, rule):
    with runtime_dir() as directory, started(directory, [binary, "patterns"], [rule]) as process:
        check_equal(process.hear(), "begun", rule)
        process.wait_socket()
        return [context["frame"]["function"]
                for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                if context["self"]["requested_bytes"] == 3000 and context.get("why") == rule]


def split_program():
    return build_program("tests/rules/use.c", "rules-split",
                         flags=("-O1", "-pthread", "-gsplit-dwarf", "-dumpdir", harness.BIN + "/",
                                os.path.join(HERE, "elsewhere.c")))


@test
def debug_information_in_a_file_of_its_own():
    if harness.CLANG:
        raise harness.Skip("clang writes the file of -gsplit-dwarf into the current folder")
    check_equal(functions_of_rows(split_program(), "file:elsewhere.c=own"), ["elsewhere_new"],
                "split")


@test
def files_that_are_gone_or_others():
    """If another file has replaced the program's, the command does not read it, and says which rule
    it could not resolve."""
    copy = os.path.join(harness.BIN, f"rules-code-{os.getpid()}")
    shutil.copy(program(), copy)
    with runtime_dir() as directory, Target([copy, "patterns"], directory,
                                            MEMCTX_CONTROL="eager") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        os.unlink(copy)
        shutil.copy(code_program(), copy)
        done = run_cli("rules", process.pid, "--add", "regex:^row_=own", env=process.cli_env)
        os.unlink(copy)
        rules = [row["contexts"] for row in listed(process)]
        # a user with access to /proc/PID/map_files still reads the old file
        if done.returncode == 0:
            check_equal(rules, [1], done.stdout)
        else:
            check_equal((done.returncode, rules), (1, [0]), done.stderr)
            check(f"not resolved in {copy}; the file is not the one that the process runs"
                  in done.stderr, done.stderr)


@test
def rules_outlive_the_files_that_they_came_from():
    copy = os.path.join(harness.BIN, f"rules-code-{os.getpid()}")
    shutil.copy(program(), copy)
    with runtime_dir() as directory, Target([copy, "patterns"], directory, MEMCTX_CONTROL="eager",
                                            MEMCTX_RULES="row_new=own") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        os.unlink(copy)
        rows = {context.get("why"): context["id"]
                for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                if context["self"]["requested_bytes"] == 3000}
        check_equal(len(rows), 2, f"rows by the reason of their placement: {rows}")
        done = run_cli("set", process.pid, rows[None], "policy=slab,own", env=process.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        check_equal([rule["contexts"] for rule in listed(process)], [1, 1], "both rules hold")
        check_equal(rules_json(process)["unresolved"], [], "objects with unresolved rules")
        with Wire(process.wait_socket()) as client:
            check_equal(client.ask(frame(constant("WIRE_RULES"), b"patterns=own"))[0],
                        constant("WIRE_OK"), "a rule for the file that is gone")
        check_equal(rules_json(process)["unresolved"], [copy],
                    "objects that the library cannot read")
        text = run_cli("rules", process.pid, env=process.cli_env).stdout
        check(f"\nrules are not resolved in {copy}\n" in text, text)
        done = run_cli("rules", process.pid, "--again", env=process.cli_env)
        # a user with access to /proc/PID/map_files still reads the old file
        if done.returncode == 0:
            check_equal(rules_json(process)["unresolved"], [], "after --again")
        else:
            check(f"the rules are not resolved in {copy}; there is no such file" in done.stderr,
                  done.stderr)


@test
def hostile_ranges_are_refused():
    with runtime_dir() as directory, target(directory, "patterns", "regex:^x=own") as process:
        check_equal(process.hear(), "begun", "first")
        path = process.wait_socket()
        with Wire(path) as client:
            status, body = client.ask(frame(constant("WIRE_RULES"), b"unresolved"))
            check_equal(status, constant("WIRE_OK"), "status")
            version, *modules = map(int, body.split())
            build_id = bytes.fromhex(re.search(r"Build ID: (\w+)",
                                               run_program(["readelf", "-n", program()],
                                                           dict(os.environ)).stdout)[1])

            def send(ranges, **fields):
                head = {"version": version, "module": modules[0], "last": 1, "count": len(ranges),
                        "build_id_bytes": len(build_id),
                        "build_id": build_id, **fields}
                status, said = client.ask(frame(constant("WIRE_RULE_RANGES"),
                                                wire.struct_bytes("wire_rule_ranges", **head) +
                                          b"".join(start.to_bytes(8, "little") +
                                                   length.to_bytes(4, "little") +
                                                   rule.to_bytes(4, "little")
                                                   for start, length, rule in ranges)))
                return status == constant("WIRE_OK"), said.decode()
            good = [(0x1000, 4, 1)]
            check_equal(send(good), (True, "taken"), "what is right")
            for what, ranges, fields, says in (
                    ("rules", good, {"version": version + 1}, "the rules have changed"),
                    ("module", good, {"module": 4095}, "no object has that number"),
                    ("module", good, {"module": (1 << 32) - 1}, "no object has that number"),
                    ("build-id", good, {"build_id": bytes(20)}, "another build-id"),
                    ("no build-id", good, {"build_id_bytes": 0}, "another build-id"),
                    ("long build-id", good, {"build_id_bytes": 1 << 31},
                     "does not have the length"),
                    ("more than come", good, {"count": 2}, "does not have the length"),
                    ("far more", good, {"count": (1 << 32) - 1}, "does not have the length"),
                    ("behind others", good, {"at": 7}, "another client"),
                    ("rule 0", [(0x1000, 4, 0)], {}, "no rule has that number"),
                    ("rule 2", [(0x1000, 4, 2)], {}, "no rule has that number"),
                    ("rule 257", [(0x1000, 4, 257)], {}, "are refused"),
                    ("empty", [(0x1000, 0, 1)], {}, "overlap, do not rise, or leave"),
                    ("overlap", [(0x1000, 4, 1), (0x1002, 4, 1)], {},
                     "overlap, do not rise, or leave"),
                    ("fall", [(0x1000, 4, 1), (0x800, 4, 1)], {}, "overlap, do not rise, or leave"),
                    ("outside", [(1 << 40, 4, 1)], {}, "overlap, do not rise, or leave"),
                    ("around", [((1 << 64) - 2, 4, 1)], {}, "overlap, do not rise, or leave")):
                taken, said = send(ranges, **fields)
                check(not taken and says in said, f"{what}: {said}")
            check_equal(send(good), (True, "taken"), "what is right")
        for size in (0, 1, wire.size_of("wire_rule_ranges") - 1,
                     wire.size_of("wire_rule_ranges") + 1,
                     wire.size_of("wire_rule_ranges") + 15, constant("WIRE_REQUEST_MAX") - 1):
            with Wire(path) as client:
                client.send(frame(constant("WIRE_RULE_RANGES"), b"\1" * size))
                check(client.closed_within(harness.PATIENCE_S), f"{size} bytes: still connected")
        check_equal(rules_json(process, "--again")["unresolved"], [], "a good client is served")
        process.say("")
        check_equal(process.process.wait(timeout=harness.PATIENCE_S), 0, "at the end")


@test
def contexts_get_rules_of_their_own():
    with runtime_dir() as directory, target(directory, "many", "row_new=slab") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()

        def rows():
            return [context for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                    if context["self"]["live_chunks"] > 100]
        row = rows()[0]
        done = run_cli("set", process.pid, row["id"], "policy=aset,zero,limit:64M",
                       env=process.cli_env)
        check_equal((done.returncode, done.stdout),
                    (0, f"added the rule context:{row['id']}=aset,zero,limit:64M; it applies "
                        "to chunks allocated from now on\n"), "set")
        found = {context["id"]: context.get("why") for context in rows()}
        check_equal(found[row["id"]], f"context:{row['id']}=aset,zero,limit:64M", "why")
        check_equal([rule["rule"] for rule in listed(process)],
                    ["row_new=slab", f"context:{row['id']}=aset,zero,limit:64M"], "rules")
        done = run_cli("set", process.pid, row["id"], "policy=aset,walls", env=process.cli_env)
        check(done.returncode == 2 and "is not understood" in done.stderr, done.stderr)
        for words, says in (((row["id"], "x", "policy=slab,guard"), "a CONTEXT is a number"),
                            ((row["id"], "policy=slab,guard", "--json"), "--json, --human")):
            done = run_cli("set", process.pid, *words, env=process.cli_env)
            check_equal((done.returncode, done.stdout), (2, ""), f"set {words}")
            check(says in done.stderr, done.stderr)
        check_equal(len(listed(process)), 2, "rules after requests that are refused")
        check_equal(json.loads(run_cli("rules", process.pid, "--clear", "--json",
                                       env=process.cli_env).stdout)["rules"], [], "none")
        check_equal({context.get("why") for context in rows()}, {None}, "why, without rules")

        def placement():
            return next(context.get("placement")
                        for context in rows() if context["id"] == row["id"])

        def place(policy):
            done = run_cli("set", process.pid, row["id"], f"policy={policy}", env=process.cli_env)
            check_equal(done.returncode, 0, done.stderr)
            return placement()
        check_equal([place(policy)
                     for policy in ("generation", "guard", "limit:64M", "bump,zero", "slab")],
                    ["generation", "generation", "generation", "bump", "slab"],
                    "options alone leave the policy as it was")
        run_cli("rules", process.pid, "--add", "nothing=slab", env=process.cli_env)
        check_equal(placement(), "slab", "a policy that was set later than the rule")
        check_equal(place("bump,zero"), "bump", "a rule that was added later")
        check_equal(rules_json(process, "--clear")["rules"], [], "none")
        check_equal(placement(), None, "without the rule")
        process.say("")
        check_equal(process.hear(), "begun", "all freed")
