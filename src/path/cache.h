/* SPDX-License-Identifier: MIT */
/*
 * cache.h - finds call paths at allocation speed: traces of one thread, verified at every use.
 *
 * A *trace* holds what a walk read: words of the stack at fixed distances outwards from our own
 * frame pointer, and the view that pays for the path. A table guesses the trace. A trace is used
 * only when every one of its words is on the stack again. The words are compared innermost first,
 * in the order in which a walk would read them, so each read is as safe as the walk's.
 *
 * The first guess is the trace that followed the last one before at this return address and stack
 * pointer. Where that guess is mostly wrong, the first guess is the trace that was last used at
 * this return address and stack pointer. All these values are at hand at once, while a hash of the
 * stack would have to be waited for. The second guess is by the stack pointer and the innermost
 * four return addresses. For each inner return address the table remembers where the outer ones
 * stand (frames mostly have one size at one call), and they are read only within the known part of
 * the stack. Where that trace is wrong at word k, the next guess is by (place, k, the word that is
 * there), and so on: paths that begin alike are told apart by the words in which they differ. When
 * the guesses end, the stack is walked (stack.h), which costs only the frames that changed since
 * the last walk. Where walks are cheaper, the table is passed over.
 *
 * A path gets a trace only when it was missed at its place twice in a row, or now and then, so that
 * a program with ever new paths does not spend its time on making traces. A forked child makes none
 * at first. A trace takes two cache lines, which hold its first eight checks. Traces stand one
 * behind the other, and the places that lead to them stand apart, so that little memory is touched.
 * Room for traces doubles when it is used up, up to CACHE_TRACES_MAX; then the oldest trace is
 * given up.
 *
 * Threads: one heap's thread owns it. Its memory is bounded by CACHE_TRACES_MAX traces.
 */
#ifndef MEMCTX_CACHE_H
#define MEMCTX_CACHE_H

#include "path/stack.h"
#include "region/heap.h"

/* Not with AddressSanitizer, which would report some of these reads although they are safe. */
#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__)
#define CACHE_WORDS_IN_PAIRS
#include <emmintrin.h>
#endif

#define CACHE_TRACES_FIRST 64U /* memory that is not used is not touched */
/* room of further threads: all tables of such a thread share one OS page */
#define CACHE_TRACES_FURTHER 16U
#define CACHE_TRACES_MAX 8192U
#define CACHE_GUESS_BITS_MAX 15U
#define CACHE_GUESSES_MAX 6
#define CACHE_HINTS_MAX 1024U
/* Nanoseconds a look-up, added up over windows, that the other way might have saved before it is
 * tried for the first time: while the table is used, and while it is passed over. See
 * context/lookup.c. */
#define CACHE_PATIENCE 200U
#define CACHE_PATIENCE_PAST 25U
#define CACHE_HINT_MAX 1024U /* words; no guess reaches over a larger frame */
/* A forked child keeps nothing of so many misses: most children end before, and each page that the
 * child writes is copied. */
#define CACHE_QUIET 64
#define CACHE_NEAR_FRAMES 4U
#define CACHE_WALKING_LONG 8U /* windows after which the table's memory is given back */

enum path_kind {
    PATH_FOUND,    /* found by the first guess */
    PATH_SEARCHED, /* found by another guess */
    PATH_WALKED,
    PATH_KINDS
};

/* Four checks, which stand together so that they are read in order. All words of a group are in one
 * OS page: where the stack comes to the next page, the group is filled up with its last word. */
struct trace_checks {
    uint64_t value[4];
    /* place of each word, in words outwards from the exported function's frame pointer */
    uint32_t word[4];
};
_Static_assert(sizeof(struct trace_checks) % 16 == 0, "values are loaded two at a time");

#define TRACE_INLINE_GROUPS 2U
#define CACHE_GROUPS_MAX 64U /* a path that takes more groups to prove gets no trace */

struct trace {
    struct view *view;
    uintptr_t sp; /* 0: no trace */
    /* further groups of checks, in a more_block; NULL: no room for any */
    struct trace_checks *more;
    uint32_t hash;             /* upper half of the hash that leads here */
    uint16_t count, more_room; /* groups of checks; how many groups `more` has room for */
    struct trace_checks checks[TRACE_INLINE_GROUPS];
};
_Static_assert(sizeof(struct trace) == 2UL * CACHE_LINE, "a trace is two lines");

/* Distance in words from one return address to the next two outwards; 0: not known. first <=
 * second. */
struct hint {
    uint16_t first, second;
};

/* Groups of checks of many traces, one behind the other, which are all given back together. Blocks
 * of meta_alloc of their own would be too small to go back to the kernel, and each would be a third
 * larger than requested. */
