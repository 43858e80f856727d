# SPDX-License-Identifier: MIT
"""Processes that do not answer, and core files: figures from their memory equal those of the
socket."""
import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import harness
from harness import Failure, Skip, check, check_equal, runtime_dir, test, wait_until
from hostile import ask
from wire import Wire

# Figures that only the process itself knows, or that change during the test.
INSIDE_ONLY = {"uptime_s", "exact", "how", "build_ns", "rss_bytes", "start_ticks"}
MAGIC = b"memctx: read from outside here."
# offset in struct outside_root, behind the magic, two numbers and the version
ADDRESSES_AT = 32 + 8 + 32


def read(target, *options, code=0):
    """Runs `memctx dump --json --threads` of a pid or a core file. Returns the dump, or stderr if
    code is not 0."""
    done = harness.run_cli("dump", "--json", "--threads", "--no-symbols", *options, str(target))
    check_equal(done.returncode, code, f"exit status of dump {target}; stderr: {done.stderr}")
    return json.loads(done.stdout) if code == 0 else done.stderr


def contexts_of(dump):
    """{id: context} without resident bytes, which may change in an idle process as memory goes
    back."""
    contexts = {}
    for context in dump["contexts"]:
        for part in (context["self"], context["total"]):
            part.pop("resident_bytes", None)
        contexts[context["id"]] = context
    return contexts


def compare(inside, outside, core=False):
    """Checks that contexts, figures of pages, modules and threads of two dumps are equal."""
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
    # The answer over the socket touches up to 64 KiB more, and the library may give some OS pages
    # back before the second look. In a core file without holes, OS pages of zeros count as not
    # resident.
    tables = [dump["ledger"]["metadata_resident"] for dump in (inside, outside)]
    least, most = (tables[0] // 2 if core else tables[0] - (64 << 10),
                   inside["ledger"]["metadata_mapped"] if core else tables[0] + (64 << 10))
    check(tables[1] is not None and least <= tables[1] <= most,
          f"resident bytes of the library's tables: {tables}")
    stacks = [dump["ledger"]["control_bytes"] for dump in (inside, outside)]
    check(0 < stacks[1] <= stacks[0], f"control thread, with its answer and without: {stacks}")
    check_equal([thread["tid"] for thread in outside["threads"]],
                [thread["tid"] for thread in inside["threads"]], "threads")


# The program also maps the library's file as data, as programs that read symbols do.
PYTHON = ("import mmap, os, sys, threading\n"
          "copy = mmap.mmap(os.open(os.environ['LD_PRELOAD'], 0), 0, prot=mmap.PROT_READ)\n"
          "kept = [bytes(i % 3000) for i in range(20000)] + [bytearray(3 << 20), "
          "bytearray(700000)]\n"
          "del kept[5:15000:2]\n"
          "def work(): kept.extend([i] for i in range(5000))\n"
          "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
          "print('ready', flush=True)\n"
          "for line in sys.stdin:\n"
          "    kept.append(bytearray(50000))\n"
          "    for i in range(100000): kept[-1].append(1)\n"
          "    print('more', flush=True)\n")


def start_python(directory, late=False, **env):
    """late: the process is a third of a second older than its program."""
    argv = ["/usr/bin/python3", "-c", PYTHON]
    if late:
        argv = ["/bin/sh", "-c", f'sleep 0.3; LD_PRELOAD={harness.LIB} exec "$@"', "sh", *argv]
    target = harness.Target(argv, directory, preload=not late, **{**harness.SETTINGS, **env})
    try:
        check_equal(target.hear(60), "ready", "what the program said")
    except BaseException:
        target.kill()
        raise
    return target


def present_pages(pid):
    """The number of OS pages that are present in mappings without a file, the kernel's zero page
    among them. Leaves out the library's variables, which no figure counts."""
    count, before = 0, ""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/pagemap", "rb",
                                                                   0) as pages:
        for line in maps:
            start, end = (int(word, 16) >> 12 for word in line.split()[0].split("-"))
            if len(line.split()) == 5 and end < 1 << 36 and "libmemctx" not in before:
                words = os.pread(pages.fileno(), (end - start) * 8, start * 8)
                count += sum(byte >> 7 for byte in words[7::8])
            before = line
    return count


@test
def outside_equals_inside():
    """An idle process has equal figures and rules over its socket, read from outside, and while
    stopped. Its uptime is on the clock of the socket, though the kernel made the process
    earlier."""
    settings = {"MEMCTX_CONTROL": "eager", "MEMCTX_RULES": "nothing=own;PyObject_*=slab"}
    with runtime_dir() as directory, start_python(directory, late=True, **settings) as target:
        target.wait_socket()
        inside = target.dump("--threads", "--no-symbols")
        check("PyObject_*=slab" in {context.get("why") for context in inside["contexts"]},
              "no path has the rule")
        check("how" not in inside, "the socket was not asked")
        target.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: harness.read_status(target.pid, "State").startswith("T"), "the stop")
        present = present_pages(target.pid)
        stopped = read(target.pid)
        check_equal(present_pages(target.pid), present,
                    "OS pages of the process, which a reading must not change")
        check("is stopped" in stopped["how"], stopped["how"])
        check_equal(stopped["exact"], True, "exact while the process is stopped")
        compare(inside, stopped)
        for verb in (["mark", "x"], ["trim"]):
            done = harness.run_cli(verb[0], str(target.pid), *verb[1:])
            check("is stopped" in done.stderr and done.returncode == 1, f"{verb}: {done.stderr}")
        for verb in ("doctor", "frag"):
            done = harness.run_cli(verb, str(target.pid))
            check_equal(done.returncode, 0, f"{verb} of a stopped process; {done.stderr}")
        check("is stopped" in json.loads(harness.run_cli("frag", "--json",
                                                         str(target.pid)).stdout)["how"], "frag")
        target.process.send_signal(signal.SIGCONT)
        outside = read(target.pid, "--outside")
        uptimes = [inside["uptime_s"], outside["uptime_s"], target.dump("--no-symbols")["uptime_s"]]
        check(uptimes == sorted(uptimes),
              f"uptimes over the socket, from outside, over the socket: {uptimes}")
        check("--outside asked" in outside["how"], outside["how"])
        check_equal(outside["exact"], False, "exact while the process runs")
        compare(inside, outside)


