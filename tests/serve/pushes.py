# SPDX-License-Identifier: MIT
"""memctx push: the content of its requests, the answers of collectors, its options."""
import base64
import contextlib
import gzip
import http.server
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import harness
import otlp_profile
import pprof_file
from clients import children
from harness import PATIENCE_S, Skip, check, check_equal, run_cli, runtime_dir, test, wait_until
from profiles_and_findings import of, valid
from serving import OWN_NAME, Metrics, free_port, ignore_hangup, named, served

TOKEN = "0123456789abcdef0123456789abcdef"


@contextlib.contextmanager
def sink(*answers, slow_s=0, tls=None):
    """A server that stores all requests as (method, path, headers, body, time). It sends the
    `answers` (status, text, headers) in order and repeats the last one. `slow_s`: delay of each
    answer. `tls`: the context of a server that speaks TLS."""
    answers = list(answers) or [(200, b"", {})]
    got = []
    stop = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            got.append((self.command, self.path, self.headers, body, time.monotonic()))
            stop.wait(slow_s)
            status, text, headers = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(text)

        do_POST = do_PUT = do_DELETE = do_GET = answer

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}", got
        finally:
            stop.set()
            server.shutdown()
            thread.join()


def push(target, *words, timeout_s=60):
    """Runs memctx push to its end."""
    return run_cli("push", *words, env=target.cli_env, timeout_s=timeout_s)


def running(target, *words, **extra):
    """Starts memctx push; returns the process."""
    return subprocess.Popen([harness.CLI, "push", *map(str, words)], env=target.cli_env,
                            stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **extra)


def ended(process, timeout_s=PATIENCE_S):
    """Sends SIGTERM to the command; returns (exit code, stdout, stderr)."""
    process.terminate()
    out, errors = process.communicate(timeout=timeout_s)
    return process.returncode, out, errors


@test
def pyroscope_gets_profiles():
    with runtime_dir() as runtime, served(runtime) as first, \
         served(runtime, name="odd{name}, x") as second:
        with tempfile.NamedTemporaryFile("w", prefix="mctx-",
                                         dir="/tmp") as token, sink() as (url, got):
            token.write(TOKEN + "\n")
            token.flush()
            before = int(time.time())
            done = push(first, first.pid, second.pid, "--once", "--pyroscope", url + "/some/path//",
                        "--label", "zone=a/b c", "--token-file", token.name)
            check_equal((done.returncode, done.stdout, done.stderr),
                        (0, "sent 2, retried 0, dropped 0, failed 0\n", ""), "push")
        check_equal(len(got), 2, "requests")
        names = []
        for method, path, headers, body, _ in got:
            parts = urllib.parse.urlsplit(path)
            query = dict(urllib.parse.parse_qsl(parts.query, strict_parsing=True))
            check_equal((method, parts.path, query["format"]),
                        ("POST", "/some/path/ingest", "pprof"), "request")
            check_equal(headers["Authorization"], "Bearer " + TOKEN, "token")
            check(before - 61 <= int(query["from"]) <= int(query["until"]) - 60 <= time.time(),
                  f"times {query}")
            names.append(query["name"])
            check_equal(headers["Content-Type"], "application/octet-stream", "type")
            profile = valid(body)
            check_equal(of(profile, "inuse_space", "keep_rows"), 100000, "bytes of keep_rows")
        host = re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname())
        check_equal(sorted(names), sorted([f"served{{process=1,host={host},zone=a/b c}}",
                                            f"odd_name___x{{process=1,host={host},zone=a/b c}}"]),
                    "names")


