/* SPDX-License-Identifier: MIT */
/*
 * growth.h - the figures of call paths at several looks (samples), and whether they grew.
 */
#ifndef MEMCTX_GROWTH_H
#define MEMCTX_GROWTH_H

#include "diagnosis/look.h"
#include "diagnosis/trend.h"

/* What to say of growth that a runtime may free as garbage. */
struct garbage {
    const char *means; /* what the growing chunks are */
    const char *sure;  /* how sure it is that they are garbage */
};

/* The growth of a context, or of all contexts of a suspect. */
struct growth {
    enum trend_kind kind;
    int64_t bytes, chunks, allocs;
    int64_t live;       /* number of chunks, at the end */
    int64_t mean_bytes; /* mean size of the chunks, at the end */
    double a_day;       /* bytes */
    double seconds;     /* time in which it grew */
    bool slowing;       /* the growth becomes ever slower, like that of a cache that fills */
    bool seldom;        /* nearly all of the growth was in one or two intervals */
    bool even;          /* five intervals or more added about as much each */
    /* 0, or the number of intervals at the end in which the growth went on evenly. The other fields
     * are about these intervals. */
    size_t even_end;
    /* The growth is that of all members of its suspect, which make chunks larger in turn (turns.h).
     * It stands in the row of the suspect's first member. */
    bool in_turns;
    /* 0, or the number of the figures of another path: this growth is the difference from that path
     * (paired.h). The fields above are about the difference. */
    size_t beside;
    /* Set only for a suspect; NULL: the memory is not freed as garbage. */
    const struct garbage *garbage;
    struct trend_line line; /* set only for a suspect, for the sum and for TREND_STEPS */
    /* Set only for a suspect: the number of new threads, and the number of the suspect's new chunks
     * for each of these threads. Both 0: the number of chunks does not follow that of threads. */
    int64_t threads, per_thread;
};

/* The figures of contexts at all samples. Contexts with equal folded paths share a row. The last
 * row, series->sum, is the sum of the rows that the caller has added by series_add. */
struct series {
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
/* Returns the growth of a row; its kind is TREND_NONE if it did not grow. */
struct growth growth_of(struct series *series, size_t number);
/* True if a row's growth per allocation of the program, or from sample to sample, becomes a little
 * slower, and in time, too. */
bool growth_slackens(struct series *series, size_t number);
/* Returns the growth of a suspect. `growths` has the growth of each row. */
struct growth growth_of_suspect(const struct look *look, struct series *series,
                                const struct growth *growths, const struct blame_suspect *suspect);

#endif
