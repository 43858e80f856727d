/* SPDX-License-Identifier: MIT */
/* series.c - makes series of figures of call paths at several looks. */
#include "diagnosis/series.h"

#include <stdlib.h>

#include "diagnosis/trend.h"

#define KEPT_MOST 0.5 /* a path that keeps at least this share of its chunks "keeps most" */

/* Returns the rows of a sample: each is the sum over the contexts with one folded path. The index
 * of a row is the number of the figures of the first of these contexts. */
static struct sample_row *sum_alike(const struct look *look, const struct sample *sample) {
    struct sample_row *rows = cli_alloc(look->model->figures_count + 1, sizeof *rows);
    for (size_t i = 0; i < look->model->figures_count; i++) {
        struct sample_row *sum = &rows[look->paths.same[i]];
        sum->requested_bytes = model_tame(sum->requested_bytes + sample->rows[i].requested_bytes);
        sum->live_chunks = model_tame(sum->live_chunks + sample->rows[i].live_chunks);
        sum->allocs = model_tame(sum->allocs + sample->rows[i].allocs);
    }
    return rows;
}

void series_take_bytes(struct series *series, size_t number) {
    for (size_t i = 0; i < series->samples->count; i++)
        series->values[i] = series->rows[i][number].requested_bytes;
}

void series_take_few(struct series *series, size_t number) {
    for (size_t i = 0; i < series->few_count; i++)
        series->values[i] = series->rows[series->few[i]][number].requested_bytes;
}

bool series_keeps_most(const struct series *series, size_t number) {
    const struct sample_row *from = &series->rows[0][number];
    const struct sample_row *to = &series->rows[series->samples->count - 1][number];
    return (double)(to->live_chunks - from->live_chunks) >=
           KEPT_MOST * (double)(to->allocs - from->allocs);
}

void series_make(struct series *series, const struct look *look) {
    const struct samples *samples = look->input->samples;
    size_t count = samples->count, paths = look->model->figures_count;
    *series = (struct series){.look = look,
                              .samples = samples,
                              .sum = paths,
                              .rows = cli_alloc(count, sizeof(struct sample_row *)),
                              .seconds = cli_alloc(count, sizeof *series->seconds),
                              .allocs = cli_alloc(count, sizeof *series->allocs),
                              .kept = cli_alloc(count, sizeof *series->kept),
                              .threads = cli_alloc(count, sizeof *series->threads),
                              .x = cli_alloc(count, sizeof *series->x),
                              .values = cli_alloc(count, sizeof(int64_t)),
                              .falling = cli_alloc(paths, sizeof *series->falling),
                              .shrinking = cli_alloc(count, sizeof(struct sample_row))};
    for (size_t i = 0; i < count; i++) {
        series->rows[i] = sum_alike(look, &samples->samples[i]);
        series->seconds[i] = samples->samples[i].uptime_s;
        series->allocs[i] = (double)samples->samples[i].allocs;
    }
    look_new_threads(look, series->threads);
    series->few_count = trend_few(series->seconds, count, series->few);
    for (size_t k = 0; k < paths; k++) {
        if (series->rows[count - 1][k].allocs > series->rows[0][k].allocs &&
            series_keeps_most(series, k))
            for (size_t i = 0; i < count; i++)
                series->kept[i] += (double)series->rows[i][k].live_chunks;
        series_take_few(series, k);
        if (!trend_falls(series->values, series->few_count))
            continue;
        series->falling[series->falling_count++] = k;
        for (size_t i = 0; i < count; i++) {
            struct sample_row *sum = &series->shrinking[i];
            const struct sample_row *row = &series->rows[i][k];
            sum->requested_bytes = model_tame(sum->requested_bytes + row->requested_bytes);
            sum->live_chunks = model_tame(sum->live_chunks + row->live_chunks);
        }
    }
}

int64_t series_peak(const struct series *series, size_t number) {
    return number == series->sum || blame_has_copies(&series->look->paths, (uint32_t)number)
               ? WIRE_UNKNOWN
               : look_totals(series->look, number).peak_requested_bytes;
}

void series_free(struct series *series) {
    for (size_t i = 0; i < series->samples->count; i++)
        free(series->rows[i]);
    free(series->rows);
    free(series->seconds);
    free(series->allocs);
    free(series->kept);
    free(series->threads);
    free(series->x);
    free(series->values);
    free(series->falling);
    free(series->shrinking);
    free(series->collected);
}

void series_add(struct series *series, size_t number) {
    for (size_t i = 0; i < series->samples->count; i++) {
        struct sample_row *sum = &series->rows[i][series->sum];
        const struct sample_row *row = &series->rows[i][number];
        sum->requested_bytes = model_tame(sum->requested_bytes + row->requested_bytes);
        sum->live_chunks = model_tame(sum->live_chunks + row->live_chunks);
        sum->allocs = model_tame(sum->allocs + row->allocs);
    }
}
