# SPDX-License-Identifier: MIT
"""memctx serve while processes start, end, stop, do not answer or give wrong answers."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from harness import (PATIENCE_S, Failure, Skip, check, check_equal, in_tries, run_cli, runtime_dir,
                     test, wait_until)
from clients import children
from serving import OWN_NAME, Server, fake, named, served

# Names of the test's processes in metrics.
FIRST, SECOND, BADLY = f"{OWN_NAME}1", f"{OWN_NAME}2", f"{OWN_NAME}-badly1"


def up(server):
    """{name and number of each process: its metric memctx_up}."""
    return {dict(key)["program"] + dict(key)["process"]: value
            for key, value in server.metrics().all("memctx_up").items()}


def expect_up(server, wanted, what):
    """Waits until the metric `up` has the wanted values. (A process that answers late is 0 for a
    while.)"""
    found = {}

    def is_told():
        nonlocal found
        found = up(server)
        return found == wanted
    try:
        wait_until(is_told, what)
    except Failure:
        check_equal(found, wanted, what)


@test
def processes_come_and_go():
    with runtime_dir() as runtime, Server(runtime, "--match", OWN_NAME) as server:
        check_equal((server.first_count, up(server)), (0, {}), "nobody")
        with served(runtime, OWN_NAME) as first, served(runtime, OWN_NAME) as second:
            expect_up(server, {FIRST: 1, SECOND: 1}, "two of them")
            pids = {first.pid: first, second.pid: second}
            order = sorted(pids)  # the names are numbered by rising pids
            pids[order[0]].kill()
            expect_up(server, {SECOND: 1}, "after the end of the first")
            with served(runtime, OWN_NAME):
                expect_up(server, {FIRST: 1, SECOND: 1}, "with another first one")
        metrics = server.metrics()
        check_equal(metrics.all("memctx_requested_bytes"), {}, "after the end of all")
        check_equal(metrics.one("memctx_serve_processes"), 0, "processes")
        check_equal(server.end(), (0, ""), "end of the server")


@test
def a_server_on_the_library_serves_neither_itself_nor_its_children():
    """As if /etc/ld.so.preload named the library. Each child that asks a process is a process on
    the library, and would get another child."""
    with served(name=OWN_NAME) as target, tempfile.TemporaryDirectory(prefix="mctx-",
                                                                      dir="/tmp") as where:
        command = shutil.copy(harness.CLI, os.path.join(where, f"{OWN_NAME}-command"))
        with Server(target.runtime, "--match", f"{OWN_NAME}*",
                    environment={"LD_PRELOAD": harness.LIB}, command=command) as server:
            check("libmemctx" in open(f"/proc/{server.process.pid}/maps", encoding="ascii").read(),
                  "the library is not loaded")
            expect_up(server, {FIRST: 1}, "at first")
            for _ in range(3):
                check_equal(up(server), {FIRST: 1}, "at another scrape")


@test
def a_process_that_renames_itself_stays():
    """A process that changes its name in the kernel keeps its labels and its teller."""
    with served(name=OWN_NAME) as target, Server(target.runtime, target.pid) as server:
        expect_up(server, {FIRST: 1}, "up")
        tellers = children(server.process.pid)
        for name in ("task-1", "task-2"):
            target.ask(f"rename {name}")
            check_equal(up(server), {FIRST: 1}, f"as {name}")
        check_equal(children(server.process.pid), tellers, "its tellers")


@test
def a_process_without_a_socket_is_read_from_outside():
    program = harness.build_program("tests/serve/served.c", flags=["-O0"])
    with runtime_dir() as runtime, named(program, OWN_NAME) as path, \
            harness.Target([path], runtime, MEMCTX_CONTROL="off") as target:
        check_equal(target.hear(), "ready", "first line of the target")
        with Server(runtime, target.pid) as server:
            expect_up(server, {FIRST: 1}, "up")
            metrics = server.metrics()
            own = {"program": OWN_NAME, "process": "1"}
            check_equal(metrics.one("memctx_context_requested_bytes", kind="named", context="cache",
                                    **own), 70000, "cache")

            def rows():
                paths = server.metrics().all("memctx_context_requested_bytes", kind="path", **own)
                return [value for labels, value in paths.items()
                        if "keep_rows" in dict(labels)["context"]]
            # The first scrape may be too early for names of call paths.
            check_equal(sum(wait_until(rows, "a path of keep_rows", step_s=0.2)), 100000, "rows")
            with server.raw() as raw:
                request = f"GET /p/{target.pid}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
                raw.sendall(request.encode())
                seen = b""
                while b"event: figures" not in seen:
                    part = raw.recv(65536)
                    check(part and b"event: silent" not in part, f"{seen + part}")
                    seen += part


@test
def a_process_without_its_first_thread_is_served():
    with runtime_dir() as runtime, named(harness.build_program("tests/control/last_thread.c"),
                                         OWN_NAME) as program, \
            harness.Target([program, "wait"], runtime, MEMCTX_CONTROL="eager") as target:
        wait_until(lambda: harness.read_status(target.pid, "State").startswith("Z"),
                   "the end of its first thread")
        with Server(runtime, "--match", OWN_NAME) as server:
            expect_up(server, {FIRST: 1}, "up")
            check(server.metrics().one("memctx_resident_bytes", program=OWN_NAME, process="1") > 0,
                  "its resident set")


@test
def a_pid_that_ends_leaves_the_server():
    with served(name=OWN_NAME) as target, Server(target.runtime, target.pid) as server:
        expect_up(server, {FIRST: 1}, "up")
        target.kill()
        expect_up(server, {}, "after the end")
        check(b"no such process" in server.get("/doctor", status=404), "no reason")
        check(b"</html>" in server.get("/"), "no page")


def read_until(connection, text, count):
    """Reads from a connection until the text has come that many times."""
    got = b""
    while got.count(text) < count:
        part = connection.recv(65536)
        check(part, f"the connection ended after {got}")
        got += part
    return got


@test
def the_page_comes_before_the_verdicts():
    """A process that never answers leaves its own verdict open, and nothing else of the page."""
    with runtime_dir() as runtime, served(runtime, OWN_NAME), fake("answer-stalled", runtime):
        with Server(runtime, "--match", OWN_NAME + "*") as server, server.raw() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            page = read_until(connection, b"live</a>", 2)
            check(page.startswith(b"HTTP/1.1 200 "), page)
            check(b'class="v"' not in page, f"the page came with a verdict: {page}")
            page += read_until(connection, b'class="v"', 1)
            check(b"resident" in page and b"</html>" not in page,
                  f"the process that answers waits for the other one: {page}")
            with server.raw() as second:  # a client that comes later reads from the beginning
                second.sendall(b"GET / HTTP/1.0\r\n\r\n")
                other = b"".join(iter(lambda: second.recv(65536), b""))
            page += b"".join(iter(lambda: connection.recv(65536), b""))
            for each in (page, other):
                check_equal((each.count(b'class="v"'), each.count(b"</html>")), (2, 1),
                            f"verdicts and ends of {each}")


@test
def a_page_without_readers_ends():
    with runtime_dir() as runtime, fake("answer-stalled", runtime):
        with Server(runtime, "--match", OWN_NAME + "*") as server:
            for _ in range(2):
                with server.raw() as connection:
                    connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    check(connection.recv(99).startswith(b"HTTP/1.1 200 "), "HEAD")
                wait_until(lambda: not children(server.process.pid), "the end of doctor")
            with server.raw() as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                connection.recv(1)
                check_equal(server.end(), (0, ""), "end while a page is made")


@test
def a_pid_that_is_used_again_is_not_served():
    last_pid = "/proc/sys/kernel/ns_last_pid"
    if not os.access(last_pid, os.W_OK):
        raise Skip("this user cannot choose the next pid")
    with runtime_dir() as runtime, served(runtime, OWN_NAME) as target, \
         Server(runtime, target.pid) as server:
        expect_up(server, {FIRST: 1}, "up")
        target.kill()
        for _ in range(50):  # several tries, because another process may get the pid
            with open(last_pid, "w", encoding="ascii") as file:
                file.write(str(target.pid - 1))
            with served(runtime, OWN_NAME) as another:
                if another.pid == target.pid:
                    expect_up(server, {}, "with another process of this pid")
                    return
        raise Skip("the pid was never free")


@test
def a_stopped_process_is_down_and_others_are_told():
    with runtime_dir() as runtime, served(runtime, OWN_NAME) as first, \
         served(runtime, OWN_NAME) as second:
        with Server(runtime, "--match", OWN_NAME) as server:
            expect_up(server, {FIRST: 1, SECOND: 1}, "up")
            os.kill(max(first.pid, second.pid), signal.SIGSTOP)
            wait_until(lambda: harness.read_status(max(first.pid, second.pid), "State")[0] == "T",
                       "the stop")
            began = time.monotonic()
            expect_up(server, {FIRST: 1, SECOND: 0}, "with a stopped one")
            check(time.monotonic() - began < PATIENCE_S, "it took too long")
            # A stopped process cannot answer, but its memory can be read from outside.
            doctor = json.loads(server.get(f"/doctor?target={OWN_NAME}&process=2"))
            check_equal(doctor["pid"], max(first.pid, second.pid),
                        "what doctor tells of the stopped one")
            check("from outside" in doctor["how"], f"how it was read: {doctor['how']}")
            check_equal(json.loads(server.get(f"/doctor?target={OWN_NAME}&process=1"))["how"], None,
                        "how the other one was read")
            os.kill(max(first.pid, second.pid), signal.SIGCONT)
            expect_up(server, {FIRST: 1, SECOND: 1}, "after it went on")


@test
def pids_that_cannot_be_asked_at_the_start():
    """Of several TARGETs some are stopped or have ended when the command starts: it tells which,
    and serves the others. A stopped one is down until it goes on."""
    with runtime_dir() as runtime, served(runtime, OWN_NAME) as first, \
         served(runtime, OWN_NAME) as second:
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        stopped = max(first.pid, second.pid)
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: harness.read_status(stopped, "State")[0] == "T", "the stop")
        words = [str(pid) for pid in (stopped, ended.pid, min(first.pid, second.pid))]
        with Server(runtime, *words) as server:
            first_number = up(server)
            check_equal(sorted(first_number.values()), [0, 1], "one runs, one is stopped")
            os.kill(stopped, signal.SIGCONT)
            expect_up(server, {FIRST: 1, SECOND: 1}, "after it went on")
            code, errors = server.end()
        check_equal(code, 0, "status")
        for part in (f"pid {stopped} ({OWN_NAME}) is stopped", f"no process has pid {ended.pid}",
                     "2 of 3 TARGETs cannot be asked now; serve goes on with the others"):
            check(part in errors, f"{part!r} is missing in {errors!r}")
        done = run_cli("serve", "--listen", "127.0.0.1:0", ended.pid, 999999999,
                       env=harness.clean_env(XDG_RUNTIME_DIR=runtime), timeout_s=PATIENCE_S)
        check_equal((done.returncode, done.stderr.count("no process has pid")), (3, 2),
                    f"if there is none: {done.stderr}")


@test
def a_process_that_stalls_is_down_in_bounded_time():
    with runtime_dir() as runtime, served(runtime, OWN_NAME), fake("answer-stalled", runtime):
        with Server(runtime, OWN_NAME, f"{OWN_NAME}-badly") as server:
            began = time.monotonic()
            expect_up(server, {FIRST: 1, BADLY: 0}, "up")
            check(time.monotonic() - began < PATIENCE_S,
                  f"it took {time.monotonic() - began:.1f} s")
            # The process answers no second client, so its memory is read.
            profile = server.get(f"/debug/pprof/allocs?target={OWN_NAME}-badly&seconds=1")
            check(profile[:2] == b"\x1f\x8b", f"no profile: {profile[:99]}")


@test
@in_tries
def a_long_search_for_processes_takes_no_time_from_their_answers():
    shim = harness.build_program("tests/serve/slow_proc.c", "slow_proc.so",
                                 flags=["-shared", "-fPIC"])
    with served(name=OWN_NAME) as target, \
            Server(target.runtime, "--match", OWN_NAME, environment={"LD_PRELOAD": shim}) as server:
        check_equal(up(server), {FIRST: 1}, "up at the first scrape")


@test
def processes_that_lie_do_no_harm():
    faults = ["garbage", "version", "hello-half", "answer-short", "answer-huge", "piece-short",
              "piece-count",
              "record-large", "record-odd", "label-open", "pages-count", "pages-shares", "extreme",
              "no-contexts",
              "close", "refuse", "no-memory", "exe-open"]
    with runtime_dir() as runtime, served(runtime, OWN_NAME) as target:
        with Server(runtime, "--match", OWN_NAME + "*") as server:
            for fault in faults:
                with fake(fault, runtime):
                    wait_until(lambda: (found := up(server)).get(FIRST) == 1 and BADLY in found,
                               f"{fault}: both are told")
            expect_up(server, {FIRST: 1}, "in the end")
            target.ask("churn 1")
            code, errors = server.end()
            check_equal((code, errors), (0, ""), "end")


@test
def targets_that_are_not_there():
    with runtime_dir() as runtime:
        env = harness.clean_env(XDG_RUNTIME_DIR=runtime)
        for words, code, message in ((["999999999"], 3, "no process has pid"),
                                     (["nobody-has-this-name"], 3, "is no process with"),
                                     ([str(os.getpid())], 3, "runs without libmemctx.so"),
                                     (["/etc/passwd"], 1, "needs a running process"),
                                     ([], 2, "serve needs either TARGETs, or --all"),
                                     (["--all", "x"], 2, "--all takes no TARGET; got x")):
            done = run_cli("serve", "--listen", "127.0.0.1:0", *words, env=env,
                           timeout_s=PATIENCE_S)
            check(done.returncode == code and message in done.stderr,
                  f"{words}: {done.returncode} {done.stderr}")


@test
def a_program_whose_name_has_a_space():
    """A program with spaces in its path has its whole name in metrics, addresses and options. A
    program that is started by a symbolic link has the name of the link."""
    program = harness.build_program("tests/serve/served.c", flags=["-O0"])
    with runtime_dir() as runtime, tempfile.TemporaryDirectory(prefix="mctx a-",
                                                               dir="/tmp") as where:
        copy = shutil.copy(program, os.path.join(where, "my served"))
        with harness.Target([copy], runtime, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "first line of the target")
            target.wait_socket()
            with Server(runtime, "--match", "my ser*") as server:
                check_equal(up(server), {"my served1": 1}, "up")
                check_equal(json.loads(server.get("/doctor?target=my%20served"))["pid"], target.pid,
                            "doctor")
                check_equal(json.loads(server.get("/p/my%20served/history.json"))["program"],
                            "my served", "history")
            env = harness.clean_env(XDG_RUNTIME_DIR=runtime)
            check_equal(json.loads(run_cli("dump", "my served", "--json",
                                           env=env).stdout)["program"], "my served", "dump")
        for name in ("a link", "a link of more than 15 bytes"):
            os.symlink(program, link := os.path.join(where, name))
            with harness.Target([link], runtime, MEMCTX_CONTROL="eager") as target:
                check_equal(target.hear(), "ready", "first line of the link's target")
                target.wait_socket()
                check_equal(json.loads(run_cli("dump", target.pid, "--json",
                                               env=env).stdout)["program"], name, "by a link")
