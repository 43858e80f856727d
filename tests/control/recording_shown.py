# SPDX-License-Identifier: MIT
"""Recordings in memctx top, and of a process in a container."""
import json
import os
import shutil
import signal
import tempfile

import harness
import screen
from harness import Skip, check, check_equal, run_cli, runtime_dir, test
from recorded import (dump_of, first_moments, functions_of, postmortem_of, read, recorded,
                      recording_of, wait_moments)


@test
def top_prints_a_recording():
    """top --batch of a recording prints its moments: totals, contexts, and growth since the moment
    before."""
    with first_moments() as path:
        moments = postmortem_of(path)["moments"]
        done = run_cli("top", path, "--batch", "1000", "--json", "--limit", "500")
        frames = [json.loads(line) for line in done.stdout.splitlines()]
        check_equal((done.returncode, done.stderr, len(frames)), (0, "", len(moments)), "frames")
        for before, moment, frame in zip([None, *moments], moments, frames):
            process = frame["process"]
            check_equal(frame["interval_s"], None, "the distance of the moments varies")
            for key in ("requested_bytes", "live_chunks", "rss_bytes", "uptime_s", "time_s"):
                check_equal(round(process[key], 3), round(moment[key], 3),
                            f"{key} of frame {frame['frame']}")
            check_equal(sum(one["requested_bytes"] for one in frame["list"]),
                        moment["requested_bytes"], "sum over the contexts")
            rate = before and ((moment["requested_bytes"] - before["requested_bytes"]) /
                               (moment["uptime_s"] - before["uptime_s"]))
            check(rate is None if process["growth_bytes_per_s"] is None
                  else abs(process["growth_bytes_per_s"] - rate) < 1 + abs(rate) / 100,
                  f"growth of frame {frame['frame']}: {process['growth_bytes_per_s']}, want {rate}")
        want = {context["id"]: context["self"]["requested_bytes"]
                for context in dump_of(path)["contexts"] if context["self"]["live_chunks"]}
        check_equal({one["id"]: one["requested_bytes"]
                     for one in frames[-1]["list"] if one["live_chunks"]}, want, "the last moment")
        text = run_cli("top", path + "@start", "--batch", "9", "--no-symbols", "--tree").stdout
        check(text.startswith("moment of 2") and "frame 1 of 1:" in text, text)
        snapshot = path + ".mctx"
        check_equal(run_cli("dump", path, "-o", snapshot).returncode, 0, "a snapshot of it")
        for words, code, message in ((["top", snapshot, "--batch", "1"], 1,
                                      "is a snapshot of one moment; top takes a process or a "
                                      "recording"),
                                     (["top", path + "@-9h", "--batch", "1"], 1, "begins only"),
                                     (["top", path, path], 1,
                                      "is a file; top needs a running process"),
                                     (["top", path], 2, "--batch N prints N frames")):
            done = run_cli(*words)
            check(done.returncode == code and message in done.stderr,
                  f"{words}: {done.returncode} {done.stderr}")


