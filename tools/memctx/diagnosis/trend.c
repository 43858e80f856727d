/* SPDX-License-Identifier: MIT */
/* trend.c - judges whether a series of figures grows. */
#include "diagnosis/trend.h"

#define LOW_POINTS_MIN 3 /* fewer low points than this may be chance */
#define DIP_SHARE 3      /* the rise is at least this many times the largest dip */
#define WAVE_SHARE 8     /* low points rise by at least 1/8 of the largest fall */
#define LIFTS_DIFFER 2.0 /* the rates of low and of high points differ at most by this factor */
/* trend_rises_often: LARGE_RISES rises are 1/LARGE_RISE of their largest one or more */
#define LARGE_RISES 3
#define LARGE_RISE 8
#define LAST_SHARE 10 /* in a rise with dips, the last quarter adds at least 1/10 of the rise */
/* a rate counts as lower than another rate if it is at most SLOWER times that rate */
#define SLOWER 0.97
/* trend_slows: the last rate is below SLOW_IN_WINDOW times the first rate, or below SLOW_AT_ALL
 * times the average rate before the series. trend_is_slower: a rate is below SLOWER_SOMEWHERE times
 * an earlier rate. */
#define SLOW_IN_WINDOW 0.6
#define SLOWER_SOMEWHERE 0.85
#define EVEN 1.05 /* a rate up to this many times the previous rate is not higher */
#define BENT 0.5  /* trend_bends: the last rate is at most this many times the first rate */
/* trend_slackens: the last rate is at most SLACK times the first rate, no rate more than ABOUT
 * times the previous one */
#define SLACK 0.8
#define ABOUT 1.1
#define FADE_INTERVALS 4 /* trend_fades needs at least this many intervals */
#define FADED 0.1        /* trend_fades: the last rate is at most this many times the first rate */
/* trend_eases divides x into EASE_PARTS equal parts. The second half adds at most EASED_HALF of
 * what the first half adds, the last quarter at most EASED_QUARTER of what the third quarter adds.
 */
#define EASE_PARTS 4
#define EASE_ELEMENTS 5 /* trend_eases needs at least this many elements */
#define EASED_HALF 0.33
#define EASED_QUARTER 0.75
/* trend_wanes: the last quarter of x adds at most WANED_QUARTER of what the first one adds, the
 * second half at most WANED_HALF of what the first half adds */
#define WANED_QUARTER 0.6
#define WANED_HALF 0.7
/* trend_declines: the last rate is at most DECLINED times the first rate, and their difference is
 * at least SURE times its standard error */
#define DECLINE_INTERVALS 4
#define DECLINED 0.85
#define SURE 6.0
#define NEAR_LINE 8     /* an element is near the line if it is off by at most 1/8 of the rise */
#define LINE_ELEMENTS 4 /* trend_line needs at least this many elements */
#define STOPPED_INTERVALS 6 /* trend_stopped needs at least this many intervals */
#define STEP_PART 4         /* a step is at least 1/4 of the value before it */
#define OVERDUE 1.1         /* the next step is overdue after this many times the expected time */
#define STEPS_MOST 16       /* a line goes through at most this many of the newest steps */
/* a series has stopped if its last quarter adds less than 1/16 of the rise */
#define STOPPED_SHARE 16
/* a rate below this many times the average rate from x = 0 to the first element is slow */
#define SLOW_AT_ALL 0.5

static int64_t largest_of(const int64_t *values, size_t count) {
    int64_t largest = values[0];
    for (size_t i = 1; i < count; i++)
        largest = values[i] > largest ? values[i] : largest;
    return largest;
}

/* Returns the largest fall from an element to a later one. */
static int64_t largest_fall(const int64_t *values, size_t count) {
    int64_t highest = values[0], fall = 0;
    for (size_t i = 1; i < count; i++) {
        highest = values[i] > highest ? values[i] : highest;
        fall = highest - values[i] > fall ? highest - values[i] : fall;
    }
    return fall;
}

/* The low points of a series, or its high points: number, and index of the first and the last. */
struct points {
    size_t count, from, to;
    int64_t last; /* value of the last point */
};

