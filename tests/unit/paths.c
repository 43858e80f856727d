/* SPDX-License-Identifier: MIT */
/* Tests of src/path and src/context: waiting and folded paths, and cached paths, which must be
 * those that libunwind finds. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/names.h"
#include "api/thread.h"
#include "base/options.h"
#include "context/admit.h"
#include "context/evict.h"
#include "context/replay.h"
#include "context/tree.h"
#include "path/functions.h"
#include "path/oracle.h"
#include "shapes.h"

static void *volatile kept;

static NOINLINE void leaf(size_t size) {
    free(kept);
    kept = malloc(size);
}

/* Functions with various frames: plain, of varying size, realigned, recursive, called through a
 * pointer. */
static NOINLINE void plain(int levels, size_t size);
static NOINLINE void with_alloca(int levels, size_t size) {
    volatile char *room = __builtin_alloca(size % 500 + 1);
    room[0] = 1;
    plain(levels, size);
    room[0] = 2;
}
static NOINLINE void realigned(int levels, size_t size) {
    volatile char room[64] __attribute__((aligned(64)));
    room[0] = 1;
    plain(levels, size);
    room[1] = room[0];
}
static NOINLINE void plain(int levels, size_t size) {
    static void (*const kinds[])(int, size_t) = {plain, with_alloca, realigned};
    if (levels == 0)
        leaf(size);
    else
        kinds[((size_t)rand() >> 4) % 3](levels - 1, size);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static void start_oracle(void) {
    cr_assert(oracle_load(), "libunwind.so.8 cannot be opened");
    options.verify = 1; /* compare every cached path */
    unwind_rules_init();
    unwind_rules_new_generation();
}

static void expect_no_mismatch(uint64_t checked_min) {
    cr_assert_gt(oracle_counts.checked, checked_min, "%llu paths were compared",
                 (unsigned long long)oracle_counts.checked);
    cr_assert_eq(oracle_counts.mismatches, 0, "%llu of %llu differ",
                 (unsigned long long)oracle_counts.mismatches,
                 (unsigned long long)oracle_counts.checked);
}

Test(paths, cached_paths_equal_fresh_walks) {
    srand(5);
    start_oracle();
    for (int i = 0; i < 30000; i++)
        plain(rand() % 12, (size_t)rand() % 3000);
    expect_no_mismatch(1000);
}

Test(paths, depth_may_change_at_any_time) {
    srand(6);
    start_oracle();
    for (int i = 0; i < 20000; i++) {
        if (i % 50 == 0) {
            options.depth = rand() % (MEMCTX_DEPTH_MAX + 1);
            unwind_rules_new_generation();
        }
        plain(rand() % 60, 100);
    }
    expect_no_mismatch(1000);
}

/* Called with 4 levels: the innermost four return addresses are equal for all callers, so a guess
 * by them cannot tell the callers apart. */
static NOINLINE void further_in(int levels) {
    if (levels == 0)
        leaf(48);
    else
        further_in(levels - 1);
    __asm__ volatile("" ::: "memory");
}

/* The first functions of threads: one calls from two places, the other one from a third. Their
 * return addresses are the outermost words that a trace compares. */
static void *calls_from_two_places(void *unused) {
    for (int i = 0; i < 2000; i++) {
        if ((size_t)rand() >> 4 & 1) {
            further_in(4);
            __asm__ volatile("# one place" ::: "memory");
        } else {
            further_in(4);
            __asm__ volatile("# the other place" ::: "memory");
        }
    }
    return unused;
}
static void *calls_from_one_place(void *unused) {
    for (int i = 0; i < 2000; i++) {
        further_in(4);
        __asm__ volatile("# a third place" ::: "memory");
    }
    return unused;
}

Test(paths, the_frames_that_threads_begin_with_are_told_apart) {
    void *(*const begin[])(void *) = {calls_from_two_places, calls_from_one_place};
    srand(7);
    start_oracle();
    for (size_t i = 0; i < 8; i++) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, begin[i % 2], NULL), 0);
        pthread_join(thread, NULL);
    }
    expect_no_mismatch(10000);
}

