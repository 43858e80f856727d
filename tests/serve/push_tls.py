# SPDX-License-Identifier: MIT
"""memctx push over TLS: authorities that it trusts, a certificate of its own, files of both."""
import os
import re
import shutil
import ssl
import subprocess

from clients import scratch, write
from harness import CLI, PATIENCE_S, Skip, check, check_equal, run_cli, test
from pushes import push, sink
from serving import served


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=PATIENCE_S)


class Authority:
    """An authority of this test, with a certificate in the file `path`."""

    def __init__(self, where, name):
        self.where, self.path, self.key = where, f"{where}/{name}.pem", f"{where}/{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.key, "-out", self.path, "-subj", f"/CN={name}", "-addext",
                "keyUsage=critical,keyCertSign")

    def text(self):
        with open(self.path, encoding="ascii") as file:
            return file.read()

    def sign(self, name):
        """Makes a key and a certificate for a name; returns the files (certificate, key)."""
        stem = f"{self.where}/{name}-of-{os.path.basename(self.path)}"
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                stem + ".key", "-out", stem + ".csr", "-subj", f"/CN={name}")
        write(stem + ".ext", f"subjectAltName=DNS:{name}\nbasicConstraints=CA:FALSE\n")
        openssl("x509", "-req", "-in", stem + ".csr", "-CA", self.path, "-CAkey", self.key,
                "-set_serial", "1", "-extfile", stem + ".ext", "-out", stem + ".crt")
        os.chmod(stem + ".key", 0o600)
        return stem + ".crt", stem + ".key"


def context_of(files, clients=None):
    """What a server of these files (certificate, key) speaks. It takes only clients with a
    certificate of the authority `clients`, if one is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    if clients:
        context.load_verify_locations(clients.path)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def port_of(url):
    return url.rsplit(":", 1)[1]


def sends(target, *words):
    """Pushes once; returns (exit code, stdout, stderr)."""
    done = push(target, target.pid, "--once", *words)
    return done.returncode, done.stdout, done.stderr


SENT = (0, "sent 1, retried 0, dropped 0, failed 0\n", "")
FAILED = (1, "sent 0, retried 3, dropped 0, failed 1\n")


@test
def a_private_authority_is_trusted():
    """The server's certificate is of an authority that the system does not know."""
    with served() as target, scratch() as where:
        right, wrong = Authority(where, "right"), Authority(where, "wrong")
        # The file of all authorities of a Debian system has some 220 KB.
        both = write(f"{where}/both.pem", 500 * wrong.text() + right.text())
        check(os.path.getsize(both) > 220000, "a file as large as that of a system")
        with sink(tls=context_of(right.sign("localhost"))) as (url, got):
            named = f"https://localhost:{port_of(url)}"
            for trusted in (right.path, both):
                words = ["--pyroscope", named, "--ca-file", trusted]
                check_equal(sends(target, *words), SENT, trusted)
            check_equal([path.split("?")[0] for _, path, *_ in got], ["/ingest"] * 2, "requests")
            for words in ((named, "--ca-file", wrong.path), (named,),
                          (f"https://127.0.0.1:{port_of(url)}", "--ca-file", right.path)):
                code, out, errors = sends(target, "--pyroscope", *words)
                check_equal((code, out), FAILED, f"{words}: {errors}")
                # libcurl's text depends on the library for TLS with which it was built
                check(re.search("no answer from the server; .*(certificate|subject name)", errors),
                      f"{words}: {errors}")
            check_equal(len(got), 2, "requests in the end")


@test
def a_server_may_ask_for_a_certificate():
    with served() as target, scratch() as where:
        servers, clients, others = (Authority(where, name) for name in ("one", "two", "three"))
        with sink(tls=context_of(servers.sign("localhost"), clients)) as (url, got):
            words = ["--parca", f"https://localhost:{port_of(url)}", "--ca-file", servers.path]
            certificate, key = clients.sign("host-1")
            other, other_key = others.sign("host-1")
            check_equal(sends(target, *words, "--cert", certificate, "--key", key), SENT, "sent")
            check_equal(len(got), 1, "requests")
            for own in ([], ["--cert", other, "--key", other_key],
                        ["--cert", certificate, "--key", other_key]):
                code, out, errors = sends(target, *words, *own)
                check_equal((code, out), FAILED, f"{own}: {errors}")
                check("no answer from the server; " in errors, f"{own}: {errors}")
            check_equal(len(got), 1, "requests in the end")


