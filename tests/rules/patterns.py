# SPDX-License-Identifier: MIT
"""Patterns of rules: which functions they match, and which patterns are refused."""
import os
import re
import shutil

import harness
from harness import (Skip, Target, build_program, check, check_equal, clean_env, dump_json,
                     run_cli, run_program, runtime_dir, test)
from rulestest import HERE, listed, program, started, target, use


def matched(pattern, binary=None, case="patterns"):
    """Returns which of two functions a rule with this pattern matches. Patterns that the library
    resolves itself must match alike with the command and without."""
    with runtime_dir() as directory:
        if pattern.startswith(("regex:", "file:")):
            return functions_matched(started(directory, [binary or program(), case],
                                             [f"{pattern}=own"]), pattern)
        by_command = functions_matched(started(directory, [binary or program(), case],
                                               [f"{pattern}=own"]), pattern)
        alone = functions_matched(Target([binary or program(), case], directory,
                                         MEMCTX_CONTROL="eager",
                                         MEMCTX_RULES=f"{pattern}=own"), pattern)
        check_equal(by_command, alone, f"{pattern}, with the command and without")
        return alone


def functions_matched(running, pattern):
    with running as process:
        check_equal(process.hear(), "begun", pattern)
        process.wait_socket()
        dump = dump_json(process.pid, env=process.cli_env)
        names = [context["frame"]["function"] for context in dump["contexts"]
                 if context["self"]["requested_bytes"] == 3000 and
                 context.get("why") == f"{pattern}=own"]
        return sorted(re.sub(r"\(.*|<.*>", "", name).split("::")[-1] for name in names)


@test
def patterns_of_c():
    both = ["elsewhere_new", "row_new"]
    for pattern, names in {"row_new": ["row_new"], "r?w*": ["row_new"], "main": both,
                           "regex:_new$": both,
                           "regex:^(row|elsew?here)_n[a-f]w$": both,
                           "regex:e{1}w{1,2}h?ere": ["elsewhere_new"],
                           "regex:^new": [], "regex:^[^_[:lower:]]": [],
                           "file:elsewhere.c": ["elsewhere_new"],
                           "file:use.?": both, "file:*/rules/else*": ["elsewhere_new"],
                           "file:nothing.c": [], "module:rules-use": both,
                           # main is in use.c, and its caller in libc
                           "module:libc*": both, "module:libm*": []}.items():
        check_equal(matched(pattern), names, pattern)


@test
def patterns_of_cxx():
    binary = build_program("tests/rules/names.cc", "rules-names", flags=("-g", "-O1"))
    tills = ["open", "operator+", "sell", "till"]
    for pattern, names in {"put": ["put"], "shop::inner::till::open": ["open"], "till": tills,
                           "shop::*": sorted([*tills, "fill", "label[abi:cxx11]", "pack", "put"]),
                           "regex:^shop::.*::open$": ["open"], "shop::shelf::put": ["put"],
                           "inner::*": [],
                           "shop::cache::fill": ["fill"], "shop::crate::pack": ["pack"],
                           "shop::label": ["label[abi:cxx11]"],
                           "shop::inner::till::till": ["till"],
                           "shop::inner::till::operator+": ["operator+"],
                           "market.open.till": ["dotted"], "market.open": ["dotted"],
                           "market": ["dotted"], "market.*": ["dotted"],
                           "regex:^market[.]open[.]till$": ["dotted"],
                           "regex:^market[.]open$": ["dotted"], "open.till": [],
                           "shop::inner::till::sell()::{lambda*": ["sell"], "shop::inner": [],
                           "basic_string": [], "E": []}.items():
        check_equal(matched(pattern, binary), names, pattern)


@test
def patterns_with_parameters():
    """A pattern may be the name of a C++ function that memctx dump shows."""
    binary = build_program("tests/rules/names.cc", "rules-names", flags=("-g", "-O1"))
    with runtime_dir() as directory:
        for pattern, names in {"shop::inner::till::open(int) const": ["open"],
                               "shop::inner::till::till(int)": ["till"],
                               "shop::inner::till::open(long) const": [],
                               "shop::shelf<unsigned long>::put(unsigned long)": ["put"],
                               "shop::crate<(shop::kind)3>::pack()": ["pack"],
                               "shop::label[abi:cxx11](char**)": ["label[abi:cxx11]"]}.items():
            found = functions_matched(started(directory, [binary, "patterns"], [f"{pattern}=own"]),
                                      pattern)
            check_equal(found, names, pattern)


