# SPDX-License-Identifier: MIT
"""doctor of redis, python3 and PostgreSQL with a planted fault or a past peak."""
import contextlib
import glob
import os
import pwd
import random
import signal
import subprocess

import harness
from harness import Skip, Target, check, check_equal, run_cli, runtime_dir, test
from cases import redis
from planted import ALARMING, doctor, names, check_first


@test
def redis_with_holes():
    """After nine of ten keys of redis are deleted at random, doctor finds nearly empty pages."""
    dice = random.Random(1)
    with redis() as (target, ask):
        for first in range(0, 300000, 1000):
            ask([b"SET key:%d %s\r\n" % (i, b"v" * (100 + i % 100))
                 for i in range(first, first + 1000)], 1000)
        gone = [i for i in range(300000) if dice.random() < 0.9]
        dice.shuffle(gone)
        for first in range(0, len(gone), 1000):
            part = gone[first:first + 1000]
            ask([b"DEL key:%d\r\n" % i for i in part], len(part))
        found = doctor(target)
        told = run_cli("doctor", target.pid, env=target.cli_env).stdout.replace("\n", " ")
        # Debian's redis-server is a link to redis-check-rdb; the text must have the name
        # redis-server.
        check("(setCommand, redis-server" in told and "redis-check-rdb" not in told, told)
        check_first(found, "nearly-empty-pages", "setCommand")
        check(names(found["findings"][0], "sdsResize"),
              f"not the values' path: {found['findings'][0]['path']}")
        return found["findings"][0]["evidence"]


PYTHON_HOLES = """
import random, sys
dice = random.Random(1)
table = {i: "value %d " % i * 8 for i in range(600000)}
for key in list(table):
    if dice.random() < .93:
        del table[key]
print("look", flush=True)
sys.stdin.readline()
"""


@test
def python3_with_a_dict_shrunk():
    argv = ["/usr/bin/python3", "-c", PYTHON_HOLES]
    with runtime_dir() as directory, Target(argv, directory, MEMCTX_CONTROL="eager",
                                            PYTHONMALLOC="malloc") as target:
        target.hear()
        found = doctor(target)
        check_first(found, "nearly-empty-pages", "_PyEval_EvalFrameDefault")
        check_equal(found["findings"][0]["severity"], "critical", "how bad it is")
        return found["findings"][0]["evidence"]


@contextlib.contextmanager
def postgres_backend():
    """Starts a preloaded postgres with a psql session; yields the session and the pid of its
    backend."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        raise Skip("postgresql is not installed")
    owner = None  # postgres refuses to run as root
    if os.getuid() == 0:
        try:
            owner = pwd.getpwnam("postgres").pw_uid
        except KeyError:
            owner = harness.NOBODY
    with runtime_dir(owner) as directory:
        data, env = os.path.join(directory, "data"), harness.clean_env(HOME=directory, LC_ALL="C")
        done = harness.run_program([f"{programs[-1]}/initdb", "-D", data, "-A", "trust", "-U",
                                    "tester", "-N"], env, uid=owner)
        check_equal(done.returncode, 0, f"initdb: {done.stderr}")
        server = [f"{programs[-1]}/postgres", "-D", data, "-k", directory, "-c",
                  "listen_addresses=", "-c", "fsync=off",
                  "-c", "max_parallel_workers_per_gather=0", "-c", "shared_buffers=16MB", "-c",
                  "jit=off"]
        preload = {"LD_PRELOAD": harness.public_copy(harness.LIB) if owner is not None
                   else harness.LIB}
        with open(os.path.join(directory, "log"), "w", encoding="utf-8") as log, subprocess.Popen(
                server, env={**env, **preload, "XDG_RUNTIME_DIR": directory,
                             "MEMCTX_CONTROL": "eager"}, cwd="/",
                stdout=log, stderr=log, **harness.as_user(owner)) as process:
            try:
                # The server creates its socket before it is ready.
                ready = [f"{programs[-1]}/pg_isready", "-q", "-h", directory]
                harness.wait_until(lambda: harness.run_program(ready, env).returncode == 0,
                                   "postgres", 60)
                psql = [f"{programs[-1]}/psql", "-X", "-h", directory, "-U", "tester", "-d",
                        "postgres", "-Atq"]
                with Target(psql, directory, preload=False, LC_ALL="C") as session:
                    backend = int(session.ask("select pg_backend_pid();"))
                    yield session, backend
            finally:
                process.send_signal(signal.SIGINT)


@test
def postgres_after_a_large_sort():
    """After a sort whose memory has gone back, doctor names the past peak and its function, without
    an alarm."""
    with postgres_backend() as (session, backend):
        session.say("set work_mem = '600MB';")
        before = harness.rss_kib(backend)
        rows = session.ask("select count(*) from (select md5(g::text) as m from generate_series(1, "
                           "1500000) g order by m offset 1) s;", 120)
        check_equal(rows, "1499999", "rows")
        found = doctor(session, pid=backend)
        check_first(found, "past-peak", None)
        alarms = [one for one in found["findings"] if one["severity"] in ALARMING]
        check(not alarms, f"{alarms}")
        paths = {name for one in found["findings"] for name in one["path"]}
        check(any("tuplesort" in name for name in paths),
              f"nothing of the sort is named: {found['findings']}")
        after = harness.rss_kib(backend)
        check(after < before + (40 << 10), f"resident: {before} KiB before, {after} KiB after")
        return f"{before} KiB before, {after} KiB after; {found['findings'][0]['evidence']}"


FREED_BY_MAIN = """
import queue, sys, threading
kept, wanted, made = [], queue.Queue(), queue.Queue()
def work():
    while wanted.get():
        kept.extend(bytearray(b"x") * 100000 for _ in range(1500))
        made.put(True)
threading.Thread(target=work, daemon=True).start()
for line in sys.stdin:
    if line == "make\\n":
        wanted.put(True), made.get()
    else:
        kept.clear()
    print("done", flush=True)
"""


@test
def a_peak_that_another_thread_freed():
    """The peak of a path is not known if another thread freed its chunks. Then the finding about a
    past peak names no path and says why, unless a mark shows what the path held."""
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", FREED_BY_MAIN], directory,
                                            MEMCTX_CONTROL="eager") as target:
        for marked in (False, True):
            check_equal(target.ask("make"), "done", "make")
            target.wait_socket()
            if marked:
                check_equal(run_cli("mark", target.pid, env=target.cli_env).returncode, 0, "mark")
            check_equal(target.ask("drop"), "done", "drop")
            # the memory goes back to the kernel some time after the frees
            peak = harness.wait_until(
                lambda: next((one for one in doctor(target)["findings"]
                              if one["id"] == "past-peak"), None), "the finding")
            told = "the call path is the one that shrank most" in peak["sure"]
            check_equal((bool(peak["path"]), "call path held" in peak["evidence"], told),
                        (marked, marked, marked), f"a path: {peak}")
            check_equal("a path that several threads used is not known" in peak["sure"],
                        not marked, peak["sure"])
