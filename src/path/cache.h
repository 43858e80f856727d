/* SPDX-License-Identifier: MIT */
/*
 * cache.h - finds call paths at allocation speed: traces of one thread, verified at every use.
 *
 * A *trace* holds the words of the stack that a walk read, each with its distance from the exported
 * function's frame pointer, and the view that pays for the path. A trace is used only when every
 * one of its words is on the stack again. (In a folded trace, see docs/lookup.md, some words may
 * differ within a range.) The words are compared innermost first, in the order in which a walk
 * would read them, so each read is as safe as the walk's.
 *
 * A trace is found by guesses. The first guess goes by the thread's last trace, the return address
 * and the stack pointer. It is the trace that matched when these three values were last seen
 * together. If such guesses are mostly wrong, the first guess goes by the return address and the
 * stack pointer alone. All three values are known at once, while a hash of the stack has to wait
 * for words of the stack. The second guess is by a hash of the stack pointer and the innermost four
 * return addresses. For a return address, a hint says where the next two return addresses mostly
 * stand, because the frame of a call mostly has one size. Hints are followed only within the OS
 * page of the exported function's frame. If the guessed trace differs from the stack at word k, the
 * next guess is by a hash of the last hash, k and the word on the stack. So paths that begin alike
 * are told apart by the words in which they differ. If no guess is right, the stack is walked
 * (stack.h), which costs only the frames that changed since the last walk. While walks are cheaper
 * than guesses, look-ups pass over the table of traces (context/lookup.c).
 *
 * The hash of the last guess leads to a *place* of the table: an entry that can name one trace. A
 * walk makes a trace for this place only if the last walk before it that came from this place led
 * to the same view. One in KEEP_ANYWAY_EVERY walks makes a trace without this condition (cache.c).
 * So a program with ever new paths does not spend its time on making traces. A forked child makes
 * no traces during its first CACHE_QUIET misses and searches. A trace takes two cache lines, which
 * hold up to eight checks of the innermost frames. The checks of the frames further out are in a
 * list of *tails* of eight checks each. Traces whose outer frames are equal share their tails. A
 * folded trace and its tails hold up to six ranges instead of eight checks. The traces stand one
 * behind the other in an array; the places are another, smaller array. So little memory is touched.
 * Room for traces doubles when it is used up, or earlier if two traces want one place. From
 * CACHE_TRACES_MAX on, the oldest trace is given up for a new one.
 *
 * Threads: only the owner of the heap; while no thread uses the heap, context/visit.c may empty the
 * cache. Memory: at most CACHE_TRACES_MAX traces for each heap.
 */
#ifndef MEMCTX_CACHE_H
#define MEMCTX_CACHE_H

#include "path/stack.h"
#include "region/heap.h"

/* The words of a trace are compared in pairs, but not with AddressSanitizer, which would report
 * some of the reads although they are safe. */
#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__)
#define CACHE_WORDS_IN_PAIRS
#include <emmintrin.h>
#endif

/* number of traces in the first table of the first heap; unused entries are not touched */
#define CACHE_TRACES_FIRST 64U
/* number of traces in the first table of any other heap: all tables of its cache fit one OS page */
#define CACHE_TRACES_FURTHER 16U
#define CACHE_TRACES_MAX 8192U
#define CACHE_GUESS_BITS_MAX 15U
#define CACHE_GUESSES_MAX 6 /* guesses of a search, after the first guess */
#define CACHE_HINTS_MAX 1024U
/* A look-up uses the table of traces or passes over it. After each window of look-ups,
 * context/lookup.c adds to a sum how many ns the other way could have saved for each look-up at
 * best. When the sum exceeds CACHE_PATIENCE while the table is used, or CACHE_PATIENCE_PAST while
 * it is passed over, the other way is tried for the first time. */
#define CACHE_PATIENCE 200U
#define CACHE_PATIENCE_PAST 25U
#define CACHE_HINT_MAX 1024U /* greatest distance in a hint, in words */
/* A forked child keeps nothing of this many misses and searches. Most children end earlier, and
 * each OS page that a child writes is copied. */
#define CACHE_QUIET 64
#define CACHE_NEAR_FRAMES 4U /* a walk with more new frames than this counts in walked_far */
/* number of windows in a row with the table passed over, after which its memory is given back */
#define CACHE_WALKING_LONG 8U

enum path_kind {
    PATH_FOUND,    /* found by the first guess */
    PATH_SEARCHED, /* found by a later guess, or by a replay */
    PATH_WALKED,
    PATH_KINDS
};

/* A group of four checks: words that must be on the stack, in the order in which a walk reads them.
 * All words of a group are in one OS page. A group with fewer than four words, because the next
 * word is in another OS page or there is none, is filled up with copies of its last check. */
