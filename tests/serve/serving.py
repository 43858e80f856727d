# SPDX-License-Identifier: MIT
"""What the files of the serve suite share: targets, memctx serve, requests, a strict reader of
metrics."""
import contextlib
import http.client
import os
import random
import re
import select
import signal
import socket
import subprocess
import tempfile

import harness
from harness import CLI, PATIENCE_S, Failure, Target, build_program, check, check_equal, runtime_dir

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

# A name for targets that a test chooses by name, with this run's pid, so that two runs do not
# interfere.
OWN_NAME = f"served-{os.getpid()}"


@contextlib.contextmanager
def named(program, name):
    """Yields a path to the program under another name."""
    if not name:
        yield program
        return
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        os.symlink(program, os.path.join(where, name))
        yield os.path.join(where, name)


@contextlib.contextmanager
def served(runtime=None, name=None, **extra):
    """Starts the program served.c, under another name if given, and waits until it prints
    "ready"."""
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(named(build_program("tests/serve/served.c", flags=["-O0"]),
                                            name))
        runtime = runtime or stack.enter_context(runtime_dir())
        live = stack.enter_context(Target([program], runtime, MEMCTX_CONTROL="eager", **extra))
        check_equal(live.hear(), "ready", "first line of the target")
        live.wait_socket()
        yield live


@contextlib.contextmanager
def fake(fault, runtime):
    """Starts a faulty server of the control socket in a process that has loaded the library."""
    program = harness.build_fake_server("served_badly")
    with named(program, f"{OWN_NAME}-badly") as path, Target([path, fault], runtime,
                                                             MEMCTX_CONTROL="off") as live:
        check_equal(live.hear(), "ready", "first line of the fake server")
        yield live


class Server(harness.Owner):
    """Runs memctx serve. `address` is the address that it printed: a URL, or unix:PATH."""

    def __init__(self, runtime, *words, listen="127.0.0.1:0", environment=None, command=CLI,
                 **extra):
        self.process = subprocess.Popen(
            [command, "serve", "--listen", listen, *map(str, words)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env=harness.clean_env(XDG_RUNTIME_DIR=runtime, **(environment or {})), **extra)
        line = ""
        if select.select([self.process.stdout], [], [], PATIENCE_S)[0]:
            line = self.process.stdout.readline()
        match = re.fullmatch(r"serving (\d+) process(?:es)? on (\S+)\n", line)
        if not match:
            self.process.kill()
            raise Failure(f"the server said {line!r}, and {self.process.communicate()[1]!r}")
        self.first_count, self.address = int(match[1]), match[2]
        host = re.match(r"https?://(.*):(\d+)/", self.address)
        self.host, self.port = (host[1].strip("[]"), int(host[2])) if host else (None, None)

    def connect(self, timeout_s=PATIENCE_S):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)

    def raw(self, timeout_s=PATIENCE_S):
        return socket.create_connection((self.host, self.port), timeout=timeout_s)

    def ask(self, url, method="GET", timeout_s=PATIENCE_S, **headers):
        """Sends a request over a new connection; returns (status, headers, body)."""
        connection = self.connect(timeout_s)
        try:
            connection.request(method, url,
                               headers={key.replace("_", "-"): value
                                        for key, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, url, status=200, **headers):
        """Sends a request, checks the status, returns the body."""
        got, _, body = self.ask(url, **headers)
        check_equal(got, status, f"status of {url} ({body[:200]!r})")
        return body

    def metrics(self):
        return Metrics(self.get("/metrics").decode())

    def end(self):
        """Ends the server by SIGTERM; returns (exit code, stderr)."""
        self.process.terminate()
        try:
            _, errors = self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"the server did not end within {PATIENCE_S} s") from None
        return self.process.returncode, errors


def free_port():
    """Returns a free port below the range of ephemeral ports, so that no connection takes it
    meanwhile."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        lowest = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(10000, max(lowest, 20000))
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def ignore_hangup():
    """Runs in a child process that is about to execute a program, as nohup does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


class Metrics:
    """Parses metrics in the format of Prometheus or OpenMetrics; checks the format."""

    def __init__(self, text, open_metrics=False):
        self.text = text
        self.types, self.samples = {}, {}
        self.open_metrics = open_metrics
        lines = text.split("\n")
        check_equal(lines.pop(), "", "text behind the last newline")
        if open_metrics:
            check_equal(lines.pop(), "# EOF", "last line")
        family = None
        for line in lines:
            family = self.read(line, family)

    def read(self, line, family):
        """Parses a line; returns the metric family of the line."""
        head = re.fullmatch(r"# (HELP|TYPE|UNIT) (\S+) (.+)", line)
        if head:
            kind, name, value = head.groups()
            if kind == "HELP":
                check(name not in self.types, f"the family {name} comes twice")
                self.types[name] = None
                return name
            check_equal(name, family, f"family of {line!r}")
            if kind == "TYPE":
                self.types[name] = value
            else:
                check(self.open_metrics and name.endswith("_" + value), f"unit: {line}")
            return family
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        check(match, f"not a line of metrics: {line!r}")
        name, labels, value = match[1], match[2] or "", float(match[3])
        counter = self.types.get(family) == "counter"
        check_equal(name, family + "_total" if counter and self.open_metrics else family,
                    f"sample {line!r}")
        check(counter == name.endswith("_total"), f"_total is for counters: {line}")
        found = LABEL.findall(labels)
        check_equal(",".join(f'{key}="{text}"' for key, text in found), labels, "labels")
        key = (name, tuple(sorted((label, self.plain(text)) for label, text in found)))
        check(key not in self.samples, f"twice: {line}")
        self.samples[key] = value
        return family

    @staticmethod
    def plain(text):
        """The text of a label without the backslashes that escape."""
        return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)

    def all(self, name, **labels):
        """{remaining labels: value} of the samples of a metric that have these labels."""
        found = {}
        for (sample, pairs), value in self.samples.items():
            rest = dict(pairs)
            if sample == name and all(rest.pop(key, None) == value
                                      for key, value in labels.items()):
                found[tuple(sorted(rest.items()))] = value
        return found

    def one(self, name, **labels):
        """The value of the only sample of a metric that has these labels."""
        found = self.all(name, **labels)
        check_equal(len(found), 1, f"samples {name} {labels}")
        return next(iter(found.values()))

    def labels(self):
        """The set of all pairs (label, value) of all samples."""
        return {pair for _, pairs in self.samples for pair in pairs}

