# SPDX-License-Identifier: MIT
"""Exit codes, messages and help texts of the command, and targets that do not exist."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from clitest import (CLI, LIB, cli, expect, fake, find_row, scratch, succeed, target,
                     wait_for_library)
from harness import (NOBODY, Skip, Target, build_program, check, check_equal, clean_env,
                     runtime_dir, test, wait_until)

VERBS = ["run", "ps",
         "dump", "top", "frag", "doctor", "diff", "report", "export", "postmortem", "rules",
         "options", "verify",
         "mark", "reset", "trim", "isolate", "merge", "set",
         "watch", "serve", "push", "agent"]


def sleeper():
    return ["/bin/sleep", "100"]


@test
def help_and_version():
    text = succeed("--help")
    check_equal(re.findall(r"^  (\w+) ", text, re.M), VERBS, "verbs in the help")
    first = re.findall(r"memctx (\w+)", text.split("Start a program, and find it:")[0])
    check_equal([word for word in first if word in VERBS], ["run", "doctor"], "where to begin")
    check(re.fullmatch(r"memctx \d+\.\d+\.\d+\n", succeed("--version")), "version")
    for verb in VERBS:
        text = succeed(verb, "--help")
        check(text.startswith(f"usage: memctx {verb} "), f"help of {verb}")
        check_equal(succeed("help", verb), text, f"help {verb}")
        check_equal(succeed(verb, "--version"), succeed("--version"), "version of a verb")
        for line in text.splitlines():
            check(len(line) <= 80, f"help of {verb}: over 80 columns: {line}")


@test
def usage_errors():
    done = expect(2, "missing verb")
    check_equal(re.findall(r"^  (\w+) ", done.stderr, re.M), VERBS, "verbs beside the message")
    check_equal(done.stdout, "", "standard output")
    for verb in ["dumb", "web"]:
        expect(2, f"unknown verb: {verb}", verb)
    for verb in ["dump", "top", "frag", "doctor", "postmortem", "mark", "diff", "reset", "trim",
                 "set"]:
        expect(2, "needs a FILE: a recording" if verb == "postmortem" else "needs a TARGET", verb)
        expect(2, "unknown option", verb, "--nonsense", "1")
        expect(2, "unknown option -q", verb, "-q", "1")
    for words, suggested in ((["dmup", "1"], "unknown verb: dmup; did you mean dump\\?"),
                             (["help", "docter"], "did you mean doctor\\?"),
                             (["post"], "did you mean postmortem\\?"),
                             (["--hlep"], "did you mean --help\\?"),
                             (["--json", "dump", "1"], "the verb comes first: memctx dump --json"),
                             ([os.getpid()],
                              f"to look at the process: memctx doctor {os.getpid()}"),
                             (["xyzzy"], "unknown verb: xyzzy\\n"),
                             (["dump", "--jsno", "1"], "unknown option --jsno; did you mean "
                                                       "--json\\?"),
                             (["dump", "--xyzzy", "1"], "unknown option --xyzzy\\n"),
                             (["dump", "--json=yes", "1"], "--json takes no value; got --json=yes"),
                             (["dump", "--limit", "3", "1"], "of a list; add --flat, or"),
                             (["dump", "--no", "1"],
                              "--no is the beginning of --no-symbols, --no-pager"),
                             (["set", "1", "marsk=10m"], 'unknown option name "marsk"; did you '
                                                         'mean marks\\?'),
                             (["set", "1", "policy=slab"], "policy=slab needs contexts in front "
                              "of it; give their numbers"),
                             (["set", "1", "MEMCTX_DEPHT=3"], "did you mean depth\\?"),
                             (["set", "1", "MEMCTX_DEPTH=3"], "did you mean depth\\?"),
                             (["run", "--set", "dpeth=3", "true"],
                              'unknown option name "dpeth"; did you mean depth\\?'),
                             (["-" + "x" * 300], "unknown option"),
                             (["x" * 300], "unknown verb: x+\\n")):
        expect(2, suggested, *words)
    expect(2, "watch needs a TARGET, such as a pid or the name of a process\\n", "watch", "--when",
           "rss>1M")
    expect(2, "unexpected argument: 2; dump takes one TARGET", "dump", "1", "2")
    expect(2, "unexpected argument: b.rec; postmortem takes one FILE", "postmortem", "a.rec",
           "b.rec")
    expect(2, "needs a value", "dump", "1", "--sort")
    expect(2, "--sort takes one of", "dump", "1", "--sort", "size")
    expect(2, "--min takes a number of bytes", "dump", "1", "--min", "12X")
    expect(2, "--min takes a number of bytes", "dump", "1", "--min", "-3")
    expect(2, "--min takes a number of bytes", "dump", "1", "--min", "99999999999G")
    for text in ("1.5.2M", "1e3", "M", "1 M", "1MB2"):
        expect(2, "--min takes a number of bytes", "dump", "1", "--min", text)
    for text in ("0.05", "2x", "1e1", "61m", "-1", ""):
        expect(2, "--interval takes a time", "top", "1", "--interval", text)
    expect(2, "--depth takes a number", "dump", "1", "--depth", "0")
    expect(2, "regular expression", "dump", "1", "--site", "(")
    expect(2, "regular expression", "reset", "1", "--site", "[")
    expect(2, "exclude each other", "reset", "1", "--site", "a", "--context", "2")
    for words in (["isolate", "1", "2", "--site", "a"],
                  ["trim", "1", "--site", "a", "--context", "2"],
                  ["set", "1", "2", "--context", "3", "policy=slab"]):
        expect(2, "contexts are chosen twice", *words)
    expect(2, "missing contexts; give their numbers", "isolate", "1")
    expect(2, "unexpected argument: b; mark takes at most two", "mark", "1", "a", "b")
    expect(2, "when you read it", "dump", "1", "-o", "/tmp/x", "--min", "1")
    expect(2, "at most 31 bytes", "mark", "1", "x" * 32)
    expect(2, "no control characters", "mark", "1", "a\nb")
    expect(2, "name=value", "set", "1", "depth")
    expect(2, "at least one name=value", "set", "1")
    expect(2, "a rule is PATTERN=POLICY", "rules", "1", "--add", "slab")
    expect(2, "takes no TARGET", "ps", "1")
    expect(2, "--last takes a time", "postmortem", "x", "--last", "soon")
    expect(2, "missing PROGRAM", "run")
    expect(2, "watch needs a TARGET", "watch", "--when", "rss>1M", "--check")
    for words in (("-o", "/tmp/x"), ("--svg", "/tmp/x"), ("--outside",)):
        expect(2, "--self asks the process", "dump", "1", "--self", *words)
    for words in (("--flat",), ("--threads",), ("--peak",), ("--min", "1"), ("--depth", "3"),
                  ("--site", "a"), ("--context", "1")):
        expect(2, "--self prints figures of the whole process", "dump", "1", "--self", *words)
    expect(2, "which --quick leaves out", "frag", "1", "--map", "--quick")
    expect(2, "--metric takes one of", "export", "1", "--folded", "-", "--metric", "size")
    expect(2, "--metric needs --folded", "export", "1", "--csv", "-", "--metric", "waste")
    expect(2, "a=2: this name was given before", "export", "1", "--otlp", "/tmp/x",
           "--attribute", "a=1", "--attribute", "ab=1", "--attribute", "a=2")
    expect(2, "--folded and --csv both name standard output", "export", "1", "--csv", "-",
           "--folded", "-")
    expect(2, "--pprof and --csv both name /tmp/x;", "export", "1", "--csv", "/tmp/x", "--pprof",
           "/tmp/x")


@test
def names_cannot_command_the_terminal():
    """Names of files and processes come from anybody. Control characters in them are replaced:
    those of ASCII, and the others in UTF-8 (U+009B) and as single bytes (0x9b)."""
    wild, tame = b"\x1b[31m\x9b5m\xc2\x9b5m\xc3\xbc", b"?[31m?5m??5m\xc3\xbc"
    env = {key.encode(): value.encode() for key, value in clean_env().items()}
    for words in ([b"dump", wild], [b"dump", b"./" + wild], [b"dump", b"--" + wild], [wild],
                  [b"run", b"--", wild]):
        done = subprocess.run([os.fsencode(CLI), *words], capture_output=True, env=env, timeout=60,
                              check=False)
        check(tame in done.stderr and wild not in done.stderr, f"{words}: {done.stderr}")
    with target(["bash", "-c", 'exec -a "$1" python3 -c "print(\'ready\', flush=True); input()"',
                 "bash", wild]) as live:
        done = subprocess.run([CLI, "ps"], capture_output=True, env=live.cli_env, timeout=60,
                              check=False)
        check(tame in done.stdout and wild not in done.stdout, f"ps: {done.stdout[:1000]}")
    with scratch() as where:
        program = os.path.join(os.fsencode(where), wild)
        shutil.copy(build_program("tests/cli/programs/allocate.c"), program)
        with target([os.fsdecode(program)]) as live:
            for words in (["dump"], ["dump", "--flat"], ["frag"], ["doctor"],
                          ["top", "--batch", "1"]):
                done = subprocess.run([CLI, *words, str(live.pid), "--no-symbols"],
                                      capture_output=True, env=live.cli_env, timeout=60,
                                      check=False)
                check(tame in done.stdout and b"?[31m\x9b" not in done.stdout,
                      f"{words}: {done.stdout[:1000]}")


@test
def no_such_target():
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        free = int(file.read()) + 1
    for verb in ["dump", "top", "frag", "doctor", "postmortem", "mark", "diff", "reset", "trim",
                 "options"]:
        expect(3, f"no process has pid {free}; see memctx ps", verb, free)
    expect(3, "no process has pid 0", "dump", "0")
    expect(3, "no process has pid 99999999999999", "dump", "99999999999999999999")
    expect(3, "neither a process .* nor a file", "dump", "no-such-name-anywhere")
    expect(3, "cannot be opened; No such file or directory; make a snapshot", "dump",
           "./no-such-file")
    for recording in ("./no-such-file.rec", "no-such-file.rec", "no-such-file.rec@-10m"):
        expect(3, "cannot be opened; No such file or directory; under memctx run --record, a "
                  "program leaves", "postmortem", recording)


@test
def a_wrong_target_gets_a_hint():
    """The message proposes what was meant by a name that is near that of a process, by a TARGET
    that is not the first word, and by the file of a program instead of its process."""
    with scratch() as where:
        program = os.path.join(where, "shop-server-of-a-test")
        os.symlink(build_program("tests/cli/programs/allocate.c"), program)
        with target([program]) as live:
            name = os.path.basename(program)
            for word in ("shop-server", name.replace("of", "fo"), name.title()):
                expect(3, rf'"{word}" is neither .* nor a file; did you mean '
                          rf'({name}|{name[:15]})\?$', "dump", word, env=live.cli_env)
            for words in (["mark", "before", name], ["mark", "before", live.pid],
                          ["isolate", "99999999", name, "7"]):
                expect(3, f"the TARGET comes first: memctx {words[0]} {words[2]} ", *words,
                       env=live.cli_env)
            expect(2, f"the TARGET comes first: memctx set {name} depth=5\\n", "set", "depth=5",
                   name, env=live.cli_env)
            for words in (["depth=5"], ["depth=5", "fold=off"]):
                expect(2, "set needs a TARGET in front of depth=5\\n", "set", *words,
                       env=live.cli_env)
            expect(3, "nor a file; see memctx ps$", "diff", "monday.mctx", name, env=live.cli_env)
            expect(3, "is no process with libmemctx.so; see memctx ps$", "top",
                   "nothing-of-this-name", name, "--batch", "1", env=live.cli_env)
            expect(1, "not a memctx snapshot; it is a program; name a process", "dump", program,
                   env=live.cli_env)


@test
def process_without_library():
    """The message names the program in full, although the kernel keeps only 15 characters of its
    name."""
    name = "sleeper-under-a-long-name"
    with scratch() as where:
        os.symlink(sleeper()[0], os.path.join(where, name))
        with subprocess.Popen([os.path.join(where, name), "100"]) as process:
            try:
                expect(3, rf"\({name}\) runs without libmemctx.so; start it with memctx run -- "
                          rf"{name}$", "dump", process.pid)
            finally:
                process.kill()


@test
def process_without_memory():
    """A thread of the kernel has no address space, like a process between its exit and its end."""
    if not os.path.exists("/proc/2/comm") or open("/proc/2/comm",
                                                  encoding="ascii").read() != "kthreadd\n":
        raise Skip("no thread of the kernel is seen here")
    expect(3, r"^memctx: pid 2 \(kthreadd\) has no memory: it is ending, or it is a thread of the "
              r"kernel", "dump", 2)


@test
def process_that_has_ended():
    process = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        expect(3, "has ended", "dump", process.pid)
    finally:
        process.wait()


def has_socket(pid):
    try:
        return any("socket:" in os.readlink(one.path) for one in os.scandir(f"/proc/{pid}/fd"))
    except OSError:  # a descriptor was closed meanwhile
        return False


@test
def process_that_ends_while_it_is_asked():
    with fake("answer-stalled") as live, \
            subprocess.Popen([CLI, "dump", str(live.pid)], env=live.cli_env, text=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as asking:
        wait_until(lambda: has_socket(asking.pid), "a connection")
        time.sleep(0.3)  # now the command waits for the rest of an answer
        live.kill()
        errors = asking.communicate(timeout=60)[1]
    check_equal(asking.returncode, 1, "exit code")
    check(f"pid {live.pid} has ended and did not answer any more; memctx run --record" in errors,
          errors)


@test
def process_that_is_stopped():
    with fake("none") as live:
        os.kill(live.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, live.pid, os.WSTOPPED)
        expect(1, f"is stopped.*kill -CONT {live.pid}", "dump", live.pid, env=live.cli_env)
        rows = json.loads(succeed("ps", "--json", env=live.cli_env))["processes"]
        check(all(row["pid"] != live.pid for row in rows), "a fake is no memctx process")


@test
def control_switched_off():
    with runtime_dir() as runtime, Target(sleeper(), runtime, MEMCTX_CONTROL="off") as live:
        wait_for_library(live.pid)
        expect(3, "has the library but no socket: it was started with MEMCTX_CONTROL=off",
               "mark", live.pid, env=live.cli_env)
        row = find_row(live)
        check_equal(row["socket"], False, "socket")
        check("MEMCTX_CONTROL=off" in row["reason"], f"reason: {row['reason']}")


@test
def few_descriptors():
    """With too few descriptors each verb says so, and calls no process ended or without a socket.
    memctx run starts its program, whose limit stays."""
    limit = ["sh", "-c", 'ulimit -n "$0"; exec "$@"']
    with runtime_dir() as runtime, Target(sleeper(), runtime, MEMCTX_CONTROL="eager") as live:
        live.wait_socket()
        for count in (4, 14):
            for words in (["top", live.pid, "--batch", "1"], ["dump", live.pid], ["ps"],
                          ["mark", live.pid],
                          ["serve", "--all", "--listen", "127.0.0.1:0"]):
                done = harness.run_program([*limit, str(count), CLI, *map(str, words)],
                                           live.cli_env)
                check_equal((done.returncode, done.stdout), (1, ""),
                            f"{words} with {count} descriptors: {done.stderr}")
                check_equal(done.stderr, f"memctx: only {count - 3} file descriptors are free, and "
                                         "12 are needed; "
                                         "raise the limit with ulimit -n\n", f"message of {words}")
        for words in (["top", live.pid, "--batch", "1"], ["doctor", live.pid], ["frag", live.pid]):
            done = harness.run_program([*limit, "15", CLI, *map(str, words)], live.cli_env)
            check_equal((done.returncode, done.stderr), (0, ""), f"{words} with 15 descriptors")
        done = harness.run_program([*limit, "5", CLI, "run", "sh", "-c", "ulimit -n"], live.cli_env)
        check_equal((done.returncode, done.stdout), (0, "5\n"),
                    f"memctx run with 5 descriptors: {done.stderr}")


@test
def socket_directory_is_refused():
    """The library makes no socket in a directory that other users can read, and the command says
    so, unless the library found another directory of its list."""
    with runtime_dir() as runtime:
        os.mkdir(os.path.join(runtime, "memctx"), 0o755)
        os.chmod(os.path.join(runtime, "memctx"), 0o755)
        with Target(sleeper(), runtime, MEMCTX_CONTROL="eager") as live:
            wait_for_library(live.pid)
            done = cli("dump", live.pid, env=live.cli_env)
            while "has not begun to count; the process has just started; try again" in done.stderr:
                done = cli("dump", live.pid, env=live.cli_env)
            check(done.returncode == 0 or "has mode 755 instead of 700" in done.stderr,
                  f"exit {done.returncode}: {done.stderr}")
            check_equal(os.listdir(os.path.join(runtime, "memctx")), [], "sockets in the directory")


@test
def not_permitted():
    """The command ends with status 4 for a process of another user, and with 3 for a pid that no
    process has, also if /proc hides the processes of other users (hidepid)."""
    if os.geteuid() != 0:
        raise Skip("needs root to be somebody else")
    release = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])

    def ask(hidepid, pid):
        if hidepid and release < (5, 8):
            raise Skip("hidepid would change /proc of the whole machine")
        with open("/proc/mounts", encoding="utf-8") as mounts:
            as_here = not hidepid and "hidepid=" not in mounts.read()
        mount = f"mount -t proc -o hidepid={hidepid} proc /proc || exit 99; "
        argv = [*([] if as_here else ["unshare", "--mount", "sh", "-c", mount + 'exec "$@"', "sh"]),
                "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", CLI, "dump",
                str(pid)]
        done = subprocess.run(argv, env=live.cli_env, capture_output=True, text=True, timeout=60,
                              check=False)
        if done.returncode == 99 or "unshare: " in done.stderr:
            raise Skip("/proc cannot be mounted")
        if "setpriv: failed to execute" in done.stderr:
            raise Skip("the build cannot be read by another user")
        return done

    with target([build_program("tests/cli/programs/allocate.c")]) as live:
        for hidepid, words in ((0, ("belongs to root", "run memctx as that user")),
                               (2, ("/proc does not show pid", "run memctx as the user of"))):
            done = ask(hidepid, live.pid)
            check_equal(done.returncode, 4, f"exit code ({done.stderr})")
            check(all(word in done.stderr for word in words), f"message: {done.stderr}")
            done = ask(hidepid, (1 << 31) - 1)  # no process has such a pid
            check_equal(done.returncode, 3, f"exit code ({done.stderr})")


@test
def mark_diff_reset_trim_set_options():
    """The verbs that change a process, one after the other on one process: results and refusals."""
    with target([build_program("tests/cli/programs/allocate.c")]) as live:
        env = live.cli_env
        expect(1, "no mark to compare with; set one with memctx mark", "diff", live.pid, env=env)
        succeed("mark", live.pid, env=env)
        check_equal(live.ask("grow"), "ok", "grow")
        diff = json.loads(succeed("diff", live.pid, "--json", env=env))
        first = diff["contexts"][0]
        check_equal(first["growth"]["requested_bytes"], 500 * 1000, "growth")
        check_equal(first["growth"]["live_chunks"], 500, "growth in chunks")
        check("allocate_more" in "".join(first["path"]), f"path: {first['path']}")
        check_equal(diff["totals"]["growth"]["requested_bytes"], 500 * 1000, "sum of growth")
        check("+500000 bytes in +500 chunks" in succeed("diff", live.pid, env=env), "text")
        expect(1, "no mark \"x\"", "diff", live.pid, "x", env=env)
        expect(1, f"no mark .*; see memctx mark --list {live.pid}; if you mean the file, name it "
                  "first", "diff", live.pid, __file__, env=env)
        expect(1, "no allocation site .*; a site is the function that calls malloc", "reset",
               live.pid, "--site",
               "nothing_like_it", env=env)
        expect(1, "at a site that matches \"_start\"; a site is the function that calls malloc",
               "isolate", live.pid, "--site",
               "_start", env=env)
        # chunks that fit mixed pages well
        placed = succeed("isolate", live.pid, "--site", "allocate_first", env=env)
        check(re.search(r"\nno saving is predicted: with this policy from the start, these "
                        r"contexts\nwould hold [1-9]\d* bytes more\. ", placed), placed)
        for words in ((), ("--flat",)):
            for site, nothing in (("nothing_like_it", True), ("allocate_more", False),
                                  ("^allocate_more$", False), ("^allocate_mor$", True),
                                  (r"^[a-z]+\.c:[0-9]+$", False)):
                shown = succeed("dump", live.pid, "--site", site, *words, env=env)
                hint = "nothing was allocated in the contexts that were asked for; a site is"
                check((hint in shown) == nothing, f"{site} {words}: {shown}")
        expect(1, " refused the request: no context has the number 4000000; memctx dump --json ",
               "reset", live.pid, "--context", "4000000", env=env)
        expect(2, "a CONTEXT is a number that memctx frag or memctx dump --json shows", "isolate",
               live.pid, "some", env=env)
        succeed("reset", live.pid, "--site", "allocate_more", env=env)
        sites = by_site(json.loads(succeed("dump", live.pid, "--json", env=env)))
        check_equal(sites["allocate_more"]["allocs"], 0, "allocs after a reset")
        check_equal(sites["allocate_more"]["requested_bytes"], 500 * 1000, "live after a reset")
        check_equal(sites["allocate_first"]["allocs"], 100, "allocs of the other site")
        succeed("mark", live.pid, "second", env=env)
        check_equal(live.ask("grow"), "ok", "grow")
        expect(1, 'has no mark "secnod"; did you mean second\\?\n', "diff", live.pid, "secnod",
               env=env)
        expect(1, f'has no mark "{live.pid}"; see memctx mark --list {live.pid}\n',
               "diff", live.pid, live.pid, env=env)
        expect(1, 'has no mark "allocate"; to compare with the process, name a snapshot first, '
                  'which .*: memctx diff FILE allocate\n',
               "diff", live.pid, "allocate", env=env)
        succeed("reset", live.pid, env=env)
        after = json.loads(succeed("diff", live.pid, "second", "--json", env=env))
        check_equal([row["growth"]["allocs"] for row in after["contexts"]], [500],
                    "growth since a mark before the reset")
        known = [row["before"]["allocs"] for row in (after["contexts"][0], after["totals"])]
        check_equal(known, [None, None], "counters before the reset")
        trim = json.loads(succeed("trim", live.pid, "--json", env=env))
        check(trim["released_bytes"] >= 0 and trim["rss_after_bytes"] > 0, f"trim: {trim}")
        succeed("set", live.pid, "depth=7", env=env)
        options = json.loads(succeed("options", live.pid, "--json", env=env))["options"]
        depth = [option for option in options if option["name"].lower() == "depth"][0]
        check_equal((depth["value"], depth["default"]), (7, 32), "depth")
        for wrong in ("depth=-1", "depth=x", "nothing=1", "control=off"):
            expect(1, f"memctx: {wrong}: .* refused the request: ", "set", live.pid, wrong, env=env)
        for wrong, why in (("depth=x", 'depth takes a value from 0 to 128; got "x"'),
                           ("nothing=1", 'unknown option name "nothing"; see memctx options'),
                           ("control=off", "control is fixed when the program starts; set it with "
                                           "memctx run --set control=off")):
            expect(2, f"no option is changed; {why}\n", "set", live.pid, "decay_ms=77", wrong,
                   env=env)
        values = {option["name"]: option["value"]
                  for option in json.loads(succeed("options", live.pid, "--json",
                                                   env=env))["options"]}
        check_equal((values["decay_ms"], values["depth"]), (500, 7),
                    "none of several options is changed")
        succeed("set", live.pid, "decay_ms=78", "depth=8", "record=off", env=env)
        figures = json.loads(succeed("dump", "--self", "--json", live.pid, env=env))["figures"]
        check(figures["contexts"] > 0, f"figures: {figures}")


def by_site(dump):
    """The figures of each context, by the name of its function."""
    return {context["frame"]["function"]: context["self"] for context in dump["contexts"]
            if context["frame"] and context["frame"]["function"]}


@test
def options_table():
    table = json.loads(succeed("options", "--json"))["options"]
    names = [entry["name"] for entry in table]
    check({"depth", "control", "verify"} <= set(names), f"names: {names}")
    text = succeed("options")
    check(not re.search(r" $", text, re.M), "no line ends in a blank")
    check(not re.search(r"^.{81}", text, re.M), f"a line is wider than 80 columns: {text}")
    for name in names:
        check(re.search(rf"^{name} ", text, re.M), f"{name} is not in the text")
    with target([build_program("tests/cli/programs/allocate.c")]) as live:
        rows = json.loads(succeed("options", live.pid, "--json", env=live.cli_env))["options"]
        fixed = ("name", "variable", "default", "minimum", "maximum", "words", "settable")
        check_equal([[row[key] for key in fixed] for row in rows],
                    [[row[key] for key in fixed] for row in table],
                    "rows with and without a TARGET")
        for row in table:
            check_equal(row["variable"], "MEMCTX_" + row["name"].upper(), "variable")
            pair = f"{row['name']}={row['default']}"
            succeed("run", "--set", pair, "--", "true")
            if row["settable"]:
                succeed("set", live.pid, pair, env=live.cli_env)


@test
def output_that_cannot_be_written():
    with fake("none") as live:
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([CLI, "dump", str(live.pid)], stdout=full, env=live.cli_env,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        check_equal(done.returncode, 1, "exit code on a full device")
        check("could not write" in done.stderr, f"message: {done.stderr}")
        expect(1, "cannot be written", "dump", live.pid, "-o", "/no/such/directory/x",
               env=live.cli_env)
        expect(1, "(could not|cannot) be written", "dump", live.pid, "-o", "/dev/full",
               env=live.cli_env)
        expect(2, "the name of the file to write is empty", "dump", live.pid, "-o", "",
               env=live.cli_env)
    with scratch() as directory, fake("none") as live:
        longest = os.path.join(directory, "x" * 255)  # the longest name that a file may have
        for words in (["dump", live.pid, "-o"], ["export", live.pid, "--pprof"]):
            succeed(*words, longest, env=live.cli_env)
            check_equal(os.listdir(directory), ["x" * 255], f"files of {words[0]}")
            os.remove(longest)
            expect(1, "File name too long; choose a name of at most 255 bytes", *words,
                   longest + "x", env=live.cli_env)
            check_equal(os.listdir(directory), [], f"files of {words[0]} after a failure")


@test
def no_color_without_a_terminal():
    with fake("none") as live:
        for env in (live.cli_env, {**live.cli_env, "TERM": "xterm"}, clean_env(
                XDG_RUNTIME_DIR=live.runtime, NO_COLOR="1")):
            check("\033" not in succeed("dump", live.pid, env=env), "colors in a pipe")


@test
def root_without_capabilities():
    """If root lacks CAP_SYS_PTRACE, as in many containers, the message names that capability."""
    if os.geteuid() != 0:
        raise Skip("changing users takes root")
    # a user without a process on memctx
    with subprocess.Popen(["sleep", "100"], user=64123, env=clean_env()) as process:
        try:
            done = subprocess.run(["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", CLI,
                                   "dump", str(process.pid)],
                                  capture_output=True, text=True, env=clean_env(), check=False)
        finally:
            process.kill()
    check_equal(done.returncode, 4, done.stderr)
    check("memory map; root needs CAP_SYS_PTRACE" in done.stderr, done.stderr)


@test
def a_process_that_only_reads_the_library_is_no_target():
    """A process that only maps libmemctx.so to read its symbols does not count as a target."""
    code = ("import mmap, sys; file = open(sys.argv[1], 'rb'); read = mmap.mmap(file.fileno(), 0, "
            "prot=mmap.PROT_READ); print('ready', flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", code, LIB], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        check_equal(process.stdout.readline(), b"ready\n", "the reader")
        expect(3, "runs without libmemctx.so", "dump", process.pid)
        pids = [one["pid"] for one in json.loads(succeed("ps", "--json"))["processes"]]
        process.stdin.close()
    check(process.pid not in pids, "memctx ps lists it")
