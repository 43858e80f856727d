/* SPDX-License-Identifier: MIT */
/*
 * series.h - the figures of call paths at several looks (samples).
 */
#ifndef MEMCTX_SERIES_H
#define MEMCTX_SERIES_H

#include "diagnosis/look.h"
#include "diagnosis/trend.h"

/* The figures of contexts at all samples. Contexts with equal folded paths share a row. The last
 * row, series->sum, is the sum of the rows that the caller has added by series_add. */
struct series {
    const struct look *look;
    const struct samples *samples;
    size_t sum;               /* index of the last row */
    struct sample_row **rows; /* rows[sample][number of the figures of the row's first context] */
    double *seconds;          /* seconds[sample]: uptime of the process */
    double *allocs;           /* allocs[sample]: allocations of the process */
    double *kept;             /* kept[sample]: chunks of the paths that keep most chunks */
    int64_t *threads;         /* threads[sample]: threads that are new since the first sample */
    double *x;                /* buffers for the figures of one path */
    int64_t *values;
    /* Indices of a few samples (trend_few). Some judgements use only these, so that chance in one
     * of many intervals does not decide. */
    size_t few[TREND_FEW], few_count;
    size_t *falling; /* numbers of the paths that shrink */
    size_t falling_count;
    struct sample_row *shrinking; /* shrinking[sample]: sum over the paths that shrink */
    /* Set by garbage_may_be (garbage.h). collected[sample]: V8 made a full collection after the
     * sample before; NULL: not known yet. buffers_grown: the growth of all buffers of JavaScript */
    bool *collected;
    int64_t buffers_grown;
};

void series_make(struct series *series, const struct look *look);
void series_free(struct series *series);
/* Adds a row to the row series->sum. */
void series_add(struct series *series, size_t number);
/* Sets series->values to the bytes of a row at all samples, or at the samples of series->few. */
void series_take_bytes(struct series *series, size_t number);
void series_take_few(struct series *series, size_t number);
/* Returns the mean size of a row's chunks at a sample. */
static inline int64_t series_mean_bytes(const struct sample_row *row) {
    return row->requested_bytes / larger(1, row->live_chunks);
}

/* Returns the most bytes that the path of a row ever had; WIRE_UNKNOWN: not known, or the row is
 * series->sum. Compares the path with all paths that share its row, so do not call it for each
 * path. */
int64_t series_peak(const struct series *series, size_t number);
/* True if at least half of the chunks that the path of a row allocates stay alive. */
bool series_keeps_most(const struct series *series, size_t number);

#endif
