/* SPDX-License-Identifier: MIT */
/* Evicts the views of cold contexts, and chooses the ancestor and the site that get their figures;
 * see evict.h. */
#include "context/admit.h"
#include "context/internal.h"
#include "context/replay.h"
#include "context/tree.h"
#include "region/punch.h"

uint32_t evict_round, evict_alone;
uint64_t evict_views_all;

bool evict_is_pinned(uint32_t id) {
    return tree_is_named(id) || tree_node(id)->flags & TREE_MARKED ||
           heap_leaf_byte(heap_placed, id) & ~TRIM_MARK ||
           (UNLIKELY(tree_is_ruled != NULL) && tree_is_ruled(id));
}

uint32_t evict_others_above(uint32_t id) {
    for (unsigned i = 0; i <= SITE_FRAMES && id >= TREE_FIXED_COUNT; i++) {
        if (tree_node(id)->module == MODULE_OTHERS)
            return id;
        id = tree_node(id)->parent;
    }
    return 0;
}

/* Returns how many nodes stand between the context and the root, and counts the context, too. */
static unsigned nodes_above(uint32_t id) {
    unsigned count = 0;
    for (; id >= TREE_FIXED_COUNT; id = tree_node(id)->parent)
        count++;
    return count;
}

/* If `at` is a fixed node, such as [no unwind information], returns the root, and flags `at`
 * TREE_PARTIAL unless it is the root itself. Returns any other node as it is. */
static uint32_t out_of_fixed(uint32_t at) {
    if (at >= TREE_FIXED_COUNT)
        return at;
    if (at != TREE_ROOT)
        tree_flag(at, TREE_PARTIAL);
    return TREE_ROOT;
}

/* Returns the ancestor whose sites get the figures of an evicted context: the nearest one that is
 * not cold. If that ancestor is the context's parent, a site below the parent would free nothing,
 * because it would be as large as the context. So another ancestor is taken: the one that is
 * NEAR_ROOT nodes from the root. If the parent is at most NEAR_ROOT nodes from the root, the root
 * is taken. All nodes between the context and the returned ancestor become TREE_PARTIAL. If the
 * context is a site, the parent of its [other callers] takes the parent's role. */
static uint32_t ancestor_for(uint32_t id) {
    uint32_t others = evict_others_above(id), parent = tree_node(others ? others : id)->parent;
    uint32_t at = parent;
    for (; at >= TREE_FIXED_COUNT && tree_node(at)->flags & TREE_COLD; at = tree_node(at)->parent)
        if (tree_node(at)->module != MODULE_OTHERS)
            tree_flag(at, TREE_PARTIAL);
    if (at != parent)
        return at;
    unsigned depth = nodes_above(at), stay = depth > NEAR_ROOT ? NEAR_ROOT : 0;
    for (; depth > stay; depth--) {
        if (tree_node(at)->module != MODULE_OTHERS)
            tree_flag(at, TREE_PARTIAL);
        at = tree_node(at)->parent;
    }
    return out_of_fixed(at);
}

/* Returns the share of the tables' budget for sites of evicted paths. While the tables apart from
 * traces are within TABLES_ADMITTED, a site is always made, even if traces must make room. */
static enum tables_share site_share(void) {
    return tables_are_past(TABLES_ADMITTED) ? TABLES_NEAR : TABLES_MUST;
}

/* Returns the child of `parent` for the frame of node `id`, as tree_child does. */
static uint32_t child_like(uint32_t parent, uint32_t id, enum tables_share share) {
    const struct tree_node *node = tree_node(id);
    return tree_child(parent, (struct tree_frame){node->address, node->module, node->exact}, share);
}

/* Returns this heap's view of the child of `parent` for the context's frame. NULL: there is no
 * room, the context itself is this child, or `parent` is 0. */
static struct view *view_below(struct heap *heap, uint32_t parent, uint32_t id,
                               enum tables_share share) {
    uint32_t node = parent ? child_like(parent, id, share) : 0;
    return node && node != id ? heap_view_within(heap, node, share) : NULL;
}

/* Returns this heap's view of the context's site below [other callers] of `ancestor`, and makes the
 * site if it is missing. NULL: there is no room, or the context itself is this site. */