@test
def outside_leaves_removed_paths_alone():
    """A reading does not touch the memory of removed call paths, which the library has given
    back."""
    program = harness.build_program("tests/tables/phases.c")
    with runtime_dir() as directory, harness.Target([program, "phases=2", "seconds=1"], directory,
                                                    MEMCTX_CONTROL="eager",
                                                    MEMCTX_TABLES="32M") as target:
        for _ in range(2):
            wait_until(lambda: target.hear(60).startswith("STAND"), "a pause of the program")
            target.say("go")
        wait_until(lambda: target.hear(60).startswith("STAND"), "the end of the second phase")
        with Wire(target.wait_socket()) as client:
            done = harness.run_cli("set", str(target.pid), "tables=1M", env=target.cli_env)
            check_equal(done.returncode, 0, f"set; {done.stderr}")
            wait_until(lambda: client.statistics()["tables_bytes"] < 600 << 10,
                       "the removal of paths")
        target.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: harness.read_status(target.pid, "State").startswith("T"), "the stop")
        present = present_pages(target.pid)
        read(target.pid)
        check_equal(present_pages(target.pid), present, "OS pages of the process")


@test
def long_names_from_outside():
    """Labels of named contexts are cut at the same byte over the socket and from outside."""
    with runtime_dir() as directory, \
         harness.Target([harness.build_program("tests/control/labels.c")], directory,
                        MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(60), "ready", "what the program said")
        target.wait_socket()
        inside, outside = target.dump("--threads", "--no-symbols"), read(target.pid, "--outside")
        compare(inside, outside)
        text = json.dumps(inside)
        check(all(letter * 3 in text for letter in "abcdefghijk"), "a name is missing")


def contexts_of_frag(target):
    """{id: context} in `memctx frag --json`, without resident bytes and ages, which change."""
    done = harness.run_cli("frag", "--json", "--no-symbols", "--limit", "0", str(target.pid),
                           env=target.cli_env)
    check_equal(done.returncode, 0, f"frag; {done.stderr}")
    return {context["id"]: {key: value for key, value in context.items() if "age" not in key and
                            "resident" not in key}
            for context in json.loads(done.stdout)["contexts"]}


@test
def serial_and_full_pages_from_outside():
    """Pages of chunks that stand one behind the other, and full pages, have equal figures over the
    socket and from outside, also after a trim, and with chunks that their thread has not collected
    yet."""
    with runtime_dir() as directory, \
         harness.Target([harness.build_program("tests/control/serial.c")], directory,
                        MEMCTX_CONTROL="eager",
                        MEMCTX_HOLES="0") as target:
        check_equal(target.hear(60), "ready", "what the program said")
        target.wait_socket()
        for trims in (False, True):
            if trims:
                for verb in (["trim", "--site", "generations"], ["dump"]):
                    done = harness.run_cli(verb[0], str(target.pid), *verb[1:], env=target.cli_env)
                    check_equal(done.returncode, 0, f"{verb}: {done.stderr}")
                    # a thread trims in its next malloc
                    check_equal(target.ask("more"), "more", "its answer")
            inside, holders = target.dump("--threads", "--no-symbols"), contexts_of_frag(target)
            target.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: harness.read_status(target.pid, "State").startswith("T"), "the stop")
            compare(inside, read(target.pid))
            check_equal(contexts_of_frag(target), holders, "contexts in frag")
            empty = [context["empty_os_bytes"]
                     for context in holders.values() if "generations" in str(context["frame"])]
            check_equal(sum(empty) == 0, trims, f"the trim gave all empty OS pages back: {empty}")
            target.process.send_signal(signal.SIGCONT)
            wait_until(lambda: not harness.read_status(target.pid, "State").startswith("T"),
                       "the process to go on")


