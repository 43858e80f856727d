# SPDX-License-Identifier: MIT
"""doctor's text: its first line, one finding for one cause, the functions that it names, line
lengths."""
import json
import os
import re
import shutil
import signal

import harness
from harness import Target, check, check_equal, in_tries, run_cli, runtime_dir, test, test_named
from planted import check_near, doctor, found_at, installed, names, planted

PYTHON_LEAK = """
import sys
kept, log = {}, []
class Order:
    def __init__(self, number):
        self.items = [number] * 10
        self.note = "order %d" % number * 3
for round in range(4):
    for number in range(round * 20000, round * 20000 + 20000):
        kept[str(number)] = Order(number)
        log.append({"number": number, "all": (number, str(number * 7)),
                    "price": [float(number), number * 1.5]})
    print("look", flush=True)
    sys.stdin.readline()
"""


def causes(directory, case, **extra):
    """Starts a case of causes.c, causes.cc or causes.rs."""
    if case == "rust":
        program = os.path.join(directory, "causes-rs")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "causes.rs")
        made = harness.run_program([installed("rustc"), "-O", "-g", source, "-o", program],
                                   os.environ)
        check_equal(made.returncode, 0, f"rustc: {made.stderr}")
        return Target([program], directory, MEMCTX_CONTROL="eager")
    suffix, name = ("cc", "causes-cc") if case in ("orders", "strings",
                                                   "threads") else ("c", "causes")
    return Target([harness.build_program(f"tests/diagnosis/causes.{suffix}", name), case],
                  directory, MEMCTX_CONTROL="eager", **extra)


def leaking_python(directory):
    return Target(["/usr/bin/python3", "-c", PYTHON_LEAK], directory, MEMCTX_CONTROL="eager",
                  PYTHONMALLOC="malloc")


def told(target, *options):
    target.wait_socket()
    done = run_cli("doctor", target.pid, *options, env=target.cli_env)
    check_equal((done.returncode, done.stderr), (0, ""), "memctx doctor")
    return done.stdout


def verdict(text):
    """The first sentence of the text as one line."""
    return re.split(r"\n\S+ \(pid", text)[0].replace("\n", " ")


ARROW = "(a < b: b called a)"  # printed below the first call path of a text


def labelled(text, number, label):
    """The text of finding `number` at a label such as "why", as one line."""
    finding = re.split(r"\n\n(?=\d+\. )", text)[number]
    found = re.search(rf"^   {label}: +(.*(?:\n {{10}}.*)*)", finding, re.M)
    return re.sub(r"\n +", " ", found[1]).removesuffix(f" {ARROW}") if found else None


# --- one cause, one finding ---------------------------------------------------------------------


def one_finding(case, ident, function, parts, looks):
    """Registers a test: at look `looks` all that this case of causes.* wastes or leaks is one
    finding with the id `ident`, whose cause is `function`, and which has at least `parts` parts."""
    def run():
        with runtime_dir() as directory, causes(directory, case) as target:
            said = found_at(target, looks)
            text = told(target)
        found = said["findings"]
        same = [finding for finding in found if finding["id"] == ident]
        check_equal(len(same), 1, f"findings {ident}: {[finding['path'][:4] for finding in same]}")
        check(same[0]["function"].startswith(function + ", "),
              f"the cause is {same[0]['function']}")
        check(len(same[0]["parts"]) >= parts, f"parts: {same[0]['parts']}")
        check(sum(part["bytes"] for part in same[0]["parts"]) == same[0]["bytes"],
              f"parts do not add up: {same[0]}")
        check(abs(sum(part["share"] for part in same[0]["parts"]) - 1) < 0.001,
              f"shares do not add up: {same[0]}")
        check(names(same[0], function), f"path: {same[0]['path']}")
        # The largest part is named, too, if that is another line than the cause.
        place = re.search(rf"\({function}, causes\.\w+:\d+(; (largest part:|nearly all through) "
                          r"\w+, causes\.c:\d+)?\)", verdict(text))
        check(place, text)
        check(" MiB resident, " in said["verdict"] and place[0] in said["verdict"],
              f"the verdict in JSON: {said['verdict']}")
        check_equal(place[2], {"sessions": "largest part:", "requests": "largest part:",
                               "buffers": "largest part:",
                               "frames": "nearly all through"}.get(case),
                    f"a function nearer to malloc: {text}")
        check(labelled(text, 1, "who").startswith(f"{function} (causes."), text)
        check_equal(text.count(f"({ident})"), 1, text)
        return labelled(text, 1, "who")
    test_named(f"one-cause-{case}")(run)


