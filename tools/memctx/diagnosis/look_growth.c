/* SPDX-License-Identifier: MIT */
/* look_growth.c - finds call paths whose memory keeps growing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/forecast.h"
#include "diagnosis/join.h"
#include "diagnosis/look.h"
#include "diagnosis/trend.h"

#define DAY_S 86400.0
#define CHUNKS_MIN 16  /* growth by fewer chunks needs more bytes */
#define OWN_ALLOCS 0.9 /* from this share on, a path's allocations are the program's whole load */
#define KEPT_MOST 0.5  /* from this share on, a path keeps most of what it allocates */
#define TIMES_MIN 4    /* time alone is the measure for more samples than this */

/* What grew in a context, or in all contexts of a suspect. */
struct growth {
    enum trend_kind kind;
    int64_t bytes, chunks, allocs;
    double a_day; /* bytes */
    double seconds;
    bool slowing;           /* as a cache does that fills */
    struct trend_line line; /* only of a suspect */
};

/* The figures of contexts at all samples, where contexts with the same folded path share a row. */
struct series {
    const struct samples *samples;
    struct sample_row **rows; /* by sample, and by the number of the first context's figures */
    double *seconds;          /* since the process started, by sample */
    double *allocs;           /* of the process, by sample */
    double *x;                /* for one path at a time, as `values` */
    int64_t *values;
    /* A few of the samples, for judgements that chance in one of many intervals may not decide. */
    size_t few[TREND_FEW], few_count;
    size_t *falling; /* numbers of the paths that shrink */
    size_t falling_count;
    struct sample_row *shrinking; /* by sample: sum over the paths that shrink */
};

/* Adds up, at each sample, the contexts that have the same folded path. The index of a row is
 * the number of the figures of the first of these contexts. */
static struct sample_row *sum_alike(const struct look *look, const struct sample *sample) {
    struct sample_row *rows = cli_alloc(look->model->figures_count, sizeof *rows);
    for (size_t i = 0; i < look->model->figures_count; i++) {
        struct sample_row *sum = &rows[look->paths.same[i]];
        sum->requested_bytes = model_tame(sum->requested_bytes + sample->rows[i].requested_bytes);
        sum->live_chunks = model_tame(sum->live_chunks + sample->rows[i].live_chunks);
        sum->allocs = model_tame(sum->allocs + sample->rows[i].allocs);
    }
    return rows;
}

static void take_bytes(struct series *series, size_t number) {
    for (size_t i = 0; i < series->samples->count; i++)
        series->values[i] = series->rows[i][number].requested_bytes;
}

/* Takes the bytes of a path at the few samples only. */
static void take_few(struct series *series, size_t number) {
    for (size_t i = 0; i < series->few_count; i++)
        series->values[i] = series->rows[series->few[i]][number].requested_bytes;
}

