# SPDX-License-Identifier: MIT
"""Clients of memctx serve: without rights, with requests that would change something, slow ones, a
thousand at once, clients that leave."""
import contextlib
import os
import re
import resource
import select
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import time
import urllib.request

import harness
from harness import PATIENCE_S, check, check_equal, run_cli, runtime_dir, test, wait_until
from serving import Server, ignore_hangup, served

TOKEN = "0123456789abcdef-0123456789abcdef"


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as path:
        yield path


def write(path, text, mode=0o600):
    """Writes a file with exactly these rights; returns its path."""
    with open(path, "w", encoding="ascii", opener=lambda name,
              flags: os.open(name, flags, mode)) as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def refused(message, *words, runtime, code=2):
    """Checks that serve with these words ends with that exit code and message."""
    done = run_cli("serve", "--match", "nobody-*", *words,
                   env=harness.clean_env(XDG_RUNTIME_DIR=runtime), timeout_s=PATIENCE_S)
    check(done.returncode == code and message in done.stderr,
          f"{words}: exit {done.returncode}, want {code} and {message!r}: {done.stderr}")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


@test
def the_server_only_reads():
    with served() as target, Server(target.runtime, target.pid) as server:
        before = target.dump()["totals"]
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "RESET"):
            for url in ("/metrics", "/", "/debug/pprof/heap"):
                status, headers, _ = server.ask(url, method=method)
                check_equal((status, headers["Allow"]), (405, "GET, HEAD"), f"{method} {url}")
        status, _, _ = server.ask("/metrics", method="POST", Content_Length="0")
        check_equal(status, 405, "POST")
        check_equal(target.dump()["totals"]["allocs"], before["allocs"],
                    "allocations of the target")


@test
def a_server_under_nohup_stays():
    with served() as target, Server(target.runtime, target.pid, preexec_fn=ignore_hangup) as server:
        server.process.send_signal(signal.SIGHUP)
        check(b"memctx_up" in server.get("/metrics"), "no metrics after SIGHUP")
        check_equal(server.end(), (0, ""), "end")


