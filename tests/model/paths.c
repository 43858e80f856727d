/* SPDX-License-Identifier: MIT */
/* paths.c - threads look up recursive paths while folding is switched on or off, let paths wait,
 * and take from the budget of the tables; see paths.h. */
#include "paths.h"

#include "../lib/sums_of.h"
#include "context/admit.h"
#include "context/lookup.h"
#include "context/tree.h"
#include "explore.h"
#include "path/functions.h"
#include "region/region.h"

enum { TURNS = 3, LOOKS = 3, RECURS_OFTEN = 64, FULL_PARTS = 19 };

static struct heap **heaps;
static uintptr_t done; /* 1: the other thread has made its change */

/* --- folding ---------------------------------------------------------------------------------- */

static APART struct view *look(struct heap *heap) {
    return context_view_searched(heap, (uintptr_t)__builtin_frame_address(0), 16);
}

static APART struct view *turn(struct heap *heap, unsigned turns) {
    struct view *view = turns ? turn(heap, turns - 1) : look(heap);
    __asm__ volatile("" ::: "memory");
    return view;
}

static uintptr_t start_of(uintptr_t function) {
    return unwind_rules_function(function + 1).start;
}

/* Returns how often the function turn() stands on the path. */
static unsigned turns_of(const struct view *view) {
    unsigned count = 0;
    for (uint32_t id = view->context; id >= TREE_FIXED_COUNT; id = tree_node(id)->parent)
        count += unwind_rules_function(tree_node(id)->address).start == start_of((uintptr_t)turn);
    return count;
}

/* Reports to the library that turn() recurs. After RECURS_OFTEN reports it is folded. */
static void recurs(unsigned times) {
    while (times-- > 0)
        function_recurs(unwind_rules_function((uintptr_t)turn + 1));
}

/* Returns the set of functions that has turn() alone. */
static struct function_set the_function(void) {
    struct function_set set = {0};
    function_set_add(&set, function_number((uintptr_t)turn + 1, false));
    return set;
}

void paths_folded(struct heap **of) {
    heaps = of;
    recurs(RECURS_OFTEN);
    model_check(function_number((uintptr_t)turn + 1, false), "the function is not folded");
}

void paths_unfolded(struct heap **of) {
    paths_folded(of);
    struct function_set set = the_function();
    functions_unfold(&set);
}

void paths_about_to_fold(struct heap **of) {
    heaps = of;
    recurs(RECURS_OFTEN - 1);
    model_check(!function_epoch, "the function is folded too early");
}

/* Looks paths up while another thread changes folding. A look-up that begins after the change must
 * see it: the path then has `turns_then` recursive calls (0: as many as were made). `longer` is 1
 * if each look-up shall have a longer path than the last, because cached paths do not change. */
static void look_meanwhile(unsigned longer, unsigned turns_then) {
    for (unsigned i = 0; i < LOOKS; i++) {
        bool was_done = load_acquire(&done);
        unsigned turns = TURNS + i * longer;
        const struct view *view = turn(heaps[0], turns);
        model_check(view && view->context >= TREE_FIXED_COUNT, "no path, though there is room");
        unsigned got = turns_of(view), then = turns_then ? turns_then : turns + 1;
        model_check(got && got <= turns + 1, "a path has more calls of turn() than were made");
        model_check(!was_done || got == then, "a look-up after the change does not see the change");
    }
}

void thread_unfold(unsigned id) {
    if (id) {
        struct function_set set = the_function();
        functions_unfold(&set);
        store_release(&done, 1);
    } else {
        look_meanwhile(0, 0);
    }
}

void thread_fold_again(unsigned id) {
    if (id) {
        functions_unfold(&(struct function_set){0});
        store_release(&done, 1);
    } else {
        look_meanwhile(0, 1);
    }
}

void thread_begin_folding(unsigned id) {
    if (id) {
        recurs(1);
        store_release(&done, 1);
    } else {
        look_meanwhile(1, 1);
    }
}

/* A library is closed, so the unwind rules become invalid; folding must not change. */
void thread_new_rules(unsigned id) {
    store_release(&done, 1);
    if (id)
        unwind_rules_new_generation();
    else
        look_meanwhile(1, 1);
}

/* --- paths that wait -------------------------------------------------------------------------- */

enum { SITES = 2, WAITERS = 2 };
static unsigned allocated[WAITERS][SITES];

static APART void take(struct heap *heap) {
    struct view *view = context_view_searched(heap, (uintptr_t)__builtin_frame_address(0), 16);
    model_check(view && region_alloc(heap, view, 16, false), "out of memory");
}

static APART void site_first(struct heap *heap) {
    take(heap);
    __asm__ volatile("# first");
}

static APART void site_second(struct heap *heap) {
    take(heap);
    __asm__ volatile("# second");
}

static void (*const sites[SITES])(struct heap *heap) = {site_first, site_second};

static APART void common(unsigned id, unsigned site) {
    allocated[id][site]++;
    sites[site](heaps[id]);
    __asm__ volatile("# common");
}

/* Lets the tables count as filled up to `parts` of TABLES_PARTS parts of their limit. */
static void fill_to(int64_t parts) {
    int64_t limit = tables_limit_bytes();
    tables_add(limit / TABLES_PARTS * parts - load_relaxed(&tables_used_bytes));
}

void paths_nearly_full(struct heap **of) {
    heaps = of;
    fill_to(TABLES_PATH - 1);
}

/* Thread 0 fills the tables. The path of thread 1 is kept only if it is looked up before that. */
void thread_wait(unsigned id) {
    common(id, 0);
    if (id == 0)
        fill_to(FULL_PARTS);
    for (unsigned i = 0; i < 2 * SITES; i++)
        common(id, i % SITES);
}

/* Checks that each site has all its allocations, and that the sum over all contexts is right,
 * whichever path waited. */
void check_waited(void) {
    int64_t wanted = 0, got = 0;
    for (unsigned site = 0; site < SITES; site++) {
        int64_t allocs = 0, calls = 0;
        for (unsigned id = 0; id < WAITERS; id++)
            calls += allocated[id][site];
        for (uint32_t id = TREE_FIXED_COUNT; id < tree_count(); id++)
            if (unwind_rules_function(tree_node(id)->address).start ==
                start_of((uintptr_t)sites[site]))
                allocs += sums_of(id).allocs;
        model_check(allocs == calls, "a site does not count all its allocations");
        wanted += calls;
    }
    for (uint32_t id = 0; id < tree_count(); id++)
        got += sums_of(id).allocs;
    model_check(got == wanted, "the contexts together do not count all allocations");
    model_check(!heap_global.lost_views, "an operation was not accounted");
}

/* --- the budget ------------------------------------------------------------------------------- */

enum { PART_BYTES = 4096, TAKERS = 3 };
static unsigned granted[TAKERS];
static int64_t used_before;

/* Leaves room in the budget for two parts. */
void budget_for_two(void) {
    tables_add(tables_limit_bytes() / TABLES_PARTS * TABLES_ADMITTED - 2L * PART_BYTES -
               load_relaxed(&tables_used_bytes));
    used_before = load_relaxed(&tables_used_bytes);
}

void thread_budget(unsigned id) {
    for (int i = 0; i < 2; i++)
        granted[id] += tables_take(PART_BYTES, TABLES_ADMITTED);
}

void check_budget(void) {
    unsigned all = granted[0] + granted[1] + granted[2];
    model_check(all >= 1 && all <= 2, "more than the budget was granted, or nothing");
    model_check(load_relaxed(&tables_used_bytes) == used_before + (int64_t)all * PART_BYTES,
                "the used bytes are not those that were granted");
}
