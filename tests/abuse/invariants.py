# SPDX-License-Identifier: MIT
"""Tests of the invariants in docs/architecture.md, as far as a test can see them from outside."""
import json
import os
import random
import signal
import stat
import time

import harness
import wire
from harness import Skip, Target, check, check_equal, check_sums, runtime_dir, test_named
from wire import Wire, constant, frame


def program():
    return harness.build_program("tests/abuse/invariant.c")


class Standing(Target):
    """Runs a case of the invariant program until the program pauses for the first time."""

    def __init__(self, behaviour, directory, word="ready", **env):
        super().__init__([program(), behaviour], directory,
                         **{"MEMCTX_CONTROL": "eager", **env})
        try:
            check_equal(self.hear(60), word, f"first line of {behaviour}")
            self.wait_socket()
        except BaseException:
            self.kill()
            raise

    def statistics(self):
        with Wire(self.socket_path()) as client:
            return client.statistics()

    def end_well(self):
        code, text = self.finish()
        check_equal((code, text), (0, ""), "exit status and stderr")


def contexts_of(dump, function):
    """The contexts whose innermost frame is this function."""
    return [context for context in dump["contexts"]
            if (context["frame"] or {}).get("function") == function]


def figure(dump, function, field):
    return sum(context["self"][field] for context in contexts_of(dump, function))


# --- 1: the sum over the contexts equals the totals -------------------------------------------


@test_named("invariant-1-sums-when-busy")
def sums_when_busy():
    """Dumps of a busy program add up, and the count of allocations never decreases."""
    with runtime_dir() as directory, Standing("sums", directory, word="busy") as target:
        allocs = 0
        for _ in range(20):
            dump = target.dump("--no-symbols")
            check_sums(dump)
            check(dump["totals"]["allocs"] >= allocs, "allocs went back")
            allocs = dump["totals"]["allocs"]
            live = dump["totals"]["live_chunks"]
            # 4 threads hold at most 100 chunks each; libc holds some more.
            check(0 <= live <= 4 * 100 + 100, f"{live} live chunks")


@test_named("invariant-1-sums-when-quiescent")
def sums_when_quiescent():
    with runtime_dir() as directory, Standing("sums", directory, word="busy") as target:
        check_equal(target.ask(""), "ready", "second line")
        dump = target.dump()
        check_sums(dump)
        check_equal(figure(dump, "allocate_a", "live_chunks"), 1000, "chunks of allocate_a")
        check_equal(figure(dump, "allocate_a", "requested_bytes"), 100000, "bytes of allocate_a")
        check_equal(figure(dump, "allocate_b", "requested_bytes"), 0, "bytes of allocate_b")
        check_equal(figure(dump, "allocate_b", "live_chunks"), 0, "chunks of allocate_b")
        for context in dump["contexts"]:
            own = context["self"]
            check_equal(own["allocs"] - own["frees"], own["live_chunks"],
                        f"allocs - frees of context {context['id']}")
            check(own["block_bytes"] >= own["requested_bytes"] >= 0,
                  f"context {context['id']}: {own}")
        threads = target.dump("--threads")
        check_sums(threads)
        target.end_well()


@test_named("invariant-1-ledger-explains-rss")
def ledger_explains_rss():
    """The lines of the ledger add up to the resident set, but for a small residue. The reserved
    bytes of a program that touches all its chunks are about its resident set."""
    with runtime_dir() as directory, Standing("freelist", directory, word="full") as target:
        done = harness.run_cli("frag", target.pid, "--json", "--no-symbols", env=target.cli_env)
        ledger = json.loads(done.stdout)["ledger"]
        lines = {line["name"]: line["bytes"] for line in ledger["lines"]}
        residue = lines.pop("residue_bytes")
        check_equal(sum(lines.values()) + residue, ledger["rss_bytes"], f"the sum of {lines}")
        check(abs(residue) < ledger["rss_bytes"] // 50,
              f"{residue} of {ledger['rss_bytes']} bytes are not explained: {lines}")
        dump = target.dump()
        reserved = dump["totals"]["reserved_bytes"]
        requested = dump["totals"]["requested_bytes"]
        check(reserved >= requested >= 500 << 17, f"reserved {reserved}, requested {requested}")
        rss = harness.rss_kib(target.pid) << 10
        check(reserved < rss * 1.1, f"reserved {reserved} of {rss} resident, all of it touched")
        check(rss < requested * 1.35 + (16 << 20), f"{rss} resident for {requested} requested")


