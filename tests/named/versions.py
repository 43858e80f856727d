# SPDX-License-Identifier: MIT
"""Versions of memctx.h: programs with another header than the library's, old names, compiler
warnings about misuse."""
import functools
import os
import re
import shutil
import subprocess

import harness
from harness import (ROOT, build_program, check, check_equal, clean_env, preloaded_env, run_program,
                     test,
                     test_named)

INCLUDE = os.path.join(ROOT, "include")
# the released header, which must not change
HEADER_0_1 = os.path.join(ROOT, "tests/named/data/0.1.0")
GROWING = ("memctx_limit", "memctx_options", "memctx_stats")


def later_header():
    """Makes a directory with memctx.h in which the structs that may grow have a new member."""
    place = os.path.join(harness.BIN, "later-header")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(INCLUDE, place)
    with open(f"{place}/memctx.h", encoding="utf-8") as file:
        text = file.read()
    for name in GROWING:
        text, times = re.subn(rf"(struct {name} {{\n.*?)\n}};\n",
                              r"\1\n    uint64_t later[4];\n};\n", text, count=1,
                              flags=re.S)
        check_equal(times, 1, f"struct {name} in memctx.h")
    with open(f"{place}/memctx.h", "w", encoding="utf-8") as file:
        file.write(text)
    return place


@functools.lru_cache(None)
def program(header):
    """Builds versions.c with the header 0.1.0, today's, or that of a later version."""
    flags = {"0.1.0": ["-include", f"{HEADER_0_1}/memctx.h", "-DHEADER_0_1"], "today": [],
             "later": ["-include", f"{later_header()}/memctx.h", "-DHEADER_LATER"]}[header]
    return build_program("tests/named/versions.c", f"named-versions-{header}", flags)


def holds(header, case, env=None):
    done = run_program([program(header), case], env or preloaded_env())
    check_equal((done.returncode, done.stdout, done.stderr), (0, "done\n", ""),
                f"{case}, header: {header}")


def works(header, *cases):
    def run():
        for case in cases:
            holds(header, case)
    test_named(f"header-{header.replace('.', '-')}")(run)


works("0.1.0", "structs", "functions_of_0_1")
works("today", "structs", "functions_of_0_1", "sizes", "version", "old_names")
works("later", "structs", "functions_of_0_1", "sizes", "later_fields")


@test
def header_without_the_library():
    holds("today", "version_without_library", clean_env())


@test
def header_with_the_library_of_0_1():
    library = build_program("tests/named/library_0_1.c", "named-library-0.1.so",
                            ["-include", f"{HEADER_0_1}/memctx.h", "-shared", "-fPIC"])
    for header in ("today", "later"):
        holds(header, "library_of_0_1", clean_env(LD_PRELOAD=library))


# --- misuse that the compiler sees ----------------------------------------------------------------

