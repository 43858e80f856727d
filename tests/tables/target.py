# SPDX-License-Identifier: MIT
"""Runs a program with very many call paths, samples the size of the library's tables, and compares
the program's own counts ("books") with dumps.

The limit of the tables is computed here from the live bytes, not taken from the library.
"""
import collections
import operator
import os
import threading
import time

import harness
from harness import Failure, Target, check, check_equal, check_sums, function_of
from wire import Wire

# Factor for the size of each test; 1 in `make test`.
SCALE = float(os.environ.get("MEMCTX_TABLES_SCALE", "1"))
SEED = int(os.environ.get("MEMCTX_TABLES_SEED", "0")) or time.time_ns() // 1000 % 1000000 + 1
LIMIT_S = 90 + 30 * SCALE
FIGURES = ("requested_bytes", "live_chunks", "allocs", "frees")
LIVE = FIGURES[:2]
ALLOCS = FIGURES.index("allocs")
LEAST_BYTES, THREAD_BYTES = 4 << 20, 32 << 10
# Resident bytes beyond the counted ones: partly used OS pages at the end of tables, free blocks
# between them, and tables that every process has.
RESIDENT_SLACK_BYTES = 1 << 20
SETTLE_S = harness.PATIENCE_S
OTHERS = "[other callers]"

harness.TEST_LIMIT_S = max(harness.TEST_LIMIT_S, int(LIMIT_S * 3))

Sample = collections.namedtuple("Sample", "figures rss_kib threads")


def scaled(count, most):
    """count times MEMCTX_TABLES_SCALE, but at most `most`."""
    return min(int(count * SCALE), most)


def build(name):
    return harness.build_program(f"tests/tables/{name}.c", name=f"tables-{name}",
                                 flags=harness.OWN_FRAMES)


def kib(pid, field):
    return int(harness.read_status(pid, field).split()[0])


class Program:
    """Runs a program that uses books.h. Without `preload` it runs on glibc's malloc."""

    def __init__(self, name, *options, preload=True, program=None, **env):
        self.argv = [program or build(name), *map(str, options)]
        self.preload = preload
        self.env = {"MEMCTX_CONTROL": "eager", **env} if preload else env
        self.books = {}
        self.words = {}

    def __enter__(self):
        self.runtime = harness.runtime_dir()
        directory = self.runtime.__enter__()
        self.target = Target(self.argv, directory, preload=self.preload, **self.env)
        self.pid = self.target.pid
        try:
            self.hear()
            if self.preload:
                self.target.wait_socket()
                # A dump of the start, to subtract: what libc and dumps themselves allocated.
                self.start = self.dump()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.target.kill()
        self.runtime.__exit__(None, None, None)

    def hear(self):
        """Waits until a process of the program pauses, reads its books, returns its pid."""
        self.books = {}
        while True:
            words = self.target.hear(LIMIT_S).split()
            if words[0] == "STAND":
                return int(words[1])
            if words[0] == "BOOK":
                self.books[words[1], words[2]] = tuple(map(int, words[3:]))
            else:
                self.words[words[0]] = int(words[1])

    def go(self, word="go"):
        self.target.say(word)
        return self.hear()

    def finish(self):
        code, text = self.target.finish(LIMIT_S)
        check_equal((code, text), (0, ""), "exit status and stderr of the program")

    def dump(self, pid=None):
        return self.target.dump(pid=pid, timeout_s=LIMIT_S)

    def figures(self, pid=None):
        with Wire(self.target.wait_socket(pid)) as wire:
            return wire.statistics()

    def settle(self):
        """Waits until the tables are below a limit that has fallen, which takes the control thread
        some sweeps, one a second. If they stay above, the caller's checks fail."""
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end:
            figures = self.figures()
            if figures["tables_bytes"] <= figures["tables_limit_bytes"]:
                return
            time.sleep(0.1)

    def rss_kib(self):
        return kib(self.pid, "VmRSS")

    def peak_kib(self):
        return kib(self.pid, "VmHWM")

    def sum_books(self, phase=None, site=None):
        picked = [figures for (of_phase, of_site), figures in self.books.items()
                  if phase in (None, of_phase) and site in (None, of_site)]
        return tuple(map(sum, zip(*picked))) if picked else (0, 0, 0, 0)

    def sites(self):
        return sorted({site for _, site in self.books})


