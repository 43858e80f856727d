# SPDX-License-Identifier: MIT
"""Programs for which doctor was not tuned: many functions that fill one list, names of library
code, small growth beside large growth."""
import contextlib
import json
import os
import re

import harness
from harness import Target, check, check_equal, run_cli, runtime_dir, test, test_named
from cases import check_healthy
from planted import ALARMING, command, doctor, found_at, installed, planted
from text import labelled, told, verdict


@contextlib.contextmanager
def started(case, name=None, *flags):
    program = harness.build_program("tests/diagnosis/unseen.cc", name, flags=["-O2", *flags])
    with runtime_dir() as directory, Target([program, case], directory,
                                            MEMCTX_CONTROL="eager") as target:
        yield target


def growth_at(target, looks=4):
    """Checks that doctor raises exactly one alarm at that look, about growth; returns it and the
    text."""
    growth = [one for one in found_at(target, looks)["findings"] if one["severity"] in ALARMING]
    check_equal(len(growth), 1, f"alarms: {[(one['function'], one['evidence']) for one in growth]}")
    check_equal(growth[0]["id"], "growth", growth[0]["evidence"])
    return growth[0], told(target)


@test
def unseen_list_that_many_functions_fill():
    """Growth of 590 paths that share only an outer and an inner function is one finding."""
    with started("registry") as target:
        growth, text = growth_at(target)
    check(growth["contexts"] > 590, f"{growth['contexts']} call paths")
    check("; nearly all through Registry::add, unseen.cc:" in verdict(text), text)
    check(re.search(r"in \d+ call paths, nearly all through Registry::add \(unseen.cc:\d+\):",
                    labelled(text, 1, "who")), text)


@test
def unseen_buffers_that_two_functions_fill():
    """Buffers that grow by realloc below two callers are one finding, which says that chunks became
    larger."""
    with started("tenants") as target:
        growth, text = growth_at(target)
        flat = run_cli("dump", "--flat", "--human", "--limit", "2", target.pid,
                       env=target.cli_env).stdout
    check(re.search(r"so the chunks are larger: 200 chunks with a mean of \S+ KiB; the program "
                    "adds more to them than it removes", growth["evidence"]), growth["evidence"])
    check("make these chunks smaller" in labelled(text, 1, "fix"), text)
    check("nearly all through buffer_add, unseen.cc:" in verdict(text), text)
    check(re.search(r"nearly all through buffer_add \(unseen.cc:\d+\) < tenant_log "
                    r"\(unseen.cc:\d+\):", labelled(text, 1, "who")), text)
    check(re.search(r"^buffer_add\(.*\n    realloc: \d+ calls, of which \d+ copied the chunk, \S+ "
                    r"MiB in all\n    < tenant_log\(", flat, re.M), flat)


@test
def unseen_closures_in_a_local_class():
    """doctor blames a method of a local class (its name has parentheses), not inlined functions of
    the C++ library, whose names may lack std::."""
    with started("observers") as target:
        growth, text = growth_at(target)
    check(growth["function"].startswith("observers_grow::Window::observe, unseen.cc:"),
          growth["function"])
    check("_M_" not in labelled(text, 1, "who"), text)


@test
def unseen_wrappers_of_wrappers():
    """If other callers share the three innermost functions, the text also names the function that
    leaks, also if the innermost function ended in a tail call."""
    with started("wrapped") as target:
        _, text = growth_at(target)
    check(re.search(r"\(memory_take, unseen.cc:\d+; called for certificate_load, unseen.cc:\d+\)$",
                    verdict(text)), text)
    check(re.match(r"memory_take \(\S+\) < zone_take \(\S+\) < object_make \(\S+\) < "
                   r"certificate_load \(\S+\) \(context", labelled(text, 1, "who")), text)
    with started("jumped") as target:
        _, text = growth_at(target)
    check(re.search(r"\(memory_get \[tail call\], unseen.cc:\d+; called for session_open, "
                    r"unseen.cc:\d+\)$", verdict(text)), text)


