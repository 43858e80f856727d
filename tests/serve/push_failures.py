# SPDX-License-Identifier: MIT
"""memctx push and servers that refuse, do not answer, or give answers that are not whole."""
import base64
import calendar
import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from harness import PATIENCE_S, check, check_equal, in_tries, run_cli, runtime_dir, test, wait_until
from serving import OWN_NAME, fake, free_port, served
from pushes import ended, push, running, sink


@test
def a_try_that_fails_is_repeated():
    """After status 500, and 429 with Retry-After, push sends the request again with equal bytes."""
    with served() as target, sink((500, b"no \033[31mroom\nsecond line", {}),
                                  (429, b"", {"Retry-After": "1"}),
                                  (200, b"", {})) as (url, got):
        done = push(target, target.pid, "--once", "--pyroscope", url, "--json")
        check_equal(done.returncode, 0, done.stderr)
        check_equal(done.stderr, "memctx: served: the server refused the request with status 500: "
                                 "no ?[31mroom; trying again\n",
                    "messages")
        check_equal(len(got), 3, "requests")
        check(got[0][:2] == got[1][:2] == got[2][:2] and got[0][3] == got[1][3] == got[2][3],
              "the requests differ")
        first, second = got[1][4] - got[0][4], got[2][4] - got[1][4]
        check(first >= 0.24 and second >= 0.99, f"pauses of {first:.2f} and {second:.2f} s")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        check_equal([(one["event"], one.get("status")) for one in events],
                    [("retry", 500), ("retry", 429), ("sent", 200), ("end", None)], "events")
        check(240 <= events[0]["wait_ms"] <= 1000, f"the first pause: {events[0]}")
        check_equal((events[1]["wait_ms"], events[3]["sent"], events[3]["retried"]), (1000, 1, 2),
                    "figures")


@contextlib.contextmanager
def unfinished_answers(beginning, more=b"", then_close=False):
    """A server that answers each request with `beginning`, then sends `more` again and again, and
    never ends the answer; `then_close`: it closes the connection instead. Yields the URL and the
    list of the first lines of the requests."""
    got = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def answer(connection):
            with connection, contextlib.suppress(OSError):
                asked = b""
                while b"\r\n\r\n" not in asked:
                    asked += connection.recv(65536)
                head, _, body = asked.partition(b"\r\n\r\n")
                left = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) - len(body)
                while left > 0:
                    left -= len(connection.recv(left))
                got.append(head.split(b"\r\n")[0])
                connection.sendall(beginning)
                while more:
                    connection.sendall(more)
                if not then_close:
                    connection.recv(1)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=listener.accept()[:1], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", got
        listener.shutdown(socket.SHUT_RDWR)


@test
def an_answer_without_an_end_counts():
    """The status of an answer decides, although the answer does not end, is cut off, or is endless.
    A profile is not sent a second time to a server that has taken it."""
    chunked = b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
    sent = (0, "sent 1, retried 0, dropped 0, failed 0\n", "")
    refused = (1, "sent 0, retried 0, dropped 0, failed 1\n",
               "memctx: served: the server refused the request with status 400: ok\n")
    endless = b"8000\r\n" + b"x" * 32768 + b"\r\n"
    with served() as target:
        for status, more, then_close, want in ((200, b"", False, sent), (200, b"", True, sent),
                                               (201, endless, False, sent),
                                               (400, b"", False, refused)):
            with unfinished_answers(chunked % status, more, then_close) as (url, got):
                done = push(target, target.pid, "--once", "--pyroscope", url)
                check_equal((done.returncode, done.stdout, done.stderr), want,
                            f"status {status}, {then_close=}")
                check_equal(len(got), 1, f"requests, status {status}, {then_close=}")


@test
def an_answer_that_is_not_http_and_endless_headers():
    """push says so if an answer is not HTTP. libcurl cuts off headers that do not end; the status
    before them counts."""
    with served() as target:
        with unfinished_answers(b"220 mail.example ESMTP\r\n") as (url, got):
            done = push(target, target.pid, "--once", "--pyroscope", url)
        check_equal(done.returncode, 1, done)
        check("no answer from the server; Received HTTP/0.9 when not allowed" in done.stderr,
              done.stderr)
        with unfinished_answers(b"HTTP/1.1 200 OK\r\n", b"X-Name: " + b"x" * 1000 + b"\r\n") as \
                (url, got):
            done = run_cli("push", target.pid, "--once", "--pyroscope", url, env=target.cli_env)
            check_equal((done.returncode, done.stdout, done.stderr, len(got)),
                        (0, "sent 1, retried 0, dropped 0, failed 0\n", "", 1), "endless headers")


