/* SPDX-License-Identifier: MIT */
/*
 * internal.h - shared by the files that evict call paths or visit heaps: evict.c (the owner of
 * views), sweep.c (which contexts are cold), visit.c (heaps of other threads), holes.c and
 * collect.c. evict.h explains how call paths are evicted.
 *
 * All functions need heap_global.lock, unless their comment says otherwise.
 */
#ifndef MEMCTX_CONTEXT_INTERNAL_H
#define MEMCTX_CONTEXT_INTERNAL_H

#include "context/evict.h"
#include "region/heap.h"

/* To find out whether chunks of a view's context are alive, all heaps are read. This is the most
 * heaps that are read for all views of one heap together. */
#define PROBES_MAX (1U << 18)

/* --- views and contexts (evict.c) ------------------------------------------------------------- */

/* True if the thread freed as many chunks and bytes in the context as it allocated there, and the
 * context has no pages of its own in the heap. Any thread, without a lock. */
INLINE bool evict_is_at_rest(const struct view *view) {
    return load_relaxed(&view->frees) == load_relaxed(&view->allocs) &&
           load_relaxed(&view->freed_cum_bytes) == load_relaxed(&view->requested_cum_bytes) &&
           !view->region;
}

/* True if the context must stay: it is named, marked, placed, or a rule holds for it. */
bool evict_is_pinned(uint32_t id);
/* Returns the node [other callers] that is at most SITE_FRAMES above the context, else 0. */
uint32_t evict_others_above(uint32_t id);
/* Evicts the heap's views of cold contexts: moves their figures to views of heap `to`. The caller
 * may write both heaps. `probes`: how many heaps may still be read to find out whether chunks are
 * alive; NULL: asks visit_none_is_alive instead. Returns the number of views moved. */
uint32_t evict_views(struct heap *heap, struct heap *to, uint32_t *probes);
/* Moves the figures of a parked heap's views at rest to heap `totals`, so that a context with views
 * in many parked heaps needs only one view. The contexts stay in the tree. The caller holds the
 * heap's lock. */
void evict_fold_rested(struct heap *heap, struct heap *totals);

/* --- sweeps (sweep.c) ------------------------------------------------------------------------- */

/* Atomic: how many sweeps in a row found the tables above their limit. */
INTERNAL uint32_t sweeps_over_limit;
/* Sweeps if a sweep is due. `alone`: the caller is a thread of the program, because no control
 * thread sweeps. The caller does not hold heap_global.lock. */
void sweep_if_wanted(bool alone);

/* --- heaps of other threads (visit.c) --------------------------------------------------------- */

/* True for the heap of totals, and for a parked heap whose caches were given back: no thread uses
 * the heap's views, and no cache leads to them. */
bool visit_heap_is_idle(struct heap *heap);
/* Evicts cold views of heap_global.totals and of heaps without a thread. With `now`, these heaps
 * lose their caches, and views of parked heaps move to the totals (evict_fold_rested). The shared
 * heap then counts as a heap without a thread, because its lock keeps all threads out. */
void visit_idle(bool now);
/* Takes all caches, and with `views` cold views, from the heaps of threads that are outside the
 * allocator. The caller holds no other lock and owns no heap. */
void visit_sleeping(bool views);
/* Begins a visit of one heap with an owner: makes the owner wait at heap_await. True: the owner is
 * outside the allocator, and will wait. The caller holds heap_global.lock, and calls visit_end in
 * either case. */
bool visit_begin(struct heap *heap);
/* For a visitor that has set a flag in pages of the heap: a second barrier. True: the owner is
 * outside the allocator, so that it will see the flag. */
bool visit_owner_is_outside(const struct heap *heap);
void visit_end(struct heap *heap);
/* True if the last count of live chunks (find_alive in visit.c) found no chunk of the context.
 * False: it found some, or there was no count. */
bool visit_none_is_alive(uint32_t id);
/* Gives back the memory in which find_alive counted live chunks. */
void visit_forget_alive(void);

#endif
