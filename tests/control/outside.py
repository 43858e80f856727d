# SPDX-License-Identifier: MIT
"""Processes without an answer, and core files: their figures equal those that the socket told."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import tempfile

import harness
from harness import Failure, Skip, check, check_equal, runtime_dir, test, wait_until

# Figures that a process tells from inside alone, or that change while it is looked at.
INSIDE_ONLY = {"uptime_s", "exact", "how", "build_ns", "rss_bytes", "start_ticks"}
MAGIC = b"memctx: read from outside here."


def read(target, *options, code=0):
    """`memctx dump --json` of a pid or a core file, with the figures of threads."""
    done = harness.run_cli("dump", "--json", "--threads", "--no-symbols", *options, str(target))
    check_equal(done.returncode, code, f"exit status of dump {target}; stderr: {done.stderr}")
    return json.loads(done.stdout) if code == 0 else done.stderr


def contexts_of(dump):
    """What is resident may change under a process at rest: empty memory goes back to the kernel."""
    contexts = {}
    for context in dump["contexts"]:
        for part in (context["self"], context["total"]):
            part.pop("resident_bytes", None)
        contexts[context["id"]] = context
    return contexts


def compare(inside, outside):
    """Every context, page figure, module and thread is equal."""
    resident = [dump["totals"]["resident_bytes"] for dump in (inside, outside)]
    check(abs(resident[0] - resident[1]) < 2 << 20, f"resident bytes: {resident}")
    one, other = contexts_of(inside), contexts_of(outside)
    check_equal(set(other), set(one), "ids of contexts")
    for number, context in one.items():
        check_equal(other[number], context, f"context {number}")
    for key in set(inside) - INSIDE_ONLY - {"contexts", "ledger", "totals", "threads"}:
        check_equal(outside[key], inside[key], key)
    for key in ("segments_mapped", "pages_reserved", "mixed_reserved", "mixed_block_bytes",
                "segment_headers", "metadata_used", "untouched_bytes"):
        check_equal(outside["ledger"][key], inside["ledger"][key], f"ledger: {key}")
    check_equal([thread["tid"] for thread in outside["threads"]],
                [thread["tid"] for thread in inside["threads"]], "threads")


PYTHON = ("import sys, threading\n"
          "kept = [bytes(i % 3000) for i in range(20000)] + [bytearray(3 << 20), bytearray(700000)]\n"
          "del kept[5:15000:2]\n"
          "def work(): kept.extend([i] for i in range(5000))\n"
          "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
          "print('ready', flush=True)\n"
          "sys.stdin.read()\n")


def start_python(directory, **env):
    target = harness.Target(["/usr/bin/python3", "-c", PYTHON], directory, **env)
    try:
        check_equal(target.hear(60), "ready", "what the program said")
    except BaseException:
        target.kill()
        raise
    return target


@test
def outside_equals_inside():
    """A process at rest has the same figures on its socket, from outside and while it is stopped."""
    with runtime_dir() as directory, start_python(directory, MEMCTX_CONTROL="eager") as target:
        target.wait_socket()
        inside = target.dump("--threads", "--no-symbols")
        check("how" not in inside, "the socket was not asked")
        outside = read(target.pid, "--outside")
        check("--outside asked" in outside["how"], outside["how"])
        check_equal(outside["exact"], False, "exact while the process runs")
        compare(inside, outside)
        target.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: harness.read_status(target.pid, "State").startswith("T"), "the stop")
        stopped = read(target.pid)
        check("is stopped" in stopped["how"], stopped["how"])
        check_equal(stopped["exact"], True, "exact while the process is stopped")
        compare(inside, stopped)
        for verb in (["mark", "x"], ["trim"]):
            done = harness.run_cli(verb[0], str(target.pid), *verb[1:])
            check("is stopped" in done.stderr and done.returncode == 1, f"{verb}: {done.stderr}")
        for verb in ("doctor", "frag"):
            done = harness.run_cli(verb, str(target.pid))
            check_equal(done.returncode, 0, f"{verb} of a stopped process; {done.stderr}")
        target.process.send_signal(signal.SIGCONT)


@test
def outside_without_socket():
    """Without a control thread, and in a program that never allocates again, there are figures."""
    with runtime_dir() as directory:
        with start_python(directory, MEMCTX_CONTROL="off") as target:
            dump = read(target.pid)
            check("MEMCTX_CONTROL=off" in dump["how"], dump["how"])
            check(dump["totals"]["requested_bytes"] > 20 << 20, f"too few bytes: {dump['totals']}")
        with harness.Target(["sleep", "60"], directory) as target:
            wait_until(lambda: "libmemctx" in open(f"/proc/{target.pid}/maps", encoding="ascii").read(),
                       "the library")
            wait_until(lambda: "too young" not in read(target.pid)["how"], "the reason of an older process")
            how = read(target.pid)["how"]
            check("has not started" in how, f"the reason: {how}")


def start_sandboxed(argv, directory):
    bwrap = shutil.which("bwrap")
    words = [bwrap, "--dev-bind", "/", "/", "--unshare-all", "--"] if bwrap else \
        ["unshare", "-U", "-r", "-i", "-n", "-u", "--"]
    return harness.Target([*words, *argv], directory, preload=False)


@test
def outside_in_a_sandbox():
    """A process in namespaces of its own (bwrap, else unshare), without a socket, is read."""
    with runtime_dir() as directory:
        program = ["env", f"LD_PRELOAD={harness.LIB}", "MEMCTX_CONTROL=off", "/usr/bin/python3", "-c",
                   PYTHON.replace("'ready'", "'ready', flush=True) or print(len(kept)")]
        with start_sandboxed(program, directory) as target:
            try:
                target.hear(60)
            except Failure as failure:
                raise Skip(f"no sandbox here: {failure}") from failure
            inner = [int(name) for name in os.listdir("/proc") if name.isdigit()
                     and is_below(int(name), target.pid) and "libmemctx" in maps_of(int(name))]
            check(inner, "no process with the library")
            check(read(inner[-1])["totals"]["requested_bytes"] > 20 << 20, "too few bytes")


def maps_of(pid):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def is_below(pid, ancestor):
    while pid > 1 and pid != ancestor:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return pid == ancestor


@test
def outside_forbidden():
    """A user reads no memory of another user's process, stopped or not."""
    if os.geteuid() != 0:
        raise Skip("needs root, to be another user")
    with runtime_dir() as directory, start_python(directory, MEMCTX_CONTROL="off") as target:
        for options in ([], ["--outside"]):
            done = harness.run_program([harness.public_copy(harness.CLI), "dump", *options, str(target.pid)],
                                       harness.clean_env(), uid=harness.NOBODY)
            check(done.returncode == 4 and "run memctx as" in done.stderr,
                  f"{options}: {done.returncode} {done.stderr}")


