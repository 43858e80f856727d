/* SPDX-License-Identifier: MIT */
/*
 * rates.h - the figures of every context from one look at a process to the next: differences a
 * second, sums over subtrees, differences to a base, and short histories.
 *
 * These functions know neither the socket nor the terminal. The caller passes the figures and the
 * time at which they were read, in seconds of one clock that does not go back. A context is named
 * by its index, which stays the same until rates_clear. Different contexts may be read at
 * different moments: each has its own time.
 */
#ifndef MEMCTX_RATES_H
#define MEMCTX_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* The columns of the screen. Rows are sorted by one of them. */
enum rates_column {
    RATES_LIVE,   /* bytes of live chunks */
    RATES_GROWTH, /* bytes a second by which these grew */
    RATES_WASTE,  /* bytes that are held, less the live bytes */
    RATES_ALLOCS, /* allocations a second; in a difference to the base: their number since then */
    RATES_CHUNKS, /* live chunks */
    RATES_COLUMNS,
};

#define RATES_COLUMN_WORDS "live, growth, waste, allocs, chunks"

/* The figures of a line. `growth` and `alloc_rate` are per second. A figure that is not known is
 * WIRE_UNKNOWN. */
struct rates_sums {
    int64_t live_bytes, live_chunks, allocs, waste_bytes;
    int64_t growth, alloc_rate;
};

/* The last values of one figure, oldest first from `next` on when the ring is full. */
#define RATES_HISTORY 256
struct rates_history {
    int64_t values[RATES_HISTORY];
    size_t count, next;
};

/* One context's own figures, without those of contexts below it. */
struct rates_row {
    struct rates_sums own;
    double read_s; /* time when these figures were read; negative: never */
    uint32_t look; /* number of the look that read them */
};

struct rates_base_row {
    int64_t live_bytes, live_chunks, allocs, waste_bytes;
};

struct rates {
    struct rates_row *rows;
    struct rates_sums *sums; /* sums over each subtree, from rates_add_up */
    struct rates_base_row *base;
    struct rates_base_row *base_sums; /* base of each subtree, from rates_add_up */
    size_t count, capacity, base_count;
    bool has_base;
    double since_s; /* see rates_end */
    uint32_t look;
};

/* Makes room for this many contexts. The new ones have no figures yet. */
void rates_reserve(struct rates *rates, size_t count);
/* Forgets everything, with the base. */
void rates_clear(struct rates *rates);

/* Begins a look. Then rates_set gives the figures of contexts; rates_end_range gives figures of 0
 * to contexts [from, end) that were not set in this look. rates_end ends a look that saw all
 * contexts: a context that appears in a later look held nothing in this one. */
void rates_begin(struct rates *rates);
void rates_set(struct rates *rates, size_t index, double time_s, int64_t live_bytes,
               int64_t live_chunks, int64_t allocs);
void rates_end_range(struct rates *rates, size_t from, size_t end, double time_s);
void rates_end(struct rates *rates, double time_s);
void rates_set_waste(struct rates *rates, size_t index, int64_t waste_bytes);

/* Takes the figures now as the base. */
void rates_mark(struct rates *rates);
/* Adds up the subtrees of the model's contexts. rates_reserve must have made room for all of them.
 * `counts`: false for contexts that are left out; NULL: none is. */
void rates_add_up(struct rates *rates, const struct model *model, const bool *counts);

/* Adds `part` to `sum`. An unknown figure of `part` adds nothing. */
void rates_add(struct rates_sums *sum, const struct rates_sums *part);
/* Returns the figure of a column. */
int64_t rates_figure(const struct rates_sums *sums, enum rates_column column);
/* Returns a figure of a context, of its subtree if `subtree`. `difference`: less the figure of the
 * base. WIRE_UNKNOWN: it is not known yet. */
int64_t rates_value(const struct rates *rates, size_t index, enum rates_column column, bool subtree,
                    bool difference);

/* Returns the difference; WIRE_UNKNOWN if a value is unknown or the difference is too large. */
int64_t rates_less(int64_t now, int64_t before);
/* Returns the change a second; WIRE_UNKNOWN if a value is unknown or no time has passed. */
int64_t rates_per_second(int64_t now, int64_t before, double seconds);

void rates_push(struct rates_history *history, int64_t value);
/* Returns the value that was pushed `back` pushes before the last one; WIRE_UNKNOWN: none was. */
int64_t rates_past(const struct rates_history *history, size_t back);
/* Writes the last `width` values as levels from 0 to `levels` - 1, oldest first, right-aligned.
 * The lowest value of these is level 0 and the highest the last level; equal values have level 0;
 * -1 is a place without a value. */
void rates_levels(const struct rates_history *history, int *to, size_t width, int levels);

const char *rates_column_word(enum rates_column column);
/* Returns the column of a word; RATES_COLUMNS: there is none of that name. */
enum rates_column rates_find_column(const char *word);

#endif
