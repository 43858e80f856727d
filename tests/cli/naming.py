# SPDX-License-Identifier: MIT
"""How TARGET names a process: by pid, program or title; which processes ps lists."""
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess

import harness
from harness import Target, build_program, check, check_equal, test
from clitest import cli, expect, fake, find_row, scratch, succeed, target, wait_for_library


@test
def ps_lists_and_sweeps():
    """memctx ps leaves out the spaces at the end of a name, which a program that sets its title may
    write, and removes sockets of ended processes."""
    with scratch() as where, contextlib.ExitStack() as stack:
        padded = os.path.join(where, "allocate  ")
        os.symlink(build_program("tests/cli/programs/allocate.c"), padded)
        live = stack.enter_context(target([padded]))
        row = find_row(live)
        check(row["socket"] and row["reason"] is None, f"row: {row}")
        check(row["requested_bytes"] >= 100 * 1000, f"requested: {row}")
        check(row["rss_bytes"] > 0 and row["contexts"] > 1 and row["uptime_s"] > 0, f"row: {row}")
        text = succeed("ps", env=live.cli_env)
        check(re.search(rf"^ *{live.pid} .*allocate$", text, re.M), f"no row in {text}")
        check_equal(row["command"], padded.rstrip(), "the command")
        path = live.socket_path()
        live.kill()
        check(os.path.exists(path), "a killed process cannot have removed its socket")
        expect(3, f"no process has pid {live.pid}", "dump", live.pid, env=live.cli_env)
        check_equal(json.loads(succeed("ps", "--json", env=live.cli_env))["swept"] >= 1, True,
                    "sockets were swept")
        check(not os.path.exists(path), "the stale socket is still there")


@test
def ps_asks_processes_at_the_same_time():
    """It takes 1.5 s to find out that a process does not answer, so a host with some processes that
    hang would be listed after a minute if they were asked one after the other."""
    program = harness.build_fake_server()
    with harness.runtime_dir() as runtime, contextlib.ExitStack() as stack:
        hung = [stack.enter_context(Target([program, "silent-noting"], runtime,
                                           MEMCTX_CONTROL="off")) for _ in range(3)]
        for one in hung:
            check_equal(one.hear(), "ready", "first line of the fake server")
        rows = json.loads(succeed("ps", "--json", env=hung[0].cli_env))["processes"]
        reasons = {row["pid"]: row["reason"] for row in rows}
        for one in hung:
            check(f"pid {one.pid} did not answer in time" in reasons[one.pid], f"{reasons}")
        with open(os.path.join(runtime, "notes"), encoding="ascii") as file:
            notes = file.read().split()
        check_equal(notes[:3], ["came"] * 3, f"the clients of three servers: {notes}")


@test
def ps_with_few_descriptors():
    """ps asks as many processes at once as its descriptors allow. None of them takes those that the
    question to another needs."""
    limit = ["sh", "-c", 'ulimit -n "$0"; exec "$@"']
    program = build_program("tests/cli/programs/allocate.c")
    with harness.runtime_dir() as runtime, contextlib.ExitStack() as stack:
        live = [stack.enter_context(Target([program], runtime, MEMCTX_CONTROL="eager"))
                for _ in range(20)]
        for one in live:
            one.wait_socket()
        for count in (20, 33):
            done = harness.run_program([*limit, str(count), harness.CLI, "ps", "--json"],
                                       live[0].cli_env)
            check_equal((done.returncode, done.stderr), (0, ""), f"ps with {count} descriptors")
            reasons = {row["pid"]: row["reason"] for row in json.loads(done.stdout)["processes"]}
            check_equal([reasons[one.pid] for one in live], [None] * 20,
                        f"reasons with {count} descriptors")


@test
def ps_leaves_other_files_alone():
    with fake("none") as live:
        directory = os.path.dirname(live.socket_path())
        others = ["notes.txt", "12.sock.old", "x12.sock", "13.sock"]
        for name in others:
            with open(os.path.join(directory, name), "w", encoding="ascii"):
                pass
        succeed("ps", env=live.cli_env)
        for name in others:
            check(os.path.exists(os.path.join(directory, name)), f"{name} was removed")
        check(os.path.exists(live.socket_path()), "a live socket was removed")


