# SPDX-License-Identifier: MIT
"""Tests of the library as an ELF file: exports, symbols that it needs, thread-local storage,
size."""
import glob
import os
import re

import harness
from harness import ROOT, check, check_equal, runtime_dir, test


def tool(*argv):
    done = harness.run_program(list(argv), harness.clean_env())
    check_equal(done.returncode, 0, f"{argv[0]} ({done.stderr.strip()})")
    return done.stdout


def exported_list():
    """The names between "global:" and "local:" in src/api/exports.map."""
    built_from = os.path.join(os.path.dirname(harness.LIB), "../..")
    if not os.path.exists(os.path.join(built_from, "src/api/exports.map")):
        built_from = ROOT
    with open(os.path.join(built_from, "src/api/exports.map"), encoding="ascii") as file:
        text = re.sub(r"/\*.*?\*/|#[^\n]*", "", file.read(), flags=re.S)
    names = set()
    for part in re.findall(r"global:(.*?)(?:local:|\})", text, flags=re.S):
        names |= {name.strip().strip('"') for name in part.split(";") if name.strip()}
    check(len(names) > 40, f"only {len(names)} names in the list")
    wild = [name for name in names if "*" in name or "?" in name]
    check_equal(wild, [], "patterns in the list: each export is to be named")
    return names


@test
def names_exports():
    lines = tool("nm", "-D", "--defined-only", harness.LIB).splitlines()
    exported = {line.split()[-1].split("@")[0] for line in lines
                if line.split()[-2] != "A"}  # A: the names of versions
    listed = exported_list()
    check_equal(sorted(exported - listed), [], "exported, but not in the list")
    check_equal(sorted(listed - exported), [], "in the list, but not exported")


WHOLE_FAMILY = """malloc free calloc realloc reallocarray memalign aligned_alloc posix_memalign
valloc pvalloc malloc_usable_size malloc_trim mallinfo mallinfo2 malloc_info malloc_stats mallopt
free_sized free_aligned_sized cfree
mallocx rallocx xallocx sallocx dallocx sdallocx nallocx
__libc_malloc __libc_free __libc_calloc __libc_realloc
__libc_memalign __libc_valloc __libc_pvalloc _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t
_ZnwmSt11align_val_t _ZnamSt11align_val_t _ZnwmSt11align_val_tRKSt9nothrow_t
_ZnamSt11align_val_tRKSt9nothrow_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t
_ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t
_ZdaPvmSt11align_val_t _ZdlPvSt11align_val_tRKSt9nothrow_t
_ZdaPvSt11align_val_tRKSt9nothrow_t""".split()


@test
def names_whole_family():
    """The library exports every function of the malloc family. Otherwise a chunk could be passed to
    another malloc's function."""
    missing = [name for name in WHOLE_FAMILY if name not in exported_list()]
    check_equal(missing, [], "missing")


@test
def names_versions():
    """The library loads with glibc 2.28 and newer: it needs no newer symbol version, and weak
    symbols have none."""
    count = 0
    for line in tool("objdump", "-T", harness.LIB).splitlines():
        if "*UND*" not in line:
            continue
        count += 1
        version = re.search(r"\(?GLIBC_([0-9.]+)\)?", line)
        weak = line.split("*UND*")[0].split()[1:2] == ["w"]
        if version:
            # glibc before 2.30 searches a versioned symbol only in libc.so.6
            check(not re.search(r" (_r_debug|__tls_get_addr|"
                                r"pthread_(create|join|cancel|key_\w+|setspecific)|dlopen|dlsym|"
                                r"pthread_attr_setstack\w*)$", line),
                  f"a version for a name that libc.so.6 of glibc 2.28 lacks: {line.strip()}")
            number = tuple(int(part) for part in version.group(1).split("."))
            check(number <= (2, 28), f"a name that glibc 2.28 lacks: {line.strip()}")
        else:
            check(weak, f"a name without a version that is not weak: {line.strip()}")
    text = tool("readelf", "-VW", harness.LIB)
    needed = [tuple(int(part) for part in number.split("."))
              for number in re.findall(r"Name: GLIBC_([0-9.]+)", text)]
    check(needed and max(needed) <= (2, 28), f"versions that the loader looks for: {needed}")
    check(count > 20, f"only {count} undefined names")
    return f"up to {'.'.join(str(part) for part in max(needed))}"


@test
def names_needed():
    text = tool("readelf", "-dW", harness.LIB)
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", text))
    check("libc.so.6" in needed, f"needs {needed}")
    check_equal(needed - {"libc.so.6", "ld-linux-x86-64.so.2"}, set(), "other libraries needed")
    check("NODELETE" in text, "the library could be unloaded")
    check("TEXTREL" not in text and "(RPATH)" not in text and "(RUNPATH)" not in text,
          "text relocations or a search path")


# Functions of libc that the objects of src may call, but for those in src/api, which run in the
# program's threads: other functions may be replaced by a preloaded library, whose code cannot run
# in the control thread.
PLAIN = {"memcpy", "memmove", "memset", "memcmp", "strlen", "strncmp", "__errno_location",
         "dl_iterate_phdr", "environ", "program_invocation_short_name"}
NOT_IN_THE_CONTROL_THREAD = {
    "thread.o": {"clone", "pthread_setcancelstate"},  # os/thread.c, control/thread.c: its start
    "libc.o": {"dlopen", "dlsym", "__libc_dlopen_mode", "__libc_dlsym", "pthread_key_create",
               "pthread_key_delete", "pthread_setspecific"},  # through os_libc
    "guard.o": {"raise", "sigaction"},  # the handler of faults
    "memory.o": {"clock_gettime"},  # before the constructor; later by its address in libc
    "unwind_rules.o": {"getauxval"},
}


