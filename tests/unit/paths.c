/* SPDX-License-Identifier: MIT */
/* Tests of src/path and src/context: the tree of contexts, waiting and folded paths, and cached
 * paths, which must be those that libunwind finds. */
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

Test(tree, the_same_frame_is_the_same_child) {
    struct tree_frame a = {.address = 0x1000, .module = MODULE_NONE};
    struct tree_frame b = {.address = 0x1000, .module = MODULE_NONE, .exact = true};
    struct tree_frame c = {.address = 0x1001, .module = MODULE_NONE};
    uint32_t first = tree_child(TREE_ROOT, a, TABLES_UNCOUNTED);
    cr_assert_neq(first, 0);
    cr_assert_eq(tree_child(TREE_ROOT, a, TABLES_UNCOUNTED), first);
    cr_assert_neq(tree_child(TREE_ROOT, c, TABLES_UNCOUNTED), first);
    cr_assert_neq(tree_child(TREE_ROOT, b, TABLES_UNCOUNTED), first,
                  "an interrupted instruction is another frame");
    cr_assert_neq(tree_child(first, a, TABLES_UNCOUNTED), first, "recursion goes deeper");
    cr_assert_eq(tree_node(first)->parent, TREE_ROOT);
    cr_assert_eq(tree_node(first)->address, 0x1000);
}

Test(tree, ids_stay_while_the_table_grows) {
    enum { NODES = 60000 };
    static uint32_t ids[NODES];
    for (uint32_t i = 0; i < NODES; i++) {
        struct tree_frame frame = {.address = 0x10000 + i * 4, .module = MODULE_NONE};
        ids[i] = tree_child(i < 100 ? TREE_ROOT : ids[i % 100], frame, TABLES_UNCOUNTED);
        cr_assert_neq(ids[i], 0);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        struct tree_frame frame = {.address = 0x10000 + i * 4, .module = MODULE_NONE};
        cr_assert_eq(tree_child(i < 100 ? TREE_ROOT : ids[i % 100], frame, TABLES_UNCOUNTED),
                     ids[i]);
        cr_assert_lt(tree_node(ids[i])->parent, ids[i], "a parent has the lower id");
    }
    cr_assert_eq(tree_count(), NODES + TREE_FIXED_COUNT);
}

/* Fills `frames` with the frames of a path: a number below 4^`count` chooses one of four frames at
 * each level. */
static void frames_of(uint32_t number, struct tree_frame *frames, unsigned count) {
    for (unsigned i = 0; i < count; i++, number /= 4)
        frames[i] = (struct tree_frame){.address = 0x1000 + number % 4, .module = MODULE_NONE};
}

Test(tree, a_chain_goes_on_from_nodes_that_exist_and_takes_only_the_bytes_of_new_ones) {
    enum { LENGTH = 8 };
    struct tree_frame frames[LENGTH], other[LENGTH];
    uint32_t ids[LENGTH] = {0}, again[LENGTH] = {0}, first = 0;
    options.tables = 1 << 20;
    tables_limit_bytes();
    frames_of(0, frames, LENGTH);
    frames_of(1U << 2 * 5, other, LENGTH); /* differs at level 5 */
    first = tree_child(TREE_ROOT, frames[0], TABLES_PATH);
    int64_t before = load_relaxed(&tables_used_bytes);
    cr_assert_eq(tree_chain(TREE_ROOT, frames, LENGTH, TABLES_PATH, ids), LENGTH);
    cr_assert_eq(load_relaxed(&tables_used_bytes) - before, (LENGTH - 1) * TREE_NODE_COUNTED);
    cr_assert_eq(ids[0], first);
    for (unsigned i = 0; i < LENGTH; i++) {
        cr_assert_eq(tree_find(i ? ids[i - 1] : TREE_ROOT, frames[i]), ids[i]);
        cr_assert_eq(tree_node(ids[i])->parent, i ? ids[i - 1] : TREE_ROOT);
    }
    cr_assert_eq(tree_chain(TREE_ROOT, other, LENGTH, TABLES_PATH, again), LENGTH);
    cr_assert_eq(memcmp(again, ids, 5 * sizeof *ids), 0);
    for (unsigned i = 5; i < LENGTH; i++)
        cr_assert_neq(again[i], ids[i]);
    cr_assert_eq(load_relaxed(&tables_used_bytes) - before, (LENGTH + 2) * TREE_NODE_COUNTED);
}