@test
def unseen_everything_that_an_object_owns():
    """All chunks below the function that allocates the objects are one finding, also those that are
    not below the function with nine tenths of the bytes."""
    with started("queries") as target:
        growth, text = growth_at(target)
    check(growth["function"].startswith("query_get, unseen.cc:"), growth["function"])
    check(growth["contexts"] >= 5 and "query_copy" in text, text)


@test
def unseen_function_that_ends_in_a_tail_call():
    """The cause is the function that allocated all of an object, although half of the paths lack
    its frame, because it ended in a tail call."""
    with started("badges") as target:
        growth, text = growth_at(target)
    check(growth["function"].startswith("badge_new, unseen.cc:"), growth["function"])
    check("< badge_new [tail call] (unseen.cc:" in labelled(text, 1, "who"), text)


HEADER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#line 10 "/usr/include/shelf/shelf.h"
__attribute__((noipa)) static char *shelf_add(size_t bytes) {
    char *item = malloc(bytes);
    memset(item, 1, bytes);
    return item;
}
__attribute__((noipa)) static char *shelf_put(size_t bytes) {
    return shelf_add(bytes);
}
#line 20 "orders.c"
__attribute__((noipa)) static void order_keep(void) {
    char *order = shelf_put(300);
    order[0] = 'o';
}
int main(void) {
    for (;;) {
        for (int i = 0; i < 4000; i++)
            order_keep();
        puts("look");
        fflush(stdout);
        if (getchar() == EOF)
            return 0;
    }
}
"""


@test
def unseen_library_in_headers():
    """doctor names the program's own function behind that of a library of which the source was
    compiled into the program, also if a function of the library ended in a tail call."""
    with runtime_dir() as directory:
        source, program = os.path.join(directory, "orders.c"), os.path.join(directory, "orders")
        with open(source, "w", encoding="ascii") as file:
            file.write(HEADER)
        done = harness.run_program(["gcc", "-O2", "-g", source, "-o", program], os.environ)
        check_equal(done.returncode, 0, f"gcc: {done.stderr}")
        with Target([program], directory, MEMCTX_CONTROL="eager") as target:
            _, text = growth_at(target)
    check(re.search(r"\(shelf_add, shelf\.h:11; called for order_keep, orders\.c:21\)$",
                    verdict(text)), text)


LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
#define APART __attribute__((noipa))
struct statement { char *code, *columns, *variables, *text; };
APART static void *library_alloc(size_t bytes) {
    char *chunk = malloc(bytes);
    memset(chunk, 1, bytes);
    return chunk;
}
APART static char *columns_name(void) {
    char *columns = library_alloc(900);
    columns[0] = 'c';
    return columns;
}
APART static void select_make(struct statement *statement) {
    statement->code = library_alloc(1500);
    statement->columns = columns_name();
}
APART static char *variable_add(void) {
    char *variables = library_alloc(60);
    variables[0] = 'v';
    return variables;
}
APART static void parser_run(struct statement *statement) {
    statement->variables = variable_add();
    select_make(statement);
    statement->code[1] = 'p';
}
APART static char *text_copy(void) {
    char *text = library_alloc(80);
    text[0] = 't';
    return text;
}
void statement_prepare(struct statement *statement) {
    parser_run(statement);
    statement->text = text_copy();
}
void statement_end(struct statement *statement) {
    free(statement->code);
    free(statement->columns);
    free(statement->variables);
    free(statement->text);
}
"""
CALLER = r"""
#include <stdio.h>
#include <string.h>
struct statement { char *code, *columns, *variables, *text; };
void statement_prepare(struct statement *statement);
void statement_end(struct statement *statement);
__attribute__((noipa)) static void price_query(int number) {
    struct statement statement;
    statement_prepare(&statement);
    if (number % 9)
        statement_end(&statement);
}
int main(void) {
    for (int number = 0;;) {
        for (int i = 0; i < 9000; i++)
            price_query(number++);
        puts("look");
        fflush(stdout);
        if (getchar() == EOF)
            return 0;
    }
}
"""


