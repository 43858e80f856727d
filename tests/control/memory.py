# SPDX-License-Identifier: MIT
"""The cost of requests for the target: hardly any memory, however many contexts it has, and no
processor time after the client has left. Memory of sleeping threads that goes back."""
import contextlib
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

import harness
import wire
from harness import PATIENCE_S, Failure, check, check_equal, in_tries, runtime_dir, test
from hostile import start_target
from wire import Wire, constant, frame

CHUNKS = 17000  # the target then has some 300 000 contexts
RISE_MAX_KIB = 1024


@contextlib.contextmanager
def many_contexts(chunks=CHUNKS, **env):
    program = harness.build_program("tests/control/many_contexts.c")
    with runtime_dir() as directory:
        with harness.Target([program, str(chunks)], directory, MEMCTX_CONTROL="eager",
                            MEMCTX_FOLD="off",
                            MEMCTX_TABLES="4G", **env) as target:
            check(target.hear(60).startswith("ready "), "the target's line")
            target.wait_socket()
            yield target
            target.say("more")
            check_equal(target.hear(), "made", "the target's answer")
            code, text = target.finish()
            check_equal((code, text), (0, ""), "exit status and stderr of the target")


def resident_kib(pid, kind="Rss"):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(f"{kind}:"))


def anonymous_kib(pid):
    """KiB of resident anonymous memory. Pages of files do not count: a first call of a libc
    function maps 64 KiB of code."""
    return resident_kib(pid, "Anonymous")


class Watched:
    """Measures the largest rise of a process's resident set (or a kind of it) during a `with`
    block."""

    def __init__(self, pid, kind="Rss"):
        self.pid, self.kind = pid, kind
        self.before = self.most = resident_kib(pid, kind)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.002):
            with contextlib.suppress(OSError, StopIteration):
                self.most = max(self.most, resident_kib(self.pid, self.kind))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        # the block may have ended before the first sample
        self.most = max(self.most, resident_kib(self.pid, self.kind))

    def rise(self):
        return self.most - self.before


def verbs(target, directory):
    """The command lines of all verbs that read a target."""
    path = os.path.join(directory, "out")
    pid = target.pid
    return [["ps"], ["dump", pid, "--no-symbols"], ["dump", pid, "--flat", "--limit", 20],
            ["dump", "--self", pid],
            ["dump", pid, "--json", "--threads", "--no-symbols"],
            ["dump", pid, "-o", path, "--no-symbols"],
            ["frag", pid, "--no-symbols"], ["doctor", pid, "--no-symbols"],
            ["report", pid, "-o", path, "--no-symbols"],
            ["export", pid, "--folded", path, "--no-symbols"], ["diff", pid, "m", "--no-symbols"],
            ["verify", pid]]


@test
def rules_hold_for_all_contexts_at_once():
    def contexts(client):
        return int(client.ask(frame(constant("WIRE_RULES"), b"list"))[1].split(b"\t")[1])
    with many_contexts() as target, Wire(target.wait_socket()) as client:
        client.ask(frame(constant("WIRE_RULES"), b"main=slab"))
        at_once = contexts(client)
        time.sleep(2)
        check_equal(contexts(client), at_once, "two seconds later")
        check(at_once > CHUNKS / 2, f"{at_once} contexts")


@test
def asking_costs_no_memory():
    """No verb makes the target's resident set rise by more than 1 MiB."""
    worst = (-1, "")
    with many_contexts() as target, runtime_dir() as directory:
        with Wire(target.socket_path()) as client:
            contexts = wire.get(client.head(), "wire_dump.contexts")
        check(contexts > 200000, f"only {contexts} contexts")
        done = harness.run_cli("mark", target.pid, "m", env=target.cli_env)
        check_equal(done.returncode, 0, f"mark ({done.stderr})")
        for words in verbs(target, directory):
            with Watched(target.pid) as watched:
                done = harness.run_cli(*words, env=target.cli_env, timeout_s=100)
            check(done.returncode in (0, 5),
                  f"{words}: exit {done.returncode}: {done.stderr[:300]}")
            check(watched.rise() <= RISE_MAX_KIB,
                  f"{words}: the target grew by {watched.rise()} KiB")
            worst = max(worst, (watched.rise(), str(words[0])))
    return f"{contexts} contexts; at most {worst[0]} KiB, {worst[1]}"