@test
def parca_gets_profiles():
    with served(name=OWN_NAME) as target, sink() as (url, got):
        done = push(target, OWN_NAME, "--once", "--parca", url + "/under", "--label", "job=night",
                    "--label",
                    'text="a,}\\ \u00e9', "--limit-samples", 2, "--json")
        check_equal((done.returncode, done.stderr), (0, ""), "push")
        (method, path, headers, body, _), = got
        check_equal((method, path, headers["Content-Type"]),
                    ("POST", "/under/api/profiles/writeraw", "application/json"),
                    "request")
        check_equal(int(headers["Content-Length"]), len(body), "length")
        request = json.loads(body)
        check_equal(list(request), ["series"], "keys")
        series, = request["series"]
        sample, = series["samples"]
        check_equal((list(series), list(series["labels"]), list(sample)),
                    (["labels", "samples"], ["labels"], ["rawProfile"]),
                    "keys")
        check_equal(series["labels"]["labels"],
                    [{"name": name, "value": value} for name, value in (
                        ("__name__", "memory"), ("program", OWN_NAME), ("process", "1"),
                        ("host", socket.gethostname()),
                        ("job", "night"), ("text", '"a,}\\ \u00e9'))], "labels")
        raw = base64.b64decode(sample["rawProfile"], validate=True)
        check_equal(base64.b64encode(raw).decode(), sample["rawProfile"], "base64")
        profile, totals = valid(raw), target.dump()["totals"]
        check(1 <= len(profile["sample"]) <= 2, f"{len(profile['sample'])} samples")
        check_equal(pprof_file.sums(profile)["inuse_space"], totals["requested_bytes"], "bytes")
        check_equal(pprof_file.sums(profile)["inuse_objects"], totals["live_chunks"], "chunks")
        # The last 4 bytes of a gzip file are the length of its content.
        check_equal(int.from_bytes(raw[-4:], "little"), len(gzip.decompress(raw)),
                    "end of the gzip file")
        sent, end = map(json.loads, done.stdout.splitlines())
        check_equal([sent[key] for key in ("schema", "event", "program", "process", "status",
                                           "bytes", "wait_ms", "text")],
                    ["memctx-push/1", "sent", OWN_NAME, 1, 200, len(body), None, None], "event")
        check_equal([end[key] for key in ("schema", "event", "sent", "retried", "dropped",
                                          "failed")],
                    ["memctx-push/1", "end", 1, 0, 0, 0], "last event")


def last_profile(got):
    """(profile, its uncompressed length) of the last request to Parca."""
    series, = json.loads(got[-1][3])["series"]
    raw = base64.b64decode(series["samples"][0]["rawProfile"], validate=True)
    return valid(raw), len(gzip.decompress(raw))


