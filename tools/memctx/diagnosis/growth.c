/* SPDX-License-Identifier: MIT */
/* growth.c - judges whether the figures of call paths grew, and how. */
#include "diagnosis/growth.h"

#include <stdlib.h>
#include <string.h>

#include "diagnosis/chance.h"
#include "diagnosis/garbage.h"
#include "diagnosis/load.h"

#define DAY_S 86400.0
/* waves that rose by more than BEFORE_TIMES their later rise before may have settled */
#define BEFORE_TIMES 4
/* a path makes chunks larger if new chunks account for at most this share of its growth */
#define LARGER_SHARE 0.5
/* If paths that keep most make this share of all allocations, the other paths are too few to
 * measure the load. */
#define KEPT_ALLOCS 0.9
#define ALIKE 0.05 /* keeps_alike: the share that is kept differs by at most this part */
/* growth has begun once a path has grown by 1/BEGUN_PART of all its growth */
#define BEGUN_PART 16
/* at most 1/FREED_PART of the new chunks of growth with pauses were freed */
#define FREED_PART 64
/* count_per_thread compares chunks with threads only if there are at least THREADS_MIN new threads,
 * and at most PER_THREAD new chunks for each of them */
#define THREADS_MIN 4
#define PER_THREAD 8
/* With more samples than this, growth measured by time alone has to slow down more clearly. */
#define TIMES_MIN 4
#define EVEN_INTERVALS 5 /* growth->even needs at least so many intervals */
/* find_even_end: least number of intervals; the second half grows at least GOES_ON times as much as
 * the first */
#define EVEN_END 6
#define GOES_ON 0.9
#define FAST_FIRST 1.5 /* only_declines */
/* are_few_that_change: greatest number of new chunks, and of the bytes by which the path grew */
#define FEW_CHUNKS 3
#define FEW_BYTES (32 * MIB)
#define FADE_PARTS 4 /* growth that fades is judged at the ends of so many parts of the samples */
/* If the bytes per added chunk are more than LARGER times the mean size, the existing chunks grew.
 */
#define LARGER 4

/* True if the path's chunks became larger rather than more, as the buffers of a table do. The path
 * allocates only to make a chunk larger, so growth per allocation of its own never slows down. */
static bool makes_chunks_larger(const struct series *series, size_t number) {
    const struct sample_row *from = &series->rows[0][number];
    const struct sample_row *to = &series->rows[series->samples->count - 1][number];
    int64_t more = to->live_chunks - from->live_chunks;
    int64_t bytes = to->requested_bytes - from->requested_bytes;
    return bytes > 0 &&
           (double)more * (double)series_mean_bytes(to) <= LARGER_SHARE * (double)bytes;
}

/* True if the path keeps about the same share of its chunks in each interval of series->few, as a
 * path does that allocates two short-lived chunks for each chunk that stays. Then growth per
 * allocation of the path never slows down. Needs five samples. */
static bool keeps_alike(const struct series *series, size_t number) {
    size_t last = series->few_count - 1;
    const struct sample_row *from = &series->rows[series->few[0]][number];
    const struct sample_row *to = &series->rows[series->few[last]][number];
    double all =
        (double)(to->live_chunks - from->live_chunks) / (double)(to->allocs - from->allocs);
    for (size_t i = 1; i <= last; i++) {
        const struct sample_row *before = &series->rows[series->few[i - 1]][number];
        const struct sample_row *after = &series->rows[series->few[i]][number];
        double kept = (double)(after->live_chunks - before->live_chunks);
        double off = kept - all * (double)(after->allocs - before->allocs);
        if (kept <= 0 || off > ALIKE * kept || off < -ALIKE * kept)
            return false;
    }
    return last >= TIMES_MIN;
}

/* Returns the elements of `figures` at the samples of series->few. The caller frees the list. */
static double *few_of(const struct series *series, const double *figures) {
    double *few = cli_alloc(series->few_count, sizeof *few);
    for (size_t i = 0; i < series->few_count; i++)
        few[i] = figures[series->few[i]];
    return few;
}

static bool falls_somewhere(const double *x, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (x[i] < x[i - 1])
            return true;
    return false;
}

