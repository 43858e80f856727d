/* SPDX-License-Identifier: MIT */
/* chance.c - judges growth by statistics of its samples. */
#include "diagnosis/chance.h"

/* Chance explains growth of up to CHANCE times the standard deviation. Growth is even if its mean
 * is EVEN times the standard error. Fewer than CHANCE_CHUNKS chunks are not judged. */
#define CHANCE 3.0
#define EVEN 6.0
#define CHANCE_CHUNKS 64
#define SWING_INTERVALS 6 /* a series swings if it has at least so many intervals */
/* All chunks may go at the end of each wave if they live for at most this share of a wave, in the
 * mean. Chunks that are collected until all of them go live for half of it. */
#define LIFE_SHARE 0.6
/* a path has been higher between the looks if it is below its peak by 1/BELOW_SHARE of its growth
 */
#define BELOW_SHARE 4

/* True if the path's growth between two samples is no larger than chance may make it: its chunks
 * come and go at random, and at the later sample there are more of them. The number of such chunks
 * varies by about the square root of the number of chunks that came or went, and by no more than
 * the square root of twice the number of live chunks. series->values are the bytes of the path. */
bool chance_explains(const struct series *series, size_t number, size_t from, size_t to) {
    const struct sample_row *before = &series->rows[from][number];
    const struct sample_row *after = &series->rows[to][number];
    double chunks = (double)after->live_chunks;
    double moved = 2 * (double)larger(0, after->allocs - before->allocs) -
                   (double)(after->live_chunks - before->live_chunks); /* came or went */
    double variance = moved < 2 * chunks ? moved : 2 * chunks;
    double grown = (double)(series->values[to] - series->values[from]) /
                   (double)larger(1, series_mean_bytes(after));
    return chunks >= CHANCE_CHUNKS && grown * grown <= CHANCE * CHANCE * variance;
}

/* True if series->values grow evenly between two samples. */
bool chance_is_even(const struct series *series, size_t from, size_t to) {
    double count = (double)(to - from);
    double mean = (double)(series->values[to] - series->values[from]) / count, squares = 0;
    for (size_t i = from + 1; i <= to; i++) {
        double off = (double)(series->values[i] - series->values[i - 1]) - mean;
        squares += off * off;
    }
    return mean * mean * count * (count - 1) >= EVEN * EVEN * squares;
}

/* True if series->values fell at some time by as much as the last one exceeds all values up to
 * `middle`, so that the new height tells nothing. Chunks that come and go in groups, such as the
 * documents of a list of the newest 100, swing by more than the square root of their number. */
static bool swings_as_high(const struct series *series, size_t from, size_t middle, size_t to) {
    const int64_t *values = series->values;
    int64_t highest = values[from], fall = 0, before = 0;
    for (size_t i = from; i <= to; i++) {
        highest = larger(highest, values[i]);
        before = i <= middle ? highest : before;
        fall = larger(fall, highest - values[i]);
    }
    return fall > 0 && values[to] - before <= fall;
}

/* True if the path grew in the first half of the time, and no more than by chance after that. A
 * table whose slots are filled and replaced at random grows in this way. Two intervals cannot show
 * that growth is even. */
bool chance_has_settled(const struct series *series, size_t number, const struct trend *trend) {
    size_t from = trend->from, to = trend->to, middle = from + (to - from) / 2;
    int64_t first = series->values[middle] - series->values[from];
    if (to - from < 3 || series->values[to] - series->values[middle] > first / 3 * 2 ||
        (to - middle > 2 && chance_is_even(series, middle, to)))
        return false;
    return chance_explains(series, number, middle, to) ||
           (to - from >= SWING_INTERVALS && swings_as_high(series, from, middle, to));
}

/* Returns how long the path's chunks live, in the mean, as a part of an interval: the live chunks
 * at the looks divided by the chunks that were allocated between these. */
static double life_of(const struct series *series, size_t number, const struct trend *trend) {
    int64_t live = 0, allocs = series->rows[trend->to][number].allocs -
                               series->rows[trend->from][number].allocs;
    for (size_t i = trend->from + 1; i <= trend->to; i++)
        live = model_tame(live + series->rows[i][number].live_chunks);
    return (double)live / (double)larger(1, allocs);
}

bool chance_hides_waves(const struct series *series, size_t number, const struct trend *trend) {
    const int64_t *values = series->values;
    double life = life_of(series, number, trend);
    double rise = (double)(values[trend->to] - values[trend->from]);
    if (trend->kind == TREND_WAVES) {
        double wave = (double)(trend->to - trend->from) / (double)(trend->lows - 1);
        return life <= LIFE_SHARE * wave && rise * (wave - 1) < (double)trend->fall;
    }
    if ((trend->kind != TREND_STEADY && trend->kind != TREND_DIPS) || life > 1)
        return false;
    int64_t peak = series_peak(series, number);
    return peak != WIRE_UNKNOWN && (double)(peak - values[trend->to]) >= rise / BELOW_SHARE;
}