class Watch:
    """Samples the figures of the tables in a thread while the program runs."""

    def __init__(self, program, interval_s=0.02, pid=None):
        self.program, self.interval_s = program, interval_s
        self.pid = pid or program.pid
        self.samples, self.failure = [], None
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def take(self, wire):
        threads = int(harness.read_status(self.pid, "Threads"))
        figures = wire.statistics()
        # Take the larger number of threads before and after the reading.
        threads = max(threads, int(harness.read_status(self.pid, "Threads")))
        self.samples.append(Sample(figures, kib(self.pid, "VmRSS"), threads))

    def run(self):
        try:
            with Wire(self.program.target.wait_socket(self.pid), timeout_s=LIMIT_S) as wire:
                while not self.end.wait(self.interval_s):
                    self.take(wire)
                self.take(wire)
        except Exception as error:  # noqa: said by the thread that waits
            self.failure = error

    def wait_for(self, count):
        """Waits until `count` more samples were taken."""
        wanted = len(self.samples) + count
        harness.wait_until(lambda: len(self.samples) >= wanted or self.failure, f"{count} samples")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()

    def check(self, least_samples, **limits):
        """Checks the limit at each sample; returns the text that the test prints."""
        if self.failure:
            raise self.failure
        check(len(self.samples) >= least_samples, f"only {len(self.samples)} samples")
        worst = {}
        for sample in self.samples:
            for over, kind, text in beyond(sample, **limits):
                count, most = worst.get(kind, (0, (0, "")))
                worst[kind] = (count + 1, max(most, (over, text)))
        if worst:
            raise Failure("\n".join(
                f"{kind} in {count} of {len(self.samples)} samples, the worst: {text}"
                for kind, (count, (_, text)) in worst.items()))
        return self.tell()

    def tell(self):
        most = max(self.samples, key=lambda sample: sample.figures["tables_bytes"]).figures
        resident = max(sample.figures["metadata_resident_bytes"] for sample in self.samples)
        return (f"tables {most['tables_bytes'] >> 10} of {most['tables_limit_bytes'] >> 10} KiB, "
                f"resident {resident >> 10} KiB, {len(self.samples)} samples")


def beyond(sample, part=0.05, fixed=None, threads=None, resident_counts=True):
    """Yields (excess bytes, rule, text) for each rule of the limit that a sample breaks. `part` and
    `fixed`: MEMCTX_TABLES as a share of the live bytes or in bytes. `threads`: the most threads at
    a time, if threads end during the samples. The limit told falls with each of them, and the
    tables only shrink after that, so they are compared with the promise alone. `resident_counts`
    False: do not check resident bytes."""
    figures = sample.figures
    used, told = figures["tables_bytes"], figures["tables_limit_bytes"]
    resident = figures["metadata_resident_bytes"]
    promised = fixed or max(LEAST_BYTES, int(figures["live_bytes"] * part))
    threads_end = threads is not None
    # The number of threads includes the control thread.
    threads = threads or sample.threads
    promised += THREAD_BYTES * threads
    moment = (f"the promise with {figures['live_bytes']} bytes alive and {threads} threads is "
              f"{promised}, "
              f"tables_limit_bytes {told}, tables_bytes {used}, metadata_resident_bytes {resident}")
    for over, kind in ((0 if threads_end else used - told, "used is above the limit told"),
                       (used - promised, "used is above the promise"),
                       (told - promised, "the limit told is above the promise"),
                       (resident - promised - RESIDENT_SLACK_BYTES,
                        "resident is above the promise")):
        if over > 0 and (resident_counts or not kind.startswith("resident")):
            yield over, kind, moment


# --- comparison of books and dump -------------------------------------------------------------


pick_figures = operator.itemgetter(*FIGURES)


def figures_of(context, part="self"):
    return pick_figures(context[part])


def sum_figures(contexts):
    return tuple(map(sum, zip(*map(figures_of, contexts)))) or (0, 0, 0, 0)


def paths_of(dump):
    """{context id: functions, innermost first, also those outside main}."""
    return harness.context_names(dump)


def inside_main(path):
    """The functions of a path up to main, innermost first."""
    return path[:path.index("main") + 1] if "main" in path else path


def sums_by_function(dump):
    """The sum of the figures of all contexts with the same innermost function: {function: figures}.
    A dump may have 50 000 contexts and a program 50 sites, so one pass makes all sums."""
    sums = {}
    for context in dump["contexts"]:
        figures = pick_figures(context["self"])
        if any(figures):
            function = function_of(context)
            sums[function] = tuple(map(operator.add, sums[function],
                                       figures)) if function in sums else figures
    return sums


def site_figures(dump, functions):
    """The sum of the figures of all contexts whose innermost function is in `functions`."""
    sums = sums_by_function(dump)
    return tuple(map(sum, zip(*(sums[function]
                                for function in functions if function in sums)))) or (0, 0, 0, 0)