/* Adds the next point. Returns false if its value is not above that of the previous point. */
static bool add_point(struct points *points, size_t at, int64_t value) {
    if (points->count > 0 && value <= points->last)
        return false;
    points->from = points->count == 0 ? at : points->from;
    points->to = at;
    points->last = value;
    points->count++;
    return true;
}

/* Returns by how much the points rise, on average, from one element to the next. */
static double lift_of(const struct points *points, const int64_t *values) {
    return points->to > points->from ? (double)(values[points->to] - values[points->from]) /
                                           (double)(points->to - points->from)
                                     : 0;
}

/* The search for the low and the high points of a series. A swing by less than `least` is noise. */
struct swings {
    const int64_t *values;
    int64_t least;
    int direction;    /* 1: the series rises, -1: it falls, 0: it has not swung yet */
    size_t high, low; /* the highest and the lowest element since the last turn */
    struct points highs, lows;
};

/* Takes the next element. Returns false if a low point is not above the previous one, or a high
 * point not above the previous one. */
static bool swings_take(struct swings *swings, size_t i) {
    const int64_t *values = swings->values;
    if (swings->direction >= 0 && values[i] > values[swings->high])
        swings->high = i;
    if (swings->direction <= 0 && values[i] < values[swings->low])
        swings->low = i;
    bool falls = swings->direction >= 0 && values[swings->high] - values[i] >= swings->least;
    bool rises = swings->direction <= 0 && values[i] - values[swings->low] >= swings->least;
    if (!falls && !rises)
        return true;
    bool turns = swings->direction != 0; /* else the first swing begins here */
    swings->direction = falls ? -1 : 1;
    size_t at = falls ? swings->high : swings->low;
    if (falls)
        swings->low = i;
    else
        swings->high = i;
    return !turns || add_point(falls ? &swings->highs : &swings->lows, at, values[at]);
}

/* True if the low points, or the high points, rise more slowly in the second half of the time.
 * `points`: all of them. */
static bool points_slow_down(const int64_t *values, int64_t least, const struct points *points,
                             bool lows) {
    struct swings swings = {.values = values, .least = least};
    const struct points *now = lows ? &swings.lows : &swings.highs;
    size_t middle = (points->from + points->to) / 2, found = points->from;
    for (size_t i = 1; found < middle; i++) {
        swings_take(&swings, i);
        found = now->count > 0 ? now->to : found;
    }
    if (found <= points->from || found >= points->to)
        return false;
    double before = (double)(values[found] - values[points->from]) / (double)(found - points->from);
    double after = (double)(values[points->to] - values[found]) / (double)(points->to - found);
    return after < SLOW_IN_WINDOW * before;
}

/* Returns TREND_WAVES if low points and high points rise about equally fast. Memory that is never
 * freed lifts both alike. In the heap of a garbage collector, or with buffers that come and go,
 * points may rise by chance, but rarely equally fast. */
static struct trend waves_beyond(const int64_t *values, size_t count, int64_t fall, int64_t least) {
    struct trend trend = {.kind = TREND_NONE};
    struct swings swings = {.values = values, .least = least};
    for (size_t i = 1; i < count; i++)
        if (!swings_take(&swings, i))
            return trend;
    const struct points *lows = &swings.lows;
    double low_lift = lift_of(lows, values), high_lift = lift_of(&swings.highs, values);
    trend.from = lows->from;
    trend.to = lows->to;
    trend.lows = lows->count;
    trend.fall = fall;
    if (lows->count >= LOW_POINTS_MIN &&
        values[lows->to] - values[lows->from] >= fall / WAVE_SHARE &&
        high_lift >= low_lift / LIFTS_DIFFER && high_lift <= low_lift * LIFTS_DIFFER)
        trend.kind = TREND_WAVES;
    trend.slower = trend.kind == TREND_WAVES && points_slow_down(values, least, lows, true) &&
                   points_slow_down(values, least, &swings.highs, false);
    return trend;
}

/* Judges the series by all its low and high points. If it is no TREND_WAVES then, small swings are
 * left out, because the load of a server has noise on each slope of a wave. */
