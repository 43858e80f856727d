# SPDX-License-Identifier: MIT
"""Options that work alike on all verbs that have them: times, --match, --json, --context. Commands
that messages propose are run."""
import json
import os
import re
import shlex

from clitest import cli, expect, scratch, succeed, target
from harness import build_program, check, check_equal, test

ALLOCATE = "tests/cli/programs/allocate.c"
OWN_NAME = f"alike{os.getpid()}"  # no other process has this name


@test
def a_time_has_a_unit_on_every_verb():
    """An option that takes a time takes 90, 90s, 2m and 1h on each verb, and no other text."""
    with target([build_program(ALLOCATE)]) as live, scratch() as where:
        env, pid, file = live.cli_env, live.pid, os.path.join(where, "profile")
        for words in (("doctor", pid, "--watch"), ("reset", pid, "--timeout"),
                      ("set", pid, 1, "unfold", "--for"),
                      ("export", pid, "--pprof", file, "--seconds")):
            for wrong in ("", "x", "-1", "1.5", "25h", "1d", "2 m", "99999999999h"):
                expect(2, f"{words[-1]} takes a time from [01]s to (1|24)h in whole seconds, such "
                          f'as 90 or 10m; got "{wrong}"', *words, wrong, env=env)
        for right in ("0", "0s", "10000ms", "2m", "1h"):
            expect(1, 'has no context named "none"', "reset", pid, "--named", "none", "--timeout",
                   right, env=env)
        expect(2, "--timeout says how long --named waits; add --named NAME\n", "reset", pid,
               "--timeout", "5", env=env)
        for right in ("1", "1s", "1000ms"):
            succeed("export", pid, "--pprof", file, "--seconds", right, env=env)
        for right in ("60", "2m", "24h"):
            expect(1, "not recursive", "set", pid, 1, "unfold", "--for", right, env=env)


@test
def match_chooses_alike_on_every_verb():
    """--match GLOB means --all with a condition on the name, with --all or without it."""
    with scratch() as where:
        program = os.path.join(where, OWN_NAME)
        os.symlink(build_program(ALLOCATE), program)
        check_match(program, OWN_NAME.replace("k", "?", 1))


def check_match(program, pattern):
    with target([program]) as live:
        env = live.cli_env
        listed = json.loads(succeed("top", "--match", pattern, "--batch", 1, "--interval", "0.1",
                                    "--json", env=env))
        check_equal([one["pid"] for one in listed["processes"]], [live.pid], "top --match")
        for words in (("--match", "nobody-*"), ("--all", "--match", "nobody-*")):
            listed = json.loads(succeed("top", *words, "--batch", 1, "--interval", "0.1", "--json",
                                        env=env))
            check_equal(listed["processes"], [], f"top {words}")
        for verb, more in (("watch", ("--when", "rss>1G", "--do", "exec:true")), ("serve", ()),
                           ("push", ("--pyroscope", "http://localhost:1")),
                           ("top", ("--batch", 1))):
            check_it = () if verb == "top" else ("--check",)
            for words in (("--match", "nobody-*"), ("--all", "--match", "nobody-*")):
                succeed(verb, *words, *more, *check_it, env=env)
            for words in (("--match", "x", live.pid), ("--all", live.pid)):
                expect(2, "takes no TARGET; got ", verb, *words, *more, *check_it,
                       env=env)


@test
def json_of_verbs_that_change_something():
    with target([build_program(ALLOCATE)]) as live:
        env, pid = live.cli_env, live.pid
        check_equal(json.loads(succeed("mark", pid, "--json", env=env)),
                    {"schema": "memctx-mark/1", "pid": pid, "name": "default",
                     "text": 'mark "default" set'}, "mark")
        check_equal(json.loads(succeed("reset", pid, "--json", env=env)),
                    {"schema": "memctx-reset/1", "pid": pid, "contexts": None,
                     "text": "counters and peaks were reset; no chunk was freed"}, "reset")
        check_equal(json.loads(succeed("set", pid, "depth=9", "decay_ms=77", "--json", env=env)),
                    {"schema": "memctx-set/1", "pid": pid,
                     "options": [{"name": "depth", "value": "9"},
                                 {"name": "decay_ms", "value": "77"}]}, "set")
        check_equal(expect(1, "refused the request", "set", pid, "depth=x", "--json",
                           env=env).stdout, "", "output of a refused change")


@test
def reset_takes_contexts_as_other_verbs():
    """reset --context takes a list, and ID/N, as dump, frag and trim do."""
    with target([build_program(ALLOCATE)]) as live:
        env, pid = live.cli_env, live.pid
        check_equal(live.ask("grow"), "ok", "grow")
        dump = json.loads(succeed("dump", pid, "--json", env=env))
        busy = [one["id"] for one in dump["contexts"] if one["self"]["allocs"] > 0]
        check(len(busy) > 1, f"contexts: {busy}")
        chosen = f"{busy[0]},{busy[1]}/1"
        answer = json.loads(succeed("reset", pid, "--context", chosen, "--json", env=env))
        check(answer["contexts"] >= 2, f"{answer}")
        after = json.loads(succeed("dump", pid, "--json", env=env))
        left = {one["id"]: one["self"]["allocs"] for one in after["contexts"]}
        check_equal([left[one] for one in busy[:2]], [0, 0], "allocs after the reset")
        expect(1, "has no context 4000000", "reset", pid, "--context", "1,4000000", env=env)
        expect(2, "--context takes numbers", "reset", pid, "--context", "1,", env=env)


@test
def proposed_commands_can_be_pasted():
    """Commands in messages name the process, and so can be run as they stand."""
    with target([build_program(ALLOCATE)]) as live:
        env, pid = live.cli_env, live.pid
        texts = [expect(1, "has no mark to compare", "diff", pid, env=env).stderr]
        succeed("mark", pid, "first", env=env)
        texts.append(expect(1, "no mark", "diff", pid, "xyzzy", env=env).stderr)
        texts.append(succeed("rules", pid, env=env))
        texts += [expect(1, "has no context 99999", *words, env=env).stderr
                  for words in (("trim", pid, 99999), ("frag", pid, "--context", 99999))]
        texts += [expect(1, "matches", verb, pid, "--site", "xyzzy", env=env).stderr
                  for verb in ("trim", "reset")]
        texts.append(succeed("isolate", pid, "--site", "^allocate_first$", env=env))
        command = re.compile(r"memctx (\w+ [^;.,\n]*?)(?: adds| ends| shows|$)", re.M)
        proposed = [line for text in texts for line in command.findall(text)]
        check_equal(len(proposed), 8, f"commands in {texts}")
        for line in proposed:
            done = cli(*shlex.split(line), env=env)
            check_equal(done.returncode, 0, f"exit status of memctx {line} ({done.stderr})")


@test
def a_choice_of_nothing_is_told():
    """dump and frag say that --site or --context chose nothing, and print no empty list."""
    with target([build_program(ALLOCATE)]) as live:
        env, pid = live.cli_env, live.pid
        root = json.loads(succeed("dump", pid, "--json", env=env))["contexts"][0]["id"]
        said = "nothing was allocated in the contexts that were asked for; "
        for verb in (("dump",), ("dump", "--flat"), ("frag",), ("frag", "--quick")):
            for words, hint in ((("--site", "xyzzy"), "a site is the function that calls malloc"),
                                (("--context", root), "--context leaves out the contexts below")):
                check(said + hint in succeed(*verb, pid, *words, env=env), f"{verb} {words}")
            check(said not in succeed(*verb, pid, "--site", "allocate_first", env=env), f"{verb}")