@test
def patterns_of_rust():
    """The library reads the older symbols itself, the command also v0 symbols. A pattern may be the
    name that memctx dump shows."""
    if not shutil.which("rustc"):
        raise Skip("rustc is not installed")
    for mangling in ("legacy", "v0"):
        binary = os.path.join(harness.BIN, f"rules-names-{mangling}")
        done = run_program(["rustc", "-O", "-g", "-C", f"symbol-mangling-version={mangling}",
                            *(["-Z", "unstable-options"] if mangling == "legacy" else []),
                            os.path.join(HERE, "names.rs"), "-o", binary],
                           {**os.environ, "RUSTC_BOOTSTRAP": "1"})
        check_equal(done.returncode, 0, done.stderr)
        shown = {"legacy": "names::shop::till::Till::open",
                 "v0": "<names::shop::till::Till>::open"}[mangling]
        generic = {"legacy": "names::shop::till::Shelf<T>::put",
                   "v0": "<names::shop::till::Shelf<u8>>::put"}[mangling]
        for pattern, contexts in {"open": 1, shown: 1, f"regex:^{shown}$": 1, generic: 1,
                                  f"regex:^{generic}$": 1,
                                  "names::shop::till": 0}.items():
            with runtime_dir() as directory, started(directory, [binary],
                                                     [f"{pattern}=own"]) as process:
                check_equal(process.hear(), "begun", pattern)
                process.wait_socket()
                names = [context["frame"]["function"]
                         for context in dump_json(process.pid, env=process.cli_env)["contexts"]
                         if context.get("frame")]
                check({shown, generic} <= {*names}, f"memctx dump shows {names}")
                check_equal(listed(process)[0]["contexts"], contexts, f"{mangling}, {pattern}")
    argv = [os.path.join(harness.BIN, "rules-names-legacy")]
    settings = {"MEMCTX_CONTROL": "eager", "MEMCTX_RULES": "names::shop::till::Till::open=own"}
    with runtime_dir() as directory, Target(argv, directory, **settings) as process:
        check_equal(process.hear(), "begun", "without the command")
        process.wait_socket()
        check_equal(listed(process)[0]["contexts"], 1, "without the command")


@test
def what_is_not_understood_is_said():
    """`memctx run --rule` refuses a rule that the library would ignore, and no other rule. A rule
    of MEMCTX_RULES is ignored with a message."""
    for rule, says in {"a=own,slab,bump": "it has two policies",
                       "a=mixed,own": "mixed has no pages of its own",
                       "a=page:1M": "the size of a page is 16K or 64K",
                       "a=limit:x": "a limit is a number of bytes",
                       "a=limit:0": "a limit is a number of bytes",
                       "a=limit:1M,warn:2M": "it has two limits",
                       "a=warn:1M,limit:2M": "it has two limits",
                       "a=page:65536,warn:8796093022208M": "a limit is a",
                       "a=slab,": "the policies are", "a=walls": "the options own, page:16K",
                       "regex:=own": "the pattern has no name",
                       "context:99999999=own": "no context has that number",
                       "a": "PATTERN=POLICY,OPTIONS"}.items():
        done = use("patterns", rule)
        check_equal(done.returncode, 0, rule)
        check(f'memctx: MEMCTX_RULES: the rule "{rule}" is not understood: ' in done.stderr and
              says in done.stderr
              and done.stderr.endswith("; this rule is ignored\n"), f"{rule}: {done.stderr}")
        done = run_cli("run", "--rule", rule, "--", "/usr/bin/env")
        check_equal((done.returncode, done.stdout), (2, ""), f"run --rule {rule}")
        check(says.removesuffix(" that number") in done.stderr, f"run --rule {rule}: {done.stderr}")
    good = ["a=page:65536,zero,slab", "a=warn:1g,guard", "=x=mixed,limit:12k",
            "b=bump; c=simple,own;"]
    for rules in ([("--rule", rule) for rule in good], []):
        done = run_cli("run", *[word for pair in rules for word in pair], "--", "/bin/true",
                       env=clean_env(MEMCTX_LIBRARY=harness.LIB,
                                     **({} if rules else {"MEMCTX_RULES": ";".join(good)})))
        single = [one.strip() for rule in good for one in rule.split(";") if one]
        notes = [f'memctx: note: the rule "{rule}" matches no function of the program and its '
                 f'libraries{"" if rule == single[0] else ", apart from those of earlier rules"}; '
                 "it waits for libraries that are loaded later, and for programs that are executed"
                 for rule in single] if rules else []
        check_equal((done.returncode, done.stderr.splitlines()), (0, notes), f"{good} by {rules}")


