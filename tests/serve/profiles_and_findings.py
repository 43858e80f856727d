# SPDX-License-Identifier: MIT
"""/debug/pprof, /doctor and the start page of memctx serve; memctx export --seconds."""
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

import harness
import pprof_file
from harness import Skip, check, check_equal, run_cli, runtime_dir, test
from serving import OWN_NAME, Server, served

OF_A_DIFFERENCE = {"time_is_a_moment"}  # a rule that does not hold for profiles with a duration


def valid(data, but=()):
    """Decodes a profile that breaks no rule of the format, apart from the rules `but`."""
    profile = pprof_file.decode(data)
    found = [one for one in pprof_file.complaints(profile) if one[0] not in but]
    check(not found, f"complaints: {found[:3]}")
    return profile


def of(profile, kind, function):
    """The sum of type `kind` over the samples with this function in their stack."""
    column = [name for name, _ in pprof_file.types(profile)].index(kind)
    return sum(values[column]
               for functions, values in pprof_file.stacks(profile) if function in functions)


@test
def the_heap_is_what_export_writes():
    with served() as target, Server(target.runtime, target.pid) as server:
        status, headers, body = server.ask("/debug/pprof/heap")
        check_equal((status, headers["Content-Type"]), (200, "application/octet-stream"), "answer")
        profile, dump = valid(body), target.dump()
        check_equal(pprof_file.sums(profile)["inuse_space"], dump["totals"]["requested_bytes"],
                    "live bytes")
        check_equal(of(profile, "inuse_space", "keep_rows"), 100000, "bytes of keep_rows")
        few = valid(server.get("/debug/pprof/heap?limit_samples=3"))
        check(len(few["sample"]) <= 3 < len(profile["sample"]), f"{len(few['sample'])} samples")
        check_equal(pprof_file.sums(few)["inuse_space"], dump["totals"]["requested_bytes"],
                    "with three samples")


@test
def allocs_are_those_of_the_seconds():
    """Profiles over a second, by the server and by memctx export, count only what was allocated in
    that second."""
    with served() as target, Server(target.runtime, target.pid) as server, \
            tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        path, exports = os.path.join(where, "profile.pb.gz"), []
        target.say("churn 600000")
        export = threading.Thread(target=lambda: exports.append(
            run_cli("export", target.pid, "--pprof", path, "--seconds", 1, env=target.cli_env)))
        export.start()
        began = time.monotonic()
        profile = valid(server.get("/debug/pprof/allocs?seconds=1"), but=OF_A_DIFFERENCE)
        check(time.monotonic() - began >= 1, "it did not take a second")
        export.join()
        target.say("names 0")
        check_equal([target.hear(), target.hear()], ["done", "done"], "the end of the load")
        check_equal((exports[0].returncode, exports[0].stderr), (0, ""), "export")
        with open(path, "rb") as file:
            of_export = valid(file.read(), but=OF_A_DIFFERENCE)
        for one in (profile, of_export):
            check_equal(of(one, "alloc_space", "keep_rows"), 0,
                        "allocated by keep_rows in this second")
            check_equal(of(one, "inuse_space", "keep_rows"), 0, "growth of what is constant")
            churned, count = of(one, "alloc_space", "churn"), of(one, "alloc_objects", "churn")
            # The program runs on, so the two figures may differ by a chunk or two.
            check(count > 1000 and abs(churned - 1000 * count) <= 2000,
                  f"churn made {count} chunks of {churned} bytes")
            check(0.9e9 < one["duration_nanos"] < 1e9 * harness.PATIENCE_S,
                  f"duration {one['duration_nanos']}")
            kind = pprof_file.text(one, one["default_sample_type"])
            check_equal(kind, "alloc_space", "default type")


@test
def go_pprof_reads_it_from_the_server():
    go = shutil.which("go")
    if not go:
        raise Skip("go is not installed")
    with served() as target, Server(target.runtime, target.pid) as server:
        with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
            done = subprocess.run([go, "tool", "pprof", "-top", "-sample_index=inuse_space",
                                   server.address + "debug/pprof/heap"], capture_output=True,
                                  text=True, timeout=300,
                                  env={**os.environ, "PPROF_TMPDIR": where}, check=False)
        check_equal(done.returncode, 0, f"go tool pprof: {done.stderr[-500:]}")
        check(re.search(r"97\.66kB .* keep_rows", done.stdout), done.stdout)