@test
def a_profile_that_is_too_large_is_reduced():
    """push reduces a large profile to 16 000 samples and 4 MiB before compression, without changing
    sums."""
    def sums(target):
        totals = target.dump()["totals"]
        return totals["requested_bytes"], totals["live_chunks"]

    def sent_sums(profile):
        found = pprof_file.sums(profile)
        return found["inuse_space"], found["inuse_objects"]

    with served() as target, sink() as (url, got):
        target.ask("names 17000")
        where = [target.pid, "--parca", url, "--once"]
        check_equal(push(target, *where).stdout, "sent 1, retried 0, dropped 0, failed 0\n", "push")
        profile, length = last_profile(got)
        check(15000 < len(profile["sample"]) <= 16000 and length < 4 << 20,
              f"{len(profile['sample'])} samples, {length} bytes")
        check_equal(sent_sums(profile), sums(target), "sums of 16000 samples")

        target.ask("names 80000")
        path = os.path.join(target.runtime, "whole.pb.gz")
        done = run_cli("export", target.pid, "--pprof", path, env=target.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        with open(path, "rb") as file:
            check(len(gzip.decompress(file.read())) > 4 << 20, "the profile is not too large")
        check_equal(push(target, *where, "--limit-samples", 97000).stdout,
                    "sent 1, retried 0, dropped 0, failed 0\n", "push")
        profile, length = last_profile(got)
        check(length <= 4 << 20 and len(profile["sample"]) <= 97000 // 2,
              f"{length} bytes, {len(profile['sample'])} samples")
        check_equal(sent_sums(profile), sums(target), "sums of 4 MiB")
        check_equal(len(got), 2, "requests")


@test
def a_collector_gets_profiles():
    with served() as target, sink() as (url, got):
        before = time.time_ns()
        done = push(target, target.pid, "--once", "--otlp", url + "/under/", "--label",
                    "deployment.environment.name=a b",
                    "--label", 'text="\u00e9=,', "--limit-samples", 100)
        after, dump = time.time_ns(), target.dump()
        check_equal((done.returncode, done.stdout, done.stderr),
                    (0, "sent 1, retried 0, dropped 0, failed 0\n", ""), "push")
        (method, path, headers, body, _), = got
        check_equal((method, path, headers["Content-Type"], headers["Content-Encoding"]),
                    ("POST", "/under/v1development/profiles", "application/x-protobuf", "gzip"),
                    "request")
        request, totals, host = (otlp_profile.Request(gzip.decompress(body)), dump["totals"],
                                 socket.gethostname())
        check_equal(request.attributes,
                    {"service.name": "served", "service.instance.id": f"{host}/served/1",
                     "host.name": host, "deployment.environment.name": "a b", "text": '"\u00e9=,'},
                    "attributes")
        for name, total in (("inuse_space", "requested_bytes"), ("inuse_objects", "live_chunks")):
            check_equal(request.sum(name), totals[total], name)
        check_equal(request.of("inuse_space", "keep_rows"), 100000, "bytes of keep_rows")
        stacks = [request.functions(index) for index in range(1, len(request.dictionary["stack"]))]
        check(any("keep_rows" in one and one.index("keep_rows") < one.index("main")
                  for one in stacks if "main" in one),
              f"{stacks}")
        # Profiles of live memory have no duration; those of allocations count from the program's
        # start.
        for name, profile in request.profiles.items():
            sums = name.startswith("alloc_")
            check(before <= profile["time"] + profile["duration"] <= after, f"time of {name}")
            check((profile["duration"] > 0) == sums, f"duration of {name}: {profile['duration']}")
        got.clear()
        done = push(target, target.pid, "--once", "--otlp", url, "--label", "service.name=shop",
                    "--limit-samples", 2)
        few = otlp_profile.Request(gzip.decompress(got[0][3]))
        check_equal((few.attributes["service.name"], few.sum("inuse_space")),
                    ("shop", totals["requested_bytes"]), "of two")
        check(all(len(one["samples"]) <= 2 for one in few.profiles.values()),
              "more than two samples")


@test
def export_writes_what_a_collector_gets():
    with served(name="shop-front") as target, tempfile.NamedTemporaryFile(prefix="mctx-",
                                                                          dir="/tmp") as file:
        done = run_cli("export", target.pid, "--otlp", file.name, "--attribute", "a=b=c",
                       env=target.cli_env)
        check_equal((done.returncode, done.stderr), (0, ""), "export")
        request = otlp_profile.Request(gzip.decompress(open(file.name, "rb").read()))
        check_equal(request.attributes, {"service.name": "shop-front", "a": "b=c"}, "attributes")
        check_equal(request.sum("inuse_space"), target.dump()["totals"]["requested_bytes"], "bytes")
        for words, message in ((["--attribute", "=x"], "NAME=VALUE"),
                               (["--attribute", "x"], "NAME=VALUE"),
                               ([word for i in range(33) for word in ("--attribute", f"x{i}=y")],
                                "at most 32")):
            done = run_cli("export", target.pid, "--otlp", "-", *words, env=target.cli_env)
            check(done.returncode == 2 and message in done.stderr, f"{words}: {done.stderr}")
        done = run_cli("export", target.pid, "--pprof", "-", "--attribute", "a=b",
                       env=target.cli_env)
        check(done.returncode == 2 and "--attribute needs --otlp" in done.stderr, done.stderr)


@test
def answers_of_a_collector():
    """push tries again only after status 429 and 502 to 504, and prints what an OTLP collector
    rejected."""
    protobuf = {"Content-Type": "application/x-protobuf"}
    # partial_success {rejected_profiles: 3, error_message: "full"}
    rejected = b"\x0a\x08\x08\x03\x12\x04full"
    for answers, code, counts, message in (
            ([(503, b"", {"Retry-After": "0"}), (200, b"", protobuf)], 0,
             "sent 1, retried 1, dropped 0, failed 0", "503; trying again"),
            ([(500, b"\x08\x0d\x12\x03bad", protobuf)], 1, "sent 0, retried 0, dropped 0, failed 1",
             "status 500: bad\n"),
            ([(404, b"no such page\n", {"Content-Type": "text/plain"})], 1,
             "sent 0, retried 0, dropped 0, failed 1",
             "status 404: no such page\n"),
            ([(200, rejected, protobuf)], 1, "sent 0, retried 0, dropped 0, failed 1",
             "rejected 3 of its profiles: full\n"),
            ([(200, b"\x0a\x06\x12\x04hint", protobuf)], 0,
             "sent 1, retried 0, dropped 0, failed 0", ""),
            # A body that cannot be decoded must not crash push; either result is right.
            ([(200, rejected[:5] + 40 * b"\xff", protobuf)], None, "sent", "")):
        with served() as target, sink(*answers) as (url, got):
            done = push(target, target.pid, "--once", "--otlp", url)
            check(code is None or done.returncode == code,
                  f"{answers}: exit code {done.returncode}")
            check(done.stdout.startswith(counts) and message in done.stderr,
                  f"{answers}: {done.stdout} {done.stderr}")


@test
def a_pushgateway_gets_metrics():
    program = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")
    if not program:
        raise Skip("prometheus-pushgateway is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def metrics():
        with contextlib.suppress(OSError), urllib.request.urlopen(url + "/metrics",
                                                                  timeout=5) as answer:
            return answer.read().decode()
        return None

    # Debian's Pushgateway reads the metrics of the last one from a file, unless it gets no file
    with served() as target, subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{port}",
                                               "--persistence.file="],
                                              stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL) as gateway:
        try:
            wait_until(metrics, "the Pushgateway")
            with running(target, target.pid, "--pushgateway", url, "--label", "dir=a/b", "--every",
                         "1h") as process:
                line = r'memctx_context_requested_bytes\{.*context="cache".*\} (\S+)'
                found = wait_until(lambda: re.search(line, metrics() or ""), "the metrics")
                check_equal(float(found[1]), 70000, "bytes of cache")
                check('dir="a/b"' in metrics(), "the label")
                check_equal(ended(process), (0, "sent 2, retried 0, dropped 0, failed 0\n", ""),
                            "end")
            check("memctx_" not in metrics(), "the metrics are still there")
            done = push(target, target.pid, "--pushgateway", url, "--once")
            check_equal((done.returncode, done.stdout),
                        (0, "sent 1, retried 0, dropped 0, failed 0\n"),
                        f"push --once ({done.stderr})")
            check("memctx_up" in metrics(), "nothing was left by --once")
        finally:
            gateway.kill()


