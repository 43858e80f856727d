/* SPDX-License-Identifier: MIT */
/* look_use.c - finds short-lived chunks, and frees by other threads. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/look.h"

/* Chunks are short-lived if at most so many of them were alive on a thread at the same time. */
#define ALIVE_MOST 64
/* If at most FEW_ALIVE were alive at the same time, each was freed before the next ones came. */
#define FEW_ALIVE 4

/* Returns how many chunks of mean size the context had on one thread at its peak there; INT64_MAX:
 * not known. */
static int64_t most_alive(const struct model_totals *totals) {
    int64_t mean = totals->allocs > 0 ? totals->requested_cum_bytes / totals->allocs : 0;
    int64_t peak = totals->peak_requested_bytes;
    return peak == WIRE_UNKNOWN ? INT64_MAX : (peak + mean - 1) / larger(1, mean);
}

/* Returns the number of the context's freed chunks that were short-lived; 0: none, or not known.
 * Each thread has a peak of its own; a peak of several threads is not known. Raises *alive to the
 * most chunks that were alive on a thread. */
static int64_t short_lived(const struct look *look, size_t number, int64_t *alive) {
    const struct model *model = look->model;
    const struct model_figures *figures = model_figures_at(model, number);
    const struct model_totals self = look_totals(look, number);
    int64_t frees = 0, most = most_alive(&self);
    if (most <= ALIVE_MOST) {
        frees = self.frees;
        *alive = larger(*alive, most);
    }
    for (uint32_t k = 0; k < figures->view_count && model->has_threads && most == INT64_MAX; k++) {
        const struct model_totals view = model_view_at(model, figures, k).totals;
        int64_t here = figures->context == WIRE_NONE ? INT64_MAX : most_alive(&view);
        if (here > ALIVE_MOST)
            continue;
        frees = model_tame(frees + larger(0, model_tame(view.frees)));
        *alive = larger(*alive, here);
    }
    /* A realloc counts as a free and an allocation, but its chunk was not short-lived. */
    return larger(0, frees - look_resizes(look, number).reallocs);
}

void look_for_temporary(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *frees = cli_alloc(model->figures_count, sizeof *frees);
    int64_t *alive = cli_alloc(model->figures_count, sizeof *alive);
    for (size_t i = 1; i < model->figures_count; i++)
        if (model_figures_at(model, i)->context != 0) /* the root's peak is that of the process */
            frees[i] = short_lived(look, i, &alive[i]);
    struct blame blame;
    look_blame(look, &blame, frees, larger(1000000, model_tame(model->totals.allocs) / 5));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t bytes = SUM_OVER(look, suspect, requested_cum_bytes), most = 0;
        for (size_t k = 0; k < suspect->count; k++)
            most = larger(most, alive[blame_number(&look->paths, suspect->members[k])]);
        struct finding *finding = finding_on(look, rule, SEVERITY_INFO, suspect, bytes,
                                             share(suspect->figure, model->totals.allocs));
        finding_counts_chunks(finding);
        char *soon = most <= FEW_ALIVE
                         ? cli_format("were each freed before their call path allocated four more")
                         : cli_format("were freed soon: at most %" PRId64
                                      " of a call path were alive in a thread at the same time",
                                      most);
        finding->evidence =
            cli_format("%" PRId64 " chunks, %.0f %% of all allocations, %s; together they had "
                       "%s",
                       suspect->figure, 100 * finding->ratio, soon, look_bytes(bytes));
        free(soon);
        finding->action = look_closer(look, "dump", " --flat --sort allocs", finding);
    }
    blame_free(&blame);
    free(frees);
    free(alive);
}

static int by_threads(const void *a, const void *b) {
    const struct model_remote *left = a, *right = b;
    if (left->freed_by != right->freed_by)
        return left->freed_by < right->freed_by ? -1 : 1;
    return left->owner < right->owner ? -1 : left->owner > right->owner;
}

/* Returns the pair of threads of which one frees most chunks of the other; `frees` is 0 if no such
 * frees are known. A pair may have several records. */
static struct model_remote find_most(const struct model *model) {
    struct model_remote most = {0}, sum = {0};
    struct model_remote *list = cli_alloc(model->remote_count, sizeof *list);
    if (model->remote_count > 0)
        memcpy(list, model->remotes, model->remote_count * sizeof *list);
    qsort(list, model->remote_count, sizeof *list, by_threads);
    for (size_t i = 0; i < model->remote_count; i++) {
        if (by_threads(&sum, &list[i]) != 0)
            sum = (struct model_remote){list[i].freed_by, list[i].owner, 0};
        sum.frees = model_tame(sum.frees + model_tame(list[i].frees));
        most = sum.frees > most.frees ? sum : most;
    }
    free(list);
    return most;
}

static char *name_thread(const struct model_thread *thread) {
    return thread->tid == 0 ? cli_copy("threads that have exited")
                            : cli_format("thread %u (%s)", thread->tid, thread->name);
}

/* Returns a text that names the thread that frees most chunks of another thread; an empty text if
 * no such frees are known. */
static char *tell_who_frees(const struct model *model) {
    struct model_remote most = find_most(model);
    if (most.frees == 0)
        return cli_copy("");
    char *by = name_thread(&model->threads[most.freed_by]);
    char *of = name_thread(&model->threads[most.owner]);
    char *text = cli_format("; in the whole process, most frees for another thread are by %s: "
                            "%" PRId64 " chunks in pages of %s",
                            by, most.frees, of);
    free(by);
    free(of);
    return text;
}

/* Finds contexts with chunks that are mostly freed by another thread than the allocating one. The
 * view of a freeing thread has more frees than allocations. */
void look_for_remote_frees(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *crossed = cli_alloc(model->figures_count, sizeof *crossed);
    for (size_t i = 0; i < model->figures_count && model->has_threads; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        for (uint32_t k = 0; k < figures->view_count; k++) {
            struct model_totals totals = model_view_at(model, figures, k).totals;
            crossed[i] = model_tame(
                crossed[i] + larger(0, model_tame(totals.frees) - model_tame(totals.allocs)));
        }
        crossed[i] = crossed[i] > look_totals(look, i).frees / 2 ? crossed[i] : 0;
    }
    struct blame blame;
    look_blame(look, &blame, crossed, larger(1000000, model_tame(model->totals.frees) / 4));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t allocs = SUM_OVER(look, suspect, allocs);
        int64_t frees = SUM_OVER(look, suspect, frees);
        int64_t live = SUM_OVER(look, suspect, requested_bytes);
        struct finding *finding =
            finding_on(look, rule, SEVERITY_INFO, suspect, live, share(suspect->figure, frees));
        finding_counts_chunks(finding);
        char *who = tell_who_frees(model);
        finding->evidence =
            cli_format("another thread than the allocating one freed %" PRId64 " of %" PRId64
                       " freed chunks; the path allocated %" PRId64 " chunks, and %s is live%s",
                       suspect->figure, frees, allocs, look_bytes(live), who);
        free(who);
        finding->action = look_closer(look, "dump", " --flat --threads", finding);
    }
    blame_free(&blame);
    free(crossed);
}
