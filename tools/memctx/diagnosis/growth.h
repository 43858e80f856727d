/* SPDX-License-Identifier: MIT */
/*
 * growth.h - how the figures of call paths went over several looks, and whether they grew.
 */
#ifndef MEMCTX_GROWTH_H
#define MEMCTX_GROWTH_H

#include "diagnosis/look.h"
#include "diagnosis/trend.h"

/* The growth of a context, or of all contexts of a suspect. */
struct growth {
    enum trend_kind kind;
    int64_t bytes, chunks, allocs;
    int64_t mean_bytes; /* of the chunks, at the end */
    double a_day;       /* bytes */
    double seconds;
    bool slowing;           /* as a cache does that fills */
    struct trend_line line; /* only of a suspect, and of the sum */
};

/* The figures of contexts at all samples, where contexts with the same folded path share a row. The
 * last row, series->sum, is for a sum that the user of the series makes. */
struct series {
    const struct samples *samples;
    size_t sum;               /* the row of a sum */
    struct sample_row **rows; /* by sample, and by the number of the first context's figures */
    double *seconds;          /* since the process started, by sample */
    double *allocs;           /* of the process, by sample */
    double kept_allocs;       /* from the first sample to the last, of paths that keep most */
    double *x;                /* for one path at a time, as `values` */
    int64_t *values;
    /* A few of the samples, for judgements that chance in one of many intervals may not decide. */
    size_t few[TREND_FEW], few_count;
    size_t *falling; /* numbers of the paths that shrink */
    size_t falling_count;
    struct sample_row *shrinking; /* by sample: sum over the paths that shrink */
};

void series_make(struct series *series, const struct look *look);
void series_free(struct series *series);
/* Adds a row to the row of the sum. */
void series_add(struct series *series, size_t number);
/* Returns the growth of a row; its kind is TREND_NONE if it did not grow. */
struct growth growth_of(struct series *series, size_t number);
/* Returns the growth of a suspect. `growths` has that of each row. */
struct growth growth_of_suspect(const struct look *look, struct series *series,
                                const struct growth *growths, const struct blame_suspect *suspect);

#endif
