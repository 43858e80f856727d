# SPDX-License-Identifier: MIT
"""The HTTP interface of live pages: headers, rights, events, many clients, clients that never
read."""
import contextlib
import gzip
import json
import os
import re
import signal
import socket
import time

from clients import TOKEN, children, scratch, write
from harness import (PATIENCE_S, Failure, Target, build_program, check, check_equal, run_cli,
                     runtime_dir, test, wait_until)
from serving import Server, served

EVERY = ("--every", "100ms")


def is_alive(pid):
    return os.path.exists(f"/proc/{pid}")


class Events:
    """A client of the event stream. next() returns (event, data)."""

    def __init__(self, server, pid, receive_bytes=None, **headers):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect((server.host, server.port))
        more = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        request = f"GET /p/{pid}/events HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"
        self.socket.sendall(request.encode())
        self.raw, self.text, self.ended = b"", "", False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def receive(self):
        part = self.socket.recv(65536)
        check(part, "the connection broke off")
        self.raw += part

    def read_head(self):
        while b"\r\n\r\n" not in self.raw:
            self.receive()
        head, self.raw = self.raw.split(b"\r\n\r\n", 1)
        return head.decode()

    def read_chunk(self):
        """Reads a chunk of the chunked transfer coding; the last chunk is empty."""
        while b"\r\n" not in self.raw:
            self.receive()
        size, rest = self.raw.split(b"\r\n", 1)
        length = int(size, 16)
        while len(rest) < length + 2:
            self.receive()
            rest = self.raw.split(b"\r\n", 1)[1]
        self.text += rest[:length].decode()
        self.raw = rest[length + 2:]
        self.ended = length == 0

    def next(self):
        """The next event; None: the stream has ended."""
        while "\n\n" not in self.text:
            if self.ended:
                check_equal(self.text, "", "text behind the last event")
                return None
            self.read_chunk()
        event, self.text = self.text.split("\n\n", 1)
        match = re.fullmatch(r"event: (\w+)\ndata: (.*)", event)
        check(match, f"not an event: {event!r}")
        return match[1], json.loads(match[2])

    def until(self, wanted):
        """Reads on until an event with the name `wanted`; returns its data."""
        while True:
            got = self.next()
            check(got, f"the stream ended before the event {wanted}")
            if got[0] == wanted:
                return got[1]


def history(server, pid, **headers):
    return json.loads(server.get(f"/p/{pid}/history.json", **headers))


def first_moment(server, pid):
    wait_until(lambda: history(server, pid)["moments"], "the first moment")


@test
def live_figures_are_the_dumps():
    with served() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with Events(server, target.pid) as events:
            check(events.read_head().startswith("HTTP/1.1 200 "), "status")
            check_equal(events.next(), ("hello", {}), "the first event")
            figures, totals = events.until("figures"), target.dump()["totals"]
            check_equal((figures["requested_bytes"], figures["live_chunks"]),
                        (totals["requested_bytes"], totals["live_chunks"]), "totals")
            cache = [row for row in figures["top"] if row[1] == "cache"]
            check_equal([row[2] for row in cache], [70000],
                        f"the context cache in {figures['top']}")
            check_equal([row[2] for row in figures["top"]],
                        sorted((row[2] for row in figures["top"]), reverse=True), "order")
            moment = events.until("moment")
            target.ask("named more")
            while "more" not in [row[1] for row in figures["top"]]:
                figures = events.until("figures")
            later = events.until("moment")
            while later["ms"] < figures["ms"]:
                later = events.until("moment")
        told = history(server, target.pid)
        check_equal((told["schema"], told["program"], told["pid"], told["every_ms"]),
                    ("memctx-live/1", "served", target.pid, 100), "head")
        check(figures["ms"] in [sample[0] for sample in told["samples"]],
              "the history has not the figures of an event")
        check({moment["id"], later["id"]} <= {one["id"] for one in told["moments"]},
              f"moments: {told['moments']}")
        data = json.loads(server.get(f"/p/{target.pid}/data.json?moment={later['id']}"
                                     f"&before={moment['id']}"))
        check_equal((data["schema"], data["pid"]), ("memctx-report/1", target.pid),
                    "figures of a moment")
        change = data["before"]["changes"][0]
        name = data["names"][data["contexts"]["name"][change[0]]]
        check_equal((change[3] - change[2], name), (123, "more"), "what grew")
        check_equal(server.get("/p/served/data.json?moment=%d" % later["id"]),
                    server.get(f"/p/{target.pid}/data.json?moment={later['id']}"), "by name")


