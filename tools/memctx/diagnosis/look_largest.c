/* SPDX-License-Identifier: MIT */
/* look_largest.c - finds out who holds most of the memory in use, which is no problem in itself. */
#include <inttypes.h>
#include <stdlib.h>

#include "diagnosis/arrival.h"

#define HELD_MIN (8 * MIB) /* a process that uses less has no large holder */
#define HELD_PART 10       /* a holder has at least 1/HELD_PART of the memory in use */
#define THREADS_TOLD 4     /* chunks of fewer threads than this are not counted by thread */
/* A thread counts if it has at least 1/THREAD_PART of the mean of all threads with such chunks. */
#define THREAD_PART 4

/* Returns how many threads allocated about equal parts of the suspect's chunks; 0: not known. Small
 * threads share a heap, and threads that ended have one entry, so their number is not known. */
static size_t count_threads_of(const struct look *look, const struct blame_suspect *suspect) {
    const struct model *model = look->model;
    int64_t *bytes = cli_alloc(model->thread_count, sizeof *bytes), sum = 0;
    int64_t counted = 0;
    size_t some = 0, count = 0;
    for (size_t i = 0; i < suspect->count && model->has_threads; i++) {
        const struct model_figures *figures = model->contexts[suspect->members[i]].figures;
        for (uint32_t k = 0; k < figures->view_count; k++) {
            struct model_view view = model_view_at(model, figures, k);
            bytes[view.thread] =
                model_tame(bytes[view.thread] + larger(0, model_tame(view.totals.requested_bytes)));
        }
    }
    for (size_t i = 0; i < model->thread_count; i++) {
        sum = model_tame(sum + bytes[i]);
        some += bytes[i] > 0;
    }
    for (size_t i = 0; i < model->thread_count && some > 0; i++) {
        bool counts = model->threads[i].tid != 0 && bytes[i] >= sum / (int64_t)some / THREAD_PART;
        counted = model_tame(counted + (counts ? bytes[i] : 0));
        count += counts;
    }
    free(bytes);
    return counted >= sum / 4 * 3 ? count : 0;
}

void look_for_largest(const struct look *look) {
    static const struct rule rule = {.id = "largest", .title = "who holds most of the memory"};
    const struct model *model = look->model;
    struct findings *findings = look->findings, list = {0};
    struct look apart = *look;
    int64_t all = model_tame(model->totals.requested_bytes);
    if (all < HELD_MIN)
        return;
    int64_t *live = cli_alloc(model->figures_count, sizeof *live);
    for (size_t i = 1; i < model->figures_count; i++)
        live[i] = larger(0, look_totals(look, i).requested_bytes);
    struct blame blame;
    look_blame(look, &blame, live, all / HELD_PART);
    apart.rules = &rule;
    apart.findings = &list;
    for (size_t i = 0; i < blame.count && i < FINDINGS_LARGEST; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        struct finding *finding = finding_on(&apart, &rule, SEVERITY_INFO, suspect, suspect->figure,
                                             share(suspect->figure, all));
        int64_t chunks = SUM_OVER(look, suspect, live_chunks);
        size_t threads = count_threads_of(look, suspect);
        char *by = threads >= THREADS_TOLD ? cli_format(" of %zu threads", threads) : cli_copy("");
        finding->evidence =
            cli_format("%s, %.0f %%, in %" PRId64 " chunk%s%s", look_bytes(finding->bytes),
                       100 * finding->ratio, chunks, chunks == 1 ? "" : "s", by);
        free(by);
        finding->since = arrival_tell(look, suspect);
        findings->largest[findings->largest_count++] = *finding;
    }
    free(list.list);
    blame_free(&blame);
    free(live);
}