# --- core files -------------------------------------------------------------------------------


def core_of(target, directory):
    """Kill the target so that the kernel writes its core; return the file's path."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if "/" in pattern or pattern.startswith("|") or "%" in pattern:
        return gcore_of(target, directory)
    where = os.readlink(f"/proc/{target.pid}/cwd")
    resource.prlimit(target.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    target.process.send_signal(signal.SIGSEGV)
    target.process.wait(60)
    for name in ("core", f"core.{target.pid}"):
        if os.path.exists(os.path.join(where, name)):
            path = os.path.join(directory, f"core.{target.pid}")
            shutil.move(os.path.join(where, name), path)
            return path
    raise Skip("the kernel wrote no core file here")


def gcore_of(target, directory):
    if not shutil.which("gcore"):
        raise Skip("core files go elsewhere here, and there is no gcore")
    done = harness.run_program(["gcore", "-o", os.path.join(directory, "core"), str(target.pid)],
                               harness.clean_env())
    path = os.path.join(directory, f"core.{target.pid}")
    if not os.path.exists(path):
        raise Skip(f"gcore may not trace here: {done.stderr[-200:]}")
    return path


@test
def core_equals_socket():
    """The core file of a python3 that ended by SIGSEGV has the figures that the socket told before."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with start_python(directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            inside = target.dump("--threads", "--no-symbols")
            core = core_of(target, place)
        outside = read(core)
        check_equal(outside["how"], f"read from the core file {core}", "how")
        check_equal((outside["exact"], outside["pid"]), (True, target.pid), "exact, pid")
        compare(inside, outside)
        saved = os.path.join(place, "saved.memctx")
        for verb in (["doctor", core], ["frag", core], ["dump", core, "-o", saved], ["diff", core, saved],
                     ["dump", saved], ["dump", "--flat", core], ["export", core, "--folded", "-"]):
            done = harness.run_cli(*verb)
            check_equal(done.returncode, 0, f"{verb}; {done.stderr}")
        text = harness.run_cli("dump", saved).stdout
        check(f"read from the core file {core}" in text, "a snapshot of a core does not say so")
        for verb in (["mark", core, "x"], ["top", core]):
            check_equal(harness.run_cli(*verb).returncode, 1, f"exit status of {verb}")


