/* SPDX-License-Identifier: MIT */
/*
 * rates.c - compares the figures of one look with the figures of the previous look.
 *
 * All figures are in arrays by index of the context. A look costs one pass over the contexts that
 * were read, rates_add_up one pass over all contexts.
 */
#include "live/rates.h"

#include <stdlib.h>
#include <string.h>

#define RATE_MAX 1e18

static const char *const column_words[RATES_COLUMNS] = {[RATES_LIVE] = "live",
                                                        [RATES_GROWTH] = "growth",
                                                        [RATES_WASTE] = "waste",
                                                        [RATES_ALLOCS] = "allocs",
                                                        [RATES_CHUNKS] = "chunks"};

const char *rates_column_word(enum rates_column column) {
    return column_words[column];
}

enum rates_column rates_find_column(const char *word) {
    int column = 0;
    while (column < RATES_COLUMNS && strcmp(word, column_words[column]) != 0)
        column++;
    return (enum rates_column)column;
}

/* --- looks ----------------------------------------------------------------------------------- */

static void grow_base(struct rates *rates) {
    rates->base = cli_grow(rates->base, rates->capacity, sizeof *rates->base);
    rates->base_sums = cli_grow(rates->base_sums, rates->capacity, sizeof *rates->base_sums);
}

void rates_reserve(struct rates *rates, size_t count) {
    if (count > rates->capacity) {
        rates->capacity = count + count / 4 + 64;
        rates->rows = cli_grow(rates->rows, rates->capacity, sizeof *rates->rows);
        rates->sums = cli_grow(rates->sums, rates->capacity, sizeof *rates->sums);
        if (rates->has_base)
            grow_base(rates);
    }
    /* A context that appears after the first look had no chunks at the previous look. */
    bool later = rates->look > 0;
    for (; rates->count < count; rates->count++) {
        rates->rows[rates->count] =
            (struct rates_row){.own = {.waste_bytes = later ? 0 : WIRE_UNKNOWN,
                                       .growth = later ? 0 : WIRE_UNKNOWN,
                                       .alloc_rate = later ? 0 : WIRE_UNKNOWN},
                               .read_s = later ? rates->since_s : -1};
        rates->sums[rates->count] = (struct rates_sums){0};
        if (rates->has_base)
            rates->base[rates->count] = rates->base_sums[rates->count] = (struct rates_base_row){0};
    }
}

void rates_clear(struct rates *rates) {
    free(rates->rows);
    free(rates->sums);
    free(rates->base);
    free(rates->base_sums);
    *rates = (struct rates){0};
}

int64_t rates_less(int64_t now, int64_t before) {
    return before == WIRE_UNKNOWN ? WIRE_UNKNOWN : model_add(now, -before);
}

int64_t rates_per_second(int64_t now, int64_t before, double seconds) {
    int64_t change = rates_less(now, before);
    if (change == WIRE_UNKNOWN || seconds <= 0)
        return WIRE_UNKNOWN;
    double rate = (double)change / seconds;
    /* no process has such a rate, so the answer is damaged */
    if (rate < -RATE_MAX || rate > RATE_MAX)
        return WIRE_UNKNOWN;
    return (int64_t)(rate < 0 ? rate - 0.5 : rate + 0.5);
}

void rates_begin(struct rates *rates) {
    rates->look++;
}

void rates_set(struct rates *rates, size_t index, double time_s, int64_t live_bytes,
               int64_t live_chunks, int64_t allocs) {
    struct rates_row *row = &rates->rows[index];
    struct rates_sums *own = &row->own;
    if (row->read_s >= 0 && time_s > row->read_s) {
        /* After memctx reset the counters begin at 0 again. */
        int64_t before = allocs < own->allocs ? 0 : own->allocs;
        own->growth = rates_per_second(live_bytes, own->live_bytes, time_s - row->read_s);
        own->alloc_rate = rates_per_second(allocs, before, time_s - row->read_s);
    }
    own->live_bytes = live_bytes;
    own->live_chunks = live_chunks;
    own->allocs = allocs;
    row->read_s = time_s;
    row->look = rates->look;
}

void rates_end_range(struct rates *rates, size_t from, size_t end, double time_s) {
    for (size_t i = from; i < end && i < rates->count; i++)
        if (rates->rows[i].look != rates->look)
            rates_set(rates, i, time_s, 0, 0, 0);
}

void rates_end(struct rates *rates, double time_s) {
    rates->since_s = time_s;
}

void rates_set_waste(struct rates *rates, size_t index, int64_t waste_bytes) {
    rates->rows[index].own.waste_bytes = waste_bytes;
}

