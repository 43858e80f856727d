# SPDX-License-Identifier: MIT
"""Shared by all suites: building and running programs, targets, tests, the closing line.

A suite is a `run` script that registers functions with @test and ends in main(). Every process it
starts is bounded in time and is killed, by its own pid, when the test that started it is over.
"""
import atexit
import concurrent.futures
import contextlib
import functools
import gc
import glob
import json
import operator
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# TEST_LIB and TEST_CLI point the suites at another build (out/debug, out/asan ...).
LIB = os.path.abspath(os.environ.get("TEST_LIB", os.path.join(ROOT, "out/release/libmemctx.so")))
CLI = os.path.abspath(os.environ.get("TEST_CLI", os.path.join(ROOT, "out/release/memctx")))
CLANG = "clang" in os.environ.get("CC", "gcc")
BIN = os.path.join(ROOT, "out/test/bin-clang" if CLANG else "out/test/bin")
CFLAGS = ["-g", "-O1", "-Wall", "-Wextra", "-Wundef", "-Wshadow", "-Werror", "-pthread",
          "-D_GNU_SOURCE", "-I" + os.path.join(ROOT, "include"), "-fno-omit-frame-pointer",
          # Without -fno-builtin the compiler drops a malloc and free whose block is not used.
          "-fno-builtin",
          # Some tests use a block after a realloc of it that must fail.
          "-Wno-unknown-warning-option", "-Wno-use-after-free", "-Wno-alloc-size-larger-than",
          # Some tests ignore the chunks that they allocate, or use the names of memctx.h 0.1.0.
          "-Wno-unused-result", "-Wno-deprecated-declarations",
          # clang does not know the attributes noclone and noipa.
          "-Wno-unknown-attributes"]
# With these flags each call has a frame and a return address of its own. clang does not know
# -fno-ipa-icf.
OWN_FRAMES = ["-fno-optimize-sibling-calls", *([] if CLANG else ["-fno-ipa-icf"])]
NOBODY = 65534
TEST_LIMIT_S = int(os.environ.get("TEST_LIMIT_S", "400"))
# A dump of 50 000 contexts makes some 300 000 dictionaries and lists. Python's default, a
# collection of garbage after each 700 of them, doubles the time to read a dump and to sum it.
gc.set_threshold(200000)
# How long a test waits for a state that an idle machine reaches at once. The limit is long, because
# it only has to detect a program that hangs.
PATIENCE_S = 60


class Failure(AssertionError):
    """A test's expectation did not hold."""


class Skip(Exception):
    """The machine lacks what the test needs; the reason is printed."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def check_equal(got, want, what):
    if got != want:
        raise Failure(f"{what}: got {got!r}, want {want!r}")


# --- building -------------------------------------------------------------------------------


BUILDING = threading.Lock()


def build_program(source, name=None, flags=()):
    """Compiles one C or C++ file into out/test/bin, unless the program is newer than all its
    sources.

    `flags` may contain more source files.
    """
    with BUILDING:  # calls of `together` may need the same program
        return build_one(source, name, flags)


def build_one(source, name, flags):
    source = os.path.join(ROOT, source)
    name = name or os.path.splitext(os.path.basename(source))[0]
    os.makedirs(BIN, exist_ok=True)
    target = os.path.join(BIN, name)
    inputs = [source, *(flag for flag in flags if flag.endswith((".c", ".cc"))),
              *glob.glob(os.path.join(os.path.dirname(source), "*.h")),
              *glob.glob(os.path.join(ROOT, "tests/lib/*.h")),
              *glob.glob(os.path.join(ROOT, "include/memctx/*.h"))]
    inputs += glob.glob(os.path.join(ROOT, "include/memctx.h*"))
    if os.path.exists(target) and all(
            os.path.getmtime(path) < os.path.getmtime(target) for path in inputs):
        return target
    cxx = source.endswith(".cc")
    compiler = os.environ.get("CXX", "g++") if cxx else os.environ.get("CC", "gcc")
    made = f"{target}.{os.getpid()}.new"  # another suite may build the same program now
    # clang declares the operators delete with a size only with -fsized-deallocation.
    language = ["-std=gnu++17", "-fsized-deallocation"] if cxx else ["-std=gnu17"]
    command = [compiler, *language, *CFLAGS, *flags, source, "-o",
               made, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    os.rename(made, target)  # atomic: another suite may start the old program now
    return target


def build_planted():
    """The program planted of tests/diagnosis, whose cases several suites use."""
    return build_program("tests/diagnosis/planted.cc",
                         flags=[os.path.join(ROOT, "tests/diagnosis/planted_growth.cc")])


def build_fake_server(name=None):
    """The server of tests/cli that answers the command as a damaged or hostile process would."""
    return build_program("tests/cli/fake_server.c", name,
                         flags=[os.path.join(ROOT, "tests/cli/fake_dump.c")])


# --- running --------------------------------------------------------------------------------


def clean_env(**extra):
    """The caller's environment without memctx's settings, plus `extra`. None removes a variable."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("MEMCTX_") and key != "LD_PRELOAD"}
    env["LC_ALL"] = "C"
    for key, value in extra.items():
        if value is None:
            env.pop(key, None)
        else:
            env[key] = str(value)
    return env