@test
def a_rule_that_matches_nothing_is_noted():
    """A misspelled name is noted by `memctx run --rule` and `memctx rules --add`, a good one is
    not."""
    note = 'memctx: note: the rule "%s" matches no function of '
    for rule in ("row_nwe=own", "regex:^rwo_=own", "file:rosw.c=own"):
        done = run_cli("run", "--rule", "row_new=slab", "--rule", rule, "--", program(), "patterns",
                       env=clean_env(MEMCTX_LIBRARY=harness.LIB))
        check_equal(done.returncode, 0, done.stderr)
        check_equal([line[:len(note % rule)] for line in done.stderr.splitlines()], [note % rule],
                    "run")
    with runtime_dir() as directory, started(directory, [program(), "patterns"], []) as process:
        check_equal(process.hear(), "begun", "what the program says")
        process.wait_socket()
        for rule, noted in (("row_new=slab", False), ("rwo_new=own", True), ("main=own", False)):
            done = run_cli("rules", process.pid, "--add", rule, env=process.cli_env)
            check_equal((done.returncode, note % rule in done.stderr, done.stderr.count("note")),
                        (0, noted, int(noted)), done.stderr)


@test
def many_mistakes_are_said_in_whole_lines():
    settings = {f"MEMCTX_{name}": "x" * 60
                for name in ("DECAY_MS", "DEPTH", "FREELIST_KIB", "MARKS", "TABLES", "VERIFY")}
    for count in (12, 100):
        done = use("patterns", ";".join(f"row{number}=slob" for number in range(count)), **settings)
        lines = done.stderr.splitlines()
        check(all(line.startswith("memctx: ") for line in lines) and done.stderr.endswith("\n"),
              done.stderr[-300:])
        check_equal(sum("; the default is used: " in line for line in lines), len(settings),
                    done.stderr[:2000])
        rules = [line for line in lines if line.startswith('memctx: MEMCTX_RULES: the rule "row')]
        check(all(line.endswith("; this rule is ignored") for line in rules), done.stderr[-300:])
        check_equal((len(rules) == count, "more rules of MEMCTX_RULES" in lines[-1]),
                    (count == 12, count == 100), f"{len(rules)} lines")


@test
def expressions_that_are_none_are_said():
    with runtime_dir() as directory, target(directory, "patterns", "row_new=own") as process:
        check_equal(process.hear(), "begun", "first")
        process.wait_socket()
        for expression, says in {"(a": "Unmatched (", "[a": "Unmatched [", "*": "Invalid preceding",
                                 "a{3,2}": "Invalid content", "[[:no:]]": "Invalid character class",
                                 "[b-a]": "Invalid range"}.items():
            rule = f"regex:{expression}=own"
            line = f'the rule "{rule}" is not understood: {says}'
            done = run_cli("run", "--rule", rule, "--", program(), "patterns")
            check_equal((done.returncode, done.stdout), (2, ""), rule)
            check(line in done.stderr, f"run: {done.stderr}")
            done = run_cli("rules", process.pid, "--clear", "--add", rule, env=process.cli_env)
            check_equal(done.returncode, 2, rule)
            check(line in done.stderr, f"rules: {done.stderr}")
            done = run_cli("run", "--", program(), "patterns",
                           env=clean_env(MEMCTX_RULES=rule, MEMCTX_LIBRARY=harness.LIB))
            check_equal((done.returncode, done.stdout), (0, "begun\n"), rule)
            check("MEMCTX_RULES: " + line in done.stderr and
                  "; this rule is ignored\n" in done.stderr, f"MEMCTX_RULES: {done.stderr}")
            check("start the program with memctx run" not in done.stderr, done.stderr)
        for rules, says in ((("regex:^x=slab", "y=slba"), "the policies are"),
                            (("context:x=slab",), "no context has that number"),
                            (("x=slab;y=bump",),
                             "it has a semicolon; give each rule an option --add of its own")):
            done = run_cli("rules", process.pid, "--clear",
                           *[word for rule in rules for word in ("--add", rule)],
                           env=process.cli_env)
            check_equal(done.returncode, 2, str(rules))
            check(f'the rule "{rules[-1]}" is not understood: {says}' in done.stderr,
                  f"{rules}: {done.stderr}")
        long = "x" * 1010  # all fit, but not beside the rule in force
        for rules, says in ((("y=slab", "context:99999999=slab"),
                             'the rule "context:99999999=slab" is not understood: no context has '
                             'that number'),
                            (("y=slab", f"{long}=slab", f"{long}y=slab"),
                             "has no room for these rules beside its own")):
            options = ("--clear",) if "context" in rules[-1] else ()
            done = run_cli("rules", process.pid, *options,
                           *[word for rule in rules for word in ("--add", rule)],
                           env=process.cli_env)
            check_equal(done.returncode, 1, str(rules))
            check(says in done.stderr, f"{rules}: {done.stderr}")
        check_equal([rule["rule"] for rule in listed(process)], ["row_new=own"],
                    "the rules in force stay")