static struct trend waves(const int64_t *values, size_t count, int64_t fall) {
    struct trend trend = waves_beyond(values, count, fall, 1);
    return trend.kind != TREND_NONE || fall / WAVE_SHARE <= 1
               ? trend
               : waves_beyond(values, count, fall, fall / WAVE_SHARE);
}

/* True if the last element is the highest, or, because the last look may have come during a dip,
 * exceeds the first three quarters by a tenth of the rise. False for a series that has reached its
 * full size and only swings. */
static bool ends_high(const int64_t *values, size_t count, int64_t rise) {
    int64_t before = largest_of(values, (count - 1) * 3 / 4 + 1), last = values[count - 1];
    return last == largest_of(values, count) || last - before >= rise / LAST_SHARE;
}

/* Returns the rise up to an element; with `x` the rise for each 1 of x. */
static double rise_at(const double *x, const int64_t *values, size_t i) {
    double rise = (double)(values[i] - values[i - 1]), step = x ? x[i] - x[i - 1] : 1;
    return step > 0 ? rise / step : 0;
}

/* Returns the number of rises between the elements `from` and `last` that are 1/LARGE_RISE of the
 * largest one or more. */
static size_t large_rises(const double *x, const int64_t *values, size_t from, size_t last) {
    double largest = 0;
    size_t count = 0;
    for (size_t i = from + 1; i <= last; i++)
        largest = rise_at(x, values, i) > largest ? rise_at(x, values, i) : largest;
    for (size_t i = from + 1; i <= last; i++)
        count += values[i] > values[i - 1] && rise_at(x, values, i) >= largest / LARGE_RISE;
    return count;
}

static bool rises_often(const double *x, const int64_t *values, size_t count) {
    if (count > LARGE_RISES && large_rises(x, values, 0, count - 1) >= LARGE_RISES)
        return true;
    for (size_t i = 0; i + LARGE_RISES < count; i++)
        if (large_rises(x, values, i, i + LARGE_RISES) == LARGE_RISES)
            return true;
    return false;
}

bool trend_rises_often(const double *x, const int64_t *values, size_t count) {
    return rises_often(NULL, values, count) || rises_often(x, values, count);
}

struct trend trend_of(const double *x, const int64_t *values, size_t count) {
    struct trend none = {.kind = TREND_NONE};
    if (count < 2)
        return none;
    size_t rises = 0;
    for (size_t i = 1; i < count; i++)
        rises += values[i] > values[i - 1];
    struct trend whole = {.kind = TREND_STEADY, .to = count - 1};
    if (rises == count - 1)
        return whole;
    int64_t fall = largest_fall(values, count), rise = values[count - 1] - values[0];
    whole.kind = TREND_DIPS;
    /* A series that rises only at the beginning does not grow: its second half must add a quarter
     * of the rise. */
    int64_t later = values[count - 1] - values[(count - 1) / 2];
    if (trend_rises_often(x, values, count) && ends_high(values, count, rise) &&
        rise / DIP_SHARE >= fall && later >= rise / 4)
        return whole;
    return waves(values, count, fall);
}

bool trend_falls(const int64_t *values, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[0])
            return false;
    return count > 1 && values[count - 1] < values[0];
}

static double rate_at(const double *x, const int64_t *values, size_t i) {
    double step = x[i] - x[i - 1];
    return step > 0 ? (double)(values[i] - values[i - 1]) / step : 0;
}

/* True if the rate is below `in_window` times the first rate, or below SLOW_AT_ALL times the
 * average rate from x = 0 to the first element. */
static bool is_below(double rate, double first, double in_window, const double *x,
                     const int64_t *values) {
    double average = x[0] > 0 ? (double)values[0] / x[0] : 0;
    return rate < in_window * first || rate < SLOW_AT_ALL * average;
}

bool trend_slows(const double *x, const int64_t *values, size_t count) {
    if (count < 4)
        return false;
    double first = rate_at(x, values, 1), rate = first;
    for (size_t i = 2; i < count; i++) {
        double before = rate;
        rate = rate_at(x, values, i);
        if (rate > SLOWER * before)
            return false;
    }
    return is_below(rate, first, SLOW_IN_WINDOW, x, values);
}