/* True if the path's bytes rise from each sample to the next, as those of a cache do that is far
 * from full. A queue that falls behind has dips. */
static bool rises_always(const struct series *series, size_t number) {
    for (size_t i = 1; i < series->samples->count; i++)
        if (series->rows[i][number].requested_bytes <= series->rows[i - 1][number].requested_bytes)
            return false;
    return true;
}

/* True if series->values at the samples of series->few become slower in time, or from sample to
 * sample: a program that waits while somebody looks makes intervals of time uneven. */
static bool few_are_slower(struct series *series, const double *seconds) {
    for (size_t i = 0; i < series->few_count; i++)
        series->x[i] = (double)i;
    return trend_is_slower(seconds, series->values, series->few_count) ||
           trend_slackens(series->x, series->values, series->few_count);
}

/* True if series->values at the samples of series->few become slower in time, and from sample to
 * sample, too, by about as much. */
static bool wanes_in_time(struct series *series, const double *seconds) {
    size_t count = series->few_count;
    for (size_t i = 0; i < count; i++)
        series->x[i] = (double)i;
    return count > TIMES_MIN ? trend_slows(seconds, series->values, count) ||
                                   (trend_wanes(seconds, series->values, count) &&
                                    trend_wanes(series->x, series->values, count))
                             : trend_slackens(seconds, series->values, count) &&
                                   trend_slackens(series->x, series->values, count);
}

/* True if the growth of a path for each allocation of the program slows down. New chunks of paths
 * that keep most of their chunks do not count as load: they become fewer when growth slows down.
 * `slackens`: growth for each allocation of the path becomes a little slower. */
static bool slows_with_load(struct series *series, size_t number, bool slackens,
                            const double *seconds, double *allocs) {
    size_t count = series->few_count;
    double kept = series->kept[series->few[count - 1]] - series->kept[series->few[0]];
    if (kept >= KEPT_ALLOCS * (allocs[count - 1] - allocs[0]))
        return wanes_in_time(series, seconds) || (slackens && few_are_slower(series, seconds));
    for (size_t i = 0; i < count; i++)
        allocs[i] -= series->kept[series->few[i]];
    if (falls_somewhere(allocs, count))
        return false;
    double entry =
        (double)larger(1, series_mean_bytes(&series->rows[series->samples->count - 1][number]));
    bool slows =
        trend_slows(allocs, series->values, count) || trend_bends(allocs, series->values, count) ||
        trend_wanes(allocs, series->values, count) ||
        (rises_always(series, number) && trend_declines(allocs, series->values, count, entry));
    if (slows || (slackens && trend_slackens(allocs, series->values, count)))
        return few_are_slower(series, seconds);
    return count <= TIMES_MIN && trend_slackens(allocs, series->values, count) &&
           wanes_in_time(series, seconds);
}

/* True if the path's growth slows down at the samples of series->few. `seconds`, `allocs` (of the
 * process) and series->values (bytes of the path) have one element for each of these samples. If
 * memctx reset lowered the counts of allocations in between, only the time is judged. */
static bool samples_slow_down(struct series *series, size_t number, const double *seconds,
                              double *allocs) {
    size_t count = series->few_count;
    for (size_t i = 0; i < count; i++)
        series->x[i] = (double)series->rows[series->few[i]][number].allocs;
    if (falls_somewhere(series->x, count) || falls_somewhere(allocs, count))
        return count > TIMES_MIN && trend_slows(seconds, series->values, count);
    if (trend_slows(series->x, series->values, count) ||
        trend_bends(series->x, series->values, count))
        return true;
    bool slackens = trend_slackens(series->x, series->values, count);
    /* Buffers that grow by doubling grow unevenly, so a few samples tell nothing of the load. */
    bool larger = count > TIMES_MIN && makes_chunks_larger(series, number);
    if (!series_keeps_most(series, number) && !larger && !slackens && !keeps_alike(series, number))
        return false;
    return slows_with_load(series, number, slackens, seconds, allocs);
}

/* Sets series->values to the bytes of a path at all samples, and series->x to their numbers. The
 * last sample is taken now, so the last interval may be far shorter in time than the others. */