@test
def top_shows_a_recording():
    """top of a recording: keys move along the time axis, and sparklines show the whole recording
    with a cursor."""
    with first_moments() as path:
        count = len(postmortem_of(path)["moments"])
        env = {**harness.clean_env(), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        with screen.Terminal([harness.CLI, "top", path, "--interval", "0.1"], env, 24,
                             120) as terminal:
            def at(moment):
                terminal.wait(rf"moment {moment} of {count}, 2", f"moment {moment}")

            at(count)
            terminal.wait(r"total +▁.*█", "the time axis")
            terminal.press("[")
            at(count - 1)
            terminal.press("[[[[[[[[[[" * 3)
            at(1)
            terminal.wait(r"growth \?/s", "growth that is not known")
            # root's first moment comes before the program has allocated anything
            terminal.wait(r"\n +\d\S* +\? +\? +\? |no call path has allocated anything yet",
                          "a line whose growth is not known")
            terminal.press("m")
            terminal.wait("the figures now are the base", "the base")
            terminal.press("]d")
            at(2)
            terminal.wait(r"DIFFERENCES to \d", "differences")
            terminal.wait(r"\n *\+\d\S* +\+", "a difference of a line")
            terminal.press("t")
            terminal.wait("a recording has no figures of threads", "threads")
            terminal.press("p")
            at(count)
            terminal.press("{")
            terminal.wait(rf"moment (?!{count} of)\d+ of", "a tenth back")
            terminal.press("v")
            terminal.wait("TREE OF CALL PATHS", "the tree")
            terminal.press("g")
            terminal.until(lambda: "whole program" in terminal.screen.marked()[-1],
                           "the root is marked")
            terminal.wait(r"total +(▁\S*█ .*\S) *\nline +\1 *\n", "the axis of the whole tree")
            terminal.press("q")
            check_equal(terminal.ended(), 0, "the exit code after q")


@test
def top_goes_from_a_process_to_its_recording():
    """In top, [ shows the recording of the process and b the process again. Without a recording [
    gives a message; it also finds a recording that memctx set started or stopped meanwhile."""
    program = harness.build_program("tests/control/recorded.c")
    with recorded() as (target, directory), runtime_dir() as runtime:
        wait_moments(recording_of(directory, target.pid), 3)
        env = {**target.cli_env, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        with screen.Terminal([harness.CLI, "top", str(target.pid), "--interval", "0.2"], env, 24,
                             120) as terminal:
            terminal.wait(rf"memctx top: pid {target.pid} \(recorded\), up", "the process")
            terminal.press("[")
            terminal.wait(rf"moment \d+ of \d+, 2.*; pid {target.pid}, recorded", "its recording")
            terminal.wait("b now", "the way back")
            terminal.wait("recorded.c:", "names")
            terminal.press("b")
            terminal.wait(rf"memctx top: pid {target.pid} \(recorded\), up", "the process again")
            target.kill()
            terminal.wait("was killed by signal 9", "its end")
            terminal.press("[")
            terminal.wait(rf"moment \d+ of \d+, 2.*; pid {target.pid}, recorded",
                          "the recording of the ended process")
            terminal.wait("recorded.c:", "names of the ended process")
            terminal.press("b")
            terminal.wait("was killed by signal 9", "its end again")
            terminal.press("q")
            check_equal(terminal.ended(), 0, "the exit code after q")
        with harness.Target([harness.CLI, "run", "--", program], runtime, preload=False) as other:
            other.hear()
            other.wait_socket()
            with screen.Terminal([harness.CLI, "top", str(other.pid)], {**env, **other.cli_env}, 24,
                                 120) as terminal:
                terminal.wait("resident", "the process")
                terminal.press("[")
                terminal.wait(f"this process writes no recording; memctx set {other.pid} "
                              "record=DIR begins one", "none")
                done = run_cli("set", str(other.pid), f"record={directory}", env=other.cli_env)
                check_equal(done.returncode, 0, done.stderr)
                wait_moments(recording_of(directory, other.pid))
                terminal.press("[")
                terminal.wait(rf"moment \d+ of \d+, 2.*; pid {other.pid}, recorded",
                              "a recording that began later")
                terminal.press("b")
                terminal.wait(rf"memctx top: pid {other.pid} \(recorded\), up", "the process again")
                check_equal(run_cli("set", str(other.pid), "record=off",
                                    env=other.cli_env).returncode, 0, "record=off")
                terminal.press("[")
                terminal.wait(rf"moment \d+ of \d+, 2.*; pid {other.pid}, recorded",
                              "a recording that was switched off")
                terminal.press("b")
                os.remove(recording_of(directory, other.pid))
                terminal.press("[")
                terminal.wait("this process writes no recording", "a recording that was removed")


@test
def recording_in_a_container_is_read_from_outside():
    """A recording in a container's file system is read through /proc/PID/root, and gets names of
    the program in the container."""
    if os.geteuid() != 0:
        raise Skip("making namespaces takes root")
    program = harness.build_program("tests/control/recorded.c")
    script = ("mount --make-rprivate / && mount -t tmpfs tmpfs /opt && mkdir /opt/rec && cp \"$1\" "
              "/opt/recorded && "
              "exec \"$2\" run --record=/opt/rec -- /opt/recorded")
    argv = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh",
            program, harness.CLI]
    with runtime_dir() as runtime, harness.Target(argv, runtime, preload=False) as target:
        if target.hear() != "ready 1":
            raise Skip("this machine makes no such namespaces")
        pid = int(read(f"/proc/{target.pid}/task/{target.pid}/children").split()[0])
        path = f"/proc/{pid}/root/opt/rec/memctx-1-recorded.rec"
        wait_moments(path, 2)
        told = postmortem_of(path)
        check_equal((told["ended"], told["pid"]), ("running", 1), "how it ended")
        # The ids of threads in the dump are those of the container's pid namespace.
        threads = json.loads(run_cli("dump", "--outside", "--threads", "--json", "--no-symbols",
                                     str(pid)).stdout)["threads"]
        check((1, "recorded") in {(thread["tid"], thread["name"]) for thread in threads},
              f"threads: {threads}")
        check_equal(run_cli("postmortem", "--names", path).returncode, 0, "keeping names")
        with tempfile.TemporaryDirectory(prefix="mctx-rec-") as directory:
            copy = shutil.copy(path, os.path.join(directory, "copy.rec"))
            os.kill(pid, signal.SIGKILL)
            target.process.wait(timeout=60)
            dump, functions = functions_of(copy)
            check(dump["has_names"] and {"main", "leak_here"} <= functions, functions)
            check_equal(postmortem_of(copy)["ended"], "killed", "afterwards")