@test
def names_of_the_control_thread():
    """The control thread makes system calls by number: a library like libfakeroot replaces libc's
    functions by ones that need a thread which libc knows."""
    objects = [path for path in glob.glob(os.path.join(ROOT, "out/release/lib/src/*/*.o"))
               if os.path.basename(os.path.dirname(path)) != "api"]
    check(len(objects) > 50, f"objects: {objects}")
    symbols = [line.split() for path in objects for line in
               (f"{path} {word}" for word in tool("nm", "-P", path).splitlines())]
    ours = {name for _, name, kind, *_ in symbols if kind not in "Uwv"}
    for path, name, kind, *_ in symbols:
        allowed = NOT_IN_THE_CONTROL_THREAD.get(os.path.basename(path), set())
        check(kind not in "Uw" or name in ours | PLAIN | allowed or name.startswith("_"),
              f"{path} calls {name} of libc")


@test
def names_thread_local_storage():
    relocations = tool("readelf", "-rW", harness.LIB)
    for kind in ("DTPMOD64", "DTPOFF64", "TLSDESC"):
        check(kind not in relocations, f"dynamic thread-local storage: {kind}")
    segments = re.findall(r"^\s+TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)",
                          tool("readelf", "-lW", harness.LIB), flags=re.M)
    check_equal(len(segments), 1, "TLS segments")
    size = int(segments[0], 16)
    check(0 < size < 1024, f"{size} bytes are cut from every thread's stack")
    return f"{size} bytes"


@test
def names_hardened():
    segments = tool("readelf", "-lW", harness.LIB)
    check("GNU_RELRO" in segments, "no RELRO")
    stack = re.search(r"GNU_STACK.*", segments)
    check(stack and "RWE" not in stack.group(), "an executable stack")
    for line in segments.splitlines():
        check(not re.search(r"LOAD.*RWE", line), f"a segment to write and run: {line}")
    check(re.search(r"x86 feature: .*SHSTK", tool("readelf", "-nW", harness.LIB)),
          "no mark for shadow stacks: glibc would turn them off in the whole program")


@test
def names_small_footprint():
    """Bounds for the library's segments and relocations, which cost time at each start and fork
    (docs/process.md, One fork)."""
    ends = re.findall(r"^\s+LOAD\s+\S+\s+(0x[0-9a-f]+)\s+\S+\s+\S+\s+(0x[0-9a-f]+)",
                      tool("readelf", "-lW", harness.LIB), flags=re.M)
    check_equal(len(ends), 2, "loaded segments")
    size = max(int(start, 16) + int(length, 16) for start, length in ends)
    check(size < 2 << 20, f"{size} bytes: the kernel sets it apart from other libraries")
    symbols = {line.split()[-1]: int(line.split()[0], 16)
               for line in tool("nm", "--defined-only", harness.LIB).splitlines()}
    with open(os.path.join(ROOT, "src/region/heap.h"), encoding="ascii") as file:
        hot = int(re.search(r"#define HEAP_HOT_BYTES (\d+)U", file.read()).group(1))
    last = symbols["first_heap"] + hot - 1
    check_equal(last // 4096, symbols["heap_global"] // 4096, "page of the first heap's hot part")
    start, length = (int(number, 16) for number in re.search(
        r" \.data +PROGBITS +(\S+) \S+ (\S+)", tool("readelf", "-SW", harness.LIB)).groups())
    check(start % 4096 + length <= 4096, f"START_PAGE is {length} bytes from {start:#x}: two pages")
    check(start <= symbols["options"] < start + length, "options do not stand in START_PAGE")
    return f"{size} bytes, {4095 - last % 4096} and {4096 - length} left in the pages"


@test
def names_unwinder_unchanged():
    """With the library preloaded, the program still uses its own backtrace and _Unwind_*
    functions."""
    program = harness.build_program("tests/abuse/invariant.c")
    plain = harness.run_program([program, "unwinder"], harness.clean_env())
    check_equal(plain.returncode, 0, "without the library")
    with runtime_dir() as directory:
        for extra in ({}, {"MEMCTX_VERIFY": "1"}):
            done = harness.run_program([program, "unwinder"], harness.preloaded_env(
                XDG_RUNTIME_DIR=directory, MEMCTX_CONTROL="eager", **extra))
            check_equal(done.returncode, 0, f"preloaded ({done.stderr})")
            for want, got in zip(plain.stdout.splitlines(), done.stdout.splitlines()):
                check_equal(got, want, "who provides")
            check_equal(done.stdout, plain.stdout, "all of them")


@test
def names_no_loader_on_malloc_path():
    """The library calls no function of libc that may allocate or lock, except fprintf for
    malloc_info and those for the pthread key."""
    undefined = {line.split()[-1].split("@")[0]
                 for line in tool("nm", "-D", "--undefined-only", harness.LIB).splitlines()}
    forbidden = {"printf", "snprintf", "vsnprintf", "puts", "fputs", "fopen", "fwrite",
                 "getline", "strdup", "asprintf", "malloc", "calloc", "realloc", "free",
                 "pthread_mutex_lock", "getpid",
                 "backtrace", "exit", "qsort", "__cxa_atexit", "sleep", "usleep"}
    check_equal(sorted(undefined & forbidden), [], "names that have no business here")
