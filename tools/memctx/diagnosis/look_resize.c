/* SPDX-License-Identifier: MIT */
/* look_resize.c - finds arrays that grow by realloc in small steps, or by copying. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/look.h"
#include "memctx/record.h"
#include "model/folding.h"

struct wire_resizes look_resizes(const struct look *look, size_t number) {
    uint32_t context = model_figures_at(look->model, number)->context;
    const struct wire_resizes *found =
        context == WIRE_NONE ? NULL : model_resizes_of(look->model, context);
    struct wire_resizes resizes = {0};
    if (found) {
#define X(name) resizes.name = larger(0, model_tame(found->name));
        MODEL_RESIZES(X)
#undef X
    }
    return resizes;
}

/* Returns the counts of realloc, summed over the contexts of a suspect. */
static struct wire_resizes resizes_of(const struct look *look,
                                      const struct blame_suspect *suspect) {
    struct wire_resizes sum = {0};
    for (size_t i = 0; i < suspect->count; i++) {
        struct wire_resizes part =
            look_resizes(look, blame_number(&look->paths, suspect->members[i]));
#define X(name) sum.name = model_tame(sum.name + part.name);
        MODEL_RESIZES(X)
#undef X
    }
    return sum;
}

/* A call of realloc costs about as much as copying this many bytes. */
#define BYTES_LIKE_A_CALL KIB
/* Growth by a factor adds a fixed share of the size each time: an eighth in Python's lists, a half
 * or the whole size in most arrays. With steps of a fixed size, this share falls as the array
 * grows. */
/* steps are small if the mean size is at least this many times the mean step */
#define SMALL_STEP 32
#define STEPS_FLOOR 250000

/* Returns the cost of growth in small steps, as a number of realloc calls; 0: the chunks did not
 * grow in small steps. */
static int64_t steps_of(const struct wire_resizes *resizes) {
    if (resizes->grows == 0 || resizes->grown_bytes > resizes->grown_from_bytes / SMALL_STEP)
        return 0;
    return resizes->grows + resizes->copied_bytes / BYTES_LIKE_A_CALL;
}

/* Returns a text about the calls of realloc that were not counted; empty if there are none. The
 * caller frees it. */
static char *tell_lost(const struct model *model) {
    return model->lost_reallocs == 0
               ? cli_copy("")
               : cli_format("; %" PRId64 " more calls in the process are not counted, because the "
                            "tables of memctx had no room",
                            model->lost_reallocs);
}

void look_for_small_steps(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *steps = cli_alloc(model->figures_count, sizeof *steps);
    for (size_t i = 0; i < model->figures_count; i++) {
        struct wire_resizes resizes = look_resizes(look, i);
        steps[i] = steps_of(&resizes);
    }
    struct blame blame;
    look_blame(look, &blame, steps, STEPS_FLOOR);
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        struct wire_resizes all = resizes_of(look, suspect);
        int64_t alive = SUM_OVER(look, suspect, requested_bytes);
        struct finding *finding = finding_on(look, rule, SEVERITY_INFO, suspect, alive,
                                             share(all.reallocs, SUM_OVER(look, suspect, allocs)));
        finding_counts_chunks(finding);
        char *lost = tell_lost(model);
        int64_t grows = larger(1, all.grows);
        finding->evidence = cli_format(
            "%" PRId64 " calls of realloc made chunks larger, by %s on average, when these had %s "
            "on average; %" PRId64 " of the calls copied the chunk to another place, %s in all; %s "
            "%s alive%s",
            all.grows, look_bytes(all.grown_bytes / grows),
            look_bytes(all.grown_from_bytes / grows), all.copies, look_bytes(all.copied_bytes),
            look_bytes(alive), alive == 1 ? "is" : "are", lost);
        free(lost);
        finding->action = look_closer(look, "dump", " --flat --sort allocs", finding);
    }
    blame_free(&blame);
    free(steps);
}

/* An array that grows in steps of a fixed size frees chunks of about half of its final size on
 * average; the share is larger if arrays have different final sizes. An array that grows by a
 * factor frees smaller chunks. */
#define FIXED_STEPS 32 /* least number of freed chunks for each chunk that stays */

/* True if the chunks seem to grow in steps of a fixed size, by malloc, memcpy and free. Then the
 * path's peak is hardly above its present bytes, because one chunk is copied at a time. After a
 * higher peak, the freed chunks may have been short-lived chunks of another kind. */
static bool copies_in_fixed_steps(const struct model_totals *self, int64_t mean_freed,
                                  int64_t mean_live) {
    int64_t peak = self->peak_requested_bytes;
    return self->frees / FIXED_STEPS >= self->live_chunks && mean_freed >= mean_live / 5 * 2 &&
           mean_freed <= mean_live / 10 * 7 && peak != WIRE_UNKNOWN &&
           peak - self->requested_bytes <= 2 * mean_live;
}

