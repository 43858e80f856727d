# SPDX-License-Identifier: MIT
"""memctx push: what servers get, servers that refuse or do not answer, the end."""
import contextlib
import http.server
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import harness
import pprof_file
from harness import Skip, check, check_equal, run_cli, runtime_dir, test, wait_until
from profiles_and_findings import of, valid
from serving import Metrics, served

TOKEN = "0123456789abcdef0123456789abcdef"


@contextlib.contextmanager
def sink(status=200, text=b"", slow_s=0):
    """A server that keeps all requests: (method, path, headers, body). `slow_s`: it answers that late."""
    got = []
    stop = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            got.append((self.command, self.path, self.headers, body))
            stop.wait(slow_s)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(text)

        do_POST = do_PUT = do_DELETE = do_GET = answer

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", got
        finally:
            stop.set()
            server.shutdown()
            thread.join()


def push(target, *words, timeout_s=60):
    return run_cli("push", *words, env=target.cli_env, timeout_s=timeout_s)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@test
def pyroscope_gets_profiles():
    with runtime_dir() as runtime, served(runtime) as first, served(runtime, name="odd{name}, x") as second:
        with tempfile.NamedTemporaryFile("w", prefix="mctx-", dir="/tmp") as token, sink() as (url, got):
            token.write(TOKEN + "\n")
            token.flush()
            before = int(time.time())
            done = push(first, first.pid, second.pid, "--once", "--to", url + "/some/path//", "--token-file", token.name)
            check_equal((done.returncode, done.stdout, done.stderr), (0, "sent 2, failed 0\n", ""), "push")
        check_equal(len(got), 2, "requests")
        names = []
        for method, path, headers, body in got:
            parts = urllib.parse.urlsplit(path)
            query = dict(urllib.parse.parse_qsl(parts.query, strict_parsing=True))
            check_equal((method, parts.path, query["format"]), ("POST", "/some/path/ingest", "pprof"), "request")
            check_equal(headers["Authorization"], "Bearer " + TOKEN, "token")
            check(before - 61 <= int(query["from"]) <= int(query["until"]) - 60 <= time.time(), f"times {query}")
            names.append(query["name"])
            profile = valid(body)
            check_equal(of(profile, "inuse_space", "keep_rows"), 100000, "bytes of keep_rows")
        host = re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname())
        check_equal(sorted(names), sorted([f"served{{process=1,host={host}}}", f"odd_name__{{process=1,host={host}}}"]),
                    "names")


@test
def a_profile_has_so_many_samples():
    with served() as target, sink() as (url, got):
        done = push(target, target.pid, "--once", "--to", url, "--limit-samples", 2)
        check_equal(done.returncode, 0, done.stderr)
        profile = valid(got[0][3])
        check(len(profile["sample"]) <= 2, f"{len(profile['sample'])} samples")
        check_equal(pprof_file.sums(profile)["inuse_space"], target.dump()["totals"]["requested_bytes"], "bytes")


@test
def a_pushgateway_gets_metrics():
    program = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")
    if not program:
        raise Skip("prometheus-pushgateway is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def metrics():
        with contextlib.suppress(OSError), urllib.request.urlopen(url + "/metrics", timeout=5) as answer:
            return answer.read().decode()
        return None

    with served() as target, subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{port}"],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as gateway:
        try:
            wait_until(metrics, "the Pushgateway")
            with subprocess.Popen([harness.CLI, "push", str(target.pid), "--as", "pushgateway", "--to", url],
                                  env=target.cli_env, stderr=subprocess.PIPE, text=True) as process:
                found = wait_until(lambda: re.search(r'memctx_context_requested_bytes\{.*context="cache".*\} (\S+)',
                                                     metrics() or ""), "the metrics")
                check_equal(float(found[1]), 70000, "bytes of cache")
                process.terminate()
                check_equal((process.wait(timeout=20), process.stderr.read()), (0, ""), "end")
            check("memctx_" not in metrics(), "the metrics are still there")
            done = push(target, target.pid, "--as", "pushgateway", "--to", url, "--once")
            check_equal((done.returncode, done.stdout), (0, "sent 1, failed 0\n"), f"push --once ({done.stderr})")
            check("memctx_up" in metrics(), "nothing was left by --once")
        finally:
            gateway.kill()


@test
def metrics_are_those_of_serve():
    with served() as target, sink() as (url, got):
        check_equal(push(target, target.pid, "--as", "pushgateway", "--to", url, "--once").returncode, 0, "push")
        method, path, headers, body = got[0]
        check_equal((method, path), ("PUT", f"/metrics/job/memctx/instance/{urllib.parse.quote(socket.gethostname(), safe='')}"),
                    "request")
        check_equal(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8", "type")
        metrics = Metrics(body.decode())
        check_equal(metrics.one("memctx_requested_bytes"), target.dump()["totals"]["requested_bytes"], "bytes")


@test
def servers_that_refuse_or_are_not_there():
    with served() as target:
        with sink(status=500, text=b"no \033[31mroom\nsecond line") as (url, _):
            done = push(target, target.pid, "--once", "--to", url)
            check_equal((done.returncode, done.stdout), (1, "sent 0, failed 1\n"), "push")
            check("the server refused it with status 500: no ?[31mroom\n" in done.stderr, repr(done.stderr))
        with sink(status=302) as (url, _):
            check("status 302" in push(target, target.pid, "--once", "--to", url).stderr, "a redirection was followed")
        done = push(target, target.pid, "--once", "--to", f"http://127.0.0.1:{free_port()}")
        check(done.returncode == 1 and "nothing was sent" in done.stderr, f"{done.returncode} {done.stderr}")
        for words, message in ((["--once"], "needs --to URL"), (["--to", "ftp://x"], "begins with http://"), (["--to", "http://"], "begins"),
                               (["--to", "http://x/?y"], "without a query"), (["--to", "http://x", "--as", "otlp"], "pyroscope or pushgateway"),
                               (["--to", "http://x", "--every", "1"], "--every takes a number"), (["--to", "http://x", "--all"], "either")):
            done = push(target, target.pid, *words)
            check(done.returncode == 2 and message in done.stderr, f"{words}: {done.returncode} {done.stderr}")
        check_equal(push(target, 999999999, "--to", "http://x").returncode, 3, "no such process")


@test
def a_server_that_does_not_answer_holds_no_end_up():
    with served() as target, sink(slow_s=60) as (url, got):
        with subprocess.Popen([harness.CLI, "push", str(target.pid), "--to", url], env=target.cli_env,
                              stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: got, "the request")
            began = time.monotonic()
            process.terminate()
            check_equal((process.wait(timeout=20), process.stderr.read()), (0, ""), "end")
            check(time.monotonic() - began < 3, "it waited for the server")