struct trace_checks {
    uint64_t value[4];
    /* Distance of each word, in words of 8 bytes, from the exported function's frame pointer, or,
     * in a tail, from the tail's base. */
    uint32_t word[4];
};
_Static_assert(sizeof(struct trace_checks) % 16 == 0, "values are loaded two at a time");

/* A check of a folded trace: the word lies between `first` and `first + span`. For most words the
 * span is 0. It is larger for a return address in a folded function whose frame is not on the path:
 * any other call of the function leads to the same path, if its rule makes the same step. */
struct trace_range {
    uint64_t first;
    uint32_t span;
    uint32_t word; /* as in struct trace_checks */
};
#define TRACE_RANGES 6U /* most ranges in a trace, and in a tail */

#define TRACE_GROUPS 2U      /* groups in a trace, and in a tail */
#define CACHE_GROUPS_MAX 64U /* a path that needs more groups gets no exact trace */

/* Checks that any number of traces have in common. The words of a tail have fixed addresses. So two
 * traces share a tail if their stacks agree in these words and in all words further out. */
struct trace_tail {
    struct trace_tail *outer; /* the tail with the checks further out; NULL: there are none */
    const uint64_t *base;     /* the lowest of the words */
    struct trace_tail *next;  /* the next tail whose hash leads to the same list */
    uint32_t users;           /* number of traces and tails that lead to this tail */
    uint32_t hash;            /* of the tail's checks or ranges, `base` and `outer` */
    union {
        struct trace_checks checks[TRACE_GROUPS];
        struct trace_range ranges[TRACE_RANGES]; /* of folded traces */
    } __attribute__((aligned(16)));
};
_Static_assert(sizeof(struct trace_tail) == 2UL * CACHE_LINE, "a tail is two lines");

struct trace {
    struct view *view;
    /* stack pointer of the exported function's caller, plus TRACE_FOLDED_BIT for a folded trace; 0:
     * the trace is not in use */
    uintptr_t sp;
    struct trace_tail *tail; /* the checks behind those of the trace; NULL: there are none */
    uint32_t hash;           /* upper half of the hash that leads to the trace's place */
    uint16_t salt;           /* decides, while this is the last trace, where the guess stands */
    uint8_t groups;          /* number of groups in `checks`: 1 or 2; or of ranges: 2, 4 or 6 */
    union {
        struct trace_checks checks[TRACE_GROUPS];
        struct trace_range ranges[TRACE_RANGES];
    };
};
_Static_assert(sizeof(struct trace) == 2UL * CACHE_LINE, "a trace is two lines");
/* Stands in trace.sp of a folded trace. No stack pointer has this bit, so the common malloc, which
 * knows no ranges, takes such a trace for a wrong guess. */
#define TRACE_FOLDED_BIT 1U

/* For a return address on the stack: the distances, in words, from the word that holds it to the
 * words of the next two return addresses further out; 0: not known. first <= second. */
struct hint {
    uint16_t first, second;
};

/* A block of memory for tails, one behind the other. All blocks are given back together. If each
 * tail had a block of meta_alloc, the block would be too small to go back to the kernel. */
struct tail_block {
    struct tail_block *next;
    /* list of the tails in all blocks that no trace uses, linked by `outer`; right only in the
     * newest block */
    struct trace_tail *unused;
    uint32_t bytes, used; /* bytes of the block, and used bytes of it, both with this header */
    uint32_t all_bytes;   /* bytes of this block and of all older blocks */
};
/* bytes of a block in front of its tails */
#define TAIL_HEADER_BYTES ((uint32_t)sizeof(struct trace_tail))
_Static_assert(sizeof(struct tail_block) <= TAIL_HEADER_BYTES, "fits");

struct trace_place { /* an entry of the table that leads from a hash to a trace */
    uint16_t trace;  /* number of the trace; 0: no trace */
    uint16_t tag;    /* bits of the hash; they tell most unrelated paths from the trace's path */
    /* index of the view that the last miss at this place led to, found by a walk */
    uint32_t missed_view;
};

/* The path cache of one heap. The struct stands in heap.paths_room: every allocation writes the
 * heap and this struct, and a forked child has to copy only one OS page for both. All fields are
 * zero until cache_make. */
