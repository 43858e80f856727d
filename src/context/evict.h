/* SPDX-License-Identifier: MIT */
/*
 * evict.h - call paths that are not used any more make room for others.
 *
 * While the tables have room for every path nothing happens here. When a path that deserves its
 * nodes (context/admit.h) gets none, somebody adds up what every context allocated since the last
 * time: a *sweep*, by the control thread, or, where that does not come, by a thread that looks up a
 * path. Subtrees in which nothing was allocated since, and nothing is alive, are marked TREE_COLD
 * until enough bytes would come free. Each thread then moves its own views of these contexts to the
 * sites below [other callers] of the nearest ancestor that stays (*evicts* them). Nodes without
 * views and children are taken out of the tree by the next sweep, and removed by a later one, when
 * no thread can know their ids any more.
 *
 * What is exact afterwards: all sums, the figures of sites, live bytes of every context. What an
 * evicted path had allocated before is in [other callers]; its context is marked TREE_LATE when it
 * comes back.
 *
 * What cannot be evicted: a view with a chunk that is alive, or whose chunks other threads freed,
 * so that it alone does not come to zero; what made a large part of all allocations; contexts of
 * rules, of marks, with a placement, with pages of their own; views of the shared heap, and of a
 * thread that allocates no more.
 *
 * Why ids are safe. A thread uses ids of nodes while it looks up a path, and keeps some for the
 * next time. A sweep takes nodes out of all lists, then adds to evict_round, then reads `looks` of
 * every heap, which is odd during a look-up. A look-up makes `looks` odd, then reads evict_round,
 * and forgets the ids of earlier ones when that has changed. Both are in one order for all threads,
 * so a look-up that is not seen begins with the new round and finds the node nowhere. A node is
 * removed when every look-up that was seen is over, and if nobody gave it a child or a view
 * meanwhile. A thread's own view protects the nodes of its path, and only the owner takes that
 * away.
 *
 * Source: the second look before something goes is the clock algorithm's.
 */
#ifndef MEMCTX_EVICT_H
#define MEMCTX_EVICT_H

#include "path/cache.h"

INTERNAL uint32_t evict_round;     /* atomic: of sweeps that marked contexts, or took nodes out */
INTERNAL uint32_t evict_alone;     /* atomic: the next thread that looks up a path is to sweep */
INTERNAL uint64_t evict_views_all; /* atomic: views that were evicted, ever */

/* A path gets no nodes that it deserves. */
void evict_want(void);
/* For the control thread, now and then: a sweep, when one is wanted. */
void evict_sweep(void);
/* Before and after a look-up uses ids of nodes; the owner. */
void evict_changed(struct heap *heap);
INLINE void evict_look_begins(struct heap *heap) {
    /* Odd whatever it was: a thread may have ended inside a look-up. */
    (void)exchange_full(&heap->looks, (heap->looks + 1) | 1);
    if (UNLIKELY(heap->looked_at != load_full(&evict_round)))
        evict_changed(heap);
}
INLINE void evict_look_ends(struct heap *heap) {
    store_release(&heap->looks, (heap->looks + 1) & ~1U);
}
/* Before a look-up, while the owner holds no view: evicts what is marked. */
void evict_own(struct heap *heap);
INLINE void evict_look(struct heap *heap) {
    if (UNLIKELY(heap->looked_at != load_relaxed(&evict_round)) ||
        UNLIKELY(load_relaxed(&evict_alone)))
        evict_own(heap);
}

#endif
