# SPDX-License-Identifier: MIT
"""Formats of other tools: the tools themselves read the files that memctx export writes."""
import contextlib
import csv
import json
import os
import re
import xml.etree.ElementTree

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test
from planted import planted, installed


@contextlib.contextmanager
def exported(*formats, case="survivors"):
    """Exports one dump in each format; yields the directory, the rows of the CSV file and the
    target."""
    with runtime_dir() as directory, planted(directory, case, "xmalloc") as target:
        target.hear()
        target.wait_socket()
        files = [word for name in (*formats, "csv")
                 for word in (f"--{name}", os.path.join(directory, name))]
        done = run_cli("export", target.pid, *files, env=target.cli_env)
        check_equal((done.returncode, done.stdout, done.stderr), (0, "", ""), "memctx export")
        with open(os.path.join(directory, "csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        yield directory, rows, target


def total(rows, figure):
    return sum(int(row[figure]) for row in rows)


def read_lines(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read().splitlines()


@test
def csv_has_all_figures():
    with exported() as (_, rows, target):
        dump = target.dump()
        check_equal(total(rows, "requested_bytes"), dump["totals"]["requested_bytes"],
                    "requested bytes in all")
        check_equal(total(rows, "pinned_bytes"), dump["totals"]["pinned_bytes"],
                    "pinned bytes in all")
        check_equal(len(rows), len(dump["contexts"]), "rows")
        by_id = {context["id"]: context for context in dump["contexts"]}
        for row in rows:
            context = by_id[int(row["id"])]
            if (context["frame"] or {}).get("line"):
                check_equal((row["function"], row["file"], int(row["line"])),
                            tuple(context["frame"][key] for key in ("function", "file", "line")),
                            f"row {row['id']}")


@test
def folded_stacks():
    with exported("folded") as (directory, rows, target):
        lines = [line.rsplit(" ", 1) for line in read_lines(directory, "folded")]
        check_equal(sum(int(figure) for _, figure in lines), total(rows, "requested_bytes"),
                    "sum of the lines")
        sessions = [stack.split(";") for stack, _ in lines if ";session_open();" in stack]
        check_equal([stack[-4:] for stack in sessions],
                    [["session_open()", "get", "get_by(Wrapper, unsigned long)",
                      "xmalloc(unsigned long)"]], "its stack")
        check_equal(sessions[0][0], "_start", "the outermost frame")
        done = run_cli("export", target.pid, "--folded", "-", "--metric", "pinned",
                       env=target.cli_env)
        figures = [int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()]
        check_equal(sum(figures), total(rows, "pinned_bytes"), "pinned bytes of standard output")
        file = os.path.join(directory, "snapshot")
        check_equal(run_cli("dump", target.pid, "-o", file, env=target.cli_env).returncode, 0,
                    "memctx dump -o")
        again = run_cli("export", file, "--folded", "-", "--metric", "pinned", env=target.cli_env)
        check_equal(again.stdout, done.stdout, "of a snapshot")


@test
def speedscope_profiles():
    with exported("speedscope") as (directory, rows, _):
        with open(os.path.join(directory, "speedscope"), encoding="utf-8") as file:
            content = json.load(file)
        check_equal(content["$schema"], "https://www.speedscope.app/file-format-schema.json",
                    "schema")
        frames = content["shared"]["frames"]
        for profile, figure in zip(content["profiles"],
                                   ("requested_bytes", None, "pinned_bytes", "live_chunks",
                                    "allocs")):
            check_equal(len(profile["samples"]), len(profile["weights"]), "weights")
            check_equal(sum(profile["weights"]), profile["endValue"], "endValue")
            if figure:
                check_equal(profile["endValue"], total(rows, figure), figure)
            check(all(0 <= index < len(frames) for sample in profile["samples"]
                      for index in sample), "a frame is missing")
        best = max(zip(content["profiles"][2]["weights"], content["profiles"][2]["samples"]))
        check("session_open()" in [frames[index]["name"] for index in best[1]],
              "whose pinned bytes are most")


# Newer releases of go build pprof at its first use, and keep it in this cache, which the Makefile
# of tests/preload/programs uses, too.
GO_CACHE = os.path.join(harness.ROOT, "out/test/go-cache")


def go_pprof(directory, *options, file="pprof"):
    done = harness.run_program([installed("go"), "tool", "pprof", "-top", "-cum", "-unit=B",
                                "-nodefraction=0", *options,
                                os.path.join(directory, file)],
                               harness.clean_env(HOME=directory, GOTOOLCHAIN="local",
                                                 GOCACHE=GO_CACHE), timeout_s=300)
    check_equal((done.returncode, "rror" in done.stderr), (0, False),
                f"go tool pprof: {done.stderr}")
    return done.stdout


@test
def pprof_reads_it():
    with exported("pprof") as (directory, rows, _):
        check("Type: inuse_space" in go_pprof(directory), "what is shown first")
        for kind, figure in (("inuse_space", "requested_bytes"), ("inuse_objects", "live_chunks"),
                             ("alloc_objects", "allocs"),
                             ("alloc_space", "requested_cum_bytes"), ("pinned", "pinned_bytes"),
                             ("reserved", "reserved_bytes"), ("resident", "resident_bytes")):
            shown = go_pprof(directory, f"-sample_index={kind}")
            check(f"Type: {kind}" in shown and "File: planted" in shown, f"the head: {shown[:300]}")
            check("Duration" not in shown, f"a duration: {shown[:300]}")
            counted = re.search(r"of ([0-9.]+)(B?) total", shown)
            check(abs(float(counted[1]) - total(rows, figure)) <= 1,
                  f"{kind}: {counted[0]}, not {total(rows, figure)}")
            own = sum(int(row[figure]) for row in rows if row["function"].startswith("xmalloc"))
            line = re.search(r"^ *([0-9.]+)B? .* xmalloc\(unsigned long\)$", shown, flags=re.M)
            check(line and abs(float(line[1]) - own) <= 1,
                  f"{kind} of xmalloc: {line and line[0]}, not {own}")


@test
def pprof_compares():
    """pprof -base of two profiles shows only the memory allocated between them."""
    program = harness.build_program("tests/cli/programs/allocate.c")
    with runtime_dir() as directory, Target([program], directory, MEMCTX_CONTROL="eager") as target:
        target.hear()
        target.wait_socket()
        for name in ("before", "after"):
            done = run_cli("export", target.pid, "--pprof", os.path.join(directory, name),
                           env=target.cli_env)
            check_equal((done.returncode, done.stderr), (0, ""), "memctx export")
            check_equal(target.ask("grow"), "ok", "grow")
        for kind, growth in (("inuse_space", 500000), ("alloc_space", 500000)):
            shown = go_pprof(directory, f"-sample_index={kind}",
                             f"-diff_base={os.path.join(directory, 'before')}", file="after")
            line = re.search(r"^ *([0-9.]+)B? .* allocate_more", shown, flags=re.M)
            check(line and float(line[1]) == growth, f"growth of {kind}: {shown}")
            check(" -" not in shown, f"something shrank: {shown}")


@test
def heaptrack_reads_it():
    with exported("heaptrack") as (directory, rows, target):
        packed = os.path.join(directory, "heaptrack.gz")
        done = run_cli("export", target.pid, "--heaptrack", packed, env=target.cli_env)
        check_equal((done.returncode, done.stderr), (0, ""), "memctx export")
        for file in (os.path.join(directory, "heaptrack"), packed):
            done = harness.run_program([installed("heaptrack_print"), "-l", "1", "-f", file],
                                       harness.clean_env())
            check_equal((done.returncode, "fail" in done.stderr), (0, False),
                        f"heaptrack_print: {done.stderr}")
            check_equal(int(re.search(r"calls to allocation functions: (\d+)", done.stdout)[1]),
                        total(rows, "live_chunks"),
                        "chunks")
            for figure in ("total memory leaked", "peak heap memory consumption"):
                told = float(re.search(figure + r": ([0-9.]+)M", done.stdout)[1])
                check(abs(told - total(rows, "requested_bytes") / 1e6) < 0.01,
                      f"{figure}: {told} MB")
            check("session_open()\n" in done.stdout and "xmalloc(unsigned long)\n" in done.stdout,
                  "no names")


@test
def flame_graph():
    """The SVG flame graph is well-formed: a box lies within the box below, and its width is its
    figure."""
    name = "{http://www.w3.org/2000/svg}"
    with exported() as (directory, rows, target):
        file = os.path.join(directory, "flame.svg")
        done = run_cli("dump", target.pid, "--svg", file, "--sort", "pinned", env=target.cli_env)
        check_equal((done.returncode, done.stdout, done.stderr), (0, "", ""), "memctx dump --svg")
        boxes = [(group.find(name + "title").text, *(float(group.find(name + "rect").get(key))
                                                      for key in ("x", "y", "width")))
                 for group in xml.etree.ElementTree.parse(file).getroot().iter(name + "g")]
        whole = boxes[0]
        check(whole[0].startswith("all: ") and whole[0].endswith("100.00 %"),
              f"the lowest box: {whole[0]}")
        for title, x, y, width in boxes[1:]:
            check(any(x >= below[1] - 0.02 and x + width <= below[1] + below[3] + 0.03 and
                      abs(below[2] - y - 17) < 1
                      for below in boxes), f"{title} stands on nothing")
        rows_of_boxes = sorted((y, x, width) for _, x, y, width in boxes)
        for (y, x, width), (next_y, next_x, _) in zip(rows_of_boxes, rows_of_boxes[1:]):
            check(y != next_y or next_x >= x + width - 0.03,
                  f"boxes lie on each other at {next_x}, {y}")
        wide = max((box for box in boxes if box[0].startswith("session_open()")),
                   key=lambda box: box[3])
        own = max(int(row["pinned_bytes"]) for row in rows)
        check(abs(wide[3] / whole[3] - own / total(rows, "pinned_bytes")) < 0.001,
              f"its width: {wide} of {whole}")
        done = run_cli("dump", target.pid, "--svg", "-", env=target.cli_env)
        root = xml.etree.ElementTree.fromstring(done.stdout)
        titles = [title.text for title in root.iter(name + "title")]
        check(any("vector<char*" in title for title in titles), f"no template's name: {titles}")
        done = run_cli("dump", target.pid, "--svg", "-", "--flat", env=target.cli_env)
        check_equal(done.returncode, 2, "exit status of --svg with --flat")


@test
def export_says_what_it_needs():
    with runtime_dir() as directory, planted(directory, "small") as target:
        target.hear()
        target.wait_socket()
        for words, status, message in (((), 2, "--pprof FILE"),
                                       (("--metric", "age", "--csv", "-"), 2, "requested"),
                                       (("--csv", "/nonexistent/file"), 1, "cannot be written")):
            done = run_cli("export", target.pid, *words, env=target.cli_env)
            check_equal(done.returncode, status, f"exit status of {words}")
            check(message in done.stderr, f"{message!r} is not in {done.stderr!r}")