SETTINGS = {}  # environment of all programs of a suite; a test's own settings override it


def preloaded_env(**extra):
    return clean_env(**{"LD_PRELOAD": LIB, **SETTINGS, **extra})


@functools.lru_cache(None)
def public_directory():
    path = tempfile.mkdtemp(prefix="mctx-public-", dir="/tmp")
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.lru_cache(None)
def public_copy(path):
    """A copy of a built file in /tmp, because other users may not be able to read the source
    tree."""
    copy = os.path.join(public_directory(), os.path.basename(path))
    shutil.copy(path, copy)
    os.chmod(copy, 0o755)
    return copy


class Finished:
    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


class Owner:
    """The end of a with-block kills self.process, if it runs, and takes the rest of its output."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def as_user(uid):
    """Arguments of Popen: the child becomes this user before it executes the program."""
    return {"user": uid, "group": uid, "extra_groups": []} if uid is not None else {}


def run_program(argv, env, timeout_s=60, stdin="", uid=None):
    """Runs a program to its end. After timeout_s it is killed, and the test fails."""
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace",
                          **as_user(uid)) as process:
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failure(f"{argv[0]}: still running after {timeout_s} s") from None
        # the test's time limit has expired; leaving `with` would wait for the program
        except BaseException:
            process.kill()
            raise
        return Finished(process.returncode, out, err)


def run_cli(*args, env=None, timeout_s=60, stdin=""):
    return run_program([CLI, *map(str, args)], env or clean_env(), timeout_s, stdin)


def dump_json(pid, *options, env=None, timeout_s=60):
    done = run_cli("dump", "--json", *options, pid, env=env, timeout_s=timeout_s)
    check(done.returncode == 0, f"memctx dump {pid}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def wait_until(condition, what, timeout_s=PATIENCE_S, step_s=0.02):
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not after {timeout_s} s")
        time.sleep(step_s)


def within_tries(function, tries=5):
    """Calls function() again while it fails; the last failure counts.

    For tests of times, such as the time until an answer comes. On a loaded machine such a test may
    fail once; broken code fails in every try.
    """
    for left in reversed(range(tries)):
        try:
            return function()
        except Skip:
            raise
        except Exception:
            if left == 0:
                raise


def in_tries(function):
    """Decorator: calls the test up to five times, until it passes (within_tries)."""
    @functools.wraps(function)
    def tried(*arguments):
        return within_tries(lambda: function(*arguments))
    return tried


def together(function, *lists):
    """Calls function(item, ...) for all items of the lists at once, as map does; for calls that
    mostly wait. Raises the first failure."""
    with concurrent.futures.ThreadPoolExecutor(max(map(len, lists))) as pool:
        return list(pool.map(function, *lists))


class Repeated:
    """Calls a function every `interval_s` seconds in a thread, until the end of a `with` block. An
    exception of the function ends the calls and is raised at the end of the block."""

    def __init__(self, function, interval_s):
        self.function, self.interval_s = function, interval_s
        self.calls, self.failure = 0, None
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.end.wait(self.interval_s):
                self.function()
                self.calls += 1
        except Exception as error:  # noqa: raised again in __exit__
            self.failure = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.end.set()
        self.thread.join()
        if self.failure and not kind:
            raise self.failure


@contextlib.contextmanager
def runtime_dir(owner=None):
    """A private XDG_RUNTIME_DIR. Its name is short: a socket's path has at most 107 bytes."""
    path = tempfile.mkdtemp(prefix="mctx-", dir="/tmp")
    if owner is not None:
        os.chown(path, owner, owner)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Target:
    """A running program with the library preloaded. The test talks to its stdin and stdout in
    lines."""

    def __init__(self, argv, runtime, uid=None, preload=True, stderr=subprocess.PIPE, **extra):
        make = preloaded_env if preload else clean_env
        self.runtime = runtime
        if uid is not None:
            argv = [public_copy(argv[0]), *argv[1:]]
            extra = {"LD_PRELOAD": public_copy(LIB), **extra}
        self.env = make(**{"XDG_RUNTIME_DIR": runtime, **extra})
        self.cli_env = clean_env(XDG_RUNTIME_DIR=runtime)
        self.process = subprocess.Popen(argv, env=self.env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=stderr, **as_user(uid))
        self.pid = self.process.pid
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream and not stream.closed:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        fd = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            check(left > 0, f"the target said nothing for {timeout_s} s")
            if select.select([fd], [], [], min(left, 1))[0]:
                data = os.read(fd, 65536)
                if not data:
                    raise Failure(f"the target has ended: {self.ending()}")
                self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def ask(self, line, timeout_s=60):
        self.say(line)
        return self.hear(timeout_s)

    def ending(self):
        try:
            code = self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return "stdout closed, still running"
        text = self.process.stderr.read().decode(errors="replace") if self.process.stderr else ""
        return f"exit {code}, stderr: {text.strip()[:500]}"

    def finish(self, timeout_s=60):
        """Closes the program's stdin and waits for its end; returns its exit status and stderr."""
        self.process.stdin.close()
        try:
            code = self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise Failure(f"the target did not end within {timeout_s} s") from None
        text = self.process.stderr.read().decode(errors="replace") if self.process.stderr else ""
        return code, text

    def socket_path(self, pid=None):
        return os.path.join(self.runtime, "memctx", f"{pid or self.pid}.sock")

    def wait_socket(self, pid=None):
        path = self.socket_path(pid)
        wait_until(lambda: os.path.exists(path), f"socket {path}")
        return path

    def dump(self, *options, pid=None, timeout_s=60):
        return dump_json(pid or self.pid, *options, env=self.cli_env, timeout_s=timeout_s)


