# SPDX-License-Identifier: MIT
"""Tests that take many seconds (only make torture runs them): scrapes by Prometheus, waits of
push."""
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

import harness
from harness import Skip, check, check_equal, test
from agents import Agent, file_of
from pushes import ended, running, sink
from serving import Server, free_port, served


@test
def prometheus_scrapes_and_answers():
    prometheus = shutil.which("prometheus")
    if not prometheus:
        raise Skip("prometheus is not installed")
    with served() as target, tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        token = os.path.join(where, "token")
        with open(token, "w", encoding="ascii", opener=lambda path,
                  flags: os.open(path, flags, 0o600)) as file:
            file.write("0123456789abcdef0123456789abcdef\n")
        with Server(target.runtime, target.pid, "--token-file", token) as server:
            with open(os.path.join(where, "config.yml"), "w", encoding="ascii") as file:
                file.write("scrape_configs:\n- job_name: memctx\n  scrape_interval: 300ms\n  "
                           "scrape_timeout: 300ms\n"
                           f"  authorization: {{credentials_file: {token}}}\n"
                           f"  static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]\n")
            port = free_port()
            with open(os.path.join(where, "log"), "wb") as log, subprocess.Popen(
                    [prometheus, f"--config.file={where}/config.yml",
                     f"--storage.tsdb.path={where}/data",
                     f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log) as process:
                try:
                    series = harness.wait_until(
                        lambda: query(port, 'memctx_context_requested_bytes{context="cache"}'),
                        "a scrape", step_s=0.1)
                finally:
                    process.kill()
        metric, (_, value) = series[0]["metric"], series[0]["value"]
        check_equal(value, "70000", "bytes of cache")
        check_equal((metric["program"], metric["process"], metric["kind"]),
                    ("served", "1", "named"), "labels")


def query(port, expression):
    try:
        words = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{words}",
                                    timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return None


@test
def push_tells_a_failure_once_and_ends_with_its_pids():
    """push prints a server's failure once, and ends some tries after the process that it pushes
    for."""
    with served() as target, sink((503, b"full", {})) as (url, got):
        with running(target, target.pid, "--pyroscope", url, "--every", "5s") as process:
            harness.wait_until(lambda: len(got) == 2, "a second request")
            target.kill()
            out, errors = process.communicate(timeout=60)
            check_equal(process.returncode, 0, "end after the end of the process")
            check(errors.count("status 503: full; trying again") == 1 and
                  errors.count("not sent; ") == 1, errors)
            check(out.startswith("sent 0, retried "), out)


@test
def a_part_that_does_not_end_is_killed():
    """The agent kills a part that does not end within ten seconds after SIGTERM, and then ends
    itself."""
    with served() as target, file_of(f'[agent]\nmatch = "no-such-{os.getpid()}"\n[serve]\nlisten = '
                                     '"127.0.0.1:0"\n') as path, \
            Agent(path, target.runtime) as agent:
        pid = agent.hear("started", "serve")["pid"]
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        agent.process.terminate()
        agent.hear("killed")
        check("was ended by signal 9" in agent.hear("ended", "serve")["text"], "how it ended")
        check_equal(agent.process.wait(timeout=60), 0, "exit code")
        check(9 < time.monotonic() - began < 60, "the time")


@test
def a_slow_client_has_one_minute_for_request_and_answer():
    """A client that sends the head of a request within 40 s, and then its body as slowly, loses its
    connection after a minute in all, not a minute after the head. The body is ignored, but has to
    come. A request that waits for a profile does not lose its connection."""
    body = 1000
    head = (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + 20 * b"x" +
            b"\r\nContent-Length: %d\r\n\r\n" % body)
    with served() as target, Server(target.runtime, target.pid) as server:
        server.get("/metrics")
        with server.raw() as slow, server.raw(timeout_s=120) as profile:
            began = time.monotonic()
            profile.sendall(b"GET /debug/pprof/allocs?seconds=60 HTTP/1.1\r\nHost: localhost\r\n"
                            b"Connection: close\r\n\r\n")
            parts = [head[:-40], *(head[at:at + 2] for at in range(len(head) - 40, len(head), 2))]
            check_equal(b"".join(parts), head, "the parts of the head")
            for one in parts + body * [b"y"]:
                try:
                    slow.sendall(one)
                except ConnectionError:
                    break
                if select.select([slow], [], [], 2)[0]:
                    break
            took = time.monotonic() - began
            check(55 < took < 75, f"the connection was closed after {took:.1f} s")
            check_equal(profile.recv(12), b"HTTP/1.1 200", "the profile")
        return f"closed after {took:.1f} s"


@test
def push_ends_five_seconds_after_a_signal():
    with served() as target, sink(slow_s=60) as (url, got), running(target, target.pid,
                                                                    "--pyroscope", url) as process:
        harness.wait_until(lambda: got, "the request")
        began = time.monotonic()
        check_equal(ended(process)[0], 0, "end")
        check(4.9 < time.monotonic() - began < 7, f"it took {time.monotonic() - began:.1f} s")
