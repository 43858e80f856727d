# SPDX-License-Identifier: MIT
"""Profiles of push, export and serve, read by two programs that are built from Go modules: the
OpenTelemetry collector and google/pprof. Building them takes minutes, so only make torture runs
these tests."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import ROOT, Skip, check, check_equal, run_cli, test
from serving import Server, free_port, served

FOLDER = os.path.join(ROOT, "out/test/engines")
PPROF = "github.com/google/pprof@v0.0.0-20261105003125-4bf881d7fb0b"
# Makes the collector from the parts that COLLECTOR lists.
BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.165.0"
COLLECTOR = f"""dist: {{name: collector, output_path: {FOLDER}/collector}}
conf_resolver: {{default_uri_scheme: file}}
receivers:
- gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v0.165.0
exporters:
- gomod: go.opentelemetry.io/collector/exporter/debugexporter v0.165.0
providers:
- gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.71.0
"""
PIPELINE = """receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:PORT"}}}}
exporters: {debug: {verbosity: detailed}}
service: {pipelines: {profiles: {receivers: [otlp], exporters: [debug]}}}
"""


def built(name, *commands):
    """Returns the path of a program in FOLDER. Unless it is there, runs the commands that make
    it."""
    path = os.path.join(FOLDER, name)
    go = shutil.which("go")
    if not go and not os.path.exists(path):
        raise Skip("go is not installed")
    harness.allow_more_time(3)
    for words in commands:
        if os.path.exists(path):
            break
        done = subprocess.run([go if word == "go" else word for word in words],
                              capture_output=True, text=True, timeout=900, check=False,
                              env={**os.environ, "GOBIN": FOLDER})
        if done.returncode:
            raise Skip(f"{name} cannot be built: {done.stderr[-300:]}")
    return path


@contextlib.contextmanager
def collector(where):
    """Runs the collector; yields its URL and the path of its log."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "builder.yaml"), "w", encoding="ascii") as file:
        file.write(COLLECTOR)
    program = built("collector/collector", ["go", "install", BUILDER],
                    [os.path.join(FOLDER, "builder"), "--config", file.name])
    port = free_port()
    path, log = os.path.join(where, "config.yaml"), os.path.join(where, "log")
    with open(path, "w", encoding="ascii") as file:
        file.write(PIPELINE.replace("PORT", str(port)))
    with open(log, "wb") as out, subprocess.Popen(
            [program, "--config", path, "--feature-gates=+service.profilesSupport"], stdout=out,
            stderr=out) as process:
        try:
            harness.wait_until(lambda: "Everything is ready" in text_of(log), "the collector")
            yield f"http://127.0.0.1:{port}", log
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


@test
def the_collector_of_opentelemetry_takes_profiles():
    """The collector prints a pushed request with its nine profiles, and their sums are those of a
    dump."""
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where, \
            collector(where) as (url, log), served() as target:
        done = run_cli("push", target.pid, "--otlp", url, "--once", "--label", "zone=eu",
                       env=target.cli_env)
        check_equal((done.returncode, done.stdout),
                    (0, "sent 1, retried 0, dropped 0, failed 0\n"), f"push ({done.stderr})")
        totals = target.dump()["totals"]
        text = harness.wait_until(lambda: (lambda got: got if "Profile #8" in got else None)(
            text_of(log)), "nine profiles")
    for attribute in ("service.name: Str(served)", "zone: Str(eu)"):
        check(f"-> {attribute}" in text, f"{attribute} is missing")
    sums = [sum(int(value) for values in re.findall(r"Values: \[(.*)\]", part)
                for value in values.split())
            for part in re.split(r"\n *Profile #\d", text)[1:]]
    check_equal(len(sums), 9, "profiles")
    for figure in ("requested_bytes", "live_chunks", "requested_cum_bytes", "allocs",
                   "reserved_bytes"):
        check(totals[figure] in sums, f"no profile has {totals[figure]} ({figure}): {sums}")


@test
def pprof_of_google_reads_profiles():
    """google/pprof shows each value, from a file and from the server, and the difference of two
    profiles."""
    os.makedirs(FOLDER, exist_ok=True)
    pprof = built("pprof", ["go", "install", PPROF])
    with served() as target, tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where, \
            Server(target.runtime, target.pid) as server:

        def top(*words):
            done = subprocess.run([pprof, "-top", "-nodefraction=0", "-unit=B", *words],
                                  capture_output=True, text=True, timeout=120, check=False,
                                  env={**os.environ, "PPROF_TMPDIR": where})
            check_equal(done.returncode, 0, f"pprof {words}: {done.stderr[-500:]}")
            return done.stdout

        path = os.path.join(where, "heap.pb.gz")
        done = run_cli("export", "--pprof", path, target.pid, env=target.cli_env)
        check_equal((done.returncode, done.stderr), (0, ""), "export")
        totals = target.dump()["totals"]
        for value, figure in (("inuse_space", "requested_bytes"), ("inuse_objects", "live_chunks"),
                              ("alloc_space", "requested_cum_bytes"), ("alloc_objects", "allocs"),
                              ("reserved", "reserved_bytes")):
            for source in (path, server.address + "debug/pprof/heap"):
                out = top(f"-sample_index={value}", source)
                check(re.search(rf"% of {totals[figure]}B total", out), f"{value}: {out}")
                check("keep_rows" in out, f"{value}: {out}")
        out = top("-diff_base", path, server.address + "debug/pprof/heap")
        check(re.search(r"^Showing nodes accounting for 0, ", out, re.M), out)
