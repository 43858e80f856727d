/* SPDX-License-Identifier: MIT */
/*
 * cache.h - call paths at allocation speed: traces of one thread, verified at every use.
 *
 * A *trace* is what a walk read: words of the stack at fixed distances outwards from our own frame
 * pointer, and the view that pays for the path. A table guesses the trace; it is used only when every word is on the
 * stack again, compared innermost first, which is the order in which a walk would read them: each
 * read is as safe as the walk's. The first guess is the trace that followed the last one before: it
 * is at hand at once, where a hash of the stack would have to be waited for. The second is by the stack
 * pointer and the innermost four return addresses; where the outer ones stand is remembered for each
 * inner one (frames mostly have one size at one call), and read only within the known part of the
 * stack. Where that trace is wrong at word k, the next guess is by (slot, k, the word that is there),
 * and so on: paths that begin alike are told apart by the words in which they differ. When the guesses
 * end the stack is walked (stack.h), which costs only the frames that changed since the last walk.
 *
 * A trace is made of a path only when it was missed at its slot twice in a row, so that a program with
 * ever new paths, or a child that soon ends, does not spend its time on making traces. The table doubles
 * when half full, up to CACHE_SLOTS_MAX.
 *
 * Owned by one heap's thread; its memory is bounded by CACHE_SLOTS_MAX traces.
 */
#ifndef MEMCTX_CACHE_H
#define MEMCTX_CACHE_H

#include "path/stack.h"

#define CACHE_BITS_FIRST 8U
#define CACHE_BITS_MAX 13U
#define CACHE_GUESSES_MAX 6
#define CACHE_HINTS 1024U
#define CACHE_HINT_MAX 1024U /* words; larger frames are not guessed over */
#define CACHE_WORTH_MAX 1024
#define CACHE_PROBE_EVERY 32U
#define CACHE_PROBES_TO_WIN 4

struct view;

struct trace_checks { /* together, so that they are read in order */
    uint64_t value[4];
    uint32_t word[4]; /* where: words outwards from the exported function's frame pointer */
};

struct trace {
    struct view *view;
    uintptr_t sp;
    uint64_t hash;         /* of the guess that led here */
    uint32_t count, bytes; /* groups of checks; memory of the trace */
    struct trace_checks checks[];
};

struct slot {
    struct trace *trace;  /* NULL: none */
    uint32_t next;        /* the slot that was used after this one */
    uint32_t missed_view; /* what the last miss here found */
};

/* Where the next two return addresses outwards of one stand, in words from it; 0: not known.
 * first <= second. */
struct hint {
    uint16_t first, second;
};

struct paths {
    uint32_t fast_generation; /* generation, or 0 to send every look-up to the slow path */
    uint32_t generation;      /* of the rules that all this was made with */
    uint32_t slot_shift;      /* 64 - bits of the table's index */
    uint32_t verify_left;     /* cached paths until the next comparison with libunwind */
    uint32_t last;            /* slot that was used last */
    struct slot *slots;
    struct view *fixed; /* MEMCTX_DEPTH=0: everything is charged here */
    int32_t credit; /* what further guesses have earned; below 0 most look-ups do without them */
    int32_t worth;  /* what the table has earned; at 0 most look-ups go straight to the walk */
    int32_t
        probes_won; /* while they do: of those that did not, how many more were hits than misses */
    uint32_t probe_left; /* look-ups until the next that does not; 0: the table is in use */
    uint64_t guessed, missed, flushed; /* statistics: found by hash; walked; emptied */
    uint64_t trace_count, trace_bytes;
    uint32_t walked_view; /* index of the view that the last walk led to; 0: none */
    uint32_t nodes_valid; /* frames of the stack, from the outermost, whose node is right */
    struct stack stack;
    struct hint hints[CACHE_HINTS]; /* by return address */
};

#define TRACE_DIFFERS(i) UNLIKELY(words[checks->word[i]] != checks->value[i])

INLINE bool trace_matches(const struct trace *trace, const volatile uint64_t *words) {
    const struct trace_checks *checks = trace->checks;
    for (uint32_t left = trace->count; left; left--, checks++)
        if (TRACE_DIFFERS(0) || TRACE_DIFFERS(1) || TRACE_DIFFERS(2) || TRACE_DIFFERS(3))
            return false;
    return true;
}

/* The usual case: the first guess is right. NULL: the path must be looked up. */
INLINE struct view *cache_find(struct paths *paths, uintptr_t frame) {
    if (UNLIKELY(paths->fast_generation != load_relaxed(&rules_generation)))
        return NULL;
    if (UNLIKELY(paths->fixed != NULL))
        return paths->fixed;
    uint32_t next = paths->slots[paths->last].next;
    const struct trace *trace = paths->slots[next].trace;
    if (UNLIKELY(!trace) || UNLIKELY(trace->sp != frame + 16) ||
        UNLIKELY(!trace_matches(trace, (const uint64_t *)frame)))
        return NULL;
    paths->last = next;
    return trace->view;
}

/* Where paths are ever new the table only costs. When its misses outweigh its hits long enough,
 * look-ups walk at once, but for one in CACHE_PROBE_EVERY, which finds out whether that is still so.
 * True: walk at once, and keep nothing. */
bool cache_pass_over(struct paths *paths);
/* Whether a look-up that was not passed over hit. */
void cache_judge(struct paths *paths, bool hit);

/* All further guesses. NULL: *hash leads to where cache_keep may put the path's trace. */
struct view *cache_search(struct paths *paths, uintptr_t frame, uint64_t *hash);

/* After a miss and a walk that gave `view`: keeps the stack's innermost `depth` frames as a trace,
 * if it is worth it. */
void cache_keep(struct paths *paths, uint64_t hash, struct view *view, unsigned depth);
/* After a walk: remembers where the innermost return addresses stand, for the first guess. */
void cache_learn_hints(struct paths *paths);
struct paths *cache_create(void); /* NULL: out of memory */
/* Empties it; the memory goes back to the library's own tables. */
void cache_flush(struct paths *paths);

#endif
