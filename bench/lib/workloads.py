# SPDX-License-Identifier: MIT
"""All rows of the benchmark. In a command, {inputs} and {programs} are directories, {cc1} and
{cc1plus} the compilers behind gcc and g++.

Groups: real (unmodified programs), paths (programs with many call paths: compilers, interpreters,
recursion), alloc (programs that do little but allocate), special (rows with measures of their own).
Measures: `cpu` is user and system time of the process and its children, for programs with one
thread and for servers, which wait for their clients. `wall` is for programs with several threads,
and for those whose subject is to start or fork. take_value in launcher.py, or the row's function in
servers.py, computes the others.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    group: str
    title: str
    command: tuple = ()
    measure: str = "cpu"
    env: dict = dataclasses.field(default_factory=dict)
    repeat: int = 1       # runs in a round, of which the median is taken
    quick: bool = False   # part of --quick
    children: bool = False  # has children with LD_PRELOAD: heaptrack needs a file for each
    server: str = ""      # the function in servers.py that runs it
    limit_s: int = 60
    rounds: int = 1000    # maximum, lower for figures that hardly vary


REAL = [
    Workload("sqlite", "real", "sqlite3: 300 000 rows in memory, two indexes, join",
             ("sqlite3", "-batch", "-bail", ":memory:", ".read {inputs}/load.sql"), quick=True),
    Workload("python3", "real", "python3, PYTHONMALLOC=malloc: JSON and dicts",
             ("/usr/bin/python3", "-s", "{inputs}/work.py"),
             env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}, quick=True),
    Workload("perl", "real", "perl: hashes, strings, sort, regex", ("perl", "{inputs}/work.pl"),
             env={"PERL_HASH_SEED": "0"}),
    Workload("node", "real", "node: JSON", ("node", "{inputs}/work.js"), measure="wall"),
    Workload("gcc", "real", "gcc -O2 (cc1), 170 functions",
             ("{cc1}", "-quiet", "-O2", "{inputs}/unit.c", "-o", "-")),
    # The command that git repack runs in a child, into which heaptrack does not follow.
    Workload("git", "real", "git pack-objects, as by repack -adf, of 1 500 commits",
             ("git", "-C", "{inputs}/repository.git", "-c", "pack.threads=1", "pack-objects", "-q",
              "--all", "--no-reuse-delta", "--stdout")),
    Workload("zstd", "real", "zstd -9 -T2, 42 MB of text",
             ("zstd", "-q", "-T2", "-9", "-c", "{inputs}/log.txt"), measure="wall"),
    Workload("xmllint", "real", "xmllint: 10 MB and an XPath",
             ("xmllint", "--xpath", "count(//item[price>500])", "{inputs}/catalog.xml"), repeat=3),
    Workload("java", "real", "java: start-up", ("java", "-cp", "{inputs}", "Start"), repeat=5,
             measure="wall"),
    Workload("redis", "real", "redis-server under redis-benchmark", server="run_redis",
             quick=True),
    Workload("postgres", "real", "postgres under pgbench -S, 2 clients",
             server="run_postgres"),
]


PATHS = [
    Workload("ast", "paths", "python3, PYTHONMALLOC=malloc: syntax trees of four modules",
             ("/usr/bin/python3", "-s", "{inputs}/trees.py"),
             env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}, quick=True),
    Workload("cxx", "paths", "g++ -O1 (cc1plus), templates of the standard library",
             ("{cc1plus}", "-quiet", "-fpreprocessed", "-std=c++17", "-O1", "{inputs}/unit.ii",
              "-o", "-")),
    Workload("clang", "paths", "clang++ -O1, the same",
             ("clang++", "-std=c++17", "-O1", "-S", "{inputs}/unit.cc", "-o", "-")),
    Workload("bash", "paths", "bash: functions that call themselves",
             ("bash", "{inputs}/recur.sh")),
    Workload("recursion", "paths", "eight functions that call each other at random",
             ("{programs}/recursion", "1")),
    Workload("trees", "paths", "recursive building of trees", ("{programs}/trees",)),
]


def own(name, title, **more):
    """A row of group alloc for a program of bench/."""
    return Workload(name, "alloc", title, ("{programs}/" + name,), **more)


ALLOC = [
    own("larson", "server of two threads that free each other's chunks", measure="wall",
        quick=True),
    own("handover", "producer and consumer", measure="wall"),
    own("small", "short-lived small objects, 12 calls deep", quick=True),
    own("pairs", "one chunk at a time: malloc, write, free"),
    own("survivors", "random sizes with survivors", quick=True),
    own("growth", "growth by realloc"),
    own("big", "buffers of 64 KiB to 4 MiB"),
    own("large", "buffers of 5 to 25 MiB"),
    Workload("replace", "alloc", "buffers of 8 to 100 KB replaced at random, 650 MB alive",
             ("{programs}/replace", "1", "12000", "500000")),
    Workload("buffers2", "alloc", "the same in two threads, 110 MB alive each",
             ("{programs}/replace", "2", "2000", "500000"), measure="wall"),
    own("relay", "two threads, aligned blocks, whole tables handed over", measure="wall"),
    own("forks", "server that forks 1 200 children", measure="wall"),
    own("threads", "30 000 short threads", measure="wall"),
    own("deep", "call paths of 60 frames", quick=True),
    own("sites", "4 096 sites, random order"),
]

SPECIAL = [
    Workload("true", "special", "`/bin/true`", ("/bin/true",), repeat=200, measure="wall",
             quick=True),
    Workload("subshells", "special", "bash script: 1 000 subshells (fork)",
             ("bash", "{inputs}/forks.sh"), repeat=2, measure="wall", quick=True),
    Workload("dash", "special", "dash script: 1 000 subshells (fork)",
             ("dash", "{inputs}/forks.sh"), repeat=2, measure="wall"),
    Workload("commands", "special", "bash script: 1 000 commands (fork and exec)",
             ("bash", "{inputs}/commands.sh"), repeat=2, measure="wall", children=True),
    Workload("fragment", "special", "20 paths, 1 M chunks of 16-512 bytes, one path's 13 MB stay",
             ("{programs}/fragment",), measure="rss_over_live", quick=True, rounds=2),
    *[Workload(shape, "special", title, ("{programs}/leftover", shape), measure="rss_over_live",
               rounds=2)
      for shape, title in (
          ("cells", "2 M of 48 bytes, 90 % freed at random, then chunks of 64"),
          ("buffers", "buffers of 100 to 200 kB cut to a third five times, small survivors"),
          ("swapped", "the same, then all large ones freed"),
          ("queue", "a tenth of a cross-thread queue survives, then half of that"),
          ("all", "1 M chunks all freed: resident over what was live"))],
    Workload("scaling", "special", "thread-local work: speed of two threads over one",
             ("{programs}/scaling",), measure="speedup"),
    Workload("tiny", "special", "1 M call paths, a chunk of 100 bytes each", ("{programs}/tiny",),
             measure="rss_over_live", rounds=2),
    *[Workload("p" + percent, "special", f"one malloc: {percent} % take at most",
               ("{programs}/latency", percent, "1"), measure="ns", rounds=3)
      for percent in ("50", "99", "99.99")],
    Workload("dumped", "special", "one malloc, 99.99 %: with dumps at 10 Hz over without",
             ("{programs}/latency", "99.99", "2"), measure="times", server="run_dumped",
             env={"MEMCTX_CONTROL": "eager"}),
    Workload("path", "special", "call path of 16 frames", ("{programs}/path",), measure="ns",
             server="run_path"),
    Workload("unwind", "special", "the same path by `unw_backtrace`: times as long",
             ("{programs}/path",),
             measure="times", server="run_path"),
    *[Workload(f"near-{w.name}", "special", f"{w.name}: allocations without a walk of more than 4 "
               "frames", w.command, measure="percent", server="run_near", rounds=1,
               env={**w.env, "MEMCTX_VERBOSE": "2"})
      for w in REAL if w.name in ("gcc", "python3", "node")],
    Workload("dump", "special", "dump of 10 000 contexts", ("{programs}/contexts",),
             measure="dump_ms", server="run_dump", quick=True,
             env={"MEMCTX_CONTROL": "eager", "MEMCTX_TABLES": "64M"}),
]

ALL = REAL + PATHS + ALLOC + SPECIAL