struct more_block {
    struct more_block *next;
    uint32_t bytes, used; /* of this block, including this header */
    uint32_t all_bytes;   /* bytes of this block and of those behind it */
    /* bytes in all blocks that traces left which needed more room later; kept in the newest
     * block */
    uint32_t lost_bytes;
};

struct trace_place {      /* the entry to which a hash leads */
    uint16_t trace;       /* number of the trace; 0: none */
    uint16_t tag;         /* bits of the hash; they tell most unrelated paths from this one */
    uint32_t missed_view; /* the view that the last miss found here */
};

/* Stands in the heap's paths_room: every allocation writes both, so a forked child copies one page
 * less. All fields are zero until cache_make. */
struct __attribute__((may_alias)) paths {
    uint32_t fast_generation; /* generation, or 0 to send every look-up to the slow path */
    uint32_t last;            /* number of the trace that was used last */
    uint32_t guess_shift;     /* 64 - bits of the index in guesses */
    uint32_t last_mask;       /* 0: the last trace does not count for the first guess */
    uint32_t found;           /* first guesses that were right since the last search */
    uint16_t *guesses;        /* numbers of traces; see first_guess */
    struct trace *traces;     /* number 0 is no trace */
    /* with MEMCTX_DEPTH=0: generation, and `fixed` pays for everything */
    uint32_t fixed_generation;
    uint32_t generation; /* generation of the rules that all this was made with */
    struct view *fixed;
    struct trace_place *places;
    struct hint *hints;   /* by return address */
    uint32_t hint_mask;   /* mask for the index in hints */
    uint32_t place_shift; /* 64 - bits of the index in places */
    uint32_t trace_room;  /* traces there is room for; half as many as places */
    uint32_t trace_next;  /* the first trace that was never used */
    uint32_t oldest;      /* the next trace to be given up */
    uint32_t verify_left; /* cached paths until the next comparison with libunwind */
    /* Decides which way is cheaper, with the table or past it: see context/lookup.c. */
    bool passing;                   /* the table is passed over */
    uint8_t walking;                /* windows of this, at most CACHE_WALKING_LONG */
    uint32_t window;                /* look-ups in a window */
    uint32_t seen, found_in_window; /* look-ups in this window; right first guesses among them */
    uint32_t spent;                 /* cost of the other look-ups of this window, about ns */
    uint32_t cost[2]; /* cost of a look-up in the last windows of both ways; 0: not known */
    /* ns a look-up, added up; the sum at which the other way is tried */
    uint32_t hoped, patience[2];
    uint32_t looked_up; /* frames that the last walk had to look up */
    uint32_t quiet;     /* misses and searches of which nothing will be kept */
    /* how wrong first guesses are; the value at which to guess otherwise */
    int32_t astray, astray_max;
    /* Fields of the layer above: see context/admit.h. */
    bool watching;        /* true while functions that recur are looked for */
    uint32_t nodes_valid; /* frames of the stack, from the outermost, whose place is right */
    uint32_t first_cold;  /* the first of these whose path is not in the tree; at most `count` */
    uint32_t nodes_seen;  /* number of nodes in the tree when that was found out */
    uint32_t fold_epoch;  /* function_epoch when the places were found */
    /* at this stack pointer, and further in, stacks are too deep to be walked to their end; 0: no
     * stack was too deep */
    uintptr_t deep_sp;
    struct admission *admission; /* NULL: no path had to wait yet */
    struct replays *replays;     /* see context/replay.h; NULL: look-ups are not mostly walks */
    uint32_t replay_generation;  /* generation, while replays are tried first */
    /* statistics: found by hash; found by a replay; walked; times the cache was emptied */
    uint64_t guessed, replayed, missed, flushed;
    uint64_t walked_far; /* walks in which more than CACHE_NEAR_FRAMES frames were new */
    uint32_t trace_count, trace_bytes; /* traces, and their bytes including those in `more` */
    /* memory for further groups of checks, the newest block first; NULL: none yet */
    struct more_block *more;
    /* How long allocations take: see context_time_soon. */
    uint64_t timed_ns[PATH_KINDS];
    uint64_t timed_count[PATH_KINDS];
    bool timing; /* the next allocation is timed */
    uint8_t timing_wait;
    struct stack stack;
};
_Static_assert(sizeof(struct paths) <= HEAP_PATHS_BYTES, "fits the room that the heap has");

INLINE struct paths *paths_of(struct heap *heap) {
    return (struct paths *)heap->paths_room;
}

/* A word of the stack, whatever type the program gives it. */
typedef uint64_t stack_word __attribute__((may_alias));

