# SPDX-License-Identifier: MIT
"""Shared by the files of the diagnosis suite: the planted cases, runs of doctor and other
commands."""
import json
import re
import shutil

import harness
from harness import Skip, Target, check, check_equal, run_cli

PLANTED = {  # case -> (id of the finding, function to blame)
    "survivors": ("nearly-empty-pages", "session_open"),
    "columns": ("past-peak", "column_load"),
    "phases": ("nearly-empty-pages", "index_build"),
    "behind": ("growth", "job_submit"),
    "slow-leak": ("growth", "header_intern"),
    "leak": ("growth", "listener_add"),
    "doubling": ("copies", "samples_push"),
    "pool": ("nearly-empty-pages", "task_alloc"),
    "above": ("rounding", "row_new"),
    "temporary": ("temporary", "format_key"),
    "plugins": ("nearly-empty-pages", "plugin_state"),
    "mapped": ("not-malloc", None),
    "thrashing": ("thrashing", None),
    "recursion": ("nearly-empty-pages", "node_label"),
    "leaky-recursion": ("growth", "node_label"),
    "one-buffer": ("growth", "log_append"),
    "few-large": ("growth", "picture_keep"),
    "wider": ("growth", "record_widen"),
    "waves": ("growth", "order_open"),
    "one-dip": ("growth", "order_open"),
}
# Cases without the variants: they allocate by realloc, or run only with malloc.
PLAIN = ("one-buffer", "few-large", "wider", "waves", "one-dip")
SEVERE = ("survivors", "plugins", "recursion", "one-buffer", "few-large", "wider", "waves",
          "one-dip")
ALARMING = ("warning", "critical")
# case -> chunks that the first finding must join. From the first look to the last, the recursion
# leaks 11 700 chunks, at all depths together.
CHUNKS_TOGETHER = {"leaky-recursion": 11000}
# Cases that need a setting. With a freelist, memory that is allocated and freed in turns is kept.
SETTINGS = {"thrashing": {"MEMCTX_FREELIST_KIB": "0"}}


def doctor(target, *options, pid=None, status=0):
    if not isinstance(pid, str):  # a snapshot file needs no socket
        target.wait_socket(pid)
    done = run_cli("doctor", "--json", *options, pid or target.pid, env=target.cli_env)
    check_equal((done.returncode, done.stderr), (status, ""), "memctx doctor")
    return json.loads(done.stdout)


def looks(target):
    """Yields the findings of doctor each time the program prints "look", and sets a mark after
    each."""
    count = 0
    while True:
        try:
            line = target.hear(120)
        except harness.Failure:
            check_equal(target.process.wait(timeout=harness.PATIENCE_S), 0, "exit status")
            return
        if line != "look":
            continue
        found = doctor(target)
        yield found
        count += 1
        done = run_cli("mark", target.pid, f"look-{count}", env=target.cli_env)
        check_equal(done.returncode, 0, f"memctx mark: {done.stderr}")
        target.say("")


def found_at(target, count, ask=doctor):
    """Lets the program go on to its look number `count`, with a mark at each look before; returns
    doctor's findings there. The program still waits."""
    for number in range(1, count + 1):
        check_equal(target.hear(120), "look", "what the program says")
        if number == 1:
            target.wait_socket()  # the control thread may start after the first look
        if number < count:
            done = run_cli("mark", target.pid, f"look-{number}", env=target.cli_env)
            check_equal(done.returncode, 0, f"memctx mark: {done.stderr}")
            target.say("")
    return ask(target)


def planted(directory, *arguments, **extra):
    program = harness.build_planted()
    return Target([program, *arguments], directory, MEMCTX_CONTROL="eager", **extra)


def names(finding, function):
    return any(re.search(rf"\b{function}\b", name) for name in finding["path"])


def check_first(found, ident, function):
    listed = [(finding["id"], finding["path"][:4]) for finding in found["findings"]]
    check(listed, "nothing was found")
    first = found["findings"][0]
    check_equal(first["id"], ident, f"the first of {listed}")
    check(function is None or names(first, function),
          f"{function} is not in the path of the first of {listed}")


def installed(name):
    program = shutil.which(name)
    if not program:
        raise Skip(f"{name} is not installed")
    return program


def command(target, *words):
    done = run_cli(*words, "--json", env=target.cli_env)
    check_equal((done.returncode, done.stderr), (0, ""), f"memctx {words}")
    return json.loads(done.stdout)


def pinner(target, function):
    found = command(target, "frag", target.pid)
    return next(one for one in found["pinners"] if any(function in name for name in one["path"]))


def check_near(what, predicted, real):
    check(predicted > 0 and abs(real - predicted) <= predicted / 5,
          f"{what}: predicted {predicted}, but it was {real}")
