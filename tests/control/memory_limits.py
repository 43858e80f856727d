# SPDX-License-Identifier: MIT
"""Requests to a process that has hardly any memory left, in a full control group or without address
space, and limits of what a client may store in it."""
import contextlib
import json
import os
import re
import resource

import harness
import wire
from harness import Failure, Skip, check, check_equal, runtime_dir, test
from hostile import attacked
from wire import Wire, constant, frame
from memory import RISE_MAX_KIB, many_contexts, resident_kib, verbs


@contextlib.contextmanager
def memory_cgroup():
    """Creates a memory cgroup. Yields its directory and the names of its files for the limit and
    the usage; skips the test if there is no memory controller."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        groups = dict(line.rstrip("\n").split(":", 2)[1:] for line in file)
    candidates = [("/sys/fs/cgroup/memory" + groups.get("memory", "/"), "memory.limit_in_bytes",
                   "memory.usage_in_bytes"),
                  ("/sys/fs/cgroup" + groups.get("", "/"), "memory.max", "memory.current")]
    for parent, limit, usage in candidates:
        path = os.path.join(parent, f"memctx-test-{os.getpid()}")
        try:
            os.mkdir(path)
        except OSError:
            continue
        try:
            if os.access(os.path.join(path, limit), os.W_OK):
                yield path, limit, usage
                return
        finally:
            os.rmdir(path)
    raise Skip("no memory cgroup may be made here")


@test
def a_full_memory_cgroup():
    """A process whose cgroup has 2 MiB left survives all requests."""
    with memory_cgroup() as (path, limit, usage), many_contexts() as target:
        try:
            with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(target.pid))
            # The new group is charged only for memory that the process touches from now on.
            with open(os.path.join(path, limit), "w", encoding="ascii") as file:
                file.write(str(2 << 20))
            with runtime_dir() as directory:
                for words in verbs(target, directory)[:-2]:
                    done = harness.run_cli(*words, env=target.cli_env, timeout_s=100)
                    check(done.returncode in (0, 5),
                          f"{words}: exit {done.returncode}: {done.stderr[:300]}")
                    if target.process.poll() is not None:
                        raise Failure(f"{words}: the target was ended: {target.ending()}")
            with open(os.path.join(path, usage), encoding="ascii") as file:
                used = int(file.read())
        finally:
            with open(os.path.join(os.path.dirname(path), "cgroup.procs"), "w",
                      encoding="ascii") as file:
                file.write(str(target.pid))
    return f"{used >> 10} KiB used"


def read_number(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


LEAK = """
import select, time
kept, start = [], time.monotonic()
while not select.select([0], [], [], 0.005)[0]:
    while len(kept) < (time.monotonic() - start) * 2000:
        kept.append(bytearray(2000))