/* One load reads two places, and one comparison compares two words, because the loads are the
 * limit. All four words may be read before one of them is known to be right: they are in the OS
 * page of the first word, and the groups before it proved that page. */
INLINE bool trace_group_matches(const struct trace_checks *checks, const stack_word *words) {
    uint64_t first, second;
    __builtin_memcpy(&first, &checks->word[0], sizeof first);
    __builtin_memcpy(&second, &checks->word[2], sizeof second);
#ifdef CACHE_WORDS_IN_PAIRS
    const double *at = (const double *)(const void *)words; /* moved as bits, never as numbers */
    __m128d a = _mm_loadh_pd(_mm_load_sd(&at[(uint32_t)first]), &at[first >> 32]);
    __m128d b = _mm_loadh_pd(_mm_load_sd(&at[(uint32_t)second]), &at[second >> 32]);
    const __m128i *values = (const __m128i *)(const void *)checks->value;
    __m128i equal = _mm_and_si128(_mm_cmpeq_epi32(_mm_castpd_si128(a), _mm_load_si128(&values[0])),
                                  _mm_cmpeq_epi32(_mm_castpd_si128(b), _mm_load_si128(&values[1])));
    return LIKELY(_mm_movemask_epi8(equal) == 0xffff);
#else
    return LIKELY(words[(uint32_t)first] == checks->value[0]) &&
           LIKELY(words[first >> 32] == checks->value[1]) &&
           LIKELY(words[(uint32_t)second] == checks->value[2]) &&
           LIKELY(words[second >> 32] == checks->value[3]);
#endif
}

INLINE bool trace_matches(const struct trace *trace, const stack_word *words) {
    uint32_t left = trace->count;
    const struct trace_checks *checks = trace->more;
    if (!trace_group_matches(&trace->checks[0], words))
        return false;
    if (left == 1)
        return true;
    if (!trace_group_matches(&trace->checks[1], words))
        return false;
    for (; left > TRACE_INLINE_GROUPS; left--, checks++)
        if (!trace_group_matches(checks, words))
            return false;
    return true;
}

/* Returns the entry for the trace that comes after the last one at this return address and stack
 * pointer. By the last trace alone, the guess is right for 85 % of gcc's allocations, 89 % of
 * python's and 93 % of node's; by all three it is right for 91 %, 97 % and 97 %. */
INLINE uint16_t *first_guess(const struct paths *paths, uintptr_t frame) {
    uint64_t return_address = ((const stack_word *)frame)[1];
    uint64_t key = (return_address ^ (uint64_t)frame << 20) * 0xd6e8feb86659fd93ULL;
    /* The load of the last trace's number finishes last, so the number is mixed in last. */
    return &paths->guesses[key >> paths->guess_shift ^ (paths->last << 2 & paths->last_mask)];
}

/* The usual case: the first guess is right. NULL: the path must be looked up by cache_search. */
INLINE struct view *cache_find(struct paths *paths, uintptr_t frame) {
    if (UNLIKELY(paths->fast_generation != load_relaxed(&rules_generation)))
        return paths->fixed_generation == load_relaxed(&rules_generation) ? paths->fixed : NULL;
    uint32_t next = *first_guess(paths, frame);
    const struct trace *trace = &paths->traces[next];
    if (UNLIKELY(trace->sp != frame + 16) || !trace_matches(trace, (const stack_word *)frame))
        return NULL;
    paths->last = next;
    paths->found++;
    struct view *view = trace->view;
    if (!view)
        __builtin_unreachable();
    return view;
}

/* Tries all further guesses. After NULL, *hash leads to the place where cache_keep may put the
 * path's trace. */
struct view *cache_search(struct paths *paths, uintptr_t frame, uint64_t *hash);

/* After a miss and a walk that gave `view`: keeps the stack's innermost `depth` frames as a trace,
 * if the path is worth it. */
void cache_keep(struct paths *paths, uint64_t hash, struct view *view, unsigned depth);
/* After a walk: remembers where the innermost return addresses stand, for the first guess. */
void cache_learn_hints(struct paths *paths);
bool cache_make(struct paths *paths); /* false: out of memory */
/* Empties the cache; its memory goes back to the library's own tables. */
void cache_flush(struct paths *paths);
/* Empties the cache and gives its share of the tables' budget back, too. cache_make has to follow
 * before the next look-up. */
void cache_shrink(struct paths *paths);
/* Gives the traces back during a look-up, because the path's site needs their room. The walked
 * stack stays. False: there are none to speak of. cache_make has to follow before the next look-up.
 */
bool cache_make_way(struct paths *paths);
/* Frees the cache of a thread that ended. With `all`, nothing is kept for the next thread, not even
 * room for its first traces. */
void cache_end(struct paths *paths, bool all);

#endif