static void take_all(struct series *series, size_t number) {
    series_take_bytes(series, number);
    for (size_t i = 0; i < series->samples->count; i++)
        series->x[i] = (double)i;
}

bool growth_slackens(struct series *series, size_t number) {
    size_t count = series->samples->count;
    double *seconds = few_of(series, series->seconds), *allocs = few_of(series, series->allocs);
    series_take_few(series, number);
    bool by_load = !falls_somewhere(allocs, series->few_count) &&
                   trend_slackens(allocs, series->values, series->few_count) &&
                   few_are_slower(series, seconds);
    free(seconds);
    free(allocs);
    take_all(series, number);
    return by_load || (trend_slackens(series->x, series->values, count) &&
                       trend_is_slower(series->seconds, series->values, count - 1));
}

/* True if the path grows from sample to sample ever less, and hardly any more at the end. Judges
 * quarters of the samples, because an arena for many small objects grows in chunks. */
static bool fades(struct series *series, size_t number) {
    size_t last = series->samples->count - 1;
    double at[FADE_PARTS + 1];
    int64_t values[FADE_PARTS + 1];
    take_all(series, number);
    for (size_t i = 0; i <= FADE_PARTS; i++) {
        size_t sample = i * last / FADE_PARTS;
        at[i] = (double)sample;
        values[i] = series->values[sample];
    }
    return last >= FADE_PARTS && trend_fades(at, values, FADE_PARTS + 1) &&
           trend_is_slower(series->seconds, series->values, last);
}

/* True if the path's growth per allocation of its own eases at the samples from `begins` on. */
static bool samples_ease(struct series *series, size_t number, size_t begins) {
    size_t count = series->samples->count;
    for (size_t i = begins; i < count; i++) {
        series->x[i] = (double)series->rows[i][number].allocs;
        series->values[i] = series->rows[i][number].requested_bytes;
    }
    return !falls_somewhere(series->x + begins, count - begins) &&
           trend_eases(series->x + begins, series->values + begins, count - begins);
}

/* Returns the index of the first sample after the path's growth began, or 0 if the path grew from
 * the first sample on. So the interval in which the growth began is left out: the path grew only in
 * a part of that interval. If fewer than three intervals would be left, returns an earlier sample,
 * the one three intervals before the last sample. */
static size_t growth_begins(const struct series *series, size_t number) {
    size_t last = series->samples->count - 1, at = 0;
    int64_t first = series->rows[0][number].requested_bytes;
    int64_t rise = series->rows[last][number].requested_bytes - first;
    while (at + 3 < last &&
           series->rows[at + 1][number].requested_bytes - first <= rise / BEGUN_PART)
        at++;
    return at > 0 && at + 3 < last ? at + 1 : at;
}

/* True if the path grows ever more slowly. A server that had nothing to do at first fills its cache
 * later, so the samples before the growth are left out. Growth per allocation of the path is judged
 * twice: by samples_slow_down, and by samples_ease, which chance in single intervals does not
 * disturb. Growth from sample to sample is judged by fades.
 *
 * If the path keeps most of its chunks, or if its growth per own allocation becomes a
 * little slower, growth per allocation of the program is judged, too. But if nearly all of the
 * program's allocations are made by paths that keep most of their chunks, these paths grow alike.
 * Then growth per second is judged instead. A leak that does not depend on the load also grows more
 * slowly per allocation while the load rises. So growth per second must be slower in at least one
 * interval, too. One interval is enough, because a program that pauses makes intervals of time
 * uneven. */
static bool is_slowing(struct series *series, size_t number) {
    struct series later = *series;
    size_t begins = growth_begins(series, number);
    later.few_count =
        trend_few(series->seconds + begins, series->samples->count - begins, later.few);
    for (size_t i = 0; i < later.few_count; i++)
        later.few[i] += begins;
    double *seconds = few_of(&later, series->seconds), *allocs = few_of(&later, series->allocs);
    series_take_few(&later, number);
    /* the bytes that the path held before the samples that are judged */
    int64_t held = begins > 0 ? later.values[0] : 0;
    for (size_t i = 0; i < later.few_count; i++)
        later.values[i] -= held;
    bool slowing = samples_slow_down(&later, number, seconds, allocs);
    free(seconds);
    free(allocs);
    return slowing || samples_ease(&later, number, begins) || fades(series, number);
}

