/* SPDX-License-Identifier: MIT */
/* load.c - compares the memory that a path holds with how often the path allocates. It does not
 * judge chunks that live longer than an interval, such as the connections of a server. */
#include "diagnosis/load.h"

#include <stdlib.h>

#define INTERVALS_MIN 5 /* fewer intervals may agree by chance */
/* Memory follows the load if at most 1/REST_PART of its growth is beyond what the load explains. */
#define REST_PART 6
/* In growth without waves it is off from what the load explains by at most 1/OFF_PART, in all
 * intervals but one, and one of OFF_IN more. (In a wave the load may change much within an
 * interval.) */
#define OFF_PART 4
#define OFF_IN 8
/* Memory of which the second half of the time has at most 1/GROWTH_PART more than the first half
 * may follow the load by chance. */
#define GROWTH_PART 2
/* The last interval is left out if it is shorter than 1/SHORT_PART of the mean. */
#define SHORT_PART 2

/* The intervals that are judged: live bytes at the end of each, and the load in it. */
struct load {
    double *bytes, *rate;
    size_t count;
};

static double sum_of(const double *figures, size_t from, size_t to) {
    double sum = 0;
    for (size_t i = from; i < to; i++)
        sum += figures[i];
    return sum;
}

/* True if the load explains the growth. With `each`, it has to do so in each interval. */
static bool follows(const struct load *load, bool each) {
    size_t count = load->count, middle = count / 2, off = 0;
    double first = sum_of(load->bytes, 0, middle), last = sum_of(load->bytes, middle, count);
    double first_rate = sum_of(load->rate, 0, middle);
    double last_rate = sum_of(load->rate, middle, count);
    double life = (first + last) / (first_rate + last_rate);
    double growth = last / (double)(count - middle) - first / (double)middle;
    double rest = (last - first / first_rate * last_rate) / (double)(count - middle);
    for (size_t i = 0; i < count; i++) {
        double beyond = load->bytes[i] - life * load->rate[i];
        off += (beyond < 0 ? -beyond : beyond) > load->bytes[i] / OFF_PART;
    }
    return growth > first / (double)middle / GROWTH_PART && rest <= growth / REST_PART &&
           (!each || off <= 1 + count / OFF_IN);
}

/* Takes the intervals of the trend; the rates are allocations in a second, or in an interval. The
 * last interval ends now, so it may be much shorter than the others. Then it is left out. Returns
 * false if chunks live longer than an interval: an interval has fewer allocations than chunks. */
static bool take(const struct series *series, size_t number, const struct trend *trend,
                 bool by_time, struct load *load) {
    const double *seconds = series->seconds;
    int64_t all = 0, live = 0;
    size_t to = trend->to;
    double mean = (seconds[to] - seconds[trend->from]) / (double)(to - trend->from);
    to -= seconds[to] - seconds[to - 1] < mean / SHORT_PART;
    load->count = 0;
    for (size_t i = trend->from + 1; i <= to; i++) {
        const struct sample_row *row = &series->rows[i][number];
        int64_t allocs = row->allocs - series->rows[i - 1][number].allocs;
        double length = by_time ? seconds[i] - seconds[i - 1] : 1;
        if (row->live_chunks <= 0 || allocs <= 0 || length <= 0)
            return false;
        all = model_tame(all + allocs);
        live = model_tame(live + row->live_chunks);
        load->bytes[load->count] = (double)row->requested_bytes;
        load->rate[load->count++] = (double)allocs / length;
    }
    return load->count >= INTERVALS_MIN && all >= live;
}

bool load_explains(const struct series *series, size_t number, const struct trend *trend) {
    if (trend->to - trend->from < INTERVALS_MIN || trend->kind == TREND_STEPS)
        return false;
    struct load load = {.bytes = cli_alloc(trend->to, sizeof *load.bytes),
                        .rate = cli_alloc(trend->to, sizeof *load.rate)};
    bool each = trend->kind != TREND_WAVES;
    /* A program that stands still while somebody looks makes the rates in time uneven. */
    bool explains = take(series, number, trend, true, &load) && follows(&load, each) &&
                    take(series, number, trend, false, &load) && follows(&load, each);
    free(load.bytes);
    free(load.rate);
    return explains;
}
