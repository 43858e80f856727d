/* SPDX-License-Identifier: MIT */
/*
 * evictions.c - paths of this file's functions become cold (unused), are evicted, and are used
 * again, while threads look up paths and free chunks; see evictions.h.
 *
 * All paths begin at outermost(), which ends every walk, so that the setup and the threads have
 * equal paths. The tables count as nearly full. Each look-up allocates many bytes, so that its path
 * is admitted at once.
 */
#include "evictions.h"

#include "../lib/sums_of.h"
#include "api/fast.h"
#include "base/options.h"
#include "context/admit.h"
#include "context/evict.h"
#include "context/lookup.h"
#include "context/tree.h"
#include "explore.h"
#include "region/region.h"

enum {
    /* number of sites in one function: enough for a subtree that is evicted as a whole */
    GROUP = 8,
    DEEP = GROUP, /* a site so deep in the tree that it is evicted alone */
    LATER,        /* a site that is not used before the threads start */
    WAITING,      /* a site beside DEEP; its path is not admitted, so no view keeps its nodes */
    SITES,
    TURNS = 6, /* recursive calls on the paths of DEEP and WAITING */
    CHUNKS = 8,
    CHUNK_BYTES = 16,
    ADMITTED_BYTES = 1 << 20,
    FULL_PARTS = 23,
    ROOMY_PARTS = 12,
    HISTORY = 1 << 20 /* allocations of another context, many more than all sites make */
};
#define LONG_NS 40000000000U /* longer than the longest pause between two sweeps */

static struct heap **heaps;
static uintptr_t site_at[SITES];
static int64_t made[SITES], freed[SITES];
static void *chunks[CHUNKS];
static unsigned site_of[CHUNKS];
static unsigned evicted_least = GROUP;

/* --- paths ------------------------------------------------------------------------------------ */

/* Allocates a chunk on the path of its caller, for the account of `site`. */
static APART void *take(struct heap *heap, unsigned site) {
    site_at[site] = (uintptr_t)__builtin_return_address(0);
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    struct view *view = view_of_path(heap, frame, site == WAITING ? CHUNK_BYTES : ADMITTED_BYTES);
    model_check(view && view->context, "no view, or the view of no context");
    void *chunk = region_alloc(heap, view, CHUNK_BYTES, false);
    model_check(chunk, "out of memory");
    made[site]++;
    return chunk;
}

