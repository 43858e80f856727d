# SPDX-License-Identifier: MIT
"""Registers the tests of the api_* programs."""
import subprocess
import xml.dom.minidom
import xml.parsers.expat

import harness
from harness import Failure, check, check_equal, runtime_dir, test_named

PROGRAMS = ["api_limits.c", "api_aligned.c", "api_content.c", "api_report.c", "api_threads.c",
            "api_cxx.cc"]
HARDEST = {"MEMCTX_PROMOTE_BYTES": "0", "MEMCTX_WASTE_KIB": "1000000", "MEMCTX_FREELIST_KIB": "0",
           "MEMCTX_DECAY_MS": "0"}


def expect_xml(done):
    try:
        document = xml.dom.minidom.parseString(done.stdout)
    except xml.parsers.expat.ExpatError as error:
        raise Failure(f"malloc_info's XML: {error}\n{done.stdout[:500]}") from None
    check_equal(document.documentElement.tagName, "malloc", "root of malloc_info's XML")
    check(document.documentElement.getAttribute("version"), "malloc_info's XML has no version")


def expect_statistics(done):
    check(any(character.isdigit() for character in done.stderr),
          f"malloc_stats printed {done.stderr!r}")


OUTPUT_CHECKS = {"malloc-info-xml": expect_xml, "malloc-stats-text": expect_statistics}


def run_once(program, name, env, what):
    done = harness.run_program([program, name], env, timeout_s=120)
    check(done.returncode == 0, f"{what}: exit {done.returncode}: {done.stderr.strip()[:1000]}")
    if name in OUTPUT_CHECKS:
        OUTPUT_CHECKS[name](done)
    else:
        check_equal((done.stdout, done.stderr), ("", ""), f"{what}: output")


def register(program, name):
    glibc_conforms = not name.startswith("!")
    name = name.lstrip("!")

    def run():
        if glibc_conforms:
            run_once(program, name, harness.clean_env(), "without the library")
        with runtime_dir() as directory:
            run_once(program, name, harness.preloaded_env(XDG_RUNTIME_DIR=directory), "preloaded")
            run_once(program, name, harness.preloaded_env(XDG_RUNTIME_DIR=directory, **HARDEST),
                     "preloaded, hardest settings")
            if name != "realloc-huge":  # with MEMCTX_CHECK realloc copies
                run_once(program, name,
                         harness.preloaded_env(XDG_RUNTIME_DIR=directory, MEMCTX_CHECK="1"),
                         "preloaded, checked")

    area = program.rsplit("_", 1)[1]
    test_named(f"{area}-{name}")(run)


@harness.test
def cxx_bad_alloc_in_a_library_of_a_c_program():
    """python3, a C program, loads a C++ library with RTLD_LOCAL: no other library finds the C++
    library by a look-up in the whole program."""
    library = harness.build_program("tests/abuse/local.cc", "local.so", ("-shared", "-fPIC"))
    script = f"import ctypes; print(ctypes.CDLL('{library}').new_throws(ctypes.c_size_t(1 << 50)))"
    done = harness.run_program(["python3", "-c", script], harness.preloaded_env())
    check_equal((done.returncode, done.stdout, done.stderr), (0, "1\n", ""),
                "whether operator new throws")


def build_with_next_mallocx(source):
    """Builds a program that is linked with a library of jemalloc's functions."""
    library = harness.build_program("tests/abuse/next_mallocx.c", "libnext_mallocx.so",
                                    ("-shared", "-fPIC"))
    return harness.build_program(source, None, ("-Wl,--no-as-needed", library))


@harness.test
def jemalloc_paths_of_mallocx():
    """Chunks of jemalloc's functions have their call paths."""
    program = build_with_next_mallocx("tests/abuse/holds_mallocx.c")
    with runtime_dir() as directory, \
            harness.Target([program], directory, MEMCTX_CONTROL="eager") as target:
        check_equal(target.hear(), "ready", "the program")
        target.wait_socket()
        dump = target.dump()
        names = harness.context_names(dump)
        held = {}
        for context in dump["contexts"]:
            function = names[context["id"]][0]
            held[function] = held.get(function, 0) + context["self"]["requested_bytes"]
        for how in ("plain", "zeroed", "aligned", "resized"):
            check_equal(held.get("holds_" + how), 100 * 3000, f"bytes of holds_{how}")


PROGRAMS = {source: harness.build_program("tests/abuse/" + source) for source in PROGRAMS}
PROGRAMS["api_jemalloc.c"] = build_with_next_mallocx("tests/abuse/api_jemalloc.c")
for binary in PROGRAMS.values():
    listing = subprocess.run([binary], env=harness.clean_env(), capture_output=True, text=True,
                             check=True, timeout=60)
    for test_name in listing.stdout.split():
        register(binary, test_name)