@test
def metrics_are_those_of_serve():
    with served() as target, sink() as (url, got):
        done = push(target, target.pid, "--pushgateway", url, "--once", "--label", "a=x y?",
                    "--label", "b=..")
        check_equal(done.returncode, 0, done.stderr)
        (method, path, headers, body, _), = got
        host = urllib.parse.quote(socket.gethostname(), safe="")
        check_equal((method, path),
                    ("PUT", f"/metrics/job/memctx/instance/{host}/a/x%20y%3F/b@base64/Li4"),
                    "request")
        check_equal(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8", "type")
        metrics = Metrics(body.decode())
        check_equal(metrics.one("memctx_requested_bytes"),
                    target.dump()["totals"]["requested_bytes"], "bytes")


@test
def a_log_that_is_full_stops_nothing():
    """A limit of file size stands for a full disk: push sends on, and says that lines are lost."""
    with served() as target, sink() as (url, got), tempfile.TemporaryFile() as log:
        with subprocess.Popen([harness.CLI, "push", str(target.pid), "--parca", url, "--every",
                               "1s", "--json"], env=target.cli_env, stdout=log,
                              stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda:
                              resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))) as process:
            wait_until(lambda: len(got) >= 3 or process.poll() is not None, "three requests")
            process.terminate()
            errors = process.communicate(timeout=PATIENCE_S)[1]
        check_equal((process.returncode, os.fstat(log.fileno()).st_size), (1, 100),
                    f"status, and bytes of the log ({errors})")
        check(errors.startswith("memctx: the log cannot be written; File too large; "), errors)