#define SITE(number)                                                                               \
    case number:                                                                                   \
        chunk = take(heap, number);                                                                \
        __asm__ volatile("# site" #number);                                                        \
        break;

static APART void *fan(struct heap *heap, unsigned site) {
    void *chunk = NULL;
    switch (site) {
        SITE(0)
        SITE(1)
        SITE(2)
        SITE(3)
        SITE(4)
        SITE(5)
        SITE(6)
        SITE(7)
        SITE(8)
        SITE(9)
        SITE(10)
    default: break;
    }
    return chunk;
}
_Static_assert(SITES == 11, "each site has its case");

static APART void *stem(struct heap *heap, unsigned site, unsigned turns) {
    void *chunk = turns ? stem(heap, site, turns - 1) : fan(heap, site);
    __asm__ volatile("");
    return chunk;
}

static APART void *outermost(struct heap *heap, unsigned site) {
    __asm__ volatile(".cfi_undefined rip");
    void *chunk = stem(heap, site, site == DEEP || site == WAITING ? TURNS : 0);
    __asm__ volatile("");
    return chunk;
}

static void give(struct heap *heap, unsigned slot) {
    void *chunk = chunks[slot];
    store_release(&chunks[slot], NULL);
    freed[site_of[slot]]++;
    region_free(heap, chunk);
}

/* Allocates a chunk on the path of `site` into a slot. Not inlined, so that the frames of two calls
 * stand at one place of the stack and a walk reuses the frames that they share. */
static APART void put(struct heap *heap, unsigned slot, unsigned site) {
    void *chunk = outermost(heap, site);
    site_of[slot] = site;
    store_release(&chunks[slot], chunk);
}

static void give_if_there(struct heap *heap, unsigned slot) {
    if (load_acquire(&chunks[slot]))
        give(heap, slot);
}

/* Allocates a chunk on the path of `site` and frees it. */
static void use(struct heap *heap, unsigned site) {
    void *chunk = outermost(heap, site);
    freed[site]++;
    region_free(heap, chunk);
}

static void use_all(struct heap *heap) {
    for (unsigned site = 0; site <= DEEP; site++)
        use(heap, site);
}

/* --- sweeps ----------------------------------------------------------------------------------- */

/* Asks for a sweep as often as it takes until evict_sweep makes one. */
static void want(void) {
    for (unsigned i = 0; i < 66; i++)
        evict_want();
}

static void sweep(void) {
    want();
    model_time_passes(LONG_NS);
    evict_sweep();
}

static void fill_tables_to(int64_t parts) {
    tables_limit_bytes(); /* sets tables_limit_known */
    int64_t limit = load_relaxed(&tables_limit_known);
    tables_add(limit / TABLES_PARTS * parts - load_relaxed(&tables_used_bytes));
}

/* Gives another context so many allocations that all sites of this file count as little used. */
static void make_history(struct heap *heap) {
    struct tree_frame frame = {.address = 0x7000, .module = MODULE_NONE};
    struct view *view = heap_view(heap, tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED));
    view->allocs += HISTORY;
    view->frees += HISTORY;
    view->requested_cum_bytes += (uint64_t)HISTORY << 10;
    view->freed_cum_bytes += (uint64_t)HISTORY << 10;
}

/* Uses all paths in the heaps of `users` threads and fills the tables. After two sweeps all these
 * paths are cold. */
static void begin(struct heap **of, unsigned users) {
    heaps = of;
    options.fold = FOLD_OFF;
    make_history(heaps[2]);
    for (unsigned i = 0; i < users; i++)
        use_all(heaps[i]);
    fill_tables_to(FULL_PARTS);
}

/* Tells each heap that the next calls come from another thread, so that cached walks of the setup's
 * stack are not reused on a thread's stack. */
static void other_threads_come(void) {
    for (unsigned i = 0; i < 3; i++)
        context_thread_changes(heaps[i]);
}

/* --- what must hold --------------------------------------------------------------------------- */

/* Checks that each site, and all contexts together, count every allocation and every free. */
static void check_books(void) {
    int64_t allocs = 0, frees = 0, all_made = HISTORY, all_freed = HISTORY;
    for (unsigned site = 0; site < SITES; site++) {
        struct sum sum = {0};
        for (uint32_t id = TREE_FIXED_COUNT; id < tree_count(); id++)
            if (!tree_is_gone(id) && tree_node(id)->address == site_at[site] && site_at[site]) {
                struct sum part = sums_of(id);
                sum.allocs += part.allocs;
                sum.frees += part.frees;
                sum.live_bytes += part.live_bytes;
            }
        model_check(sum.allocs == made[site], "a site does not count all its allocations");
        model_check(sum.frees == freed[site], "a site does not count all its frees");
        model_check(sum.live_bytes == (made[site] - freed[site]) * CHUNK_BYTES,
                    "a site does not count its live bytes");
        all_made += made[site];
        all_freed += freed[site];
    }
    for (uint32_t id = 0; id < tree_count(); id++) {
        struct sum sum = sums_of(id);
        model_check(tree_is_id(id) || (!sum.allocs && !sum.frees), "a removed node has figures");
        allocs += sum.allocs;
        frees += sum.frees;
    }
    model_check(allocs == all_made, "the contexts together do not count all allocations");
    model_check(frees == all_freed, "the contexts together do not count all frees");
    model_check(!heap_global.lost_views, "an operation was not accounted");
}