Test(tree, a_chain_without_room_ends_early) {
    enum { LENGTH = 8, ROOM = 3 };
    struct tree_frame frames[LENGTH];
    uint32_t ids[LENGTH] = {0};
    options.tables = 1 << 20;
    tables_limit_bytes();
    frames_of(0, frames, LENGTH);
    cr_assert_neq(tree_child(TREE_ROOT, frames[0], TABLES_PATH), 0);
    int64_t most = options.tables / TABLES_PARTS * TABLES_PATH;
    tables_add(most - ROOM * TREE_NODE_COUNTED - tables_used_bytes);
    cr_assert_eq(tree_chain(TREE_ROOT, frames, LENGTH, TABLES_PATH, ids), 1 + ROOM);
    cr_assert_eq(load_relaxed(&tables_used_bytes), most);
    cr_assert_eq(tree_find(ids[ROOM], frames[ROOM + 1]), 0);
}

enum { CHAIN_LENGTH = 7, CHAINS = 20000, CHAIN_THREADS = 4 };

static void *make_chains(void *seed) {
    uint32_t random = (uint32_t)(uintptr_t)seed;
    for (unsigned i = 0; i < CHAINS; i++) {
        struct tree_frame frames[CHAIN_LENGTH];
        uint32_t ids[CHAIN_LENGTH];
        random = random * 1664525 + 1013904223;
        frames_of(random >> 16, frames, CHAIN_LENGTH);
        if (tree_chain(TREE_ROOT, frames, CHAIN_LENGTH, TABLES_MUST, ids) != CHAIN_LENGTH)
            return "no room";
        for (unsigned k = 0; k < CHAIN_LENGTH; k++)
            if (tree_find(k ? ids[k - 1] : TREE_ROOT, frames[k]) != ids[k])
                return "another node";
    }
    return NULL;
}

/* Threads that make the nodes of one path at one time make each node once. */
Test(tree, chains_of_several_threads_share_their_nodes) {
    pthread_t threads[CHAIN_THREADS];
    void *wrong = NULL;
    uint32_t most = 0, count = tree_count();
    for (unsigned i = 0; i < CHAIN_THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, make_chains, (void *)(uintptr_t)(i % 2)), 0);
    for (unsigned i = 0; i < CHAIN_THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], &wrong), 0);
        cr_assert_null(wrong, "%s", (const char *)wrong);
    }
    for (unsigned i = 1; i <= CHAIN_LENGTH; i++)
        most += 1U << 2 * i;
    cr_assert_leq(tree_count() - count, most);
}

/* The table of children is dense, and old tables are freed when no look-up can search in them. */
Test(tree, old_tables_of_children_are_freed) {
    enum { NODES = 22000 }; /* at most three quarters of 32 768 places, and more than half */
    int64_t before = load_relaxed(&tables_used_bytes);
    for (uint32_t i = 0; i < NODES; i++) {
        struct tree_frame frame = {.address = 0x10000 + i * 4, .module = MODULE_NONE};
        cr_assert_neq(tree_child(TREE_ROOT, frame, TABLES_MUST), 0);
    }
    int64_t nodes = NODES * TREE_NODE_COUNTED, places = 32768 * sizeof(uint32_t);
    int64_t old = load_relaxed(&tables_used_bytes) - before - nodes - places;
    cr_assert_gt(old, places * 9 / 10, "the old tables have %ld bytes", (long)old);
    lock_take(&tree_lock);
    cr_assert(tree_note_old());
    tree_free_old();
    cr_assert_not(tree_note_old(), "an old table is still there");
    lock_release(&tree_lock);
    int64_t left = load_relaxed(&tables_used_bytes) - before - nodes - places;
    cr_assert_lt(left, 16384, "%ld bytes more than the nodes and the table", (long)left);
    for (uint32_t i = 0; i < NODES; i++) {
        struct tree_frame frame = {.address = 0x10000 + i * 4, .module = MODULE_NONE};
        cr_assert_neq(tree_find(TREE_ROOT, frame), 0);
    }
}