one_finding("sessions", "nearly-empty-pages", "session_open", 3, 1)
one_finding("requests", "growth", "request_handle", 3, 4)
one_finding("orders", "growth", "order_accept", 4, 4)
one_finding("threads", "nearly-empty-pages", "session_open", 3, 1)
one_finding("buffers", "growth", "picture_load", 2, 4)
one_finding("frames", "growth", "frame_open", 3, 4)
one_finding("main", "nearly-empty-pages", "main", 3, 1)
one_finding("rust", "growth", "causes::order_accept", 4, 4)


PYTHON_SMALL = """
import sys
kept = [(i, str(i)) for i in range(800000)]
print("look", flush=True)
sys.stdin.readline()
"""


@test
def what_python_maps_itself():
    """A single look at memory that python maps itself says how to get its call paths
    (PYTHONMALLOC)."""
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", PYTHON_SMALL], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(60), "look", "what the program says")
        text = told(target)
        check("(not-malloc)" in text, text)
        check("PYTHONMALLOC=malloc" in labelled(text, 1, "fix") and
              "PYTHONMALLOC=malloc" in labelled(text, 1, "next"), text)


@test
def one_cause_in_python():
    """Growth of a python script is one finding, although its call paths share only the
    interpreter's loop."""
    with runtime_dir() as directory, leaking_python(directory) as target:
        found = found_at(target, 4)["findings"]
        text = told(target)
        grown = [finding for finding in found if finding["id"] == "growth" and
                 finding["severity"] != "info"]
        check_equal(len(grown), 1, str([(one["id"], one["severity"], one["evidence"],
                                         one["path"][:4]) for one in found]))
        check(len(grown[0]["parts"]) > 5 and "_PyEval_EvalFrameDefault" in grown[0]["path"],
              f"{grown[0]}")
        check(re.search(r"^ +and \d+ more$", text, re.M), f"more than five call paths: {text}")
        check_equal(text.count(" %, "), 5, f"paths with their shares: {text}")
        check("tracemalloc" in labelled(text, 1, "fix"),
              f"how to find the line of the script: {text}")
    # The label "next" has lines of python that print, after a minute, the script's line that
    # allocates most.
    said, *lines = re.search(r"^   next:  (.*\n(?: {10}.*\n)*(?:\S.*\n)*)", text,
                             re.M)[1].splitlines()[-3:]
    check_equal([line.split()[0] for line in lines], ["import", "threading.Timer(60,"],
                f"behind {said!r}")
    script = "\n".join(lines).replace("Timer(60,", "Timer(0.1,")
    script += "\nkept = [str(number) * 100 for number in range(50000)]\n"
    done = harness.run_program(["/usr/bin/python3", "-c", script], harness.clean_env())
    check_equal((done.returncode, done.stderr), (0, ""), script)
    check(re.search(r'^<string>:3: size=\d+', done.stdout),
          f"the line that grew most: {done.stdout}")


LIBRARY_LEAK = """
import ctypes, sys
libc = ctypes.CDLL(None)
for round in range(4):
    for number in range(20000):
        libc.strdup(b"a name" * 20)
    print("look", flush=True)
    sys.stdin.readline()
"""


@test
def what_a_library_leaks_in_python():
    """tracemalloc does not know what a library takes from malloc, so doctor shows the call path."""
    with runtime_dir() as directory:
        with Target(["/usr/bin/python3", "-c", LIBRARY_LEAK], directory, MEMCTX_CONTROL="eager",
                    PYTHONMALLOC="malloc") as target:
            text = found_at(target, 4, told)
    check("ffi_call" in labelled(text, 1, "who"), text)
    check("may be missing there" in labelled(text, 1, "fix"), f"tracemalloc: {text}")
    check(re.match(r"memctx dump \d+ --flat --context \d+$", labelled(text, 1, "next")), text)


