# SPDX-License-Identifier: MIT
"""/metrics: figures equal to a dump, a bounded number of labels, two formats that Prometheus
reads."""
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from harness import Skip, Target, build_program, check, check_equal, runtime_dir, test, wait_until
from serving import OPEN_METRICS, PLAIN, Metrics, Server, served


def named_metrics(server):
    """Scrapes until the call path of main has its name; the first scrape may be too early."""
    def scrape():
        metrics = server.metrics()
        return metrics if 'context="keep_rows < main"' in metrics.text else None
    return wait_until(scrape, "the name of a call path", step_s=0.2)


@test
def metrics_agree_with_the_dump():
    with served() as target, Server(target.runtime, target.pid) as server:
        metrics, dump = named_metrics(server), target.dump()
        for name, figure in (("requested_bytes", "requested_bytes"), ("live_chunks", "live_chunks"),
                             ("allocations_total", "allocs"), ("frees_total", "frees")):
            check_equal(metrics.one(f"memctx_{name}"), dump["totals"][figure], name)
        for name, sessions, cache, rows in (("requested_bytes", 1500, 70000, 100000),
                                            ("live_chunks", 3, 1, 100)):
            for kind, context, want in (("named", "sessions", sessions), ("named", "cache", cache),
                                        ("path", "keep_rows < main", rows)):
                got = metrics.one(f"memctx_context_{name}", kind=kind, context=context)
                check_equal(got, want, f"{name} of {context}")
            total = sum(metrics.all(f"memctx_context_{name}").values())
            check_equal(total, dump["totals"][name], f"sum of {name} over the contexts")
        check_equal(metrics.one("memctx_context_allocations_total", context="sessions"), 3,
                    "allocations")
        check_equal(metrics.one("memctx_up"), 1, "up")
        check_equal(metrics.one("memctx_lost_operations_total"), 0, "lost")
        reserved = dump["totals"]["reserved_bytes"] - dump["totals"]["requested_bytes"]
        check(metrics.one("memctx_waste_bytes") >= reserved, "waste is less than the dump's")
        check(metrics.one("memctx_resident_bytes") > 200000, "resident set")
        check(0 < metrics.one("memctx_tables_used_bytes") <=
              metrics.one("memctx_tables_limit_bytes"), "tables")
        check(metrics.one("memctx_freelist_bytes") >= 0, "freelist")
        before = server.metrics().one("memctx_dumps_total")
        target.dump()
        after = server.metrics().one("memctx_dumps_total")  # more if names were looked up meanwhile
        check(after >= before + 2, f"{before} dumps, and {after} after a dump and a scrape")


@test
def a_recording_that_cannot_be_written_is_counted():
    """When the directory of the recording is gone, the counter of lost parts rises with each moment
    that is due. When the directory is there again, the recording begins anew."""
    with tempfile.TemporaryDirectory(prefix="mctx-rec-") as where:
        directory = os.path.join(where, "records")
        with served(MEMCTX_RECORD=directory) as target, \
             Server(target.runtime, target.pid) as server:
            wait_until(lambda: os.path.isdir(directory) and os.listdir(directory), "the recording")
            check_equal(server.metrics().one("memctx_recording_lost_total"), 0, "lost before")
            shutil.rmtree(directory)
            wait_until(lambda: server.metrics().one("memctx_recording_lost_total") > 0, "a loss")
            check(not os.path.exists(directory), "the library made the directory anew")
            os.mkdir(directory)
            wait_until(lambda: os.listdir(directory), "a new recording")


@test
def no_label_has_a_pid_an_address_or_a_path():
    rules = "file:src/serve/served.c=slab;keep_rows=slab"
    with served(MEMCTX_RULES=rules) as target, Server(target.runtime, target.pid) as server:
        target.ask("names 5")
        labels = server.metrics().labels()
        check(("program", "served") in labels and ("process", "1") in labels,
              f"no program in {labels}")
        check(("rule", "file:served.c") in labels, f"no rule in {labels}")
        for name, value in labels:
            check(str(target.pid) not in value, f"{name} has the pid: {value}")
            check("/" not in value, f"{name} has a path: {value}")
            check(not re.search(r"0x[0-9a-f]|\+[0-9a-f]{3}", value),
                  f"{name} has an address: {value}")


@test
def the_library_is_no_caller():
    """The memory of the control thread is charged to the function of the program that started it;
    the label has no functions of the library."""
    program = build_program("tests/serve/served.c", flags=["-O0"])
    with runtime_dir() as runtime, Target([program], runtime) as target:
        check_equal(target.hear(), "ready", "first line of the target")
        # a process without MEMCTX_CONTROL=eager starts its thread late, when it allocates
        wait_until(lambda: target.ask("names 5") and os.path.exists(target.socket_path()),
                   "the control thread", step_s=0.05)
        with Server(runtime, target.pid) as server:
            metrics = named_metrics(server)
    paths = {dict(key)["context"] for key in metrics.all("memctx_context_requested_bytes")
             if dict(key)["kind"] == "path"}
    check("main" in str(paths) and not re.search("os_thread|control_start|serve_entered|wait_",
                                                 str(paths)), f"paths: {paths}")