/* --- the base, and sums ---------------------------------------------------------------------- */

void rates_mark(struct rates *rates) {
    grow_base(rates);
    for (size_t i = 0; i < rates->count; i++) {
        const struct rates_sums *own = &rates->rows[i].own;
        rates->base[i] = (struct rates_base_row){own->live_bytes, own->live_chunks, own->allocs,
                                                 own->waste_bytes};
    }
    rates->has_base = true;
}

/* Adds `part` to *sum. If `part` is unknown, it adds nothing; if *sum was unknown, it becomes
 * `part`. */
static void add_known(int64_t *sum, int64_t part) {
    if (part != WIRE_UNKNOWN)
        *sum = *sum == WIRE_UNKNOWN ? part : model_add(*sum, part);
}

void rates_add(struct rates_sums *sum, const struct rates_sums *part) {
    add_known(&sum->live_bytes, part->live_bytes);
    add_known(&sum->live_chunks, part->live_chunks);
    add_known(&sum->allocs, part->allocs);
    add_known(&sum->waste_bytes, part->waste_bytes);
    add_known(&sum->growth, part->growth);
    add_known(&sum->alloc_rate, part->alloc_rate);
}

static void add_base(struct rates_base_row *sum, const struct rates_base_row *part) {
    add_known(&sum->live_bytes, part->live_bytes);
    add_known(&sum->live_chunks, part->live_chunks);
    add_known(&sum->allocs, part->allocs);
    add_known(&sum->waste_bytes, part->waste_bytes);
}

void rates_add_up(struct rates *rates, const struct model *model, const bool *counts) {
    for (size_t i = 0; i < model->context_count; i++) {
        bool is_in = !counts || counts[i];
        rates->sums[i] = is_in ? rates->rows[i].own : (struct rates_sums){0};
        if (rates->has_base)
            rates->base_sums[i] = is_in ? rates->base[i] : (struct rates_base_row){0};
    }
    for (size_t i = model->context_count; i-- > 1;) {
        uint32_t parent = model->contexts[i].parent;
        rates_add(&rates->sums[parent], &rates->sums[i]);
        if (rates->has_base)
            add_base(&rates->base_sums[parent], &rates->base_sums[i]);
    }
}

int64_t rates_figure(const struct rates_sums *sums, enum rates_column column) {
    switch (column) {
    case RATES_GROWTH: return sums->growth;
    case RATES_WASTE: return sums->waste_bytes;
    case RATES_ALLOCS: return sums->alloc_rate;
    case RATES_CHUNKS: return sums->live_chunks;
    default: return sums->live_bytes;
    }
}

int64_t rates_value(const struct rates *rates, size_t index, enum rates_column column, bool subtree,
                    bool difference) {
    const struct rates_sums *now = subtree ? &rates->sums[index] : &rates->rows[index].own;
    if (!difference || !rates->has_base)
        return rates_figure(now, column);
    const struct rates_base_row *base = subtree ? &rates->base_sums[index] : &rates->base[index];
    switch (column) {
    case RATES_GROWTH: return now->growth;
    case RATES_WASTE: return rates_less(now->waste_bytes, base->waste_bytes);
    case RATES_ALLOCS: return rates_less(now->allocs, base->allocs);
    case RATES_CHUNKS: return rates_less(now->live_chunks, base->live_chunks);
    default: return rates_less(now->live_bytes, base->live_bytes);
    }
}

/* --- histories ------------------------------------------------------------------------------- */

void rates_push(struct rates_history *history, int64_t value) {
    history->values[history->next] = value;
    history->next = (history->next + 1) % RATES_HISTORY;
    if (history->count < RATES_HISTORY)
        history->count++;
}

int64_t rates_past(const struct rates_history *history, size_t back) {
    if (back >= history->count)
        return WIRE_UNKNOWN;
    return history->values[(history->next + RATES_HISTORY - 1 - back) % RATES_HISTORY];
}

void rates_levels(const struct rates_history *history, int *to, size_t width, int levels) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t back = 0; back < width; back++) {
        int64_t value = rates_past(history, back);
        if (value == WIRE_UNKNOWN)
            continue;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    for (size_t back = 0; back < width; back++) {
        int64_t value = rates_past(history, back);
        int *level = &to[width - 1 - back];
        if (value == WIRE_UNKNOWN)
            *level = -1;
        else if (high == low)
            *level = 0;
        else
            *level =
                (int)(((double)value - (double)low) / ((double)high - (double)low) * (levels - 1) +
                      0.5);
    }
}