/* A forked child does not link its first new nodes. It finds each of them again: at once, after
 * some more nodes, and after many. */
Test(tree, a_forked_child_finds_its_new_nodes) {
    static uint32_t ids[1000];
    for (uint32_t made = 1; made < 1000; made *= 3) {
        tree_fork_child();
        for (uint32_t i = 0; i < made; i++) {
            struct tree_frame frame = {.address = made << 20 | i, .module = MODULE_NONE};
            ids[i] = tree_child(i % 4 ? ids[i - 1] : TREE_ROOT, frame, TABLES_UNCOUNTED);
            cr_assert_neq(ids[i], 0);
        }
        uint32_t count = tree_count();
        for (uint32_t i = made; i-- > 0;) {
            struct tree_frame frame = {.address = made << 20 | i, .module = MODULE_NONE};
            cr_assert_eq(tree_child(i % 4 ? ids[i - 1] : TREE_ROOT, frame, TABLES_UNCOUNTED),
                         ids[i], "%u", made);
        }
        cr_assert_eq(tree_count(), count);
    }
}

static void leave_tree(uint32_t id, bool for_good) {
    lock_take(&tree_lock);
    cr_assert(tree_unlink(id));
    if (for_good)
        tree_remove(id);
    lock_release(&tree_lock);
}

/* Each new node gets the lowest id that waits and is greater than its parent's. Ids whose memory is
 * still there come first. */
Test(tree, new_nodes_get_the_ids_of_removed_ones) {
    enum { NODES = 5 * TREE_NODES_PER_BLOCK, DISCARDED = 2 * TREE_NODES_PER_BLOCK };
    enum { PAGE_NODES = OS_PAGE_BYTES / sizeof(struct tree_node) };
    static uint32_t ids[NODES];
    static bool waits[NODES], discarded[NODES]; /* by number of the node in `ids` */
    for (uint32_t i = 0; i < NODES; i++) {
        struct tree_frame frame = {.address = 0x10000 + i * 4, .module = MODULE_NONE};
        ids[i] = tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED);
        cr_assert(ids[i] && (!i || ids[i] == ids[i - 1] + 1));
    }
    uint64_t random = 1;
    /* one in eight nodes is removed, and all in a range, whose memory is then discarded */
    for (uint32_t i = 0; i < NODES; i++) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        waits[i] = random >> 61 == 0 || (i >= DISCARDED && i < DISCARDED + 1000);
        if (waits[i])
            leave_tree(ids[i], true);
    }
    lock_take(&tree_lock);
    tree_discard();
    lock_release(&tree_lock);
    uint32_t in_pages = 0;
    for (uint32_t i = 0; i + PAGE_NODES <= NODES; i++) {
        uint32_t waiting = 0;
        while (ids[i] % PAGE_NODES == 0 && waiting < PAGE_NODES && waits[i + waiting])
            waiting++;
        if (waiting == PAGE_NODES)
            in_pages += PAGE_NODES;
        for (uint32_t at = i; waiting == PAGE_NODES && at < i + PAGE_NODES; at++)
            discarded[at] = true;
    }
    cr_assert_gt(in_pages, 500);
    for (uint32_t made = 0; made < 3000; made++) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        uint32_t parent = (uint32_t)(random >> 33) % NODES, wanted = 0;
        if (waits[parent])
            continue;
        for (unsigned pass = 0; pass < 2 && !wanted; pass++)
            for (uint32_t i = parent + 1; i < NODES && !wanted; i++)
                wanted = waits[i] && discarded[i] == pass ? i : 0;
        struct tree_frame frame = {.address = 0x9000000 + made * 4, .module = MODULE_NONE};
        uint32_t id = tree_child(ids[parent], frame, TABLES_UNCOUNTED);
        if (wanted)
            cr_assert_eq(id, ids[wanted], "%u instead of %u", id, ids[wanted]);
        else
            cr_assert_gt(id, ids[NODES - 1]);
        waits[wanted] = false;
    }
    cr_assert_gt(tree_reused(), 500);
}