@test
def outside_without_socket():
    """A process without a control thread is read from outside, and the dump names the reason."""
    with runtime_dir() as directory:
        with start_python(directory, MEMCTX_CONTROL="off") as target:
            advice = harness.run_cli("doctor", str(target.pid), env=target.cli_env).stdout
            check("memctx mark" not in advice and f"dump {target.pid} -o" in advice,
                  f"doctor suggests marks that nobody can set: {advice}")
            dump = read(target.pid)
            check("MEMCTX_CONTROL=off" in dump["how"], dump["how"])
            check(dump["totals"]["requested_bytes"] > 20 << 20, f"too few bytes: {dump['totals']}")
            check("nothing was ever allocated" not in dump["how"], dump["how"])
            saved = os.path.join(directory, "saved.memctx")
            check_equal(harness.run_cli("dump", str(target.pid), "-o", saved).returncode, 0,
                        "dump -o")
            grown = json.loads(harness.run_cli("diff", "--json", saved, str(target.pid)).stdout)
            for end in (grown["from"], grown["to"]):
                check(not end["exact"] and "MEMCTX_CONTROL=off" in end["how"], f"diff: {end}")
            for words in (["diff", saved, target.pid],
                          ["export", target.pid, "--folded", "/dev/null"],
                          ["dump", target.pid, "--svg", "/dev/null"]):
                done = harness.run_cli(*words)
                said = (done.stdout if words[0] == "diff" else done.stderr)
                check("not exact: read from outside" in said and "MEMCTX_CONTROL=off" in said,
                      f"{words}: {said}")
        idle = harness.build_program("tests/control/waits.c")
        with harness.Target([idle, "pause"], directory, MEMCTX_CONTROL="off") as target:
            wait_until(lambda: "libmemctx" in maps_of(target.pid), "the library")
            check("nothing was ever allocated" in read(target.pid)["how"],
                  "a program that never allocates")
        with harness.Target(["setpriv", "--no-new-privs", "cat"], directory) as target:
            wait_until(lambda: open(f"/proc/{target.pid}/comm").read() == "cat\n" and
                       "libmemctx" in maps_of(target.pid), "cat")
            # on a busy machine it may have a socket
            how = read(target.pid).get("how", "no_new_privs")
            check("no_new_privs" in how, f"a young process that has set no_new_privs: {how}")
        # On a busy machine cat may start so slowly that it gets a socket, so the test starts up to
        # 20.
        check(any(cat_is_read_from_outside(directory) for _ in range(20)), "each cat has a socket")


def row_of(target):
    """The process in `memctx ps --json`."""
    done = harness.run_cli("ps", "--json", env=target.cli_env)
    return next(row for row in json.loads(done.stdout)["processes"] if row["pid"] == target.pid)


def cat_is_read_from_outside(directory):
    """Checks that a dump of cat is read from outside; returns False if cat has a socket."""
    # waits in read(), which starts no control thread
    with harness.Target(["cat"], directory) as target:
        wait_until(lambda: "libmemctx" in maps_of(target.pid), "the library")
        if "how" not in read(target.pid):
            return False
        wait_until(lambda: "too young" not in read(target.pid).get("how", ""),
                   "the reason of an older process")
        dump = read(target.pid)
        if "how" not in dump:
            return False
        check("has not started" in dump["how"], f"the reason: {dump['how']}")
        row = row_of(target)
        check_equal((row["socket"], row["outside"], row["requested_bytes"]),
                    (False, True, dump["totals"]["requested_bytes"]),
                    "socket, outside, bytes in ps")
        return True


def root_lists():
    """The lists of names in include/memctx/outside.h."""
    with open(os.path.join(harness.ROOT, "include/memctx/outside.h"), encoding="ascii") as file:
        text = file.read()
    lists = dict(re.findall(r"#define OUTSIDE_(\w+)\(X\)((?:.*\\\n)*.*)", text))
    return {key: re.findall(r"X\(([\w, ]+)\)", lists[key])
            for key in ("ADDRESSES", "CONSTANTS", "FIELDS", "STRUCTS")}


def address_number(name):
    return root_lists()["ADDRESSES"].index(name)


