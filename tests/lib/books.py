# SPDX-License-Identifier: MIT
"""Runs the stress program (books.c), which counts its own allocations, and compares its counts
("books") with the library's dump."""
import operator
import os
import time

import harness
from harness import Failure, Target, check, check_equal, check_sums
from wire import Wire

OPS = int(os.environ.get("MEMCTX_STRESS_OPS", "500000"))
SEED = int(os.environ.get("MEMCTX_STRESS_SEED", "0")) or time.time_ns() // 1000 % 1000000 + 1
LIVE = ("requested_bytes", "live_chunks")
ALL = ("requested_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes")
pick_all = operator.itemgetter(*ALL)
# How long to wait for a checkpoint: 60 s, and 1 s more for each 5000 operations.
ROUND_LIMIT_S = 60 + OPS // 5000


def read_books(path):
    """Reads the program's books: a dictionary from (leaf, mid, top) to the five figures of ALL."""
    entries = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            leaf, mid, top, *figures = line.split()
            entries[leaf, mid, top] = tuple(map(int, figures))
    return entries


def sum_dump(dump):
    """Makes a dictionary like that of read_books from a dump: (leaf, mid, top) -> figures of
    ALL."""
    functions = {context["id"]: harness.function_of(context) for context in dump["contexts"]}
    parents = {context["id"]: context["parent"] for context in dump["contexts"]}
    entries = {}
    for context in dump["contexts"]:
        leaf, figures = functions[context["id"]], pick_all(context["self"])
        if not any(figures) or not leaf.startswith(("leaf_", "sig_leaf_")):
            continue
        mid = context["parent"]
        path = leaf, functions.get(mid, ""), functions.get(parents.get(mid), "")
        entries[path] = tuple(map(operator.add, entries[path],
                                  figures)) if path in entries else figures
    return entries


def merge_handlers(entries, extra=(0,) * len(ALL)):
    """Returns the books with all paths of signal handlers summed into one entry."""
    merged = {path: figures for path, figures in entries.items() if path[1] != "sig_mid"}
    handlers = [figures for path, figures in entries.items() if path[1] == "sig_mid"]
    merged["handlers", "sig_mid", "sig_top"] = tuple(map(sum, zip(extra, *handlers)))
    return merged


def unwinding_figures(dump):
    """Figures of [unwinding], which pays for allocations of signal handlers that interrupted the
    allocator."""
    for context in dump["contexts"]:
        if (context["frame"] or {}).get("function") == "[unwinding]" or \
                context.get("label") == "[unwinding]":
            return tuple(context["self"][field] for field in ALL)
    return (0,) * len(ALL)


def differences(books, found, fields):
    """Returns one line for each figure in which books and dump differ."""
    lines = []
    for path in sorted(books.keys() | found.keys()):
        want = books.get(path, (0,) * len(ALL))
        got = found.get(path, (0,) * len(ALL))
        for field, wanted, figure in zip(ALL, want, got):
            if field in fields and wanted != figure:
                lines.append(f"{' < '.join(path)}: {field}: the books say {wanted}, "
                             f"the dump {figure}")
    return lines


def dump_without_pause(target, pid):
    """A dump. On a busy machine, a command may pause for WIRE_DUMP_QUIET_MS between two requests,
    and then calls its dump inexact. Dumps again if the library itself has lost nothing."""
    for _ in range(5):
        dump = target.dump(pid=pid, timeout_s=120)
        if dump["exact"]:
            break
        with Wire(target.socket_path(pid)) as wire:
            if wire.statistics()["lost"]:
                break
    return dump


def compare(target, pid, books_path, fields=ALL):
    dump = dump_without_pause(target, pid)
    books, found = read_books(books_path), sum_dump(dump)
    check(len(books) > 100, f"only {len(books)} paths in the books: too little was run")
    check_sums(dump)
    with_handlers = any(path[1] == "sig_mid" for path in books)
    if with_handlers:
        # Allocations of a handler that interrupts the allocator are charged to [unwinding].
        books, found = merge_handlers(books), merge_handlers(found, unwinding_figures(dump))
    lines = differences(books, found, fields)
    if lines and with_handlers:
        lines = losses_counted(target, pid, books, found) or []
    elif not lines:
        check(dump["exact"] is True or with_handlers, "the dump is not exact")
    if lines:
        extra = "" if len(lines) <= 8 else f"\n... {len(lines)} differences in all"
        labels = [(context["frame"] or {}).get("function") for context in dump["contexts"]
                  if context["kind"] == "unknown" and context["self"]["allocs"]]
        raise Failure("\n".join(lines[:8]) + extra + f"\nlabelled nodes in use: {labels}")
    return dump


def losses_counted(target, pid, books, found):
    """A handler's allocation while its thread holds a lock of the allocator is charged to no
    context, only counted as lost. Returns None if exactly the lost ones are missing, else the
    differences."""
    with Wire(target.socket_path(pid)) as wire:
        lost = wire.statistics()["lost"]
    none = (0,) * len(ALL)
    missing = [tuple(want - got for want, got in zip(books.get(path, none), found.get(path, none)))
               for path in books.keys() | found.keys()]
    total = sum(figures[ALL.index("allocs")] for figures in missing)
    if total == lost and all(figure >= 0 for figures in missing for figure in figures):
        return None
    return [f"{total} allocations are on no books, {lost} are counted as lost",
            *differences(books, found, ALL)]


class Stress:
    """One run of the stress program."""

    def __init__(self, *options, rounds=3, ops=OPS, **env):
        self.options = ["--rounds", str(rounds), "--seed", str(SEED), "--ops", str(ops), *options]
        # Tables large enough for all paths, so that no path is charged to [other callers].
        self.env = {"MEMCTX_CONTROL": "eager", "MEMCTX_TABLES": "1G", **env}
        self.signals = 0

    @staticmethod
    def build():
        chunks = os.path.join(harness.ROOT, "tests/stress/chunks.c")
        return harness.build_program("tests/stress/books.c",
                                     flags=[*harness.OWN_FRAMES, chunks])

    def __enter__(self):
        program = self.build()
        self.runtime = harness.runtime_dir()
        directory = self.runtime.__enter__()
        self.books = os.path.join(directory, "books")
        self.target = Target([program, *self.options, self.books], directory, **self.env)
        return self

    def __exit__(self, *error):
        self.target.kill()
        self.runtime.__exit__(None, None, None)

    def next_checkpoint(self):
        """Waits until a process of the program pauses for a comparison; returns its pid."""
        word, pid, signals = self.target.hear(ROUND_LIMIT_S).split()
        check_equal(word, "CHECKPOINT", "the program's line")
        self.signals = int(signals)
        self.target.wait_socket(int(pid))
        return int(pid)

    def compare(self, pid, fields=ALL):
        return compare(self.target, pid, self.books, fields)

    def finish(self):
        code, text = self.target.finish(ROUND_LIMIT_S)
        check_equal((code, text), (0, ""), "exit status and stderr of the program")

    def run_all(self, fields=ALL, rounds=3, at_checkpoint=lambda pid: None):
        """Compares the books at each checkpoint. The program stays paused at the last until
        finish()."""
        for i in range(rounds):
            if i:
                self.target.say("go")
            pid = self.next_checkpoint()
            dump = self.compare(pid, fields)
            at_checkpoint(pid)
        return dump