def check_unknown(sums):
    check_equal(sums.get("[unknown]", (0, 0, 0, 0)), (0, 0, 0, 0), f"{FIGURES} of [unknown]")


def check_site(sums, site, want, fields):
    for field, got, wanted in zip(FIGURES, sums.get(site, (0, 0, 0, 0)), want):
        check(field not in fields or got == wanted,
              f"{field} of all contexts of {site}: the books say {wanted}, the dump {got}")


def check_books(program, dump, totals=True, fields=FIGURES):
    """Checks that the figures of each site, and the totals, equal the books exactly."""
    check_sums(dump)
    sums = sums_by_function(dump)
    check_unknown(sums)
    check(dump["exact"] is True, "the dump is not exact")
    for site in program.sites():
        check_site(sums, site, program.sum_books(site=site), fields)
    if totals:
        for field, want in zip(FIGURES, program.sum_books()):
            got = dump["totals"][field] - program.start["totals"][field]
            check(field not in fields or got == want,
                  f"total {field} since the start: the books say {want}, the dump {got}")


def check_books_or_merged(program, dump, least=0):
    """Like check_books, but for full tables, where [other callers] may have a part of a site's
    figures. All sites and [other callers] have the sum, no site has more than its books, and each
    site has at least the share `least` of its books."""
    check_sums(dump)
    sites, sums = program.sites(), sums_by_function(dump)
    check_unknown(sums)
    check(dump["exact"] is True, "the dump is not exact")
    found = site_figures(dump, {OTHERS, *sites})
    others = f"; {OTHERS} has {dict(zip(FIGURES, sums.get(OTHERS, (0, 0, 0, 0))))}"
    for field, got, want in zip(FIGURES, found, program.sum_books()):
        check(got >= want,
              f"{field} of all sites and of {OTHERS}: the books say {want}, the dump {got}{others}")
    for site in sites:
        for field, got, want in zip(FIGURES, sums.get(site, (0, 0, 0, 0)),
                                    program.sum_books(site=site)):
            check(least * want <= got <= want,
                  f"{field} of {site}: the books say {want}, the dump {got}{others}")


def check_lost(program, pid=None):
    check_equal(program.figures(pid)["lost"], 0, "operations lost")


def outermost(dump, phase):
    """The contexts of function `phase` that have no context of that function above them."""
    by_id = {context["id"]: context for context in dump["contexts"]}

    def is_below(context):
        while context["parent"] is not None:
            context = by_id[context["parent"]]
            if function_of(context) == phase:  # [other callers] may stand between the two
                return True
        return False

    return [context for context in dump["contexts"]
            if function_of(context) == phase and not is_below(context)]


def check_subtotals(program, dump, phases, whole="main"):
    """Checks that the total below each phase, and below the function `whole` that calls them,
    equals the books, although paths were merged."""
    wanted = {phase: program.sum_books(phase=phase) for phase in phases}
    wanted[whole] = program.sum_books()
    wrong = []
    for function, want in wanted.items():
        nodes = [figures_of(node, "total") for node in outermost(dump, function)]
        found = tuple(map(sum, zip(*nodes)))
        if found != want:
            wrong.append(f"{function}: {FIGURES} with all below it: the books say {want}, "
                         f"the dump {found}")
    if wrong:
        top = [f"{sum_figures(below(dump, context))} below {function_of(context)}"
               for context in dump["contexts"]
               if context["parent"] == 0 and any(figures_of(context, "total"))]
        raise Failure("\n".join(wrong + top))


def below(dump, top):
    """A context and its descendants."""
    ids = {top["id"]}
    by_id = {context["id"]: context for context in dump["contexts"]}
    for context in dump["contexts"]:
        chain = []
        while context["id"] not in ids and context["parent"] is not None:
            chain.append(context["id"])
            context = by_id[context["parent"]]
        if context["id"] in ids:
            ids.update(chain)
    return [by_id[ident] for ident in ids]


def path_figures(dump, path):
    """The sum of the figures of contexts with exactly this path, from the innermost function to
    main."""
    names = paths_of(dump)
    return sum_figures(context for context in dump["contexts"]
                       if inside_main(names[context["id"]]) == tuple(path))


def deep_path(kind):
    return [f"{kind}_{number:02}" for number in range(12, 0, -1)] + ["main"]


def check_path(program, dump, kind):
    """Returns (whether the full path has at least 90 % of the path's live bytes, text)."""
    got = path_figures(dump, deep_path(kind))[0]
    want = program.sum_books(site=f"{kind}_12")[0]
    share = got * 100 // max(want, 1)
    text = f"{kind}: {got} of {want} live bytes have the full path ({share} %)"
    return share >= 90 and want > 0, text