def root_of(pid):
    """The address of struct outside_root in a process."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps_of(pid).splitlines():
            if "libmemctx" in line:
                start, end = (int(word, 16) for word in line.split()[0].split("-"))
                found = os.pread(memory.fileno(), end - start, start).find(MAGIC)
                if found >= 0:
                    return start + found
    raise Failure("the process has no root")


def change_root(pid, at, word):
    """Writes bytes into the root of a process, at an offset; returns the bytes that stood there."""
    root = root_of(pid)
    with open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        before = os.pread(memory.fileno(), len(word), root + at)
        os.pwrite(memory.fileno(), word, root + at)
    return before


@test
def unreadable_from_outside():
    """If neither the socket nor the memory of a process can be used, the message has both reasons.
    If only the memory cannot be used, a process that is stopped for an instant is asked."""
    layout = struct.pack("<I", 99)
    idle = harness.build_program("tests/control/waits.c")
    with runtime_dir() as directory:
        with harness.Target([idle, "pause"], directory, MEMCTX_CONTROL="off") as target:
            wait_until(lambda: sleeps(target.pid, "34"), "pause")
            check_equal(row_of(target)["incomplete"], False, "incomplete in ps")
            nodes = change_root(target.pid, ADDRESSES_AT + 8 * address_number("tree_fixed_nodes"),
                                struct.pack("<Q", 4096))
            check_equal(row_of(target)["incomplete"], True, "incomplete in ps, without a table")
            change_root(target.pid, ADDRESSES_AT + 8 * address_number("tree_fixed_nodes"), nodes)
            change_root(target.pid, 32, layout)
            said = read(target.pid, code=3)
            check("MEMCTX_CONTROL=off" in said and "cannot be read either" in said and
                  "layout 99" in said, said)
        with harness.Target([idle, "pause"], directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            change_root(target.pid, 32, layout)
            ends = threading.Event()

            def stop_and_go():
                while not ends.wait(0.003):
                    target.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.004)
                    target.process.send_signal(signal.SIGCONT)

            limiter = threading.Thread(target=stop_and_go)
            limiter.start()
            try:
                for _ in range(20):
                    done = harness.run_cli("dump", "--json", str(target.pid), env=target.cli_env)
                    check_equal(done.returncode, 0,
                                f"dump of a process that is stopped now and then; {done.stderr}")
            finally:
                ends.set()
                limiter.join()
            target.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: harness.read_status(target.pid, "State").startswith("T"), "the stop")
            said = read(target.pid, code=1)
            check("is stopped" in said and "layout 99" in said, said)


@test
def outside_with_a_full_queue():
    """If the socket accepts no connection, the process is read from outside, and the reason is the
    queue."""
    idle = harness.build_program("tests/control/waits.c")
    with runtime_dir() as directory, harness.Target([idle, "pause"], directory,
                                                    MEMCTX_CONTROL="off") as target, \
         socket.socket(socket.AF_UNIX) as server, contextlib.ExitStack() as clients:
        wait_until(lambda: sleeps(target.pid, "34"), "pause")
        os.makedirs(os.path.join(directory, "memctx"), mode=0o700, exist_ok=True)
        path = os.path.join(directory, "memctx", f"{target.pid}.sock")
        server.bind(path)
        server.listen(0)
        for _ in range(4):
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(path)
        done = harness.run_cli("dump", "--json", str(target.pid), env=target.cli_env)
        check_equal(done.returncode, 0, f"dump; {done.stderr}")
        check("accepts no connection" in json.loads(done.stdout)["how"], done.stdout[:300])
        done = harness.run_cli("mark", str(target.pid), "x", env=target.cli_env)
        check(done.returncode == 1 and "accepts no connection" in done.stderr,
              f"mark: {done.returncode} {done.stderr}")


def end_during_a_reading():
    """Ends a process while memctx reads it. Checks that the dump is complete, or that the message
    says that the process ended; returns True in the second case."""
    with runtime_dir() as directory, start_python(directory, MEMCTX_CONTROL="off") as target:
        memory = f"/proc/{target.pid}/mem"
        with subprocess.Popen([harness.CLI, "dump", "--json", "--no-symbols", "--outside",
                               str(target.pid)], text=True,
                              env=target.cli_env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as reader:
            while reader.poll() is None and memory not in opened_by(reader.pid):
                pass
            reader.send_signal(signal.SIGSTOP)
            target.kill()
            reader.send_signal(signal.SIGCONT)
            out, err = reader.communicate(timeout=60)
    if reader.returncode == 0:
        check("incomplete" not in json.loads(out)["how"],
              f"a dump of a process that ended: {out[:300]}")
        return False
    check(reader.returncode == 3 and out == "" and "ended, or executed another program" in err,
          f"{reader.returncode}: {err}; {out[:300]}")
    return True


def opened_by(pid):
    names = []
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                names.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    return names


@test
def outside_of_a_process_that_ends():
    """If a process ends while its memory is read, the command fails and says so."""
    check(any(end_during_a_reading() for _ in range(20)),
          "each reading was over before the process ended")


def start_sandboxed(argv, directory):
    bwrap = shutil.which("bwrap")
    words = [bwrap, "--dev-bind", "/", "/", "--unshare-all", "--"] if bwrap else \
        ["unshare", "-U", "-r", "-i", "-n", "-u", "--"]
    return harness.Target([*words, *argv], directory, preload=False)


@test
def outside_in_a_sandbox():
    """A process in its own namespaces (bwrap, else unshare) and without a socket is read from
    outside."""
    with runtime_dir() as directory:
        program = ["env", f"LD_PRELOAD={harness.LIB}", "MEMCTX_CONTROL=off", "/usr/bin/python3",
                   "-c",
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
def without_the_first_thread():
    """A process whose first thread has ended is listed, dumped, watched and read from outside."""
    program = harness.build_program("tests/control/last_thread.c")
    with runtime_dir() as directory, harness.Target([program, "wait"], directory,
                                                    MEMCTX_CONTROL="eager") as target:
        pid = target.pid
        wait_until(lambda: harness.read_status(pid, "State").startswith("Z"),
                   "the end of its first thread")
        wait_until(lambda: "how" not in read(pid),
                   "an answer of the control thread, which starts anew then")
        dump = read(pid)
        check_equal((dump["pid"], dump["exact"], dump["exe"]), (pid, True, program),
                    "pid, exact, exe")
        check(dump["rss_bytes"] > 0 and dump["totals"]["live_chunks"] > 0,
              f"figures: {dump['totals']}")
        rows = {row["pid"]: row
                for row in json.loads(harness.run_cli("ps", "--json").stdout)["processes"]}
        row = rows.get(pid, {})
        check(row.get("socket") and row["rss_bytes"] > 0 and program in row["command"],
              f"row of ps: {row}")
        how = read(pid, "--outside")["how"]
        thread = re.search(r"/proc/(\d+)/mem ", how)
        check(thread and int(thread[1]) != pid and os.path.exists(f"/proc/{pid}/task/{thread[1]}"),
              how)
        path = os.path.join(directory, f"memctx-{pid}-{os.path.basename(program)[:15]}.rec")
        done = harness.run_cli("set", str(pid), f"record={directory}")
        check_equal(done.returncode, 0, done.stderr)
        wait_until(lambda: harness.run_cli("postmortem", path).returncode == 0, "a recording")
        told = json.loads(harness.run_cli("postmortem", path, "--json").stdout)
        dump = json.loads(harness.run_cli("dump", path, "--json").stdout)
        check_equal((told["program"], dump["exe"]), (os.path.basename(program), program),
                    "the program in its recording")
        for words in (["doctor", pid], ["frag", pid], ["mark", pid, "x"],
                      ["watch", pid, "--when", "inuse>1", "--every", "50ms", "--do",
                       "exec:kill -9 $MEMCTX_PID"]):
            done = harness.run_cli(*map(str, words))
            check_equal(done.returncode, 0, f"{words}; {done.stderr}")


@test
def no_process_is_seen_without_proc():
    """Without /proc, as in a chroot, the verbs say so, but can still read files."""
    hide = ["unshare", "--mount", "sh", "-c",
            f"mount -t tmpfs none /proc && cd {harness.ROOT} && exec \"$@\"", "sh"]
    if harness.run_program([*hide, "true"], harness.clean_env()).returncode != 0:
        raise Skip("needs root, to hide /proc in a mount namespace")
    for words in ("ps", "dump 1", "dump redis-server", "top --all", "watch --all --when rss>1",
                  "serve --all"):
        done = harness.run_program([*hide, harness.CLI, *words.split()], harness.clean_env())
        check(done.returncode == 3 and "/proc is not mounted" in done.stderr,
              f"{words}: {done.returncode} {done.stderr}")
    done = harness.run_program([*hide, harness.CLI, "dump", "Makefile"], harness.clean_env())
    check(done.returncode == 1 and "Makefile" in done.stderr,
          f"a file: {done.returncode} {done.stderr}")


@test
def pid_namespaces_that_share_a_directory():
    """Two processes with one pid in their namespaces share the name of a socket. The older one is
    read from outside, and the dump says why."""
    if os.geteuid() != 0:
        raise Skip("needs root, to make pid namespaces")
    program = harness.build_program("tests/cli/programs/allocate.c")
    argv = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", program]
    with runtime_dir() as directory, harness.Target(argv, directory,
                                                    MEMCTX_CONTROL="eager") as first:
        check_equal(first.hear(), "ready", "the first")
        with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as second:
            check_equal(second.hear(), "ready", "the second")
            pids = []
            for target in (first, second):
                with open(f"/proc/{target.pid}/task/{target.pid}/children",
                          encoding="ascii") as file:
                    pids.append(file.read().split()[0])
            wait_until(lambda: "how" not in read(pids[1]), "an answer of the second")
            how = read(pids[0])["how"]
            check(f"process {pids[1]} listens under its name" in how and
                  "XDG_RUNTIME_DIR or /tmp of its own" in how, how)


@test
def outside_forbidden():
    """A user cannot read another user's process, stopped or not."""
    if os.geteuid() != 0:
        raise Skip("needs root, to be another user")
    with runtime_dir() as directory, start_python(directory, MEMCTX_CONTROL="off") as target:
        for options in ([], ["--outside"]):
            done = harness.run_program([harness.public_copy(harness.CLI), "dump", *options,
                                        str(target.pid)],
                                       harness.clean_env(), uid=harness.NOBODY)
            check(done.returncode == 4 and "run memctx as" in done.stderr,
                  f"{options}: {done.returncode} {done.stderr}")


