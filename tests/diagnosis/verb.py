# SPDX-License-Identifier: MIT
"""The options of doctor itself, and what it prints."""
import os
import re

from harness import check, check_equal, run_cli, runtime_dir, test
from planted import doctor, planted, check_first, command


@test
def watches_by_itself():
    """Without a mark, growth is told from looks of doctor's own."""
    with runtime_dir() as directory, planted(directory, "drip") as target:
        target.hear()
        found = doctor(target, "--watch", "2")
        check_equal(found["samples"], 5, "looks")
        check_first(found, "growth", "listener_add")
        target.finish()


@test
def snapshot_has_the_same_findings():
    with runtime_dir() as directory, planted(directory, "slow-leak") as target:
        for count in range(1, 5):
            target.hear()
            if count < 4:
                run_cli("mark", target.pid, f"look-{count}", env=target.cli_env)
                target.say("")
        file = os.path.join(directory, "snapshot.mctx")
        live = doctor(target)
        done = run_cli("dump", target.pid, "-o", file, env=target.cli_env)
        check_equal(done.returncode, 0, f"memctx dump -o: {done.stderr}")
        kept = doctor(target, pid=file)
        check_first(live, "growth", "header_intern")
        for found in (live, kept):
            for finding in found["findings"]:
                finding["action"] = re.sub(r"(?<= )(\d+|\S+\.mctx)(?= )", "TARGET", finding["action"])
                finding["evidence"] = re.sub(r"in [0-9.]+ s \([^)]*\)|the oldest chunk is [^;]*", "", finding["evidence"])
        check_equal(kept["findings"], live["findings"], "what is found in the snapshot")


@test
def fails_on_what_it_is_told_to():
    with runtime_dir() as directory, planted(directory, "phases") as target:
        target.hear()
        for severity, status in (("info", 5), ("warning", 5), ("critical", 0)):
            doctor(target, "--fail-on", severity, status=status)
        done = run_cli("doctor", target.pid, "--fail-on", "death", env=target.cli_env)
        check_equal(done.returncode, 2, "exit status for a severity that there is not")
        check("critical" in done.stderr, f"the message names no severity: {done.stderr}")


@test
def says_it_in_words():
    with runtime_dir() as directory, planted(directory, "survivors") as target:
        target.hear()
        target.wait_socket()
        done = run_cli("doctor", target.pid, env=target.cli_env)
        check_equal((done.returncode, done.stderr), (0, ""), "memctx doctor")
        for words in ("1. critical: nearly empty pages", "session_open()", "Why it matters: ",
                      f"Next: memctx frag {target.pid} --site 'session_open'"):
            check(words in done.stdout, f"{words!r} is not in: {done.stdout}")
        command = re.search(r"Next: memctx (.*)", done.stdout)[1].replace("'", "").split()
        shown = run_cli(*command, env=target.cli_env)
        check(shown.returncode == 0 and "session_open" in shown.stdout, f"the next command: {shown.stdout}{shown.stderr}")