@test
def seconds_are_for_a_profile_alone():
    with served() as target:
        for words, message in ((["--folded", "-", "--seconds", 1], "--seconds needs --pprof FILE"),
                               (["--pprof", "-", "--csv", "/dev/null", "--seconds", 1],
                                "--seconds is for --pprof and --otlp"),
                               (["--pprof", "-", "--seconds", 0],
                                "--seconds takes a time from 1s to 1h")):
            done = run_cli("export", target.pid, *words, env=target.cli_env)
            check(done.returncode == 2 and message in done.stderr,
                  f"{words}: {done.returncode} {done.stderr}")


@test
def the_doctor_and_the_page():
    with served() as target, Server(target.runtime, target.pid) as server:
        status, headers, body = server.ask("/doctor")
        check_equal((status, headers["Content-Type"]), (200, "application/json"), "answer")
        found = json.loads(body)
        check_equal((found["schema"], found["pid"]), ("memctx-doctor/1", target.pid), "finding")
        status, headers, body = server.ask("/")
        check_equal((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"), "page")
        page = body.decode()
        verdict = run_cli("doctor", target.pid, env=target.cli_env).stdout.splitlines()[0]
        rest = re.sub(r"[0-9.]+", "N", verdict.replace("<", "&lt;"))
        check(rest in re.sub(r"[0-9.]+", "N", page), f"no {verdict!r} in {page}")
        for address in ("metrics", "doctor", "debug/pprof/heap", "debug/pprof/allocs"):
            check(f'href="{address}' in page, f"no {address} in the page")
        check("<script" not in page, "the page has a script")


@test
def the_page_escapes_names():
    # \udcff is the byte 0xff, which is not UTF-8; a terminal obeys \x9b, as it obeys ESC [.
    name = 'a<b>"&\'c\x9b\udcff'
    escaped = "a&lt;b&gt;&quot;&amp;'c??\ufffd"
    with served(name=name) as target, Server(target.runtime, target.pid) as server:
        page = server.get("/").decode()
        check(escaped in page and "<b>" not in page, page)
        report = os.path.join(target.runtime, "report.html")
        done = run_cli("report", target.pid, "-o", report, env=target.cli_env)
        check_equal(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as file:
            check(f"<title>{escaped} " in file.read(), "no escaped name in the title of the report")
        link = html.unescape(re.search(r'href="(doctor\?[^"]*)"', page)[1])
        check_equal(json.loads(server.get("/" + link))["pid"], target.pid,
                    "the process that the page links to")
        check_equal(server.metrics().one("memctx_up", program=html.unescape(escaped)), 1, "up")


@test
def a_process_is_chosen_by_name_and_number():
    with runtime_dir() as runtime, served(runtime, OWN_NAME) as first, \
         served(runtime, OWN_NAME) as second:
        with Server(runtime, "--match", OWN_NAME.replace("v", "*", 1)) as server:
            check_equal(server.first_count, 2, "processes")
            with Server(runtime, "--all") as all_of_them:
                check(all_of_them.first_count >= 2, "not all processes of this user")
                all_of_them.get(f"/doctor?target={OWN_NAME}&process=1")
            first_pid = json.loads(server.get(f"/doctor?target={OWN_NAME}&process=1"))["pid"]
            second_pid = json.loads(server.get(f"/doctor?target={OWN_NAME}&process=2"))["pid"]
            check_equal({first_pid, second_pid}, {first.pid, second.pid}, "pids")
            check(b"2 processes are served" in server.get("/doctor", status=400), "no reason")
            check(b"&process=" in server.get(f"/doctor?target={OWN_NAME}", status=400), "no advice")
            check(b"/ lists" in server.get("/doctor?target=nobody", status=404), "no advice")
            for pid in (first_pid, second_pid):
                check_equal(json.loads(server.get(f"/doctor?target={pid}"))["pid"], pid,
                            "the process of a pid")
            text = server.get(f"/doctor?program={OWN_NAME}", status=400)
            check(b"takes no program=; it takes target=, process=" in text, text)
            check_equal(server.get("/metrics?x=1", status=400),
                        b"memctx: this address takes no x=; it takes no arguments\n",
                        "an address without arguments")
            check(b" with process=3; / lists" in
                  server.get(f"/doctor?target={OWN_NAME}&process=3", status=404), "no number")
            first.kill()
            check_equal(json.loads(server.get("/doctor"))["pid"], second.pid,
                        "the only one that is left")
