/* SPDX-License-Identifier: MIT */
/*
 * tables.h - the budget of the library's own tables: nodes, views, traces, rules and what finds
 * them.
 *
 * A program with very many call paths must not make the library grow without end. So whatever grows
 * with the number of paths asks here before it takes memory, with the share of the budget that may
 * be in use afterwards. What matters less has a smaller share: when the tables fill, full paths of
 * allocations that were seen once are the first that are not kept any more, the figures of each
 * site the last. But for TABLES_MUST nothing is taken that would pass the limit.
 *
 * Limit: MEMCTX_TABLES, and TABLES_THREAD_BYTES for each thread (the most that lived at a
 * time: what a thread's chunks need of its tables outlives it). Where a share of the live bytes may
 * be more than TABLES_LEAST_BYTES the control thread adds these up once a second; until it has,
 * half of what the pages in use would allow counts.
 *
 * Threads: any; one atomic word, which the common malloc and free never touch.
 */
#ifndef MEMCTX_TABLES_H
#define MEMCTX_TABLES_H

#include "os/os.h"

#define TABLES_LEAST_BYTES (4L << 20)
#define TABLES_THREAD_BYTES (32L << 10)
/* Of these, what each thread's heap has in any case, whatever is full: its struct, the stack as it
 * was walked, its first views and traces, counts of paths that wait. It counts as used from the
 * start; what is taken and shared out here is the rest. */
#define TABLES_HEAP_BYTES (26L << 10)

/* Of TABLES_PARTS of the limit, what may be in use after a request of this kind: by all but traces.
 * Traces may have what the others leave, and give it back when those need it. */
#define TABLES_PARTS 32
enum tables_share {
    TABLES_UNCOUNTED = 0, /* contexts that the program itself makes: as many as it wants */
    TABLES_FOLD =
        4, /* past it, functions that recur very often are folded, if new paths come fast */
    TABLES_TRACE = 28, /* traces, which only save time; together with the others */
    TABLES_FOLD_ANYWAY = 16,
    TABLES_PATH = 18,     /* every path is kept until then */
    TABLES_OTHERS = 22,   /* [other callers] of an ancestor, and sites below it */
    TABLES_ADMITTED = 24, /* paths that were seen often, or hold much */
    TABLES_NEAR = 25,     /* the same of nodes near the root */
    TABLES_RULE = 26,     /* paths that a rule names */
    TABLES_ASKED = 26,    /* marks; see control/marks.c */
    TABLES_SITE = 30,     /* sites below the [other callers] of the process; what resets subtract */
    TABLES_STACK = 31,    /* how a deep stack was walked */
    TABLES_MUST = 32,     /* counted, but never refused: frees in the pages of others */
};

INTERNAL int64_t tables_used_bytes;  /* atomic: all but traces */
INTERNAL int64_t tables_trace_bytes; /* atomic */
/* Atomic: of removed nodes and views whose memory waits for new ones. It is not in use, but takes
 * room. */
INTERNAL int64_t tables_idle_bytes;
INTERNAL uint32_t tables_heaps; /* atomic: of threads; those of ended ones go to new ones */

/* Atomic: requested bytes alive, as the control thread last added them up; -1: it never did. */
INTERNAL int64_t tables_live_bytes;
/* Whether it is to add them up: the limit may be a share of them. */
bool tables_ask_live(void);
#define TABLES_CROWDED                                                                             \
    29 /* past it, together with traces, these are given back before others need it */
/* Atomic: a thread is to give its traces back; it sets this to false. */
INTERNAL bool tables_want_traces;
int64_t tables_limit_bytes(void);
/* All that they hold, for who is told of it. */
int64_t tables_held_bytes(void);
/* Atomic: the limit without what heaps have in any case, as it was when it was last asked for. */
INTERNAL int64_t tables_limit_known;
/* Takes `bytes` from the budget. False: nothing was taken; that share of the limit is used up. */
bool tables_take(int64_t bytes, enum tables_share share);
/* What nothing works without, or what is given back (negative). */
INLINE void tables_add(int64_t bytes) {
    add_relaxed(&tables_used_bytes, bytes);
}
INLINE void tables_add_traces(int64_t bytes) {
    add_relaxed(&tables_trace_bytes, bytes);
}
INLINE void tables_add_idle(int64_t bytes) {
    add_relaxed(&tables_idle_bytes, bytes);
}
/* Whether more than this share of the limit is in use, as it was when somebody last looked. */
INLINE bool tables_are_past(enum tables_share share) {
    return load_relaxed(&tables_used_bytes) * TABLES_PARTS >
           load_relaxed(&tables_limit_known) * (int64_t)share;
}

#endif