/* Checks that each node of the tree can be found below its parent, which is older. */
static void check_tree(void) {
    for (uint32_t id = TREE_FIXED_COUNT; id < tree_count(); id++) {
        if (tree_is_gone(id))
            continue;
        const struct tree_node *node = tree_node(id);
        struct tree_frame frame = {node->address, node->module, node->exact};
        model_check(node->parent < id, "a parent is younger than its child");
        model_check(node->parent < TREE_FIXED_COUNT || !tree_is_gone(node->parent),
                    "a node's parent was removed");
        model_check(node->flags & TREE_LEAVING || tree_find(node->parent, frame) == id,
                    "a node is not found, or is in the tree twice");
    }
}

/* Checks the books and the tree, then frees all chunks, evicts all cold paths, and checks again
 * after each sweep. */
void check_evictions(void) {
    check_books();
    check_tree();
    other_threads_come();
    fill_tables_to(FULL_PARTS);
    model_time_passes(1000 * LONG_NS); /* the pause after the longest sweep has passed */
    for (unsigned i = 0; i < CHUNKS; i++)
        give_if_there(heaps[2], i);
    for (unsigned i = 0; i < 5; i++) {
        sweep();
        for (struct heap *heap = heap_global.first; heap; heap = heap->next)
            if (heap->state == HEAP_OWNED)
                evict_own(heap);
        check_books();
        check_tree();
    }
    use_all(heaps[0]);
    check_books();
    check_tree();
    model_check(load_relaxed(&evict_views_all) >= evicted_least, "a cold path was not evicted");
}

/* --- a thread's own paths --------------------------------------------------------------------- */

/* Prepares a state in which no path was used since the only sweep. */
void evictions_used(struct heap **of) {
    begin(of, 1);
    sweep();
    other_threads_come();
}

/* Thread 0 uses path 0, which then has a trace, and looks up LATER, which may evict path 0. Thread
 * 1 sweeps. */
void thread_evict_used(unsigned id) {
    if (id) {
        for (int i = 0; i < 3; i++)
            sweep();
        return;
    }
    for (int i = 0; i < 3; i++)
        use(heaps[0], 0);
    use(heaps[0], LATER);
    use(heaps[0], 0);
    put(heaps[0], 0, DEEP);
    use(heaps[0], 1);
    give(heaps[0], 0);
}

/* --- chunks that others free ------------------------------------------------------------------ */

/* Each of two heaps frees a chunk of the other one, so the books of both are even. */
static void swap_frees(void) {
    put(heaps[0], 0, DEEP);
    put(heaps[1], 1, DEEP);
    give(heaps[1], 0);
    give(heaps[0], 1);
    heap_collect_remote(heaps[0]);
    heap_collect_remote(heaps[1]);
}

/* Prepares a state in which each of two heaps has freed a chunk of the other: the books of both are
 * even, and each heap knows the twin of the other's view. */
void evictions_handed_over(struct heap **of) {
    begin(of, 2);
    /* a view that counted frees of other heaps' chunks is not evicted, nor is its group */
    evicted_least = 1;
    swap_frees();
    sweep();
    sweep();
    other_threads_come();
}

/* Thread 0 allocates on LATER, which gets the view of the evicted path DEEP, while thread 1 frees
 * chunks of thread 0. */
void thread_evict_handed_over(unsigned id) {
    if (id == 2) {
        sweep();
    } else if (id == 0) {
        put(heaps[0], 0, LATER);
        put(heaps[0], 1, 0);
    } else {
        give_if_there(heaps[1], 0);
        give_if_there(heaps[1], 1);
    }
}

/* Prepares a state in which the first heap has a live chunk, but even books (as many frees as
 * allocations), because it has freed a chunk of the second heap. */
void evictions_balanced(struct heap **of) {
    begin(of, 2);
    sweep();
    sweep();
    tree_read_until_ns = UINT64_MAX; /* no eviction before the threads start */
    put(heaps[0], 0, 0);
    put(heaps[1], 1, 0);
    give(heaps[0], 1);
    heap_collect_remote(heaps[1]);
    tree_read_until_ns = 0;
    other_threads_come();
}

