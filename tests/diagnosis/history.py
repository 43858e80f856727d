# SPDX-License-Identifier: MIT
"""doctor's findings from marks that the process sets by itself (MEMCTX_MARKS)."""
import json
import os
import re
import resource
import time

import harness
from harness import Target, check, check_equal, in_tries, run_cli, runtime_dir, test
from planted import ALARMING, command, doctor, names
from text import labelled, told, verdict

MARKS = "200ms,32"
PYTHON = """
import collections, select, sys, time
kept = collections.deque(maxlen=int(sys.argv[1]) or None)
start, made, said = time.monotonic(), 0, False
while not select.select([0], [], [], 0.005)[0]:
    now = time.monotonic() - start
    while made < now * 2000:
        kept.append(bytearray(2000))
        made += 1
    if now > 1.5 and not said:
        said = print("look", flush=True) is None
"""


def history(directory, case, **extra):
    program = harness.build_program("tests/diagnosis/history.c")
    return Target([program, case], directory, MEMCTX_MARKS=MARKS, MEMCTX_CONTROL="eager", **extra)


def python(directory, most):
    return Target(["/usr/bin/python3", "-c", PYTHON, str(most)], directory, MEMCTX_MARKS=MARKS,
                  MEMCTX_CONTROL="eager")


def growth_of(target):
    """Waits until the program prints "look"; returns doctor's findings about growth."""
    check_equal(target.hear(60), "look", "what the program says")
    return [finding for finding in doctor(target)["findings"] if finding["id"] == "growth"]


def leave_room(target, bytes_left):
    """Limits the process's address space to bytes_left more than now."""
    size = int(harness.read_status(target.pid, "VmSize").split()[0]) << 10
    resource.prlimit(target.pid, resource.RLIMIT_AS, (size + bytes_left, resource.RLIM_INFINITY))


HOLDER = """
import sys
kept = [bytearray(1 << 20) for _ in range(160)]
for one in kept:
    one[::4096] = bytes(256)
print("look", flush=True)
sys.stdin.readline()
"""


@test
def a_limit_that_is_near():
    """doctor warns of a limit of which less than a twentieth is left, also if nothing grows, and
    names the call path that holds most; with more room it says nothing."""
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", HOLDER], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        leave_room(target, 64 << 20)
        check_equal([one["id"] for one in doctor(target)["findings"] if one["id"] == "near-limit"],
                    [], "with 64 MiB left")
        leave_room(target, 5 << 20)
        first, text = doctor(target)["findings"][0], told(target)
        page = run_cli("report", target.pid, "-o", "-", env=target.cli_env).stdout
    check_equal((first["id"], first["severity"]), ("near-limit", "warning"), "the first finding")
    check(0 < first["bytes"] <= 5 << 20, f"bytes that are left: {first}")
    check(names(first, "PyByteArray_Resize"), f"path: {first['path'][:4]}")
    check(re.search(r"only [45]\.\d MiB are left of RLIMIT_AS \(", verdict(text)), text)
    check(re.search(r"[45]\.\d MiB are left of .* MiB\s+\(RLIMIT_AS\)", text), text)
    check("near-limit" in page, "the page does not tell of the limit")


