# SPDX-License-Identifier: MIT
"""Processes that do not answer: figures from their memory equal those of the socket."""
import contextlib
import json
import os
import re
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
from outside_reading import (ADDRESSES_AT, MAGIC, address_number, compare, maps_of, read, sleeps,
                             start_python)
from wire import Wire


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
    settings = {"MEMCTX_CONTROL": "eager", "MEMCTX_RULES": "nothing=own;PyObject_*=slab",
                "MEMCTX_HOLES": "0"}  # else OS pages may go back between two looks
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
        check_equal(outside["doubt"], outside["how"], "why it is not exact")
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
            done = harness.run_cli("diff", str(target.pid))
            check(done.returncode == 1 and "takes no marks; compare it with a snapshot" in
                  done.stderr, f"diff suggests a mark that nobody can set: {done.stderr}")
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
            check_equal(f"{read(target.pid)['rss_bytes'] >> 10} kB",
                        harness.read_status(target.pid, "VmRSS"), "the resident set")
        with harness.Target(["setpriv", "--no-new-privs", "cat"], directory) as target:
            wait_until(lambda: open(f"/proc/{target.pid}/comm").read() == "cat\n" and
                       "libmemctx" in maps_of(target.pid), "cat")
            # on a busy machine it may have a socket
            how = read(target.pid).get("how", "no_new_privs")
            check("no_new_privs" in how, f"a young process that has set no_new_privs: {how}")
        # On a busy machine cat may start so slowly that it gets a socket, so the test starts up to
        # 20.
        check(any(cat_is_read_from_outside(directory) for _ in range(20)), "each cat has a socket")


@test
@harness.in_tries
def outside_at_the_start():
    """A command waits for a process that has not loaded the library yet, as after `program &`."""
    argv = ["/bin/sh", "-c", f"sleep 0.1; LD_PRELOAD={harness.LIB} exec cat"]
    with runtime_dir() as directory, harness.Target(argv, directory, preload=False,
                                                    MEMCTX_CONTROL="off") as target:
        check_equal(read(target.pid)["program"], "cat", "the program")


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
def outside_of_a_library_with_another_name():
    """A process whose library was renamed or deleted is found by ps, and is read from outside,
    running and stopped. A process without the library is not found."""
    with runtime_dir() as directory, tempfile.TemporaryDirectory() as place:
        path, renamed = os.path.join(place, "libmemctx.so"), os.path.join(place, "heap.so")
        shutil.copy(harness.LIB, path)
        with start_python(directory, MEMCTX_CONTROL="off", LD_PRELOAD=path) as target:
            os.rename(path, renamed)
            check(path not in maps_of(target.pid), "the library has its old name")
            check(len(read(target.pid, "--outside")["contexts"]) > 100, "few contexts")
            os.remove(renamed)
            check("MEMCTX_CONTROL=off" in read(target.pid)["how"], "how a running process was read")
            listed = json.loads(harness.run_cli("ps", "--json").stdout)["processes"]
            check(target.pid in [row["pid"] for row in listed], "ps does not list the process")
            target.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: harness.read_status(target.pid, "State").startswith("T"), "the stop")
            check("is stopped" in read(target.pid)["how"], "how a stopped process was read")
        with harness.Target(["/bin/cat"], directory, preload=False) as target:
            check_equal(target.ask("a word"), "a word", "what cat said")
            check("runs without libmemctx.so" in read(target.pid, code=3), "the message for cat")
            check("ran without memctx" in read(target.pid, "--outside", code=3), "from outside")


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
