# SPDX-License-Identifier: MIT
"""memctx watch --keep: which files stay, also after restarts and beside other commands."""
import os
import shutil

from harness import build_program, check, check_equal, test
from clitest import scratch, target
from watching import Watch, files_in, hold, wait_for_looks


def lists_in(where):
    return [os.path.join(where, name) for name in os.listdir(where)
            if name.startswith(".memctx-watch-")]


@test
def watch_keeps_the_newest_and_the_largest():
    """--keep 2 leaves the files of the newest two events and of the largest one."""
    with hold() as live, scratch() as where, \
            Watch(live, "--when", "inuse>10M", "--cool", "0", "--keep", "2", "--dir", where,
                  "--no-symbols",
                  "--do", "snapshot", "--do", "doctor") as watch:
        stems = []
        for mebibytes in (11, 30, 12, 13, 14):
            live.ask(f"take {mebibytes}")
            stems.append(watch.until("snapshot")["file"][:-len(".mctx")])
            watch.until("doctor")
            live.ask("give")
            wait_for_looks(live)
        check_equal(watch.end(), (0, ""), "status and errors")
        kept = [os.path.basename(stems[i]) + end for i in (1, 3, 4) for end in (".mctx", ".txt")]
        check_equal(files_in(where), sorted(kept), "files")
        check_equal(len([event for event in watch.seen if event["event"] == "removed"]), 4,
                    "removed")


@test
def watch_keeps_after_a_restart():
    """--keep counts the files of earlier runs: the newest and the largest of all runs stay."""
    with hold() as live, scratch() as where:
        with open(os.path.join(where, "hold-1-20260101T000000Z-inuse-10M.mctx"), "x",
                  encoding="ascii"):
            pass  # a file that no list names
        stems = []
        for mebibytes in (11, 30, 12, 13):
            with Watch(live, "--when", "inuse>10M", "--keep", "1", "--dir", where, "--no-symbols",
                       "--do", "snapshot", "--do", "doctor") as watch:
                live.ask(f"take {mebibytes}")
                stems.append(os.path.basename(watch.until("snapshot")["file"])[:-len(".mctx")])
                watch.until("doctor")
                live.ask("give")
                wait_for_looks(live)
                check_equal(watch.end(), (0, ""), "status and errors")
        kept = [stem + end for stem in (stems[1], stems[3]) for end in (".mctx", ".txt")]
        check_equal(files_in(where)[1:], sorted(kept), "files")
        check_equal(os.stat(lists_in(where)[0]).st_mode & 0o777, 0o600, "mode of the list")


@test
def watch_leaves_the_lines_of_other_programs():
    """Two commands with equal conditions for two programs share the list: while one of them is
    down, the other keeps its lines, so the files of both programs are counted after a restart."""
    with scratch() as copies, scratch() as where, hold() as first, \
         target([shutil.copy(build_program("tests/cli/programs/hold.c"),
                             os.path.join(copies, "held"))]) as second:
        words = ("--when", "inuse>10M", "--keep", "1", "--dir", where, "--no-symbols")

        def event(live, watch, mebibytes):
            live.ask(f"take {mebibytes}")
            name = os.path.basename(watch.until("snapshot")["file"])
            live.ask("give")
            wait_for_looks(live)
            return name

        def event_of_second(mebibytes):
            with Watch(second, *words) as watch:
                name = event(second, watch, mebibytes)
                check_equal(watch.end(), (0, ""), "status and errors")
            return name
        event_of_second(11)
        with Watch(first, *words) as watch:
            event(first, watch, 12)
            want = {event_of_second(14), event_of_second(13)}
            check_equal([name for name in files_in(where) if name.startswith("held-")],
                        sorted(want), "files of the second program")
            check_equal(watch.end(), (0, ""), "status and errors")


@test
def watch_believes_no_foreign_list():
    """A damaged list is ignored, and so are lines that name files of other programs, or files in
    other directories, or files of a command that still runs."""
    with hold() as live, scratch() as where:
        words = (live, "--when", "inuse>10M", "--keep", "1", "--dir", where, "--no-symbols")

        def round_of(mebibytes):
            with Watch(*words) as watch:
                live.ask(f"take {mebibytes}")
                name = os.path.basename(watch.until("snapshot")["file"])
                live.ask("give")
                wait_for_looks(live)
                check_equal(watch.end(), (0, ""), "status and errors")
            return name
        first = round_of(11)
        os.mkdir(os.path.join(where, "hold-deep"))
        others = ("other-1.mctx", "hold-deep/hold-1.mctx", "hold-1.conf", "hold-2.mctx")
        for name in others:
            with open(os.path.join(where, name), "x", encoding="ascii"):
                pass
        with open(f"/proc/{os.getpid()}/stat", encoding="ascii") as file:
            own = f"{os.getpid()} {file.read().rpartition(')')[2].split()[19]}"
        with open(lists_in(where)[0], "a", encoding="ascii") as file:
            for name in others[:3]:
                file.write(f"1 2 3 4 5 hold {name} -\n")
            file.write(f"{own} 3 4 5 hold {others[3]} -\n" + "x" * 5000 + "\n1 2 3\n\0\n")
        check_equal([round_of(12), first in files_in(where)][1], False, "the first file is there")
        for name in others:
            check(os.path.exists(os.path.join(where, name)), f"{name} was removed")
        with open(lists_in(where)[0], encoding="ascii") as file:
            check(f"{own} 3 4 5 hold {others[3]} -\n" in file, "the other command's line is lost")