@test
def what_a_program_does_not_free_of_a_library():
    """If the innermost functions are all in a library without debug information, doctor and frag
    name the function of the program that called the library, too."""
    source = os.path.join(harness.ROOT, "tests/diagnosis/foreign.c")
    with runtime_dir() as directory:
        library, program = (os.path.join(directory, "libforeign.so"),
                            os.path.join(directory, "foreign"))
        for flags in (["-DLIBRARY", "-fPIC", "-shared", "-o", library], ["-g", "-o", program]):
            linked = [] if "-shared" in flags else [library, f"-Wl,-rpath,{directory}"]
            done = harness.run_program(["gcc", "-O2", source, *flags, *linked], os.environ)
            check_equal(done.returncode, 0, f"gcc: {done.stderr}")
        with Target([program], directory, MEMCTX_CONTROL="eager") as target:
            text = found_at(target, 4, told)
            frag = run_cli("frag", target.pid, env=target.cli_env).stdout
    check(re.search(r"\(node_new, libforeign.so; called for feed_load, foreign.c:\d+\)$",
                    verdict(text)), text)
    path = (r"node_new \(libforeign.so\) < document_parse \(libforeign.so\) < document_open "
            r"\(libforeign.so\) < \.\.\. < feed_load \(foreign.c:\d+\)")
    check(re.match(path + r" \(context \d+\)$", labelled(text, 1, "who")), text)
    check(re.search(path, re.sub(r"\s+", " ", frag)), frag)


def rate_in(text, number, label, after):
    """The rate in the text of a finding at a label, in MiB/s."""
    rate = re.search(rf"\+([0-9.]+) (KiB|MiB|GiB)/s {after}", labelled(text, number, label) or "")
    check(rate, f"no rate behind {label} of {number}: {text}")
    return float(rate[1]) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[rate[2]]


@test
@in_tries  # on a busy machine the growth is uneven
def two_causes_are_two_findings():
    """Two leaks below main are two findings; the time until memory is used up counts both rates."""
    with runtime_dir() as directory, causes(directory, "two") as target:
        text = found_at(target, 4, told)
        grown = [finding for finding in doctor(target)["findings"] if finding["id"] == "growth"]
        check(verdict(text).endswith("; 1 more below"), "the first line names one of them alone")
        rates = [rate_in(text, number, "since", "from then on") for number in (1, 2)]
        for number in (1, 2):
            check_near("the rate of all growth", sum(rates),
                       rate_in(text, number, "out", "together"))
        check_equal([(finding["function"].split(",")[0], finding["parts"]) for finding in grown],
                    [("cache_fill", []), ("log_keep", [])], "what grew")


@test
def small_chunks_beside_large_ones():
    """Small chunks are another finding if the number of the buffers beside them is no multiple of
    theirs."""
    with runtime_dir() as directory, causes(directory, "titles") as target:
        found = found_at(target, 4)["findings"]
    check_equal([finding["function"].split(",")[0]
                 for finding in found if finding["id"] == "growth"], ["plane_make", "show_title"],
                "what grew")


@test
def pages_that_come_back_and_pages_that_are_shared():
    """The text says how much of the empty memory comes back: less if the pages also hold other
    paths' chunks."""
    amount = r"([0-9.]+ [KM]iB)"
    with runtime_dir() as directory, causes(directory, "sessions") as target:
        found_at(target, 1)
        text = told(target)
        alone = text.replace("\n  ", "")
    check(f"set at least three, some time apart, with memctx mark {target.pid} NAME and a new NAME "
          "each time, use --watch" in " ".join(text.split()), text)
    check(re.search(rf"chunks, {amount} in all, keep {amount} of pages in use, of which {amount} "
                    r"are otherwise empty, \d+ % of the resident "
                    "set; freeing all these chunks returns these pages", alone), alone)
    # keeps all chunks in mixed pages
    with runtime_dir() as directory, causes(directory, "shared",
                                            MEMCTX_PROMOTE_BYTES=str(1 << 30)) as target:
        found = found_at(target, 1)["findings"]
        shared = told(target).replace("\n  ", "")
    check({"name_keep", "label_keep"} <= {finding["function"].split(",")[0] for finding in found},
          f"{found}")
    check(re.search(rf"chunks, {amount} in all, help to keep {amount} of otherwise empty space in "
                    r"pages, \d+ % of the resident set; freeing "
                    rf"all these chunks returns {amount} of pages, because chunks of other call "
                    r"paths stand in the rest", shared), shared)


# --- the label "who" ------------------------------------------------------------------------------