static struct view *site_for(struct heap *heap, uint32_t id, uint32_t ancestor,
                             enum tables_share share) {
    uint32_t caller = tree_node(id)->parent, node = tree_others(ancestor, share);
    if (node && caller >= TREE_FIXED_COUNT && tree_node(caller)->module != MODULE_OTHERS)
        node = child_like(node, caller, share);
    return view_below(heap, node, id, share);
}

#define OVER_PATIENCE 8 /* sweeps in a row that found the tables above their limit */
/* new sites may take this many bytes more than evictions have freed so far, but no more than the
 * part of the limit that is kept for requests that cannot be refused */
#define SITES_BEFOREHAND (32 << 10)

/* Called when site_for found no room. Takes a site below an ancestor further out if there is one,
 * else a site below [other callers] of the process. Past TABLES_SITE, a new site of the process is
 * made only out of bytes that evictions have freed: `used_bytes` is the number of bytes that the
 * tables held before the evictions. If more than OVER_PATIENCE sweeps in a row found the tables
 * above their limit, the figures go to a site with one frame, or to [other callers] of the process
 * itself. NULL: the figures cannot go anywhere yet. */
static struct view *site_of_outer_ancestor(struct heap *heap, uint32_t id, uint32_t ancestor,
                                           int64_t used_bytes) {
    uint32_t at = ancestor;
    for (; at >= TREE_FIXED_COUNT; at = tree_node(at)->parent) {
        struct view *site = site_for(heap, id, at, TABLES_NEAR);
        if (site)
            return site;
        if (tree_node(at)->module != MODULE_OTHERS)
            tree_flag(at, TREE_PARTIAL);
    }
    out_of_fixed(at);
    int64_t reserve = tables_reserve(load_relaxed(&tables_limit_known));
    int64_t beforehand = reserve < SITES_BEFOREHAND ? reserve : SITES_BEFOREHAND;
    bool may = load_relaxed(&tables_used_bytes) < used_bytes + beforehand;
    struct view *site = site_for(heap, id, TREE_ROOT, TABLES_SITE);
    /* With a small limit TABLES_STACK takes the place of TABLES_MUST, with which a hash table that
     * doubles could pass the limit. */
    if (!site && may)
        site =
            site_for(heap, id, TREE_ROOT, reserve < SITES_BEFOREHAND ? TABLES_STACK : TABLES_MUST);
    if (site || load_relaxed(&sweeps_over_limit) <= OVER_PATIENCE)
        return site;
    site = view_below(heap, TREE_OTHERS, id, TABLES_STACK);
    return site ? site : heap_view_within(heap, TREE_OTHERS, TABLES_MUST);
}

/* True if no chunk of the context is alive in any heap. The freed counts are read before the
 * allocated ones, so if both sums are equal, no chunk was alive between the readings. The heap's
 * own view is at rest and does not change meanwhile, so it is left out. *probes is the number of
 * heaps that may still be read; if there are more heaps, the answer is false. `probes` NULL:
 * visit_none_is_alive answers. */
static bool none_is_alive(struct heap *heap, uint32_t id, uint32_t *probes) {
    uint64_t frees = 0, allocs = 0;
    const struct view *view;
    if (!probes)
        return visit_none_is_alive(id);
    if (*probes < heap_global.heaps)
        return false;
    *probes -= heap_global.heaps;
    heap_read_begin();
    struct heap_views walk = heap_views_of(id);
    while ((view = heap_views_next(&walk)))
        frees += walk.heap == heap ? 0 : load_acquire(&view->frees);
    walk = heap_views_of(id);
    while ((view = heap_views_next(&walk)))
        allocs += walk.heap == heap ? 0 : load_acquire(&view->allocs);
    heap_read_end();
    return frees == allocs;
}

/* True if the view may be dropped: it takes blocks only from the heap's mixed pages, no chunk of
 * its context is alive (so no block's record names the view), and the context is not pinned. */
static bool may_drop(struct heap *heap, const struct view *view, uint32_t *probes) {
    uint32_t id = view->context;
    return id >= TREE_FIXED_COUNT && !view->region &&
           (view->bins == &heap->mixed || view->bins == &heap_no_bins) && !evict_is_pinned(id) &&
           none_is_alive(heap, id, probes);
}