/* The budget counts the bytes of nodes that are used, of nodes that wait with their memory, and of
 * nodes that got a removed one's id. A new node has nothing of the removed one. */
Test(tree, bytes_of_removed_nodes_are_counted) {
    enum { PAGE_NODES = OS_PAGE_BYTES / sizeof(struct tree_node), NODES = 6 * PAGE_NODES };
    static uint32_t ids[NODES];
    struct tree_frame frame = {.module = MODULE_NONE};
    for (uint32_t i = 0; i < NODES; i++) {
        frame.address = 0x10000 + i * 4;
        ids[i] = tree_child(TREE_ROOT, frame, TABLES_MUST);
        tree_set_loop(ids[i], ids[0]);
    }
    int64_t used = load_relaxed(&tables_used_bytes), idle = load_relaxed(&tables_idle_bytes);
    for (uint32_t i = 0; i < NODES; i++)
        leave_tree(ids[i], true);
    used -= NODES * TREE_NODE_COUNTED;
    idle += NODES * TREE_NODE_COUNTED;
    cr_assert_eq(load_relaxed(&tables_used_bytes), used);
    cr_assert_eq(load_relaxed(&tables_idle_bytes), idle);
    lock_take(&tree_lock);
    tree_discard();
    int64_t discarded = (idle - load_relaxed(&tables_idle_bytes)) / TREE_NODE_COUNTED;
    idle -= discarded * TREE_NODE_COUNTED;
    cr_assert_geq(discarded, 4 * PAGE_NODES);
    tree_discard(); /* there is nothing more to discard */
    lock_release(&tree_lock);
    cr_assert_eq(load_relaxed(&tables_idle_bytes), idle);
    int64_t left = NODES - discarded;
    cr_assert_geq(left, 2);
    tree_read_until_ns = os_now_ns() + (60UL << 30); /* a reader knows the ids */
    frame.address = 0x1000;
    uint32_t id = tree_child(TREE_ROOT, frame, TABLES_MUST);
    cr_assert_gt(id, ids[NODES - 1]);
    used += TREE_NODE_COUNTED;
    tree_read_until_ns = 0;
    /* The limit has no room for one more node. An id that was refused goes on waiting. */
    int64_t limit = options.tables;
    options.tables = (used * TABLES_PARTS + TABLES_PATH - 1) / TABLES_PATH;
    (void)tables_limit_bytes();
    cr_assert_not(tables_are_past(TABLES_PATH));
    frame.address = 0x1800;
    cr_assert_eq(tree_child(TREE_ROOT, frame, TABLES_PATH), 0);
    options.tables = limit;
    (void)tables_limit_bytes();
    for (uint32_t i = 0; i < NODES; i++) {
        bool counted = i % 4 != 0;
        frame.address = 0x2000 + i * 4;
        id = tree_child(TREE_ROOT, frame, counted ? TABLES_MUST : TABLES_UNCOUNTED);
        cr_assert_geq(id, ids[0]);
        cr_assert_leq(id, ids[NODES - 1]);
        cr_assert_eq(tree_loop(id), 0);
        used += counted * TREE_NODE_COUNTED;
        idle -= (i < left) * TREE_NODE_COUNTED;
        cr_assert_eq(load_relaxed(&tables_used_bytes), used, "node %u", i);
        cr_assert_eq(load_relaxed(&tables_idle_bytes), idle, "node %u", i);
    }
    cr_assert_eq(tree_reused(), NODES);
    cr_assert_eq(tree_nodes(), tree_count(), "an id still waits");
}

/* The node [other callers] leaves the tree and comes back, while its parent gets so many children
 * that the table of children grows. The parent has `elder` children when the node is made: with few
 * of them the node's entry is beside the parent's, with many it is in the table. */
