# SPDX-License-Identifier: MIT
"""Reads a process or a core file from outside, and compares the result with the answers of the
socket."""
import json
import os
import re

import harness
from harness import check, check_equal

# Figures that only the process itself knows, or that change during the test.
INSIDE_ONLY = {"uptime_s", "exact", "how", "build_ns", "rss_bytes", "start_ticks"}
MAGIC = b"memctx: read from outside here."
# offset in struct outside_root, behind the magic, two numbers and the version
ADDRESSES_AT = 32 + 8 + 32


def read(target, *options, code=0):
    """Runs `memctx dump --json --threads` of a pid or a core file. Returns the dump, or stderr if
    code is not 0."""
    done = harness.run_cli("dump", "--json", "--threads", "--no-symbols", *options, str(target))
    check_equal(done.returncode, code, f"exit status of dump {target}; stderr: {done.stderr}")
    return json.loads(done.stdout) if code == 0 else done.stderr


def contexts_of(dump):
    """{id: context} without resident bytes, which may change in an idle process as memory goes
    back."""
    contexts = {}
    for context in dump["contexts"]:
        for part in (context["self"], context["total"]):
            part.pop("resident_bytes", None)
        contexts[context["id"]] = context
    return contexts


def compare(inside, outside, core=False):
    """Checks that contexts, figures of pages, modules and threads of two dumps are equal."""
    resident = [dump["totals"]["resident_bytes"] for dump in (inside, outside)]
    check(abs(resident[0] - resident[1]) < 2 << 20, f"resident bytes: {resident}")
    one, other = contexts_of(inside), contexts_of(outside)
    check_equal(set(other), set(one), "ids of contexts")
    for number, context in one.items():
        check_equal(other[number], context, f"context {number}")
    for key in set(inside) - INSIDE_ONLY - {"contexts", "ledger", "totals", "threads"}:
        check_equal(outside[key], inside[key], key)
    for key in ("segments_mapped", "pages_reserved", "mixed_reserved", "mixed_block_bytes",
                "segment_headers", "metadata_used", "untouched_bytes"):
        check_equal(outside["ledger"][key], inside["ledger"][key], f"ledger: {key}")
    # The answer over the socket touches up to 64 KiB more, and the library may give some OS pages
    # back before the second look. In a core file without holes, OS pages of zeros count as not
    # resident.
    tables = [dump["ledger"]["metadata_resident"] for dump in (inside, outside)]
    least, most = (tables[0] // 2 if core else tables[0] - (64 << 10),
                   inside["ledger"]["metadata_mapped"] if core else tables[0] + (64 << 10))
    check(tables[1] is not None and least <= tables[1] <= most,
          f"resident bytes of the library's tables: {tables}")
    stacks = [dump["ledger"]["control_bytes"] for dump in (inside, outside)]
    check(0 < stacks[1] <= stacks[0], f"control thread, with its answer and without: {stacks}")
    check_equal([thread["tid"] for thread in outside["threads"]],
                [thread["tid"] for thread in inside["threads"]], "threads")


# Allocates and frees chunks of many sizes, some in a second thread. For each line it allocates
# more. It also maps the library's file as data, as programs that read symbols do.
PYTHON = """
import mmap, os, sys, threading
copy = mmap.mmap(os.open(os.environ['LD_PRELOAD'], 0), 0, prot=mmap.PROT_READ)
kept = [bytes(i % 3000) for i in range(20000)] + [bytearray(3 << 20), bytearray(700000)]
del kept[5:15000:2]
def work():
    kept.extend([i] for i in range(5000))
thread = threading.Thread(target=work)
thread.start()
thread.join()
print('ready', flush=True)
for line in sys.stdin:
    kept.append(bytearray(50000))
    for i in range(100000):
        kept[-1].append(1)
    print('more', flush=True)
"""


def start_python(directory, late=False, **env):
    """late: the process is a third of a second older than its program."""
    argv = ["/usr/bin/python3", "-c", PYTHON]
    if late:
        argv = ["/bin/sh", "-c", f'sleep 0.3; LD_PRELOAD={harness.LIB} exec "$@"', "sh", *argv]
    target = harness.Target(argv, directory, preload=not late, **{**harness.SETTINGS, **env})
    try:
        check_equal(target.hear(60), "ready", "what the program said")
    except BaseException:
        target.kill()
        raise
    return target


def root_lists():
    """The lists of names in include/memctx/outside.h."""
    with open(os.path.join(harness.ROOT, "include/memctx/outside.h"), encoding="ascii") as file:
        text = file.read()
    lists = dict(re.findall(r"#define OUTSIDE_(\w+)\(X\)((?:.*\\\n)*.*)", text))
    return {key: re.findall(r"X\(([\w, ]+)\)", lists[key])
            for key in ("ADDRESSES", "CONSTANTS", "FIELDS", "STRUCTS")}


def address_number(name):
    return root_lists()["ADDRESSES"].index(name)


def maps_of(pid):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def sleeps(pid, *calls):
    """True if the program waits in nanosleep, or in one of the system calls, so its start is
    over."""
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            sleeping = file.read().split()[0] in (calls or ("35", "230"))
    except OSError:  # /proc/PID/syscall cannot be read
        sleeping = harness.read_status(pid, "State").startswith("S")
    return sleeping and "libmemctx" in maps_of(pid)