/* The second thread allocates and frees a chunk while the first thread evicts paths, for which it
 * adds up the live chunks. */
void thread_evict_balanced(unsigned id) {
    if (id == 0) {
        use(heaps[0], LATER);
        give_if_there(heaps[0], 0);
    } else {
        use(heaps[1], 0);
    }
}

/* --- dumps ------------------------------------------------------------------------------------ */

/* Prepares a state in which all paths but LATER and WAITING are cold. */
void evictions_marked(struct heap **of) {
    begin(of, 1);
    sweep();
    sweep();
    other_threads_come();
}

/* Thread 1 reads as a dump does: an eviction must not move figures between contexts while the dump
 * is read. */
void thread_evict_dump(unsigned id) {
    if (id == 0) {
        use(heaps[0], LATER);
        return;
    }
    store_release(&tree_read_until_ns, UINT64_MAX);
    lock_take(&heap_global.lock); /* waits for the end of an eviction that had begun */
    lock_release(&heap_global.lock);
    int64_t allocs = 0;
    for (uint32_t count = tree_count(), i = 1; i <= count - TREE_FIXED_COUNT; i++) {
        uint32_t node = count - i;
        for (unsigned site = 0; site < GROUP; site++)
            if (!tree_is_gone(node) && tree_node(node)->address == site_at[site])
                allocs += sums_of(node).allocs;
    }
    model_check(allocs == GROUP, "a dump does not count all allocations of the group");
    store_release(&tree_read_until_ns, 0);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Prepares a state in which all cold paths are evicted, but their nodes are still in the tree. */
void evictions_empty_nodes(struct heap **of) {
    begin(of, 1);
    sweep();
    sweep();
    evict_own(heaps[0]);
    model_check(load_relaxed(&evict_views_all) > GROUP, "a cold path was not evicted");
    other_threads_come();
}

/* The first sweep unlinks the nodes, the second one removes them, unless a look-up of thread 0 or 1
 * uses them. */
void thread_evict_nodes(unsigned id) {
    if (id == 2) {
        sweep();
        sweep();
        fill_tables_to(ROOMY_PARTS); /* from now on a new path gets nodes at once */
    } else if (id == 1) {
        put(heaps[1], 2, WAITING);
        put(heaps[1], 1, DEEP);
    } else {
        put(heaps[0], 0, 0);
        use(heaps[0], 1);
    }
}

/* --- lists of children ------------------------------------------------------------------------ */

enum { CHILDREN = TREE_INLINE_CHILDREN + 2 };
static uint32_t parent, children[CHILDREN];

static struct tree_frame child_frame(unsigned which) {
    return (struct tree_frame){.address = 0x9000 + which * 8, .module = MODULE_NONE};
}

void evictions_children(struct heap **of) {
    heaps = of;
    parent = tree_child(TREE_ROOT, (struct tree_frame){.address = 0x8000, .module = MODULE_NONE},
                        TABLES_UNCOUNTED);
    for (unsigned i = 0; i < CHILDREN; i++)
        children[i] = tree_child(parent, child_frame(i), TABLES_UNCOUNTED);
}

/* Thread 1 takes each child but the last out of the list and puts it back. Thread 0 must always
 * find the last child. */
void thread_evict_children(unsigned id) {
    for (unsigned i = 0; i + 1 < CHILDREN; i++) {
        if (!id) {
            model_check(tree_find(parent, child_frame(CHILDREN - 1)) == children[CHILDREN - 1],
                        "a child that stayed was not found");
            continue;
        }
        lock_take(&tree_lock);
        model_check(tree_unlink(children[i]), "a child could not be taken out");
        lock_release(&tree_lock);
        model_check(!tree_find(parent, child_frame(i)), "a child that left was found");
        lock_take(&tree_lock);
        model_check(tree_link(children[i]), "a child could not be put back");
        lock_release(&tree_lock);
        model_check(tree_find(parent, child_frame(i)) == children[i], "a child was not found");
    }
}

/* --- heaps without a thread ------------------------------------------------------------------- */

static void end_thread(struct heap *heap) {
    context_forget(heap);
    heap_park(heap);
}

/* Two heaps, one of them parked. The count of parked heaps is raised so that a heap that is parked
 * keeps no cache. */
void evictions_parked(struct heap **of) {
    begin(of, 2);
    heap_global.parked += 8;
    end_thread(heaps[1]);
    sweep();
    other_threads_come();
}

/* Thread 0 ends while thread 1 starts, uses a path and ends, and thread 2 sweeps. */
void thread_evict_parked(unsigned id) {
    if (id == 2) {
        sweep();
        sweep();
    } else if (id == 0) {
        end_thread(heaps[0]);
    } else {
        struct heap *heap = heap_acquire(os_thread_id(), false);
        model_check(heap && heap != heaps[2], "a heap with two owners");
        context_thread_changes(heap);
        use(heap, 0);
        end_thread(heap);
    }
}

enum { MORE_VIEWS = 96 }; /* in addition to the views of a heap that the budget does not count */

/* The second heap has more views than the budget leaves uncounted, and its thread ended while a
 * chunk of the deep path was alive. The tables are above their limit, so a sweep moves the figures
 * of the heap's views to the totals. */
void evictions_folded(struct heap **of) {
    begin(of, 2);
    fill_tables_to(ROOMY_PARTS);
    for (uint32_t i = 0; i < MORE_VIEWS; i++) {
        struct tree_frame frame = {.address = 0xa000 + i * 8, .module = MODULE_NONE};
        heap_view(heaps[1], tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED));
    }
    put(heaps[1], 0, DEEP);
    end_thread(heaps[1]);
    fill_tables_to(TABLES_PARTS + 1);
    model_time_passes(LONG_NS);
}