@test
def several_limits_that_are_near():
    """doctor tells each limit that is near, in one finding, the one that leaves least first."""
    with runtime_dir() as directory, Target(["/usr/bin/python3", "-c", HOLDER], directory,
                                            MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        leave_room(target, 6 << 20)
        data = int(harness.read_status(target.pid, "VmData").split()[0]) << 10
        resource.prlimit(target.pid, resource.RLIMIT_DATA,
                         (data + (3 << 20), resource.RLIM_INFINITY))
        found = [one for one in doctor(target)["findings"] if one["id"] == "near-limit"]
    check_equal(len(found), 1, f"findings about limits: {found}")
    check(re.match(r"[23]\.\d MiB are left of \S+ MiB \(RLIMIT_DATA\), and "
                   r"[56]\.\d MiB are left of \S+ [MG]iB \(RLIMIT_AS\); the resident",
                   found[0]["evidence"]),
          found[0]["evidence"])


@test
@in_tries  # on a busy machine marks may be late
def history_late_leak():
    """A single run of doctor tells a leak's rate, its beginning, and when memory is used up."""
    with runtime_dir() as directory, history(directory, "late") as target:
        check_equal(target.hear(60), "look", "what the program says")
        begun = time.time() - target.dump("--no-symbols")["uptime_s"]
        in_zone = {zone: run_cli("doctor", target.pid, env=dict(target.cli_env, TZ=zone)).stdout
                   for zone in ("UTC0", "XYZ-5:30")}
        leave_room(target, 64 << 20)
        listed = marks_of(target)
        first = doctor(target)["findings"][0]
        text = told(target)
        page = run_cli("report", target.pid, "-o", "-", env=target.cli_env).stdout
    check("memory is used up at " in page and "(RLIMIT_AS)" in page,
          "the page does not say when memory is used up")
    check_equal(first["id"], "growth", "the first finding")
    check(names(first, "record_keep"), f"path: {first['path'][:4]}")
    rate, planted_rate = first["growth"]["bytes_per_s"], 8000 * 500
    check(abs(rate - planted_rate) < planted_rate / 5, f"{rate} bytes/s instead of {planted_rate}")
    # The leak began 0.7 s after the program's start, which must lie between the two marks of the
    # finding.
    since = first["growth"]["since_uptime_s"]
    later = min((mark["uptime_s"] for mark in listed if mark["uptime_s"] > since + 0.001),
                default=99)
    check(first["growth"]["began"] and since - 0.3 <= 0.7 <= later + 0.1,
          f"since when: {first['growth']}, the next mark is at {later}")
    out = first["out"]
    check_equal(out["limit"], "RLIMIT_AS", "the limit")
    # The program grows by 4 MB a second until doctor looks.
    check(24 << 20 < out["left_bytes"] < 65 << 20, f"what is left: {out}")
    # RLIMIT_AS counts the blocks of the chunks, of 512 bytes each.
    check(abs(out["bytes_per_s"] - rate * 512 / 500) < rate / 100, f"a rate of {rate}: {out}")
    check(abs(out["seconds"] - out["left_bytes"] / out["bytes_per_s"]) < 0.1,
          f"when it is used up: {out}")
    check(re.search(r"growth of [34]\.\d MiB/s since \d\d:\d\d:\d\d \(record_keep, history.c:\d+\)",
                    verdict(text)), text)
    check(re.search(r"^\d\d:\d\d:\d\d, or up to \d\.\d s later: \+[34]\.\d MiB/s",
                    labelled(text, 1, "since")), text)
    check(re.search(r"^memory is used up at \d\d:\d\d:\d\d, in 1?\d\.\d s, if this goes on: "
                    r"[2-6]\d\.\d MiB are left of .* \(RLIMIT_AS\)$", labelled(text, 1, "out")),
          text)
    check("too few to find leaks" not in text, text)
    for zone, offset in (("UTC0", 0), ("XYZ-5:30", 19800)):  # times are in the user's time zone
        since = re.search(r"since (\d\d):(\d\d):(\d\d)", verdict(in_zone[zone]))
        check(since, in_zone[zone])
        told_s = int(since[1]) * 3600 + int(since[2]) * 60 + int(since[3])
        late = (told_s - (begun + 0.7 + offset)) % 86400
        check(late < 2 or late > 86400 - 2, f"{zone}: {since[0]}, {late} s late")


@test
@in_tries
def history_memory_that_was_never_touched():
    """If the program never touches most of what it allocates, only touched bytes count for the time
    at which memory is used up."""
    with runtime_dir() as directory, history(directory, "reserves") as target:
        growth, text = growth_of(target), told(target)
        rss = harness.rss_kib(target.pid) << 10
    check(growth and names(growth[0], "room_reserve"), f"found: {growth}")
    rate = growth[0]["growth"]["bytes_per_s"]
    check(rate > 10 << 20, f"it asks for {rate} bytes/s")
    out = labelled(text, 1, "out")
    told_s = re.search(r"in about ([0-9.]+) (s|min|h|days) at this rate; .*; of what this growth "
                       r"asks for, (\d+) % is in memory, and only that counts", out)
    check(told_s, text)
    seconds = float(told_s[1]) * {"s": 1, "min": 60, "h": 3600, "days": 86400}[told_s[2]]
    # The text is from a later run than the figures, so they differ a little.
    planned = growth[0]["out"]["left_bytes"] / (rate * int(told_s[3]) / 100)
    check(abs(seconds - planned) < planned / 4, f"{out}: {planned} s")
    check(rss / growth[0]["bytes"] < 0.6 and int(told_s[3]) < 60, f"{rss} bytes resident: {out}")


@test
@in_tries
def history_python():
    """In python a list that grows without end is an alarm; one that stays at a fixed length is
    none."""
    with runtime_dir() as directory, python(directory, 0) as target, \
         python(directory, 500) as healthy:
        growth, text = growth_of(target), told(target)
        alarms = [finding for finding in growth_of(healthy) if finding["severity"] in ALARMING]
    check(not alarms, f"{alarms}")
    check(growth and growth[0]["severity"] in ALARMING, f"found: {growth}")
    rate, planted_rate = growth[0]["growth"]["bytes_per_s"], 2000 * 2000
    check(abs(rate - planted_rate) < planted_rate / 4, f"{rate} bytes/s instead of {planted_rate}")
    check(growth[0]["out"]["seconds"] is None,
          f"the machine's memory is far away: {growth[0]['out']}")
    moment = r"\d\d:\d\d:\d\d"
    began = re.search(rf"growth of \S+ MiB/s since (before )?{moment} \(", verdict(text))
    check(began, text)
    # On a busy machine the first marks may be older than the program's start.
    said = (rf"{moment}, or up to \d\.\d s later" if not began[1]
            else rf"before {moment}, when memctx first looked")
    check(re.search(rf"^{said}: \+\S+ MiB/s from then on, steadily$", labelled(text, 1, "since")),
          text)
    rough = re.search(r"^memory is used up in about ([0-9.]+) (s|min|h|days) at this rate; a rough "
                      r"figure, because the growth was watched for ([0-9.]+) s only: "
                      r"\S+ \S+ are left of \S+ \S+ \(.*\)$", labelled(text, 1, "out"))
    check(rough, text)
    seconds = float(rough[1]) * {"s": 1, "min": 60, "h": 3600, "days": 86400}[rough[2]]
    planned = growth[0]["out"]["left_bytes"] / rate
    check(abs(seconds - planned) < planned / 4, f"{rough[0]}: {growth[0]['out']}")
    check("a day at this rate" not in text, text)


@test
@in_tries
def history_healthy():
    """A cache that fills, and a program that frees all it allocates, raise no alarm about
    growth."""
    with runtime_dir() as directory, history(directory, "cache") as cache, \
         history(directory, "work") as work:
        for case, target in (("cache", cache), ("work", work)):
            growth = growth_of(target)
            alarms = [finding for finding in growth if finding["severity"] in ALARMING or
                      finding["out"]]
            check(not alarms, f"{case}: {alarms}")


def marks_of(target):
    return json.loads(run_cli("mark", "--list", "--json", target.pid,
                              env=target.cli_env).stdout)["marks"]


def set_marks(target, value, status=0):
    done = run_cli("set", target.pid, f"marks={value}", env=target.cli_env)
    check_equal(done.returncode, status, f"marks={value}: {done.stderr}")
    return done.stdout + done.stderr


# Forks after a line. The child allocates until its parent has ended.
FORKS = """
import os, sys, time
print("ready", flush=True)
sys.stdin.readline()
parent = os.getpid()
child = os.fork()
if child:
    print(child, flush=True)
    sys.stdin.readline()
while not child and os.getppid() == parent:
    bytearray(3000000)
    time.sleep(0.01)
"""


@test
def history_marks_are_the_newest():
    """The process keeps the newest N automatic marks beside the user's; `off` drops them; a forked
    child has none."""
    with runtime_dir() as directory:
        with Target(["/usr/bin/python3", "-c", FORKS], directory,
                    MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "what the program says")
            target.wait_socket()
            check_equal(marks_of(target), [], "marks by default")
            check_equal(run_cli("mark", target.pid, "auto-2", env=target.cli_env).returncode, 0,
                        "a mark of the user's")
            check("marks is now 100ms,3" in set_marks(target, "100ms,3"), "the answer")
            seen = [marks_of(target)]
            while int(seen[-1][-1]["name"].split("-")[1]) < 6:  # until mark auto-6
                time.sleep(0.03)
                seen.append(marks_of(target))
            check_equal(max(len(marks) for marks in seen), 4, "most marks, with the user's")
            # with an interval of 1 h no new mark comes; the old ones stay
            set_marks(target, "1h,3")
            listed = marks_of(target)
            last = int(listed[-1]["name"].split("-")[1])
            check_equal([mark["name"] for mark in listed[1:]],
                        [f"auto-{number}" for number in range(last - 2, last + 1)], "the newest")
            check_equal((listed[0]["name"], last >= 6), ("auto-2", True),
                        "the user's, which is older")
            steps = [b["uptime_s"] - a["uptime_s"] for a, b in zip(listed[1:], listed[2:])]
            check(all(0 < step < harness.PATIENCE_S for step in steps), f"their intervals: {steps}")
            # No mark is early; an interval may be short after a late mark. The name auto-2 is the
            # user's, so auto-3 is the second automatic mark.
            begun = listed[0]["uptime_s"]
            early = [mark for mark in listed[1:]
                     if mark["uptime_s"] < begun +
                     0.1 * (int(mark["name"].split("-")[1]) - 1) - 0.002]
            check(not early, f"too early: {early}, since {begun}")
            taken = run_cli("mark", target.pid, listed[-1]["name"], env=target.cli_env)
            check(taken.returncode == 1 and "MEMCTX_MARKS" in taken.stderr, taken.stderr)
            check("off, TIME or TIME,COUNT" in set_marks(target, "10x,3", 1), "what is refused")
            dump = run_cli("dump", target.pid, env=target.cli_env).stdout
            check('mark "auto-2" at ' in dump or '4 marks from "auto-2"' in dump, dump[:500])
            target.say("")
            child = int(target.hear())
            target.wait_socket(child)
            done = json.loads(run_cli("mark", "--list", "--json", child, env=target.cli_env).stdout)
            check_equal(done["marks"], [], "marks of the child")
            os.kill(child, 9)
            set_marks(target, "off")
            harness.wait_until(lambda: len(marks_of(target)) == 1, "the end of the marks")
            check_equal(marks_of(target)[0]["name"], "auto-2", "the user's mark stays")


@test
def history_marks_stay_small():
    """With many contexts, automatic marks stay within 1/16 of the tables budget by leaving out
    small contexts, and the user can still set a mark."""
    def tables():
        lines = run_cli("dump", "--self", target.pid, env=target.cli_env).stdout.splitlines()
        return {line.split()[0]: int(line.split()[1])
                for line in lines if len(line.split()) > 1 and line.split()[1].isdigit()}
    program = harness.build_program("tests/control/many_contexts.c")
    with runtime_dir() as directory, Target([program, "4000"], directory, MEMCTX_CONTROL="eager",
                                            MEMCTX_FOLD="off") as target:
        check(target.hear().startswith("ready"), "what the program says")
        before = tables()
        set_marks(target, "100ms,32")
        harness.wait_until(lambda: len(marks_of(target)) >= 4, "four marks", step_s=0.1)
        listed, after = marks_of(target), tables()
        rise, share = (after["tables_bytes"] - before["tables_bytes"],
                       after["tables_limit_bytes"] // 16)
        check(0 < rise <= share + 8192, f"the tables grew by {rise} bytes; the share is {share}")
        check(all(mark["left_out_contexts"] > 0 for mark in listed), f"left out: {listed}")
        check_equal(run_cli("mark", target.pid, "mine", env=target.cli_env).returncode, 0,
                    "a mark of the user's")
        set_marks(target, "off")
        harness.wait_until(lambda: len(marks_of(target)) == 1, "the end of the marks")
        return f"{rise >> 10} KiB"


@test
def history_bad_settings():
    """A wrong MEMCTX_MARKS gives a warning and no marks; a wrong --marks is refused."""
    with runtime_dir() as directory:
        with Target(["/usr/bin/python3", "-c", "print('ready', flush=True); input()"], directory,
                    MEMCTX_MARKS="10m,99",
                    MEMCTX_CONTROL="eager") as target:
            check_equal(target.hear(), "ready", "what the program says")
            target.wait_socket()
            options = {option["name"]: option
                       for option in command(target, "options", target.pid)["options"]}
            check_equal(options["marks"]["value"], "off", "the value")
            _, errors = target.finish()
            check("MEMCTX_MARKS=10m,99 is not understood; it takes off, TIME or TIME,COUNT"
                  in errors, errors)
    for value in ("", "10m,", "10m,0", "10m,33", "99ms,3", "31d,3", "10 m", "1.5h,3", "10m,3x",
                  "99999999999999999999d", "on"):
        done = run_cli("run", "--marks", value, "--", "true")
        check_equal(done.returncode, 2, f"--marks {value!r}: {done.stderr}")
    for value, told_as in (("600s,5", "10m,5"), ("1h", "1h,24"), ("100ms,1", "100ms,1"),
                           ("30d,32", "30d,32"), ("90", "90s,24"), ("off", "off")):
        with runtime_dir() as directory, Target(["/bin/cat"], directory, MEMCTX_MARKS=value,
                                                MEMCTX_CONTROL="eager") as target:
            target.wait_socket()
            options = {option["name"]: option
                       for option in command(target, "options", target.pid)["options"]}
            check_equal(options["marks"]["value"], told_as, f"MEMCTX_MARKS={value}")


@test
@in_tries
def history_of_a_machine_that_slept():
    """If the machine slept three hours, times of marks include the sleep and the rate does not."""
    program = harness.build_program("tests/diagnosis/asleep.c")
    with runtime_dir() as directory, Target([program], directory, MEMCTX_MARKS=MARKS,
                                            MEMCTX_CONTROL="eager",
                                            MEMCTX_RECORD=directory) as target:
        check_equal(target.hear(60), "look", "what the program says")
        looked = time.time()
        env = dict(target.cli_env, TZ="UTC0")
        text = run_cli("doctor", target.pid, env=env).stdout
        listed = run_cli("mark", "--list", target.pid, env=env).stdout.splitlines()
        first = doctor(target)["findings"][0]
        dump = command(target, "dump", target.pid)
        recording = os.path.join(directory, f"memctx-{target.pid}-asleep.rec")
        harness.wait_until(lambda: command(target, "dump", recording)["marks"],
                           "an older moment in the recording", step_s=0.2)
        target.finish()
        recorded = command(target, "dump", recording)
    rate = first["growth"]["bytes_per_s"]
    check(abs(rate - 8000 * 500) < 8000 * 500 / 3, f"a rate of {rate}")
    since = labelled(text, 1, "since")
    check("the machine slept 3.0 h" in since, since)
    told_at = re.match(r"(?:before )?(?:\w+day )?(\d+):(\d+)", since)
    wanted = time.gmtime(looked - 3 * 3600 - 2)
    off = (int(told_at[1]) * 60 + int(told_at[2]) - wanted.tm_hour * 60 - wanted.tm_min +
           720) % 1440 - 720
    check(abs(off) <= 2, f"since {told_at[0]}, {wanted.tm_hour}:{wanted.tm_min} is wanted")
    ago = [float(re.search(r"([0-9.]+) s ago", line)[1]) for line in listed]
    check(ago[0] > 3 * 3600 and ago[-1] < 100, f"marks of so many seconds ago: {ago}")
    check(abs(dump["slept_s"] - dump["marks"][0].get("slept_s", 0) - 3 * 3600) < 1,
          f"{dump['marks'][0]}")
    moment = recorded["marks"][-1]  # recorded after the sleep
    check(moment["uptime_s"] > 1 and abs(recorded["slept_s"] - moment.get("slept_s", 0)) < 1,
          f"sleep since {moment}: {recorded['slept_s']}")
