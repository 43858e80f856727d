/* SPDX-License-Identifier: MIT */
/*
 * rates.h - figures of contexts that are computed from two or more looks at a process: changes a
 * second, sums over subtrees, differences to a base, and short histories.
 *
 * These functions know neither the socket nor the terminal. The caller passes figures and the time
 * of their reading, in seconds of a monotonic clock. Each context may be read at a different time.
 * A context is given by its index, which must not change before rates_clear.
 */
#ifndef MEMCTX_RATES_H
#define MEMCTX_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* The columns of the screen. Rows are sorted by one column. */
enum rates_column {
    RATES_LIVE,   /* bytes of live chunks */
    RATES_GROWTH, /* growth of the live bytes, per second */
    RATES_WASTE,  /* bytes that the context holds, less its live bytes */
    /* allocations per second; in a difference to the base: allocations since the base */
    RATES_ALLOCS,
    RATES_CHUNKS, /* live chunks */
    RATES_COLUMNS,
};

#define RATES_COLUMN_WORDS "live, growth, waste, allocs, chunks"

/* Figures of one context or of a sum. `growth` and `alloc_rate` are per second. WIRE_UNKNOWN stands
 * for a figure that is not known. */
struct rates_sums {
    int64_t live_bytes, live_chunks, allocs, waste_bytes;
    int64_t growth, alloc_rate;
};

/* A ring of the last values of one figure. `next` is the place for the next value; in a full ring
 * the oldest value stands there. */
#define RATES_HISTORY 256
struct rates_history {
    int64_t values[RATES_HISTORY];
    size_t count, next;
};

#define RATES_BLOCK 256

/* One context's own figures, without the contexts below it. */
struct rates_row {
    struct rates_sums own;
    double read_s; /* time when these figures were read; negative: never */
    uint32_t look; /* number of the look that read them */
};

struct rates_base_row {
    int64_t live_bytes, live_chunks, allocs, waste_bytes;
};

/* Only contexts that have had figures have a row: most contexts of a large tree never allocate. */
struct rates {
    uint32_t *places;            /* places[index of a context]: its row; 0: it never had figures */
    size_t count, capacity;      /* entries of `places` in use; entries allocated */
    struct rates_row *rows;      /* rows[0] is for all contexts that never had figures */
    struct rates_base_row *base; /* base[number of a row]; NULL unless has_base */
    size_t row_count, row_capacity;
    /* block_s[index / RATES_BLOCK]: when the contexts of this block were last read; negative:
     * never. A context that gets its first figures counts as 0 at this time. */
    double *block_s;
    /* By rates_add_up: sum_places[index of a context] says which row or which element of `sums` has
     * the sum over the context's subtree. */
    uint32_t *sum_places;
    size_t summed, sum_place_capacity; /* contexts that have a place; places allocated */
    struct rates_sums *sums;
    struct rates_base_row *base_sums; /* the base, summed in the same way */
    size_t sum_count, sum_capacity, base_sum_capacity;
    bool has_base;
    double since_s; /* time of the last look that saw all contexts (rates_end) */
    uint32_t look;
};

/* Makes room for contexts with indices below `count`. New contexts have no figures yet. */
void rates_reserve(struct rates *rates, size_t count);
/* Forgets all figures and the base. */
void rates_clear(struct rates *rates);

/* Begins a look. In a look, rates_set sets the figures of a context; rates_end_range sets the
 * figures of the contexts [from, end) that were not set in this look to 0. Call rates_end if the
 * look saw all contexts: a context that appears later counts as 0 at this time. */
void rates_begin(struct rates *rates);
void rates_set(struct rates *rates, size_t index, double time_s, int64_t live_bytes,
               int64_t live_chunks, int64_t allocs);
void rates_end_range(struct rates *rates, size_t from, size_t end, double time_s);
void rates_end(struct rates *rates, double time_s);
void rates_set_waste(struct rates *rates, size_t index, int64_t waste_bytes);
/* Returns the figures of a context, without the contexts below it. */
const struct rates_sums *rates_own(const struct rates *rates, size_t index);
/* After a reload of the contexts: gives the context `index` the figures and the base that it has in
 * `before`, where its index is `was`, and then its new figures, which were read at `time_s`. */
void rates_go_on(struct rates *rates, size_t index, const struct rates *before, size_t was,
                 double time_s);
/* Makes the allocations per second of a context unknown; rates_forget_growth makes the growth
 * unknown, too. */
void rates_forget_allocs(struct rates *rates, size_t index);
void rates_forget_growth(struct rates *rates, size_t index);
/* Makes all rates unknown. The next figures may be older than the present ones. */
void rates_forget_all(struct rates *rates);

/* Makes the present figures the base. */
void rates_mark(struct rates *rates);
/* Sums the figures over each subtree of the model's contexts. rates_reserve must have made room for
 * all of them. `counts[index]` is false for a context that the sums leave out; NULL: the sums have
 * all contexts. */
void rates_add_up(struct rates *rates, const struct model *model, const bool *counts);

/* Adds `part` to `sum`. An unknown figure of `part` adds nothing. */
void rates_add(struct rates_sums *sum, const struct rates_sums *part);
/* Returns the figure of a column. */
int64_t rates_figure(const struct rates_sums *sums, enum rates_column column);
/* Returns a figure of a context, or of its subtree if `subtree` (which needs rates_add_up); with
 * `difference`, less the figure of the base. Returns WIRE_UNKNOWN if either figure is not known. */
int64_t rates_value(const struct rates *rates, size_t index, enum rates_column column, bool subtree,
                    bool difference);

/* Returns the difference; WIRE_UNKNOWN if a value is unknown or the difference is too large. */
int64_t rates_less(int64_t now, int64_t before);
/* Returns the change a second; WIRE_UNKNOWN if a value is unknown or no time has passed. */
int64_t rates_per_second(int64_t now, int64_t before, double seconds);

/* Adds a value; in a full ring it replaces the oldest one. */
void rates_push(struct rates_history *history, int64_t value);
/* Returns the value that was pushed `back` pushes before the last value; WIRE_UNKNOWN if the ring
 * does not hold it. */
int64_t rates_past(const struct rates_history *history, size_t back);
/* Writes the last `width` values as levels from 0 to `levels` - 1, oldest first, right-aligned. The
 * lowest value gets level 0, the highest the last level; if all values are equal, they get level 0.
 * A place without a value gets -1. */
void rates_levels(const struct rates_history *history, int *to, size_t width, int levels);

const char *rates_column_word(enum rates_column column);
/* Returns the column that this word names, or RATES_COLUMNS. */
enum rates_column rates_find_column(const char *word);

#endif
