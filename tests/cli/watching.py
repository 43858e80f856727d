# SPDX-License-Identifier: MIT
"""memctx watch: conditions and actions on live processes, kept snapshots, faults, a real cgroup."""
import contextlib
import json
import os
import re
import resource
import select
import signal
import subprocess
import threading
import time

import harness
from harness import (PATIENCE_S, Skip, Target, build_program, check, check_equal, in_tries, test,
                     wait_until)
from clitest import CLI, expect, fake, scratch, succeed, target

MIB = 1 << 20
OWN_NAME = f"own{os.getpid()}"  # no other process has this name


def hold(**extra):
    return target([build_program("tests/cli/programs/hold.c")], **extra)


class Watch(harness.Owner):
    """A running `memctx watch --json`; its events are read one by one."""

    def __init__(self, live, *words, every="50ms", env=None, **extra):
        name = [] if live is None else [str(live.pid)]
        self.process = subprocess.Popen(
            [CLI, "watch", *name, "--json", "--every", every, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env or live.cli_env, **extra)
        self.buffer = b""
        self.seen = []

    def next(self, timeout_s=PATIENCE_S):
        """The next event. None: the output has ended, or timeout_s has passed."""
        deadline = time.monotonic() + timeout_s
        fd = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            data = os.read(fd, 65536)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        event = json.loads(line)
        check_equal(event["schema"], "memctx-watch/1", "schema")
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event["time"]), event["time"])
        self.seen.append(event)
        return event

    def until(self, *names, timeout_s=PATIENCE_S):
        """Reads up to an event of one of these names, and returns it."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            event = self.next(deadline - time.monotonic())
            if event is None:
                break
            if event["event"] in names:
                return event
        raise harness.Failure(f"no {names} came; there were {[e['text'] for e in self.seen]}; "
                              f"exit {self.process.poll()}")

    def quiet(self, *names, for_s=0.4):
        """Checks that none of these events comes within for_s."""
        deadline = time.monotonic() + for_s
        while (left := deadline - time.monotonic()) > 0:
            event = self.next(left)
            check(event is None or event["event"] not in names, f"unexpected: {event}")

    def end(self, number=signal.SIGTERM):
        """Sends the command a signal (0: none) and waits for its end; returns status and standard
        error."""
        if number:
            self.process.send_signal(number)
        while self.next() is not None:
            pass
        status = self.process.wait(timeout=PATIENCE_S)
        return status, self.process.stderr.read().decode()


def dumps_of(live):
    return json.loads(succeed("dump", "--self", "--json", live.pid,
                              env=live.cli_env))["figures"]["dumps"]


def wait_for_looks(live):
    """Waits until the command has judged figures that it read after this call."""
    before = dumps_of(live)
    wait_until(lambda: dumps_of(live) >= before + 2, "two looks of the command")


def files_in(where):
    """The names of all files except the lists for --keep."""
    return sorted(name for name in os.listdir(where) if not name.startswith(".memctx-watch-"))


def killed_first(pid):
    """True if the kernel kills this process before all others when memory is short."""
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
        return int(file.read()) == 1000


@test
def command_offers_itself_to_the_kernel():
    """If memory is short, the kernel is to kill a command that only looks, and never the target;
    a program that memctx run starts, and a command that stays, keep their own score."""
    own = succeed("run", "--", "cat", "/proc/self/oom_score_adj")
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        check_equal(own, file.read(), "score of a program")
    if killed_first("self"):
        raise Skip("this process has the highest score already")
    with hold() as live:
        words = [CLI, "doctor", str(live.pid), "--watch", "60"]
        with subprocess.Popen(words, env=live.cli_env, stdout=subprocess.DEVNULL) as looking:
            wait_until(lambda: killed_first(looking.pid), "the command to set its score")
            looking.kill()
        check(not killed_first(live.pid), "the target")
        with Watch(live, "--when", "ends") as watch:
            watch.next(1)
            check(not killed_first(watch.process.pid), "memctx watch")


@test
def watch_writes_a_snapshot_and_ends_with_the_target():
    with hold() as live, scratch() as where, \
            Watch(live, "--when", "rss>64M", "--when", "ends", "--dir", where, "--do",
                  "snapshot") as watch:
        check("rss>64M or ends" in watch.until("started")["text"], watch.seen)
        found = watch.until("found")
        check_equal((found["pid"], found["program"]), (live.pid, "hold"), "the process")
        check(found["limit_bytes"] > 0 and found["limit_from"] and found["rss_bytes"] > 0, found)
        watch.quiet("condition")
        check_equal(live.ask("take 80"), "ok", "take")
        event = watch.until("condition")
        check(event["value"] > 64 * MIB and event["threshold"] == 64 * MIB and
              event["when"] == "rss>64M", event)
        check(80 * MIB <= event["inuse_bytes"] < 81 * MIB, event)
        done = watch.until("snapshot")
        check(re.fullmatch(rf"hold-{live.pid}-\d{{8}}T\d{{6}}Z-rss-64M\.mctx",
                           os.path.basename(done["file"])), done)
        dump = json.loads(succeed("dump", done["file"], "--json"))
        check(dump["totals"]["requested_bytes"] >= 80 * MIB, dump["totals"])
        check("take" in succeed("dump", done["file"]), "the function's name")
        live.process.stdin.close()
        check_equal([watch.until("ended")["pid"], watch.until("ends")["when"]], [live.pid, "ends"],
                    "the end")
        check("1 event" not in watch.until("finished")["text"], watch.seen[-1])
        check_equal(watch.end(None), (0, ""), "status and errors")
        check_equal(files_in(where), [os.path.basename(done["file"])], "files")


@test
def watch_goes_on_while_its_log_cannot_be_written():
    """A limit of file size stands for a full disk: the log takes 200 bytes, until it is emptied."""
    with hold() as live, scratch() as where:
        log, made = os.path.join(where, "log"), os.path.join(where, "made")
        with open(log, "ab") as out, subprocess.Popen(
                [CLI, "watch", str(live.pid), "--every", "50ms", "--when", "rss>64M", "--do",
                 f"exec:touch {made}"],
                stdout=out, stderr=subprocess.PIPE, env=live.cli_env, text=True,
                preexec_fn=lambda:
                resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))) as process:
            wait_until(lambda: os.path.getsize(log) == 200, "a full log")
            live.ask("take 80")
            wait_until(lambda: os.path.exists(made) or process.poll() is not None, "the action")
            os.truncate(log, 0)
            process.terminate()
            errors = process.communicate(timeout=PATIENCE_S)[1]
        check_equal(process.returncode, 1, "status")
        check(re.search("^memctx: the log cannot be written; File too large; .*\n"
                        r"memctx: the log can be written again; \d events? (is|are) not in it\n$",
                        errors), errors)
        with open(log, encoding="utf-8") as file:
            text = file.read()
        check(re.fullmatch(r"\n(\d{4}-\S+Z .*\n)*\d{4}-\S+Z the watch ends because of a signal; 1 "
                           r"event, 0 failed actions\n", text), text)


@test
def watch_under_nohup_goes_on():
    with hold() as live, Watch(live, "--when", "rss>64M", "--do", "exec:true",
                               preexec_fn=lambda:
                               signal.signal(signal.SIGHUP, signal.SIG_IGN)) as watch:
        watch.until("found")
        watch.process.send_signal(signal.SIGHUP)
        live.ask("take 80")
        watch.until("exec")
        check_equal(watch.end(), (0, ""), "status and errors")


@test
def watch_acts_again_only_after_cool_and_fall():
    """A condition acts again only when it has ceased to hold once, and --cool has passed."""
    with hold() as live, scratch() as where, \
            Watch(live, "--when", "inuse>10M", "--cool", "600ms", "--dir", where, "--do",
                  "exec:true") as watch:
        started = time.monotonic()
        live.ask("take 20")
        watch.until("exec")
        live.ask("give")
        wait_for_looks(live)
        live.ask("take 20")
        check(watch.until("condition")["when"] == "inuse>10M", watch.seen)
        took = time.monotonic() - started
        check(took >= 0.6, f"again after {took:.2f} s")
        # the condition stays true, so the cool-down's end starts no second action
        watch.quiet("condition", for_s=0.9)


@test
def watch_growth_and_waste():
    with hold() as live, Watch(live, "--when", "growth>30M/200s", "--when", "waste>90%", "--do",
                               "exec:true") as watch:
        watch.until("found")
        wait_for_looks(live)
        live.ask("take 20")
        watch.quiet("condition", for_s=0.2)
        live.ask("take 20")
        event = watch.until("condition")
        check_equal(event["when"], "growth>30M/200s", "which")
        check(40 * MIB <= event["value"] < 41 * MIB, event)
        check_equal(watch.end()[0], 0, "status")
        check(all(event["when"] != "waste>90%" for event in watch.seen),
              "what was asked for is no waste")


@test
def watch_looks_at_each_limit():
    """`used` holds if little is left of any limit, although the resident set is far below it."""
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = {line.split(":")[0]: int(line.split()[1]) for line in file}
    if memory["MemAvailable"] < memory["MemTotal"] / 5:
        raise Skip("the memory of this machine is nearly used up")
    with hold() as live, Watch(live, "--when", "used>90%limit", "--when", "rss>90%limit", "--do",
                               "exec:true") as watch:
        watch.until("found")
        live.ask("take 60")
        data = int(harness.read_status(live.pid, "VmData").split()[0]) << 10
        watch.quiet("condition", for_s=0.2)
        limit = data + 4 * MIB
        resource.prlimit(live.pid, resource.RLIMIT_DATA, (limit, limit))
        event = watch.until("condition")
        check_equal((event["when"], event["limit_from"], event["limit_bytes"]),
                    ("used>90%limit", "RLIMIT_DATA", limit), "the event")
        check(data <= event["value"] <= limit and event["threshold"] == int(limit / 1e6 * 900000),
              event)
        check(re.search(r"^used>90%limit holds; .* is more than .*; the limit is .*, RLIMIT_DATA$",
                        event["text"]), event["text"])
        check_equal(watch.end(), (0, ""), "status and errors")


@test
def watch_runs_commands_one_at_a_time():
    command = ('echo "$MEMCTX_PID|$MEMCTX_WHEN|$MEMCTX_VALUE|$MEMCTX_FILE" >> seen; echo said; '
               'sleep 0.2; date +%s.%N >> seen')
    with hold() as live, scratch() as where, \
            Watch(live, "--when", "rss>1K", "--when", "inuse>1K", "--when", "ends", "--no-symbols",
                  "--do", "snapshot", "--do",
                  f"exec:{command}", "--do", "exec:exit 3", cwd=where) as watch:
        done = [watch.until("snapshot") for _ in range(2)]
        failed = watch.until("failed")
        check_equal((failed["status"], failed["when"]), (3, "inuse>1K"), "a command that fails")
        live.kill()
        status, errors = watch.end(None)
        check_equal((status, errors), (1, "said\n" * 3), "status, and the output of the commands")
        with open(os.path.join(where, "seen"), encoding="ascii") as file:
            lines = file.read().split()
        check_equal(len(lines), 6, f"lines: {lines}")
        for i, when in enumerate(("rss>1K", "inuse>1K", "ends")):
            fields = lines[2 * i].split("|")
            check_equal(fields[:2], [str(live.pid), when], "environment")
            check_equal(fields[3], done[min(i, 1)]["file"], "MEMCTX_FILE")
            check(int(fields[2]) > 1024 or when == "ends", f"MEMCTX_VALUE: {fields}")


@test
def watch_bounds_the_events_that_wait():
    """While an action hangs, 1024 later events wait for their actions; watch leaves further ones
    out, and says so. Here 65 processes fulfil 16 conditions each."""
    conditions = [word for i in range(1, 17) for word in ("--when", f"rss>{i}")]
    with harness.runtime_dir() as runtime, scratch() as where, contextlib.ExitStack() as stack:
        os.symlink("/usr/bin/sleep", os.path.join(where, OWN_NAME))
        for _ in range(65):
            process = subprocess.Popen([os.path.join(where, OWN_NAME), "600"],
                                       env=harness.preloaded_env(XDG_RUNTIME_DIR=runtime))
            stack.callback(process.wait)
            stack.callback(process.kill)
        with Watch(None, "--all", "--match", OWN_NAME, *conditions, "--do", "exec:sleep 60",
                   env=harness.clean_env(XDG_RUNTIME_DIR=runtime)) as watch:
            failed = watch.until("failed")
            check("are left out, because 1024 earlier events still wait" in failed["text"], failed)
            held = sum(event["event"] == "condition" for event in watch.seen)
            check_equal(held, 1025, "conditions that held until then")
            check_equal(watch.end()[0], 1, "status")


@test
def watch_ends_what_takes_too_long():
    with hold() as live, Watch(live, "--when", "rss>1K", "--timeout", "1s", "--do",
                               "exec:sleep 60 & sleep 60") as watch:
        failed = watch.until("failed")
        check("--timeout" in failed["text"] and 900 < failed["took_ms"] < 30000, failed)


@test
def watch_prints_what_doctor_finds():
    with hold() as live:
        words = [CLI, "watch", str(live.pid), "--when", "rss>1K", "--every", "50ms", "--do",
                 "doctor"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=live.cli_env) as watch:
            late = threading.Timer(PATIENCE_S, watch.kill)
            late.start()
            lines = []
            while not any("hold" in line and line[0] != "2" for line in lines):
                lines.append(watch.stdout.readline())
                check(lines[-1] != "", f"it ended: {lines}")
            watch.send_signal(signal.SIGINT)
            rest = watch.stdout.read()
            check_equal(watch.wait(timeout=PATIENCE_S), 0, "status")
            late.cancel()
        check(re.search(r"doctor for rss>1K; .* in use", "".join(lines)), lines)
        check(re.search(r"Z the watch ends because of a signal; 1 event, 0 failed actions\n$",
                        rest), rest)


@test
def watch_removes_unfinished_files():
    with fake("answer-stalled") as live, scratch() as where, \
            Watch(live, "--when", "rss>1K", "--dir", where) as watch:
        watch.until("condition")
        wait_until(lambda: len(files_in(where)) == 1, "the unfinished file")
        check(not files_in(where)[0].endswith(".mctx"), files_in(where))
        check_equal(watch.end(), (0, ""), "status and errors")
        check_equal(files_in(where), [], "files")


@test
def watch_of_a_target_that_ends_in_the_middle():
    with fake("answer-stalled") as live, scratch() as where, \
            Watch(live, "--when", "rss>1K", "--dir", where) as watch:
        watch.until("condition")
        wait_until(lambda: len(files_in(where)) == 1, "the unfinished file")
        time.sleep(0.3)  # now the command waits for the rest of an answer
        live.kill()
        failed = watch.until("failed")
        check("the process ended meanwhile" in failed["text"], failed)
        check_equal(watch.end(None)[0], 1, "status")
        check_equal(files_in(where), [], "files")


@test
def watch_goes_on_when_files_cannot_be_written():
    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    with hold() as live, scratch() as where, \
            Watch(live, "--when", "rss>1K", "--dir", where, "--cool", "200ms",
                  preexec_fn=small) as watch:
        failed = watch.until("failed")
        check("could not be written; File too large" in failed["text"], failed)
        check_equal(files_in(where), [], "files")
        watch.until("failed")  # the action is tried again
        status, _ = watch.end()
        check_equal(status, 1, "status")
        gone = os.path.join(where, "gone")
        expect(1, "gone: files cannot be written there; No such file", "watch", live.pid, "--when",
               "rss>1K", "--dir", gone,
               env=live.cli_env)


@test
def watch_of_a_directory_that_goes_away():
    with hold() as live, scratch() as where:
        folder = os.path.join(where, "files")
        os.mkdir(folder)
        with Watch(live, "--when", "inuse>10M", "--dir", folder, "--cool", "100ms") as watch:
            watch.until("found")
            os.rmdir(folder)
            live.ask("take 20")
            check("No such file or directory" in watch.until("failed")["text"], watch.seen)
            os.mkdir(folder)
            check_equal(os.path.dirname(watch.until("snapshot")["file"]), folder, "tried again")
            check_equal(watch.end()[0], 1, "status")


@test
def watch_reads_the_others_while_some_hang():
    """It takes 1.5 s to find out that a process does not answer. Between two such questions the
    process that answers is read at many looks."""
    with harness.runtime_dir() as runtime, scratch() as where, contextlib.ExitStack() as stack:
        named = os.path.join(where, f"{OWN_NAME}-hung")
        os.symlink(harness.build_fake_server(), named)
        processes = [stack.enter_context(Target([named, fault], runtime, MEMCTX_CONTROL="off"))
                     for fault in ("silent-noting", "silent-noting", "noting")]
        for one in processes:
            check_equal(one.hear(), "ready", "first line of the fake server")
        with Watch(None, "--match", os.path.basename(named), "--when", "inuse>1G", every="100ms",
                   env=processes[0].cli_env):
            path = os.path.join(runtime, "notes")

            def questions():
                """How often the third process was asked before each question to the others."""
                with open(path, encoding="ascii") as file:
                    return [part.count("asked") for part in file.read().split("came")][:-1]

            wait_until(lambda: os.path.exists(path) and len(questions()) > 2, "three questions")
            asked = questions()
        # Each of the two is asked at the first look. From then on they take turns.
        check(asked[2] > 4, f"looks between the questions: {asked}")


@test
def watch_of_a_stopped_target():
    """watch says once that a stopped process is silent, and once that it answers again."""
    with hold() as live, Watch(live, "--when", "inuse>10M", "--do", "exec:true") as watch:
        watch.quiet("condition", for_s=0.2)
        os.kill(live.pid, signal.SIGSTOP)
        check("kill -CONT" in watch.until("silent")["text"], watch.seen)
        watch.quiet("silent", "condition", for_s=0.3)  # the event comes only once
        os.kill(live.pid, signal.SIGCONT)
        watch.until("answers")
        live.ask("take 20")
        watch.until("exec")
        check_equal(watch.end(), (0, ""), "status and errors")


@test
def watch_of_a_program_whose_name_is_in_no_file_name():
    with scratch() as where:
        os.symlink(build_program("tests/cli/programs/hold.c"), os.path.join(where, "日本"))
        os.mkdir(os.path.join(where, "files"))
        with target([os.path.join(where, "日本")]) as live, \
                Watch(live, "--when", "rss>1K", "--dir", os.path.join(where, "files"),
                      "--no-symbols") as watch:
            name = os.path.basename(watch.until("snapshot")["file"])
            check(name.startswith(f"program-{live.pid}-"), name)


@test
def watch_of_a_target_without_a_socket():
    with harness.runtime_dir() as runtime, \
            Target([build_program("tests/cli/programs/hold.c")], runtime,
                   MEMCTX_CONTROL="off") as live, scratch() as where:
        check_equal(live.hear(), "ready", "first line of the target")
        with Watch(live, "--when", "inuse>10M", "--dir", where) as watch:
            watch.until("found")
            live.ask("take 20")
            check(watch.until("condition")["inuse_bytes"] > 20 * MIB, watch.seen)
            succeed("doctor", watch.until("snapshot")["file"])
            check_equal(watch.end(), (0, ""), "status and errors")


@contextlib.contextmanager
def entrypoint():
    """A shell that executes the program hold, under the name OWN_NAME, when it gets a line."""
    with scratch() as where:
        program = os.path.join(where, OWN_NAME)
        os.symlink(build_program("tests/cli/programs/hold.c"), program)
        with target(["sh", "-c", f"echo ready; read line; exec {program}"]) as live:
            yield live


@test
def watch_tells_the_program_after_an_exec():
    with entrypoint() as live, scratch() as where, \
            Watch(live, "--when", "rss>64M", "--dir", where, "--no-symbols") as watch:
        check_equal(watch.until("found")["program"], "sh", "the program at first")
        check_equal(live.ask("go"), "ready", "the program after exec")
        live.ask("take 80")
        event = watch.until("program", "condition")
        check_equal((event["event"], event["program"], event["text"]),
                    ("program", OWN_NAME, f"the process now runs {OWN_NAME}"), "the first event")
        done = watch.until("snapshot")
        check(done["program"] == OWN_NAME and
              os.path.basename(done["file"]).startswith(f"{OWN_NAME}-{live.pid}-"), done)
        check_equal(watch.end(), (0, ""), "status and errors")


@test
@in_tries
def watch_all_finds_a_process_soon_after_its_exec():
    """watch finds a process within 2 s after it has executed a program that --match names, although
    the pause between two looks at a process of another name has grown to 4 s by then."""
    with entrypoint() as live, Watch(None, "--all", "--match", OWN_NAME, "--when", "rss>1G", "--do",
                                     "exec:true",
                                     env=live.cli_env) as watch:
        watch.until("started")
        time.sleep(3.3)
        check_equal(live.ask("go"), "ready", "the program after exec")
        check_equal(watch.until("found", timeout_s=2)["pid"], live.pid, "the process")
        check_equal(watch.end(), (0, ""), "status and errors")


@test
def watch_keeps_the_files_of_a_service_that_fails_again_and_again():
    """A process takes over the files of an ended process of the same program, so that a service
    which fails and is started again, time after time, fills no disk."""
    with harness.runtime_dir() as runtime, scratch() as where, scratch() as programs:
        program = os.path.join(programs, OWN_NAME)
        os.symlink(build_program("tests/cli/programs/hold.c"), program)
        env = harness.clean_env(XDG_RUNTIME_DIR=runtime)
        with Watch(None, "--all", "--match", OWN_NAME, "--when", "inuse>1M", "--when", "ends",
                   "--do", "snapshot",
                   "--do", f"exec:echo \"$MEMCTX_WHEN $MEMCTX_FILE\" >>{programs}/told", "--keep",
                   1, "--no-symbols", "--dir", where,
                   env=env) as watch:
            for megabytes in (9, 3, 0, 2, 4):
                with Target([program], runtime, MEMCTX_CONTROL="eager") as live:
                    check_equal(live.hear(), "ready", "first line")
                    live.wait_socket()
                    if megabytes:
                        live.ask(f"take {megabytes}")
                        made = watch.until("snapshot")
                    else:
                        while watch.until("found")["pid"] != live.pid:
                            pass
                while watch.until("exec")["when"] != "ends":
                    pass
            check_equal(watch.end()[0], 0, "status")
        kept = [event for event in watch.seen if event["event"] == "snapshot" and
                os.path.basename(event["file"]) in files_in(where)]
        check_equal([event["inuse_bytes"] // MIB for event in kept], [9, 4],
                    f"files of the largest and of the newest event: {files_in(where)}")
        check_equal(len(files_in(where)), 2, "files")
        with open(f"{programs}/told", encoding="utf-8") as file:
            ends = [line.split() for line in file if line.startswith("ends")]
        check_equal([len(line) for line in ends], [2, 2, 1, 2, 2],
                    f"MEMCTX_FILE, of a process without a file empty: {ends}")
        check_equal(ends[-1][1], made["file"], "MEMCTX_FILE of the last process")


@test
def watch_all_finds_new_processes():
    program = build_program("tests/cli/programs/hold.c")
    with hold() as first, scratch() as where, \
            Watch(None, "--all", "--match", "ho?d", "--when", "inuse>10M", "--do", "exec:true",
                  "--dir", where,
                  env=first.cli_env) as watch:
        while watch.until("found")["pid"] != first.pid:  # skip processes of other suites
            pass
        with target([build_program("tests/cli/programs/allocate.c")]), \
                Target([program], first.runtime, MEMCTX_CONTROL="eager") as second:
            check_equal(second.hear(), "ready", "second")
            second.ask("take 20")
            while watch.until("found")["pid"] != second.pid:
                pass
            while watch.until("condition")["pid"] != second.pid:
                pass
            watch.until("exec")
        while watch.until("ended")["pid"] != second.pid:
            pass
        watch.quiet("finished", for_s=0.2)
        check_equal(watch.end(signal.SIGINT), (0, ""), "status and errors")
        check({event["program"] for event in watch.seen} <= {"hold", None}, "only what matches")


@test
def watch_without_a_reader_ends():
    with hold() as live, scratch() as where:
        with Watch(live, "--when", "inuse>10M", "--do", "exec:true", "--dir", where) as watch:
            watch.until("found")
            watch.process.stdout.close()
            live.ask("take 20")
            check_equal(watch.process.wait(timeout=PATIENCE_S), 1, "status")
            check("could not write the output" in watch.process.stderr.read().decode(),
                  "the reason")
            watch.process.stdout = None


@test
def watch_refuses_what_makes_no_sense():
    with hold() as live:
        for words, pattern in (
                ([live.pid], "needs a condition.*growth>SIZE/TIME.*for example"),
                ([live.pid, "--when", "rss>85%"],
                 r"does not say of what it is a share.*rss>N%limit.*for example --when "
                 r"'rss>85%limit'"),
                ([live.pid, "--when", "rss"], "quote the condition"),
                ([live.pid, "--when", "rss>1M", "--do", "dance"],
                 'takes snapshot, doctor or exec:COMMAND; got "dance"'),
                ([live.pid, "--when", "rss>1M", "--do", "exec:"], "exec:COMMAND"),
                ([live.pid, "--when", "ends"], "cannot be asked"),
                ([live.pid, "--when", "rss>1M", "--every", "1ms"], "--every takes a time"),
                ([live.pid, "--when", "rss>1M", "--keep", "0"], "--keep takes"),
                ([live.pid, "--when", "rss>1M", "--match", "x"], "--match takes no TARGET"),
                ([live.pid, "--when", "rss>1M", "--all"], "takes no TARGET"),
                (["--when", "rss>1M"], "needs a TARGET")):
            expect(2, pattern, "watch", *words, env=live.cli_env)
        expect(3, "no process has pid", "watch", 1 << 30, "--when", "rss>1M", env=live.cli_env)