"""


@test
def a_leak_in_a_memory_cgroup():
    """doctor says when a leak reaches the limit of the cgroup, also if a parent of the cgroup has
    the limit."""
    limit_bytes = 512 << 20  # the program leaks that in two minutes
    with memory_cgroup() as (path, limit, usage), runtime_dir() as directory:
        inner = os.path.join(path, "inner")
        os.mkdir(inner)
        try:
            with harness.Target(["/usr/bin/python3", "-c", LEAK], directory, MEMCTX_CONTROL="eager",
                                MEMCTX_MARKS="100ms,16") as target:
                with open(os.path.join(path, limit), "w", encoding="ascii") as file:
                    file.write(str(limit_bytes))
                with open(os.path.join(inner, "cgroup.procs"), "w", encoding="ascii") as file:
                    file.write(str(target.pid))
                target.wait_socket()
                first = used = None

                def told():
                    """Returns the seconds until memory is used up; None: doctor has too few
                    marks."""
                    nonlocal first, used
                    before = read_number(os.path.join(path, usage))
                    done = harness.run_cli("doctor", "--json", target.pid, env=target.cli_env)
                    used = before, read_number(os.path.join(path, usage))
                    first = (json.loads(done.stdout)["findings"] or [{}])[0]
                    return first.get("out") and first["out"]["seconds"]
                harness.wait_until(told, "when memory is used up", step_s=0.3)
                target.kill()
        finally:
            harness.wait_until(lambda: not open(os.path.join(inner, "cgroup.procs"),
                                                encoding="ascii").read(), "an empty group")
            os.rmdir(inner)
    out = first["out"]
    check(out and out["limit"].startswith(f"{limit} of cgroup ") and
          out["limit"].endswith(os.path.basename(path)), f"limit: {first}")
    check_equal(out["limit_bytes"], limit_bytes, "the limit")
    # doctor's figure lies between the two readings of the usage, within 2 MiB: the kernel sums its
    # counters of each processor late.
    at_the_look = limit_bytes - out["left_bytes"]
    check(used[0] - (2 << 20) <= at_the_look <= used[1] + (2 << 20),
          f"{used} bytes were used before and after: {out}")
    check(out["seconds"] and abs(out["seconds"] - out["left_bytes"] / out["bytes_per_s"]) < 0.1,
          f"when: {first}")
    rate = first["growth"]["bytes_per_s"]
    check(rate * 0.9 < out["bytes_per_s"] < rate * 1.3, f"the rate in memory: {first}")
    return f"{out['seconds']} s"


@test
def no_address_space_left():
    """While a target can map no memory, the command prints that reason; later the target answers
    again."""
    with many_contexts(300) as target:
        size = int(harness.read_status(target.pid, "VmSize").split()[0]) << 10
        old = resource.prlimit(target.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
        try:
            for words in (["dump"], ["frag"], ["doctor"], ["mark"], ["dump", "--self"],
                          ["options"]):
                done = harness.run_cli(*words, target.pid, env=target.cli_env)
                check_equal(done.returncode, 1, f"{words} ({done.stderr})")
                check("has no memory for an answer" in done.stderr, f"{words}: {done.stderr!r}")
            shown = harness.run_cli("ps", env=target.cli_env).stdout
            check("has no memory for an answer" in shown, f"ps: {shown}")
        finally:
            resource.prlimit(target.pid, resource.RLIMIT_AS, old)
        harness.check_sums(target.dump("--no-symbols"))


def set_mark(client, name):
    return client.ask(frame(constant("WIRE_MARK"),
                            name.encode().ljust(constant("WIRE_MARK_NAME_MAX"), b"\0")))


@test
def marks_that_are_too_large():
    """A mark takes under 1 MiB: it leaves out the contexts that hold least, and says so. Marks
    beyond a bound in sum are refused."""
    with many_contexts(200000) as target, Wire(target.socket_path()) as client:
        # The mark counts from this reset on, as dumps do.
        check_equal(harness.run_cli("reset", target.pid, env=target.cli_env).returncode, 0, "reset")
        before = resident_kib(target.pid)
        status, body = set_mark(client, "m")
        rise = resident_kib(target.pid) - before
        check_equal(status, constant("WIRE_OK"), f"the mark: {body!r}")
        check("leaves out" in body.decode(), body)
        check(rise <= RISE_MAX_KIB, f"a mark takes {rise} KiB")
        left_out, most, left_bytes = (int(word or 0) for word in re.search(
            r"leaves out (\d+) contexts that hold "
            r"(?:nothing|at most (\d+) bytes each, (\d+) bytes)",
            body.decode()).groups())
        name = b"m".ljust(constant("WIRE_MARK_NAME_MAX"), b"\0")
        entries = sum(wire.get(piece, "wire_piece.count")
                      for piece in client.pieces("ENTRIES", mark=name))
        diff = json.loads(harness.run_cli("diff", target.pid, "m", "--json", "--no-symbols",
                                          env=target.cli_env).stdout)
        check_equal(diff["left_out"], {"contexts": left_out, "most_bytes": most,
                                       "requested_bytes": left_bytes}, "left out")
        growth = diff["totals"]["growth"]
        check_equal((diff["contexts"], growth["requested_bytes"], growth["allocs"]), ([], 0, 0),
                    "growth of nothing")
        for _ in range(3):
            target.say("more")
            check_equal(target.hear(), "made", "the target's answer")
        diff = json.loads(harness.run_cli("diff", target.pid, "m", "--json", "--no-symbols",
                                          env=target.cli_env).stdout)
        growth = [row["growth"]["requested_bytes"] for row in diff["contexts"]]
        check(most < 64, f"what holds {most} bytes was left out")
        check(len(growth) > 1000, f"{len(growth)} contexts grew or shrank")
        # The mark did not leave out contexts that it could not know.
        fresh = [row for row in diff["contexts"]
                 if row["before"]["requested_bytes"] == row["before"]["live_chunks"] == 0]
        check(len(fresh) > 1000, f"{len(fresh)} contexts are newer than the mark")
        # The contexts' growth adds up to the growth of the totals, but for the contexts that the
        # mark left out.
        total = diff["totals"]["growth"]["requested_bytes"]
        check(sum(growth) - left_bytes <= total <= sum(growth) + left_out * most,
              f"{total} of {sum(growth)}")
    return f"{entries} contexts in {rise} KiB, {left_out} of at most {most} bytes each left out"


def reset_all(client):
    status, body = client.ask(frame(constant("WIRE_RESET"), wire.struct_bytes(
        "wire_reset_request", context=constant("WIRE_NONE"))))
    return status, body.decode()


def set_marks(client):
    """Sets WIRE_MARKS_MAX marks, or fewer if one is refused; returns status and text of the last
    answer."""
    for number in range(constant("WIRE_MARKS_MAX")):
        status, body = set_mark(client, f"mark-{number}")
        if status != constant("WIRE_OK"):
            break
    return status, body.decode()


@test
def marks_and_resets_have_a_bound():
    """Marks and baselines of resets take at most a quarter of the tables budget, marks alone an
    eighth. A refused mark costs nothing."""
    bounded = {}
    for first in ("reset", "marks"):
        with attacked("contexts", "60000", MEMCTX_FOLD="off",
                      MEMCTX_TABLES=16 << 20) as target, Wire(target.socket_path()) as client:
            statistics, before = client.statistics(), resident_kib(target.pid)
            steps = [("reset", reset_all), ("marks", set_marks)]
            for name, step in steps if first == "reset" else reversed(steps):
                status, text = step(client)
                if name == first:
                    check_equal(status, constant("WIRE_OK"), f"{name} first: {text}")
            if name == "marks":
                check_equal(status, constant("WIRE_REFUSED"), f"{name} behind {first}: {text}")
                check("(MEMCTX_TABLES)" in text and "dump TARGET -o" in text, text)
            else:
                check_equal(status, constant("WIRE_OK"), f"{name} behind {first}: {text}")
            used = client.statistics()["tables_bytes"] - statistics["tables_bytes"]
            bound = statistics["tables_limit_bytes"] // 4
            rise = (resident_kib(target.pid) - before) << 10
            check(used <= bound + (64 << 10), f"{used} bytes of the tables, of at most {bound}")
            check(rise <= used + (1 << 20),
                  f"what was kept takes {rise} bytes, and {used} are counted")
            if first == "marks" or status == constant("WIRE_REFUSED"):
                moved = set_mark(client, "mark-0")
                check_equal(moved[0], constant("WIRE_REFUSED" if name == "reset" else "WIRE_OK"),
                            f"one that moves: {moved[1]}")
            bounded[f"{first} first"] = f"{used >> 10} KiB, {rise >> 10} resident"
    return f"{bounded}, of {bound >> 10}"