struct __attribute__((may_alias)) paths {
    /* equal to `generation`, or 0: no first guess is made, and every allocation calls
     * context_view_searched */
    uint32_t fast_generation;
    uint32_t last;        /* the trace that was used last: its distance from `traces`, in bytes */
    uint32_t guess_shift; /* 64 minus the number of bits that choose one of the guesses */
    /* 0: the first guess does not depend on the last trace; else the number of guesses minus 1 */
    uint32_t last_mask;
    uint32_t found;       /* number of right first guesses since the last call of cache_search */
    uint16_t *guesses;    /* each is the number of a trace; see first_guess */
    struct trace *traces; /* array, indexed by a trace's number; number 0 is not used */
    /* equal to `generation` while malloc may charge every allocation to `fixed` at once: with
     * MEMCTX_DEPTH=0, or while the thread is switched to a named context; else 0, and always 0 with
     * MEMCTX_CHECK */
    uint32_t fixed_generation;
    uint32_t generation; /* unwind_rules_generation when the contents of the cache were made */
    /* pays for every allocation while the depth is 0 or the thread is switched; NULL: none */
    struct view *fixed;
    struct trace_place *places; /* array; a hash of the stack gives the place */
    struct hint *hints;         /* array; a return address gives the hint */
    uint32_t hint_mask;         /* number of hints, minus 1 */
    uint32_t place_shift;       /* 64 minus the number of bits that choose one of the places */
    /* number of traces that there is room for; there are twice as many places */
    uint32_t trace_room;
    uint32_t trace_next; /* number of the first trace that was never used */
    /* number of the trace that was given up last; the trace with the next number is given up
     * next */
    uint32_t oldest;
    uint32_t verify_left; /* number of look-ups until the next comparison with libunwind */
    /* The fields up to `patience` decide whether look-ups use the table or pass over it: see
     * context/lookup.c. */
    bool passing; /* look-ups pass over the table */
    /* number of windows in a row in which look-ups passed over the table, at most
     * CACHE_WALKING_LONG */
    uint8_t walking;
    uint32_t window; /* number of look-ups after which the window ends */
    /* look-ups in this window so far, and right first guesses among them */
    uint32_t seen, found_in_window;
    /* estimated ns of those look-ups in this window that the first guess did not serve */
    uint32_t spent;
    /* estimated ns of a look-up in the last window that used the table [0] or passed over it [1];
     * 0: not known */
    uint32_t cost[2];
    /* hoped: a sum; each window adds the ns that the other way could have saved for each look-up.
     * patience: the sum at which the other way is tried, while the table is used [0] or passed over
     * [1] */
    uint32_t hoped, patience[2];
    uint32_t looked_up; /* number of frames that the last walk had to look up in the tree */
    uint32_t quiet;     /* number of misses and searches still to come of which nothing is kept */
    /* There are two ways to make the first guess. astray counts wrong guesses that speak against
     * the present way, less those that speak for it. At astray_max the thread takes the other way;
     * see judge_first_guess. */
    int32_t astray, astray_max;
    /* The fields up to `replay_generation` belong to the layer `context`: see context/admit.h. */
    bool watching; /* true while context/prefix.c looks for functions that recur */
    /* some trace leads to the view of a site: the tables had no room for the whole path */
    bool site_traced;
    uint32_t nodes_valid; /* number of frames, from the outermost one on, whose node is right */
    /* index of the outermost frame whose path is not in the tree; UINT32_MAX: none */
    uint32_t first_cold;
    uint32_t nodes_seen; /* number of nodes ever made, as of the last walk */
    /* function_epoch when the frames' nodes were found; 0: no function is folded */
    uint32_t fold_epoch;
    /* If the frame pointer of an allocation is not above this value, the stack is too deep to be
     * walked to its end. 0: no stack was too deep. */
    uintptr_t deep_sp;
    struct admission *admission; /* counts of waiting paths; NULL: no path had to wait yet */
    /* noted changes of the stack, see context/replay.h; NULL: the thread has noted none */
    struct replays *replays;
    uint32_t replay_wait;       /* number of next walks that make no table of changes */
    uint32_t replay_generation; /* equal to `generation` while replays are tried first, else 0 */
    /* statistics: numbers of paths found by a search, by a replay, by a walk; how often the cache
     * was emptied */
    uint64_t guessed, replayed, missed, flushed;
    uint64_t walked_far; /* number of walks in which more than CACHE_NEAR_FRAMES frames were new */
    /* number of traces, and the bytes of the traces and their tails */
    uint32_t trace_count, trace_bytes;
    struct tail_block *tails; /* blocks for tails, the newest block first; NULL: none yet */
    /* Sampled times of allocations, and numbers of samples: see context_time_soon. */
    uint64_t timed_ns[PATH_KINDS];
    uint64_t timed_count[PATH_KINDS];
    bool timing;         /* the next allocation will be timed */
    uint8_t timing_wait; /* counts calls of context_time_soon; every 16th starts a sample */
    struct stack stack;
};
_Static_assert(sizeof(struct paths) <= HEAP_PATHS_BYTES, "fits the room that the heap has");

INLINE struct paths *paths_of(struct heap *heap) {
    return (struct paths *)heap->paths_room;
}

