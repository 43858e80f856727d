/* SPDX-License-Identifier: MIT */
/* Tests of src/context/tree.h: nodes keep their ids, are found again, are removed and reused, and
 * the budget of the tables counts them. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "base/options.h"
#include "context/tree.h"

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