@test
def ten_thousand_contexts():
    """Prints how long a dump of 10 000 contexts takes; the time has no limit."""
    with runtime_dir() as directory:
        with start_target(directory, "contexts", "2000", MEMCTX_FOLD="off") as target:
            target.wait_socket()
            before = int(target.ask("ops").split()[1])
            times = []
            for _ in range(15):
                started = time.monotonic()
                done = harness.run_cli("dump", "--json", "--no-symbols", target.pid,
                                       env=target.cli_env)
                times.append((time.monotonic() - started) * 1000)
                check_equal(done.returncode, 0, f"dump ({done.stderr})")
            contexts = done.stdout.count('"parent"')
            check(contexts >= 10000, f"only {contexts} contexts")
            builds = []
            with Wire(target.socket_path()) as client:
                for _ in range(15):
                    took, size, _ = client.dump()
                    builds.append(took / 1e6)
            after = int(target.ask("ops").split()[1])
            check(after > before, "the target stood still")
            leaves = target.dump("--no-symbols")["totals"]["live_chunks"]
            check(leaves >= 2000, f"{leaves} chunks")
    return (f"{contexts} contexts, {size} bytes: command {statistics.median(times):.1f} ms "
            f"(least {min(times):.1f}), in the library {statistics.median(builds):.2f} ms")