/* Finds the straight line along which series->values grow; line.steady is false if the line
 * explains less than half of the growth. */
static struct trend_line explaining_line(const struct series *series, int64_t bytes) {
    size_t count = series->samples->count;
    struct trend_line line = trend_line(series->seconds, series->values, count);
    line.steady = line.steady && series->values[count - 1] - series->values[line.from] >= bytes / 2;
    return line;
}

/* True if there are at most FEW_CHUNKS more chunks, of about the size as before and not very large,
 * while as many or more were freed. A queue of a few large buffers looks like that by chance. */
static bool are_few_that_change(const struct sample_row *from, const struct sample_row *to) {
    int64_t chunks = to->live_chunks - from->live_chunks, allocs = to->allocs - from->allocs;
    return from->live_chunks > 0 && chunks > 0 && chunks <= FEW_CHUNKS && allocs >= 2 * chunks &&
           to->requested_bytes - from->requested_bytes <= FEW_BYTES &&
           series_mean_bytes(to) / 2 <= series_mean_bytes(from);
}

/* True if series->values rise from `middle` to `to` at GOES_ON times the rate before, from `from`
 * to `middle`, or faster. `before` and `after` are the lengths of these two parts, in seconds or in
 * allocations. */
static bool goes_on(const struct series *series, size_t from, size_t middle, size_t to,
                    double before, double after) {
    const int64_t *values = series->values;
    return before > 0 && after > 0 &&
           (double)(values[to] - values[middle]) / after >=
               GOES_ON * (double)(values[middle] - values[from]) / before;
}

/* Calls goes_on with lengths along x, such as series->seconds. */
static bool goes_on_along(const struct series *series, const double *x, size_t from, size_t middle,
                          size_t to) {
    return goes_on(series, from, middle, to, x[middle] - x[from], x[to] - x[middle]);
}

/* True if the growth of the path declines in time from the first sample to the last, and the rate
 * before the sample `from` is less than FAST_FIRST times the rate after it: the growth became
 * slower all the time, and no leak begins at `from`. series->values are the bytes of the path. */
static bool only_declines(const struct series *series, size_t number, size_t from) {
    size_t count = series->samples->count, few[TREND_FEW], last = count - 1;
    double at[TREND_FEW];
    int64_t values[TREND_FEW];
    size_t few_count = trend_few(series->seconds, count, few);
    for (size_t i = 0; i < few_count; i++) {
        at[i] = series->seconds[few[i]];
        values[i] = series->values[few[i]];
    }
    double before = (double)(series->values[from] - series->values[0]) *
                    (series->seconds[last] - series->seconds[from]);
    double after = (double)(series->values[last] - series->values[from]) *
                   (series->seconds[from] - series->seconds[0]);
    return before < FAST_FIRST * after &&
           trend_declines(at, values, few_count,
                          (double)larger(1, series_mean_bytes(&series->rows[last][number])));
}

/* Returns the program's allocations between two samples, without those of paths that keep most of
 * their chunks: these become fewer when growth slows down. */
static double load_between(const struct series *series, size_t from, size_t to) {
    return series->allocs[to] - series->allocs[from] - series->kept[to] + series->kept[from];
}

/* True if series->values rise more slowly from `middle` to `to` than before for each allocation of
 * the program, and also in one interval of time. If there are too few such allocations, the rise
 * from sample to sample is judged. A vocabulary grows ever more slowly with the words that were
 * read. If it does not grow more slowly in time, too, the program only reads faster. But a leak
 * that does not depend on the load rises evenly in time while the load rises. */
static bool declines_with_load(const struct series *series, size_t from, size_t middle, size_t to) {
    double all = series->allocs[to] - series->allocs[from];
    if (load_between(series, from, to) < (1 - KEPT_ALLOCS) * all)
        return !goes_on(series, from, middle, to, (double)(middle - from), (double)(to - middle));
    return !goes_on(series, from, middle, to, load_between(series, from, middle),
                    load_between(series, middle, to)) &&
           trend_is_slower(series->seconds + from, series->values + from, to - from + 1);
}

