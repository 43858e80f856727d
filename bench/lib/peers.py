# SPDX-License-Identifier: MIT
"""The allocators that are compared, and how each is put into a program."""

import dataclasses
import os
import subprocess

HEAPTRACK = "/usr/lib/heaptrack/libheaptrack_preload.so"


@dataclasses.dataclass(frozen=True)
class Peer:
    """One column of the tables. `preload` is a soname or a path; empty: nothing is preloaded."""
    name: str
    label: str
    preload: str
    package: str
    plain: bool  # an allocator and nothing more
    env: dict = dataclasses.field(default_factory=dict)


def known(memctx_library):
    """All peers by name, glibc first: its first run gives the output that others must equal."""
    peers = [
        Peer("glibc", "glibc", "", "libc6", True),
        Peer("jemalloc", "jemalloc", "libjemalloc.so.2", "libjemalloc2", True),
        Peer("mimalloc", "mimalloc", "libmimalloc.so.2", "libmimalloc2.0", True),
        Peer("tcmalloc", "tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4", True),
        Peer("memctx", "**memctx**", memctx_library, "", False),
        Peer("memctx-depth0", "memctx, depth 0", memctx_library, "", False,
             {"MEMCTX_DEPTH": "0"}),
        Peer("heaptrack", "heaptrack", HEAPTRACK, "heaptrack", False),
    ]
    return {peer.name: peer for peer in peers}


def loaded(peer):
    """Whether the dynamic linker really maps the peer's library into a program."""
    if not peer.preload:
        return True
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": peer.preload, **peer.env}
    if peer.name == "heaptrack":
        env["DUMP_HEAPTRACK_OUTPUT"] = "/dev/null"
    run = subprocess.run(["cat", "/proc/self/maps"], env=env, capture_output=True, text=True,
                         timeout=20, check=False)
    return run.returncode == 0 and os.path.basename(peer.preload).split(".so")[0] in run.stdout


def version(peer):
    """The Debian version of the peer's package, or what the library's own command says."""
    if not peer.package:
        command = ["out/release/memctx", "--version"]
    else:
        command = ["dpkg-query", "-W", "-f", "${Version}", peer.package]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return "unknown"
    return run.stdout.strip().removeprefix("memctx ") or "unknown"
