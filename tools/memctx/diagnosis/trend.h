/* SPDX-License-Identifier: MIT */
/*
 * trend.h - whether a series of figures grows with time, in spite of dips and waves.
 *
 * Memory of a server rises and falls with its load. A series grows if it rises in every interval,
 * if its dips are small against its rise, or if it goes in waves whose low points and high points
 * rise about equally fast. A series that only swings below an earlier high point does not grow.
 */
#ifndef MEMCTX_TREND_H
#define MEMCTX_TREND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trend_kind {
    TREND_NONE,
    TREND_STEADY, /* a rise in every interval */
    /* a rise, often (trend_rises_often), with dips of at most a third of the rise */
    TREND_DIPS,
    /* at least three low points; each low point is higher than the previous one, and each high
     * point too */
    TREND_WAVES,
    TREND_STEPS, /* at least two rises, each by a quarter or more, and no fall (trend_steps) */
};

struct trend {
    enum trend_kind kind;
    /* the series grew between these elements; for waves the first and the last low point */
    size_t from, to;
    /* Set only for waves. slower: low and high points rose more slowly in the second half of the
     * time; lows: number of low points; fall: the largest fall from an element to a later one */
    bool slower;
    size_t lows;
    int64_t fall;
};

/* The elements of `x` rise. */
struct trend trend_of(const double *x, const int64_t *values, size_t count);

/* True if at least three rises of the series have an eighth of its largest rise or more; also if
 * the series rises in three intervals one after the other, each time by an eighth of the largest of
 * these three rises or more. Chance may lift a queue of few large batches once or twice. Rises
 * count as they are, or for each 1 of `x`: marks may be set at long and at short intervals. */
bool trend_rises_often(const double *x, const int64_t *values, size_t count);

/* A rise along a straight line up to the last element. */
struct trend_line {
    bool steady;  /* false: the series has no such rise; the other fields are not set */
    size_t from;  /* first element of the rise; 0: the rise may have begun before the series */
    double slope; /* rise of the values for each 1 of x */
};

/* Finds the longest straight rise up to the last element: it has at least three intervals, and no
 * element is off the line by more than an eighth of the rise. A flat piece at its beginning is left
 * out. The elements of `x` rise. */
struct trend_line trend_line(const double *x, const int64_t *values, size_t count);

/* Judges the size of an array that becomes larger by a factor whenever it is full. Such a series
 * never falls, and has two steps or more, each of at least a quarter of the value before it. It may
 * begin with zeros: the array was made later, and its first size is no step. If the array fills
 * evenly, the times between its steps become longer as the steps become larger; a series whose next
 * step is long overdue has stopped. Returns the elements before the first step and at the last one;
 * TREND_NONE for other series. */
struct trend trend_steps(const double *x, const int64_t *values, size_t count);

/* Finds the line along which the array of a series with TREND_STEPS fills: at each step it is full.
 * The line is steady only if there are at least four steps. Its `from` is an element of the series.
 */
struct trend_line trend_line_of_steps(const double *x, const int64_t *values, size_t count);

/* True if a series that grew has stopped: less than a sixteenth of its rise is in the last quarter
 * of x. False for fewer than six intervals. */
bool trend_stopped(const double *x, const int64_t *values, size_t count);

/* Chooses at most TREND_FEW elements, about evenly spaced in x, among them the first and the last,
 * so that chance in one of many intervals decides nothing. Writes their indices to `few`; returns
 * their number. */
#define TREND_FEW 5
size_t trend_few(const double *x, size_t count, size_t *few);

/* True if the last element is lower than the first, and no element is higher than the first. */
bool trend_falls(const int64_t *values, size_t count);

/* True if the series rises ever more slowly along `x`, like a cache that fills. Each rate is lower
 * than the previous one, and the last rate is far below the first rate, or far below the average
 * rate from x = 0 to the first element. The elements of `x` rise. False for fewer than three
 * intervals. */
bool trend_slows(const double *x, const int64_t *values, size_t count);

/* True if the series becomes slower, though not as much as trend_slows asks for: no rate is more
 * than a tenth higher than the previous one, and the last rate is at most four fifths of the
 * first. False for fewer than three intervals. */
bool trend_slackens(const double *x, const int64_t *values, size_t count);

/* True if the series hardly rises any more: no rate is higher than the previous one, and the last
 * rate is at most a tenth of the first. False for fewer than four intervals. */
bool trend_fades(const double *x, const int64_t *values, size_t count);

/* True if the series rose evenly at first and much more slowly at the end, like a pool that has
 * nearly reached its largest size. No rate is clearly higher than the previous one, and the last
 * rate is at most half of the first. With three intervals, the last two together count as the last.
 * False for fewer than three intervals. */
bool trend_bends(const double *x, const int64_t *values, size_t count);

/* True if the series becomes flat, like a table that is filled at random: the second half of x adds
 * much less than the first half, and the last quarter less than the third. Chance in single
 * intervals matters little. False for fewer than four intervals. */
bool trend_eases(const double *x, const int64_t *values, size_t count);

/* True if the series rises ever more slowly, judged by quarters of x, so that chance in single
 * intervals matters little: no quarter adds more than a tenth more than the quarter before, the
 * last one adds at most three fifths of what the first one adds, and the second half at most seven
 * tenths of what the first half adds. False for fewer than four intervals. */
bool trend_wanes(const double *x, const int64_t *values, size_t count);

/* True if each rate is lower than the previous one, the last is at most DECLINED (trend.c) times
 * the first, and chance does not explain the difference: the series rises by `unit` for each new
 * entry, and entries come at random. So grows a cache that is far from full and whose keys are
 * drawn from a fixed set: ever more keys are there already. False for fewer than four intervals. */
bool trend_declines(const double *x, const int64_t *values, size_t count, double unit);

/* A weaker form of trend_slows, for uneven steps of `x`: true if any rate is clearly lower than an
 * earlier rate, or the last rate is far below the average rate from x = 0 to the first element.
 * False for fewer than three intervals. */
bool trend_is_slower(const double *x, const int64_t *values, size_t count);

#endif