/* True if the figures are a sum of many call paths: [other callers], and the sums of a recording.
 * Their freed and their live chunks are of different kinds. */
static bool is_sum(const struct look *look, size_t number) {
    uint32_t index = model_figures_at(look->model, number)->context;
    if (index == WIRE_NONE)
        return true;
    const struct model_context *context = &look->model->contexts[index];
    return context->id == RECORD_REST || context->id == RECORD_FORGOTTEN ||
           folding_is_others(context->frame->kind, context->frame->label);
}

/* Returns the bytes that were copied when the context's chunks grew; 0: no growth by copying is
 * seen. Copies by realloc are counted. Other copies, such as those of a std::vector, are inferred
 * if many chunks were freed that were much smaller than the chunks that stay. Freed chunks of about
 * equal size are taken for strings or buffers that come and go. */
static int64_t copied_by_growth(const struct look *look, size_t number, bool *fixed_steps) {
    const struct model_totals self = look_totals(look, number);
    struct wire_resizes resizes = look_resizes(look, number);
    int64_t freed = self.requested_cum_bytes - self.requested_bytes;
    *fixed_steps = false;
    if (self.live_chunks <= 0 || steps_of(&resizes) >= STEPS_FLOOR)
        return 0;
    bool counted = resizes.reallocs > self.frees / 2;
    int64_t steps = counted ? resizes.grows : self.frees;
    int64_t old_bytes = counted ? resizes.grown_from_bytes : freed;
    int64_t copied = counted ? resizes.copied_bytes : freed;
    if ((!counted && is_sum(look, number)) || steps < 4 * self.live_chunks ||
        (counted && steps < resizes.reallocs / 2) || steps == 0)
        return 0;
    int64_t mean_live = self.requested_bytes / self.live_chunks;
    *fixed_steps = !counted && copies_in_fixed_steps(&self, old_bytes / steps, mean_live);
    return *fixed_steps || (old_bytes / steps < mean_live / 3 && copied > self.requested_bytes / 2)
               ? copied
               : 0;
}

void look_for_copies(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *copied = cli_alloc(model->figures_count, sizeof *copied);
    bool *fixed_steps = cli_alloc(model->figures_count, sizeof *fixed_steps);
    for (size_t i = 0; i < model->figures_count; i++)
        copied[i] = copied_by_growth(look, i, &fixed_steps[i]);
    struct blame blame;
    look_blame(look, &blame, copied, floor_of(look, 8 * MIB, 10));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t live = SUM_OVER(look, suspect, requested_bytes);
        int64_t chunks = larger(1, SUM_OVER(look, suspect, live_chunks));
        int64_t frees = SUM_OVER(look, suspect, frees);
        struct wire_resizes resizes = resizes_of(look, suspect);
        bool in_steps = fixed_steps[blame_number(&look->paths, suspect->members[0])];
        struct finding *finding = finding_on(look, rule, SEVERITY_INFO, suspect, suspect->figure,
                                             share(suspect->figure, live));
        if (resizes.reallocs > frees / 2) {
            finding->sure = "certain: counted, not estimated";
            finding->evidence = cli_format(
                "realloc was called %" PRId64 " times, and copied a chunk to another place %" PRId64
                " times, %s in all; during a copy both exist; %" PRId64 " chunk%s of %s on average "
                "%s live",
                resizes.reallocs, resizes.copies, look_bytes(resizes.copied_bytes), chunks,
                chunks == 1 ? "" : "s", look_bytes(live / chunks), chunks == 1 ? "is" : "are");
        } else {
            /* The number of freed chunks for each array is not known. */
            int64_t freed = SUM_OVER(look, suspect, requested_cum_bytes) - live;
            finding->evidence = cli_format(
                "%" PRId64 " chunks of %s on average were freed, and %" PRId64 " chunk%s of %s on "
                "average %s live: arrays seem to grow %sby being copied into larger chunks, %s in "
                "all; during a copy both exist",
                frees, look_bytes(freed / larger(1, frees)), chunks, chunks == 1 ? "" : "s",
                look_bytes(live / chunks), chunks == 1 ? "is" : "are",
                in_steps ? "in small steps " : "", look_bytes(suspect->figure));
        }
        if (in_steps)
            finding->advice = "Let the array grow by a factor, such as 1.5 or 2; some dozen copies "
                              "are then enough. If the final size is known beforehand, allocate it "
                              "at once.";
        finding->action = look_closer(look, "dump", " --flat --sort allocs", finding);
    }
    blame_free(&blame);
    free(fixed_steps);
    free(copied);
}
