/* SPDX-License-Identifier: MIT */
/*
 * tables.h - the budget of the library's own tables: nodes, views, traces, unwind rules, indexes.
 *
 * A program with very many call paths must not make the library grow without end. So code that
 * needs memory for a table that grows with the number of paths first calls tables_take, and names
 * the share of the budget that may be in use afterwards. Less important data has a smaller share:
 * when the tables fill, the library first stops keeping full paths of allocations that were seen
 * once, and last stops keeping the figures of each site. Only TABLES_MUST and tables_add may pass
 * the limit.
 *
 * Limit: MEMCTX_TABLES, plus TABLES_THREAD_BYTES for each thread that has a heap. A heap whose
 * thread ended adds nothing to the limit; the bytes that the heap keeps count as used.
 * MEMCTX_TABLES may be a share of the program's live bytes. When that share may be more than
 * TABLES_LEAST_BYTES, the control thread adds up the live bytes twice a second. Before the first
 * sum the share counts as TABLES_LEAST_BYTES. The live bytes may fall between two of these sums, so
 * only TABLES_LIVE_PARTS eighths of the share of the live bytes may be used.
 *
 * Threads: any; atomic words, which the common malloc and free never touch.
 */
#ifndef MEMCTX_TABLES_H
#define MEMCTX_TABLES_H

#include "os/os.h"

#define TABLES_LEAST_BYTES (4L << 20)
#define TABLES_THREAD_BYTES (32L << 10)
/* Each thread's heap always has these bytes, even when the tables are full. They are at most eight
 * OS pages: one of the heap's struct, three or four for the stack as it was walked, one for the
 * first views, one for traces, and one for the views of paths that wait (struct admission). These
 * bytes count as used from the start. */
#define TABLES_HEAP_BYTES TABLES_THREAD_BYTES
/* A heap without a thread counts as this many bytes: its struct and the first views. */
#define TABLES_PARKED_BYTES (8L << 10)
/* A heap without a thread that keeps its traces and its walked stack, too, counts as this many
 * bytes. */
#define TABLES_PARKED_READY_BYTES (24L << 10)
#define TABLES_LIVE_PARTS 7 /* eighths of the share of the live bytes that may be used */

/* The value of a share says how many of the TABLES_PARTS parts of the limit may be in use after a
 * request of this kind. Traces do not count as used here: they may have the room that other tables
 * leave, and give the room back when other tables need it. */
#define TABLES_PARTS 32
enum tables_share {
    TABLES_UNCOUNTED = 0, /* contexts that the program itself makes: as many as it wants */
    /* When more than this share is in use and new paths come fast (paths_come_fast,
     * context/admit.c), functions that recur on RECURS_OFTEN paths (path/functions.c) are
     * folded. */
    TABLES_FOLD = 4,
    /* Traces, which only save time; counted together with all other tables. No other share may have
     * this value, because tables_take knows traces by it. */
    TABLES_TRACE = 28,
    /* When more than this share is in use, functions that recur on RECURS_OFTEN paths are folded,
     * whether new paths come fast or not. */
    TABLES_FOLD_ANYWAY = 16,
    TABLES_PATH = 18, /* every path is kept while less is in use */
    /* [other callers] of an ancestor, and sites below it; regions of contexts that have grown;
     * counts of realloc and of frees of other heaps' chunks; views for such frees */
    TABLES_OTHERS = 22,
    /* paths that admission let in (context/admit.c); further unwind rules; the tables of functions
     * that recur (path/functions.c) */
    TABLES_ADMITTED = 24,
    TABLES_NEAR = 25,   /* nodes near the root, and sites below nodes near the root */
    TABLES_OFTEN = 25,  /* paths that were seen ADMIT_OFTEN times lately (context/admit.h) */
    TABLES_RULE = 26,   /* paths that a rule names */
    TABLES_ASKED = 26,  /* marks; see control/marks.c */
    TABLES_LARGE = 27,  /* paths with a large allocation (weight_wanted, context/admit.c) */
    TABLES_PLACED = 29, /* regions that a rule or memctx set asks for */
    /* sites below [other callers] of the process; baselines of resets; counts of realloc that move
     * to another heap; the first unwind rules */
    TABLES_SITE = 30,
    /* a deep stack as it was walked; sites of the process with one frame */
    TABLES_STACK = 31,
    TABLES_MUST = 32, /* counted, but never refused */
};

INTERNAL int64_t tables_used_bytes;  /* atomic: bytes of all tables except traces */
INTERNAL int64_t tables_trace_bytes; /* atomic: bytes of traces */
/* Atomic: bytes of removed nodes and views whose memory waits for new ones. These bytes are not in
 * use, but take room. */