/* True if no rate is more than `most` times the previous one, and the last is at most `share` of
 * the first. */
static bool falls_to(const double *x, const int64_t *values, size_t count, double most,
                     double share) {
    if (count < 4)
        return false;
    for (size_t i = 2; i < count; i++)
        if (rate_at(x, values, i) > most * rate_at(x, values, i - 1))
            return false;
    return rate_at(x, values, count - 1) <= share * rate_at(x, values, 1);
}

bool trend_bends(const double *x, const int64_t *values, size_t count) {
    if (count != 4)
        return falls_to(x, values, count, EVEN, BENT);
    /* With three intervals, the last two are taken together: chance may make either of them larger.
     */
    double rest = x[3] > x[1] ? (double)(values[3] - values[1]) / (x[3] - x[1]) : 0;
    double first = rate_at(x, values, 1);
    return values[3] >= values[1] && rest <= BENT * first && rate_at(x, values, 3) <= SLACK * first;
}

bool trend_slackens(const double *x, const int64_t *values, size_t count) {
    return falls_to(x, values, count, ABOUT, SLACK);
}

bool trend_fades(const double *x, const int64_t *values, size_t count) {
    return count > FADE_INTERVALS && falls_to(x, values, count, 1, FADED);
}

bool trend_declines(const double *x, const int64_t *values, size_t count, double unit) {
    if (count <= DECLINE_INTERVALS || !falls_to(x, values, count, SLOWER, DECLINED))
        return false;
    double first = (double)(values[1] - values[0]) / unit;
    double last = (double)(values[count - 1] - values[count - 2]) / unit;
    double off = 1 - rate_at(x, values, count - 1) / rate_at(x, values, 1);
    return first > 0 && last > 0 && off * off >= SURE * SURE * (1 / first + 1 / last);
}

bool trend_is_slower(const double *x, const int64_t *values, size_t count) {
    double highest = 0;
    for (size_t i = 1; i < count && count > 3; i++) {
        double rate = rate_at(x, values, i);
        if (rate < SLOWER_SOMEWHERE * highest)
            return true;
        highest = rate > highest ? rate : highest;
    }
    return count > 3 && is_below(rate_at(x, values, count - 1), 0, 0, x, values);
}

/* Returns the value at a point between the first and the last element of x, on the straight line
 * between the two elements around it. */
static double value_at(const double *x, const int64_t *values, size_t count, double at) {
    size_t i = 1;
    while (i + 1 < count && x[i] < at)
        i++;
    return (double)values[i] - rate_at(x, values, i) * (x[i] - at);
}

bool trend_eases(const double *x, const int64_t *values, size_t count) {
    double at[EASE_PARTS + 1];
    for (size_t i = 0; i <= EASE_PARTS && count >= EASE_ELEMENTS; i++)
        at[i] = value_at(x, values, count, x[0] + (x[count - 1] - x[0]) * (double)i / EASE_PARTS);
    return count >= EASE_ELEMENTS && x[count - 1] > x[0] &&
           at[4] - at[2] <= EASED_HALF * (at[2] - at[0]) &&
           at[4] - at[3] <= EASED_QUARTER * (at[3] - at[2]);
}

bool trend_wanes(const double *x, const int64_t *values, size_t count) {
    double at[EASE_PARTS + 1];
    if (count < EASE_ELEMENTS || x[count - 1] <= x[0])
        return false;
    for (size_t i = 0; i <= EASE_PARTS; i++)
        at[i] = value_at(x, values, count, x[0] + (x[count - 1] - x[0]) * (double)i / EASE_PARTS);
    for (size_t i = 2; i <= EASE_PARTS; i++)
        if (at[i] - at[i - 1] > ABOUT * (at[i - 1] - at[i - 2]))
            return false;
    return at[4] - at[3] <= WANED_QUARTER * (at[1] - at[0]) &&
           at[4] - at[2] <= WANED_HALF * (at[2] - at[0]);
}