@test
def unseen_parts_that_a_library_allocates():
    """Parts of an object that a library without source lines allocates in many of its functions are
    one finding, at the outermost function of the library."""
    with runtime_dir() as directory:
        library, program = os.path.join(directory, "libquery.so"), os.path.join(directory, "prices")
        for source, text, *flags in (
                ("query.c", LIBRARY, "-shared", "-fPIC", "-rdynamic", "-o", library),
                ("prices.c", CALLER, "-g", library, "-o", program)):
            path = os.path.join(directory, source)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            done = harness.run_program(["gcc", "-O2", path, *flags], os.environ)
            check_equal(done.returncode, 0, f"gcc: {done.stderr}")
        with Target([program], directory, MEMCTX_CONTROL="eager") as target:
            growth, text = growth_at(target)
    check_equal(growth["function"], "statement_prepare, libquery.so", growth["evidence"])
    check_equal((growth["contexts"], growth["bytes"]), (4, 3 * 1000 * (1500 + 900 + 60 + 80)),
                "call paths and bytes")
    check("; called for price_query, prices.c:" in verdict(text), text)


@test
def unseen_leak_of_aligned_buffers():
    """The rounding of chunks that leak is no warning, and comes behind the leak."""
    with started("aligned") as target:
        growth, _ = growth_at(target)
        found = doctor(target)["findings"]
    check(growth["function"].startswith("page_buffer, unseen.cc:"), growth["function"])
    check_equal([(one["id"], one["severity"]) for one in found[1:]], [("rounding", "info")],
                "behind the leak")


@test
def unseen_functions_without_names():
    """Chunks that one function allocates through two functions without names are one finding, at
    the function that has a name, also if one of the two has nine tenths of the bytes."""
    with started("inserts", "unseen-stripped", "-rdynamic", "-Wl,-s") as target:
        growth, text = growth_at(target)
    check(growth["function"].startswith("tree_insert, "), growth["function"])
    check_equal(growth["contexts"], 2, growth["evidence"])
    with started("queries", "unseen-stripped", "-rdynamic", "-Wl,-s") as target:
        growth, text = growth_at(target)
        frag = run_cli("frag", target.pid, env=target.cli_env).stdout
    check(growth["function"].startswith("query_get, "), growth["function"])
    # nearly all came through a function without a name
    check("nearly all through" not in text, text)
    check("largest part:" not in verdict(text), text)  # its functions have no names
    # In a list of paths, the address of the function without a name tells them apart.
    lines = re.findall(r"query_get \(\S+\) < main \(\S+\), via (\S+ < )?(unseen-stripped\+0x\w+)",
                       " ".join(frag.split()))
    check(len({address for _, address in lines}) >= 2, frag)


@test
def unseen_inline_function_of_the_c_library():
    """doctor blames the caller of getline, which the header of the C library makes inline."""
    with started("lines") as target:
        growth, _ = growth_at(target)
    check(growth["function"].startswith("settings_read, unseen.cc:"), growth["function"])


@test
def unseen_namespaces_with_names_of_rust():
    """doctor blames functions of a C++ program whose namespaces are called core and alloc, as the
    library of Rust is."""
    with started("namespaces") as target:
        growth, text = growth_at(target)
    check(growth["function"].startswith("core::Engine::texture_load, unseen.cc:"),
          growth["function"])
    check(re.match(r"core::Engine::texture_load \(\S+\) < alloc::frame_draw \(\S+\) <",
                   labelled(text, 1, "who")), text)


def growth_in_rust(*arguments):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unseen.rs")
    with runtime_dir() as directory:
        made = os.path.join(directory, "unseen-rs")
        done = harness.run_program([installed("rustc"), "-O", "-g", source, "-o", made], os.environ)
        check_equal(done.returncode, 0, f"rustc: {done.stderr}")
        with Target([made, *arguments], directory, MEMCTX_CONTROL="eager") as target:
            return growth_at(target)


@test
def unseen_rust_texts_of_numbers():
    """doctor blames the program's function, not <u64 as core::fmt::Display>::fmt of Rust's
    library."""
    growth, text = growth_in_rust("orders")
    check(growth["function"].startswith("unseen::order_insert, unseen.rs:"), growth["function"])
    check("core::fmt" not in labelled(text, 1, "who"), text)


