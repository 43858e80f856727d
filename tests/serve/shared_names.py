# SPDX-License-Identifier: MIT
"""When processes run the same program file, memctx serve looks up the names of their call paths
only once."""
import contextlib
import ctypes
import os
import shutil

from clients import scratch
from harness import Target, build_program, check, check_equal, runtime_dir, test, wait_until
from serving import Server

LIBC = ctypes.CDLL(None, use_errno=True)
IN_OPEN, IN_NONBLOCK = 0x20, 0o4000
EVENT_BYTES = 16  # an event about the watched file itself has no name


class Opens:
    """Counts how often a file is opened."""

    def __init__(self, path):
        self.fd = LIBC.inotify_init1(IN_NONBLOCK)
        check(self.fd >= 0 and LIBC.inotify_add_watch(self.fd, path.encode(), IN_OPEN) >= 0,
              os.strerror(ctypes.get_errno()))

    def count(self):
        """The opens since the last call. inotify merges equal events that nobody has read."""
        with contextlib.suppress(BlockingIOError):
            return len(os.read(self.fd, 1 << 16)) // EVENT_BYTES
        return 0

    def close(self):
        os.close(self.fd)


@contextlib.contextmanager
def started(program, runtime):
    with Target([program], runtime, MEMCTX_CONTROL="eager") as live:
        check_equal(live.hear(), "ready", "first line of the target")
        live.wait_socket()
        yield live


def wait_named(server, count):
    """Waits until the path of keep_rows() has its name in `count` processes. Each process has two
    metrics with that label: bytes and chunks."""
    wait_until(lambda: server.metrics().text.count('context="keep_rows < main"') ==
               2 * count, f"names of {count} processes", step_s=0.1)


@test
def a_program_is_looked_up_once():
    """When the paths of one process have names, no other process of the same program is looked up.
    A process of another file is, although path, build id and addresses are the same."""
    built = build_program("tests/serve/served.c", flags=["-O0"])
    with scratch() as where, runtime_dir() as runtime:
        program = f"{where}/once-{os.getpid()}"
        shutil.copy(built, program)
        with Server(runtime, "--match", os.path.basename(program)) as server, \
             started(program, runtime) as first, contextlib.closing(Opens(program)) as opens:
            wait_named(server, 1)
            check(opens.count() > 0, "the first process was not looked up")
            with started(program, runtime):
                opens.count()  # the start of the process
                wait_named(server, 2)
                check_equal(opens.count(), 0, "opens for the second process")
            shutil.copy(built, program + ".new")
            os.rename(program + ".new", program)
            with contextlib.closing(Opens(program)) as others, started(program, runtime):
                others.count()
                wait_named(server, 2)
                check(others.count() > 0, "a process of another file has the names of the first")
            check(first.process.poll() is None, "the first process has ended")
