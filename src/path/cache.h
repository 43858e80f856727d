/* SPDX-License-Identifier: MIT */
/*
 * cache.h - call paths at allocation speed: verified traces of one thread.
 *
 * A *trace* is a walk that was made once: the words it read (offset from the stack pointer, value)
 * and the view that pays. Offsets and saved addresses are relative to the stack pointer, so one
 * trace serves a path at any stack depth and on any stack. A trace is used only after every one of
 * its words was compared with the stack, innermost first; words are read in the order in which a
 * walk would read them, so each read is as safe as the walk's.
 *
 * Finding it: a direct-mapped table by (return address, stack pointer) guesses the trace. Where the
 * guess differs from the stack at word k, traces form a tree (a radix tree whose edges are runs of
 * words): the table of branches, keyed by (trace that first had this prefix, k, word seen), gives
 * the trace that continues with that word, and comparing goes on from k + 1. A missing branch is
 * a miss; the new trace forks there.
 *
 * Owned by one heap's thread; no locks, no atomics but the statistics.
 */
#ifndef MEMCTX_CACHE_H
#define MEMCTX_CACHE_H

#include "path/walk.h"

#define CACHE_FRONT 1024U
#define CACHE_BYTES_MAX (16UL << 20) /* of traces, a thread; past that it starts anew */

struct view;

struct trace {
    struct view *view;
    struct trace *parent; /* shares the words before fork_at; NULL: a new root */
    uint32_t fork_at, count;
    /* count values, then count offsets */
    uint64_t values[];
};

INLINE const int32_t *trace_offsets(const struct trace *trace) {
    return (const int32_t *)(trace->values + trace->count);
}

struct paths {
    uint32_t generation; /* of the rules that the traces were made with */
    uint32_t verify_left; /* cached paths until the next comparison with libunwind */
    struct view *fixed;  /* MEMCTX_DEPTH=0: everything is charged here */
    struct trace **branches; /* open addressing */
    uint32_t branch_mask, branch_count;
    char *arena_next, *arena_end;
    void *arena_chunks; /* list through their first word */
    uint64_t arena_bytes, trace_count;
    struct walk_stack stack;
    uint64_t searched, missed, flushed; /* owner-written statistics */
    struct trace *front[CACHE_FRONT];
};

INLINE unsigned cache_front_slot(uintptr_t address, uintptr_t sp) {
    return (unsigned)(((address ^ (sp << 7)) * 0x9e3779b97f4a7c15ULL) >> 54) % CACHE_FRONT;
}

/* The word of the stack that check k of the trace is about, as a trace keeps it. */
INLINE uint64_t trace_word(int32_t offset, uintptr_t sp) {
    uint64_t word = *(const volatile uint64_t *)(sp + (uintptr_t)(intptr_t)(offset & ~7));
    return offset & 1 ? word - sp : word;
}

/* The first check at or behind `from` that fails; trace->count: none. */
INLINE uint32_t trace_compare(const struct trace *trace, uintptr_t sp, uint32_t from) {
    const int32_t *offsets = trace_offsets(trace);
    uint32_t count = trace->count;
    while (from < count && trace_word(offsets[from], sp) == trace->values[from])
        from++;
    return from;
}

/* The trace of the stack at sp, or NULL; *near and *at then say where it leaves the known ones. */
struct trace *cache_search(struct paths *paths, uintptr_t address, uintptr_t sp,
                           struct trace **near, uint32_t *at);

/* The usual case: the guess is right. NULL: ask context_find_slow. */
INLINE struct view *cache_find(struct paths *paths, uintptr_t frame) {
    uintptr_t sp = frame + 16;
    uintptr_t address = *(const uintptr_t *)(frame + 8);
    if (UNLIKELY(paths->generation != load_relaxed(&rules_generation)))
        return NULL;
    if (UNLIKELY(paths->fixed != NULL))
        return paths->fixed;
    struct trace *trace = paths->front[cache_front_slot(address, sp)];
    if (UNLIKELY(!trace) || UNLIKELY(trace_compare(trace, sp, 0) != trace->count))
        return NULL;
    return trace->view;
}

/* Keeps a walk. `near` and `at` as cache_search left them. Out of memory: not kept. */
void cache_insert(struct paths *paths, const struct walk *walk, struct view *view, uintptr_t sp,
                  struct trace *near, uint32_t at);
struct paths *cache_create(void);
/* Empties it; the memory goes back to the library's own tables. */
void cache_flush(struct paths *paths);

#endif