# --- 2: a cached path equals a fresh walk -----------------------------------------------------


def verify_program(argv, directory, limit_s=120):
    """Runs a program with MEMCTX_VERIFY, which compares paths with libunwind; checks that none
    differs."""
    env = harness.preloaded_env(XDG_RUNTIME_DIR=directory, MEMCTX_VERIFY="10", MEMCTX_VERBOSE="1",
                                PYTHONMALLOC="malloc", MEMCTX_CONTROL="off")
    done = harness.run_program(argv, env, limit_s)
    check("differs" not in done.stderr, f"{argv[0]}: {done.stderr.strip()[:500]}")
    return done


@test_named("invariant-2-oracle-agrees")
def oracle_agrees():
    with runtime_dir() as directory:
        with Standing("many-paths", directory, MEMCTX_VERIFY="3") as target:
            figures = target.statistics()
            check(figures["verify_checked"] > 10000, f"{figures['verify_checked']} checks only")
            check_equal(figures["verify_mismatches"], 0, "verify_mismatches")
            target.end_well()


@test_named("invariant-2-oracle-agrees-on-programs")
def oracle_agrees_on_programs():
    python = ["python3", "-c", "import json, re\n"
              "for i in range(300):\n"
              "    json.loads(json.dumps({str(j): [j] * 9 for j in range(50)}))\n"
              "print(len(re.findall('a.', 'abac' * 1000)))"]
    # Recursion with ever new paths longer than MEMCTX_DEPTH: they are folded, cut or wait.
    parser = ["/usr/bin/python3", "-c", "import argparse, ast, inspect, pickle, typing\n"
              "for module in (argparse, typing, inspect, pickle) * 2:\n"
              "    tree = ast.parse(open(module.__file__).read())\n"
              "    ast.dump(tree)\n"
              "    compile(tree, 'tree', 'exec')"]
    compiler = ["gcc", "-O2", "-c", "-o", "/dev/null", "-Iinclude",
                os.path.join(harness.ROOT, "tests/control/control_target.c")]
    cxx = [harness.build_program("tests/abuse/api_cxx.cc"), "containers"]
    with runtime_dir() as directory:
        for argv in (python, parser, compiler, cxx):
            done = verify_program(argv, directory)
            check_equal(done.returncode, 0, f"{argv[0]} ({done.stderr[:500]})")


# --- 3: tracking never fails the program ------------------------------------------------------


@test_named("invariant-3-no-unwind-info")
def no_unwind_info():
    """Chunks from code without unwind information are counted, under a label."""
    with runtime_dir() as directory, Standing("no-unwind-info", directory) as target:
        dump = target.dump()
        check_sums(dump)
        names = harness.context_names(dump)
        found = [context for context in dump["contexts"] if context["self"]["live_chunks"] == 1000
                 and context["self"]["requested_bytes"] == 123000]
        check_equal(len(found), 1, "contexts with the 1000 chunks")
        at = found[0]
        while at["kind"] == "path":
            at = next(c for c in dump["contexts"] if c["id"] == at["parent"])
        check(at["kind"] == "unknown" and at["parent"] is not None,
              f"its path {names[found[0]['id']]} ends as if it were whole")
        target.end_well()


@test_named("invariant-3-garbage-frame-pointer")
def garbage_frame_pointer():
    with runtime_dir() as directory, Standing("garbage-frame-pointer", directory) as target:
        check_sums(target.dump())
        check_equal(figure(target.dump(), "garbage_frame_pointer", "live_chunks"), 1000, "chunks")
        target.end_well()


@test_named("invariant-3-stack-before-a-guard")
def stack_before_a_guard():
    if tuple(map(int, os.uname().release.split(".")[:2])) < (5, 14):
        raise Skip("Linux before 5.14 does not tell what may be read")
    with runtime_dir() as directory, Standing("stack-before-a-guard", directory) as target:
        check_sums(target.dump())
        check_equal(figure(target.dump(), "call_on", "live_chunks"), 1000, "chunks")
        target.end_well()