@test
def a_live_page_has_the_name_of_the_program_that_runs_now():
    program = build_program("tests/serve/served.c", flags=["-O0"])
    with runtime_dir() as runtime, \
            Target(["sh", "-c", f"echo ready; read line; exec {program}"], runtime,
                   MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "ready", "first line of the shell")
        target.wait_socket()
        with Server(runtime, target.pid, *EVERY) as server:
            check_equal(history(server, target.pid)["program"], "sh", "the program at first")
            target.say("go")
            check_equal(target.hear(), "ready", "first line of the program")
            told = history(server, "served")
            check_equal((told["program"], told["pid"]), ("served", target.pid), "after exec")


@test
def live_pages_have_these_headers():
    with served() as target, Server(target.runtime, target.pid, *EVERY) as server:
        page = f"/p/{target.pid}/"
        first_moment(server, target.pid)
        for url, kind in ((page, "text/html; charset=utf-8"),
                          (page[:-1], "text/html; charset=utf-8"),
                          ("/processes.json", "application/json"),
                          (page + "history.json", "application/json"),
                          (page + "data.json", "application/json"),
                          (page + "events", "text/event-stream; charset=utf-8")):
            for method in ("HEAD", "GET") if not url.endswith("events") else ("HEAD",):
                status, headers, body = server.ask(url, method=method)
                check_equal((status, headers["Content-Type"]), (200, kind), f"{method} {url}")
                check_equal((headers["X-Content-Type-Options"], headers["Cache-Control"]),
                            ("nosniff", "no-store"), f"{method} {url}")
                check_equal(body == b"", method == "HEAD", f"{method} {url}: {body[:50]!r}")
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
                status, headers, _ = server.ask(url, method=method)
                check_equal((status, headers["Allow"]), (405, "GET, HEAD"), f"{method} {url}")
        policies = []
        for _ in range(2):
            _, headers, body = server.ask(page)
            policies.append(headers["Content-Security-Policy"])
            nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", policies[-1])[1]
            check(policies[-1].startswith("default-src 'none'; ") and
                  "unsafe" not in policies[-1] and "http" not in policies[-1], policies[-1])
            check_equal(set(re.findall(r'<(?:script|style)([^>]*)>',
                                       body.decode())) - {' id="data" type="application/json" '
                                                          f'nonce="{nonce}"'},
                        {f' nonce="{nonce}"'}, "scripts and styles")
        check(policies[0] != policies[1], "a nonce that is used twice")
        for site, mode, status in (("cross-site", "cors", 403), ("same-site", "no-cors", 403),
                                   ("cross-site", "navigate", 200),
                                   ("same-origin", "cors", 200), ("none", "navigate", 200)):
            got = server.ask(page + "history.json", Sec_Fetch_Site=site, Sec_Fetch_Mode=mode)[0]
            check_equal(got, status, f"asked by a page: {site}, {mode}")
        check_equal([one["pid"] for one in json.loads(server.get("/processes.json"))], [target.pid],
                    "processes")
        check(f'href="p/{target.pid}/"' in server.get("/").decode(), "/ has no link")