@test
def target_by_name():
    program = build_program("tests/cli/programs/allocate.c")
    with scratch() as where:
        named = os.path.join(where, "mctx-by-name")
        os.symlink(program, named)
        with target([named]) as live:
            dump = json.loads(succeed("dump", "mctx-by-name", "--json", env=live.cli_env))
            check_equal(dump["pid"], live.pid, "pid")
            thread = next(name for name in os.listdir(f"/proc/{live.pid}/task")
                          if name != str(live.pid))
            done = cli("dump", thread, "--json", env=live.cli_env)
            check_equal(json.loads(done.stdout)["pid"], live.pid, "pid of a thread's process")
            check(f"{thread} is a thread of the process {live.pid}" in done.stderr, done.stderr)
            with Target([named], live.runtime, MEMCTX_CONTROL="eager") as second:
                check_equal(second.hear(), "ready", "the second")
                second.wait_socket()
                done = expect(2, "names 2 processes", "dump", "mctx-by-name", env=live.cli_env)
                check(str(live.pid) in done.stderr and str(second.pid) in done.stderr,
                      "both are listed")


@test
def processes_of_one_name_by_size():
    """If several processes have the name, the command lists them with their resident sets, the
    largest first, also if that one began last."""
    script = "import sys; held = b'x' * ({mib} << 20); print('ready', flush=True); sys.stdin.read()"
    with harness.runtime_dir() as runtime, contextlib.ExitStack() as stack:
        targets = []
        for mib in (1, 80, 40):
            run = "exec -a mctx-sized python3 -c " + shlex.quote(script.format(mib=mib))
            targets.append(stack.enter_context(Target(["/bin/bash", "-c", run], runtime,
                                                      MEMCTX_CONTROL="eager")))
            check_equal(targets[-1].hear(), "ready", "a target")
            targets[-1].wait_socket()
        done = expect(2, "names 3 processes", "doctor", "mctx-sized", env=targets[0].cli_env)
        rows = [line.split() for line in done.stderr.splitlines()[1:]]
        check_equal([int(row[0]) for row in rows], [targets[i].pid for i in (1, 2, 0)], "the pids")
        sizes = [float(row[1]) for row in rows]
        check(sizes[0] > 80 and 40 < sizes[1] < 80 and sizes[2] < 40, f"MiB: {done.stderr}")
        check_equal([row[2:4] for row in rows], 3 * [["MiB", "mctx-sized"]], "unit and command")


@test
def target_by_title():
    """A process is found by the name that its title shows, as php-fpm, whose file is php-fpm8.2."""
    program = build_program("tests/cli/programs/allocate.c")
    title = "exec -a 'mctx-titled: pool www' " + shlex.quote(program)
    with target(["/bin/bash", "-c", title]) as live:
        shown = succeed("doctor", live.pid, env=live.cli_env)
        check(f"mctx-titled (pid {live.pid})" in shown, shown)
        dump = json.loads(succeed("dump", "mctx-titled", "--json", env=live.cli_env))
        check_equal(dump["pid"], live.pid, "pid")


@test
def no_word_is_no_target():
    """An empty word, such as a variable of a script that was not set, names no process, not even
    one whose name is empty."""
    code = "open('/proc/self/comm', 'wb').write(bytes(1)); print('ready', flush=True); input()"
    with target([shutil.which("python3"), "-c", code]) as live:
        with open(f"/proc/{live.pid}/comm", encoding="utf-8") as file:
            check_equal(file.read(), "\n", "the process's name")
        expect(3, '"" is neither a process with libmemctx.so nor a file', "dump", "",
               env=live.cli_env)
        for verb in ("reset", "mark", "trim", "serve"):
            expect(3, '"" is no process with libmemctx.so; see memctx ps', verb, "",
                   env=live.cli_env)


@test
def only_one_of_many_has_a_socket():
    """A name means the only process with a socket, also behind 70 processes of that name
    without."""
    with scratch() as where, contextlib.ExitStack() as stack:
        named = os.path.join(where, "mctx-many")
        os.symlink("/bin/cat", named)
        for _ in range(70):
            other = subprocess.Popen([named], stdin=subprocess.PIPE,
                                     env=harness.preloaded_env(MEMCTX_CONTROL="off"))
            stack.enter_context(other)  # closes its stdin at the end, which ends it
            wait_for_library(other.pid)
        os.unlink(named)
        os.symlink(build_program("tests/cli/programs/allocate.c"), named)
        with target([named]) as live:
            dump = json.loads(succeed("dump", "mctx-many", "--json", env=live.cli_env))
            check_equal(dump["pid"], live.pid, "pid")