def library_thread(pid):
    """The id of the library's own thread."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
            if file.read() == "memctx\n":
                return task
    raise Failure("the library has no thread")


def library_thread_ns(pid):
    """Processor time of the library's own thread, in ns."""
    with open(f"/proc/{pid}/task/{library_thread(pid)}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


# --- what a dump says -----------------------------------------------------------------------


def function_of(context):
    """The function of a context's own frame, or what the context is instead of a frame."""
    return (context["frame"] or {}).get("function") or context["kind"]


def context_names(dump):
    """For each context id its function names, innermost first. A dump has parents before
    children."""
    names = {}
    for context in dump["contexts"]:
        above = names[context["parent"]] if context["parent"] is not None else ()
        names[context["id"]] = (function_of(context),) + above
    return names


def check_sums(dump):
    """Checks that a dump's totals are the sum of its contexts, and each context's total that of its
    subtree."""
    fields = ["requested_bytes", "block_bytes", "live_chunks", "allocs", "frees",
              "requested_cum_bytes", "reserved_bytes", "pages"]
    # A dump may have 50 000 contexts, so one call takes all fields of a context.
    figures = operator.itemgetter(*fields)
    below = {}
    for context in dump["contexts"]:
        below.setdefault(context["parent"], []).append(figures(context["total"]))
    check_equal(len(below.get(None, [])), 1, "contexts without a parent")
    own = [figures(context["self"]) for context in dump["contexts"]]

    def compare(got, want, what):
        for field, figure, wanted in zip(fields, got, want):
            check_equal(figure, wanted, f"{field} of {what}")

    compare(map(sum, zip(*own)), figures(dump["totals"]), "all contexts")
    for context, of_self in zip(dump["contexts"], own):
        children = below.get(context["id"])
        got, want = (tuple(map(sum, zip(of_self, *children))) if children else of_self,
                     figures(context["total"]))
        if got != want:
            compare(got, want, f"context {context['id']} with those below it")


def read_status(pid, field, tid=None):
    path = f"/proc/{pid}/task/{tid}/status" if tid else f"/proc/{pid}/status"
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(field + ":"):
                return line.split(":", 1)[1].strip()
    raise Failure(f"{path} has no {field}")


def rss_kib(pid):
    return int(read_status(pid, "VmRSS").split()[0])


# --- the suite ------------------------------------------------------------------------------

TESTS = {}


def test(function):
    """Decorator: registers a test. Its name is the function's, with dashes for underscores."""
    return test_named(function.__name__.replace("_", "-"))(function)


def test_named(name):
    def register(function):
        if name in TESTS:
            raise SystemExit(f"two tests are named {name}")
        TESTS[name] = function
        return function
    return register


class TooLate(BaseException):
    """The test's time limit has expired. No Exception, so that no handler in a test catches it."""

    limit_s = TEST_LIMIT_S


def on_alarm(_signal, _frame):
    raise TooLate()


def limit_test(seconds):
    """Lets the test that runs now go on for so many seconds."""
    TooLate.limit_s = seconds
    signal.alarm(seconds)


def allow_more_time(times):
    """The test that calls this may run `times` as long as other tests, from now on."""
    limit_test(TEST_LIMIT_S * times)


def processor_s():
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def run_one(name):
    """Runs one test; returns its verdict: ok, not ok or skip."""
    limit_test(TEST_LIMIT_S)
    started, worked = time.monotonic(), processor_s()
    try:
        note = TESTS[name]()
        signal.alarm(0)
        detail = f" # {note}" if note else ""
        print(f"ok {name}{detail}", flush=True)
        return "ok"
    except Skip as reason:
        print(f"skip {name} {reason}", flush=True)
        return "skip"
    except TooLate:
        print(f"not ok {name}\n    still running after {TooLate.limit_s} s", flush=True)
        return "not ok"
    except Exception as error:  # noqa: any error in a test fails that test only
        signal.alarm(0)
        text = str(error) if isinstance(error, Failure) else traceback.format_exc()
        print(f"not ok {name}", flush=True)
        for line in (text or repr(error)).strip().splitlines():
            print(f"    {line}", flush=True)
        return "not ok"
    finally:
        signal.alarm(0)
        if os.environ.get("TEST_TIMES"):
            print(f"    took {time.monotonic() - started:.2f} s, "
                  f"{processor_s() - worked:.2f} s of processor time", flush=True)


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--list"]:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # --list | head
        print("\n".join(TESTS))
        return 0
    unknown = [name for name in arguments if name not in TESTS]
    if unknown:
        print(f"no test is named {', '.join(unknown)}; --list prints them all", file=sys.stderr)
        return 2
    for path in (LIB, CLI):
        if not os.path.exists(path):
            print(f"{path} is missing; run make first", file=sys.stderr)
            return 1
    signal.signal(signal.SIGALRM, on_alarm)
    # A shell starts background jobs with SIGINT ignored, and programs under test would inherit
    # that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # exit normally: kills the programs, removes temporary files
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    verdicts = [run_one(name) for name in (arguments or TESTS)]
    counts = {kind: verdicts.count(kind) for kind in ("ok", "not ok", "skip")}
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    print(f"{counts['ok']} passed, {counts['not ok']} failed{skipped}")
    return 1 if counts["not ok"] else 0