/* True if all elements are near the line through the elements `from` and `last`. */
static bool is_near_line(const double *x, const int64_t *values, size_t from, size_t last) {
    double rise = (double)(values[last] - values[from]), run = x[last] - x[from];
    if (rise <= 0 || run <= 0)
        return false;
    for (size_t i = from; i <= last; i++) {
        double off = (double)(values[i] - values[from]) - rise * (x[i] - x[from]) / run;
        if (off > rise / NEAR_LINE || off < -rise / NEAR_LINE)
            return false;
    }
    return true;
}

struct trend_line trend_line(const double *x, const int64_t *values, size_t count) {
    struct trend_line line = {.steady = false};
    if (count < LINE_ELEMENTS)
        return line;
    size_t from = 0, last = count - 1;
    while (from + LINE_ELEMENTS <= count && !is_near_line(x, values, from, last))
        from++;
    if (from + LINE_ELEMENTS > count)
        return line;
    line.steady = true;
    /* Leave out a flat piece at the beginning, although it is near the line. */
    for (;; from++) {
        line.slope = (double)(values[last] - values[from]) / (x[last] - x[from]);
        line.from = from;
        if (from + LINE_ELEMENTS >= count || rate_at(x, values, from + 1) >= line.slope / 2 ||
            !is_near_line(x, values, from + 1, last))
            return line;
    }
}

static size_t nearest(const double *x, size_t count, double wanted) {
    size_t found = 0;
    for (size_t i = 1; i < count; i++) {
        double off = x[i] - wanted, best = x[found] - wanted;
        found = (off < 0 ? -off : off) < (best < 0 ? -best : best) ? i : found;
    }
    return found;
}

bool trend_stopped(const double *x, const int64_t *values, size_t count) {
    if (count <= STOPPED_INTERVALS)
        return false;
    size_t last = count - 1, at = nearest(x, count, x[0] + (x[last] - x[0]) * 3 / 4);
    at = at == last ? last - 1 : at;
    return values[last] - values[at] < (values[last] - values[0]) / STOPPED_SHARE;
}

size_t trend_few(const double *x, size_t count, size_t *few) {
    size_t chosen = 0;
    for (size_t i = 0; i < TREND_FEW && i < count; i++) {
        double part = (double)i / (TREND_FEW - 1);
        size_t at = count <= TREND_FEW ? i : nearest(x, count, x[0] + part * (x[count - 1] - x[0]));
        if (chosen == 0 || at > few[chosen - 1])
            few[chosen++] = at;
    }
    return chosen;
}

/* True if the array was made between the elements i - 1 and i. That rise says nothing of how the
 * array grows. */
static bool is_first_size(const int64_t *values, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (values[k] != 0)
            return false;
    return true;
}

struct trend trend_steps(const double *x, const int64_t *values, size_t count) {
    struct trend none = {.kind = TREND_NONE}, steps = {.kind = TREND_STEPS};
    size_t found = 0, before = 0; /* `before`: the step before the last one */
    for (size_t i = 1; i < count; i++) {
        int64_t step = values[i] - values[i - 1];
        if (step == 0 || is_first_size(values, i))
            continue;
        if (values[i - 1] <= 0 || step < values[i - 1] / STEP_PART)
            return none;
        steps.from = found == 0 ? i - 1 : steps.from;
        before = steps.to;
        steps.to = i;
        found++;
    }
    if (found < 2)
        return none;
    int64_t step = values[steps.to] - values[steps.to - 1];
    double longer = (double)step / (double)(values[before] - values[before - 1]);
    /* upper bound of the distance between the last two steps */
    double apart = x[steps.to] - x[before - 1];
    return x[count - 1] - x[steps.to] > OVERDUE * longer * apart ? none : steps;
}

struct trend_line trend_line_of_steps(const double *x, const int64_t *values, size_t count) {
    double times[STEPS_MOST];
    int64_t full[STEPS_MOST];
    size_t at[STEPS_MOST], first = STEPS_MOST;
    for (size_t i = count; i-- > 1 && first > 0;) {
        if (values[i] == values[i - 1] || is_first_size(values, i))
            continue;
        at[--first] = i;
        times[first] = x[i];
        full[first] = values[i - 1];
    }
    struct trend_line line = trend_line(times + first, full + first, STEPS_MOST - first);
    line.from = line.from > 0 ? at[first + line.from] : 0;
    return line;
}
