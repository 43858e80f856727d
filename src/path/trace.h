/* SPDX-License-Identifier: MIT */
/*
 * trace.h - lays a walked stack out as a trace, for cache.c.
 *
 * A trace and its tails hold the words of the stack from the innermost one outwards (cache.h).
 * Tails are shared: each is found by a hash of its contents. If functions are folded, a trace may
 * be *folded*: the word of a frame that is in a folded function, and not on the path, may then be
 * any return address of the function whose rule makes the same step (struct trace_range).
 *
 * Threads: only the owner of the heap, as for cache.h.
 */
#ifndef MEMCTX_TRACE_H
#define MEMCTX_TRACE_H

#include "path/cache.h"

/* The words that a trace compares: the last `count` - 1 checks of the innermost frame, and the
 * innermost return address. They are numbered from the outermost on. */
struct trace_words {
    const struct stack *stack;
    uint32_t first, count;   /* number of the first check; number of words */
    struct stack_check last; /* the innermost return address */
    bool folded;
    uint32_t groups; /* number of groups of words; only if the trace is not folded */
    uint16_t starts[CACHE_GROUPS_MAX + 1]; /* number of each group's first word; then `count` */
    /* a bit for each frame that is in a folded function and not on the path; only if the trace is
     * folded */
    uint64_t erased[STACK_FRAMES_MAX / 64];
    uint32_t frame; /* the frame from which on next_range looks for a word's frame */
    /* number of words, or of groups, that the tails have which are laid out so far; and the
     * innermost of these tails */
    uint32_t laid;
    struct trace_tail *tail;
};

/* Finds the words of the walked stack, from check `first` on. `may_fold`: the trace may be folded.
 * False: there can be no trace. */
bool trace_begin(struct trace_words *words, const struct stack *stack, uint32_t first,
                 bool may_fold);
/* Writes the words into the trace's ranges or groups, and into tails. False: there is no room; the
 * trace is unchanged. The caller may make room and call the function again, which goes on where it
 * ended, or calls trace_end. */
bool trace_lay_out(struct paths *paths, struct trace *trace, struct trace_words *words);
/* Drops the tails of a trace that found no room. */
void trace_end(struct paths *paths, struct trace_words *words);
/* Takes the trace's tail away. */
void trace_give_up_tail(struct paths *paths, struct trace *trace);
/* Gives all blocks with tails back. No trace may have a tail afterwards. */
void trace_free_tails(struct paths *paths);

/* Returns the list of tails with this hash in tables for `room` traces. The lists stand behind the
 * places. */
INLINE struct trace_tail **tail_list(struct trace_place *places, uint32_t room, uint32_t hash) {
    return (struct trace_tail **)(void *)(places + 2UL * room) + (hash & (room - 1));
}

#endif
