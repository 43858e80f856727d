/* SPDX-License-Identifier: MIT */
/*
 * look_marked.c - finds growth of memory that did not come from malloc, by the resident sets at the
 * marks.
 *
 * A mark has no map of the process. So it does not say which part of the resident set did not come
 * from malloc; but this part was at most the whole resident set. If the memory that did not come
 * from malloc is larger now than the whole resident set at the mark, at least the difference became
 * resident since the mark. Mappings that are not full are left out, because a buffer of fixed size
 * that fills is no leak. A saved dump has no list of mappings, so for a saved dump the finding is
 * no warning.
 */
#include <stdlib.h>

#include "diagnosis/look.h"
#include "diagnosis/trend.h"

#define DAY_S 86400.0
#define FULL_PART 32 /* a mapping is full if less than 1/FULL_PART of it is not resident */
/* growth that goes on has at least 1/LATE_PART of its mean rate in the last interval */
#define LATE_PART 4

/* The resident sets from one mark on, and now. */
struct marked {
    double *seconds; /* uptimes */
    int64_t *values; /* resident sets */
    size_t count;
};

/* Returns the resident bytes that did not come from malloc, without files, shared memory, code, and
 * mappings that are not full. */
static int64_t count_full(const struct mapped *now) {
    int64_t sum = now->sums[MODEL_PLACE_STACK] + now->sums[MODEL_PLACE_HEAP] +
                  now->sums[MODEL_PLACE_ANONYMOUS];
    for (size_t i = 0; i < now->place_count; i++) {
        const struct model_place *place = &now->places[i];
        int64_t size = model_tame((int64_t)(place->end - place->start));
        if (place->kind == MODEL_PLACE_ANONYMOUS && place->bytes < size - size / FULL_PART)
            sum -= place->bytes;
    }
    return sum;
}

/* Collects the resident sets from the mark with the smallest one on. Of several such marks, takes
 * the last. */
static struct marked collect(const struct look *look) {
    const struct model *model = look->model;
    struct marked marked = {.count = 0};
    marked.seconds = cli_alloc(model->mark_count + 1, sizeof *marked.seconds);
    marked.values = cli_alloc(model->mark_count + 1, sizeof *marked.values);
    int64_t now = model_tame(model->ledger.rss_bytes), least = now;
    for (size_t i = 0; i < model->mark_count; i++) { /* the oldest first */
        const struct model_mark *mark = &model->marks[i];
        if (mark->rss_bytes == WIRE_UNKNOWN || mark->uptime_s >= model->uptime_s)
            continue;
        if (marked.count == 0 || mark->rss_bytes <= least) {
            least = mark->rss_bytes;
            marked.count = 0;
        }
        marked.seconds[marked.count] = mark->uptime_s;
        marked.values[marked.count++] = mark->rss_bytes;
    }
    marked.seconds[marked.count] = model->uptime_s;
    marked.values[marked.count++] = now;
    return marked;
}

/* True if the resident set rose in the last interval, too. */
static bool goes_on(const struct marked *marked) {
    size_t last = marked->count - 1;
    const double *x = marked->seconds;
    const int64_t *values = marked->values;
    double late = (double)(values[last] - values[last - 1]) * (x[last] - x[0]);
    return late * LATE_PART >= (double)(values[last] - values[0]) * (x[last] - x[last - 1]);
}

/* Adds a finding. Growth below an old peak is no warning: a heap grows like that between two
 * garbage collections, and a service after a quiet night. */
static void tell(struct look *look, const struct rule *rule, const struct marked *marked,
                 const struct mapped *now, int64_t full) {
    const struct model *model = look->model;
    size_t last = marked->count - 1;
    int64_t bytes = full - marked->values[0];
    double seconds = marked->seconds[last] - marked->seconds[0];
    double a_day = seconds > 0 ? (double)bytes / seconds * DAY_S : 0;
    bool slowing = trend_slows(marked->seconds, marked->values, marked->count);
    bool alarming = !slowing && marked->count >= 4 && a_day >= 64.0 * (double)MIB &&
                    bytes >= floor_of(look, 4 * MIB, 5) && now->place_count > 0 &&
                    now->peak_bytes - now->rss_bytes <= bytes / 4 + MIB && goes_on(marked) &&
                    !look_runtime_may_fill(model, full);
    struct finding *finding = finding_new(look, rule, alarming ? SEVERITY_WARNING : SEVERITY_INFO,
                                          bytes, share(bytes, look->rss_bytes));
    char *per_day = look_a_day(a_day, seconds), *time = look_time(seconds);
    finding->evidence = cli_format(
        "%s that did not come from malloc are resident now, and at the first of %zu marks, %s ago, "
        "the whole resident set was %s: so at least %s of such memory became resident since%s",
        look_bytes(full), last, time, look_bytes(marked->values[0]), look_bytes(bytes), per_day);
    finding->since = cli_format("at least %s ago", time);
    finding->verdict = cli_format("in %s, at least %s were added to memory that did not come from "
                                  "malloc",
                                  time, look_bytes(bytes));
    finding->sure = slowing ? "hardly a leak: it grows less each time, like a cache that fills"
                    : now->place_count == 0
                        ? "open: a saved dump does not tell which mappings the program fills"
                        : "likely: the resident set grew from mark to mark; whether the program "
                          "still uses the memory is not known";
    if (look_may_act(model))
        finding->action = cli_format("memctx doctor %s --watch 60", look->input->target);
    finding->now_effect = cli_copy("memctx cannot return memory that is not from malloc");
    finding->overshadows = true;
    look_mapped_by_runtime(model, finding);
    free(per_day);
    free(time);
}

void look_for_marked_growth(struct look *look, const struct rule *rule) {
    const struct samples *samples = look->input->samples;
    if (samples->mapped_count == 0)
        return;
    const struct mapped *now = &samples->mapped[samples->mapped_count - 1].mapped;
    int64_t full = count_full(now);
    struct marked marked = collect(look);
    size_t last = marked.count - 1;
    int64_t bytes = full - marked.values[0], rise = marked.values[last] - marked.values[0];
    if (marked.count >= 2 && bytes >= floor_of(look, MIB, 2) && bytes >= rise / 2 &&
        trend_of(marked.values, marked.count).kind != TREND_NONE &&
        !trend_stopped(marked.seconds, marked.values, marked.count))
        tell(look, rule, &marked, now, full);
    free(marked.seconds);
    free(marked.values);
}