OVERFLOW = "(array-bounds|stringop-overflow=)"
# case -> (wrong code, right code, warning for the wrong code; "gcc": clang has no such warning).
MISUSE = {
    "ignored-create":
    ('memctx_create(NULL, "a", MEMCTX_ASET);', 'c = memctx_create(NULL, "a", MEMCTX_ASET);',
     "unused-result"),
    "ignored-create-with": ('memctx_create_with(NULL, "a", MEMCTX_ASET, NULL);',
                            'c = memctx_create_with(NULL, "a", MEMCTX_ASET, NULL);',
                            "unused-result"),
    "ignored-alloc": ("memctx_alloc(c, 10);", "keep(memctx_alloc(c, 10));", "unused-result"),
    "ignored-zalloc": ("memctx_zalloc(c, 10);", "keep(memctx_zalloc(c, 10));", "unused-result"),
    "ignored-aligned":
    ("memctx_alloc_aligned(c, 64, 64);", "keep(memctx_alloc_aligned(c, 64, 64));", "unused-result"),
    "ignored-realloc":
    ("memctx_realloc(c, p, 10);", "keep(memctx_realloc(c, p, 10));", "unused-result"),
    "ignored-strdup": ('memctx_strdup(c, "a");', 'keep(memctx_strdup(c, "a"));', "unused-result"),
    "ignored-give": ("memctx_give(c);", "if (memctx_give(c)) keep(NULL);", "unused-result"),
    "ignored-take": ("memctx_take(c);", "if (memctx_take(c)) keep(NULL);", "unused-result"),
    "null-name": ("c = memctx_create(NULL, NULL, MEMCTX_ASET);",
                  'c = memctx_create(NULL, "a", MEMCTX_ASET);', "nonnull"),
    "null-options-name": ("c = memctx_create_with(NULL, NULL, MEMCTX_ASET, NULL);",
                          'c = memctx_create_with(NULL, "a", MEMCTX_ASET, NULL);', "nonnull"),
    "null-text": ("keep(memctx_strdup(c, NULL));", 'keep(memctx_strdup(c, "a"));', "nonnull"),
    "null-stats":
    ("memctx_get_stats(c, NULL);", "struct memctx_stats s; memctx_get_stats(c, &s);", "nonnull"),
    "null-callback":
    ("memctx_add_callback(c, NULL);", "memctx_add_callback(c, &callback);", "nonnull"),
    "overflow-alloc":
    ("fill(memctx_alloc(c, 10), 11);", "fill(memctx_alloc(c, 10), 10);", OVERFLOW, "gcc"),
    "overflow-zalloc":
    ("fill(memctx_zalloc(c, 10), 11);", "fill(memctx_zalloc(c, 10), 10);", OVERFLOW, "gcc"),
    "overflow-aligned":
    ("fill(memctx_alloc_aligned(c, 64, 64), 65);", "fill(memctx_alloc_aligned(c, 64, 64), 64);",
     OVERFLOW, "gcc"),
    "overflow-realloc":
    ("fill(memctx_realloc(c, p, 10), 11);", "fill(memctx_realloc(c, p, 10), 10);",
     OVERFLOW, "gcc"),
    "old-hand-over": ("if (memctx_hand_over(c)) keep(NULL);", "if (memctx_give(c)) keep(NULL);",
                      "deprecated-declarations"),
    "old-identify":
    ('memctx_identify(c, "a");', 'memctx_set_identifier(c, "a");', "deprecated-declarations"),
    "old-call-on-reset":
    ("memctx_call_on_reset(c, &callback);", "memctx_add_callback(c, &callback);",
     "deprecated-declarations"),
}
AROUND = """#include <memctx.h>
void keep(void *chunk);
static inline void fill(void *chunk, size_t bytes) {
    if (chunk) {
        memset(chunk, 1, bytes);
        keep(chunk);
    }
}
extern struct memctx_callback callback;
memctx_t test(memctx_t c, void *p);
memctx_t test(memctx_t c, void *p) {
    fill(p, 1);
    %s
    return c;
}
"""


def compile_text(compiler, language, text):
    done = subprocess.run([compiler, "-x", language, "-O2", "-Wall", "-Wextra", "-Werror",
                           f"-I{INCLUDE}", "-c", "-", "-o",
                           "/dev/null"], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def warns(compiler, language):
    def run():
        if not shutil.which(compiler):
            raise harness.Skip(f"no {compiler}")
        for name, (wrong, right, warning, *only) in MISUSE.items():
            if only and compiler.startswith("clang"):
                continue
            check_equal(compile_text(compiler, language, AROUND % right), (0, ""), f"{name}: right")
            status, said = compile_text(compiler, language, AROUND % wrong)
            check(status != 0 and re.search(rf"\[-Werror[=,]-?W?{warning}", said),
                  f"{name}: {status}, {said}")
    test_named(f"misuse-warns-{compiler.replace('+', 'x')}")(run)


for compiler_of, language_of in (("gcc", "c"), ("g++", "c++"), ("clang", "c"), ("clang++", "c++")):
    warns(compiler_of, language_of)


@test
def headers_compile_alone():
    """Each public header compiles alone, memctx.h also in C11 and C++11 without GNU extensions."""
    for compiler, language, standard, header in (
            ("gcc", "c", "c11", "memctx.h"), ("gcc", "c", "c17", "memctx.h"),
            ("gcc", "c", "c11", "memctx/weak.h"),
            ("g++", "c++", "c++11", "memctx.h"), ("g++", "c++", "c++11", "memctx.hpp"),
            ("g++", "c++", "c++20", "memctx.hpp"),
            ("g++", "c++", "c++11", "memctx/weak.h")):
        done = subprocess.run([compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra",
                               "-Wundef", "-Wshadow",
                               "-Werror", "-D_DEFAULT_SOURCE", f"-I{INCLUDE}", "-fsyntax-only",
                               "-"],
                              input=f"#include <{header}>\nmemctx_t handle;\n", capture_output=True,
                              text=True, timeout=60)
        check_equal((done.returncode, done.stderr), (0, ""), f"{header} as {standard}")