@test
def without_shared_libraries_it_says_why():
    """serve and push say why their library cannot be loaded: here as in a static memctx."""
    alone = harness.build_program("tools/static/alone.c", "alone.so", ["-shared", "-fPIC"])
    with served() as target:
        for words in (("push", target.pid, "--parca", "http://127.0.0.1:1", "--once"),
                      ("serve", target.pid, "--listen", "127.0.0.1:0")):
            done = run_cli(*words, env={**target.cli_env, "LD_PRELOAD": alone})
            check_equal(done.returncode, 1, f"{words}: {done.stderr}")
            check("this memctx was linked by make static and loads no libraries" in done.stderr,
                  f"{words}: {done.stderr}")


@test
def words_that_are_refused():
    where = ["--pyroscope", "http://x"]
    with served() as target:
        for words, message in (
                (["--once"], "needs the server"),
                (["--parca", "ftp://x"], "--parca takes a URL that begins with http://"),
                (["--pyroscope", "http://"], "begins"),
                (["--pushgateway", "http://x/?y"], "without a query"),
                (["--parca", "http://x:y"], "the URL http://x:y cannot be used"),
                ([*where, "--parca", "http://x"], "takes one of"),
                ([*where, "--every", "1ms"], "from 100ms to 24h"),
                ([*where, "--every", "x"], "from 100ms to 24h"),
                ([*where, "--all"], "--all takes no TARGET"), ([*where, "--to", "x"], "--to"),
                ([*where, "--label", "a"], "takes NAME=VALUE"),
                ([*where, "--label", "1a=b"], "does not begin with a digit"),
                ([*where, "--label", "a-b=c"], "letters, digits"),
                ([*where, "--label", "__name__=x"], "belong to the server"),
                ([*where, "--label", "program=x"], "another name"),
                ([*where, "--label", "a=b", "--label", "a=c"], "given before"),
                ([*where, "--label", "a="], "at least one"),
                ([*where, "--label", "a=b,c=d"], "no value with"),
                ([*where, "--label", "a=\n"], "control characters"),
                ([*where, "--label", "a=" + 2049 * "x"], "at most 2048"),
                ([*where, *(word for i in range(17) for word in ("--label", f"a{i}=x"))],
                 "at most 16"),
                ([*where, "--label", "a.b=c"], "for OTLP also"),
                (["--otlp", "http://x", "--label", "host.name=x"], "another name"),
                (["--pushgateway", "http://x", "--label", "job=x"], "another name")):
            done = push(target, target.pid, *words)
            check(done.returncode == 2 and message in done.stderr,
                  f"{words}: {done.returncode} {done.stderr}")
        check_equal(push(target, 999999999, *where).returncode, 3, "no such process")