@test
def the_time_axis_begins_with_the_recording():
    """The time axis begins with the moments of the process's recording, also if memctx set has
    ended that recording. Other files in its folder do no harm."""
    with scratch() as where, served(MEMCTX_RECORD=where) as target:
        wait_until(lambda: any(os.path.getsize(os.path.join(where, name)) > 1 << 20
                               for name in os.listdir(where)), "a moment", 30)
        path = os.path.join(where, os.listdir(where)[0])
        os.mkfifo(os.path.join(where, f"memctx-{target.pid}-pipe.rec"))
        os.symlink("/etc/passwd", os.path.join(where, f"memctx-{target.pid}-link.rec"))
        write(os.path.join(where, f"memctx-{target.pid}-text.rec"), "{" * 5000)
        check_past(target, path)
        done = run_cli("set", target.pid, "record=off", env=target.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        check_past(target, path)


def check_past(target, path):
    told = json.loads(run_cli("postmortem", path, "--json").stdout)["moments"]
    began = time.time() * 1000
    with Server(target.runtime, target.pid, *EVERY) as server:
        with Events(server, target.pid) as events:
            events.read_head()
            past = events.until("past")
            events.until("figures")
            samples = history(server, target.pid)["samples"]
        want = [[int(one["time_s"] * 1000), one["rss_bytes"], one["requested_bytes"],
                 one["live_chunks"]] for one in told]
        check_equal([past[1:], samples[0][1:4]], [want[0][1:], want[0][1:]],
                    f"the first moment, of {samples[:2]}")
        check(abs(past[0] - want[0][0]) <= 1 and past[0] < began and samples[0][0] == past[0],
              f"its time: {past[0]}, {want[0][0]}, {began}")
        check_equal(sorted(samples), samples, "the samples in the order of time")


@test
def a_clock_that_is_set_back_stops_nothing():
    """If the clock is set back, times of samples and moments still increase."""
    shim = build_program("tests/serve/clock_step.c", "clock_step.so", flags=["-shared", "-fPIC"])
    with served() as target, scratch() as where:
        step = os.path.join(where, "step")
        with Server(target.runtime, target.pid, *EVERY,
                    environment={"LD_PRELOAD": shim, "CLOCK_STEP": step}) as server:
            with Events(server, target.pid) as events:
                events.read_head()
                first = events.until("moment")["ms"]
                before = events.until("figures")["ms"]
                write(step, "")
                for _ in range(5):
                    now = events.until("figures")["ms"]
                    check(now > before, f"a sample of {now} behind {before}")
                    before = now
                check(events.until("moment")["ms"] > first, "a moment before the first one")
                check(before - time.time() * 1000 < 60000, "far in the future")


@test
def answers_are_compressed_for_those_who_ask():
    """Answers are compressed for clients that accept gzip, with unchanged content; errors are
    not."""
    with served() as target, Server(target.runtime, target.pid, "--every", "1h") as server:
        page = f"/p/{target.pid}/"
        with Events(server, target.pid) as events:
            events.read_head()
            events.until("moment")
        for url in ("/metrics", page, page + "data.json"):
            _, headers, plain = server.ask(url)
            check_equal((headers["Content-Encoding"], headers["Vary"]), (None, "Accept-Encoding"),
                        url)
            for accepts, packs in (("gzip", True), ("deflate, GZIP;q=0.5, br", True),
                                   ("gzip;q=0", False), ("gzip;q=0.0,br", False),
                                   ("x-gzip, gzipped", False), ("identity", False),
                                   (",;q=1", False)):
                _, headers, body = server.ask(url, Accept_Encoding=accepts)
                check_equal((headers["Content-Encoding"], headers["Vary"]),
                            ("gzip" if packs else None, "Accept-Encoding"), f"{url}: {accepts}")
                check(not packs or len(body) < len(plain),
                      f"{url}: {len(body)} of {len(plain)} bytes")
                unpacked = gzip.decompress(body) if packs else body
                if url.endswith("data.json"):
                    check_equal(unpacked, plain, url)
                else:
                    check_equal(unpacked[:20], plain[:20], url)
        check_equal(server.ask(page + "history.json",
                               Accept_Encoding="gzip")[1]["Content-Encoding"], None,
                    "a short answer")
        check(server.get("/nope", status=404, Accept_Encoding="gzip").startswith(b"memctx: "),
              "a refusal")


@test
def live_pages_of_eight_processes():
    """While clients watch eight processes, a ninth is refused; it is served when one of the pages
    is closed."""
    with runtime_dir() as runtime, contextlib.ExitStack() as stack:
        targets = [stack.enter_context(served(runtime)) for _ in range(9)]
        with Server(runtime, "--match", "served", "--every", "1h") as server:
            pages = []
            for target in targets[:8]:
                pages.append(stack.enter_context(Events(server, target.pid)))
                check(pages[-1].read_head().startswith("HTTP/1.1 200 "), "one of the eight")
            refused = server.get(f"/p/{targets[8].pid}/history.json", status=503)
            check(b"8 processes are looked at already" in refused, f"the ninth: {refused!r}")
            pages[0].socket.close()
            wait_until(lambda: server.ask(f"/p/{targets[8].pid}/history.json")[0] == 200,
                       "room for the ninth")
            for one in pages[1:]:  # the other seven are still served
                check(one.until("figures"), "figures")


@test
def live_pages_refuse():
    with served() as target, Server(target.runtime, target.pid, *EVERY) as server:
        page = f"/p/{target.pid}/"
        for url, status in (("/p/1/history.json", 404), ("/p/nobody/events", 404),
                            ("/p//events", 404), ("/p/", 404), ("/p/x/y", 404),
                            ("/p/99999999999999999999/events", 404), (page + "reset", 404),
                            (page + "trim", 404), (page + "data.json/", 404),
                            (page + "data.json?moment=0", 400), (page + "data.json?moment=x", 400),
                            (page + "events?moment=1", 400),
                            (page + "?token=x", 400), ("/p/%0d%0aX:1/", 200),
                            ("/p/" + "x" * 300 + "/", 404)):
            body = server.get(url, status=status)
            check(status == 200 or body.startswith(b"memctx: "), f"{url}: {body[:100]!r}")
        first_moment(server, target.pid)
        server.get(page + "data.json?moment=99999", status=404)
        server.get(page + "data.json?moment=1&before=99999", status=404)
        for word in ("99ms", "2h", "0", "x", "-1s"):
            done = run_cli("serve", target.pid, "--every", word, env=target.cli_env)
            check(done.returncode == 2 and "--every takes a time from 100ms to 1h" in done.stderr,
                  f"--every {word}: {done.stderr}")


@test
def live_pages_need_the_token():
    with served() as target, scratch() as where:
        path = write(os.path.join(where, "token"), TOKEN)
        with Server(target.runtime, target.pid, "--token-file", path, *EVERY) as server:
            page = f"/p/{target.pid}/"
            for url in (page, page + "history.json", page + "data.json", page + "events",
                        "/processes.json"):
                for sent in ({}, {"Authorization": "Bearer x" + TOKEN[1:]},
                             {"Cookie": "token=" + TOKEN}):
                    status, headers, body = server.ask(url, **sent)
                    check_equal((status, headers["WWW-Authenticate"]), (401, "Bearer"),
                                f"{url} with {sent}")
                    check(body.startswith(b"memctx: ") and TOKEN.encode() not in body,
                          f"{url}: {body[:80]!r}")
            server.get(page + "history.json?token=" + TOKEN, status=401)
            for url in ("/", page, "/p/1/"):  # a browser gets a login page, equal for all addresses
                status, headers, body = server.ask(url, Accept="text/html,*/*")
                check_equal(status, 401, url)
                check("nonce" in headers["Content-Security-Policy"] and b'id="login"' in body and
                      b"served" not in body.split(b"<script")[0], url)
            check_equal(server.ask("/processes.json", Accept="text/html")[2][:8], b"memctx: ",
                        "no page")
            history(server, target.pid, Authorization="Bearer " + TOKEN)
            with Events(server, target.pid, Authorization="Bearer " + TOKEN) as events:
                events.read_head()
                events.until("figures")
            check(TOKEN not in server.end()[1], "the log has the token")


@test
def one_reader_for_all_clients():
    """32 clients of a process get equal figures from a single reader, a 33rd is refused, and no
    child is left at the end."""
    with served() as target, Server(target.runtime, target.pid,
                                    *EVERY) as server, contextlib.ExitStack() as stack:
        check_equal(children(server.process.pid), [], "children before anybody asks")
        clients = [stack.enter_context(Events(server, target.pid)) for _ in range(32)]
        for one in clients:
            check(one.read_head().startswith("HTTP/1.1 200 "), "status")
        head = stack.enter_context(Events(server, target.pid)).read_head()
        check(head.startswith("HTTP/1.1 503 ") and "Retry-After: 1" in head,
              f"one too many: {head}")
        # All clients get the figures that come after the last client has got its first.
        begun = max(one.until("figures")["ms"] for one in clients)
        told = []
        for one in clients:
            got = one.until("figures")
            while got["ms"] <= begun:
                got = one.until("figures")
            told.append(got)
        check(all(got == told[0] for got in told),
              f"what clients are told: {told[0]}, and others {told}")
        check_equal(history(server, target.pid)["listeners"], 32, "listeners")
        check(len(children(server.process.pid)) <= 2, "more than a reader and a snapshot")
        server.get("/metrics")
        clients[0].socket.close()
        wait_until(lambda: history(server, target.pid)["listeners"] == 31, "the end of a listener")
        check_equal(history(server, target.pid)["dropped"], 0, "dropped")
        left = children(server.process.pid)
        check_equal(server.end(), (0, ""), "end")
        for one in clients[1:]:
            with contextlib.suppress(ConnectionError, Failure):
                while one.next():
                    pass
        wait_until(lambda: not any(is_alive(pid) for pid in left), "the end of the children")


@test
def a_client_that_never_reads_is_dropped():
    """The server drops a client that reads nothing; another one still gets new figures."""
    with served() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with Events(server, target.pid, receive_bytes=2048), Events(server, target.pid) as good:
            good.read_head()
            wait_until(lambda: history(server, target.pid)["dropped"] == 1, "the drop",
                       2 * PATIENCE_S)
            check_equal(history(server, target.pid)["listeners"], 1, "listeners")
            last = 0
            while last < time.time() * 1000 - 3000:
                last = good.until("figures")["ms"]


@test
def the_end_is_told_and_what_was_known_is_kept():
    with served() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with Events(server, target.pid) as events:
            events.read_head()
            events.until("moment")
            os.kill(target.pid, signal.SIGSTOP)
            check(events.until("silent")["how"], "why it is silent")
            os.kill(target.pid, signal.SIGCONT)
            events.until("figures")
            os.kill(target.pid, signal.SIGKILL)
            how = events.until("ended")["how"]
            check("was killed by signal 9" in how, f"how it ended: {how}")
            check_equal(events.next(), None, "behind the end")
        target.process.wait()
        told = history(server, target.pid)
        check(told["ended"] and told["samples"] and told["moments"], "what was known")
        check(len(json.loads(server.get(f"/p/{target.pid}/data.json"))["names"]) > 3,
              "the last moment")
        with Events(server, target.pid) as events:
            events.read_head()
            check_equal(events.next()[0], "ended", "for a client that comes later")
            check_equal(events.next(), None, "behind the end")
        wait_until(lambda: children(server.process.pid) == [], "the end of the children")