@test
def leaves_out_what_means_nothing():
    """The label "who" has no frames of the start of the program or of the insides of libraries, and
    names wrappers of malloc behind "via"; `--full` prints all frames."""
    for case, looks, first, via in (("strings", 4, "word_remember (causes.cc:", "std::string"),
                                    ("two", 4, "cache_fill (causes.c:", "xmalloc"),
                                    ("rust", 4, "causes::order_accept (causes.rs:", None)):
        with runtime_dir() as directory, causes(directory, case) as target:
            found_at(target, looks)
            text, full = told(target), told(target, "--full")
        who = labelled(text, 1, "who")
        check(who.startswith(first) and
              (via is None or re.search(rf", via {via}( \(context \d+\))?$", who)), who)
        check(via or {", via Vec", ", via HashMap"} <= set(re.findall(r", via \w+", who)), who)
        check(who.split(" call paths:")[0].count(" < ") <= 2 and "__libc_start" not in who and
              "_M_" not in who, who)
        check_equal([text.count(f"\n{' ' * 10}{ARROW}\n") for text in (text, full)], [1, 1],
                    f"how a path is read: {text}")
        check("__libc_start_call_main" in full and labelled(full, 1, "who").count(" < ") > 3, full)


# --- the first line, units, line lengths ----------------------------------------------------------


@test
def first_line_is_the_verdict():
    """The first line has the resident set, the bytes in use, and the finding that matters most."""
    number = r"\d+(\.\d)? [KMG]iB"
    for case, arguments, expected in (
            (planted, ("survivors",),
             rf"{number} resident, {number} in use: {number} of free memory are held by \d+ live "
             r"chunks \(\S+, planted.h:\d+\)"),
            (planted, ("above",), rf"{number} resident, {number} in use: {number} are lost between "
                                  r".* \(get, planted.h:\d+\)"),
            (planted, ("small",),
             rf"{number} resident, {number} in use: no memory problem was found"),
            (planted, ("mapped",), rf"{number} resident, {number} in use: no memory problem was "
                                   r"found; for information only: memory that is not from malloc"),
            (causes, ("sessions",), rf"{number} resident, {number} in use: {number} of free memory "
                                    r"are held by \d+ live chunks "
             r"\(session_open, causes.c:\d+; largest part: \w+, causes.c:\d+\)")):
        with runtime_dir() as directory, case(directory, *arguments) as target:
            check_equal(target.hear(60), "look", f"{arguments}")
            text = told(target)
            check(re.fullmatch(expected, verdict(text)),
                  f"{arguments}: {verdict(text)!r} is not {expected!r}")
            check("no memory problem" not in text or "warning" not in text and
                  "critical" not in text, text)


def is_command(line):
    """True for a line that users paste (a command, a line of python), which is never broken."""
    return re.match(r"   (now|next|to see more): +memctx |threading\.", line)


@test
def doctor_limit():
    """--limit N prints N findings and names the command that prints all; --all prints all."""
    program = harness.build_program("tests/diagnosis/several.c")
    with runtime_dir() as directory, Target([program], directory, MEMCTX_CONTROL="eager") as target:
        found_at(target, 1)
        file = os.path.join(directory, "snapshot")
        check_equal(run_cli("dump", target.pid, "-o", file, env=target.cli_env).returncode, 0,
                    "memctx dump")
        count = len(json.loads(run_cli("doctor", file, "--json").stdout)["findings"])
        check(count > 1, f"{count} findings")
        for words, told in ((("--limit", 1), 1), (("--limit", 0), count),
                            (("--limit", 1, "--all"), count)):
            text = run_cli("doctor", file, *words).stdout
            check_equal(len(re.findall(r"^\d+\. ", text, re.M)), told, f"findings of {words}")
            check_equal(f"\n{count - told} more: memctx doctor {file} --all\n" in text,
                        told < count, f"the next command of {words}")


