# SPDX-License-Identifier: MIT
"""The allocators and profilers to compare, and how each is loaded into a program."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys

HEAPTRACK = "/usr/lib/heaptrack/libheaptrack_preload.so"
OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                   "out/bench")
CRATES, MEMRAY = OUT + "/peers", OUT + "/memray"


@dataclasses.dataclass(frozen=True)
class Peer:
    """One column of the tables. `preload` is a soname or a path; empty: nothing is preloaded."""
    name: str
    label: str
    preload: str
    package: str
    plain: bool  # True: an allocator without tracking
    env: dict = dataclasses.field(default_factory=dict)
    rounds: int = 1000  # maximum
    limit_s: int = 1000  # maximum for one run
    rows: str = ""  # pattern of the workloads to measure; empty: all
    wrap: tuple = ()  # words that replace the first two words of the command
    crate: str = ""  # feature of bench/peers that builds the library
    build_env: dict = dataclasses.field(default_factory=dict)
    pip: str = ""  # package of PyPI that is the peer

    @property
    def profiler(self):
        """True if the peer is a profiler: it is measured in at most 2 rounds, and not on every
        row."""
        return self.rounds < 3

    def takes(self, workload):
        """True if the peer is measured on this workload."""
        if self.rows:
            return re.fullmatch(self.rows, workload.name) is not None
        return workload.group != "special" or not self.profiler or self.name == "heaptrack"


def known(memctx_library):
    """All peers by name. glibc is first: its first run gives the output that the other peers must
    give."""
    peers = [
        Peer("glibc", "glibc", "", "libc6", True),
        Peer("jemalloc", "jemalloc", "libjemalloc.so.2", "libjemalloc2", True),
        Peer("mimalloc", "mimalloc", "libmimalloc.so.2", "libmimalloc2.0", True),
        Peer("tcmalloc", "tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4", True),
        Peer("mimalloc3", "mimalloc 3", CRATES + "/mimalloc.so", "", True,
             rounds=3, crate="mimalloc"),
        # Built with clang as its authors do: gcc 12 does not inline all calls of its common path.
        Peer("snmalloc", "snmalloc", CRATES + "/snmalloc.so", "", True,
             rounds=3, crate="snmalloc",
             build_env={"CC": "clang", "CXX": "clang++", "CXXFLAGS": "-O3 -DNDEBUG"}),
        Peer("rpmalloc", "rpmalloc", CRATES + "/rpmalloc.so", "", True,
             rounds=3, crate="rpmalloc"),
        Peer("memctx", "**memctx**", memctx_library, "", False),
        Peer("memctx-depth0", "memctx, depth 0", memctx_library, "", False,
             {"MEMCTX_DEPTH": "0"}),
        Peer("heaptrack", "heaptrack", HEAPTRACK, "heaptrack", False, rounds=1),
        Peer("jemalloc-sampling", "jemalloc, a sample each 512 KiB", "libjemalloc.so.2",
             "libjemalloc2", False,
             {"MALLOC_CONF": "prof:true,lg_prof_sample:19,prof_final:false"}, rounds=1),
        Peer("jemalloc-exact", "jemalloc, every allocation", "libjemalloc.so.2", "libjemalloc2",
             False, {"MALLOC_CONF": "prof:true,lg_prof_sample:0,prof_final:false"}, rounds=1,
             limit_s=6),
        Peer("tcmalloc-profile", "tcmalloc, heap profiler", "libtcmalloc.so.4",
             "libgoogle-perftools4", False,
             {"HEAPPROFILE": "{records}/heap", "HEAP_PROFILE_ALLOCATION_INTERVAL": "0",
              "HEAP_PROFILE_INUSE_INTERVAL": "0", "PERFTOOLS_VERBOSE": "-100"},
             rounds=1, limit_s=6),
        Peer("memray", "memray", "", "", False, {"PYTHONPATH": MEMRAY}, rounds=1, rows="python3",
             wrap=("/usr/bin/python3", "-s", "-m", "memray", "run", "-q", "-f", "-o",
                   "{records}/memray"), pip="memray"),
    ]
    return {peer.name: peer for peer in peers}


def is_newer(path, directory):
    """True if the file exists and is newer than all files of the directory."""
    return os.path.exists(path) and all(entry.stat().st_mtime < os.path.getmtime(path)
                                        for entry in os.scandir(directory))


def build(peer, out, tmp):
    """Builds or installs a peer that comes from a crate or from PyPI. Returns False if that
    failed."""
    log = os.path.join(out, f"{peer.name}.log")
    if peer.crate and not is_newer(peer.preload, "bench/peers"):
        words = ["cargo", "build", "-q", "--release", "--features", peer.crate,
                 "--manifest-path", shutil.copytree("bench/peers", os.path.join(tmp, peer.crate))
                 + "/Cargo.toml", "--target-dir", os.path.join(tmp, "target")]
    elif peer.pip and not os.path.isdir(peer.env["PYTHONPATH"]):
        words = [sys.executable, "-m", "pip", "install", "-q", "--target", peer.env["PYTHONPATH"],
                 "--python-version", "3.11", "--only-binary=:all:", peer.pip]
    else:
        return True
    print(f"bench/run: {words[0]}: getting {peer.name} (some 10 s)", flush=True)
    try:
        with open(log, "w", encoding="utf-8") as file:
            subprocess.run(words, stdout=file, stderr=file, stdin=subprocess.DEVNULL, timeout=600,
                           check=True, env={**os.environ, **peer.build_env})
    except (OSError, subprocess.SubprocessError) as error:
        print(f"bench/run: no {peer.name}: {error}; see {log}", file=sys.stderr)
        return False
    if peer.crate:
        os.makedirs(os.path.dirname(peer.preload), exist_ok=True)
        shutil.copy(os.path.join(tmp, "target/release/libpeers.so"), peer.preload)
    return True


def loaded(peer):
    """True if the dynamic linker maps the peer's library into a program."""
    if not peer.preload:
        return True
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": peer.preload}
    if peer.name == "heaptrack":
        env["DUMP_HEAPTRACK_OUTPUT"] = "/dev/null"
    run = subprocess.run(["cat", "/proc/self/maps"], env=env, capture_output=True, text=True,
                         timeout=20, check=False)
    return run.returncode == 0 and os.path.basename(peer.preload).split(".so")[0] in run.stdout


def version(peer):
    """The version of the peer, from its crate, its package of PyPI or Debian, or memctx
    --version."""
    if peer.crate:
        with open("bench/peers/Cargo.toml", encoding="utf-8") as file:
            found = re.search(f'^(.*{peer.crate}-sys).*"=([^"]*)"', file.read(), re.M)
            return f"({found.group(1)} {found.group(2)})"
    if peer.pip:
        found = re.search(peer.pip + r"-([\d.]+)\.dist-info",
                          "\n".join(os.listdir(peer.env["PYTHONPATH"])))
        return found.group(1) if found else "unknown"
    if not peer.package:
        command = ["out/release/memctx", "--version"]
    else:
        command = ["dpkg-query", "-W", "-f", "${Version}", peer.package]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return "unknown"
    return run.stdout.strip().removeprefix("memctx ") or "unknown"