static void on_signal(int number) {
    (void)number;
    plain(3, 64);
}

Test(paths, signal_frames_are_walked_through) {
    srand(8);
    start_oracle();
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 3000; i++) {
        plain(rand() % 5, 64);
        raise(SIGUSR1);
    }
    expect_no_mismatch(1000);
}

/* Makes random calls with `passing` set: look-ups do not search the traces, but walk each path. */
static void walk_at_random(void (*run)(int levels)) {
    start_oracle();
    for (unsigned round = 0; round < 4000; round++) {
        if (round == 2000) { /* from now on longer paths are cut off */
            options.depth = 14;
            unwind_rules_new_generation();
        }
        if (thread_heap_if_any())
            paths_of(thread_heap)->passing = true;
        srand(round % 3 ? round % 11 : round);
        shapes_apart(run, 5);
    }
    cr_assert_gt(context_counts().replayed, 20000, "%lu replays", context_counts().replayed);
    expect_no_mismatch(10000);
}

Test(paths, walks_past_the_table_are_right) {
    walk_at_random(shapes_run);
}

Test(paths, walks_past_the_table_with_frame_pointers_are_right) {
    walk_at_random(linked_shapes_run);
}

/* A step between two sites is noted below one caller. The stack seems to make this step, or none,
 * also if the last site was reached below the other caller. */
static void step_between_sites(void (*run)(int drawn)) {
    start_oracle();
    srand(10);
    shapes_run(0);
    for (int i = 0; i < 10000; i++) {
        paths_of(thread_heap)->passing = true;
        paths_of(thread_heap)->fast_generation = 0;
        shapes_apart(run, rand() % 3 + 1 + (i % 7 < 3 ? 4 : 0));
    }
    cr_assert_gt(context_counts().replayed, 3000, "%lu replays", context_counts().replayed);
    expect_no_mismatch(3000);
}

Test(paths, replays_compare_the_frames_further_out) {
    step_between_sites(shapes_two_sites);
}

Test(paths, replays_compare_the_frames_further_out_with_frame_pointers) {
    step_between_sites(linked_shapes_two_sites);
}

/* One path is looked up over and over. Walks instead of searches in the traces cost more here, so
 * the library must give them up. */
Test(paths, walks_of_one_path_are_soon_given_up) {
    unwind_rules_init();
    unwind_rules_new_generation();
    shapes_run(0);
    paths_of(thread_heap)->passing = true;
    paths_of(thread_heap)->patience[true] = 0;
    for (int i = 0; i < 100000; i++)
        shapes_apart(shapes_run, 0);
    struct lookup_counts counts = context_counts();
    cr_assert_not(paths_of(thread_heap)->passing, "replayed %lu, missed %lu, guessed %lu",
                  counts.replayed, counts.missed, counts.guessed);
    cr_assert_lt(counts.missed, 90000);
}

/* Nearly every stack is new and long. The library must not wait for several windows of look-ups
 * before it tries replays. */
Test(paths, traces_that_hardly_serve_are_soon_passed_over) {
    enum { MISSES = 40000 };
    struct lookup_counts counts;
    unwind_rules_init();
    unwind_rules_new_generation();
    srand(5);
    do {
        shapes_apart(shapes_run, 40);
        counts = context_counts();
    } while (counts.missed < MISSES && !counts.replayed);
    cr_assert_lt(counts.missed, MISSES, "guessed %lu, hoped %u, spent %u", counts.guessed,
                 paths_of(thread_heap)->hoped, paths_of(thread_heap)->cost[false]);
}

/* Makes `count` look-ups that pass over the table of traces. */
static void look_past_the_table(int count) {
    for (int i = 0; i < count; i++) {
        paths_of(thread_heap)->passing = true;
        paths_of(thread_heap)->fast_generation = 0;
        free(malloc(64));
    }
}

/* Eight functions that allocate. Each leads from the path of any of them to a path of its own, and
 * the stack pointer moves by one distance, 0. */
