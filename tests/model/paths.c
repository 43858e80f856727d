/* SPDX-License-Identifier: MIT */
/* Recursive paths of this file's functions are looked up while folding is switched on or off; see
 * paths.h. */
#include "paths.h"

#include "context/admit.h"
#include "context/lookup.h"
#include "context/tree.h"
#include "explore.h"
#include "figures/sums.h"
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

static void recurs(unsigned times) {
    while (times-- > 0)
        function_recurs(start_of((uintptr_t)turn));
}

static struct function_set the_function(void) {
    struct function_set set = {0};
    function_set_add(&set, function_number((uintptr_t)turn + 1, false));
    return set;
}

void paths_folded(struct heap **of) {
    heaps = of;
    recurs(RECURS_OFTEN);
    model_check(function_number((uintptr_t)turn + 1, false), "nothing is folded");
}

void paths_unfolded(struct heap **of) {
    paths_folded(of);
    struct function_set set = the_function();
    functions_unfold(&set);
}

void paths_about_to_fold(struct heap **of) {
    heaps = of;
    recurs(RECURS_OFTEN - 1);
    model_check(!function_epoch, "it is folded too early");
}

/* Looks paths up while another thread changes folding. A look-up that begins after the change must
 * see it. `further` is 1: each look-up has a longer path than the last, because cached paths do not
 * change. */
static void look_meanwhile(unsigned further, unsigned turns_then) {
    for (unsigned i = 0; i < LOOKS; i++) {
        bool was_done = load_acquire(&done);
        unsigned turns = TURNS + i * further;
        const struct view *view = turn(heaps[0], turns);
        model_check(view && view->context >= TREE_FIXED_COUNT, "no path, though there is room");
        unsigned got = turns_of(view), then = turns_then ? turns_then : turns + 1;
        model_check(got && got <= turns + 1, "a path with turns that were not");
        model_check(!was_done || got == then, "folded or not as it was before");
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
        model_check(allocs == calls, "a site has not what it allocated");
        wanted += calls;
    }
    for (uint32_t id = 0; id < tree_count(); id++)
        got += sums_of(id).allocs;
    model_check(got == wanted, "the contexts have not what was allocated");
    model_check(!heap_global.lost_views, "something was lost");
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
    model_check(all >= 1 && all <= 2, "the budget was passed, or nobody got it");
    model_check(load_relaxed(&tables_used_bytes) == used_before + (int64_t)all * PART_BYTES,
                "what is used is not what was granted");
}