/* A cache that has been filled, and then leaks, grows fast at first and slowly later. Finds the
 * first sample from which on the path grew evenly, by more than chance explains, and no more slowly
 * in the second half than in the first, in time, for each of its own allocations, and with the
 * load (declines_with_load). At least half of all intervals must follow. Returns 0 if there is no
 * such sample. The growth of a cache that fills slows down in its second half, too. */
static size_t find_even_end(struct series *series, size_t number) {
    size_t count = series->samples->count, last = count - 1;
    if (falls_somewhere(series->allocs, count))
        return 0;
    series_take_bytes(series, number);
    for (size_t i = 0; i < count; i++)
        series->x[i] = (double)series->rows[i][number].allocs;
    for (size_t from = 1; last - from >= EVEN_END && last - from >= last / 2; from++) {
        size_t middle = from + (last - from) / 2;
        if (series->values[middle] > series->values[from] && chance_is_even(series, from, last) &&
            !chance_explains(series, number, from, last) &&
            goes_on_along(series, series->seconds, from, middle, last) &&
            goes_on_along(series, series->x, from, middle, last) &&
            !declines_with_load(series, from, middle, last))
            return only_declines(series, number, from) ? 0 : from;
    }
    return 0;
}

/* Subtracts the old array at samples that were taken while an array was copied: both arrays
 * existed, so the path had one more chunk. */
static void subtract_copied(struct series *series, size_t number) {
    size_t count = series->samples->count;
    for (size_t i = 1; i < count; i++) {
        int64_t before = series->rows[i - 1][number].live_chunks;
        if (series->rows[i][number].live_chunks == before + 1 &&
            (i + 1 == count || series->rows[i + 1][number].live_chunks == before))
            series->values[i] -= series->rows[i - 1][number].requested_bytes;
    }
}

/* True if each step of the series adds one chunk, and each chunk is larger than the chunk before by
 * a quarter or more. An arena grows like this, such as std::pmr::monotonic_buffer_resource. */
static bool adds_larger_chunks(const struct series *series, size_t number,
                               const struct trend *steps) {
    int64_t before = 0;
    for (size_t i = steps->from + 1; i <= steps->to; i++) {
        int64_t step = series->values[i] - series->values[i - 1];
        int64_t chunks =
            series->rows[i][number].live_chunks - series->rows[i - 1][number].live_chunks;
        if (chunks != (step > 0) || (step > 0 && step < before + before / 4))
            return false;
        before = step > 0 ? step : before;
    }
    return true;
}

/* Judges the path, whose bytes are series->values, as an array or an arena that grows by a factor.
 * For an array, subtracts the bytes of arrays that were just being copied from series->values. */
static struct trend find_steps(struct series *series, size_t number) {
    struct trend none = {.kind = TREND_NONE};
    size_t count = series->samples->count;
    struct trend steps = trend_steps(series->seconds, series->values, count);
    if (steps.kind == TREND_STEPS && adds_larger_chunks(series, number, &steps))
        return steps;
    subtract_copied(series, number);
    steps = trend_steps(series->seconds, series->values, count);
    int64_t from = series->rows[steps.from][number].live_chunks;
    /* An array that grows adds at most one chunk: the copy to which it moves. If more chunks are
     * new, something else grew. */
    bool more = series->rows[steps.to][number].live_chunks > from + 1;
    return more ? none : steps;
}

/* Returns how a path grew, and sets series->values to its bytes. A path that grew with dips, or
 * that seems not to have grown, is also judged as an array that grows in steps. */
static struct trend find_trend(struct series *series, size_t number) {
    size_t count = series->samples->count;
    series_take_bytes(series, number);
    struct trend trend = trend_of(series->seconds, series->values, count);
    bool grew =
        trend.kind != TREND_NONE &&
        (trend.kind != TREND_DIPS || !trend_stopped(series->seconds, series->values, count));
    if (grew && trend.kind != TREND_DIPS)
        return trend;
    series_take_bytes(series, number);
    struct trend steps = find_steps(series, number);
    if (!grew || steps.kind == TREND_STEPS)
        return steps;
    series_take_bytes(series, number);
    return trend;
}

