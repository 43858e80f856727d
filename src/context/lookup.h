/* SPDX-License-Identifier: MIT */
/*
 * lookup.h - from a call of malloc to the view that pays for it.
 *
 * context_view: about one compare a frame when the path is cached. Misses walk the stack, find the
 * path's node in the tree and keep the trace. Only the owner of the heap calls these.
 */
#ifndef MEMCTX_LOOKUP_H
#define MEMCTX_LOOKUP_H

#include "base/options.h"
#include "context/admit.h"
#include "context/replay.h"

/* Never NULL once it returned a view for this heap; NULL: no memory for a first view. `frame` is
 * the frame pointer of the exported function, `size` what it was asked for. */
struct view *context_view_slow(struct heap *heap, uintptr_t frame, size_t size);

/* NULL: the first guess is wrong. */
INLINE struct view *context_find(struct heap *heap, uintptr_t frame) {
    return cache_find(paths_of(heap), frame);
}

/* One allocation in so many of those that take longer has the next one timed, which may be of any kind. */
#define CONTEXT_TIMED_EVERY 16U

INLINE struct view *context_view(struct heap *heap, uintptr_t frame, size_t size) {
    struct view *view = context_find(heap, frame);
    return LIKELY(view != NULL) ? view : context_view_slow(heap, frame, size);
}

/* For an allocation that must not walk: a signal handler inside the allocator. */
struct view *context_view_fixed(struct heap *heap, uint32_t fixed_context);
/* From now on this view pays for all that its thread allocates, whatever the path; NULL: no more. */
void context_switch(struct heap *heap, struct view *view);
struct view *context_switched(struct heap *heap); /* NULL: none does */
/* Who pays for a chunk when its size changes, where there are named contexts: the one that it is in stays, so that it lives
 * as long as that; and while the thread is switched to one, what is in none stays where it is. */
struct view *context_view_kept(struct heap *heap, const void *chunk, uintptr_t frame, size_t size);
/* In a forked child: the cache is only read for a while. */
void context_fork_child(struct heap *heap);
/* Another thread uses the heap: what is known of the stack is of the last one's. */
void context_thread_changes(struct heap *heap);
/* The thread is gone: its cache is given back. */
void context_forget(struct heap *heap);
/* True when no frame of the current stack but the outermost few is in libc or the loader, so
 * that a thread may be started from here. */
bool context_outside_libc(struct heap *heap, uintptr_t frame);

/* True: this allocation, whose look-up begins, is to be timed; context_time_ends says how long it took. */
INLINE bool context_is_timed(struct heap *heap) {
    return UNLIKELY(paths_of(heap)->timing);
}
struct context_timing {
    struct paths *paths;
    uint64_t begun_ns, searched, walked;
    int64_t clock_ns; /* what reading the clock takes */
};
void context_time_next(struct paths *paths);
INLINE void context_time_soon(struct heap *heap) {
    if (UNLIKELY(!(++paths_of(heap)->timing_wait % CONTEXT_TIMED_EVERY)))
        context_time_next(paths_of(heap));
}
struct context_timing context_time_begins(struct heap *heap);
void context_time_ends(const struct context_timing *timing);

struct lookup_counts { /* summed over heaps */
    uint64_t guessed, replayed, missed, flushed, walked_far, traces, trace_bytes;
    uint64_t timed_ns[PATH_KINDS], timed_count[PATH_KINDS];
};
struct lookup_counts context_counts(void);

#endif
