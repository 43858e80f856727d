/* SPDX-License-Identifier: MIT */
/* look_growth.c - finds call paths whose memory keeps growing. */
#include <inttypes.h>
#include <stdlib.h>

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
    bool slowing; /* as a cache does that fills */
};

/* The figures of contexts at all samples, where contexts with the same folded path share a row. */
struct series {
    const struct samples *samples;
    struct sample_row **rows; /* by sample, and by the number of the first context's figures */
    double *seconds;          /* since the process started, by sample */
    double *allocs;           /* of the process, by sample */
    double *x;                /* for one path at a time, as `values` */
    int64_t *values;
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
    for (size_t k = 0; k < paths; k++) {
        take_bytes(series, k);
        if (!trend_falls(series->values, count))
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

/* True if the path whose bytes are in series->values grows ever more slowly. The measure is the
 * load: the path's own allocations, if it frees most of what it allocates; else the allocations of
 * the program, unless nearly all of these are the path's own; else time. A leak that does not
 * depend on the load grows ever more slowly per allocation when the load rises, but not per second.
 */
static bool is_slowing(struct series *series, size_t number) {
    size_t count = series->samples->count;
    for (size_t i = 0; i < count; i++)
        series->x[i] = (double)series->rows[i][number].allocs;
    double own = series->x[count - 1] - series->x[0];
    double all = series->allocs[count - 1] - series->allocs[0];
    double kept =
        (double)(series->rows[count - 1][number].live_chunks - series->rows[0][number].live_chunks);
    if (trend_slows(series->x, series->values, count))
        return true;
    if (kept < KEPT_MOST * own)
        return false;
    if (own >= OWN_ALLOCS * all)
        return count > TIMES_MIN && trend_slows(series->seconds, series->values, count);
    return trend_slows(series->allocs, series->values, count) &&
           trend_is_slower(series->seconds, series->values, count);
}

static struct growth growth_of(struct series *series, size_t number) {
    take_bytes(series, number);
    struct trend trend = trend_of(series->values, series->samples->count);
    if (trend.kind == TREND_NONE)
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

static struct growth growth_of_suspect(const struct look *look, const struct growth *growths,
                                       const struct blame_suspect *suspect) {
    struct growth sum = {.slowing = true};
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
    size_t intervals = series->samples->count - 1, matches = 0;
    for (size_t i = 1; i <= intervals; i++) {
        int64_t bytes = 0, chunks = 0;
        for (size_t k = 0; k < suspect->count; k++) {
            uint32_t number = blame_number(&look->paths, suspect->members[k]);
            const struct sample_row *from = &series->rows[i - 1][number];
            const struct sample_row *to = &series->rows[i][number];
            bytes += to->requested_bytes - from->requested_bytes;
            chunks += to->live_chunks - from->live_chunks;
        }
        const struct sample_row *from = &series->shrinking[i - 1], *to = &series->shrinking[i];
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

static void tell_growth(struct look *look, const struct rule *rule, enum severity severity,
                        const struct blame_suspect *suspect, const struct growth *growth) {
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
        suspect->group = growth_of_suspect(look, growths, suspect).slowing;
    }
    blame_drop(&blame, dropped);
    free(dropped);
    int64_t *chunks = cli_alloc(model->figures_count, sizeof *chunks);
    for (size_t i = 0; i < model->figures_count; i++)
        chunks[i] = growths[i].chunks;
    join_suspects(&blame, &look->paths, figures, chunks);
    free(chunks);
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        struct growth growth = growth_of_suspect(look, growths, suspect);
        enum severity severity = growth_severity(look, intervals, &growth);
        if (severity > SEVERITY_INFO || growth.bytes >= floor)
            tell_growth(look, rule, severity, suspect, &growth);
    }
    blame_free(&blame);
    series_free(&series);
    free(growths);
    free(figures);
}
