/* SPDX-License-Identifier: MIT */
/*
 * trend.h - whether a series of figures grows with time, in spite of dips and waves.
 *
 * Memory of a server rises and falls with its load. A series grows if it rises in every interval,
 * if its dips are small against its rise, or if it swings in waves whose low points and high points
 * rise alike. A series that swings below an old high point does not grow.
 */
#ifndef MEMCTX_TREND_H
#define MEMCTX_TREND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trend_kind {
    TREND_NONE,
    TREND_STEADY, /* a rise in every interval */
    TREND_DIPS,   /* a rise with dips of at most a third of it */
    TREND_WAVES,  /* each of at least three low points is higher than the one before, and so are
                     the high points */
};

struct trend {
    enum trend_kind kind;
    size_t from, to; /* elements between which the series grew; for waves two low points */
};

struct trend trend_of(const int64_t *values, size_t count);

/* A rise along a straight line up to the last element. */
struct trend_line {
    bool steady;  /* false: there is none, and the other fields mean nothing */
    size_t from;  /* the first element of the rise; 0: it may have begun before the series */
    double slope; /* of the values along x */
};

/* Finds the longest rise at the end of the series that has at least three intervals and of which no
 * element is off the line by more than an eighth of the rise. `x` rises. */
struct trend_line trend_line(const double *x, const int64_t *values, size_t count);

/* True if a series that grew has stopped: hardly anything of its rise is in the last quarter of x.
 * Not judged for fewer than six intervals. */
bool trend_stopped(const double *x, const int64_t *values, size_t count);

/* Chooses elements that are evenly spaced in x, at most TREND_FEW, with the first and the last one,
 * so that chance in one interval of many decides nothing. Writes their numbers; returns how many.
 */
#define TREND_FEW 5
size_t trend_few(const double *x, size_t count, size_t *few);

/* True if the series falls, and no element is higher than the first one. */
bool trend_falls(const int64_t *values, size_t count);

/* True if the series rises ever more slowly along `x`, as a cache does that fills: each rate is
 * lower than the one before, and the last rate is far below the first one or below the average
 * since x was 0. `x` rises. False if there are fewer than three intervals. */
bool trend_slows(const double *x, const int64_t *values, size_t count);

/* True if the series rose at first evenly, and at the end much more slowly: no rate is clearly
 * higher than the one before, and the last rate is at most half of the first one. A pool that has
 * nearly reached its largest size rises so. False if there are fewer than three intervals. */
bool trend_bends(const double *x, const int64_t *values, size_t count);

/* A weaker form of trend_slows, for steps of `x` that may be uneven: true if any rate is clearly
 * lower than an earlier one, or the last rate is clearly below the average. */
bool trend_is_slower(const double *x, const int64_t *values, size_t count);

#endif
