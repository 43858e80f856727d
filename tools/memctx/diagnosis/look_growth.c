/* SPDX-License-Identifier: MIT */
/* look_growth.c - finds call paths whose memory keeps growing. */
#include <inttypes.h>
#include <stdlib.h>

#include "diagnosis/look.h"

#define DAY_S 86400.0

struct growth {
    int64_t bytes, chunks, allocs;
    bool slowing; /* like a cache that fills: the share of allocations that stay falls to under half
                   */
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

/* Returns the share of the allocated bytes that stays alive. It is computed from chunk counts,
 * because the sizes of freed chunks are not known. */
static double kept_between(const struct sample_row *from, const struct sample_row *to) {
    int64_t allocs = to->allocs - from->allocs;
    return (double)(to->requested_bytes - from->requested_bytes) /
           (allocs > 0 ? (double)allocs : 1);
}

/* Returns the growth of a path that grew in every interval, or shrank in every interval;
 * otherwise zeros. `rows` is indexed by sample. */
static struct growth steady_growth(struct sample_row *const *rows, size_t samples, size_t number) {
    const struct sample_row *first = &rows[0][number], *last = first;
    size_t up = 0, down = 0, slower = 0;
    double kept_first = 0, kept_last = 0;
    for (size_t i = 1; i < samples; i++) {
        const struct sample_row *row = &rows[i][number];
        double kept = kept_between(last, row);
        up += row->requested_bytes > last->requested_bytes && row->live_chunks > last->live_chunks;
        down +=
            row->requested_bytes < last->requested_bytes && row->live_chunks < last->live_chunks;
        slower += i > 1 && kept < kept_last;
        kept_first = i == 1 ? kept : kept_first;
        kept_last = kept;
        last = row;
    }
    if (up != samples - 1 && down != samples - 1)
        return (struct growth){0};
    return (struct growth){last->requested_bytes - first->requested_bytes,
                           last->live_chunks - first->live_chunks,
                           larger(0, last->allocs - first->allocs),
                           samples > 3 && slower == samples - 2 && 2 * kept_last < kept_first};
}

/* A cache may fill from one call path and later replace its entries from another. The growth
 * then is matched by a path of the same site that shrinks as steadily, by at least half as much. */
static bool is_replacement(const struct look *look, const struct growth *growths,
                           const struct blame_suspect *suspect) {
    const struct model *model = look->model;
    const struct model_context *site = &model->contexts[suspect->members[0]];
    int64_t gone = 0;
    for (size_t i = 1; i < model->figures_count; i++) {
        uint32_t context = model_figures_at(model, i)->context;
        const struct model_frame *frame =
            context != WIRE_NONE && growths[i].bytes < 0 ? model->contexts[context].frame : NULL;
        if (frame && context > 0 && frame->kind == site->frame->kind &&
            frame->address == site->frame->address)
            gone = model_tame(gone - growths[i].bytes);
    }
    return gone >= suspect->figure / 2;
}

static enum severity growth_severity(const struct look *look, size_t intervals, int64_t bytes,
                                     double a_day) {
    if (intervals < 3 || a_day < 64.0 * (double)MIB)
        return SEVERITY_INFO; /* the program may still be starting, or filling a cache */
    return bytes >= floor_of(look, 16 * MIB, 10) ? SEVERITY_CRITICAL : SEVERITY_WARNING;
}

void look_for_growth(struct look *look, const struct rule *rule) {
    const struct samples *samples = look->input->samples;
    const struct model *model = look->model;
    size_t intervals = samples->count - 1;
    if (intervals == 0)
        return;
    struct growth *growths = cli_alloc(model->figures_count, sizeof *growths);
    int64_t *figures = cli_alloc(model->figures_count, sizeof *figures);
    struct sample_row **rows = cli_alloc(samples->count, sizeof(struct sample_row *));
    for (size_t i = 0; i < samples->count; i++)
        rows[i] = sum_alike(look, &samples->samples[i]);
    for (size_t i = 0; i < model->figures_count; i++) {
        if (look->paths.same[i] == i)
            growths[i] = steady_growth(rows, samples->count, i);
        figures[i] = growths[i].chunks >= 16 ? growths[i].bytes : 0;
    }
    for (size_t i = 0; i < samples->count; i++)
        free(rows[i]);
    free(rows);
    double seconds = model->uptime_s - samples->samples[0].uptime_s;
    struct blame blame;
    blame_make(&blame, &look->paths, figures, 4 * KIB);
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t bytes = suspect->figure;
        double a_day = seconds > 0 ? (double)bytes / seconds * DAY_S : 0;
        bool slowing = true;
        for (size_t k = 0; k < suspect->count; k++)
            slowing = slowing && growths[blame_number(&look->paths, suspect->members[k])].slowing;
        enum severity severity =
            slowing ? SEVERITY_INFO : growth_severity(look, intervals, bytes, a_day);
        if ((severity == SEVERITY_INFO && bytes < floor_of(look, MIB, 1)) ||
            is_replacement(look, growths, suspect))
            continue;
        struct growth sum = {0};
        for (size_t k = 0; k < suspect->count; k++) {
            const struct growth *part = &growths[blame_number(&look->paths, suspect->members[k])];
            sum.chunks = model_tame(sum.chunks + part->chunks);
            sum.allocs = model_tame(sum.allocs + part->allocs);
        }
        int64_t kept_of = sum.chunks > 0 ? sum.allocs / sum.chunks : 0;
        char *kept = kept_of > 1
                         ? cli_format("one of %" PRId64 " chunks that it allocates stays", kept_of)
                         : cli_copy("nearly every chunk that it allocates stays");
        struct finding *finding = finding_on(look, rule, severity, suspect, bytes,
                                             sum.allocs > 0 ? share(sum.chunks, sum.allocs) : 1);
        finding->evidence = cli_format(
            "this call path grew in each of %zu interval%s: by %" PRId64 " chunks and %s in %.1f s "
            "(%s a day at this rate); %s; %s",
            intervals, intervals == 1 ? "" : "s", sum.chunks, look_bytes(bytes), seconds,
            look_bytes(a_day < 9e18 ? (int64_t)a_day : INT64_MAX), kept,
            slowing ? "it grows less each time, like a cache that fills, so it is hardly a leak"
            : intervals >= 3 ? "it is a leak, or a queue that is not drained"
                             : "two more marks show whether the growth goes on");
        uint32_t number = blame_number(&look->paths, suspect->members[0]);
        size_t alike = look->paths.alike[number];
        if (suspect->count == 1 && alike > 1) { /* all contexts with this folded path */
            finding->context = WIRE_NONE;
            finding->contexts = alike;
            finding->frames = look->paths.plain[number];
        }
        free(kept);
        finding->action =
            intervals >= 3
                ? look_closer(look, "dump", " --flat --sort chunks", finding)
                : cli_format("memctx mark %s NAME some time later, then memctx doctor %s",
                             look->input->target, look->input->target);
    }
    blame_free(&blame);
    free(growths);
    free(figures);
}
