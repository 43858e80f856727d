/* SPDX-License-Identifier: MIT */
/*
 * sums.h - the figures of a context: the sum over its views in all heaps.
 *
 * For: dumps, marks, resets, rules, the automatic choice. A context is added up when a caller asks
 * for it, so no sums are stored, however many contexts exist. Views are read while their owners go
 * on counting. Cannot do: tell the peak of a context that several threads use.
 *
 * Cost: a look-up in each heap, and some ns a view.
 *
 * Threads: the control thread, and at exit the thread that prints the statistics. heap_global.lock
 * keeps views from moving.
 */
#ifndef MEMCTX_FIGURES_SUMS_H
#define MEMCTX_FIGURES_SUMS_H

#include "base/base.h"

/* The sums of one context over all heaps. */
struct sum {
    int64_t allocs, frees, live_bytes, requested_cum_bytes; /* since the start */
    /* The values at the last `memctx reset`, which dumps subtract. */
    int64_t base_allocs, base_frees, base_requested_cum_bytes;
    /* greatest number of live bytes so far; right only if `views` is 1. WIRE_UNKNOWN: the view is
     * that of ended threads, whose peaks are not known. */
    int64_t peak_bytes;
    uint32_t views; /* number of views that allocated or freed anything */
};
/* The sums of one context in each of `count` heaps, numbered from `first` on. */
#define SUMS_HEAPS 128U
struct sums_parts {
    uint32_t first, count;
    struct sum list[SUMS_HEAPS];
};
/* Contexts are read between sums_begin and sums_end, which take and release heap_global.lock. Other
 * threads that need the lock wait meanwhile. So a loop over many contexts calls sums_pause for each
 * context, with its number in the loop: at every SUMS_STEPS-th one the lock is released and taken
 * again. */
#define SUMS_STEPS 256U
void sums_begin(void);
void sums_end(void);
void sums_pause(uint32_t steps);
/* Adds up one context over all heaps. If `parts` is not NULL, parts->first and parts->count name
 * some of the heaps: *sum is then the sum over these heaps alone, and parts->list has the sum of
 * each of them. */
void sums_read(uint32_t context, struct sum *sum, struct sums_parts *parts);
/* Adds `part` to `sum`. Peaks are not added: if `part` has views, the sum gets the part's peak. */
void sums_add(struct sum *sum, const struct sum *part);
struct sum sums_base(uint32_t context); /* sets only the base_ fields */
/* Returns the allocations, frees and bytes of all contexts together. Takes heap_global.lock
 * itself. */
struct sum sums_all(void);
/* How often `memctx reset` was served. If it was never served, no view has a baseline
 * (heap_baseline). Control thread only. */
INTERNAL uint32_t sums_resets;

#endif