#define STEP(number)                                                                               \
    static NOINLINE void step_##number(void) {                                                     \
        free(malloc(32));                                                                          \
        __asm__ volatile("# step " #number); /* no function is like another one */                 \
    }
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)

/* Steps between two paths are noted beside steps from the first path to other paths. */
Test(paths, steps_to_many_paths_are_replayed) {
    static void (*const steps[])(void) = {step_0, step_1, step_2, step_3,
                                          step_4, step_5, step_6, step_7};
    enum { STEPS = 20000 };
    unwind_rules_init();
    unwind_rules_new_generation();
    srand(9);
    shapes_run(0);
    uint64_t missed = context_counts().missed;
    for (int i = 0; i < STEPS; i++) {
        paths_of(thread_heap)->passing = true;
        paths_of(thread_heap)->fast_generation = 0;
        steps[((size_t)rand() >> 4) % 8]();
    }
    missed = context_counts().missed - missed;
    cr_assert_lt(missed, STEPS / 10, "%llu walks", (unsigned long long)missed);
}

/* A thread that ends gives its notes of changes back. The next thread of the heap makes new ones
 * only if it walks more often than most threads do. */
Test(paths, short_threads_note_no_changes) {
    unwind_rules_init();
    unwind_rules_new_generation();
    shapes_run(0);
    look_past_the_table(2);
    cr_assert_not_null(paths_of(thread_heap)->replays, "a heap's first table is made at once");
    replay_end(paths_of(thread_heap));
    look_past_the_table(200);
    cr_assert_null(paths_of(thread_heap)->replays);
    look_past_the_table(100);
    cr_assert_not_null(paths_of(thread_heap)->replays);
}

/* turn_left and turn_right allocate at each of five levels. The bits of `turns` choose which of the
 * two is called at the next level, so there are 31 paths. */