@test
def core_of_redis():
    """The core file of redis-server, which was busy with commands before."""
    server = shutil.which("redis-server")
    if not server:
        raise Skip("no redis-server")
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        argv = [server, "--port", "0", "--save", "", "--dir", place, "--unixsocket", os.path.join(place, "redis.sock")]
        with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            wait_until(lambda: "Server initialized" in target.hear(60), "redis")
            core = core_of(target, place)
            outside = read(core)
        check(outside["totals"]["requested_bytes"] > 500000, f"totals: {outside['totals']}")
        check_equal(outside["exact"], True, "exact")
        harness.check_sums(outside)


def small_core(directory, place):
    with harness.Target(["sleep", "60"], directory) as target:
        wait_until(lambda: harness.run_cli("dump", str(target.pid)).returncode == 0, "a dump")
        path = core_of(target, place)
    with open(path, "rb") as file:
        return bytearray(file.read())


def spoil(core, root, rng):
    """One damage of each kind in turn: cut, headers, notes, the root, bytes and pointers of tables."""
    kind = rng.choice(["cut", "head", "notes", "root", "bytes", "words"])
    if kind == "cut":
        return kind, core[:rng.randrange(len(core))]
    core = bytearray(core)
    if kind == "words":
        for _ in range(rng.randint(1, 300)):
            at = rng.randrange(root & ~0xfffff, len(core) - 8) & ~7
            value = struct.unpack_from("<Q", core, at)[0]
            wild = [0, 2**64 - 1, 2**63, (value + 8) % 2**64, value ^ 4096, rng.getrandbits(64)]
            struct.pack_into("<Q", core, at, rng.choice(wild))
        return kind, core
    first, end, most = {"head": (0, 4096, 20), "notes": (0, 16384, 20), "bytes": (0, len(core), 3000),
                        "root": (root + len(MAGIC), root + 1400, 3)}[kind]
    for _ in range(rng.randint(1, most)):
        core[rng.randrange(first, end)] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    return kind, core


@test
def core_damaged():
    """Damaged core files give figures or a message, in little time, and never a crash."""
    rounds = int(os.environ.get("MEMCTX_TEST_CORES", "60"))
    rng = random.Random(int(os.environ.get("MEMCTX_TEST_SEED", "1")))
    seen = set()
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        core = small_core(directory, place)
        root = core.find(MAGIC)
        check(root > 0, "the core has no root")
        path = os.path.join(place, "core.spoilt")
        for number in range(rounds):
            kind, spoilt = spoil(core, root, rng)
            with open(path, "wb") as file:
                file.write(spoilt)
            done = harness.run_cli("dump", "--json", "--threads", "--no-symbols", path, timeout_s=60)
            check(done.returncode in (0, 1, 3), f"round {number}, {kind}: {done.returncode} {done.stderr}")
            check("damaged answer" not in done.stderr, f"round {number}, {kind}: {done.stderr}")
            check((done.returncode == 0) == (done.stdout != ""), f"round {number}, {kind}: half an answer")
            seen.add((kind, done.returncode))
        check(len({code for _, code in seen}) > 1, f"all cores ended alike: {seen}")


@test
def core_without_tables():
    """What is missing is said: other layouts, and a core without anonymous memory."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        core = small_core(directory, place)
        path = os.path.join(place, "core.other")
        core[core.find(MAGIC) + 32] = 99
        with open(path, "wb") as file:
            file.write(core)
        check("tables have layout 99" in read(path, code=1), "another layout")
        with harness.Target(["sleep", "60"], directory) as target:
            wait_until(lambda: harness.run_cli("dump", str(target.pid)).returncode == 0, "a dump")
            with open(f"/proc/{target.pid}/coredump_filter", "w", encoding="ascii") as file:
                file.write("0")
            path = core_of(target, place)
        check("coredump_filter" in read(path, code=1), "a core without anonymous memory")