@test
def bad_addresses_and_queries():
    with served() as target, Server(target.runtime, target.pid) as server:
        for url in ("/nope", "/metrics/", "//metrics", "/debug/pprof", "/debug/pprof/heap/..",
                    "/%2e%2e/etc/passwd", "/reset", "/%00", "/metrics%00x"):
            server.get(url, status=404)
        for url in ("/metrics?target=served", "/doctor?watch=1",
                    "/debug/pprof/heap?limit_samples=0",
                    "/debug/pprof/heap?limit_samples=x", "/debug/pprof/heap?seconds=1",
                    "/debug/pprof/allocs?seconds=61",
                    "/debug/pprof/allocs?seconds=0", "/debug/pprof/allocs?seconds=-1",
                    "/debug/pprof/allocs?seconds=",
                    "/debug/pprof/allocs?seconds=99999999999999999999", "/doctor?process=x",
                    "/doctor?target", "/doctor?target=1&target=2",
                    "/debug/pprof/allocs?seconds=1&seconds=1"):
            body = server.get(url, status=400)
            check(body.startswith(b"memctx: ") and body.endswith(b"\n"), f"{url}: {body!r}")
            check_equal(b"is given twice" in body, url.count("=") == 2, url)
            check_equal(b"; /debug/pprof/allocs?seconds=N gives" in body,
                        url == "/debug/pprof/heap?seconds=1", f"a hint at allocs: {url}")
        for count, status in ((100, 400), (101, 414), (500, 414), (2000, 414), (8000, 414)):
            server.get("/metrics?" + "&".join(["a=1"] * count), status=status)
        server.get("/metrics?" + "a" * 20000, status=414)
        for data in (b"\0\xff\n\n", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
                     b"\r\n" * 5000,
                     b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
            with server.raw(timeout_s=1) as raw, contextlib.suppress(OSError):
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
                first = raw.recv(12)
                check(first[:7] != b"HTTP/1." or first[9:10] in (b"4", b"5"),
                      f"{data[:20]!r}: {first!r}")
        server.get("/metrics")


@test
def a_token_is_needed_and_compared():
    with served() as target, scratch() as where:
        path = write(os.path.join(where, "token"), TOKEN + "\n")
        with Server(target.runtime, target.pid, "--token-file", path) as server:
            for sent in (None, "Bearer", "Bearer ", "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x",
                         "Bearer x" + TOKEN[1:],
                         "Bearer " + TOKEN * 2, "Basic " + TOKEN, TOKEN):
                status, headers, body = server.ask("/metrics",
                                                   **({"Authorization": sent} if sent else {}))
                check_equal((status, headers["WWW-Authenticate"]), (401, "Bearer"),
                            f"answer to {sent}")
                check(TOKEN.encode() not in body, "the answer has the token")
            for url in ("/", "/doctor", "/debug/pprof/heap", "/nope"):
                server.get(url, status=401)
            for sent in ("Bearer " + TOKEN, "bearer   " + TOKEN, f"Bearer \t{TOKEN} \t"):
                check(b"memctx_up" in server.get("/metrics", Authorization=sent), "no metrics")
            check_equal(server.ask("/metrics", Host="example.org",
                                   Authorization="Bearer " + TOKEN)[0], 200, "other Host")
            code, errors = server.end()
            check_equal((code, errors.count("wrong token")), (0, 1),
                        f"lines about a wrong token in {errors}")


@test
def other_machines_need_a_token_or_tls():
    with runtime_dir() as runtime, scratch() as where:
        for listen in ("0.0.0.0:0", "[::]:0", "192.0.2.1:9464"):
            refused("add --token-file FILE, or --cert FILE and --key FILE", "--listen", listen,
                    runtime=runtime)
        path = write(os.path.join(where, "token"), TOKEN)
        with Server(runtime, "--match", "nobody-*", "--token-file", path,
                    listen="0.0.0.0:0") as server:
            server.host = "127.0.0.1"
            server.get("/metrics", status=401)
            server.get("/metrics", Authorization="Bearer " + TOKEN)
        for text, message in (("", "is empty"), ("short\n", "needs 16"),
                              ("with a space in between\n", "has a space"),
                              ("a" * 70000, "too long")):
            refused(message, "--token-file", write(path, text), runtime=runtime)
        refused("No such file or directory; name a file that you may read", "--token-file",
                path + "x", runtime=runtime)
        refused("is a directory", "--token-file", where, runtime=runtime)
        refused("is a device", "--token-file", "/dev/zero", runtime=runtime)
        refused("need each other", "--cert", path, runtime=runtime)
        with Server(runtime, "--match", "nobody-*", "--token-file",
                    write(path, TOKEN, 0o644)) as server:
            check("other users may read" in server.end()[1], "no warning")


@test
def a_browser_under_another_name_is_refused():
    with served() as target, Server(target.runtime, target.pid) as server:
        for host, status in (("example.org", 403), ("example.org:9464", 403),
                             ("127.0.0.1.example.org", 403), ("", 403),
                             ("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:9464", 200),
                             ("LOCALHOST", 200)):
            check_equal(server.ask("/metrics", Host=host)[0], status,
                        f"status for the Host {host!r}")


@test
def a_request_has_one_host():
    """HTTP/1.1 demands one header Host, HTTP/1.0 none. A second one might be read by another
    server."""
    with served() as target, Server(target.runtime, target.pid) as server:
        for version, hosts, status in (("1.1", [], b"400"), ("1.1", ["localhost"], b"200"),
                                       ("1.0", [], b"200"),
                                       ("1.1", ["localhost", "example.org"], b"400"),
                                       ("1.0", ["localhost"] * 2, b"400"),
                                       ("1.1", ["localhost\t"], b"200"),
                                       ("1.1", ["127.0.0.1:80:example.org"], b"403"),
                                       ("1.1", ["[::1]x"], b"403"),
                                       ("1.1", ["[::1"], b"403")):
            with server.raw() as raw:
                lines = "".join(f"Host: {host}\r\n" for host in hosts)
                request = f"GET /metrics HTTP/{version}\r\n{lines}Connection: close\r\n\r\n"
                raw.sendall(request.encode())
                check_equal(raw.recv(100).split()[1], status, f"HTTP/{version} with {hosts}")


@test
def an_address_may_have_scheme_and_host():
    """HTTP demands that a server takes "GET http://HOST/PATH", too. HOST then counts instead of the
    header Host."""
    with served() as target, Server(target.runtime, target.pid) as server:
        for address, host, status in (("http://localhost/metrics", "localhost", b"200"),
                                      ("HTTP://127.0.0.1:9464/metrics", "localhost", b"200"),
                                      ("http://localhost", "localhost", b"200"),
                                      ("http://localhost/nothing", "localhost", b"404"),
                                      ("http://example.org/metrics", "localhost", b"403"),
                                      ("http://localhost/metrics", "example.org", b"200"),
                                      ("http:///metrics", "localhost", b"403"),
                                      ("ftp://localhost/metrics", "localhost", b"404")):
            with server.raw() as raw:
                raw.sendall(f"GET {address} HTTP/1.1\r\nHost: {host}\r\n"
                            "Connection: close\r\n\r\n".encode())
                check_equal(raw.recv(100).split()[1], status, f"{address}, Host: {host}")


@test
def a_token_from_a_pipe():
    """A token may come from a command (--token-file <(COMMAND)), even a slow one. A pipe that
    nobody ends is refused after a time."""
    words = f"{harness.CLI} serve --all --check --listen 0.0.0.0:0 --token-file"
    for command, code, message in ((f"echo {TOKEN}", 0, ""),
                                   (f"printf 0123456789; sleep 0.2; echo {TOKEN}", 0, ""),
                                   ("exec true", 2, " is empty")):
        done = subprocess.run(["bash", "-c", f"{words} <({command})"], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        check(done.returncode == code and message in done.stderr, f"{command}: {done}")
    with runtime_dir() as runtime, scratch() as where:
        path = os.path.join(where, "pipe")
        os.mkfifo(path, 0o600)
        refused("nobody wrote the end of", "--token-file", path, runtime=runtime)


@test
def tls_with_a_certificate():
    with served() as target, scratch() as where:
        key, certificate, other, other_key = (os.path.join(where, name)
                                              for name in ("key", "cert", "other", "other-key"))
        subprocess.run(["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out",
                        other_key], check=True, capture_output=True, timeout=PATIENCE_S)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True,
                       timeout=PATIENCE_S)
        os.chmod(key, 0o600)
        with Server(target.runtime, target.pid, "--cert", certificate, "--key", key) as server:
            check(server.address.startswith("https://"), server.address)
            context = ssl.create_default_context(cafile=certificate)
            with urllib.request.urlopen(server.address + "metrics", context=context,
                                        timeout=PATIENCE_S) as answer:
                check(b'memctx_up{program="served"' in answer.read(), "no metrics")
            with urllib.request.urlopen(f"{server.address}p/{target.pid}/events", context=context,
                                        timeout=PATIENCE_S) as answer:
                events = [line for line in (answer.readline() for _ in range(7))
                          if line.startswith(b"event:")]
                check_equal(events[0], b"event: hello\n", "the first event")
                check(b"event: moment\n" in events, f"events: {events}")
            with server.raw() as raw, contextlib.suppress(ConnectionError):
                raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                check(b"memctx_up" not in raw.recv(100), "an answer without TLS")
            # Without SECLEVEL=0, curl's OpenSSL would itself refuse TLS 1.1.
            for version, status in (("1.1", 35), ("1.2", 0)):
                done = subprocess.run(["curl", "-sk", "-o", os.devnull, "--tlsv1.0", "--tls-max",
                                       version, "--ciphers",
                                       "DEFAULT@SECLEVEL=0", server.address + "metrics"],
                                      timeout=PATIENCE_S, check=False)
                check_equal(done.returncode, status, f"curl with TLS {version}")
        with runtime_dir() as runtime:
            words = ("--cert", certificate, "--key", key, "--listen", "127.0.0.1:0")
            done = run_cli("serve", "--all", "--check", *words)
            check_equal((done.returncode, done.stderr), (0, ""), "--check of a good certificate")
            write(other, "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
            for cert, own, message in (
                    (os.devnull, key, "is a device; name a file"),
                    (key, key, "has no certificate in PEM"),
                    (certificate, certificate, "has no key in PEM"),
                    (other, key, "name a certificate and its key\n"),
                    (certificate, other_key, "do not match; name a certificate and its key\n")):
                wrong = ("--cert", cert, "--key", own, "--listen", "127.0.0.1:0")
                refused(message, *wrong, runtime=runtime)
                refused(message, *wrong, "--check", runtime=runtime)


@test
def a_unix_socket_is_private_and_goes_away():
    with served() as target, scratch() as where:
        path = os.path.join(where, "s")
        with socket.socket(socket.AF_UNIX) as stale:  # the socket of a killed server
            stale.bind(path)
        with Server(target.runtime, target.pid, listen="unix:" + path) as server:
            status = os.stat(path)
            check(stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600,
                  oct(status.st_mode))
            done = subprocess.run(["curl", "-sS", "--max-time", "20", "--unix-socket", path,
                                   "http://anything/metrics"],
                                  capture_output=True, timeout=PATIENCE_S, check=False)
            check(b"memctx_up" in done.stdout, f"{done.stdout[:100]!r} {done.stderr!r}")
            refused("end the other server", "--listen", "unix:" + path, runtime=target.runtime,
                    code=1)
            check_equal(server.end(), (0, ""), "end")
        check(not os.path.exists(path), "the socket is still there")
        write(path, "precious")
        refused("cannot listen on", "--listen", "unix:" + path, runtime=target.runtime, code=1)
        with open(path, encoding="ascii") as file:
            check_equal(file.read(), "precious", "the file at the place of the socket")
        refused("takes a path of", "--listen", "unix:" + "x" * 200, runtime=target.runtime)
        if os.geteuid() == 0:  # root may write everywhere, so the command runs as another user
            os.chmod(where, 0o755)
            done = subprocess.run([harness.CLI, "serve", "--all", "--listen", f"unix:{where}/t"],
                                  user=harness.NOBODY, group=harness.NOBODY, extra_groups=[],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                                  env=harness.clean_env())
            check(done.returncode == 1 and "; name a file in a folder that you may write to" in
                  done.stderr, done.stderr)


@test
def an_address_in_use_or_none():
    with runtime_dir() as runtime, Server(runtime, "--match", "nobody-*") as server:
        refused("end the other server, or choose another address", "--listen",
                f"127.0.0.1:{server.port}", runtime=runtime, code=1)
        for word in ("127.0.0.1", "9464", ":9464", "127.0.0.1:", "127.0.0.1:65536",
                     "example.org:80", "::1:80", "[::1]", "[127.0.0.1]:80", ""):
            refused("--listen takes unix:PATH", "--listen", word, runtime=runtime)


@test
def a_thousand_scrapes_at_once():
    with served() as target, Server(target.runtime, target.pid) as server:
        server.get("/metrics")
        dumps, began, answers = server.metrics().one("memctx_dumps_total"), time.monotonic(), []
        sockets = [server.raw() for _ in range(1000)]
        for one in sockets:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for one in sockets:
            data = b""
            while part := one.recv(1 << 16):
                data += part
            answers.append(data)
            one.close()
        took = time.monotonic() - began
        good = sum(data.startswith(b"HTTP/1.1 200") and b'",process="1"} 1\n' in data
                   for data in answers)
        check_equal(good, 1000, "answers")
        asked = server.metrics().one("memctx_dumps_total") - dumps
        check(took < PATIENCE_S, f"it took {took:.1f} s")
        check(asked < 500, f"the target was asked {asked} times")
        check(harness.rss_kib(server.process.pid) < 100 << 10, "the server has grown")
        return f"{took:.2f} s, the target was asked {asked:.0f} times"


@test
def slow_clients_hold_nobody_up():
    with served() as target, Server(target.runtime, target.pid, preexec_fn=few_connections) as \
            server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.raw()) for _ in range(100)]
        for one in slow:
            one.sendall(b"GET /metrics HT")
        began = time.monotonic()
        server.get("/metrics")
        check(time.monotonic() - began < 4.5, "a scrape waited for slow clients")
        for _ in range(60):  # with these, clients hold all connections
            stack.enter_context(server.raw())
        server.get("/metrics")
        took = time.monotonic() - began
        check(took < 40, f"slow clients held a scrape up for {took:.1f} s")
        check_equal({one.recv(1) for one in slow}, {b""}, "what slow clients get")
        return f"all connections were taken for {took:.1f} s"