INTERNAL int64_t tables_idle_bytes;
INTERNAL uint32_t tables_heaps; /* atomic: heaps that have a thread */

/* Atomic: the requested bytes that are alive, as the control thread last added them up; -1: they
 * were never added up. */
INTERNAL int64_t tables_live_bytes;
/* True when the control thread has to add up the live bytes, because the limit may be a share of
 * the live bytes. */
bool tables_ask_live(void);
/* When the bytes in use and tables_idle_bytes together pass this many parts of the limit, only
 * traces and requests of the shares from TABLES_NEAR on get new bytes. */
#define TABLES_ADMITTED_IDLE 26
/* Beyond TABLES_NEAR_IDLE parts only traces and requests of the shares from TABLES_LARGE on get new
 * bytes, beyond TABLES_LARGE_IDLE parts only traces and requests from TABLES_SITE on. */
#define TABLES_NEAR_IDLE 28
#define TABLES_LARGE_IDLE 30
/* When the bytes in use, traces included, pass this many parts of the limit, threads give traces
 * back before other tables need the room. */
#define TABLES_CROWDED 29
/* Atomic: true when some thread is to give its traces back. The thread that does so sets the
 * variable to false. */
INTERNAL bool tables_want_traces;
/* Computes tables_limit_known. Returns the whole limit, including TABLES_THREAD_BYTES for each
 * thread with a heap. */
int64_t tables_limit_bytes(void);
/* Returns all bytes that are in use in the tables, for reports. *limit becomes the whole limit at
 * this moment. */
int64_t tables_held_bytes(int64_t *limit);
/* Returns the part of the limit that is kept for requests that cannot be refused. Requests for
 * sites may take three quarters of this part, all other requests nothing. */
INLINE int64_t tables_reserve(int64_t limit) {
    return limit / TABLES_PARTS;
}
/* Atomic: the limit without the part that heaps always have (TABLES_HEAP_BYTES), as last
 * computed. */
INTERNAL int64_t tables_limit_known;
/* Counts a thread that gets a heap (`change` 1), or that leaves its heap (-1). `kept`: the bytes
 * that the heap keeps, or kept, while it has no thread; 0: the heap is new. */
void tables_count_heap(int change, int64_t kept);
/* Takes `bytes` from the budget. False: nothing was taken, because this share of the limit is used
 * up. */
bool tables_take(int64_t bytes, enum tables_share share);
/* Returns TABLES_PARKED_BYTES for each thread with a heap, but at most 4/32 of the limit: the bytes
 * by which the tables grow if all threads end now, and their heaps wait for new threads. */
int64_t tables_ends_bytes(void);
/* True if tables_take would grant these bytes now; not for TABLES_TRACE. */
bool tables_have_room(int64_t bytes, enum tables_share share);
/* Like tables_take, but for bytes of tables_idle_bytes that are put to use again. */
bool tables_reuse(int64_t bytes, enum tables_share share);
/* Add bytes that cannot be refused to the accounts; negative: bytes that were given back. */
INLINE void tables_add(int64_t bytes) {
    add_relaxed(&tables_used_bytes, bytes);
}
INLINE void tables_add_traces(int64_t bytes) {
    add_relaxed(&tables_trace_bytes, bytes);
}
INLINE void tables_add_idle(int64_t bytes) {
    add_relaxed(&tables_idle_bytes, bytes);
}
/* True when the tables, with traces, tables_idle_bytes and `more` bytes, are past TABLES_CROWDED.
 */
INLINE bool tables_are_crowded(int64_t more) {
    int64_t all = load_relaxed(&tables_used_bytes) + load_relaxed(&tables_trace_bytes) +
                  load_relaxed(&tables_idle_bytes) + more;
    return all * TABLES_PARTS > load_relaxed(&tables_limit_known) * TABLES_CROWDED;
}
#define TABLES_HASH_LARGE 8192U /* a hash table with more places than this is large */
/* True if a hash table with `mask` + 1 places and `count` used ones is to grow. A small table is at
 * most half full, because searches are short then. A large one takes much of the budget, and is at
 * most three quarters full. */
INLINE bool tables_hash_is_full(uint64_t count, uint64_t mask) {
    return mask < TABLES_HASH_LARGE ? count * 2 > mask : count * 4 > mask * 3;
}
/* True when more than this share of the limit is in use, by the limit as last computed. */
INLINE bool tables_are_past(enum tables_share share) {
    return load_relaxed(&tables_used_bytes) * TABLES_PARTS >
           load_relaxed(&tables_limit_known) * (int64_t)share;
}

#endif