typedef void turn_function(unsigned turns, int levels);
static turn_function turn_left, turn_right;
#define TURN(name)                                                                                 \
    static NOINLINE void name(unsigned turns, int levels) {                                        \
        free(kept);                                                                                \
        kept = malloc(32);                                                                         \
        if (levels)                                                                                \
            (turns & 1 ? turn_left : turn_right)(turns >> 1, levels - 1);                          \
        __asm__ volatile("# " #name); /* no tail call, and not equal to the other function */      \
    }
TURN(turn_left)
TURN(turn_right)

/* The paths come in one order over and over, so each first guess (path/cache.h) can be right. At
 * some addresses of the stack, two first guesses share an entry of their table. They must not go on
 * replacing each other. */
Test(paths, first_guesses_that_share_an_entry_are_parted) {
    unwind_rules_init();
    unwind_rules_new_generation();
    shapes_run(0);
    /* Replays are not tried, which serve paths in one order just as well. */
    paths_of(thread_heap)->passing = false;
    paths_of(thread_heap)->patience[false] = UINT32_MAX;
    for (size_t offset = 0; offset < 40; offset++) {
        volatile char *room = __builtin_alloca(64);
        room[0] = 1;
        unwind_rules_new_generation(); /* empties the tables, which keep their small first size */
        uint64_t searched = 0;
        for (unsigned i = 0; i < 12000; i++) {
            if (i == 10000)
                searched = paths_of(thread_heap)->guessed;
            turn_left(i * 7 % 16, 4);
        }
        searched = paths_of(thread_heap)->guessed - searched;
        cr_assert_lt(searched, 200, "%lu of 10000 first guesses are wrong at offset %zu", searched,
                     offset);
    }
}

static int64_t live_of_all_views(void) {
    int64_t sum = 0;
    for (struct heap *heap = heap_global.first; heap; heap = heap->next)
        for (uint32_t i = 1; i < heap->view_count; i++)
            sum += (int64_t)(heap_view_at(heap, i)->allocs - heap_view_at(heap, i)->frees);
    return sum;
}

/* Two functions with equal hashes have an entry each, which counts the function's paths. */
Test(paths, recursive_functions_of_one_hash_are_folded) {
    uintptr_t one = 0x10000, other = one + 16;
    while ((hash_mix(one, 2) ^ hash_mix(other, 2)) & 0xffff)
        other += 16;
    unwind_rules_init();
    tables_limit_bytes();
    for (unsigned i = 0; i < 64; i++) {
        function_recurs((struct cfi_function){one, 16});
        function_recurs((struct cfi_function){other, 16});
    }
    cr_assert_eq(function_count, 2, "%u functions are folded", function_count);
}

/* The number of a folded function is found without unwind information, which the addresses of this
 * test do not have. */
Test(paths, folded_function_is_known_by_its_bytes) {
    struct cfi_function function = {0x10000, 16};
    unwind_rules_init();
    tables_limit_bytes();
    for (unsigned i = 0; i < 64; i++)
        function_recurs(function);
    uint32_t number = function_number(0x10001, false);
    cr_assert_neq(number, 0);
    cr_assert_eq(function_number(0x10000, true), number);
    cr_assert_eq(function_number(0x1000f, true), number);
    cr_assert_eq(function_number(0x10010, false), number);
    cr_assert_eq(function_number(0x10000, false), 0);
    cr_assert_eq(function_number(0x10010, true), 0);
    cr_assert_eq(function_number(0x10011, false), 0);
}

/* When the table of folded functions is full, further functions that recur change nothing. */
Test(paths, full_table_of_folded_functions_stays_as_it_is) {
    unwind_rules_init();
    tables_limit_bytes();
    uint32_t epoch = 0;
    for (uintptr_t function = 1; function <= 2000; function++) {
        for (unsigned i = 0; i < 64; i++)
            function_recurs((struct cfi_function){function << 12, 16});
        if (function == 1500)
            epoch = function_epoch;
    }
    cr_assert_geq(function_count, 512);
    cr_assert_eq(function_epoch, epoch, "%u functions are folded", function_count);
}

/* A function whose places in the table of folded functions are all taken is not folded. */
Test(paths, function_without_a_place_changes_nothing) {
    enum { PLACES = 16 };
    uintptr_t function = 0x10000;
    uint32_t epoch = 0;
    unwind_rules_init();
    tables_limit_bytes();
    for (unsigned found = 0; found <= PLACES; function += 16) {
        if (hash_mix(function, 1) % RULE_FOLDED_PLACES)
            continue;
        epoch = function_epoch;
        for (unsigned i = 0; i < 64; i++)
            function_recurs((struct cfi_function){function, 16});
        found++;
    }
    cr_assert_eq(function_count, PLACES, "%u functions are folded", function_count);
    cr_assert_eq(function_epoch, epoch);
}

/* Looks paths up while the tables are nearly full. Folded and waiting paths must agree with
 * libunwind, no chunk may be charged to [unknown], and the tables must stay within their limit. */
static void walk_with_little_room(void (*run)(int levels), bool past_the_table, bool fold) {
    start_oracle();
    options.fold = fold ? FOLD_AUTO : FOLD_OFF;
    options.tables = fold ? 768 << 10 : 128 << 10;
    for (unsigned round = 0; round < 200; round++) /* fills the tables */
        shapes_apart(run, 20);
    int64_t before = live_of_all_views(), most = 0;
    for (unsigned round = 0; round < 1500; round++) {
        if (thread_heap_if_any())
            paths_of(thread_heap)->passing = past_the_table && round % 2;
        srand(round);
        shapes_apart(run, 20);
        if (tables_used_bytes + tables_trace_bytes > most)
            most = tables_used_bytes + tables_trace_bytes;
    }
    expect_no_mismatch(10000);
    cr_assert_eq(function_epoch > 0, fold, "%u functions are folded", function_epoch);
    cr_assert_leq(most, tables_limit_bytes());
    cr_assert_eq(heap_global.lost_views, 0);
    cr_assert_eq(heap_view(thread_heap, TREE_UNKNOWN)->allocs, 0);
    cr_assert(fold || admit_waited, "no path had to wait");
    int64_t after = live_of_all_views();
    cr_assert_eq(after, before);
}

Test(paths, folded_paths_are_right) {
    walk_with_little_room(shapes_run, false, true);
}

Test(paths, folded_paths_are_right_past_the_table) {
    walk_with_little_room(shapes_run, true, true);
}

Test(paths, folded_paths_are_right_with_frame_pointers) {
    walk_with_little_room(linked_shapes_run, true, true);
}

Test(paths, paths_that_wait_are_right) {
    walk_with_little_room(shapes_run, false, false);
}

Test(paths, paths_that_wait_are_right_past_the_table) {
    walk_with_little_room(shapes_run, true, false);
}

/* Allocates on a path that has to wait. Now and then there is room for a node, but for no view. */
static void *wait_until_a_view_is_missing(void *unused) {
    leaf(10);
    struct heap *heap = thread_heap_if_any();
    tables_limit_bytes();
    int64_t part = load_relaxed(&tables_limit_known) / TABLES_PARTS;
    heap->table_bytes += HEAP_TABLES_BYTES; /* so that the budget counts each view */
    for (unsigned i = 1; i < 4 * ADMIT_WEIGHT_MOST; i++) {
        bool room = i % (ADMIT_WEIGHT_MOST + 8) == 0;
        int64_t most = TABLES_ADMITTED * part - tables_ends_bytes();
        tables_add((room ? most - TREE_NODE_COUNTED : 28 * part) - tables_used_bytes);
        leaf(20);
    }
    return unused;
}

/* A path that has its node but finds no room for a view is charged to a site of an ancestor, as
 * while the path waited, and not to a site below the path's own node. */
Test(paths, no_path_has_a_site_below_itself) {
    pthread_t thread;
    unsigned sites = 0;
    options.tables = 1 << 20;
    unwind_rules_init();
    unwind_rules_new_generation();
    cr_assert_eq(pthread_create(&thread, NULL, wait_until_a_view_is_missing, NULL), 0);
    pthread_join(thread, NULL);
    for (uint32_t id = TREE_FIXED_COUNT; id < tree_count(); id++) {
        const struct tree_node *node = tree_node(id);
        uint32_t others = tree_node(node->parent)->parent; /* if the node is a site */
        if (others < TREE_FIXED_COUNT || tree_node(others)->module != MODULE_OTHERS)
            continue;
        cr_assert_neq(node->address, tree_node(tree_node(others)->parent)->address);
        sites++;
    }
    cr_assert_gt(sites, 0, "no path was charged to a site");
}

static uint32_t cold_nodes(void) {
    uint32_t cold = 0;
    for (uint32_t id = TREE_FIXED_COUNT; id < tree_count(); id++)
        cold += !tree_is_gone(id) && tree_node(id)->flags & TREE_COLD;
    return cold;
}

/* New paths have to wait while the room that is left is kept for the ends of threads. Then sweeps
 * have to free the nodes of cold paths, or the new paths would wait for ever. (After a sweep that
 * takes long on a slow machine, the next sweep comes later.) */
Test(paths, cold_paths_go_although_the_room_is_left_for_ends_of_threads) {
    uint32_t parent = TREE_ROOT;
    options.tables = 4 << 20;
    free(malloc(1));
    tables_limit_bytes();
    int64_t part = load_relaxed(&tables_limit_known) / TABLES_PARTS;
    add_relaxed(&tables_heaps, 64);
    for (uintptr_t i = 0; i < 2 * NEAR_ROOT; i++) {
        struct tree_frame frame = {.address = 16 + i, .module = 1};
        parent = tree_child(parent, frame, TABLES_PATH);
    }
    for (uintptr_t i = 0; tables_used_bytes < 21 * part; i++) {
        struct tree_frame frame = {.address = 1000 + i, .module = 1};
        heap_view_within(thread_heap_if_any(), tree_child(parent, frame, TABLES_RULE), TABLES_RULE);
    }
    cr_assert_not(tables_have_room(1, TABLES_OFTEN));
    for (unsigned looks = 0; looks < 300 && cold_nodes() <= 1000; looks++) {
        for (unsigned i = 0; i < 100; i++)
            evict_want();
        usleep(100000);
        evict_sweep();
    }
    cr_assert_gt(cold_nodes(), 1000);
}