/* A word of the stack, whatever type the program gives it. */
typedef uint64_t stack_word __attribute__((may_alias));

INLINE struct trace *last_trace(const struct paths *paths) {
    return (struct trace *)((char *)paths->traces + paths->last);
}

/* Returns the entry that names the first guess: the trace that came after the last trace when the
 * return address and the stack pointer were as now (docs/experiments/call-path-key.md). If two last
 * traces lead to one entry and take turns, cache_search gives one of them another salt. */
INLINE uint16_t *first_guess(const struct paths *paths, uintptr_t frame) {
    uint64_t return_address = ((const stack_word *)frame)[1];
    uint64_t key = (return_address ^ (uint64_t)frame << 20) * 0xd6e8feb86659fd93ULL;
    /* The load of the last trace's salt finishes last, so the salt is mixed in last. */
    return &paths
                ->guesses[key >> paths->guess_shift ^ (last_trace(paths)->salt & paths->last_mask)];
}

INLINE bool range_holds(const struct trace_range *range, const stack_word *words) {
    return LIKELY(words[range->word] - range->first <= range->span);
}

/* True if all words of a folded trace are on the stack. Each word is read only when the words
 * further in were right. */
INLINE bool folded_trace_matches(const struct trace *trace, const stack_word *words) {
    const struct trace_range *range = trace->ranges, *end = range + trace->groups;
    for (; range != end; range += 2)
        if (!range_holds(&range[0], words) || !range_holds(&range[1], words))
            return false;
    for (const struct trace_tail *tail = trace->tail; tail; tail = tail->outer) {
        range = tail->ranges;
        words = (const stack_word *)tail->base;
        if (!range_holds(&range[0], words) || !range_holds(&range[1], words) ||
            !range_holds(&range[2], words) || !range_holds(&range[3], words) ||
            !range_holds(&range[4], words) || !range_holds(&range[5], words))
            return false;
    }
    return true;
}

/* Called when the common malloc took the first guess for wrong, while it makes first guesses.
 * Returns the view that pays if the first guess is a folded trace, and right; else NULL. */
INLINE struct view *cache_guess_folded(struct paths *paths, uintptr_t frame) {
    uint32_t number = *first_guess(paths, frame);
    const struct trace *trace = &paths->traces[number];
    if (trace->sp != frame + 16 + TRACE_FOLDED_BIT ||
        !folded_trace_matches(trace, (const stack_word *)frame))
        return NULL;
    paths->last = number * (uint32_t)sizeof *trace;
    paths->found++;
    return trace->view;
}

/* Tries all guesses but the first. Returns the view that pays. NULL: no guess was right; *hash
 * leads to the place where cache_keep may put the path's trace. */
struct view *cache_search(struct paths *paths, uintptr_t frame, uint64_t *hash);

/* The kinds of traces that may lead from a walked stack to the view that pays. */
enum trace_kind {
    TRACE_NONE,
    TRACE_EXACT, /* all return addresses decide which view pays: no function is folded, or the view
                  * is that of a site */
    TRACE_FOLDED /* only the frames on the folded path decide */
};
/* Called after a walk that gave `view`, where cache_search gave `hash`. Keeps the stack's innermost
 * `depth` frames as a trace, if the last walk from this place led to this view, too, or if the walk
 * is a KEEP_ANYWAY_EVERY-th one. `kind` is not TRACE_NONE. */
void cache_keep(struct paths *paths, uint64_t hash, struct view *view, unsigned depth,
                enum trace_kind kind);
/* Called after a walk: notes for later searches how far apart the innermost return addresses are on
 * the stack (struct hint). */
void cache_learn_hints(struct paths *paths);
bool cache_make(struct paths *paths); /* false: out of memory */
/* Empties the cache and forgets the walked stack. The tables stay; the memory of the tails goes
 * back to meta_free and the budget. */
void cache_flush(struct paths *paths);
/* If the tables have room for more than CACHE_TRACES_FIRST traces: empties the cache, and gives the
 * tables' memory and bytes of the budget back. The next look-up has to call cache_make first. */
void cache_shrink(struct paths *paths);
/* Gives the traces' memory back during a look-up, because the path's site needs room in the budget.
 * The walked stack stays. True: call cache_make before the next look-up. False: nothing was given
 * back; the tables have room for CACHE_TRACES_FURTHER traces or none, and take no bytes of the
 * budget. */
bool cache_give_back_traces(struct paths *paths);
/* Frees the cache and the walked stack of a thread that ended or sleeps. If the tables and the
 * stack have their first sizes, they are emptied and kept for the next thread; with `all`, they are
 * freed, too. */
void cache_end(struct paths *paths, bool all);

#endif