/* Growth with pauses may have begun long after the first sample, so that the rate over all samples
 * is far below the rate since then. Takes the rate of the line that ends at the last sample, if it
 * is higher. */
static void take_rate_of_line(struct growth *growth) {
    double a_day = growth->line.slope * DAY_S;
    if (growth->line.steady && growth->kind != TREND_STEPS && a_day > growth->a_day)
        growth->a_day = a_day;
}

/* Sets by how much the path grew between two samples. series->values are its bytes. */
static void take_growth(const struct series *series, size_t number, size_t from, size_t to,
                        struct growth *growth) {
    const struct sample_row *before = &series->rows[from][number];
    const struct sample_row *after = &series->rows[to][number];
    growth->bytes = series->values[to] - series->values[from];
    growth->chunks = after->live_chunks - before->live_chunks;
    growth->allocs = larger(0, after->allocs - before->allocs);
    growth->seconds = series->seconds[to] - series->seconds[from];
}

/* True if a series of waves rose much more before its first low point than between its low points.
 * Such a series may have reached its full size, and only swing since. */
static bool rose_before(const int64_t *values, const struct trend *waves) {
    int64_t between = values[waves->to] - values[waves->from];
    return (values[waves->from] - values[0]) / BEFORE_TIMES > between;
}

struct growth growth_of(struct series *series, size_t number) {
    struct trend trend = find_trend(series, number);
    if (trend.kind == TREND_NONE)
        return (struct growth){0};
    const struct sample_row *from = &series->rows[trend.from][number];
    const struct sample_row *to = &series->rows[trend.to][number];
    struct growth growth = {
        .kind = trend.kind, .live = to->live_chunks, .mean_bytes = series_mean_bytes(to)};
    take_growth(series, number, trend.from, trend.to, &growth);
    if (chance_explains(series, number, trend.from, trend.to) &&
        !chance_is_even(series, trend.from, trend.to))
        return (struct growth){0};
    if (trend.kind == TREND_DIPS && are_few_that_change(from, to))
        return (struct growth){0};
    growth.swings = chance_hides_waves(series, number, &trend);
    if (growth.swings && trend.kind == TREND_WAVES)
        return (struct growth){0};
    growth.by_load = load_explains(series, number, &trend);
    growth.even = trend.kind == TREND_STEADY && trend.to - trend.from >= EVEN_INTERVALS &&
                  chance_is_even(series, trend.from, trend.to);
    bool waves = trend.kind == TREND_WAVES && !rose_before(series->values, &trend);
    bool settled = !waves && chance_has_settled(series, number, &trend);
    growth.seldom = trend.kind == TREND_STEADY &&
                    !trend_rises_often(series->seconds, series->values, series->samples->count);
    if (trend.kind == TREND_STEPS)
        growth.line = trend_line_of_steps(series->seconds, series->values, series->samples->count);
    else
        /* Within a wave the rates tell nothing. */
        growth.slowing = waves ? trend.slower : settled || is_slowing(series, number);
    size_t end = growth.slowing ? find_even_end(series, number) : 0;
    if (end > 0) {
        take_growth(series, number, end, trend.to, &growth);
        growth.kind = TREND_STEADY;
        growth.even_end = trend.to - end;
        growth.even = true;
        growth.slowing = growth.seldom = false;
    }
    if (number == series->sum) {
        series_take_bytes(series, number);
        growth.line = explaining_line(series, growth.bytes);
    }
    growth.a_day = growth.seconds > 0 ? (double)growth.bytes / growth.seconds * DAY_S : 0;
    if (number == series->sum)
        take_rate_of_line(&growth);
    return growth;
}

/* Finds the straight line along which the sum of the suspect's members grows. Leaves the sum in
 * series->values if the suspect has several members or does not grow in steps. */
static struct trend_line line_of_suspect(const struct look *look, struct series *series,
                                         const struct growth *growths,
                                         const struct blame_suspect *suspect) {
    size_t count = series->samples->count;
    int64_t bytes = 0;
    const struct growth *first = &growths[blame_number(&look->paths, suspect->members[0])];
    if (first->kind == TREND_STEPS && (suspect->count == 1 || first->in_turns))
        return first->line;
    memset(series->values, 0, count * sizeof *series->values);
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t number = blame_number(&look->paths, suspect->members[k]);
        bytes = model_tame(bytes + growths[number].bytes);
        for (size_t i = 0; i < count; i++)
            series->values[i] =
                model_tame(series->values[i] + series->rows[i][number].requested_bytes);
    }
    return explaining_line(series, bytes);
}