def has_library(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as file:
        return "libmemctx.so" in file.read()


@test
def more_processes_than_one_command_takes_are_told():
    """Of 203 processes the command takes 200. A message and a metric tell how many are left out."""
    name = f"{OWN_NAME}-many"
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(runtime_dir())
        program = stack.enter_context(named(
            harness.build_program("tests/serve/served.c", flags=["-O0"]), name))
        processes = []
        for _ in range(203):
            process = stack.enter_context(subprocess.Popen(
                [program], env=harness.preloaded_env(XDG_RUNTIME_DIR=runtime),
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
            stack.callback(process.kill)
            processes.append(process)
        wait_until(lambda: all(has_library(process.pid) for process in processes), "their start")
        url, got = stack.enter_context(sink())
        done = run_cli("push", "--match", name, "--pushgateway", url, "--once",
                       env=harness.clean_env(XDG_RUNTIME_DIR=runtime), timeout_s=PATIENCE_S)
    check_equal((done.returncode, len(got)), (0, 1), f"the push: {done.stderr}")
    metrics = Metrics(got[0][3].decode())
    check_equal((metrics.one("memctx_serve_processes"), metrics.one("memctx_serve_processes_cut")),
                (200, 3), "processes that are served, and that are not")
    check_equal(done.stderr, "memctx: one command takes at most 200 processes, but 203 fit; the "
                "rest is left out; start a second command, and choose different processes for both "
                "with --match\n", "message")


@test
def a_process_that_ends_during_the_round_is_no_failure():
    """push asks two processes one after the other; the second ends while push asks the first."""
    with runtime_dir() as runtime, served(runtime, OWN_NAME) as first, \
            served(runtime, OWN_NAME) as second, sink() as (url, got), \
            running(first, OWN_NAME, "--once", "--parca", url) as process:
        wait_until(lambda: children(process.pid) or process.poll() is not None,
                   "the profile of the first one", step_s=0.001)
        process.send_signal(signal.SIGSTOP)
        max(first, second, key=lambda one: one.pid).kill()
        process.send_signal(signal.SIGCONT)
        out, errors = process.communicate(timeout=PATIENCE_S)
        check_equal((process.returncode, out, errors),
                    (0, "sent 1, retried 0, dropped 0, failed 0\n", ""), "push")


# Executes a program as the first process of a pid namespace, with a second process that nobody
# waits for. When the first one ends, the kernel holds it, without memory, until somebody does.
HELD_AT_THE_END = """
import ctypes, os, signal, sys
if ctypes.CDLL(None).unshare(0x20000000) != 0:  # CLONE_NEWPID
    print("refused", flush=True)
elif os.fork() == 0:
    os.execv(sys.argv[1], sys.argv[1:])
else:
    os.fork()
signal.pause()
"""


@test
def a_process_that_is_ending_is_no_failure():
    """As above, but the kernel still holds the second process when push wants to ask it: it has no
    memory any more, and its state is not that of an ended process."""
    with runtime_dir() as runtime, served(runtime, OWN_NAME) as first, sink() as (url, got), \
            named(harness.build_program("tests/serve/served.c", flags=["-O0"]), OWN_NAME) as path, \
            harness.Target([sys.executable, "-c", HELD_AT_THE_END, path], runtime) as holder:
        if holder.hear() != "ready":
            raise Skip("this user may not make a pid namespace")
        wait_until(lambda: len(children(holder.pid)) == 2, "both processes")
        second, other = sorted(map(int, children(holder.pid)))
        with contextlib.ExitStack() as stack:
            stack.callback(os.kill, other, signal.SIGKILL)
            if first.pid > second:
                raise Skip("the kernel gives low pids again, and push asks by rising pids")
            process = stack.enter_context(running(first, OWN_NAME, "--once", "--parca", url))
            stack.callback(process.kill)
            wait_until(lambda: children(process.pid) or process.poll() is not None,
                       "the profile of the first one", step_s=0.001)
            process.send_signal(signal.SIGSTOP)
            os.kill(second, signal.SIGKILL)
            wait_until(lambda: not has_memory(second), "the end of its memory")
            process.send_signal(signal.SIGCONT)
            out, errors = process.communicate(timeout=PATIENCE_S)
    check_equal((process.returncode, out, errors),
                (0, "sent 1, retried 0, dropped 0, failed 0\n", ""), "push")
    check_equal(len(got), 1, "requests")


def has_memory(pid):
    with open(f"/proc/{pid}/maps", "rb") as file:
        return file.read(1) != b""


@test
def a_push_under_nohup_goes_on():
    with served() as target, sink() as (url, got), \
            running(target, target.pid, "--parca", url, "--every", "100ms",
                    preexec_fn=ignore_hangup) as process:
        wait_until(lambda: got, "the first profile")
        process.send_signal(signal.SIGHUP)
        before = len(got)
        wait_until(lambda: len(got) > before + 2 or process.poll() is not None,
                   "profiles after SIGHUP")
        code, out, errors = ended(process)
        check((code, errors) == (0, "") and out.endswith("failed 0\n") and len(got) > before + 2,
              f"{code} {out} {errors}")