@test
def eight_dumps_at_once():
    """Eight dumps at once are all complete, and cost the target at most 256 KiB for answers."""
    with many_contexts() as target:
        with Watched(target.pid, "Anonymous") as watched:
            running = [subprocess.Popen([harness.CLI, "dump", str(target.pid), "--flat", "--limit",
                                         "3", "--no-symbols"],
                                        env=target.cli_env, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
                       for _ in range(constant("WIRE_CLIENTS_MAX"))]
            answers = []
            for process in running:
                out, err = process.communicate(timeout=100)
                # The command may have had to wait for a place, which it says.
                err = re.sub(r"memctx: pid \d+ is busy .*; waiting for a free connection\n", "",
                             err)
                check_equal((process.returncode, err), (0, ""), "a dump beside seven others")
                answers.append(out[out.index("\n"):out.index("page headers")])
        check_equal(len(set(answers)), 1, "different answers about a target that does nothing")
        check(watched.rise() <= 256 + 64, f"the target grew by {watched.rise()} KiB")
        # Eight clients that have each got an answer and stay connected.
        with contextlib.ExitStack() as stack:
            before = anonymous_kib(target.pid)
            for _ in range(constant("WIRE_CLIENTS_MAX")):
                client = stack.enter_context(Wire(target.socket_path()))
                client.ask(wire.piece_request("CONTEXTS", constant("WIRE_DUMP_THREADS")))
                client.ask(wire.piece_request("PAGES"))
            rise = anonymous_kib(target.pid) - before
            check(rise <= 256 + 64, f"eight clients with an answer each: {rise} KiB")
        harness.wait_until(lambda: anonymous_kib(target.pid) - before <= 16,
                           "what answers took is given back")
    return f"{watched.rise()} KiB; with an answer for each {rise} KiB"


@test
@in_tries  # the processor time is read later than the last hello
def who_connects_waits_for_one_answer():
    """While a client asks for thirty marks, new clients wait only until the first mark is set."""
    with many_contexts() as target, contextlib.ExitStack() as stack:
        busy = stack.enter_context(Wire(target.socket_path()))
        request = frame(constant("WIRE_MARK"), wire.struct_bytes("wire_mark_request"))
        before = harness.library_thread_ns(target.pid)
        busy.ask(request)
        one_ns = harness.library_thread_ns(target.pid) - before
        os.kill(target.pid, signal.SIGSTOP)
        harness.wait_until(lambda: harness.read_status(target.pid, "State")[0] == "T", "the stop")
        for _ in range(30):
            busy.send(request)
        others = [stack.enter_context(Wire(target.socket_path(), hello=False))
                  for _ in range(constant("WIRE_CLIENTS_MAX") - 1)]
        before = harness.library_thread_ns(target.pid)
        os.kill(target.pid, signal.SIGCONT)
        for other in others:
            other.read_frame()
        answers = (harness.library_thread_ns(target.pid) - before) / one_ns
        check(answers < 4,
              f"seven who connected waited for {answers:.1f} answers of another client")
    return f"{answers:.1f} answers of {one_ns / 1e6:.1f} ms"


def quiet_after(target, most_s, what):
    """Waits until the control thread is idle. Checks that it used at most `most_s` seconds of
    processor time until then."""
    first = last = harness.library_thread_ns(target.pid)
    for _ in range(PATIENCE_S * 2):
        time.sleep(0.5)
        before, last = last, harness.library_thread_ns(target.pid)
        check(last - first < most_s * 1e9,
              f"{what}: the control thread worked on for {(last - first) / 1e6:.0f} ms")
        if last - before < 0.02e9:
            return
    raise Failure(f"{what}: the control thread does not rest")


@test
def who_leaves_leaves_nothing():
    """If a signal ends the command during a request, the target stops work on it and serves other
    clients."""
    with many_contexts() as target:
        before = anonymous_kib(target.pid)
        for how in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
            for after in (0.01, 0.05, 0.1):
                with subprocess.Popen([harness.CLI, "dump", str(target.pid), "--json",
                                       "--no-symbols"],
                                      env=target.cli_env, stdout=subprocess.DEVNULL) as process:
                    time.sleep(after)
                    process.send_signal(how)
                    process.wait(timeout=PATIENCE_S)
            quiet_after(target, 0.1, f"after {how.name}")
        harness.wait_until(lambda: anonymous_kib(target.pid) - before <= 64,
                           "what was taken for them is given back")
        # Clients that close the connection right after their request.
        for _ in range(30):
            with Wire(target.socket_path()) as client:
                for _ in range(40):
                    client.send(wire.piece_request("CONTEXTS", constant("WIRE_DUMP_THREADS")))
        quiet_after(target, 0.3, "after thirty that left")


@test
def who_stops_reading_costs_nothing():
    """If eight clients ask and then read nothing, the control thread is idle and holds only its
    answer buffers. It serves other clients when the eight have left."""
    with many_contexts() as target, contextlib.ExitStack() as stack:
        before = anonymous_kib(target.pid)
        for part, fields in (("CONTEXTS", {}), ("PAGES", {}), ("BEST", {"least": -1 << 62}),
                             ("CONTEXTS", {})) * 2:
            client = stack.enter_context(Wire(target.socket_path(), receive_buffer=4096))
            client.socket.settimeout(0.1)
            with contextlib.suppress(OSError):
                for _ in range(300):
                    client.send(wire.piece_request(part, flags=constant("WIRE_DUMP_THREADS"),
                                                   **fields))
        rise = anonymous_kib(target.pid) - before
        check(rise <= 256 + 64, f"eight that do not read: {rise} KiB")
        quiet_after(target, 0.15, "eight that do not read")
        with Wire(target.socket_path()) as client:
            check(wire.get(client.head(), "wire_dump.contexts") > 0, "a client behind them")
        stack.close()
        harness.wait_until(lambda: anonymous_kib(target.pid) - before <= 16,
                           "what answers took is given back")
    return f"{rise} KiB"


def records_of(body, at):
    """{id: sums} of the contexts in a piece, from offset `at` on. None: the record has no sums."""
    found = {}
    for _ in range(wire.get(body, "wire_piece.count")):
        sums = None
        if wire.get(body, "wire_context.holds", at) & constant("WIRE_CONTEXT_SUMS"):
            start = at + wire.size_of("wire_context")
            sums = struct.unpack_from("<6q", body, start)
        found[wire.get(body, "wire_context.id", at)] = (wire.get(body, "wire_context.parent", at),
                                                        sums)
        at += wire.get(body, "wire_context.bytes", at)
    return found


@test
def the_best_are_chosen_in_the_target():
    """WIRE_PART_BEST gives exactly the contexts with at least `least`, and the sums of all
    contexts; WIRE_PART_PATH gives their paths. So --limit transfers few bytes."""
    with many_contexts() as target, Wire(target.socket_path()) as client:
        contexts = {}
        for body in client.pieces("CONTEXTS"):
            contexts.update(records_of(body, wire.size_of("wire_piece")))
        count = wire.get(client.head(), "wire_dump.contexts")
        having = {at: sums for at, (_, sums) in contexts.items() if sums and any(sums[:4])}
        for number, figure in enumerate(("REQUESTED", "CHUNKS", "ALLOCS", "FREES")):
            for least in (-1 << 62, 1, 40, 1 << 40):
                told, size, all_of, leaves, requested = {}, 0, 0, 0, 0
                for body in client.pieces("BEST", figure=constant(f"WIRE_FIGURE_{figure}"),
                                          least=least, ids_below=count):
                    at = wire.size_of("wire_piece")
                    all_of += wire.get(body, "wire_survey.contexts", at)
                    leaves += wire.get(body, "wire_survey.with_figures", at)
                    requested += wire.get(body, "wire_survey.requested_bytes", at)
                    told.update(records_of(body, at + wire.size_of("wire_survey")))
                    size += len(body)
                want = {at: sums for at, sums in having.items() if sums[number] >= least}
                same = {at: sums for at, (_, sums) in told.items()} == want
                check(same, f"{figure} >= {least}: {len(told)} contexts instead of {len(want)}, or "
                            "other figures")
                check_equal((all_of, leaves), (count, len(having)), "contexts; those with figures")
                check_equal(requested, sum(sums[0] for _, sums in contexts.values() if sums),
                            "requested bytes of all")
                check(size < 4096 + 200 * len(want) + 300 * (count // 16000 + 1),
                      f"{size} bytes for {len(want)} contexts")
        for at in list(having)[::1000]:
            way = []
            for body in client.pieces("PATH", start_id=at, most=7):
                way += records_of(body, wire.size_of("wire_piece")).items()
            check_equal([way[0][0], way[-1][0]], [0, at], "the ends of a path")
            check_equal([parent for _, (parent, _) in way[1:]], [above for above, _ in way[:-1]],
                        "its steps")
    return f"{count} contexts, {len(having)} with figures"


@test
def ps_asks_for_totals_alone():
    """memctx ps reads only a dump's head, which takes under 1 ms also with 300 000 contexts."""
    took = {}
    many = 20000  # chunks, for 300 000 contexts
    for chunks in (100, many):
        with many_contexts(chunks) as target, Wire(target.socket_path()) as client:
            times = [wire.get(client.head(constant("WIRE_DUMP_SUMS")), "wire_dump.took_ns")
                     for _ in range(20)]
            took[chunks] = min(times) / 1e6
            allocs = client.statistics()["allocs"]
            shown = harness.run_cli("ps", "--json", env=target.cli_env)
            contexts = next(process["contexts"] for process in json.loads(shown.stdout)["processes"]
                            if process["pid"] == target.pid)
            check_equal(contexts, wire.get(client.head(), "wire_dump.contexts"), "contexts")
            body = client.head(constant("WIRE_DUMP_SUMS"))
            dump = target.dump("--no-symbols")["totals"]
            check_equal(wire.get(body, "wire_dump.requested_bytes"), dump["requested_bytes"],
                        "requested bytes")
            check_equal(wire.get(body, "wire_dump.live_chunks"), dump["live_chunks"], "live chunks")
            check_equal(allocs, dump["allocs"], "allocations")
    check(took[many] < 1, f"a head takes {took[many]:.2f} ms")
    return ", ".join(f"{chunks} chunks: {ms:.3f} ms" for chunks, ms in took.items())


# A small process that starts the command: ru_maxrss of a child includes the memory of the process
# that forked it.
MEASURE = """
import os, sys
pid = os.fork() or os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
sys.stderr.write(str(used.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


@test
def flat_lists_need_no_memory():
    """`dump --flat --limit 20` of a large tree needs memory only for the list."""
    with many_contexts() as target:
        usage = {}
        for words in (["--flat", "--limit", "20"], ["--flat", "--limit", "1000"]):
            argv = [harness.CLI, "dump", str(target.pid), "--no-symbols", *words]
            done = harness.run_program([sys.executable, "-S", "-c", MEASURE, *argv], target.cli_env)
            check_equal(done.returncode, 0, f"exit status ({done.stderr})")
            usage[words[-1]], out = int(done.stderr), done.stdout
            lines = out.splitlines()
            if words[-1] == "20":
                short = lines
        check(usage["20"] < 40 << 10, f"{usage['20']} KiB for a list of 20")
        check(usage["1000"] > 2 * usage["20"],
              f"the other way takes {usage['1000']} KiB: nothing is compared")
        # The list of 20 equals the first 20 lines of the list of 1000, and the totals are equal.
        end = next(i for i, line in enumerate(short) if line.startswith("... "))
        check_equal(short[1:end], lines[1:end], "the list")
        check_equal(short[-6:-2] + short[-1:], lines[-6:-2] + lines[-1:], "the foot")
        count, rest = (int(short[end].split()[i]) for i in (1, 4))
        tail = next(line for line in lines if line.startswith("... "))
        between = lines[end:lines.index(tail)]
        figures = [line.split(": ", 1)[1].split()
                   for line in between if "; " in line and not line.startswith(" ")]
        check_equal(count, int(tail.split()[1]) + len(figures), "contexts that are not shown")
        check_equal(rest, int(tail.split()[4]) + sum(int(words[-2]) for words in figures),
                    "their bytes")
    return f"{usage['20']} KiB, {usage['1000']} KiB for a list of 1000"


@contextlib.contextmanager
def kept_chunks(name, count, stays, **env):
    """A program that has `count` chunks, of which each `stays`-th stays and is checked in the
    end."""
    program = harness.build_program(f"tests/control/{name}.c")
    with runtime_dir() as directory:
        with harness.Target([program, str(count), str(stays)], directory, MEMCTX_CONTROL="eager",
                            MEMCTX_DECAY_MS="50",
                            **env) as target:
            check_equal(target.hear(60).strip(), "ready", "the target's line")
            target.wait_socket()
            yield target
            for _ in range(2):
                target.say("go on")
                check_equal(target.hear(60).strip(), "right", "what stayed")
            harness.check_sums(target.dump("--no-symbols"))
            code, text = target.finish()
            check_equal((code, text), (0, ""), "exit status and stderr of the target")


def sparse(stays, **env):
    return kept_chunks("sparse", 100000, stays, **env)


def handed(stays, **env):
    return kept_chunks("handed", 200000, stays, **env)


def ledger(target, name):
    done = harness.run_cli("frag", target.pid, "--json", "--no-symbols", env=target.cli_env)
    check_equal(done.returncode, 0, done.stderr)
    return {line["name"]: line["bytes"]
            for line in json.loads(done.stdout)["ledger"]["lines"]}[name]


@test
def holes_go_back_while_the_program_sleeps():
    """Empty OS pages in pages in use go back to the kernel although their thread sleeps;
    MEMCTX_HOLES=0 prevents that."""
    with sparse(50, MEMCTX_HOLES="0") as target:
        harness.wait_until(lambda: not ledger(target, "freelist_bytes"), "an empty freelist", 60)
        before = anonymous_kib(target.pid)
        held = ledger(target, "holes_bytes")
        after = anonymous_kib(target.pid)
        check(after > before * 9 // 10,
              f"with MEMCTX_HOLES=0 nothing goes back: {before} KiB, then {after}")
        check_equal(harness.run_cli("set", target.pid, "holes=1", env=target.cli_env).returncode, 0,
                    "memctx set")
        harness.wait_until(lambda: anonymous_kib(target.pid) < before * 6 // 10,
                           f"less than 0.6 of {before} KiB", 60)
        harness.wait_until(lambda: ledger(target, "holes_bytes") < held * 6 // 10,
                           f"less than 0.6 of {held} bytes free", 60)
        harness.check_sums(target.dump("--no-symbols"))
        return f"{before} to {anonymous_kib(target.pid)} KiB"


@test
def what_others_freed_goes_back_while_the_owner_sleeps():
    """A thread made 68 MB of chunks, and others freed nearly all: the memory goes back to the
    kernel although the thread sleeps. With MEMCTX_HOLES=0 it goes back at a trim."""
    with handed(5000) as target:
        harness.wait_until(lambda: anonymous_kib(target.pid) < 24 << 10, "less than 24 MiB", 60)
        gone = anonymous_kib(target.pid)
    with handed(5000, MEMCTX_HOLES="0") as target:
        harness.wait_until(lambda: not ledger(target, "freelist_bytes"), "an empty freelist", 60)
        before = anonymous_kib(target.pid)
        check(before > 60 << 10, f"given back without a trim: {before} KiB")
        done = harness.run_cli("trim", target.pid, env=target.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        after = anonymous_kib(target.pid)
        check(after < 24 << 10, f"{before} KiB, {after} after the trim: {done.stdout}")
    return f"{gone} KiB; by trim {before} to {after}"


@test
def the_freelist_goes_back_while_somebody_asks():
    """Freed memory goes back to the kernel although a client asks 100 times a second."""
    program = harness.build_program("tests/diagnosis/sleepers.c")
    with runtime_dir() as directory, \
            harness.Target([program, "24"], directory, MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "look", "what the program says")
        with Wire(target.wait_socket()) as client, \
                harness.Repeated(client.statistics, 0.01) as asked:
            harness.wait_until(lambda: not ledger(target, "freelist_bytes"), "an empty freelist",
                               timeout_s=20)
    return f"{asked.calls} requests"


@test
def a_shorter_decay_time_counts_at_once():
    """What threads keep for reuse goes back soon after `memctx set` has shortened an hour."""
    program = harness.build_program("tests/diagnosis/sleepers.c")
    with runtime_dir() as directory, \
            harness.Target([program, "24"], directory, MEMCTX_CONTROL="eager",
                           MEMCTX_DECAY_MS="3600000") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        before = ledger(target, "freelist_bytes")
        check(before > 1 << 20, f"the freelist has {before} bytes")
        done = harness.run_cli("set", target.pid, "decay_ms=100", env=target.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        harness.wait_until(lambda: not ledger(target, "freelist_bytes"), "an empty freelist",
                           timeout_s=20)
    return f"{before} bytes before"


@test
def trim_of_a_thread_that_sleeps():
    """The memory goes back while the thread sleeps, and the thread then finds its chunks and
    allocates."""
    with sparse(50, MEMCTX_HOLES="0") as target:
        harness.wait_until(lambda: not ledger(target, "freelist_bytes"), "an empty freelist", 60)
        before = anonymous_kib(target.pid)
        target.say("go on")  # a second chunk of this call path takes the slow path
        check_equal(target.hear(60).strip(), "right", "what stayed")
        for words in (("--site", "make"), ()):
            done = harness.run_cli("trim", target.pid, *words, env=target.cli_env)
            check("1 of 1 threads have not allocated since" in done.stdout,
                  f"trim {words}: {done.stdout}")
        after = anonymous_kib(target.pid)
        check(after < before * 6 // 10, f"{before} KiB, then {after}")
        target.say("go on")
        check_equal(target.hear(60).strip(), "right", "what stayed")


def read_only_kib(pid, program):
    """Resident KiB of the program's mappings that can only be read; .eh_frame is in one."""
    kib, counted = 0, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        for line in file:
            if re.match("[0-9a-f]+-", line):
                counted = line.split()[1] == "r--p" and line.rstrip().endswith(program)
            elif counted and line.startswith("Rss:"):
                kib += int(line.split()[1])
    return kib


@test
def unwind_information_leaves_the_resident_set():
    """The control thread gives back the OS pages of .eh_frame that were read, and the program can
    still read them."""
    program = harness.build_program("tests/control/many_frames.c")
    found = []
    for control in ("off", "eager"):
        with runtime_dir() as directory, \
             harness.Target([program], directory, MEMCTX_CONTROL=control) as target:
            check_equal(target.hear(60), "ready", "the target's line")
            if control == "eager":
                target.wait_socket()
                harness.wait_until(lambda: read_only_kib(target.pid, program) < found[0] // 2,
                                   f"less than half of {found[0]} KiB")
            found.append(read_only_kib(target.pid, program))
            target.say("")
            check_equal(target.finish(), (0, ""), "exit status and stderr of the target")
    check(found[0] > 100, f"only {found[0]} KiB of .eh_frame were read")
    return f"{found[0]} KiB without the control thread, then {found[1]}"
