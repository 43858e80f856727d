# SPDX-License-Identifier: MIT
"""memctx top of several processes."""
import contextlib
import json
import os
import re
import signal
import subprocess

from harness import (CLI, Target, build_fake_server, build_program, check, check_equal, read_status,
                     test, wait_until)
from clitest import cli, expect, scratch, target
from top import DOWN, ENTER, do, lively, quit_top, top


LONG_NAME = "lively-under-a-long-name"


@contextlib.contextmanager
def named_lively(where):
    program = os.path.join(where, LONG_NAME)
    os.symlink(build_program("tests/cli/programs/lively.c"), program)
    with target([program]) as live:
        yield live


@test
def top_of_several():
    """Several targets: top lists them, Enter shows one of them; --all finds them, --batch prints
    the list. Each has the full name by which the user started it."""
    program = build_program("tests/cli/programs/lively.c")
    with scratch() as where, named_lively(where) as live, Target([program], live.runtime,
                                                                 MEMCTX_CONTROL="eager") as other:
        check_equal(other.hear(), "ready", "the second program")
        other.wait_socket()
        do(other, "load")
        frame = json.loads(cli("top", live.pid, other.pid, "--batch", 1, "--interval", 0.1,
                               "--json", env=live.cli_env).stdout)
        check_equal([(one["pid"], one["name"]) for one in frame["processes"]],
                    [(other.pid, "lively"), (live.pid, LONG_NAME)],
                    "sorted by live bytes, each with its name")
        with top(live, live.pid, other.pid) as screen:
            screen.wait(rf"^ +{other.pid} +\S+ +297K .*lively", "the larger one")
            screen.wait(rf"^ +{live.pid} +\S+ +200K .*lively", "the smaller one")
            screen.press(DOWN + ENTER)
            screen.wait(rf"pid {live.pid} \({LONG_NAME}\)", "inside of the second one")
            screen.wait("load_chunk", "its call paths")
            screen.press("b")
            screen.wait("2 processes", "the list again")
            other.process.kill()
            screen.wait(rf"{other.pid} \(lively\) (was killed|has ended)", "one has ended")
            quit_top(screen)
        text = expect(0, "", "top", "--all", "--batch", 1, "--interval", 0.1,
                      env=live.cli_env).stdout
        check(re.search(rf"^ +{live.pid} .*{LONG_NAME}$", text, re.M), text)
        text = expect(0, "", "top", live.pid, "--batch", 1, "--interval", 0.1, "--no-symbols",
                      env=live.cli_env).stdout
        check(text.startswith(f"pid {live.pid} ({LONG_NAME}), frame 1 of 1"), text)
        words = [CLI, "top", str(live.pid), "--batch", "10000", "--interval", "0.1", "--json"]
        with subprocess.Popen(words, env=live.cli_env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            check_equal(json.loads(process.stdout.readline())["process"]["name"], LONG_NAME,
                        "the name in JSON")
            live.process.kill()
            error = process.communicate(timeout=60)[1]
        check(re.search(rf"pid {live.pid} \({LONG_NAME}\) (was killed|has ended)", error), error)


@test
def top_of_several_of_which_one_is_stopped():
    """A stopped process does not keep top from showing the others; its line says why it is
    silent. A pid that has ended is told."""
    program = build_program("tests/cli/programs/lively.c")
    with lively() as live, Target([program], live.runtime, MEMCTX_CONTROL="eager") as other:
        check_equal(other.hear(), "ready", "the second program")
        other.wait_socket()
        other.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: read_status(other.pid, "State").startswith("T"), "the stop")
        done = expect(0, "no process has pid 999999999", "top", other.pid, 999999999, live.pid,
                      "--batch", 1, "--interval", 0.1, env=live.cli_env)
        check(re.search(rf"^ +{live.pid} .*lively", done.stdout, re.M), done.stdout)
        check(re.search(rf"{other.pid} .*is stopped", done.stdout), done.stdout)
        with top(live, live.pid, other.pid) as screen:
            screen.wait(rf"^ +{live.pid} .*lively", "the one that runs")
            other.process.send_signal(signal.SIGCONT)
            screen.wait(rf"^ +{other.pid} +\S+ .*lively", "the one that was stopped")
            quit_top(screen)
        expect(3, "no process has pid 999999999", "top", 999999998, 999999999, "--batch", 1,
               env=live.cli_env)


@test
def top_of_several_of_which_some_hang():
    """Processes that do not answer do not keep top from showing the list and from taking keys: it
    takes 1.5 s to find out that a process does not answer."""
    programs = {f"own{os.getpid()}-hung": build_fake_server(),
                f"own{os.getpid()}-live": build_program("tests/cli/programs/lively.c")}
    with scratch() as where, contextlib.ExitStack() as stack:
        hung, lives = [os.path.join(where, name) for name in programs]
        for path, program in zip((hung, lives), programs.values()):
            os.symlink(program, path)
        live = stack.enter_context(target([lives]))
        others = [stack.enter_context(Target([hung, "silent"], live.runtime, MEMCTX_CONTROL="off"))
                  for _ in range(3)]
        for other in others:
            check_equal(other.hear(), "ready", "first line of the fake server")
        with top(live, "--match", f"own{os.getpid()}-*") as screen:
            screen.wait(r"pid \d+ was not asked yet", "the list before all were asked")
            screen.wait(rf"^ +{live.pid} .*-live", "the one that answers")
            for other in others:
                screen.wait(rf"pid {other.pid} did not answer in time", "one that does not")
            quit_top(screen)