static void check_others(uintptr_t address, unsigned elder) {
    struct tree_frame frame = {.address = address, .module = MODULE_NONE};
    uint32_t parent = tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED), count;
    for (unsigned i = 0; i < elder; i++, frame.address += 4)
        cr_assert(tree_child(parent, frame, TABLES_UNCOUNTED));
    uint32_t others = tree_others(parent, TABLES_MUST);
    cr_assert(others);
    leave_tree(others, false);
    cr_assert_not(tree_find(parent, (struct tree_frame){.module = MODULE_OTHERS}));
    for (unsigned i = 0; i < 4000; i++, frame.address += 4)
        cr_assert(tree_child(parent, frame, TABLES_UNCOUNTED));
    count = tree_count();
    cr_assert_eq(tree_others(parent, TABLES_MUST), others, "a second [other callers]");
    cr_assert_eq(tree_count(), count);
    cr_assert_not(tree_node(others)->flags & TREE_LEAVING);
    cr_assert_eq(tree_find(parent, (struct tree_frame){.module = MODULE_OTHERS}), others);
    leave_tree(others, true);
    cr_assert(tree_is_gone(others));
    others = tree_others(parent, TABLES_MUST);
    cr_assert_eq(tree_others(parent, TABLES_MUST), others);
    cr_assert_eq(tree_node(others)->parent, parent);
    cr_assert_not(tree_node(others)->flags & TREE_LEAVING);
}

Test(tree, others_that_left_come_back) {
    check_others(0x1000000, 0);
    check_others(0x2000000, 2 * TREE_INLINE_CHILDREN);
}

Test(tree, fixed_nodes_have_labels) {
    for (uint32_t id = 1; id < TREE_FIXED_COUNT; id++) {
        const char *label = tree_fixed_label(id);
        cr_assert(label != NULL);
        cr_assert_eq(label[0], '[');
    }
    struct tree_frame frame = {.address = 0x1000, .module = MODULE_NONE};
    cr_assert_null(tree_fixed_label(tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED)));
}

static void *volatile kept;

static NOINLINE void leaf(size_t size) {
    free(kept);
    kept = malloc(size);
}

/* A large budget has room for more nodes than there are ids. The shares of the budget then hold for
 * the ids, so that the last ids are left for contexts that the program makes itself. */
Test(tree, ids_are_shared_like_bytes) {
    uint32_t made = tree_nodes(), last = TREE_ROOT;
    options.tables = 1L << 40;
    for (uintptr_t i = 0; last != 0 || i == 0; i++)
        made += (last = tree_child(TREE_ROOT, (struct tree_frame){.address = 16 + i, .module = 1},
                                   TABLES_PATH)) != 0;
    cr_assert_eq(made, TREE_IDS / TABLES_PARTS * TABLES_PATH + 1);
    cr_assert_neq(
        tree_child(TREE_ROOT, (struct tree_frame){.address = 5, .module = 1}, TABLES_SITE), 0);
    cr_assert_neq(
        tree_child(TREE_ROOT, (struct tree_frame){.address = 6, .module = 1}, TABLES_UNCOUNTED), 0);
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
        function_recurs(one);
        function_recurs(other);
    }
    cr_assert_eq(function_count, 2, "%u functions are folded", function_count);
}

/* When the table of folded functions is full, further functions that recur change nothing. */
Test(paths, full_table_of_folded_functions_stays_as_it_is) {
    unwind_rules_init();
    tables_limit_bytes();
    uint32_t epoch = 0;
    for (uintptr_t function = 1; function <= 2000; function++) {
        for (unsigned i = 0; i < 64; i++)
            function_recurs(function << 12);
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
            function_recurs(function);
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

/* New paths have to wait while the room that is left is kept for the ends of threads. Then sweeps
 * have to free the nodes of cold paths, or the new paths would wait for ever. */
Test(paths, cold_paths_go_although_the_room_is_left_for_ends_of_threads) {
    uint32_t parent = TREE_ROOT, cold = 0;
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
    for (unsigned sweeps = 0; sweeps < 4; sweeps++) {
        for (unsigned i = 0; i < 100; i++)
            evict_want();
        usleep(100000);
        evict_sweep();
    }
    for (uint32_t id = TREE_FIXED_COUNT; id < tree_count(); id++)
        cold += !tree_is_gone(id) && tree_node(id)->flags & TREE_COLD;
    cr_assert_gt(cold, 1000);
}