@test_named("invariant-3-many-paths")
def many_paths():
    """32768 call paths: the chunk of each path is counted at the path or in [unknown]; none is
    lost."""
    with runtime_dir() as directory, Standing("many-paths", directory) as target:
        dump = target.dump("--no-symbols", timeout_s=120)
        check_sums(dump)
        chunks = sum(context["self"]["live_chunks"] for context in dump["contexts"]
                     if context["self"]["requested_bytes"] == 32 * context["self"]["live_chunks"])
        check(chunks >= 1 << 15, f"{chunks} chunks of {1 << 15} are on the books")
        target.end_well()
    return f"{len(dump['contexts'])} contexts"


@test_named("invariant-3-depths")
def depths():
    """With each MEMCTX_DEPTH all chunks are counted; with 0 there are no paths, with 1 one
    frame."""
    for depth in (0, 1, 2, 16, 128):
        with runtime_dir() as directory:
            with Standing("sums", directory, word="busy", MEMCTX_DEPTH=depth) as target:
                target.ask("")
                dump = target.dump()
                check_sums(dump)
                check_equal(dump["depth"], depth, "depth")
                frames = [context for context in dump["contexts"] if context["kind"] == "path"]
                if depth == 0:
                    check_equal(frames, [], "frames at depth 0")
                    held = sum(context["self"]["live_chunks"] for context in dump["contexts"])
                    check(held >= 1000, f"{held} chunks")
                else:
                    check_equal(figure(dump, "allocate_a", "live_chunks"), 1000,
                                f"chunks of allocate_a at depth {depth}")
                target.end_well()


@test_named("invariant-3-tracking-without-memory")
def tracking_without_memory():
    """With too little address space for new contexts, the program still runs to its normal end."""
    with runtime_dir() as directory:
        env = harness.preloaded_env(XDG_RUNTIME_DIR=directory)
        for mib in (14, 16, 18, 48):
            argv = ["prlimit", f"--as={mib << 20}", program(), "many-paths"]
            done = harness.run_program(argv, env, 60)
            # The 32768 chunks of 32 bytes fit; the tree of their paths may not.
            check_equal((done.returncode, done.stderr), (0, ""), f"many paths in {mib} MiB")
        # With this tables budget the tables can fill the address space.
        env["MEMCTX_TABLES"] = "64M"
        for mib in (14, 15, 16, 17, 18):
            argv = ["prlimit", f"--as={mib << 20}", program(), "many-paths"]
            done = harness.run_program(argv, env, 60)
            check(done.returncode in (0, 1) and not done.stderr,  # 1: malloc has returned NULL
                  f"many paths in {mib} MiB, which the tables may fill: {done.returncode}, "
                  f"{done.stderr}")


# --- 4: malloc and free keep errno -------------------------------------------------------------


@test_named("invariant-4-errno")
def errno_untouched():
    """malloc and free leave errno as it was, also with MEMCTX_VERIFY, a large depth, no decay, a
    socket."""
    binary = harness.build_program("tests/abuse/api_limits.c")
    with runtime_dir() as directory:
        for extra in ({"MEMCTX_VERIFY": "1"}, {"MEMCTX_DEPTH": "128"}, {"MEMCTX_DECAY_MS": "0"},
                      {"MEMCTX_CONTROL": "eager"}):
            done = harness.run_program([binary, "errno-preserved"], harness.preloaded_env(
                XDG_RUNTIME_DIR=directory, **extra), 120)
            check_equal((done.returncode, done.stderr), (0, ""), f"errno-preserved with {extra}")


# --- 5: free memory in contexts' own pages is bounded ------------------------------------------