@test
def an_unknown_certificate():
    """The command sends nothing to a server whose certificate no authority has signed, and says
    so."""
    with served() as target, tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where, \
         socket.socket() as listener:
        key, certificate = os.path.join(where, "key"), os.path.join(where, "cert")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate,
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        got = []

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    with connection, contextlib.suppress(ssl.SSLError):
                        got.append(context.wrap_socket(connection, server_side=True).recv(1))

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        done = push(target, target.pid, "--once", "--pyroscope",
                    f"https://localhost:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        check_equal((done.returncode, done.stdout, b"".join(got)),
                    (1, "sent 0, retried 3, dropped 0, failed 1\n", b""), "push, and bytes of it")
        # libcurl's text depends on the library for TLS with which it was built
        check(re.search("no answer from the server; .*certificate (verification failed|problem)",
                        done.stderr), done.stderr)


@test
def what_is_refused_is_not_repeated():
    with served() as target:
        with sink((401, b"who?", {})) as (url, got):
            with running(target, target.pid, "--pyroscope", url, "--every", "100ms") as process:
                wait_until(lambda: len(got) == 3, "three profiles")
                code, out, errors = ended(process)
            check_equal((code, errors), (0, "memctx: served: the server refused the request with "
                                            "status 401: who?\n"), "end")
            counts = re.fullmatch(r"sent 0, retried 0, dropped 0, failed (\d+)\n", out)
            check(counts and int(counts[1]) == len(got), f"{len(got)} requests: {out}")
        with sink((302, b"", {"Location": "/elsewhere"})) as (url, got):
            done = push(target, target.pid, "--once", "--parca", url)
            check_equal((done.returncode, done.stdout, len(got)),
                        (1, "sent 0, retried 0, dropped 0, failed 1\n", 1),
                        "a redirection")
            check("status 302, a redirection, which is not followed" in done.stderr, done.stderr)


@test
def nobody_listens_and_the_oldest_are_dropped():
    port = free_port()
    with served() as target, running(target, target.pid, "--pyroscope", f"http://127.0.0.1:{port}",
                                     "--every", "100ms",
                                     "--json") as process:
        dropped = 0
        while dropped < 3:
            event = json.loads(process.stdout.readline())
            dropped += event["event"] == "dropped"
        code, out, errors = ended(process)
        end = json.loads(out.splitlines()[-1])
        check_equal((code, end["sent"], end["failed"]), (0, 0, 8), "what waited at the end")
        told = [json.loads(line)["event"] for line in out.splitlines()]
        check_equal(end["dropped"], 3 + told.count("dropped"), "dropped ones")
        lines = errors.splitlines()
        check_equal(len(lines), 3, f"messages {lines}")
        check("trying again" in lines[0] and "oldest" in lines[1] and
              "8 requests not sent" in lines[2], f"{lines}")


@test
def the_newest_wait():
    """While the server asks for a pause, the oldest profiles are dropped, and at the end the newest
    ones are sent."""
    answers = [(503, b"", {"Retry-After": "600"}), (200, b"", {})]
    with served() as target, sink(*answers) as (url, got):
        with running(target, target.pid, "--pyroscope", url, "--every", "300ms",
                     "--json") as process:
            drops = []
            while len(drops) < 9:  # 8 may wait, so all of these were made after the first drop
                event = json.loads(process.stdout.readline())
                if event["event"] == "dropped":
                    drops.append(calendar.timegm(time.strptime(event["time"],
                                                               "%Y-%m-%dT%H:%M:%SZ")))
            code, out, _ = ended(process)
            end = json.loads(out.splitlines()[-1])
            check_equal((code, end["sent"], end["failed"]), (0, 8, 0), "end")
        ends = [int(re.search(r"&until=(\d+)", path).group(1)) for _, path, *_ in got[1:]]
        check_equal((len(ends), ends), (8, sorted(ends)), "the end of each profile that was sent")
        check(min(ends) >= drops[0],
              f"{ends}: profiles from before {drops[0]}, when the first one was dropped")


@test
def a_process_that_hangs_holds_no_other_up():
    """It takes some seconds to find out that a process does not answer. Meanwhile the profiles of
    the next processes are made."""
    with runtime_dir() as runtime, served(runtime, f"{OWN_NAME}-well") as target, \
            sink(*[(200, b"", {})] * 3) as (url, got), fake("silent-noting", runtime), \
            fake("silent-noting", runtime):
        done = push(target, "--match", f"{OWN_NAME}-*", "--once", "--pyroscope", url)
        check_equal(done.returncode, 0, done.stderr)
        check_equal(len(got), 3, "profiles: those of the two are read from outside")
        with open(os.path.join(runtime, "notes"), encoding="ascii") as file:
            notes = file.read().split()
        check_equal(notes[:2], ["came"] * 2, f"the clients of two servers: {notes}")


