/* SPDX-License-Identifier: MIT */
/*
 * lookup.h - finds the view that pays for a call of malloc.
 *
 * For a cached path the search costs about one compare for each frame. On a miss the search walks
 * the stack, finds the path's node in the tree and may keep a trace. Only the owner of the heap
 * calls these functions. The control thread calls context_counts, and so does the thread that
 * prints statistics at exit.
 */
#ifndef MEMCTX_LOOKUP_H
#define MEMCTX_LOOKUP_H

#include "base/options.h"
#include "context/admit.h"
#include "context/replay.h"

/* Every function here that takes a heap may wait for a visitor of the heap (context/evict.h),
 * except context_switched, context_fork_child, context_is_timed and context_time_soon. */

/* Finds the view when the first guess failed. `frame` is the frame pointer of the exported
 * function, `size` the requested size. Returns NULL only while there is no memory for the heap's
 * first view; once it has returned a view for a heap, it never returns NULL for that heap. */
struct view *context_view_searched(struct heap *heap, uintptr_t frame, size_t size);

/* Each time context_time_soon was called this many times for a heap, the heap's next allocation is
 * timed. Callers: look-ups that search the traces or walk the stack, and allocations whose page is
 * used up. */
#define CONTEXT_TIMED_EVERY 16U

/* Returns the heap's view of a fixed context (enum tree_fixed), whatever the budget of the tables,
 * and makes the view if it is missing. The heap's first view is always made for [unknown]. NULL:
 * out of memory. */
struct view *context_view_fixed(struct heap *heap, uint32_t fixed_context);
/* From now on this view pays for everything that the heap's thread allocates, whatever the path.
 * NULL: each path pays for itself again. */
void context_switch(struct heap *heap, struct view *view);
struct view *context_switched(struct heap *heap); /* NULL: the thread is not switched to a view */
/* For a forked child: its first look-ups put no new traces into the cache. */
void context_fork_child(struct heap *heap);
/* Forgets the stack as it was last walked, because another thread, with another stack, uses the
 * heap from now on. */
void context_thread_changes(struct heap *heap);
/* Gives back the cache of a thread that ended. A few parked heaps keep their first tables of traces
 * for the next thread (PARKED_READY). */
void context_forget(struct heap *heap);

/* True if the allocation whose look-up begins is to be timed; context_time_ends records its
 * time. */
INLINE bool context_is_timed(struct heap *heap) {
    return UNLIKELY(paths_of(heap)->timing);
}
struct context_timing {
    struct paths *paths;
    /* The time, the number of searches and the number of walks when the allocation began. */
    uint64_t begun_ns, searched, walked;
    int64_t clock_ns; /* time that reading the clock takes */
};
/* Lets the heap's next allocation be timed. */
void context_time_next(struct paths *paths);
INLINE void context_time_soon(struct heap *heap) {
    if (UNLIKELY(!(++paths_of(heap)->timing_wait % CONTEXT_TIMED_EVERY)))
        context_time_next(paths_of(heap));
}
struct context_timing context_time_begins(struct heap *heap);
void context_time_ends(const struct context_timing *timing);

struct lookup_counts { /* sums over all heaps */
    uint64_t guessed, replayed, missed, flushed, walked_far, traces, trace_bytes;
    uint64_t timed_ns[PATH_KINDS], timed_count[PATH_KINDS];
};
struct lookup_counts context_counts(void);

#endif
