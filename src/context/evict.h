/* SPDX-License-Identifier: MIT */
/*
 * evict.h - removes call paths that are not used any more, to make room for new ones.
 *
 * While the tables have room for every path, nothing happens here. When paths that were seen
 * ADMIT_WEIGHT times (context/admit.h) get no nodes, a *sweep* adds up the allocations of every
 * context since the last sweep. The control thread sweeps; where that thread does not run, a thread
 * that looks up a path does. A sweep marks contexts TREE_COLD in which nothing is alive and nothing
 * was allocated since the last sweep, until enough bytes would come free. Contexts with few
 * allocations go first. Each thread then *evicts* its own views of these contexts: it moves their
 * figures to sites below [other callers] of an ancestor that stays (ancestor_for in evict.c). The
 * next sweep takes nodes without views and children out of the tree. A later sweep removes these
 * nodes, when no thread can know their ids any more.
 *
 * The limit falls when the program frees much, or when threads end. While the tables are above the
 * limit, the control thread sweeps without a request, and each context without a live chunk is cold
 * at once. The control thread then also *visits* the heaps of threads that are outside the
 * allocator, because a sleeping thread evicts nothing. A visit gives the heap's caches back and
 * moves the figures of its cold views to heap_totals. The visit sets heap->visited, closes the
 * owner's fast ways to a view (first guess, replay, one view for all paths), and makes all threads
 * pass a memory barrier. If the owner entered before, heap->busy is set, and the visit leaves the
 * heap alone. If the owner enters later, it finds the ways closed and waits at heap_await. Frees do
 * not wait, because a visit changes only views without a live chunk.
 *
 * What is exact afterwards: all sums, the figures of sites, and the live bytes of every context.
 * The earlier allocations of an evicted path are counted in [other callers]; the path's context is
 * marked TREE_LATE when it comes back.
 *
 * What cannot be evicted: a view with a live chunk; in the heap of a living thread, a view whose
 * chunks other threads freed, because those threads counted the frees in views of their own; a site
 * below [other callers] of the process; named contexts, contexts of rules, of marks, of the
 * recording, with a placement, or with pages of their own. While the tables are within their limit,
 * three more kinds stay: a context in which one thread made a large part of all allocations
 * (HISTORY_SHARE in sweep.c), views of the shared heap, and views of a thread that allocates no
 * more.
 *
 * Why ids are safe. A thread uses ids of nodes while it looks up a path, and keeps some for its
 * next look-up. A sweep takes nodes out of all lists, then increments evict_round, then reads
 * `looks` of every heap; `looks` is odd during a look-up. A look-up makes `looks` odd, then reads
 * evict_round, and forgets the ids of earlier look-ups if evict_round has changed. All threads see
 * these writes and reads in one order. So if the sweep does not see a look-up, the look-up begins
 * with the new round, and finds the node nowhere. A node is removed when every look-up that the
 * sweep saw is over, unless a thread gave the node a child or a view meanwhile. A thread's own view
 * protects the nodes of its path; only the owner evicts that view, or a visitor while the owner is
 * outside the allocator.
 *
 * Source: the clock algorithm of page replacement. Like that algorithm, a sweep marks a node first,
 * and a later sweep removes the node only if it was not used meanwhile.
 */
#ifndef MEMCTX_EVICT_H
#define MEMCTX_EVICT_H

#include "path/cache.h"

/* Atomic: counts the sweeps after which contexts are marked cold, nodes wait to be removed, or an
 * old table of children waits to be freed. */
INTERNAL uint32_t evict_round;
/* Atomic: true when a sweep is due that the control thread has not made in time: the next thread
 * that looks up a path sweeps. */
INTERNAL uint32_t evict_alone;
INTERNAL uint64_t evict_views_all; /* atomic: counts the views that were ever evicted */

/* Asks for a sweep: a path that was seen ADMIT_WEIGHT times got no nodes, a path of the tree got no
 * view, or the tables are full. A sweep becomes due when WANTED_LEAST (sweep.c) such requests have
 * come since the last sweep. Any thread. */
void evict_want(void);
/* Sweeps if a sweep was asked for, or if the tables are above their limit. The control thread calls
 * this function regularly. True: a sweep is still asked for. */
bool evict_sweep(void);
/* Gives back the caches of threads that are outside the allocator. The control thread calls this
 * function when a mark or a reset needs the room. */
void evict_caches(void);
/* Forgets the ids of nodes that the heap's earlier look-ups noted. The caller is the heap's owner,
 * or nobody uses the heap meanwhile. */
void evict_changed(struct heap *heap);
/* The owner calls evict_look_begins before a look-up that uses ids of nodes, and evict_look_ends
 * after it. */
INLINE void evict_look_begins(struct heap *heap) {
    /* `| 1` makes `looks` odd even if an earlier owner of the heap ended inside a look-up. */
    (void)exchange_full(&heap->looks, (heap->looks + 1) | 1);
    if (UNLIKELY(heap->looked_at != load_full(&evict_round)))
        evict_changed(heap);
}
INLINE void evict_look_ends(struct heap *heap) {
    store_release(&heap->looks, (heap->looks + 1) & ~1U);
}
/* Evicts the heap's views of contexts that are TREE_COLD, and sweeps before that if evict_alone is
 * set. The owner calls this before a look-up, while it keeps no pointer to a view, because a view
 * may be dropped. */
void evict_own(struct heap *heap);
INLINE void evict_look(struct heap *heap) {
    if (UNLIKELY(heap->looked_at != load_relaxed(&evict_round)) ||
        UNLIKELY(load_relaxed(&evict_alone)))
        evict_own(heap);
}

#endif