@test
def doctor_in_bytes():
    """With --bytes all sentences, also in JSON, have exact bytes, equal to the figures in JSON. The
    last of --bytes and --human wins."""
    def doctor_of(*options):
        done = run_cli("doctor", file, *options)
        check_equal((done.returncode, done.stderr), (0, ""), f"memctx doctor {options}")
        return done.stdout
    with runtime_dir() as directory, causes(directory, "sessions") as target:
        found_at(target, 1)
        file = os.path.join(directory, "snapshot")
        check_equal(run_cli("dump", target.pid, "-o", file, env=target.cli_env).returncode, 0,
                    "memctx dump")
        text, known = doctor_of("--bytes", "--all"), json.loads(doctor_of("--bytes", "--json"))
        rounded_text, last_counts = doctor_of(), doctor_of("--bytes", "--human")
    rounded = r"\d [KMG]iB"
    check(not re.search(rounded, text.replace("page of 16 KiB", "")), text)
    check(f"{known['rss_bytes']} bytes resident, {known['requested_bytes']} bytes in use: "
          in verdict(text), text)
    first = known["findings"][0]
    check(first["bytes"] > 1 << 20 and f"{first['bytes']} bytes (" in text.replace("\n", " ") and
          f"{first['bytes']} bytes" in first["evidence"], f"{first}")
    check(first["parts"] and all(f", {part['bytes']} bytes: " in re.sub(r"\n +", " ", text)
                                 for part in first["parts"]), f"{first['parts']}")
    check(all(len(line) <= 80 or is_command(line) for line in text.splitlines()), text)
    check(re.search(rounded, rounded_text), "the default")
    check_equal(last_counts, rounded_text, "--human behind --bytes")


@test
def lines_fit():
    """Without a terminal lines have at most 80 columns, except lines that users paste."""
    with runtime_dir() as directory, leaking_python(directory) as target:
        found_at(target, 4)
        for line in told(target).splitlines():
            check(len(line) <= 80 or is_command(line), f"{len(line)} columns: {line}")