@test
def outside_of_a_user_with_a_foreign_directory():
    """A process with root's XDG_RUNTIME_DIR and without a socket (cat has no control thread) is
    read from outside by its own user."""
    if os.geteuid() != 0:
        raise Skip("needs root, to be another user")
    with runtime_dir() as directory, harness.Target(["/bin/cat"], directory,
                                                    uid=harness.NOBODY) as target:
        wait_until(lambda: "libmemctx" in maps_of(target.pid), "the library")
        done = harness.run_program([harness.public_copy(harness.CLI), "dump", "--json",
                                    str(target.pid)],
                                   harness.clean_env(), uid=harness.NOBODY)
        check_equal(done.returncode, 0, f"dump; {done.stderr}")
        check("no socket" in json.loads(done.stdout)["how"], done.stdout[:300])


@test
def outside_in_a_debugger():
    """A process that a debugger has stopped is read from outside; the dump's reason names the
    debugger."""
    if not shutil.which("gdb"):
        raise Skip("no gdb")
    with runtime_dir() as directory, start_python(directory, MEMCTX_CONTROL="eager") as target:
        target.wait_socket()
        gdb = ["gdb", "-q", "-nx", "-batch", "-ex", "shell kill -STOP $PPID", "-p", str(target.pid)]
        with subprocess.Popen(gdb, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as debugger:
            try:
                wait_until(lambda: harness.read_status(target.pid, "State").startswith("t"),
                           "the debugger")
                check("debugger has stopped" in read(target.pid)["how"], "how")
                done = harness.run_cli("mark", str(target.pid), "x")
                check(done.returncode == 1 and "a debugger has stopped it" in done.stderr,
                      done.stderr)
            finally:
                debugger.kill()


# --- core files -------------------------------------------------------------------------------


def core_of(target, directory):
    """Ends the target by SIGSEGV, so that the kernel writes its core file; returns the file's
    path."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if "/" in pattern or pattern.startswith("|") or "%" in pattern:
        return gcore_of(target, directory)
    where = os.readlink(f"/proc/{target.pid}/cwd")
    resource.prlimit(target.pid, resource.RLIMIT_CORE,
                     (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
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


def grown_since(target, mark, **options):
    done = harness.run_cli("diff", "--json", "--limit", "0", "--no-symbols", str(target), mark,
                           **options)
    check_equal(done.returncode, 0, f"diff; {done.stderr}")
    return {key: value for key, value in json.loads(done.stdout).items()
            if key in ("totals", "contexts")}


def records_of(target, place, **options):
    """The marks and notes of a process or a core file, from `memctx dump -o`."""
    saved = os.path.join(place, "records.json")
    done = harness.run_cli("dump", "--json", "--no-symbols", "-o", saved, str(target), **options)
    check_equal(done.returncode, 0, f"dump -o; {done.stderr}")
    with open(saved, encoding="utf-8") as file:
        return {key: value for key, value in json.load(file).items() if key in ("marks", "notes")}


@test
def memory_that_gcore_adds_is_not_resident():
    """gcore writes zeros for memory that was never touched, which is neither resident nor in huge
    pages."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with start_python(directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            with open(f"/proc/{target.pid}/status", encoding="ascii") as file:
                anonymous = next(int(line.split()[1]) << 10
                                 for line in file if line.startswith("RssAnon"))
            core = gcore_of(target, place)
        dump = json.loads(harness.run_cli("dump", "--json", "--no-symbols", core).stdout)
        # the file also has parts of mapped files, and what the process wrote as zeros counts as a
        # hole
        check(anonymous * 3 // 4 < dump["rss_bytes"] < anonymous * 5 // 4,
              f"{dump['rss_bytes']} of {anonymous} bytes")
        check("has no holes" in dump["how"], dump["how"])
        text = " ".join(harness.run_cli("frag", core).stdout.split())
        check("huge pages" not in text, f"the ledger: {text[:800]}")


@test
def core_equals_socket():
    """The core file of a crashed python3 has the figures that its socket gave before."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with start_python(directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            for verb in (["mark", "planted"], ["reset"], ["mark", "second"]):
                done = harness.run_cli(verb[0], str(target.pid), *verb[1:], env=target.cli_env)
                check_equal(done.returncode, 0, f"{verb}; {done.stderr}")
                check_equal(target.ask("more"), "more", "its answer")
            with Wire(target.socket_path()) as client:
                for number in range(20):  # more notes than the library keeps
                    ask(client, "WIRE_NOTE", b"note %d" % number)
            inside = target.dump("--threads", "--no-symbols")
            check(inside["reallocs"], "counts of realloc are missing inside")
            kept = records_of(target.pid, place, env=target.cli_env)
            check_equal((len(kept["marks"]), len(kept["notes"])), (2, 16), "marks and notes inside")
            grown = grown_since(target.pid, "planted", env=target.cli_env)
            check(grown["contexts"], "nothing has grown since the mark")
            began = time.monotonic()
            uptime = target.dump("--no-symbols")["uptime_s"]
            core = core_of(target, place)
            latest = uptime + time.monotonic() - began
        outside = read(core)
        check(max(mark["uptime_s"] for mark in kept["marks"]) <= outside["uptime_s"] <= latest,
              f"uptime of the core: {outside['uptime_s']}; {latest}; marks: {kept['marks']}")
        check(records_of(core, place) == kept, "marks with their entries, or notes, differ")
        check(grown_since(core, "planted") == grown,
              "diff since a mark that a reset followed differs")
        check_equal(outside["how"], f"read from the core file {core}", "how")
        check_equal((outside["exact"], outside["pid"]), (True, target.pid), "exact, pid")
        compare(inside, outside, core=True)
        saved = os.path.join(place, "saved.memctx")
        for verb in (["doctor", core], ["frag", core], ["dump", core, "-o", saved],
                     ["diff", core, saved],
                     ["dump", saved], ["dump", "--flat", core], ["export", core, "--folded", "-"]):
            done = harness.run_cli(*verb)
            check_equal(done.returncode, 0, f"{verb}; {done.stderr}")
        advice = harness.run_cli("doctor", core, "--all").stdout
        check("marks: too few" in advice and
              not re.search(r"memctx (mark|set|trim|isolate)", advice),
              f"doctor suggests what a core file cannot do: {advice}")
        page = os.path.join(place, "report.html")
        check_equal(harness.run_cli("report", core, "-o", page).returncode, 0, "report")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        check(f'"how":"read from the core file {core}"' in text, "the report does not say so")
        check('"threads":{"list":[[' in text, "the report of a core has no threads")
        long = f"{core}.{'x' * 120}"
        os.link(core, long)
        grown = json.loads(harness.run_cli("diff", "--json", long, core).stdout)
        check_equal([grown[key]["name"] for key in ("from", "to")], [long, core],
                    "names of the core files")
        check("exact" not in harness.run_cli("export", core, "--folded", "/dev/null").stderr,
              "a core's figures are exact")
        for target in (core, saved):
            text = harness.run_cli("frag", "--pages", target).stdout
            check(f"read from the core file {core}" in " ".join(text.split()),
                  f"frag does not say so: {text[:300]}")
            check("would save" in text and not re.search(r"memctx (set|trim|isolate)", text),
                  f"frag suggests what a core file cannot do: {text}")
        text = harness.run_cli("dump", saved).stdout
        check(f"read from the core file {core}" in text, "a snapshot of a core does not say so")
        for verb in (["mark", core, "x"], ["top", core], ["postmortem", core]):
            done = harness.run_cli(*verb)
            check_equal((done.returncode, " is a core file" in done.stderr), (1, verb[0] != "mark"),
                        f"{verb}: {done.stderr}")


@test
def core_tells_remote_frees():
    """doctor finds in a core file the frees of one thread for another."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        with harness.Target([harness.build_program("tests/control/remote.c")], directory) as target:
            check_equal(target.hear(60), "ready", "what the program said")
            core = core_of(target, place)
        found = json.loads(harness.run_cli("doctor", "--json", core).stdout)["findings"]
        check("remote-frees" in [finding["id"] for finding in found], f"findings: {found}")


@test
def core_of_redis():
    """The figures in the core file of a redis-server are exact and add up."""
    server = shutil.which("redis-server")
    if not server:
        raise Skip("no redis-server")
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        argv = [server, "--port", "0", "--save", "", "--dir", place, "--unixsocket",
                os.path.join(place, "redis.sock")]
        with harness.Target(argv, directory, MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            wait_until(lambda: "Server initialized" in target.hear(60), "redis")
            core = core_of(target, place)
            outside = read(core)
        check(outside["totals"]["requested_bytes"] > 500000, f"totals: {outside['totals']}")
        check_equal(outside["exact"], True, "exact")
        harness.check_sums(outside)


def sleeps(pid, *calls):
    """True if the program waits in nanosleep, or in one of the system calls, so its start is
    over."""
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            sleeping = file.read().split()[0] in (calls or ("35", "230"))
    except OSError:  # /proc/PID/syscall cannot be read
        sleeping = harness.read_status(pid, "State").startswith("S")
    return sleeping and "libmemctx" in maps_of(pid)


def small_core(directory, place):
    with harness.Target(["sleep", "60"], directory) as target:
        target.wait_socket()
        wait_until(lambda: sleeps(target.pid), "sleep")
        with Wire(target.socket_path()) as client:
            ask(client, "WIRE_NOTE", b"a note")
        check_equal(harness.run_cli("mark", str(target.pid), "planted",
                                    env=target.cli_env).returncode, 0, "mark")
        path = core_of(target, place)
    with open(path, "rb") as file:
        return bytearray(file.read())


class Tables:
    """Finds the library's tables in a core file, by the lists of include/memctx/outside.h."""

    def __init__(self, core):
        self.core = core
        names = root_lists()
        self.root = core.find(MAGIC)
        check(self.root > 0, "the core has no root")
        self.addresses_at = self.root + ADDRESSES_AT
        self.constants_at = self.addresses_at + 8 * len(names["ADDRESSES"])
        self.fields_at = self.constants_at + 4 * len(names["CONSTANTS"])
        self.structs_at = self.fields_at + 8 * len(names["FIELDS"])
        self.end = self.structs_at + 4 * len(names["STRUCTS"])
        check_equal(self.number(self.root + 36, 4), (self.end - self.root + 7) & ~7,
                    "bytes of the root")
        self.addresses = {name: self.number(self.addresses_at + 8 * i)
                          for i, name in enumerate(names["ADDRESSES"])}
        self.fields = {name.replace(", ", "."): self.number(self.fields_at + 8 * i, 4)
                       for i, name in enumerate(names["FIELDS"])}
        self.sizes = {name: self.number(self.structs_at + 4 * i, 4)
                      for i, name in enumerate(names["STRUCTS"])}
        count, at = self.number(56, 2), self.number(32)
        self.loads = [struct.unpack_from("<IIQQQQQQ", core, at + 56 * i) for i in range(count)]

    def number(self, at, size=8):
        return int.from_bytes(self.core[at:at + size], "little")

    def place(self, address):
        """The offset of an address in the file."""
        for kind, _, offset, start, _, held, _, _ in self.loads:
            if kind == 1 and start <= address < start + held:
                return offset + address - start
        raise Failure(f"0x{address:x} is not in the core")

    def word(self, address, size=8):
        return self.number(self.place(address), size)

    def targets(self):
        """Tables that memctx reads: name -> (offset in the file, bytes)."""
        heap = self.word(self.addresses["heap_global"] + self.fields["heap_global.first"])
        views = self.word(heap + self.fields["heap.views"])
        nodes = self.word(self.addresses["tree_blocks"])
        count = self.word(self.word(self.addresses["tree_count_shown"]), 4)
        modules = self.word(self.addresses["unwind_rules_shown"])
        near = self.addresses["segment_near"]
        flags = self.core[self.place(near):self.place(near) + 32768]
        number = next(i for i, flag in enumerate(flags) if flag == 1)
        segment = (self.word(self.addresses["segment_near_first"]) + number) << 22
        pages = segment + 2 * self.sizes["page"]
        marks = self.word(self.word(self.addresses["marks_shown"]))
        entries = self.word(marks + self.fields["mark.first"])
        return {"marks": (self.place(marks), self.sizes["mark"]),
                "entries of a mark": (self.place(entries), 400),
                "notes": (self.place(self.word(self.addresses["notes_shown"])), 16),
                "number of notes": (self.place(self.word(self.addresses["notes_made_shown"])), 4),
                "addresses": (self.addresses_at, self.constants_at - self.addresses_at),
                "constants": (self.constants_at, self.fields_at - self.constants_at),
                "fields": (self.fields_at, self.structs_at - self.fields_at),
                "structs": (self.structs_at, self.end - self.structs_at),
                "heaps": (self.place(self.addresses["heap_global"]), self.sizes["heap_global"]),
                "heap": (self.place(heap), 256),
                "views of the heap": (self.place(heap + self.fields["heap.views"]), 16),
                "views": (self.place(views), count * self.sizes["view"]),
                "nodes": (self.place(nodes) + 8 * self.sizes["tree_node"],
                          (count - 8) * self.sizes["tree_node"]),
                "fixed nodes":
                (self.place(self.addresses["tree_fixed_nodes"]), 8 * self.sizes["tree_node"]),
                "count of nodes": (self.place(self.word(self.addresses["tree_count_shown"])), 4),
                "modules": (self.place(modules), 3 * self.sizes["module"]),
                "count of modules":
                (self.place(self.word(self.addresses["unwind_rules_count_shown"])), 4),
                "mappings of tables":
                (self.place(self.word(self.addresses["meta_mappings_shown"])), 32),
                "count of mappings":
                (self.place(self.word(self.addresses["meta_mapping_count_shown"])), 8),
                "sums of tables": (self.place(self.word(self.addresses["meta_usage_shown"])), 16),
                "control thread's mappings":
                (self.place(self.word(self.addresses["buffers_shown"])), 96),
                "control thread's stack": (self.place(self.addresses["buffers_stack_top"]), 8),
                "segments": (self.place(near) + number - 8, 16),
                "page headers": (self.place(pages), 24 * self.sizes["page"])}


WILD = [0, 1, 7, 8, 127, 255, 4096, 2**31, 2**32 - 1, 2**63, 2**64 - 1]


def spoil(core, targets, kind, rng):
    """Returns a damaged copy of the core file: cut, or with overwritten headers or tables."""
    if kind == "cut":
        return core[:rng.randrange(len(core))]
    core = bytearray(core)
    first, length = {"head": (0, 4096), "notes": (4096, 12288), **targets}[kind]
    for _ in range(rng.choice([1, 2, 8, 40])):
        size = rng.choice([1, 2, 4, 4, 8, 8])
        at = first + rng.randrange(max(1, length - size)) // size * size
        value = int.from_bytes(core[at:at + size], "little")
        wild = rng.choice([*WILD, value + 1, value + 8, value ^ 4096, rng.getrandbits(64)])
        core[at:at + size] = (wild % 2**(8 * size)).to_bytes(size, "little")
    return core


@test
def core_damaged():
    """Damaged core files give figures or a message within a bounded time, never a crash."""
    rounds = int(os.environ.get("MEMCTX_TEST_CORES", "120"))
    rng = random.Random(int(os.environ.get("MEMCTX_TEST_SEED", "1")))
    seen = set()
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        core = small_core(directory, place)
        targets = Tables(core).targets()
        kinds = ["cut", "head", "notes", *targets]
        path = os.path.join(place, "core.spoilt")
        for number in range(rounds):
            kind = kinds[number % len(kinds)]
            with open(path, "wb") as file:
                file.write(spoil(core, targets, kind, rng))
            done = harness.run_cli("dump", "--json", "--threads", "--no-symbols", path,
                                   timeout_s=60)
            what = f"round {number}, {kind}: exit status {done.returncode} {done.stderr[-1500:]}"
            check(done.returncode in (0, 1, 3), what)
            check("damaged answer" not in done.stderr and "damaged dump" not in done.stderr, what)
            check((done.returncode == 0) == (done.stdout != ""), f"half an answer: {what}")
            seen.add(done.returncode)
        check({0, 1} <= seen, f"all cores ended alike: {seen}")


@test
def core_without_tables():
    """A core file of another layout, or without anonymous memory, gives a message with the
    reason."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        core = small_core(directory, place)
        path = os.path.join(place, f"core.{'x' * 120}")
        tables = Tables(core)
        for end, code, words in ((tables.root, 1, "the data of libmemctx.so among them"),
                                 (len(core) - 4096, 0, "")):
            with open(path, "wb") as file:
                file.write(core[:end])
            said = read(path, code=code)
            check(code or not said["exact"], "a cut core is exact")
            said = said if code else said["how"]
            check(path in said, f"the name of the core file: {said}")
            check(re.search("the file is cut off|the core file is cut off", said) and words in said,
                  f"a cut core: {said}")
        for words in (["diff", path, path], ["export", path, "--folded", "-"],
                      ["dump", path, "--svg", "/dev/null"]):
            done = harness.run_cli(*words)
            check("the file is cut off" in (done.stdout if words[0] == "diff" else done.stderr),
                  f"{words}: {done.stderr}")
        with open(path, "wb") as file:
            file.write(core)
        done = harness.run_program(["/bin/sh", "-c", 'cat "$1" | "$2" dump /dev/stdin', "sh", path,
                                    harness.CLI], harness.clean_env())
        check(done.returncode == 1 and "a core file is not read from a pipe" in done.stderr,
              f"a core from a pipe: {done.stderr}")
        for packer, suffix in (("gzip", "gz"), ("xz", "xz"), ("zstd", "zst"), ("bzip2", "bz2")):
            if shutil.which(packer):
                packed = harness.run_program([packer, "-k", path], harness.clean_env())
                check_equal(packed.returncode, 0, packer)
                check(f": {packer} -d {path}.{suffix}" in read(f"{path}.{suffix}", code=1),
                      f"a core packed by {packer}")
        at = tables.addresses_at + 8 * address_number("segment_global")
        with open(path, "wb") as file:
            file.write(core[:at] + struct.pack("<Q", 4096) + core[at + 8:])
        dump = read(path)
        check("incomplete: 1 part of" in dump["how"] and not dump["exact"],
              f"a core without the sums of memory: {dump['how']}")
        held = tables.place(tables.addresses["heap_global"] + tables.fields["heap_global.lock"])
        with open(path, "wb") as file:
            file.write(core[:held] + b"\1" + core[held + 1:])
        dump = read(path)
        check("figures were being moved" in dump["how"] and not dump["exact"],
              f"a core while a thread ends: {dump['how']}")
        core[core.find(MAGIC) + 32] = 99
        with open(path, "wb") as file:
            file.write(core)
        check("tables have layout 99" in read(path, code=1), "another layout")
        with harness.Target(["sleep", "60"], directory) as target:
            wait_until(lambda: sleeps(target.pid), "sleep")
            with open(f"/proc/{target.pid}/coredump_filter", "w", encoding="ascii") as file:
                file.write("0")
            path = core_of(target, place)
        check("coredump_filter" in read(path, code=1), "a core without anonymous memory")