/* If the number of the suspect's chunks follows the number of threads at every sample, sets
 * growth->threads and growth->per_thread. */
static void count_per_thread(const struct look *look, const struct series *series,
                             const struct blame_suspect *suspect, struct growth *growth) {
    size_t count = series->samples->count;
    int64_t threads = series->threads[count - 1];
    int64_t each = threads >= THREADS_MIN ? (growth->chunks + threads / 2) / threads : 0;
    if (each < 1 || each > PER_THREAD)
        return;
    for (size_t i = 1; i < count; i++) {
        int64_t off = -each * series->threads[i];
        for (size_t k = 0; k < suspect->count; k++) {
            uint32_t number = blame_number(&look->paths, suspect->members[k]);
            off = model_tame(off + series->rows[i][number].live_chunks -
                             series->rows[0][number].live_chunks);
        }
        if (off > threads / 8 + 1 || off < -threads / 8 - 1)
            return;
    }
    growth->threads = threads;
    growth->per_thread = each;
}

struct growth growth_of_suspect(const struct look *look, struct series *series,
                                const struct growth *growths, const struct blame_suspect *suspect) {
    struct growth sum = {.slowing = true,
                         .seldom = true,
                         .even = true,
                         .swings = true,
                         .by_load = true,
                         .line = line_of_suspect(look, series, growths, suspect)};
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t number = blame_number(&look->paths, suspect->members[k]);
        const struct growth *part = &growths[number];
        if (look->paths.same[number] != number) /* its figures are in the row of an alike path */
            continue;
        if (part->kind != TREND_STEPS && part->kind > sum.kind)
            sum.kind = part->kind;
        sum.bytes = model_tame(sum.bytes + part->bytes);
        sum.chunks = model_tame(sum.chunks + part->chunks);
        sum.allocs = model_tame(sum.allocs + part->allocs);
        sum.live = model_tame(sum.live + part->live);
        sum.in_turns = sum.in_turns || part->in_turns;
        sum.beside = part->beside != 0 ? part->beside : sum.beside;
        sum.mean_bytes = larger(sum.mean_bytes, part->mean_bytes);
        sum.a_day += part->a_day;
        sum.seconds = part->seconds > sum.seconds ? part->seconds : sum.seconds;
        sum.slowing = sum.slowing && part->slowing;
        sum.seldom = sum.seldom && part->seldom;
        sum.even = sum.even && part->even;
        sum.swings = sum.swings && part->swings;
        sum.by_load = sum.by_load && part->by_load;
        sum.even_end = part->even_end > sum.even_end ? part->even_end : sum.even_end;
    }
    sum.seldom =
        sum.seldom && !trend_rises_often(series->seconds, series->values, series->samples->count);
    if (sum.kind == TREND_NONE)
        sum.kind = TREND_STEPS; /* all members have TREND_STEPS */
    take_rate_of_line(&sum);
    sum.garbage = garbage_may_be(look, series, suspect, &sum);
    count_per_thread(look, series, suspect, &sum);
    return sum;
}

bool growth_made_chunks_larger(const struct growth *growth) {
    return growth->chunks <= 0 || growth->bytes / growth->chunks > LARGER * growth->mean_bytes;
}

/* True if hardly anything of the growth was freed: what looks like dips are pauses, as those of a
 * program that had nothing to do at first. */
static bool only_pauses(const struct growth *growth) {
    return growth->kind == TREND_STEADY ||
           (growth->kind == TREND_DIPS &&
            growth->allocs - growth->chunks <= growth->chunks / FREED_PART);
}

bool growth_may_be_filling(const struct growth *growth) {
    return only_pauses(growth) && growth->even_end == 0 && growth->seconds < FILLS_S &&
           growth->per_thread == 0 && !growth_made_chunks_larger(growth) &&
           growth->allocs / growth->chunks <= 1;
}