static void series_make(struct series *series, const struct look *look) {
    const struct samples *samples = look->input->samples;
    size_t count = samples->count, paths = look->model->figures_count;
    *series = (struct series){.samples = samples,
                              .rows = cli_alloc(count, sizeof(struct sample_row *)),
                              .seconds = cli_alloc(count, sizeof *series->seconds),
                              .allocs = cli_alloc(count, sizeof *series->allocs),
                              .x = cli_alloc(count, sizeof *series->x),
                              .values = cli_alloc(count, sizeof(int64_t)),
                              .falling = cli_alloc(paths, sizeof *series->falling),
                              .shrinking = cli_alloc(count, sizeof(struct sample_row))};
    for (size_t i = 0; i < count; i++) {
        series->rows[i] = sum_alike(look, &samples->samples[i]);
        series->seconds[i] = samples->samples[i].uptime_s;
        for (size_t k = 0; k < paths; k++)
            series->allocs[i] += (double)series->rows[i][k].allocs;
    }
    series->few_count = trend_few(series->seconds, count, series->few);
    for (size_t k = 0; k < paths; k++) {
        take_few(series, k);
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

static void series_free(struct series *series) {
    for (size_t i = 0; i < series->samples->count; i++)
        free(series->rows[i]);
    free(series->rows);
    free(series->seconds);
    free(series->allocs);
    free(series->x);
    free(series->values);
    free(series->falling);
    free(series->shrinking);
}

/* Returns a figure of each sample at the few samples. The caller frees the list. */
static double *few_of(const struct series *series, const double *figures) {
    double *few = cli_alloc(series->few_count, sizeof *few);
    for (size_t i = 0; i < series->few_count; i++)
        few[i] = figures[series->few[i]];
    return few;
}

/* As is_slowing. `seconds` and `allocs`, of the process, are those of the few samples, as are the
 * path's bytes in series->values. */
static bool few_slow(struct series *series, size_t number, const double *seconds,
                     const double *allocs) {
    size_t count = series->few_count, last = series->few[count - 1];
    for (size_t i = 0; i < count; i++)
        series->x[i] = (double)series->rows[series->few[i]][number].allocs;
    double own = series->x[count - 1] - series->x[0];
    double all = allocs[count - 1] - allocs[0];
    double kept =
        (double)(series->rows[last][number].live_chunks - series->rows[0][number].live_chunks);
    if (trend_slows(series->x, series->values, count))
        return true;
    if (kept < KEPT_MOST * own)
        return false;
    if (own >= OWN_ALLOCS * all)
        return count > TIMES_MIN && trend_slows(seconds, series->values, count);
    return trend_slows(allocs, series->values, count) &&
           trend_is_slower(seconds, series->values, count);
}

/* True if the path grows ever more slowly. The measure is the
 * load: the path's own allocations, if it frees most of what it allocates; else the allocations of
 * the program, unless nearly all of these are the path's own; else time. A leak that does not
 * depend on the load grows ever more slowly per allocation when the load rises, but not per second.
 */
static bool is_slowing(struct series *series, size_t number) {
    double *seconds = few_of(series, series->seconds), *allocs = few_of(series, series->allocs);
    take_few(series, number);
    bool slowing = few_slow(series, number, seconds, allocs);
    free(seconds);
    free(allocs);
    return slowing;
}

static struct growth growth_of(struct series *series, size_t number) {
    take_bytes(series, number);
    struct trend trend = trend_of(series->values, series->samples->count);
    if (trend.kind == TREND_NONE ||
        (trend.kind == TREND_DIPS &&
         trend_stopped(series->seconds, series->values, series->samples->count)))
        return (struct growth){0};
    const struct sample_row *from = &series->rows[trend.from][number];
    const struct sample_row *to = &series->rows[trend.to][number];
    struct growth growth = {.kind = trend.kind,
                            .bytes = to->requested_bytes - from->requested_bytes,
                            .chunks = to->live_chunks - from->live_chunks,
                            .allocs = larger(0, to->allocs - from->allocs),
                            .seconds = series->seconds[trend.to] - series->seconds[trend.from],
                            .slowing = is_slowing(series, number)};
    growth.a_day = growth.seconds > 0 ? (double)growth.bytes / growth.seconds * DAY_S : 0;
    return growth;
}

/* Finds the straight line along which the suspect grows. It must explain half of its growth. */
static struct trend_line line_of_suspect(const struct look *look, struct series *series,
                                         const struct growth *growths,
                                         const struct blame_suspect *suspect) {
    size_t count = series->samples->count;
    int64_t bytes = 0;
    memset(series->values, 0, count * sizeof *series->values);
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t number = blame_number(&look->paths, suspect->members[k]);
        bytes = model_tame(bytes + growths[number].bytes);
        for (size_t i = 0; i < count; i++)
            series->values[i] =
                model_tame(series->values[i] + series->rows[i][number].requested_bytes);
    }
    struct trend_line line = trend_line(series->seconds, series->values, count);
    line.steady = line.steady && series->values[count - 1] - series->values[line.from] >= bytes / 2;
    return line;
}

static struct growth growth_of_suspect(const struct look *look, struct series *series,
                                       const struct growth *growths,
                                       const struct blame_suspect *suspect) {
    struct growth sum = {.slowing = true, .line = line_of_suspect(look, series, growths, suspect)};
    for (size_t k = 0; k < suspect->count; k++) {
        const struct growth *part = &growths[blame_number(&look->paths, suspect->members[k])];
        sum.kind = part->kind > sum.kind ? part->kind : sum.kind;
        sum.bytes = model_tame(sum.bytes + part->bytes);
        sum.chunks = model_tame(sum.chunks + part->chunks);
        sum.allocs = model_tame(sum.allocs + part->allocs);
        sum.a_day += part->a_day;
        sum.seconds = part->seconds > sum.seconds ? part->seconds : sum.seconds;
        sum.slowing = sum.slowing && part->slowing;
    }
    return sum;
}

/* Returns the bytes that shrinking paths of the suspect's site lost. */
static int64_t lost_at_site(const struct look *look, const struct series *series,
                            const struct blame_suspect *suspect) {
    const struct model *model = look->model;
    const struct model_frame *site = model->contexts[suspect->members[0]].frame;
    size_t last = series->samples->count - 1;
    int64_t lost = 0;
    for (size_t k = 0; k < series->falling_count; k++) {
        size_t i = series->falling[k];
        uint32_t context = model_figures_at(model, i)->context;
        if (i == 0 || context == WIRE_NONE || context == 0)
            continue;
        const struct model_frame *frame = model->contexts[context].frame;
        if (frame && frame->kind == site->kind && frame->address == site->address)
            lost = model_tame(lost + series->rows[0][i].requested_bytes -
                              series->rows[last][i].requested_bytes);
    }
    return lost;
}

static bool are_near(int64_t gained, int64_t lost) {
    int64_t difference = gained > lost ? gained - lost : lost - gained;
    return gained > 0 && lost > 0 && difference <= larger(gained, lost) * 3 / 10;
}

/* A cache may fill from one call path and later replace its entries from another. The growth of the
 * second path then is matched by paths of the same site that shrink by at least half as much, or by
 * paths that shrink by about as many chunks or bytes in (nearly) each interval. */
static bool is_replacement(const struct look *look, const struct series *series,
                           const struct blame_suspect *suspect) {
    if (lost_at_site(look, series, suspect) >= suspect->figure / 2)
        return true;
    size_t intervals = series->few_count - 1, matches = 0;
    for (size_t i = 1; i <= intervals; i++) {
        size_t before = series->few[i - 1], after = series->few[i];
        int64_t bytes = 0, chunks = 0;
        for (size_t k = 0; k < suspect->count; k++) {
            uint32_t number = blame_number(&look->paths, suspect->members[k]);
            const struct sample_row *from = &series->rows[before][number];
            const struct sample_row *to = &series->rows[after][number];
            bytes += to->requested_bytes - from->requested_bytes;
            chunks += to->live_chunks - from->live_chunks;
        }
        const struct sample_row *from = &series->shrinking[before];
        const struct sample_row *to = &series->shrinking[after];
        matches += are_near(chunks, from->live_chunks - to->live_chunks) ||
                   are_near(bytes, from->requested_bytes - to->requested_bytes);
    }
    return matches >= (intervals > 2 ? intervals - 1 : intervals);
}

static enum severity growth_severity(const struct look *look, size_t intervals,
                                     const struct growth *growth) {
    if (growth->slowing || intervals < 3 || growth->a_day < 64.0 * (double)MIB)
        return SEVERITY_INFO; /* the program may still be starting, or filling a cache */
    return growth->bytes >= floor_of(look, 16 * MIB, 10) ? SEVERITY_CRITICAL : SEVERITY_WARNING;
}

/* Returns a text that says when the path grew. The caller frees it. */
static char *when_it_grew(const struct growth *growth, size_t intervals) {
    switch (growth->kind) {
    case TREND_WAVES:
        return cli_copy("rises and falls, and each of its low points was higher than the one "
                        "before; it grew");
    case TREND_DIPS: return cli_format("grew over %zu intervals, with small dips:", intervals);
    default:
        return intervals == 1 ? cli_copy("grew in the one interval:")
                              : cli_format("grew in each of %zu intervals:", intervals);
    }
}

/* Returns how sure it is that the growth does not stop. */
static const char *how_sure(const struct growth *growth, size_t intervals) {
    return growth->slowing ? "hardly a leak: it grows less each time, like a cache that fills"
           : intervals < 3 ? "open: fewer than four looks show no trend"
           : growth->kind == TREND_STEADY
               ? "likely: it grew in every interval; whether the program still uses the "
                 "memory is not known"
               : "likely: it grew in spite of dips; whether the program still uses the "
                 "memory is not known";
}

/* Returns a text that says how much of what the path allocates stays. The caller frees it. */
static char *what_stays(const struct growth *growth) {
    if (growth->chunks <= 0)
        return cli_copy("the number of chunks did not grow, so the chunks are larger");
    int64_t kept_of = growth->allocs / growth->chunks;
    return kept_of > 1 ? cli_format("one of %" PRId64 " chunks stays", kept_of)
                       : cli_copy("nearly every chunk stays");
}

/* Returns the straight growth of a suspect; a rate of 0: its growth is not straight, or slows. */
static struct forecast forecast_of(const struct series *series, const struct growth *growth) {
    const struct trend_line *line = &growth->line;
    if (!line->steady || growth->slowing)
        return (struct forecast){0};
    return (struct forecast){.bytes_per_s = line->slope,
                             .since_s = series->seconds[line->from],
                             .step_s =
                                 series->seconds[line->from + 1] - series->seconds[line->from],
                             .began = line->from > 0};
}

static struct finding *tell_growth(struct look *look, const struct rule *rule,
                                   enum severity severity, const struct blame_suspect *suspect,
                                   const struct growth *growth) {
    size_t intervals = look->input->samples->count - 1;
    int64_t chunks = larger(growth->chunks, 0);
    struct finding *finding = finding_on(look, rule, severity, suspect, growth->bytes,
                                         growth->allocs > 0 ? share(chunks, growth->allocs) : 1);
    char *when = when_it_grew(growth, intervals), *stays = what_stays(growth);
    char *count = chunks > 0
                      ? cli_format("%" PRId64 " chunk%s and ", chunks, chunks == 1 ? "" : "s")
                      : cli_copy("");
    char *time = look_time(growth->seconds);
    finding->verdict = cli_format("%s were added in %s%s", look_bytes(growth->bytes), time,
                                  growth->slowing || intervals < 3 ? "" : " and stay");
    finding->since = cli_format("at least %s ago", time);
    finding->sure = how_sure(growth, intervals);
    free(time);
    finding->evidence = cli_format(
        "%s %s by %s%s in %.1f s (%s a day at this rate); %s; %s",
        suspect->joined ? "together, these call paths" : "this call path", when, count,
        look_bytes(growth->bytes), growth->seconds,
        look_bytes(growth->a_day < 9e18 ? (int64_t)growth->a_day : INT64_MAX), stays,
        growth->slowing  ? "it grows less each time, like a cache that fills, so it is hardly a "
                           "leak"
        : intervals >= 3 ? "it is a leak, or a queue that is not drained"
                         : "two more marks show whether the growth goes on");
    free(when);
    free(count);
    free(stays);
    finding->action = intervals >= 3
                          ? look_closer(look, "dump", " --flat --sort chunks", finding)
                          : cli_format("memctx mark %s NAME some time later, then memctx doctor %s",
                                       look->input->target, look->input->target);
    return finding;
}

/* Tells the suspects. Memory is used up by all of those that grow steadily together. */
static void tell_all(struct look *look, const struct rule *rule, const struct blame *blame,
                     struct series *series, const struct growth *growths) {
    size_t intervals = look->input->samples->count - 1, first = look->findings->count;
    int64_t floor = floor_of(look, MIB, 1);
    struct forecast *forecasts = cli_alloc(blame->count, sizeof *forecasts);
    double all_per_s = 0;
    size_t told = 0;
    for (size_t i = 0; i < blame->count; i++) {
        const struct blame_suspect *suspect = &blame->suspects[i];
        struct growth growth = growth_of_suspect(look, series, growths, suspect);
        enum severity severity = growth_severity(look, intervals, &growth);
        if (severity == SEVERITY_INFO && growth.bytes < floor)
            continue;
        struct finding *finding = tell_growth(look, rule, severity, suspect, &growth);
        forecasts[told] = forecast_of(series, &growth);
        if (forecasts[told].bytes_per_s > 0)
            forecast_tell_rate(look, finding, &forecasts[told]);
        all_per_s += forecasts[told++].bytes_per_s;
    }
    for (size_t i = 0; i < told; i++)
        if (forecasts[i].bytes_per_s > 0)
            forecast_tell_end(look, &look->findings->list[first + i], &forecasts[i], all_per_s);
    free(forecasts);
}

void look_for_growth(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    size_t intervals = look->input->samples->count - 1;
    int64_t floor = floor_of(look, MIB, 1);
    if (intervals == 0)
        return;
    struct series series;
    series_make(&series, look);
    struct growth *growths = cli_alloc(model->figures_count, sizeof *growths);
    int64_t *figures = cli_alloc(model->figures_count, sizeof *figures);
    for (size_t i = 0; i < model->figures_count; i++) {
        if (look->paths.same[i] == i)
            growths[i] = growth_of(&series, i);
        if (growths[i].chunks >= CHUNKS_MIN || growths[i].bytes >= floor)
            figures[i] = growths[i].bytes;
    }
    struct blame blame;
    blame_make(&blame, &look->paths, figures, 4 * KIB);
    bool *dropped = cli_alloc(blame.count, sizeof *dropped);
    for (size_t i = 0; i < blame.count; i++) {
        struct blame_suspect *suspect = &blame.suspects[i];
        dropped[i] = is_replacement(look, &series, suspect);
        uint32_t number = blame_number(&look->paths, suspect->members[0]);
        if (suspect->count == 1 && look->paths.alike[number] > 1) {
            suspect->alike = look->paths.alike[number];
            suspect->frames = look->paths.plain[number];
        }
        /* A cache that fills is not put together with a leak. */
        suspect->group = growth_of_suspect(look, &series, growths, suspect).slowing;
    }
    blame_drop(&blame, dropped);
    free(dropped);
    int64_t *chunks = cli_alloc(model->figures_count, sizeof *chunks);
    for (size_t i = 0; i < model->figures_count; i++)
        chunks[i] = growths[i].chunks;
    join_suspects(&blame, &look->paths, figures, chunks);
    free(chunks);
    tell_all(look, rule, &blame, &series, growths);
    blame_free(&blame);
    series_free(&series);
    free(growths);
    free(figures);
}