@test_named("invariant-5-waste-cap")
def waste_cap():
    """Own pages of 3000 small contexts with 8 sizes cost at most max(2 MiB, 6 % of the live bytes)
    more than mixed pages. Untouched OS pages do not count."""
    with runtime_dir() as directory:
        rss = {}
        for promote in (1000000000, 16384, 2048, 0):
            with Standing("waste", directory, MEMCTX_PROMOTE_BYTES=promote) as target:
                rss[promote] = harness.rss_kib(target.pid)
                dump = target.dump()
                check_equal(sum(figure(dump, f"way_{i}", "live_chunks") for i in range(100, 400)),
                            3000 * 48, "chunks")
                cap_kib = max(2 << 20, dump["totals"]["requested_bytes"] * 6 // 100) >> 10
                target.end_well()
        for promote in (16384, 2048, 0):
            more = rss[promote] - rss[1000000000]
            # 2 MiB more for the tables of the regions.
            check(more < cap_kib + (2 << 10),
                  f"promote_bytes={promote} takes {more} KiB more than mixed pages for all, the "
                  f"cap is {cap_kib} KiB; RSS in KiB: {rss}")
    return f"RSS in KiB by promote_bytes: {rss}"


@test_named("invariant-5-holes-end-segregation")
def holes_end_segregation():
    """When free memory in own pages exceeds the waste cap, growing contexts stay in mixed pages."""
    with runtime_dir() as directory:
        for waste_kib, segregated in ((2048, False), (1000000, True)):
            with Standing("holes", directory, MEMCTX_WASTE_KIB=waste_kib,
                          MEMCTX_PROMOTE_BYTES=1024) as target:
                dump = target.dump()
                late = [pages for i in range(250, 400)
                        for pages in [figure(dump, f"way_{i}", "pages")] if pages]
                check_equal(bool(late), segregated, f"late contexts with pages of their own at "
                                                    f"waste_kib={waste_kib}: {len(late)} of 150")
                target.end_well()


@test_named("invariant-5-freelist-bound")
def freelist_bound():
    """After 64 MiB are freed, at most MEMCTX_FREELIST_KIB stay, and hardly any after the decay
    time."""
    with runtime_dir() as directory:
        for kib, decay in ((8192, 3600000), (1024, 3600000), (8192, 50)):
            with Standing("freelist", directory, word="full", MEMCTX_FREELIST_KIB=kib,
                          MEMCTX_DECAY_MS=decay) as target:
                full = harness.rss_kib(target.pid)
                check(full > 60 << 10, f"{full} KiB resident with 64 MiB alive")
                check_equal(target.ask(""), "ready", "second line")
                bound = kib + (4 << 10)  # and 4 MiB for headers, partial pages and libc
                if decay == 50:
                    bound = 6 << 10
                base = 6 << 10  # the program and its libraries
                harness.wait_until(lambda: harness.rss_kib(target.pid) < base + bound,
                                   f"RSS below {base + bound} KiB (freelist_kib={kib}, "
                                   f"decay_ms={decay}); {full} KiB when full")
                target.end_well()


# --- 6: a reset of counters frees no chunk ----------------------------------------------------


@test_named("invariant-6-reset-never-frees")
def reset_never_frees():
    with runtime_dir() as directory, Standing("reset", directory) as target:
        before = target.dump()
        site = contexts_of(before, "allocate_a")[0]["id"]
        for options in ((), (f"--context={site}",)):
            with Wire(target.socket_path()) as client:
                ident = site if options else constant("WIRE_NONE")
                status, body = client.ask(frame(constant("WIRE_RESET"), wire.struct_bytes(
                    "wire_reset_request", context=ident)))
                check_equal(status, constant("WIRE_OK"), f"reset: {body!r}")
            after = target.dump()
            check_equal(figure(after, "allocate_a", "live_chunks"), 5000, "live after a reset")
            check_equal(figure(after, "allocate_a", "requested_bytes"),
                        figure(before, "allocate_a", "requested_bytes"), "bytes after a reset")
            check_equal(figure(after, "allocate_a", "allocs"), 0, "allocs after a reset")
            check_equal(target.ask(""), "ready", "after allocating and checking every byte")
        check_equal(figure(target.dump(), "allocate_b", "allocs"), 40000,
                    "allocs of allocate_b since the first reset: the second was not its")
        target.end_well()


# --- 7: no other user can ask -----------------------------------------------------------------


@test_named("invariant-7-modes")
def modes():
    """The socket has mode 0600, its directory 0700 and the sticky bit. (The control suite tests
    other users' connections.)"""
    with runtime_dir() as directory, Standing("steady", directory) as target:
        path = target.socket_path()
        check_equal([stat.S_IMODE(os.lstat(name).st_mode)
                     for name in (os.path.dirname(path), path)], [0o1700, 0o600], "modes")
        target.end_well()


@test_named("invariant-7-other-uid")
def other_uid():
    if os.geteuid() != 0:
        raise Skip("needs root to become another user")
    with runtime_dir() as directory, Standing("steady", directory) as target:
        os.chmod(directory, 0o755)
        os.chmod(os.path.dirname(target.socket_path()), 0o755)
        os.chmod(target.socket_path(), 0o777)
        probe = harness.public_copy(harness.build_program("tests/control/control_client.c"))
        for uid, allowed in ((harness.NOBODY, False), (0, True)):
            done = harness.run_program([probe, target.socket_path()], harness.clean_env(), uid=uid)
            check_equal(done.returncode, 0, f"the probe as uid {uid} ({done.stderr})")
            check_equal(done.stdout != "got 0\n", allowed, f"bytes for uid {uid}: {done.stdout}")
        target.end_well()


# --- 8: descriptors, signals, no stopped threads ----------------------------------------------


@test_named("invariant-8-signals-blocked")
def signals_blocked():
    """The control thread blocks all signals."""
    with runtime_dir() as directory, Standing("steady", directory) as target:
        blocked = int(harness.read_status(target.pid, "SigBlk",
                                          harness.library_thread(target.pid)), 16)
        exempt = {signal.SIGKILL, signal.SIGSTOP}
        open_to = [number for number in range(1, 65)
                   if not blocked >> (number - 1) & 1 and number not in exempt]
        check_equal(open_to, [], "signals that could reach our thread")
        for field in ("SigBlk", "SigIgn", "SigCgt"):
            plain = harness.read_status(target.pid, field)
            with Target([program(), "steady"], directory, preload=False) as other:
                other.hear()
                check_equal(plain, harness.read_status(other.pid, field),
                            f"{field} of the main thread, with and without us")
        target.end_well()


@test_named("invariant-8-signals-arrive")
def signals_arrive():
    """Each signal sent to the process arrives, on the program's only thread."""
    with runtime_dir() as directory:
        with Standing("signals", directory, word="seen 0 wrong 0") as target:
            numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM,
                       signal.SIGCHLD, signal.SIGALRM, signal.SIGPROF, signal.SIGURG, 40]
            for sent in range(1, 201):
                os.kill(target.pid, numbers[sent % len(numbers)])
                harness.wait_until(lambda want=f"seen {sent} wrong 0": target.ask("") == want,
                                   f"signal number {sent} on the right thread", step_s=0.001)
            with Wire(target.socket_path()) as client:
                client.dump()
            target.end_well()