@test
def files_of_tls_that_cannot_be_used():
    """Each mistake has a message before the first request, also with --check."""
    with scratch() as where:
        authority = Authority(where, "authority")
        certificate, key = authority.sign("localhost")
        locked, pipe = f"{where}/locked.key", f"{where}/pipe"
        openssl("pkey", "-in", key, "-aes256", "-passout", "pass:1234", "-out", locked)
        os.mkfifo(pipe)
        with open(certificate, encoding="ascii") as file:
            der = ssl.PEM_cert_to_DER_cert(file.read())
        with open(f"{where}/der", "wb") as file:
            file.write(der)
        text = write(f"{where}/text", "nothing\n")
        for words, message in (
                (["--ca-file", f"{where}/none"], "--ca-file: cannot read"),
                (["--ca-file", where], "is a directory"),
                (["--ca-file", "/dev/zero"], "is a device"),
                (["--ca-file", pipe], "is a pipe, but each connection reads it anew"),
                (["--ca-file", text], "has no certificate in PEM"),
                (["--ca-file", f"{where}/der"], "is not text"),
                (["--ca-file", key], "has no certificate in PEM"),
                (["--cert", certificate], "--cert and --key need each other"),
                (["--key", key], "--cert and --key need each other"),
                (["--cert", certificate, "--key", certificate], "has no key in PEM"),
                (["--cert", key, "--key", key], "has no certificate in PEM"),
                (["--cert", certificate, "--key", locked], "needs a password")):
            done = run_cli("push", "--all", "--check", "--otlp", "https://localhost:1", *words)
            check_equal((done.returncode, done.stdout), (2, ""), f"{words}: {done.stderr}")
            check(message in done.stderr, f"{words}: {done.stderr}")
        for words in (["--ca-file", authority.path], ["--cert", certificate, "--key", key]):
            done = run_cli("push", "--all", "--check", "--otlp", "http://localhost:1", *words)
            check(done.returncode == 2 and "needs a URL that begins with https://" in done.stderr,
                  f"{words}: {done.stderr}")
            done = run_cli("push", "--all", "--check", "--otlp", "https://localhost:1", *words)
            check_equal((done.returncode, done.stderr), (0, ""), f"{words} are good")


@test
def the_authorities_of_the_system_do_not_count_beside_a_file():
    """A mount of this test makes its authority one of the system's. With --ca-file, only the
    authorities in that file count."""
    if os.geteuid() != 0:
        raise Skip("root is needed to mount a directory over /etc/ssl/certs")
    with served() as target, scratch() as where:
        system, other = Authority(where, "system"), Authority(where, "other")
        os.mkdir(f"{where}/certs")
        shutil.copy(system.path, f"{where}/certs/ca-certificates.crt")
        digest = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", system.path],
                                check=True, capture_output=True, text=True, timeout=PATIENCE_S)
        os.symlink("ca-certificates.crt", f"{where}/certs/{digest.stdout.strip()}.0")
        mount = ["unshare", "--mount", "sh", "-c",
                 f'mount --bind {where}/certs /etc/ssl/certs && exec "$@"', "sh", CLI, "push"]
        with sink(tls=context_of(system.sign("localhost"))) as (url, _):
            words = [str(target.pid), "--once", "--otlp", f"https://localhost:{port_of(url)}"]
            for own, want in (([], SENT[:2]), (["--ca-file", other.path], FAILED)):
                done = subprocess.run([*mount, *words, *own], env=target.cli_env, text=True,
                                      capture_output=True, timeout=PATIENCE_S, check=False)
                if done.returncode == 1 and "unshare" in done.stderr:
                    raise Skip(done.stderr)
                check_equal((done.returncode, done.stdout), want, f"{own}: {done.stderr}")