@test
def unseen_rust_vectors_of_a_size():
    growth, text = growth_in_rust()
    check(growth["function"].startswith("unseen::event_log, unseen.rs:"), growth["function"])
    check("from_elem" not in labelled(text, 1, "who"), text)


HEALTHY = ("rebuild", "reread", "arena", "batch", "late-pool", "lru", "slots")


def keep_healthy(case):
    def run():
        with started(case) as target:
            return check_healthy(target)
    test_named(f"unseen-healthy-{case}")(run)


for healthy_case in HEALTHY:
    keep_healthy(healthy_case)

@test
def unseen_code_that_is_compiled_again():
    """Paths are one path if they differ only outside of a function that generated code called: the
    runtime compiles this code again."""
    with started("compiled") as target:
        growth, _ = growth_at(target, 7)
    check(growth["function"].startswith("plan_keep, unseen.cc:"), growth["function"])
    check("grew in each of 6 intervals" in growth["evidence"], growth["evidence"])


@test
def unseen_plug_ins_that_are_loaded():
    """What the dynamic loader keeps for plug-ins that are loaded one after the other is no alarm:
    it loads no file twice."""
    program = harness.build_program("tests/diagnosis/plugger.c")
    with runtime_dir() as directory:
        library = os.path.join(directory, "plug.so")
        source = os.path.join(directory, "plug.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("int plug(int x) { return x + 1; }\n")
        done = harness.run_program(["gcc", "-shared", "-fPIC", "-o", library, source], os.environ)
        check_equal(done.returncode, 0, f"gcc: {done.stderr}")
        with Target([program, library, directory], directory, MEMCTX_CONTROL="eager") as target:
            found = found_at(target, 5)["findings"]
    check_equal([one["title"] for one in found if one["severity"] in ALARMING], [], "alarms")


@test
def unseen_rows_whose_room_others_took():
    """No saving is predicted for a policy of rows whose holes other rows fill: in pages of its
    own, the holes would stay."""
    with started("churn") as target:
        check_equal(target.hear(), "look", "what the program says")
        target.wait_socket()
        dump = target.dump()
        functions = harness.context_names(dump)
        rows = [one for one in dump["contexts"] if functions[one["id"]][0].startswith("row_new") and
                one["self"]["live_chunks"] > 100]
        first = min(rows, key=lambda one: one["self"]["live_chunks"])
        check(first["self"]["peak_requested_bytes"] > 4 * first["self"]["requested_bytes"],
              f"{first}")
        before = harness.rss_kib(target.pid)
        predicted = command(target, "set", target.pid, first["id"],
                            "policy=slab")["predicted_bytes"]
        target.say("go on")
        check_equal(target.hear(), "look", "what the program says")
        target.say("go on")
        check_equal(target.hear(), "look", "what the program says")
        came = before - harness.rss_kib(target.pid)
    check_equal(predicted, 0, f"predicted, and {came} KiB came")
    return f"{came} KiB of {before} came"


@test
def unseen_ages_beyond_the_uptime():
    """An age above the uptime, which a coarse clock can give, is shown as the uptime."""
    with runtime_dir() as directory, planted(directory, "survivors", "malloc") as target:
        check_equal(target.hear(120), "look", "what the program says")
        target.wait_socket()
        dump = json.loads(run_cli("dump", "--json", "-o", "/dev/stdout", target.pid,
                                  env=target.cli_env).stdout)
        file = os.path.join(directory, "look.json")
        for page in dump["pages"]:
            page[10] += 100  # age of the oldest chunk
        with open(file, "w", encoding="utf-8") as out:
            json.dump(dump, out)
        text = run_cli("doctor", file).stdout
        frag = run_cli("frag", file).stdout
    up = f"{dump['uptime_s']:.1f}"
    check_equal(labelled(text, 1, "since"), f"the oldest of these chunks is {up} s old", text)
    check(f"age of the oldest: {up} s" in frag, frag)
