# SPDX-License-Identifier: MIT
"""Options and output of memctx doctor."""
import os
import re
from concurrent.futures import ThreadPoolExecutor

from harness import Target, check, check_equal, run_cli, runtime_dir, test
from planted import doctor, found_at, planted, check_first


@test
def watches_by_itself():
    """doctor --watch finds growth without marks, by five looks of its own."""
    with runtime_dir() as directory, planted(directory, "drip") as target:
        target.hear()
        found = doctor(target, "--watch", "2")
        check_equal(found["samples"], 5, "looks")
        check_first(found, "growth", "listener_add")
        target.finish()


@test
def watches_one_program():
    """If the process executes another program during --watch, doctor says so instead of comparing
    the contexts of two programs. So does export --seconds."""
    program = ["/bin/sh", "-c", "sleep 0.7; exec sleep 9"]
    with runtime_dir() as directory, ThreadPoolExecutor() as pool, \
            Target(program, directory, MEMCTX_CONTROL="eager") as target:
        target.wait_socket()
        profile = os.path.join(directory, "profile.pb.gz")
        verbs = ["doctor", target.pid, "--watch", "1"], ["export", target.pid, "--pprof", profile,
                                                         "--seconds", "1"]
        for words, done in zip(verbs, pool.map(lambda words: run_cli(*words, env=target.cli_env),
                                               verbs)):
            # 1: between two looks; 3: during a look
            check(done.returncode in (1, 3) and not done.stdout, f"memctx {words}: {done}")
            check(re.search("executed another program while (memctx watched|it was asked)",
                            done.stderr), f"memctx {words}: {done.stderr}")
        check_equal(os.path.exists(profile), False, "a profile")


@test
def snapshot_has_the_same_findings():
    with runtime_dir() as directory, planted(directory, "slow-leak") as target:
        live = found_at(target, 4)
        file = os.path.join(directory, "snapshot.mctx")
        done = run_cli("dump", target.pid, "-o", file, env=target.cli_env)
        check_equal(done.returncode, 0, f"memctx dump -o: {done.stderr}")
        kept = doctor(target, pid=file)
        check_first(live, "growth", "header_intern")
        for found in (live, kept):
            for finding in found["findings"]:
                finding["action"] = re.sub(r"(?<= )(\d+|\S+\.mctx)(?= )", "TARGET",
                                           finding["action"])
                finding["evidence"] = re.sub(r"in [0-9.]+ s\b", "", finding["evidence"])
                # differ with time, or need a process
                for key in ("since", "growth", "now", "now_bytes", "out"):
                    del finding[key]
        check_equal(kept["findings"], live["findings"], "what is found in the snapshot")


def chosen(target, selector):
    """The innermost functions of the call paths that `dump --context` prints."""
    done = run_cli("dump", target.pid, "--flat", "--limit", "0", "--context", selector,
                   env=target.cli_env)
    check_equal((done.returncode, done.stderr), (0, ""), f"memctx dump --context {selector}")
    return re.findall(r"^(?!Grand total|mixed pages)(\S.*?): \d+ total in ", done.stdout, re.M)


@test
def the_next_command_shows_what_was_found():
    """The selector in a finding's next command chooses exactly the contexts of the finding."""
    for case, at, function, count in (("plugins", 1, "plugin_state", 400),
                                      ("leak", 4, "listener_add", 1),
                                      ("slow-leak", 4, "header_intern", 1),
                                      ("survivors", 1, "session_open", 1)):
        with runtime_dir() as directory, planted(directory, case) as target:
            first = found_at(target, at)["findings"][0]
            selector = re.search(r" --context (\S+)", first["action"])
            check(selector, f"{case}: {first['action']}")
            paths = chosen(target, selector[1])
            check_equal((len(paths), first["contexts"]), (count, count),
                        f"{case}: contexts of {first['action']}")
            check(all(function in path for path in paths), f"{case}: {paths[:3]}")


@test
def context_refuses_what_it_does_not_know():
    """A selector that is not understood is refused with status 2, an id that is unknown with 1."""
    with runtime_dir() as directory, planted(directory, "small") as target:
        target.hear()
        target.wait_socket()
        for verb in ("dump", "frag"):
            for word in ("", "x", "12,", "12/", "12/0", "-1", "1,,2", "99999999999"):
                done = run_cli(verb, target.pid, "--context", word, env=target.cli_env)
                check_equal(done.returncode, 2, f"{verb} --context {word!r}: {done.stderr}")
                check(f'got "{word}"' in done.stderr, done.stderr)
            done = run_cli(verb, target.pid, "--context", "4000000", env=target.cli_env)
            check("has no context 4000000" in done.stderr and done.returncode == 1,
                  f"{done.returncode}: {done.stderr}")


@test
def fails_on_what_it_is_told_to():
    """`doctor --fail-on SEVERITY` ends with status 5 if a finding is as severe as that, else with
    0. The finding of this program is a warning."""
    with runtime_dir() as directory, planted(directory, "phases") as target:
        target.hear()
        for severity, status in (("info", 5), ("warning", 5), ("critical", 0)):
            doctor(target, "--fail-on", severity, status=status)
        done = run_cli("doctor", target.pid, "--fail-on", "death", env=target.cli_env)
        check_equal(done.returncode, 2, "exit status for a severity that there is not")
        check("critical" in done.stderr, f"the message names no severity: {done.stderr}")


@test
def text_has_the_finding_and_the_next_command():
    with runtime_dir() as directory, planted(directory, "survivors") as target:
        target.hear()
        target.wait_socket()
        done = run_cli("doctor", target.pid, env=target.cli_env)
        check_equal((done.returncode, done.stderr), (0, ""), "memctx doctor")
        for words in ("1. critical: nearly empty pages", "session_open (planted.cc:",
                      "   why:   memctx returns a page",
                      f"   next:  memctx frag {target.pid} --context "):
            check(words in done.stdout, f"{words!r} is not in: {done.stdout}")
        command = re.search(r"next:  memctx (.*)", done.stdout)[1].split()
        shown = run_cli(*command, env=target.cli_env)
        check(shown.returncode == 0 and "session_open" in shown.stdout,
              f"the next command: {shown.stdout}{shown.stderr}")


@test
def copies_are_told_as_counted():
    """A finding of copies by malloc and free has the counts of freed and of live chunks."""
    with runtime_dir() as directory, planted(directory, "doubling") as target:
        found = found_at(target, 1)["findings"][0]
        dump = target.dump("--no-symbols")
    check_equal(found["id"], "copies", "the first finding")
    counts = next(one for one in dump["contexts"] if one["id"] == found["context"])["self"]
    told = re.search(r"^(\d+) chunks of \S+ \S+ on average were freed, and (\d+) chunks? of",
                     found["evidence"])
    check(told, found["evidence"])
    check_equal([int(number) for number in told.groups()], [counts["frees"], counts["live_chunks"]],
                found["evidence"])
