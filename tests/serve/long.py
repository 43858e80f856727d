# SPDX-License-Identifier: MIT
"""Tests that take many seconds (only make torture runs them): scrapes by Prometheus, waits of
push."""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import harness
from harness import ROOT, Skip, check, check_equal, test
from agents import Agent, file_of
from pushes import ended, running, sink
from serving import Server, free_port, served


@contextlib.contextmanager
def prometheus(where, config):
    """Runs a Prometheus with its files in the folder `where`; gives its port."""
    program = shutil.which("prometheus")
    if not program:
        raise Skip("prometheus is not installed")
    with open(os.path.join(where, "config.yml"), "w", encoding="ascii") as file:
        file.write(config)
    port = free_port()
    with open(os.path.join(where, "log"), "wb") as log, subprocess.Popen(
            [program, f"--config.file={where}/config.yml", f"--storage.tsdb.path={where}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log) as process:
        try:
            yield port
        finally:
            process.kill()


@test
def prometheus_scrapes_and_answers():
    with served() as target, tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        token = os.path.join(where, "token")
        with open(token, "w", encoding="ascii", opener=lambda path,
                  flags: os.open(path, flags, 0o600)) as file:
            file.write("0123456789abcdef0123456789abcdef\n")
        with Server(target.runtime, target.pid, "--token-file", token) as server:
            config = ("scrape_configs:\n- job_name: memctx\n  scrape_interval: 300ms\n  "
                      "scrape_timeout: 300ms\n"
                      f"  authorization: {{credentials_file: {token}}}\n"
                      f"  static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]\n")
            with prometheus(where, config) as port:
                series = harness.wait_until(
                    lambda: query(port, 'memctx_context_requested_bytes{context="cache"}'),
                    "a scrape", step_s=0.1)
        metric, (_, value) = series[0]["metric"], series[0]["value"]
        check_equal(value, "70000", "bytes of cache")
        check_equal((metric["program"], metric["process"], metric["kind"]),
                    ("served", "1", "named"), "labels")


def shortened(text):
    """The alerts with times that are a ninetieth (40 s instead of an hour), and with 1 MB as the
    threshold of bytes."""
    def seconds(found):
        return f"{int(found[1]) * {'h': 3600, 'm': 60}[found[2]] // 90}s"

    text = re.sub(r"\b(\d+)([hm])\b", seconds, text).replace("4 * 3600", "160")
    return re.sub(r"\b(50|100|256)e6\b", "1e6", text)


@test
def alerts_fire_in_prometheus():
    """A real Prometheus fires the alerts on growth and on waste, with the context's name in the
    label, and no other."""
    program = harness.build_program("tests/serve/alerting.c")
    with harness.runtime_dir() as runtime, \
            tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where, \
            harness.Target([program], runtime, MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "ready", "first line of the target")
        target.wait_socket()
        with Server(runtime, target.pid) as server:
            with open(f"{ROOT}/examples/prometheus/memctx-alerts.yml", encoding="utf-8") as file:
                rules = shortened(file.read())
            with open(os.path.join(where, "alerts.yml"), "w", encoding="utf-8") as file:
                file.write(rules)
            config = ("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                      "rule_files: [alerts.yml]\nscrape_configs:\n- job_name: memctx\n  "
                      f"static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]\n")
            with prometheus(where, config) as port:
                def firing():
                    found = query(port, 'ALERTS{alertstate="firing"}') or []
                    return {(one["metric"]["alertname"],
                             one["metric"].get("context", "").split(" ")[0]) for one in found}

                want = {("MemctxContextGrows", "leak_sessions"),
                        ("MemctxWaste", "leak_sessions"), ("MemctxProcessGrows", "")}
                harness.wait_until(lambda: want <= firing(), f"the alerts {want}", step_s=1,
                                   timeout_s=300)
                check_equal(firing(), want, "alerts that fire")


def query(port, expression):
    """The result of a PromQL expression; None if Prometheus does not answer."""
    try:
        words = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{words}",
                                    timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return None


VALIDATOR = "kubernetes-validate==1.37.0"


def kubernetes_validator():
    """Returns the command kubernetes-validate, installed from PyPI into a virtual environment."""
    environment = os.path.join(ROOT, "out/test/kubernetes")
    command = os.path.join(environment, "bin/kubernetes-validate")
    for words in ([sys.executable, "-m", "venv", environment],
                  [os.path.join(environment, "bin/pip"), "install", "-q", VALIDATOR]):
        if os.path.exists(command):
            break
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise Skip(f"{VALIDATOR} cannot be had: {(done.stderr or done.stdout)[-200:]}")
    return command


@test
def the_manifests_fit_the_schemas_of_kubernetes():
    command = kubernetes_validator()
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        for name in ("app.yaml", "agent.yaml"):
            with open(f"{ROOT}/examples/kubernetes/{name}", encoding="utf-8") as file:
                text = file.read()
            # A key that does not exist shows that the validator looks inside the pod.
            for written, code in ((text, 0), (text.replace("containers:", "container:"), 1)):
                path = os.path.join(where, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(written)
                done = subprocess.run([command, "--strict", "-k", "1.37", path],
                                      capture_output=True, text=True, timeout=120, check=False)
                check_equal(done.returncode, code, f"{name}: {done.stdout} {done.stderr}")


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