@test
def rules_have_figures():
    with served(MEMCTX_RULES="keep_rows=slab") as target, Server(target.runtime,
                                                                 target.pid) as server:
        metrics = server.metrics()
        check_equal(metrics.one("memctx_rule_requested_bytes", rule="keep_rows"), 100000, "bytes")
        check_equal(metrics.one("memctx_rule_live_chunks", rule="keep_rows"), 100, "chunks")


@test
def labels_are_bounded_and_the_rest_is_summed():
    with served() as target, Server(target.runtime, target.pid) as server:
        target.ask("names 300")
        metrics = named_metrics(server)
        named = metrics.all("memctx_context_requested_bytes", kind="named")
        check_equal(len(named), 100, "names")
        for context in ("sessions", "cache"):
            metrics.one("memctx_context_requested_bytes", kind="named", context=context)
        paths = metrics.all("memctx_context_requested_bytes", kind="path")
        check(1 <= len(paths) <= 20, f"{len(paths)} paths")
        other = metrics.one("memctx_context_requested_bytes", kind="other")
        cut = metrics.one("memctx_contexts_cut")
        check(other >= 202 * 64 and cut >= 202, f"{other} bytes of {cut} contexts are other")
        check_equal(sum(metrics.all("memctx_context_requested_bytes").values()),
                    metrics.one("memctx_requested_bytes"), "sum over the contexts")


@test
def odd_names_are_escaped():
    odd = 'say "hi" \\ you'
    with served() as target, Server(target.runtime, target.pid) as server:
        target.ask("named " + odd)
        for end in ("a", "b"):  # labels are cut, so that both names become equal
            target.ask("named " + "long" * 50 + end)
        for name in (b"\xfe", b"\xff"):
            target.process.stdin.write(b"named " + name + b"\n")
            target.process.stdin.flush()
            target.hear()
        metrics = server.metrics()
        check_equal(metrics.one("memctx_context_requested_bytes", kind="named",
                                context="long" * 32), 246, "long names")
        check_equal(metrics.one("memctx_context_live_chunks", kind="named", context="\ufffd"), 2,
                    "not UTF-8")
        check_equal(metrics.one("memctx_context_requested_bytes", kind="named", context=odd), 123,
                    odd)
        target.ask("named ")
        metrics = server.metrics()
        check_equal(metrics.one("memctx_context_requested_bytes", kind="named",
                                context="[unnamed]"), 123, "the empty name")
        longest = max(len(value) for _, value in metrics.labels())
        check_equal(longest, 128, "length of the longest label")


@test
def the_format_is_the_one_that_is_accepted():
    wanted = [(None, PLAIN), ("*/*", PLAIN), ("text/plain", PLAIN),
              ("application/openmetrics-text", OPEN_METRICS),
              ("application/openmetrics-text;version=1.0.0,"
               "application/openmetrics-text;version=0.0.1;q=0.75,"
               "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPEN_METRICS),
              ("text/plain;q=0.9, application/openmetrics-text;q=0.1", PLAIN),
              ("application/openmetrics-text;q=0, text/plain", PLAIN),
              ("application/openmetrics-textual", PLAIN),
              (";;;,,q=,", PLAIN)]
    with served() as target, Server(target.runtime, target.pid) as server:
        for accept, kind in wanted:
            status, headers, body = server.ask("/metrics", **({"Accept": accept} if accept else {}))
            check_equal((status, headers["Content-Type"]), (200, kind), f"answer to {accept}")
            Metrics(body.decode(), open_metrics=kind == OPEN_METRICS)
        status, headers, body = server.ask("/metrics", method="HEAD")
        check_equal((status, body), (200, b""), "answer to HEAD")
        check(int(headers["Content-Length"]) > 1000, "HEAD has no length")


@test
def promtool_has_no_complaint():
    promtool = shutil.which("promtool")
    if not promtool:
        raise Skip("promtool is not installed")
    with served(MEMCTX_RULES="keep_rows=slab") as target, Server(target.runtime,
                                                                 target.pid) as server:
        done = subprocess.run([promtool, "check", "metrics"], input=server.get("/metrics"),
                              capture_output=True,
                              timeout=60, check=False)
        check_equal((done.returncode, done.stdout + done.stderr), (0, b""),
                    "promtool check metrics")


@test
def ten_thousand_contexts_take_milliseconds():
    program = build_program("tests/control/many_contexts.c")
    with runtime_dir() as runtime, Target([program, "1500"], runtime,
                                          MEMCTX_CONTROL="eager") as target:
        target.hear()
        target.wait_socket()
        with Server(runtime, target.pid) as server:
            connection, times, scrapes = server.connect(), [], []
            for _ in range(31):
                began = time.perf_counter()
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode()
                times.append(1000 * (time.perf_counter() - began))
                scrapes.append(Metrics(text).one("memctx_scrape_duration_seconds"))
            connection.close()
            contexts = target.dump()["contexts"]
            check(len(contexts) >= 10000, f"only {len(contexts)} contexts")
            # The smallest time counts, because other programs may disturb some scrapes.
            check(min(scrapes) < 2, "a scrape took too long")
            check(min(times) < 250, f"/metrics took {min(times):.1f} ms")
            middle = statistics.median(times)
            return (f"{len(contexts)} contexts: {min(times):.1f} to {max(times):.1f} ms, in the "
                    f"middle {middle:.1f}")