def dumps_of(target):
    """The number of dumps that the process has sent so far."""
    done = run_cli("dump", "--self", "--json", target.pid, env=target.cli_env)
    check_equal(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)["figures"]["dumps"]


@test
def what_waits_is_sent_at_the_end():
    """Profiles that wait for a Retry-After are sent when a signal ends push."""
    answers = [(503, b"", {"Retry-After": "600"}), (200, b"", {})]
    with served() as target, sink(*answers) as (url, got):
        with running(target, target.pid, "--pyroscope", url, "--every", "100ms",
                     "--json") as process:
            check_equal(json.loads(process.stdout.readline())["wait_ms"], 600000, "pause")
            before = dumps_of(target)
            wait_until(lambda: dumps_of(target) >= before + 3, "further profiles")
            check_equal(len(got), 1, "requests during the pause")
            code, out, errors = ended(process)
            end = json.loads(out.splitlines()[-1])
            check_equal((code, end["retried"], end["dropped"], end["failed"]), (0, 1, 0, 0), "end")
            # The refused profile, and those made during the pause (perhaps none on a busy machine).
            check(end["sent"] >= 1 and end["sent"] + 1 == len(got), f"{end}, {len(got)} requests")
            check_equal(errors.count("\n"), 1, "messages")


@test
def a_long_pause_is_not_waited_for_at_the_end():
    with served() as target, sink((503, b"", {"Retry-After": "600"})) as (url, got):
        done = push(target, target.pid, "--pyroscope", url, "--once")
        check_equal((done.returncode, len(got)), (1, 1), f"status, requests; {done.stderr}")
        check("1 request not sent" in done.stderr, done.stderr)


@test
def a_closed_output_ends_it():
    with served() as target, sink() as (url, got):
        with running(target, target.pid, "--pyroscope", url, "--json", "--every",
                     "100ms") as process:
            process.stdout.close()
            check_equal(process.wait(timeout=PATIENCE_S), 1, "exit code")
            check("memctx: " in process.stderr.read(), "no message")


@test
@in_tries
def a_server_that_does_not_answer_holds_no_end_up():
    """A second signal ends push at once, although the server does not answer."""
    with served() as target, sink(slow_s=60) as (url, got), running(target, target.pid, "--parca",
                                                                    url) as process:
        wait_until(lambda: got, "the request")
        process.terminate()
        time.sleep(0.3)
        check(process.poll() is None, "it did not wait for the answer")
        began = time.monotonic()
        check_equal(ended(process), (0, "sent 0, retried 0, dropped 0, failed 1\n",
                                     "memctx: 1 request not sent; the server did not answer in "
                                     "time\n"), "end")
        check(time.monotonic() - began < 4.5, "it waited for the server")


@test
def a_password_in_the_url_is_told_to_nobody():
    """The server gets the user's name and password from the URL. No message has them, and the
    command line only until push has read it."""
    secret = "name:s3cret-word"
    hidden = re.compile(r"s3cret|name:")
    with served() as target, sink() as (url, got):
        url = url.replace("//", f"//{secret}@")
        with running(target, target.pid, "--pyroscope", url, "--every", "200ms") as process:
            wait_until(lambda: got, "a profile")
            with open(f"/proc/{process.pid}/cmdline", encoding="utf-8") as file:
                words = file.read()
            ended(process)
        check("http://" in words and not hidden.search(words), f"command line: {words!r}")
        check_equal(got[0][2]["Authorization"],
                    "Basic " + base64.b64encode(secret.encode()).decode(), "authorization")
        for server in (f"http://{secret}@[::1:80", f"ftp://{secret}@x", f"http://{secret} @x",
                       f"http://{secret}/@x:y", f"http://{secret}@127.0.0.1:{free_port()}"):
            done = push(target, target.pid, "--once", "--parca", server)
            check(done.returncode in (1, 2), f"{server}: {done}")
            check(not hidden.search(done.stdout + done.stderr), f"{server}: {done.stderr}")
        with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
            path = os.path.join(where, "agent.toml")
            with open(path, "w", encoding="ascii") as file:
                file.write(f'[push]\nparca = "http://{secret}@x:7070"\n')
            for words in ((), ("--json",)):
                done = run_cli("agent", "--check", "--config", path, *words)
                check(done.returncode == 0 and "http://***@x:7070" in done.stdout, f"{done}")
                check(not hidden.search(done.stdout + done.stderr), f"{done}")
