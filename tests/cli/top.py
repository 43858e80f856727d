# SPDX-License-Identifier: MIT
"""memctx top: with --batch, and on an emulated terminal."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

from harness import (CLI, Target, build_program, check, check_equal, in_tries, read_status,
                     runtime_dir, test, wait_until)
from clitest import cli, expect, scratch, succeed, target
from screen import Terminal
from watching import dumps_of

TITLES = r"LIVE +>?GROWTH/S +>?WASTE +>?ALLOCS/S +>?CHUNKS"
ENTER, ESCAPE, DOWN, LEFT = "\r", "\033", "\033OB", "\033OD"


@contextlib.contextmanager
def lively(**extra):
    with target([build_program("tests/cli/programs/lively.c")], **extra) as live:
        yield live


def tell(live, word):
    live.process.stdin.write(f"{word}\n".encode())
    live.process.stdin.flush()


def do(live, word):
    tell(live, word)
    check_equal(live.hear(), "ok", f"the answer to {word}")


@contextlib.contextmanager
def top(live, *words, rows=24, columns=80, interval=0.2, before=(), **extra):
    env = {**live.cli_env, "TERM": "xterm", "LC_ALL": "C.UTF-8", **extra}
    env = {key: value for key, value in env.items() if value is not None}
    with Terminal([*before, CLI, "top", *map(str, words or [live.pid]), "--interval",
                   str(interval)], env, rows, columns) as screen:
        yield screen


def quit_top(screen):
    screen.press("q")
    check_equal(screen.ended(), 0, "the exit code after q")
    check(screen.is_restored(), "the terminal is not as before")


def sum_of(frame, function):
    return sum(one["requested_bytes"]
               for one in frame["list"] if one["path"].startswith(function + " "))


@contextlib.contextmanager
def watched_while_it_grows(live):
    """Yields the process of top --batch --json, and its frames until "load" and "feed" have
    shown."""
    words = [CLI, "top", str(live.pid), "--batch", "10000", "--interval", "0.25", "--json"]
    with subprocess.Popen(words, env=live.cli_env, stdout=subprocess.PIPE, text=True) as process:
        frames = [json.loads(process.stdout.readline())]
        do(live, "load")
        do(live, "feed")
        first = frames[0]["process"]["requested_bytes"]
        while frames[-1]["process"]["requested_bytes"] < first + 200000:
            frames.append(json.loads(process.stdout.readline()))
        yield process, frames
        process.terminate()


@test
@in_tries
def top_batch():
    """--batch N --json prints N frames whose totals, contexts and rates are those of the
    program."""
    with lively() as live:
        with watched_while_it_grows(live) as (process, frames):
            frames.append(json.loads(process.stdout.readline()))
        check_equal([frame["frame"] for frame in frames], list(range(1, len(frames) + 1)),
                    "numbers of the frames")
        of_three = cli("top", live.pid, "--batch", 3, "--interval", "0.1", "--json",
                       env=live.cli_env)
        check_equal((of_three.returncode, of_three.stdout.count("\n")), (0, 3),
                    "exit code and frames of --batch 3")
        check_equal([sum_of(frame, "load_chunk") for frame in (frames[0], frames[-1])],
                    [100000, 200000], "load_chunk")
        check_equal([sum_of(frame, "feed_chunk") for frame in (frames[0], frames[-1])],
                    [100000, 200000], "feed_chunk")
        grown = [frame["process"]["requested_bytes"] for frame in frames]
        check_equal(grown[-1] - grown[0], 200000, "growth of the total")
        # A rate times the time between two frames is the growth, except for rounding. The figures
        # of a new call path are read a little later than the others, and its rate uses that later
        # time.
        pairs = [(later, later["process"]["uptime_s"] - earlier["process"]["uptime_s"])
                 for earlier, later in zip(frames, frames[1:])]
        rounding = 1 + 0.2 * len(frames)
        for what, want, rate, error in (("bytes", 200000,
                                         lambda frame: frame["process"]["growth_bytes_per_s"],
                                         rounding),
                                        ("allocations", 150,
                                         lambda frame: frame["process"]["allocs_per_s"], rounding),
                                        ("bytes of load_chunk", 100000, lambda frame: sum(
                                            one["growth_bytes_per_s"] for one in frame["list"]
                                            if one["path"].startswith("load_chunk ")), 40000)):
            got = sum(rate(frame) * seconds for frame, seconds in pairs)
            check(abs(got - want) <= error, f"{what} by the rates: {got}, want {want}")
        dump = live.dump()
        held = {one["id"]: one["self"] for one in dump["contexts"] if one["self"]["live_chunks"]}
        last = {one["id"]: one for one in frames[-1]["list"] if one["live_chunks"]}
        check_equal({key: (one["requested_bytes"], one["reserved_bytes"] - one["requested_bytes"])
                     for key, one in held.items()},
                    {key: (one["requested_bytes"], one["waste_bytes"])
                     for key, one in last.items()}, "live bytes and waste")


@contextlib.contextmanager
def silent_lively():
    with runtime_dir() as directory, Target([build_program("tests/cli/programs/lively.c")],
                                            directory, MEMCTX_CONTROL="off") as live:
        check_equal(live.hear(), "ready", "what the program said")
        yield live


@test
def top_from_outside():
    """A process without a socket is read from outside at each look: totals, call paths, rates and
    threads are those of the program, also after an exec, and in doctor and export."""
    with silent_lively() as live:
        with watched_while_it_grows(live) as (process, frames):
            check_equal([sum_of(frame, "load_chunk") for frame in (frames[0], frames[-1])],
                        [100000, 200000], "load_chunk")
            check_equal([sum_of(frame, "feed_chunk") for frame in (frames[0], frames[-1])],
                        [100000, 200000], "feed_chunk")
            check(all(frame["process"]["outside"] for frame in frames),
                  "a frame is not from outside")
            check(all((frame["process"]["rss_bytes"] or 0) > 1 << 20 for frame in frames),
                  "a frame has no resident set")
            states = [frame["process"] for frame in frames]
            grown = sum(later["growth_bytes_per_s"] * (later["uptime_s"] - earlier["uptime_s"])
                        for earlier, later in zip(states, states[1:]))
            check(abs(grown - 200000) < 1 + len(frames), f"bytes by the rates: {grown}")
            tell(live, "again")
            check_equal(live.hear(), "ready", "what the program said after its exec")
            while frames[-1]["process"]["requested_bytes"] > 300000:
                frames.append(json.loads(process.stdout.readline()))
            check_equal(sum_of(frames[-1], "load_chunk"), 100000, "load_chunk after the exec")
        threads = json.loads(succeed("top", live.pid, "--batch", 1, "--interval", 0.1, "--json",
                                     "--threads", env=live.cli_env))
        check_equal(sum(one["requested_bytes"] for one in threads["threads"]),
                    threads["process"]["requested_bytes"], "sum over the threads")
        check("feeder" in {one["name"].split()[-1] for one in threads["threads"]},
              threads["threads"])
        check("read from outside" in succeed("top", live.pid, "--batch", 1, "--interval", 0.1,
                                             env=live.cli_env), "the first line")
        with silent_lively() as other:
            herd = json.loads(succeed("top", live.pid, other.pid, "--batch", 1, "--interval", 0.1,
                                      "--json", env=live.cli_env))
            check_equal({one["pid"]: one["outside"] for one in herd["processes"]},
                        {live.pid: True, other.pid: True}, "processes")
        findings = json.loads(succeed("doctor", live.pid, "--watch", 1, "--json", env=live.cli_env))
        check("read from outside" in findings["how"], f"doctor --watch: {findings['how']}")
        with scratch() as where:
            expect(0, "not exact: read from outside", "export", live.pid, "--pprof", f"{where}/p",
                   "--seconds", 1, env=live.cli_env)
        live.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: read_status(live.pid, "State").startswith("T"), "the stop")
        expect(1, r"is stopped, so it cannot answer; kill -CONT", "top", live.pid, "--batch", 1,
               env=live.cli_env)
        live.process.send_signal(signal.SIGCONT)


@test
def top_outside_splits_by_thread():
    """On the screen of a process that is read from outside, t splits a line by thread."""
    with silent_lively() as live, top(live) as screen:
        screen.wait(r"from outside\n(.*\n)+.*load_chunk", "the call paths")
        screen.press("t")
        screen.wait(r"thread \d+ (lively|feeder)", "the threads of the line")
        quit_top(screen)


@test
def top_batch_text():
    """--batch prints the flat list and the tree as text; a closed pipe ends top without a
    message."""
    with lively() as live:
        done = expect(0, "^$", "top", live.pid, "--batch", 2, "--interval", "100ms", "--limit", 2,
                      env=live.cli_env)
        check_equal(len(re.findall(r"^pid \d+ \(lively\), frame \d of 2", done.stdout, re.M)), 2,
                    done.stdout)
        check(re.search(r"^ +100000 +\+0 +\d+ +0 +100  load_chunk \(lively\.c:\d+\) < load_all",
                        done.stdout, re.M), done.stdout)
        check("... and" in done.stdout, done.stdout)
        lists = [json.loads(expect(0, "^$", "top", live.pid, "--batch", 1, "--interval", 0.1,
                                   "--json", "--limit", limit, env=live.cli_env).stdout)
                 for limit in (500, 1)]
        check_equal((len(lists[1]["list"]), lists[1]["left_out"]), (1, len(lists[0]["list"]) - 1),
                    "lines of --limit 1, and left out")
        tree = expect(0, "^$", "top", live.pid, "--batch", 1, "--interval", 0.1, "--tree",
                      "--human", env=live.cli_env).stdout
        check(re.search(r"^ +200K .*\[the whole program\]$", tree, re.M), tree)
        check(re.search(r"^ +97\.7K .*  feed_chunk \(lively\.c:\d+\) < feeder", tree, re.M), tree)
        words = [CLI, "top", str(live.pid), "--batch", "10000", "--interval", "0.1"]
        with subprocess.Popen(words, env=live.cli_env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.stdout.close()
            error = process.stderr.read().decode()
        check(process.returncode in (1, -signal.SIGPIPE),
              f"a closed pipe: exit {process.returncode}, {error}")


@test
def top_batch_ends():
    """If the target ends, top --batch says how it ended and exits with 1."""
    for end, pattern in (("exit 3", r"has exited with status 3|has ended"),
                         ("kill", r"was killed by signal 9 \(Killed\)|has ended")):
        with lively() as live:
            words = [CLI, "top", str(live.pid), "--batch", "10000", "--interval", "0.1"]
            with subprocess.Popen(words, env=live.cli_env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as process:
                process.stdout.readline()
                if end == "kill":
                    os.kill(live.pid, signal.SIGKILL)
                else:
                    tell(live, end)
                error = process.communicate(timeout=60)[1]
            check_equal(process.returncode, 1, "exit code")
            check(re.search(pattern, error), error)


@test
def top_refuses():
    """Without a terminal, or with an unknown TERM, top refuses; the message names --batch."""
    with lively() as live:
        expect(2, "standard (in|out)put is no terminal; --batch N", "top", live.pid,
               env=live.cli_env)
        for name, pattern in ((None, "TERM is not set.*--batch N"),
                              ("no-such-terminal", 'called "no-such-terminal".*--batch N'),
                              ("dumb", "cannot move its cursor.*--batch N")):
            with top(live, TERM=name) as screen:
                check_equal(screen.ended(), 2, f"exit code with TERM={name}")
                check(re.search(pattern, screen.text().replace("\n", ""), re.S), screen.text())
        env = live.cli_env
        expect(2, "--json .* needs --batch N", "top", live.pid, "--json", env=env)
        expect(2, 'one of live, growth, .*; got "peak"', "top", live.pid, "--batch", 1, "--sort",
               "peak", env=env)
        expect(2, "--interval takes", "top", live.pid, "--batch", 1, "--interval", "0", env=env)
        expect(2, "needs a TARGET", "top", env=env)
        expect(2, "--all takes no TARGET", "top", "--all", live.pid, env=env)
        expect(3, "no process has pid", "top", 999999999, "--batch", 1, env=env)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([CLI, "top", str(live.pid), "--batch", "1", "--interval", "0.1"],
                                  env=env, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        check(done.returncode == 1 and "No space left" in done.stderr,
              f"a full disk: {done.returncode} {done.stderr}")
        # without standard output no descriptor of the command takes its place
        done = subprocess.run(["sh", "-c", '"$0" top "$1" --batch 1 --interval 0.1 >&-', CLI,
                               str(live.pid)], env=env,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        check(done.returncode == 1 and "Bad file descriptor" in done.stderr,
              f"no output: {done.returncode} {done.stderr}")


@test
def top_list():
    """The flat list on a terminal of 80x24: live bytes, growth, sorting, search, base, threads."""
    with lively() as live, top(live) as screen:
        screen.wait(r"^ +97\.7K .* 100 load_chunk \(lively\.c:\d+\)", "the first look")
        screen.wait(r">" + TITLES + " CALL PATH", "sorted by live bytes")
        check_equal(len(screen.screen.marked()), 2, "the titles and one line are marked")
        do(live, "feed")
        screen.wait(r"^ +195K +\+\d.*feed_chunk|^ +97\.7K +\+\d.*feed_chunk",
                    "growth of feed_chunk")
        screen.wait(r"growth \+\d", "growth of the total")
        screen.wait(r"^total .*[▁▂▃▄▅▆▇█]{2,} \d", "a sparkline")
        screen.press("5")
        screen.wait(r">CHUNKS", "sorted by chunks")
        screen.press("/feed_c" + ENTER)
        screen.wait(r"/feed_c\n", "the search is shown")
        screen.until(lambda: "load_chunk" not in screen.text(), "only what matches")
        screen.press("t")
        screen.wait(r"^ +195K .* 100 +thread \d+ feeder$", "the thread of feed_chunk")
        screen.press(ENTER)
        screen.wait(r"^ +feed_chunk \(lively\.c:\d+\)\n +< feeder \(lively\.c:\d+\)\n",
                    "its whole path")
        screen.press(LEFT)
        screen.until(lambda: not re.search("^ +< feeder", screen.text(), re.M),
                     "the path is closed")
        screen.press("t" + ESCAPE)
        screen.wait("load_chunk", "the search has ended")
        screen.press("d")
        screen.wait("there is no base yet", "no base")
        screen.press("md")
        screen.wait(r"\+LIVE .*>\+CHUNKS", "the titles of differences")
        do(live, "load")
        screen.wait(r"^ +\+97\.7K .* \+100 load_chunk", "the difference of load_chunk")
        screen.press("/[" + ENTER)
        screen.wait("not a regular expression", "a bad search")
        screen.press("?")
        screen.wait("any key goes back", "the keys")
        screen.press("x")
        screen.wait("CALL PATH", "the list again")
        quit_top(screen)


@test
def top_threads_batch():
    """--batch --threads: the threads add up to the process, and growth is in the thread that
    allocated."""
    with lively() as live:
        words = [CLI, "top", str(live.pid), "--batch", "10000", "--interval", "0.1", "--json",
                 "--threads"]
        with subprocess.Popen(words, env=live.cli_env, stdout=subprocess.PIPE,
                              text=True) as process:
            frames = [json.loads(process.stdout.readline())]
            do(live, "feed")
            while True:
                frames.append(json.loads(process.stdout.readline()))
                if sum(one["requested_bytes"] for one in frames[-1]["threads"]) == \
                        sum(one["requested_bytes"] for one in frames[0]["threads"]) + 100000:
                    break
            frames.append(json.loads(process.stdout.readline()))
            process.terminate()
        grown = [{one["name"].split()[-1]: one["growth_bytes_per_s"] for one in frame["threads"]}
                 for frame in frames]
        check_equal(sum(1 for one in grown if one["feeder"] > 0), 1,
                    f"frames in which feeder grew: {grown}")
        check(all(one["lively"] == 0 for one in grown), f"the main thread grew: {grown}")
        last = frames[-1]["threads"]
        check_equal(sum(one["requested_bytes"] for one in last),
                    frames[-1]["process"]["requested_bytes"], "the sum over the threads")
        said = json.loads(cli("dump", live.pid, "--threads", "--json", env=live.cli_env).stdout)
        want = {}
        for context in said["contexts"]:
            for tid, one in (context["threads"] or {}).items():
                if one["live_chunks"]:
                    want[int(tid), context["id"]] = one["requested_bytes"], one["live_chunks"]
        got = {(one["tid"], path["id"]): (path["requested_bytes"], path["live_chunks"])
               for one in last for path in one["list"] if path["live_chunks"]}
        check_equal(got, want, "the call paths of each thread")
        text = expect(0, "^$", "top", live.pid, "--batch", 1, "--interval", 0.1, "--threads",
                      "--limit", 1, env=live.cli_env).stdout
        check(re.search(r"^ +\d+ +\+0 +0 +\d+  thread \d+ lively, \d more paths\n"
                        r" +100000 .*load_chunk",
                        text, re.M), text)
        check(re.search(r"^ +200000 +\+0 +0 +100  thread \d+ feeder\n"
                        r" +200000 +\+0 +0 +100    feed_chunk \(lively\.c:\d+\) < feeder", text,
                        re.M), text)
        for words, message in ((["--tree"], "does not go with --tree"),
                               (["--sort", "waste"], "the waste of a thread is not known")):
            expect(2, message, "top", live.pid, "--batch", 1, "--threads", *words, env=live.cli_env)
        expect(2, "takes one TARGET", "top", "--all", "--batch", 1, "--threads", env=live.cli_env)


@test
def top_threads_list():
    """T lists the threads. Sorting, search and Enter work in that list, and T leaves it."""
    with lively() as live, top(live) as screen:
        screen.wait("load_chunk", "the first look")
        screen.press("T")
        screen.wait(r">LIVE .* THREADS AND THEIR CALL PATHS\n +\d\S+ .* thread \d+ (lively|feeder)",
                    "the threads")
        screen.wait(r"^ +97\.7K +\S+ +\? +\S+ +50 thread \d+ feeder", "the figures of feeder")
        do(live, "feed")
        do(live, "feed")
        screen.wait(r" thread \d+ feeder[^\n]*\n(.*\n)+.* thread \d+ lively",
                    "the thread with more comes first")
        screen.press("/load_chunk" + ENTER)
        screen.until(lambda: "feeder" not in screen.text(),
                     "threads without such a path are left out")
        screen.wait(r"100 thread \d+ lively", "the sum of what matches")
        screen.press(ESCAPE)
        screen.wait("feeder", "the search has ended")
        do(live, "load")
        screen.press("G")
        screen.wait(r"lively, 1 more path *$", "a call path is left out")
        screen.press(ENTER)
        screen.wait(r"thread \d+ lively *$", "all call paths of the last thread")
        screen.press("d")
        screen.wait("shows no differences; T goes back", "no differences")
        screen.press("T")
        screen.wait("CALL PATH$", "the list again")
        quit_top(screen)


@test
def top_tree():
    """The tree on a terminal of 200x60 can be folded and opened, and follows the terminal's
    size."""
    with lively() as live, top(live, live.pid, "--tree", rows=60, columns=200) as screen:
        screen.wait(r"- \[the whole program\]$", "the root")
        screen.wait(r"^ +97\.7K .* feed_chunk \(lively\.c:\d+\) < feeder \(lively\.c:\d+\)",
                    "a line of the tree")
        screen.press(ENTER)
        screen.wait(r"\+ \[the whole program\]$", "the root is folded")
        screen.until(lambda: "feed_chunk" not in screen.text(), "nothing below the root")
        screen.press("+")
        screen.wait("feed_chunk", "the root is open")
        screen.press(DOWN)
        screen.until(lambda: "whole program" not in screen.screen.marked()[-1],
                     "the next line is marked")
        screen.press(LEFT + LEFT)
        screen.until(lambda: "whole program" in screen.screen.marked()[-1], "Left goes to the root")
        screen.resize(24, 80)
        screen.wait(r"^\? keys.*pause$", "the foot on 80x24")
        screen.wait("feed_chunk", "the tree on 80x24")
        screen.resize(5, 30)
        screen.wait("too small", "a tiny terminal")
        screen.resize(40, 120)
        screen.wait(r"feed_chunk.*< feeder", "the tree on 40x120")
        screen.press("v")
        screen.wait("CALL PATH$", "the list")
        screen.press("p")
        screen.wait("PAUSED", "paused")
        do(live, "load")
        time.sleep(0.5)
        while screen.read(0.1):
            pass
        screen.wait(r"^ +97\.7K .* 100 load_chunk", "the figures of load_chunk")
        screen.press("p")
        screen.wait(r"live 297K", "it goes on")
        quit_top(screen)


@test
def top_ends():
    """When its target has ended, the screen stays and says how; it also says if the target does not
    answer."""
    for end, pattern in (("exit 3", r"exited with status 3|has ended"),
                         ("kill", r"killed by signal 9|has ended")):
        with lively() as live, top(live) as screen:
            screen.wait("load_chunk", "the first look")
            if end == "kill":
                live.process.send_signal(signal.SIGSTOP)
                screen.wait("is stopped; kill -CONT", "a stopped target")
                live.process.send_signal(signal.SIGCONT)
                screen.until(lambda: "is stopped" not in screen.text(), "it answers again")
                live.process.kill()
            else:
                tell(live, end)
            screen.wait(rf"({pattern}).*q quits", "how it ended")
            screen.wait("load_chunk", "the last figures")
            quit_top(screen)


@test
def top_ends_differences_when_the_base_is_gone():
    """When the target executes another program, no figures are shown as differences."""
    with lively() as live, top(live, columns=160) as screen:
        screen.wait("load_chunk", "the first look")
        screen.press("md")
        screen.wait(r"up ([3-9]|\d\d+) s  DIFFERENCES to(.|\n)*\+LIVE",
                    "differences; the uptime is to fall")
        tell(live, "again")
        check_equal(live.hear(), "ready", "the answer of the program after exec")
        screen.wait("the base is gone, as after an exec; m makes the present figures the base",
                    "the message")
        screen.wait("^ *>?LIVE +GROWTH/S", "the titles of figures")
        check("DIFFERENCES" not in screen.text(), screen.text())
        quit_top(screen)


@test
def top_frees_the_names_of_a_program_that_was_replaced():
    """top runs under memctx, which tells how many chunks top holds before each exec of its
    target."""
    with lively() as live, \
            Target([CLI, "top", str(live.pid), "--batch", "100000", "--interval", "0.1", "--limit",
                    "1", "--json"], live.runtime, MEMCTX_CONTROL="eager") as watcher:
        watcher.wait_socket()
        held, uptime_s = [], float("inf")
        for _ in range(3):
            while not (frame := json.loads(watcher.hear()))["process"]["uptime_s"] < uptime_s:
                pass
            while "load_chunk" not in json.dumps(frame) or frame["process"]["uptime_s"] < 3:
                frame = json.loads(watcher.hear())
            held.append(watcher.dump()["totals"]["live_chunks"])
            uptime_s = 3  # after the exec it is less for a moment
            tell(live, "again")
            check_equal(live.hear(), "ready", "the answer of the program after exec")
        check(held[2] < held[0] + 100, f"chunks that top holds: {held}")
        return f"{held}"


def frame_after_exec(*words):
    """Returns the frame of a look at a program that a shell has executed since the first look. The
    program has run for longer at the second look than the shell had at the first one."""
    program = build_program("tests/cli/programs/lively.c")
    with target(["sh", "-c", f"echo ready; read line; exec {program}"]) as live, \
            subprocess.Popen([CLI, "top", str(live.pid), "--batch", "1", "--interval", "2.5",
                              "--json", *words], env=live.cli_env,
                             stdout=subprocess.PIPE) as watcher:
        wait_until(lambda: 0 < dumps_of(live) == (time.sleep(0.3) or dumps_of(live)),
                   "the end of the first look")
        tell(live, "go")
        check_equal(live.hear(), "ready", "the program after exec")
        return json.loads(watcher.stdout.read())


@test
def top_tells_an_exec_that_the_uptime_does_not_tell():
    frame = frame_after_exec()
    process = frame["process"]
    check_equal((process["name"], process["growth_bytes_per_s"]), ("lively", None),
                "the name, and the growth, which is not known")
    check_equal(sum_of(frame, "load_chunk"), 100000, "load_chunk")
    threads = frame_after_exec("--threads")["threads"]
    check_equal({thread["growth_bytes_per_s"] for thread in threads}, {None}, "growth of threads")


@test
def top_restores():
    """Signals that end or stop top restore the terminal; without UTF-8 the sparkline is ASCII."""
    with lively() as live:
        for number in (signal.SIGTERM, signal.SIGINT):
            with top(live, LC_ALL="C") as screen:
                screen.wait(r"^total +[_#]+ \d", "a sparkline of ASCII")
                check(screen.text().isascii(), screen.text())
                screen.process.send_signal(number)
                check_equal(screen.ended(), -number, "how it ended")
                check(screen.is_restored(), f"signal {number}")
        # A shell with job control: the kernel ignores SIGTSTP in an orphaned process group.
        shell = ["bash", "-c", 'set -m; "$@"; echo "stopped: $?"; read -r line; fg >/dev/null; '
                               'echo "ended: $?"', "bash"]
        with top(live, before=shell) as screen:
            screen.wait("load_chunk", "the first look")
            screen.press("\032")
            screen.wait("^stopped: 1", "stopped by Ctrl-Z")
            check(screen.is_restored(), "the terminal of a command that is stopped")
            screen.press("go on\n")
            screen.wait("load_chunk", "it goes on")
            screen.until(lambda: 1049 in screen.screen.modes, "the screen is open again")
            screen.press("q")
            screen.wait("^ended: 0", "the end")
            check_equal(screen.ended(), 0, "the exit code of the shell")
            check(screen.is_restored(), "the terminal after q")


@test
def top_new_paths():
    """A call path that appears while top runs is shown with its function's name."""
    with target([build_program("tests/cli/programs/allocate.c")]) as live, top(live) as screen:
        screen.wait("allocate_first", "the first look")
        check("allocate_more" not in screen.text(), screen.text())
        do(live, "grow")
        screen.wait(r"^ +488K .* 500 allocate_more \(allocate\.c:\d+\) < ma", "the new path")
        quit_top(screen)
