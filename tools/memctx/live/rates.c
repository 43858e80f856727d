/* SPDX-License-Identifier: MIT */
/*
 * rates.c - compares the figures of one look with the figures of the previous look.
 *
 * A look costs one pass over the contexts that were read, rates_add_up one pass over all contexts.
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

/* Makes room for one more row. */
static void grow_rows(struct rates *rates) {
    if (rates->row_count < rates->row_capacity)
        return;
    rates->row_capacity += rates->row_capacity / 4 + 64;
    rates->rows = cli_grow(rates->rows, rates->row_capacity, sizeof *rates->rows);
    if (rates->has_base)
        rates->base = cli_grow(rates->base, rates->row_capacity, sizeof *rates->base);
}

static void add_row(struct rates *rates, const struct rates_row *row) {
    grow_rows(rates);
    if (rates->has_base)
        rates->base[rates->row_count] = (struct rates_base_row){0};
    rates->rows[rates->row_count++] = *row;
}

static const struct rates_sums no_figures = {
    .waste_bytes = WIRE_UNKNOWN, .growth = WIRE_UNKNOWN, .alloc_rate = WIRE_UNKNOWN};

/* Returns the row of a context, which is made if there is none. */
static struct rates_row *own_row(struct rates *rates, size_t index) {
    if (rates->places[index] == 0) {
        struct rates_row row = {.own = no_figures, .read_s = rates->block_s[index / RATES_BLOCK]};
        if (row.read_s >= 0) /* the context was read before, and had no chunks */
            row.own.waste_bytes = row.own.growth = row.own.alloc_rate = 0;
        rates->places[index] = (uint32_t)rates->row_count;
        add_row(rates, &row);
    }
    return &rates->rows[rates->places[index]];
}

void rates_reserve(struct rates *rates, size_t count) {
    if (rates->row_count == 0)
        add_row(rates, &(struct rates_row){.own = no_figures, .read_s = -1});
    if (count > rates->capacity) {
        rates->capacity = count + count / 4 + 64;
        rates->places = cli_grow(rates->places, rates->capacity, sizeof *rates->places);
        rates->block_s =
            cli_grow(rates->block_s, rates->capacity / RATES_BLOCK + 1, sizeof *rates->block_s);
    }
    /* A context that appears after the first look had no chunks at the previous look. */
    for (; rates->count < count; rates->count++) {
        rates->places[rates->count] = 0;
        rates->block_s[rates->count / RATES_BLOCK] = rates->look > 0 ? rates->since_s : -1;
    }
}

void rates_clear(struct rates *rates) {
    free(rates->places);
    free(rates->rows);
    free(rates->base);
    free(rates->block_s);
    free(rates->sum_places);
    free(rates->sums);
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
    if (rates->places[index] == 0 && live_bytes == 0 && live_chunks == 0 && allocs == 0)
        return;
    struct rates_row *row = own_row(rates, index);
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
    end = end < rates->count ? end : rates->count;
    for (size_t i = from; i < end; i++) {
        if (rates->places[i] != 0 && rates->rows[rates->places[i]].look != rates->look)
            rates_set(rates, i, time_s, 0, 0, 0);
        /* A range that ends within a block leaves the rest of the block to the next range. */
        if ((i + 1) % RATES_BLOCK == 0 || i + 1 == rates->count)
            rates->block_s[i / RATES_BLOCK] = time_s;
    }
}

void rates_end(struct rates *rates, double time_s) {
    rates->since_s = time_s;
}

void rates_set_waste(struct rates *rates, size_t index, int64_t waste_bytes) {
    if (rates->places[index] != 0 || (waste_bytes != 0 && waste_bytes != WIRE_UNKNOWN))
        own_row(rates, index)->own.waste_bytes = waste_bytes;
}

const struct rates_sums *rates_own(const struct rates *rates, size_t index) {
    return &rates->rows[rates->places[index]].own;
}

void rates_go_on(struct rates *rates, size_t index, const struct rates *before, size_t was,
                 double time_s) {
    uint32_t place = before->places[was];
    struct rates_sums own = *rates_own(rates, index);
    if (place != 0) {
        *own_row(rates, index) = before->rows[place];
        if (rates->has_base)
            rates->base[rates->places[index]] = before->base[place];
    }
    rates_set(rates, index, time_s, own.live_bytes, own.live_chunks, own.allocs);
}

void rates_forget_allocs(struct rates *rates, size_t index) {
    rates->rows[rates->places[index]].own.alloc_rate = WIRE_UNKNOWN;
}