/* A sweep drops views of the ended thread while another thread frees its chunk. The chunk's view
 * must stay. */
void thread_evict_folded(unsigned id) {
    if (!id) {
        evict_sweep();
        return;
    }
    use(heaps[0], 0);
    give(heaps[0], 0);
}

void check_folded(void) {
    model_check(heaps[1]->views_dropped, "no view of the ended thread was dropped");
    check_evictions();
}

/* --- sleeping threads ------------------------------------------------------------------------- */

static void enter(struct heap *heap) {
    store_owner(&heap->busy, 1);
}

static void leave(struct heap *heap) {
    store_owner(&heap->busy, 0);
}

/* The tables are above their limit. Path 0 has a trace in the first heap. A chunk of the cold path
 * DEEP is alive in the second heap, and each heap knows the twin of the other's view. */
void evictions_sleeping(struct heap **of) {
    begin(of, 2);
    swap_frees();
    put(heaps[1], 2, DEEP);
    evicted_least = 1;
    for (int i = 0; i < 3; i++)
        use(heaps[0], 0);
    fill_tables_to(TABLES_PARTS + 1);
    model_time_passes(LONG_NS);
}

/* Thread 0 sweeps and visits heaps whose threads are outside the allocator. Thread 1 works with the
 * first heap: it uses path 0, which has a trace, and frees a chunk of the second heap. */
void thread_evict_sleeping(unsigned id) {
    if (!id) {
        evict_sweep();
        return;
    }
    enter(heaps[0]);
    use(heaps[0], 0);
    leave(heaps[0]);
    enter(heaps[0]);
    give(heaps[0], 2);
    leave(heaps[0]);
}

/* --- without a control thread ----------------------------------------------------------------- */

/* Both threads ask for sweeps and let the pause between two sweeps pass. As no control thread
 * sweeps, the thread that looks up a path next sweeps. */
void thread_evict_alone(unsigned id) {
    for (unsigned i = 0; i < 2; i++) {
        want();
        model_time_passes(LONG_NS);
        evict_want();
        use(heaps[id], id);
    }
}
