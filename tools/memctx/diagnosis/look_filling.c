/* SPDX-License-Identifier: MIT */
/* look_filling.c - finds large chunks of which the program touches ever more. */
#include <inttypes.h>
#include <stdlib.h>

#include "diagnosis/look.h"
#include "diagnosis/trend.h"

#define LARGE_BYTES (256L * 1024)

/* Returns how many bytes of a path's chunks, whose mean size is 256 KiB or more, became resident
 * since the first look. The path may have got further chunks since then, as an arena does, which
 * asks too seldom for growth to be found. Returns 0 for all other paths, and if this growth cannot
 * be judged. Sets *left_s to the time after which the chunks are full at this rate, or to 0 if the
 * rate is not steady. `x` and `values` have room for all samples. */
static int64_t filled_bytes(const struct look *look, size_t number, double *x, int64_t *values,
                            double *left_s) {
    const struct samples *samples = look->input->samples;
    const struct model_totals now = look_totals(look, number);
    size_t count = 0;
    *left_s = 0;
    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *sample = &samples->samples[i];
        const struct sample_row *row = &sample->rows[number];
        if (!sample->has_resident)
            continue;
        if (row->live_chunks > now.live_chunks || row->requested_bytes > now.requested_bytes)
            return 0;
        x[count] = sample->uptime_s;
        values[count++] = row->resident_bytes;
    }
    if (count < 4 || now.live_chunks < 1 || now.requested_bytes / now.live_chunks < LARGE_BYTES ||
        trend_of(x, values, count).kind == TREND_NONE || trend_slows(x, values, count))
        return 0;
    struct trend_line line = trend_line(x, values, count);
    int64_t left = now.requested_bytes - values[count - 1];
    if (line.steady && line.slope > 0 && left > 0)
        *left_s = (double)left / line.slope;
    return larger(0, values[count - 1] - values[0]);
}

void look_filling(struct look *look, const struct rule *rule, const bool *taken) {
    size_t paths = look->model->figures_count, samples = look->input->samples->count;
    int64_t *filled = cli_alloc(paths, sizeof *filled),
            *values = cli_alloc(samples, sizeof *values);
    double *x = cli_alloc(samples, sizeof *x), *left_s = cli_alloc(paths, sizeof *left_s);
    for (size_t i = 1; i < paths; i++)
        if (!taken[look->paths.same[i]] && model_figures_at(look->model, i)->context != WIRE_NONE)
            filled[i] = filled_bytes(look, i, x, values, &left_s[i]);
    struct blame blame;
    look_blame(look, &blame, filled, floor_of(look, MIB, 2));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t asked = SUM_OVER(look, suspect, requested_bytes);
        double left = left_s[blame_number(&look->paths, suspect->members[0])];
        struct finding *finding = finding_on(look, rule, SEVERITY_INFO, suspect, suspect->figure,
                                             share(suspect->figure, asked));
        int64_t chunks = SUM_OVER(look, suspect, live_chunks);
        char *when = look_time(left);
        char *full = chunks == 1 && left > 0
                         ? cli_format("; at this rate, the chunk is full in about %s", when)
                         : cli_copy("");
        finding->title = "large chunks that fill";
        finding->verdict =
            cli_format("%s more of large chunks became resident since the first look",
                       look_bytes(suspect->figure));
        finding->evidence =
            chunks == 1
                ? cli_format("since the first look %s more of a chunk of %s became resident%s",
                             look_bytes(suspect->figure), look_bytes(asked), full)
                : cli_format("since the first look %s more of %" PRId64
                             " chunks, %s in all, became resident",
                             look_bytes(suspect->figure), chunks, look_bytes(asked));
        finding->why = "Chunks take no more memory than their size. But an array that is full is "
                       "often copied into a larger one, and an arena that is full takes a further "
                       "chunk.";
        finding->advice = "If the program adds to an array or takes memory from an arena, find out "
                          "what limits the length, or when the arena is freed.";
        finding->sure = *full != '\0' ? "certain for the resident bytes; the time is an estimate"
                                      : "certain for the resident bytes";
        finding->action = look_closer(look, "dump", " --flat", finding);
        free(full);
        free(when);
    }
    blame_free(&blame);
    free(filled);
    free(values);
    free(x);
    free(left_s);
}