void rates_forget_growth(struct rates *rates, size_t index) {
    rates->rows[rates->places[index]].own.growth = WIRE_UNKNOWN;
    rates_forget_allocs(rates, index);
}

void rates_forget_all(struct rates *rates) {
    for (size_t i = 0; i < rates->count; i++) {
        rates_forget_growth(rates, i);
        rates->rows[rates->places[i]].read_s = rates->block_s[i / RATES_BLOCK] = -1;
    }
}

/* --- the base, and sums ---------------------------------------------------------------------- */

void rates_mark(struct rates *rates) {
    rates->base = cli_grow(rates->base, rates->row_capacity, sizeof *rates->base);
    for (size_t i = 0; i < rates->row_count; i++) {
        const struct rates_sums *own = &rates->rows[i].own;
        rates->base[i] = (struct rates_base_row){own->live_bytes, own->live_chunks, own->allocs,
                                                 own->waste_bytes};
    }
    rates->has_base = true;
    rates->summed = 0; /* the sums are not those of this base: rates_add_up makes them again */
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

/* Bits of an element of rates->sum_places; the other bits are the number of a row or of an element
 * of rates->sums. Most contexts have no sum of their own: a leaf has the figures of its row, and a
 * context without chunks has the sum of its only child. */
#define SUM_IS_ROW 0x80000000U /* the number is that of a row; row 0 has no figures */
#define SUM_IS_OWN 0x40000000U /* the sum belongs to this context, not to one below it */

static uint32_t sum_number(uint32_t place) {
    return place & ~(SUM_IS_ROW | SUM_IS_OWN);
}

static const struct rates_sums *sum_at(const struct rates *rates, uint32_t place) {
    return place & SUM_IS_ROW ? &rates->rows[sum_number(place)].own
                              : &rates->sums[sum_number(place)];
}

static const struct rates_base_row *base_at(const struct rates *rates, uint32_t place) {
    return &(place & SUM_IS_ROW ? rates->base : rates->base_sums)[sum_number(place)];
}

/* Makes a sum that begins with the figures of a place. Returns its place. */
static uint32_t add_sum(struct rates *rates, uint32_t place) {
    size_t number = rates->sum_count++;
    if (number == rates->sum_capacity) {
        rates->sum_capacity += rates->sum_capacity / 4 + 64;
        rates->sums = cli_grow(rates->sums, rates->sum_capacity, sizeof *rates->sums);
    }
    rates->sums[number] = *sum_at(rates, place);
    if (rates->has_base) {
        if (number >= rates->base_sum_capacity) {
            rates->base_sum_capacity = rates->sum_capacity;
            rates->base_sums =
                cli_grow(rates->base_sums, rates->base_sum_capacity, sizeof *rates->base_sums);
        }
        rates->base_sums[number] = *base_at(rates, place);
    }
    return (uint32_t)number | SUM_IS_OWN;
}

static void add_to_parent(struct rates *rates, uint32_t parent, uint32_t part) {
    uint32_t *place = &rates->sum_places[parent];
    if (part == SUM_IS_ROW)
        return;
    if (*place == SUM_IS_ROW) {
        *place = part & ~SUM_IS_OWN;
        return;
    }
    if (!(*place & SUM_IS_OWN))
        *place = add_sum(rates, *place);
    rates_add(&rates->sums[sum_number(*place)], sum_at(rates, part));
    if (rates->has_base)
        add_base(&rates->base_sums[sum_number(*place)], base_at(rates, part));
}

void rates_add_up(struct rates *rates, const struct model *model, const bool *counts) {
    size_t count = model->context_count;
    if (count > rates->sum_place_capacity) {
        rates->sum_place_capacity = count + count / 4;
        rates->sum_places =
            cli_grow(rates->sum_places, rates->sum_place_capacity, sizeof *rates->sum_places);
    }
    for (size_t i = 0; i < count; i++)
        rates->sum_places[i] = SUM_IS_ROW | (!counts || counts[i] ? rates->places[i] : 0);
    rates->summed = count;
    rates->sum_count = 0;
    for (size_t i = count; i-- > 1;)
        add_to_parent(rates, model->contexts[i].parent, rates->sum_places[i]);
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
    uint32_t place = subtree && index < rates->summed ? rates->sum_places[index]
                                                      : SUM_IS_ROW | rates->places[index];
    const struct rates_sums *now = sum_at(rates, place);
    if (!difference || !rates->has_base)
        return rates_figure(now, column);
    const struct rates_base_row *base = base_at(rates, place);
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