def few_connections():
    """Runs in the child process that becomes the server: 128 connections are all that it takes."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))


def ended(clients):
    """The number of clients whose connection the server has ended."""
    poll = select.poll()
    for one in clients:
        poll.register(one, select.POLLIN | select.POLLRDHUP)
    return len(poll.poll(0))


@test
def idle_clients_hold_nobody_up():
    """When clients that send no whole request have taken all connections, the server ends some of
    them, and a client with a request gets its answer. As long as a connection is free, idle clients
    keep theirs for 5 s."""
    with served() as target, contextlib.ExitStack() as stack:
        with Server(target.runtime, target.pid, preexec_fn=few_connections) as server:
            server.get("/metrics")
            # With the usual 5 s for each, 3000 clients would take all connections for 117 s.
            for begin, count in ((b"", 3000), (b"GET /metrics HT", 500), (b"\x16\x03\x01", 500)):
                idle = [stack.enter_context(server.raw()) for _ in range(count)]
                for one in idle:
                    with contextlib.suppress(OSError):
                        one.sendall(begin)
                for _ in range(3):
                    server.get("/metrics")
                check(ended(idle) >= count - 128,
                      f"{begin}: {ended(idle)} of {count} were ended")
            files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            check(files < 200, f"the server has {files} descriptors open")
            # A client that gets events is not idle, and a client that waits for a profile is not.
            with server.raw() as events, server.raw() as profile:
                events.sendall(f"GET /p/{target.pid}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
                               .encode())
                profile.sendall(b"GET /debug/pprof/allocs?seconds=2 HTTP/1.1\r\n"
                                b"Host: localhost\r\nConnection: close\r\n\r\n")
                check(events.recv(12) == b"HTTP/1.1 200", "no events")
                more = [stack.enter_context(server.raw()) for _ in range(500)]
                server.get("/metrics")
                check_equal(profile.recv(12), b"HTTP/1.1 200", "profile")
                check(ended(more) >= 500 - 128, f"{ended(more)} of 500 were ended")
                check(events.recv(1 << 16), "the client of events was ended")


@test
def clients_that_leave_end_their_work():
    with served() as target, Server(target.runtime, target.pid) as server:
        server.get("/metrics")
        before = len(children(server.process.pid))
        with contextlib.ExitStack() as stack:
            for seconds in range(57, 61):
                raw = stack.enter_context(server.raw())
                raw.sendall(f"GET /debug/pprof/allocs?seconds={seconds} HTTP/1.1\r\nHost: "
                            "localhost\r\n\r\n".encode())
            wait_until(lambda: len(children(server.process.pid)) == before + 4, "four jobs")
            status, headers, _ = server.ask("/debug/pprof/heap")
            check_equal((status, headers["Retry-After"]), (503, "1"), "a fifth job")
            server.get("/metrics")
        wait_until(lambda: len(children(server.process.pid)) == before, "the end of the jobs")
        server.get("/debug/pprof/heap")


@test
def a_client_that_sends_no_more_gets_its_answer():
    """nc -N and socat close their side of the connection behind the request."""
    with served() as target, Server(target.runtime, target.pid) as server:
        for url in ("/metrics", "/doctor", "/debug/pprof/heap"):
            with server.raw() as raw, raw.makefile("rb") as answer:
                raw.sendall(f"GET {url} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                raw.shutdown(socket.SHUT_WR)
                check(answer.readline().startswith(b"HTTP/1.1 200 "), url)


@test
def only_the_server_loads_the_library_for_http():
    """The command is not linked with libmicrohttpd; serve loads it, and says so if it cannot."""
    done = subprocess.run(["ldd", harness.CLI], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=True)
    check("microhttpd" not in done.stdout and "gnutls" not in done.stdout,
          f"every verb loads it: {done.stdout}")
    with runtime_dir() as runtime, scratch() as where:
        with open(os.path.join(where, "libmicrohttpd.so.12"), "wb"):
            pass  # an empty file, which cannot be loaded
        done = run_cli("serve", "--match", "x",
                       env=harness.clean_env(XDG_RUNTIME_DIR=runtime, LD_LIBRARY_PATH=where))
        check(done.returncode == 1 and "install Debian's package libmicrohttpd12" in done.stderr,
              done.stderr)
        done = run_cli("serve", "--match", "x", "--check",
                       env=harness.clean_env(LD_LIBRARY_PATH=where))
        check(done.returncode == 1 and "install Debian's package libmicrohttpd12" in done.stderr,
              f"--check: {done.stderr}")


@test
def requests_for_one_thing_share_a_job():
    """All of 20 simultaneous requests are answered, although a fifth job would be refused."""
    with served() as target, Server(target.runtime, target.pid) as server:
        bodies = []
        threads = [threading.Thread(target=lambda: bodies.append(server.get("/debug/pprof/heap")))
                   for _ in range(20)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        check_equal(len(bodies), 20, "profiles")


@test
def the_end_leaves_nothing():
    with served() as target, Server(target.runtime, target.pid) as server:
        server.get("/metrics")
        left = children(server.process.pid)
        check(left, "there is no teller")
        raw = server.raw()
        raw.sendall(b"GET /debug/pprof/allocs?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: len(children(server.process.pid)) > len(left), "the job")
        left = children(server.process.pid)
        check_equal(server.end(), (0, ""), "end")
        check(re.match(rb"HTTP/1.1 503|$", raw.recv(100)), "no answer at the end")
        raw.close()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in left),
                   "the end of the children")
    with runtime_dir() as runtime, scratch() as where:
        done = subprocess.run(f"'{harness.CLI}' serve --match nobody --listen 127.0.0.1:0 "
                              ">/dev/full", shell=True, timeout=PATIENCE_S,
                              env=harness.clean_env(XDG_RUNTIME_DIR=runtime), capture_output=True,
                              cwd=where, check=False)
        check(done.returncode == 1 and b"could not write the output" in done.stderr,
              f"a full disk: {done}")