@test
def now_counts_the_freelist():
    """The bytes that a trim is said to return include the freelist, which the trim returns, too."""
    with runtime_dir() as directory, causes(directory, "sessions",
                                            MEMCTX_DECAY_MS=3600000) as target:
        first = found_at(target, 1)["findings"][0]
        freelist = target.dump()["ledger"]["freelist_bytes"]
        check(freelist > 1 << 20, f"hardly anything is in the freelist: {freelist}")
        says = " ".join(labelled(told(target), 1, "now").split())
        check(" would soon go back by itself; " in says, says)
        before = harness.rss_kib(target.pid) << 10
        done = run_cli(*first["now"].split()[1:], "--json", env=target.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        saved = before - (harness.rss_kib(target.pid) << 10)
        check(abs(saved - first["now_bytes"]) < before / 50,
              f"told {first['now_bytes']} of {before}, {saved} came back")


@test
def now_can_be_pasted():
    """The command at the label "now" gives back the bytes that the text says, after the program's
    next malloc."""
    with runtime_dir() as directory, causes(directory, "sessions", MEMCTX_DECAY_MS=10) as target:
        first = found_at(target, 1)["findings"][0]
        check(first["now"].startswith(f"memctx trim {target.pid} --context "),
              f"now: {first['now']}")
        says = " ".join(labelled(told(target), 1, "now").split())
        check(says.endswith("; if a thread is busy in malloc or free at that moment, its part "
                            "follows with its next malloc"), says)
        # Wait until the freelist has gone back to the kernel.
        harness.wait_until(lambda: target.dump()["ledger"]["freelist_bytes"] == 0,
                           "an empty freelist")
        before = harness.rss_kib(target.pid) << 10
        done = run_cli(*first["now"].split()[1:], "--json", env=target.cli_env)
        check_equal((done.returncode, done.stderr), (0, ""), "memctx trim")
        check_near("by trim", first["now_bytes"], json.loads(done.stdout)["predicted_bytes"])
        target.ask("")
        check_near("the resident set", first["now_bytes"],
                   before - (harness.rss_kib(target.pid) << 10))
        return f"{first['now_bytes'] >> 10} KiB"


@test
def no_command_for_a_process_that_cannot_act():
    """No command has the pid of a snapshot's process, which may belong to another process now, and
    a process that does not answer gets no command that it would have to obey. A file name with a
    space is quoted."""
    acts = r"kill -USR1 \d+|memctx (trim|set|isolate) \d+"
    with runtime_dir() as directory:
        program = shutil.copy(harness.build_planted(),
                              os.path.join(directory, "node"))
        file = os.path.join(directory, "my file.mctx")
        with Target([program, "mapped"], directory, MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(60), "look", "what the program says")
            check(re.search("kill -USR1", told(target)),
                  "the runtime's own tool for a process that runs")
            check_equal(run_cli("dump", target.pid, "-o", file, env=target.cli_env).returncode, 0,
                        "memctx dump -o")
            os.kill(target.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, target.pid, os.WSTOPPED)
            stopped = run_cli("doctor", target.pid, env=target.cli_env).stdout
        with planted(directory, "survivors") as target:
            target.hear()
            check(re.search(acts, told(target)), "a command for a process that runs")
            check_equal(run_cli("dump", target.pid, "-o", file + "2",
                                env=target.cli_env).returncode, 0, "memctx dump -o")
            os.kill(target.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, target.pid, os.WSTOPPED)
            held = run_cli("doctor", target.pid, env=target.cli_env).stdout
        texts = [stopped, held] + [run_cli(verb, name).stdout for verb in ("doctor", "frag")
                                   for name in (file, file + "2")]
    check("(not-malloc)" in stopped and "(not-malloc)" in texts[2] and
          "(nearly-empty-pages)" in held, f"{stopped}{held}")
    for text in texts:
        check(text and not re.search(acts, text), text)
    check("/proc/" not in texts[2], texts[2])
    check("no command returns" not in held, held)
    check(f"memctx frag '{file}2' --context " in texts[3], texts[3])


@test
def context_chooses_for_verbs_that_act():
    """isolate, merge, set and trim act on exactly the contexts that --context chooses."""
    with runtime_dir() as directory, causes(directory, "sessions") as target:
        first = found_at(target, 1)["findings"][0]
        selector = re.search(r"--context (\S+)", first["action"])[1]
        for words in (["isolate"], ["merge"], ["set", "policy=slab"], ["trim"]):
            verb, *rest = words
            done = run_cli(verb, target.pid, "--context", selector, *rest, "--json",
                           env=target.cli_env)
            check_equal((done.returncode, done.stderr), (0, ""), f"memctx {words}")
            check_equal(json.loads(done.stdout).get("contexts", first["contexts"]),
                        first["contexts"], f"{words}")
        for words in (["set", "policy=slab,own"], ["set", "unfold"], ["isolate"]):
            bad = "x" if words == ["isolate"] else selector
            done = run_cli(words[0], target.pid, "--context", bad, *words[1:], env=target.cli_env)
            check_equal(done.returncode, 2, f"{words}: {done.stderr}")


@test
def frag_names_who_holds():
    """frag names a context by three functions without wrappers of malloc, as a finding does."""
    with runtime_dir() as directory, causes(directory, "sessions") as target:
        found_at(target, 1)
        done = run_cli("frag", target.pid, env=target.cli_env)
        check_equal((done.returncode, done.stderr), (0, ""), "memctx frag")
        check(all(len(line) <= 80 or line.startswith(" " * 20 + "memctx ")
                  for line in done.stdout.splitlines()), done.stdout)
        joined = re.sub(r"\n(?: {4}| {18})(?=\S)", " ", done.stdout)  # join continuation lines
        who = (r"buffer_make \(causes.c:\d+\) < session_open \(causes.c:\d+\) < sessions "
               r"\(causes.c:\d+\), via xmalloc")
        check(re.search(rf" context \d+: {who}", joined), done.stdout)
        check(re.search(rf"^( +\d+){{4}}  \d+ {who}$", joined, re.M), done.stdout)
        counted = run_cli("frag", target.pid, "--human", "--sort", "allocs", "--limit", "1",
                          env=target.cli_env).stdout
        check(re.search(r"^\.\.\. \d+ more contexts, \d+ \(allocs\)$", counted, re.M),
              f"a count is no size: {counted}")


@test
def text_marks_that_the_program_keeps():
    """Before a program that keeps marks has kept three, doctor says so instead of advising the
    setting."""
    with runtime_dir() as directory, planted(directory, "survivors",
                                             MEMCTX_MARKS="1h,24") as target:
        check_equal(target.hear(), "look", "what the program says")
        kept = told(target).replace("\n", " ")
        done = run_cli("set", target.pid, "marks=off", env=target.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        off = told(target).replace("\n", " ")
    check("too few to find leaks; the program keeps marks by itself (marks=1h,24), so look again "
          "when it has kept three" in kept, kept)
    check("marks=10m,24" not in kept, kept)
    check(f"let the program keep marks: memctx set {target.pid} marks=10m,24" in off, off)
