/* SPDX-License-Identifier: MIT */
/*
 * internal.h - shared by the files that evict call paths or visit heaps: evict.c (the owner of
 * views), sweep.c (which contexts are cold), visit.c (heaps of other threads), holes.c, collect.c
 * and retire.c. evict.h explains how call paths are evicted.
 *
 * All functions need heap_global.lock, unless their comment says otherwise.
 */
#ifndef MEMCTX_CONTEXT_INTERNAL_H
#define MEMCTX_CONTEXT_INTERNAL_H

#include "context/evict.h"
#include "region/heap.h"

/* To find out whether a context has live chunks, its views in all heaps are read, so one context
 * costs as many probes as there are heaps. This is the greatest number of probes for the views of
 * one heap together. */
#define PROBES_MAX (1U << 18)

/* --- views and contexts (evict.c) ------------------------------------------------------------- */

/* True if the heap's thread freed as many chunks and bytes in the context as it allocated there,
 * and the context has no pages of its own in the heap. Any thread may call it, without a lock. */
INLINE bool evict_is_at_rest(const struct view *view) {
    return load_relaxed(&view->frees) == load_relaxed(&view->allocs) &&
           load_relaxed(&view->freed_cum_bytes) == load_relaxed(&view->requested_cum_bytes) &&
           !view->region;
}

/* True if the context must stay: it is named, marked, placed, or a rule holds for it. */
bool evict_is_pinned(uint32_t id);
/* Returns the node [other callers] that is the context itself or stands at most SITE_FRAMES nodes
 * above it. 0: there is none, or it is [other callers] of the process. */
uint32_t evict_others_above(uint32_t id);
/* Evicts the heap's views of cold contexts: moves their figures to views of heap `to`. The caller
 * may write both heaps. `probes`: how many probes (PROBES_MAX) are left; NULL: the last count of
 * live chunks tells instead (visit_none_is_alive). Returns the number of views evicted. */
uint32_t evict_views(struct heap *heap, struct heap *to, uint32_t *probes);
/* Moves the figures of a parked heap's views to heap `totals`, if their contexts have no live chunk
 * in any heap. A context with views in many parked heaps then needs only one view. The contexts
 * stay in the tree. The caller holds the heap's lock. */
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
bool visit_has_caches(struct heap *heap);
/* Gives back the caches of a heap that no thread uses meanwhile. */
void visit_end_caches(struct heap *heap);
/* Evicts cold views of heap_global.totals and of parked heaps that have no caches any more. With
 * `now`, all parked heaps lose their caches and their cold views, and their views of contexts
 * without live chunks move to the totals (evict_fold_rested). The shared heap then loses its caches
 * and cold views, too, because its lock keeps all threads out. */
void visit_idle(bool now);
/* Gives back the caches of threads that are outside the allocator, and with `views` evicts their
 * cold views. A thread that is inside the allocator evicts its views by itself, at its next
 * look-up. The caller holds no lock but heap_global.lock, and owns no heap. */
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
/* Calls `each` for the pages of a segment until `each` returns false; then returns false, too. For
 * segments that are not huge; in holes.c. Needs no lock but that of segment_each. */
bool visit_pages(struct segment *segment, bool (*each)(void *context, struct page *page),
                 void *context);

#endif
