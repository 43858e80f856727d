# SPDX-License-Identifier: MIT
"""Workloads that are servers: starts each, loads it with a client, reads its figures, ends it."""

import contextlib
import dataclasses
import json
import os
import pwd
import re
import shutil
import signal
import statistics
import subprocess
import time

import launcher

PG_BIN = "/usr/lib/postgresql/15/bin"


class Server:
    """A server that the measuring program runs."""

    def __init__(self, site, peer, workload, command, **how):
        words = launcher.measure_command(site, peer, workload, command, **how)
        self.site = site
        self.env = site.environment(peer, workload)
        self.process = subprocess.Popen(words, env=self.env, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("pid "):
            self.process.kill()
            raise launcher.RunError("the server was not started")
        self.pid = int(line.split()[1])

    def wait_until(self, ready, seconds=20):
        """Polls until ready() is true. Raises RunError if the server ends or is not ready in
        time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                launcher.parse_runs(self.process.stdout.read())
                raise launcher.RunError("the server ended before its load")
            if ready():
                return
            time.sleep(0.02)
        raise launcher.RunError(f"the server was not ready within {seconds} s")

    @contextlib.contextmanager
    def under_load(self):
        """If a client fails because the server died, reports how the server ended, not the client's
        error."""
        try:
            yield
        except launcher.RunError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
                launcher.parse_runs(self.process.stdout.read())
            raise error

    def resident_kib(self):
        """The server's resident memory."""
        found = re.search(r"VmRSS:\s+(\d+) kB", launcher.read_text(f"/proc/{self.pid}/status"))
        if not found:
            raise launcher.RunError("the server died under load")
        return int(found.group(1))

    def check_mapped(self, peer):
        """Checks that the process has mapped the allocator under test."""
        name = os.path.basename(peer.preload).split(".so")[0]
        if name and name not in launcher.read_text(f"/proc/{self.pid}/maps"):
            raise launcher.RunError(f"{name} is not mapped in the server")

    def end(self):
        """Waits for the end of the server, which was told to end, and returns its figures."""
        try:
            output, _ = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired as late:
            raise launcher.RunError("the server did not end when told to") from late
        return launcher.parse_runs(output)[0]

    def kill(self):
        """Ends the measuring program, if it still runs; that program kills the server."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        self.process.stdout.close()


def call(words, what, timeout=60, **more):
    """Runs a client and returns its standard output. Raises RunError if the client fails."""
    try:
        run = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False,
                             **more)
    except subprocess.TimeoutExpired as late:
        raise launcher.RunError(f"{what} did not end within {timeout} s") from late
    if run.returncode != 0:
        raise launcher.RunError(f"{what}: exit status {run.returncode}: "
                                f"{(run.stderr or run.stdout).strip()[-200:]}")
    return run.stdout


def load_redis(socket):
    """Loads redis with strings, hashes, lists and sets: 20 clients, 16 commands at a time."""
    for test, size, count in (("set", "100", "250000"), ("hset", "60", "150000"),
                              ("lpush,rpop,sadd,get", "200", "100000")):
        text = call(["redis-benchmark", "-s", socket, "-t", test, "-n", count, "-d", size,
                     "-r", "100000", "-P", "16", "-c", "20", "-q"], "redis-benchmark")
        if "ERR" in text or text.count("requests per second") != len(test.split(",")):
            raise launcher.RunError("redis-benchmark: " + text.strip()[-200:])


def run_redis(site, peer, workload):
    """redis-server: 800 000 pipelined commands, a check of the keys, shutdown.

    Debian's redis-server is linked with jemalloc. For the baseline libc.so.6 is preloaded, whose
    malloc then comes first.
    """
    socket = os.path.join(site.tmp, "redis.sock")
    preload = {"glibc": "libc.so.6", "heaptrack": peer.preload + ":libc.so.6"}.get(peer.name)
    command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly",
               "no", "--dir", site.tmp, "--daemonize", "no"]
    cli = ["redis-cli", "-s", socket]

    def ready():
        run = subprocess.run([*cli, "ping"], capture_output=True, text=True, timeout=10,
                             check=False)
        return run.stdout == "PONG\n"

    server = Server(site, peer, workload, command, preload=preload)
    try:
        server.wait_until(ready)
        server.check_mapped(peer)
        with server.under_load():
            load_redis(socket)
            if not 80000 < int(call([*cli, "dbsize"], "redis-cli")) < 110000:
                raise launcher.RunError("redis has lost keys")
            resident = server.resident_kib()
        subprocess.run([*cli, "shutdown", "nosave"], capture_output=True, timeout=10, check=False)
        sample = server.end()
    finally:
        server.kill()
    launcher.check_preload(site)
    sample.end_rss_kib = resident
    sample.value = sample.user_s + sample.system_s
    return sample


def postgres_user():
    """The user to run postgres, which refuses to run as root. None: the caller."""
    if os.getuid() != 0:
        return None
    entry = pwd.getpwnam("postgres")
    return entry.pw_uid, entry.pw_gid


def create_cluster(site, data, user, scale=3):
    """Creates a cluster with pgbench's tables, without a preloaded library."""
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": site.tmp}
    become = []
    if user is not None:
        become = ["setpriv", f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups"]
    os.makedirs(data, mode=0o700)
    if user is not None:
        os.chown(data, *user)
    try:
        call([*become, f"{PG_BIN}/initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N"],
             "initdb", env=env, cwd=data)
        call([*become, f"{PG_BIN}/pg_ctl", "-D", data, "-w", "-l", f"{data}/log", "-o",
              f"-c listen_addresses= -c unix_socket_directories={data} -c fsync=off", "start"],
             "pg_ctl start", env=env, cwd=data)
        try:
            call(["pgbench", "-h", data, "-U", "postgres", "-i", "-q", "-s", str(scale),
                  "postgres"],
                 "pgbench -i", env=env)
        finally:
            call([*become, f"{PG_BIN}/pg_ctl", "-D", data, "-m", "fast", "-w", "stop"],
                 "pg_ctl stop", env=env, cwd=data)
    except launcher.RunError:
        shutil.rmtree(data)
        raise


def run_postgres(site, peer, workload):
    """postgres: 2 clients, 24 000 selects, each parsed and planned. Value: CPU time of all
    processes."""
    data = os.path.join(site.tmp, "cluster")
    user = postgres_user()
    transactions = 12000
    if not os.path.exists(data):
        create_cluster(site, data, user)
    command = [f"{PG_BIN}/postgres", "-D", data, "-c", "listen_addresses=", "-c",
               f"unix_socket_directories={data}", "-c", "fsync=off", "-c", "autovacuum=off", "-c",
               "shared_buffers=64MB", "-c", "max_connections=20"]

    def ready():
        return subprocess.run(["pg_isready", "-q", "-h", data, "-U", "postgres"], timeout=10,
                              check=False).returncode == 0

    server = Server(site, peer, workload, command, user=user)
    try:
        server.wait_until(ready)
        server.check_mapped(peer)
        with server.under_load():
            text = call(["pgbench", "-h", data, "-U", "postgres", "-n", "-S", "-c", "2", "-j", "1",
                         "-t", str(transactions), "--random-seed=1", "postgres"], "pgbench")
            if f"processed: {2 * transactions}/{2 * transactions}" not in text:
                raise launcher.RunError("pgbench: " + text.strip()[-200:])
            resident = server.resident_kib()
        os.kill(server.pid, signal.SIGINT)
        sample = server.end()
    except Exception:
        # Processes that were killed may hold the cluster's shared memory, so a later run needs
        # another cluster.
        shutil.rmtree(data, ignore_errors=True)
        raise
    finally:
        server.kill()
    launcher.check_preload(site)
    if found := re.search(r"terminated by signal \d+|PANIC:.*", launcher.read_text(site.stderr)):
        raise launcher.RunError("postgres: " + found.group(0))
    sample.end_rss_kib = resident
    sample.value = sample.user_s + sample.system_s
    return sample


def run_dump(site, peer, workload):
    """`memctx dump --json --no-symbols` of a process with 10 000 contexts. Value: median of five,
    in ms."""
    command = ["out/release/memctx", "dump", "--json", "--no-symbols"]
    server = Server(site, peer, workload, site.expand(workload.command))
    try:
        server.wait_until(lambda: launcher.read_text(site.stdout) == "ready\n")
        socket = os.path.join(site.runtime, "memctx", f"{server.pid}.sock")
        server.wait_until(lambda: os.path.exists(socket))
        command.append(str(server.pid))
        tree = json.loads(call(command, "memctx dump", env=server.env))
        with_chunks = sum(1 for context in tree["contexts"] if context["self"]["live_chunks"])
        if with_chunks < 10000:
            raise launcher.RunError(f"the dump has {with_chunks} contexts with chunks, not 10 000")
        times_ms = []
        for _ in range(5):
            start = time.monotonic()
            run = subprocess.run(command, env=server.env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, timeout=30, check=False)
            times_ms.append((time.monotonic() - start) * 1000)
            if run.returncode != 0:
                raise launcher.RunError(f"memctx dump: exit status {run.returncode}")
        resident = server.resident_kib()
    finally:
        server.kill()
    return launcher.Sample(wall_s=statistics.median(times_ms) / 1000, end_rss_kib=resident,
                           peak_rss_kib=resident, value=statistics.median(times_ms))


def under_dumps(site, peer, program):
    """Runs the program while `memctx dump` reads it ten times a second; returns its sample."""
    site.clear()
    server = Server(site, peer, program, site.expand(program.command))
    command = ["out/release/memctx", "dump", "--json", "--no-symbols", str(server.pid)]
    dumps, next_s = 0, time.monotonic()
    try:
        while server.process.poll() is None:
            time.sleep(max(0.0, next_s - time.monotonic()))
            next_s = max(next_s + 0.1, time.monotonic())
            run = subprocess.run(command, env=server.env, capture_output=True, timeout=30,
                                 check=False)
            dumps += run.returncode == 0
        sample = launcher.parse_runs(server.process.stdout.read())[0]
    finally:
        server.kill()
    launcher.take_value(site, program, sample)
    if dumps < 10:
        raise launcher.RunError(f"{dumps} dumps only")
    return sample


def run_dumped(site, peer, workload):
    """The program's time with dumps divided by its time without. Medians of three runs each, in
    turn."""
    program = dataclasses.replace(workload, measure="ns", server="")
    alone, dumped = [], []
    for _ in range(3):
        site.clear()
        alone.append(launcher.run_program(site, peer, program).value)
        sample = under_dumps(site, peer, program)
        dumped.append(sample.value)
    sample.value = statistics.median(dumped) / statistics.median(alone)
    sample.digest = ""
    return sample


def run_path(site, peer, workload):
    """The cost of a call path: the time of the program's loop minus its time without call paths.
    With the measure "times", the value is the time of libunwind divided by that cost."""
    times = {0: [], 32: []}
    for depth in (0, 32, 0, 32, 0, 32):
        site.clear()  # the measuring program appends to the output
        words = launcher.measure_command(site, peer, workload, site.expand(workload.command))
        env = {**site.environment(peer, workload), "MEMCTX_DEPTH": str(depth)}
        run = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60,
                             check=False)
        sample = launcher.parse_runs(run.stdout)[0]
        times[depth].append(re.findall(r"([\d.]+)", launcher.read_text(site.stdout)))
    medians = {depth: [statistics.median(float(figures[i]) for figures in runs) for i in range(2)]
               for depth, runs in times.items()}
    cost = max(medians[32][0] - medians[0][0], 0.01)
    sample.value = cost if workload.measure == "ns" else medians[32][1] / cost
    return sample


def run_near(site, peer, workload):
    """The library's paths_near_permille at the program's end, in per cent."""
    sample = launcher.run_program(site, peer, workload)
    found = re.search(r"^paths_near_permille\t(\d+)", launcher.read_text(site.stderr), re.M)
    if not found:
        raise launcher.RunError("the library gave no figures at the end")
    sample.value = int(found.group(1)) / 10
    return sample