@test_named("invariant-8-descriptors-unseen")
def descriptors_unseen():
    with runtime_dir() as directory, Standing("steady", directory) as target:
        own = sorted(map(int, os.listdir(f"/proc/{target.pid}/fd")))
        check_equal(own, [0, 1, 2], "descriptors of the program")
        tid = harness.library_thread(target.pid)
        ours = os.listdir(f"/proc/{target.pid}/task/{tid}/fd")
        check(ours and not {"0", "1", "2"} <= set(ours), f"descriptors of our thread: {ours}")
        target.end_well()


@test_named("invariant-8-never-stopped")
def never_stopped():
    """During dumps no thread of the program is traced or stopped, or waits for long."""
    dice = random.Random(1)
    with runtime_dir() as directory, Standing("steady", directory) as target:
        seen = set()
        with Wire(target.socket_path()) as client:
            for _ in range(60):
                client.send(wire.piece_request("CONTEXTS", constant("WIRE_DUMP_THREADS")))
                for _ in range(5):
                    time.sleep(dice.random() / 1000)
                    check_equal(harness.read_status(target.pid, "TracerPid"), "0", "tracer")
                    for tid in os.listdir(f"/proc/{target.pid}/task"):
                        seen.add(harness.read_status(target.pid, "State", tid)[0])
                client.read_frame()
        check(not seen & {"T", "t"}, f"states seen: {seen}")
        target.end_well()
    return f"states seen: {''.join(sorted(seen))}"