/* True if the view's context is cold and the view may be evicted. */
static bool may_go(struct heap *heap, const struct view *view, uint32_t *probes) {
    return view->context >= TREE_FIXED_COUNT && tree_node(view->context)->flags & TREE_COLD &&
           evict_is_at_rest(view) && may_drop(heap, view, probes);
}

/* Takes the views of contexts that have no live chunk in any heap. Moves their figures to the
 * totals, and drops the views. One view alone may have unequal counts of allocations and frees,
 * because one thread may have freed chunks of another. Stops when the heap's tables have only the
 * HEAP_TABLES_BYTES that the budget does not count, because to drop more would gain nothing. */
void evict_fold_rested(struct heap *heap, struct heap *totals) {
    bool any = false;
    for (uint32_t i = 1; i < heap->view_count && heap->table_bytes > HEAP_TABLES_BYTES;
         i = heap_view_after(heap, i)) {
        struct view *view = heap_view_at(heap, i), *sum = NULL;
        if (!may_drop(heap, view, NULL))
            continue;
        if (view->allocs || view->frees) {
            if (!(sum = heap_view_within(totals, view->context, TABLES_MUST)))
                continue;
            heap_fold(heap, view, totals, sum);
        }
        heap_view_drop(heap, view);
        any = true;
    }
    if (any)
        heap_views_dropped(heap);
}

uint32_t evict_views(struct heap *heap, struct heap *to, uint32_t *probes) {
    uint32_t count = 0, waiting = 0;
    int64_t used_bytes = load_relaxed(&tables_used_bytes);
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        struct view *view = heap_view_at(heap, i);
        uint32_t id = view->context;
        if (!may_go(heap, view, probes))
            continue;
        if (view->allocs || view->frees) {
            uint32_t ancestor = ancestor_for(id);
            struct view *site = site_for(to, id, ancestor, site_share());
            if (!site)
                site = site_of_outer_ancestor(to, id, ancestor, used_bytes);
            if (!site || site == view)
                continue;
            heap_fold(heap, view, to, site);
        }
        tree_flag(id, TREE_LATE);
        heap_view_drop(heap, view);
        count++;
        /* A dropped view takes one more slot when it is used again, until heap_views_dropped
         * writes the slots anew. */
        if (++waiting > (heap->slot_mask - (heap->view_count - heap->views_dropped)) / 2) {
            heap_views_dropped(heap);
            waiting = 0;
        }
    }
    if (count)
        heap_views_dropped(heap);
    add_relaxed(&evict_views_all, count);
    return count;
}

void evict_changed(struct heap *heap) {
    struct paths *paths = paths_of(heap);
    admit_forget(paths);
    admit_forget_known(paths);
    replay_forget(paths);
}

NOINLINE void evict_own(struct heap *heap) {
    if (UNLIKELY(load_relaxed(&evict_alone)) && exchange_relaxed(&evict_alone, 0))
        sweep_if_wanted(true);
    uint32_t round = load_relaxed(&evict_round), probes = PROBES_MAX;
    /* Only visit_idle evicts views of the shared heap. A thread that uses this heap only forgets
     * the ids of nodes. */
    if (load_relaxed(&heap->state) == HEAP_SHARED) {
        evict_changed(heap);
        heap->looked_at = round;
        return;
    }
    if (heap->looked_at == round || lock_any_is_mine() || !lock_try(&heap_global.lock))
        return;
    /* A dump that is being read would count moved figures twice. */
    if (load_relaxed(&heap->state) == HEAP_OWNED &&
        load_relaxed(&tree_read_until_ns) < os_now_exact_ns()) {
        evict_changed(heap);
        bool gone = evict_views(heap, heap, &probes);
        struct paths *paths = paths_of(heap);
        if (gone || paths->site_traced) { /* a path that had only a site may be in the tree now */
            paths->site_traced = false;
            cache_flush(paths);
        }
        if (gone)
            heap_forget_twins(heap);
        heap->looked_at = round;
    }
    lock_release(&heap_global.lock);
}
