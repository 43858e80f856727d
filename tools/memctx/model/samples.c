/* SPDX-License-Identifier: MIT */
/* samples.c - makes samples of marks and of earlier looks, in the order of time. */
#include "model/samples.h"

#include <stdlib.h>
#include <string.h>

/* An interval in which the program did less than 1/EMPTY_PART of the work of the interval before
 * shows nothing, if it also took less than 1/EMPTY_PART of the time, or about as long as a user
 * needs to look after a mark. */
#define EMPTY_PART 16
#define AT_ONCE_S 2.0

static struct sample *add_sample(struct samples *samples, const struct model *model,
                                 double uptime_s, double slept_s) {
    struct sample *sample = &samples->samples[samples->count++];
    sample->uptime_s = uptime_s;
    sample->slept_s = slept_s;
    sample->rows = cli_alloc(model->figures_count, sizeof *sample->rows);
    return sample;
}

static struct sample_row row_of(int64_t requested_bytes, int64_t live_chunks, int64_t allocs) {
    return (struct sample_row){.requested_bytes = model_tame(requested_bytes),
                               .live_chunks = model_tame(live_chunks),
                               .allocs = model_tame(allocs)};
}

static struct sample_row row_of_totals(const struct model_totals *self) {
    struct sample_row row = row_of(self->requested_bytes, self->live_chunks, self->allocs);
    row.resident_bytes = model_tame(self->resident_bytes);
    return row;
}

static int by_time(const void *a, const void *b) {
    const struct sample *left = a, *right = b;
    return left->uptime_s < right->uptime_s ? -1 : left->uptime_s > right->uptime_s;
}

static uint32_t parent_id(const struct model *model, const struct model_context *context) {
    return context->parent != WIRE_NONE ? model->contexts[context->parent].id : WIRE_NONE;
}

/* Returns the index of the context that a row of an earlier look is about; WIRE_NONE: the context
 * is gone. The library may have removed it and given its id to another path, so the parent and the
 * address must be equal, too. */
static uint32_t find_looked_at(const struct model *model, const struct samples_look_row *row) {
    uint32_t index = model_find_context(model, row->id);
    if (index == WIRE_NONE)
        return WIRE_NONE;
    const struct model_context *context = &model->contexts[index];
    bool same = parent_id(model, context) == row->parent && context->frame->address == row->address;
    return same ? index : WIRE_NONE;
}

void samples_keep(struct samples_look *look, struct model *model) {
    *look = (struct samples_look){.uptime_s = model->uptime_s, .slept_s = model->slept_s};
    mapped_take(&look->mapped, model);
    look->rows = cli_alloc(model->figures_count, sizeof *look->rows);
    for (size_t i = 1; i < model->figures_count; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        if (figures->context != WIRE_NONE) {
            const struct model_context *context = &model->contexts[figures->context];
            look->rows[look->count++] =
                (struct samples_look_row){.id = context->id,
                                          .parent = parent_id(model, context),
                                          .address = context->frame->address,
                                          .row = row_of_totals(&figures->self)};
        }
    }
}

/* Fills in the contexts that a mark left out. Each held at most left_out.most_bytes at the mark, so
 * its requested bytes have grown by at least the computed growth. How many chunks and allocations
 * it had is not known; they are limited to the same number. */
static void fill_left_out(struct sample *sample, const struct model *model,
                          const struct model_mark *mark) {
    int64_t most = model_tame(mark->left_out.most_bytes);
    for (size_t i = 1; i < model->figures_count && mark->left_out.contexts > 0; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        if (figures->context == WIRE_NONE ||
            model->contexts[figures->context].id >= mark->left_out.ids_below)
            continue;
        struct sample_row now = row_of_totals(&figures->self);
        sample->rows[i] = row_of(now.requested_bytes < most ? now.requested_bytes : most,
                                 now.live_chunks < most ? now.live_chunks : most,
                                 now.allocs < most ? now.allocs : most);
    }
}

static int64_t sum_allocs(const struct sample *sample, const struct model *model) {
    int64_t sum = 0;
    for (size_t i = 0; i < model->figures_count; i++)
        sum = model_tame(sum + sample->rows[i].allocs);
    return sum;
}

/* Returns the allocations of the process up to the mark. The mark has the exact sum of the contexts
 * that it left out, unless the counters were reset since then. This sum matters, because contexts
 * of short-lived chunks hold little, but may make most allocations. */
static int64_t allocs_at(const struct sample *sample, const struct model *model,
                         const struct model_mark *mark) {
    if (mark->left_out.contexts == 0 || mark->left_out.allocs == WIRE_UNKNOWN)
        return sum_allocs(sample, model);
    int64_t sum = model_tame(mark->left_out.allocs);
    for (size_t i = 0; i < mark->entry_count; i++)
        sum = model_tame(sum + model_tame(mark->entries[i].allocs));
    return sum;
}

/* Gives each context of a look figures of its own in the model, so that no other context shares its
 * row. */
static void own_rows(struct model *model, const struct samples_look *look) {
    for (size_t i = 0; i < look->count; i++) {
        uint32_t index = find_looked_at(model, &look->rows[i]);
        if (index != WIRE_NONE)
            model_own_figures(model, &model->contexts[index]);
    }
}

static void add_look(struct samples *samples, const struct model *model,
                     const struct samples_look *look) {
    struct sample *sample = add_sample(samples, model, look->uptime_s, look->slept_s);
    sample->has_resident = look->mapped.known;
    for (size_t i = 0; i < look->count; i++) {
        uint32_t index = find_looked_at(model, &look->rows[i]);
        if (index != WIRE_NONE)
            sample->rows[model->contexts[index].figures->number] = look->rows[i].row;
    }
    sample->allocs = sum_allocs(sample, model);
}

static void add_mapped(struct samples *samples, double uptime_s, const struct mapped *mapped) {
    if (mapped->known)
        samples->mapped[samples->mapped_count++] = (struct samples_mapped){uptime_s, *mapped};
}

/* True if hardly anything can have happened since the last mark, so that growth which goes on seems
 * to have stopped: the user set a mark and looked at once. */
static bool is_mark_of_now(const struct samples *samples) {
    if (samples->count < 3)
        return false;
    const struct sample *now = &samples->samples[samples->count - 1];
    const struct sample *mark = now - 1, *before = now - 2;
    double since_s = now->uptime_s - mark->uptime_s;
    return (since_s < AT_ONCE_S || since_s < (mark->uptime_s - before->uptime_s) / EMPTY_PART) &&
           now->allocs >= mark->allocs && mark->allocs >= before->allocs &&
           now->allocs - mark->allocs < (mark->allocs - before->allocs) / EMPTY_PART;
}

/* True if the sample `at` came at once after the sample `from`, so that growth which goes on seems
 * to pause. `neighbour`: the first and the last sample of a neighbouring interval. */
static bool is_at_once(const struct sample *from, const struct sample *at,
                       const struct sample *const neighbour[2]) {
    double seconds = at->uptime_s - from->uptime_s;
    int64_t allocs = at->allocs - from->allocs, usual = neighbour[1]->allocs - neighbour[0]->allocs;
    return seconds < AT_ONCE_S &&
           seconds < (neighbour[1]->uptime_s - neighbour[0]->uptime_s) / EMPTY_PART &&
           allocs >= 0 && allocs < usual / EMPTY_PART;
}

/* Two marks that are set one directly behind the other count as one sample, and so do a look and a
 * mark just before or behind it: removes the later of two marks, and the mark beside a look. The
 * last sample, which is taken now, stays; see is_mark_of_now. */
static void leave_out_pairs(struct samples *judged) {
    struct sample *list = judged->samples;
    size_t kept = 1;
    for (size_t i = 1; i < judged->count; i++) {
        struct sample *from = &list[kept - 1], *at = &list[i];
        bool first = kept == 1, last = i + 1 == judged->count;
        const struct sample *neighbour[2] = {first ? at : from - 1, first ? at + !last : from};
        if (last || (at->has_resident && from->has_resident) || !is_at_once(from, at, neighbour))
            list[kept++] = *at;
        else if (at->has_resident)
            *from = *at;
    }
    judged->count = kept;
}

void samples_make(struct samples *samples, struct model *model, const struct samples_look *earlier,
                  size_t earlier_count) {
    *samples = (struct samples){
        .samples = cli_alloc(model->mark_count + earlier_count + 1, sizeof *samples->samples),
        .mapped = cli_alloc(earlier_count + 1, sizeof *samples->mapped)};
    struct mapped mapped;
    mapped_take(&mapped, model);
    for (size_t i = 0; i < earlier_count; i++)
        own_rows(model, &earlier[i]);
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        if (!mark->has_entries || mark->uptime_s > model->uptime_s)
            continue;
        struct sample *sample = add_sample(samples, model, mark->uptime_s, mark->slept_s);
        fill_left_out(sample, model, mark);
        for (size_t k = 0; k < mark->entry_count; k++) {
            const struct wire_mark_entry *entry = &mark->entries[k];
            sample->rows[model->contexts[entry->context].figures->number] =
                row_of(entry->requested_bytes, entry->live_chunks, entry->allocs);
        }
        sample->allocs = allocs_at(sample, model, mark);
    }
    for (size_t i = 0; i < earlier_count; i++)
        add_look(samples, model, &earlier[i]);
    for (size_t i = 0; i < earlier_count; i++)
        add_mapped(samples, earlier[i].uptime_s, &earlier[i].mapped);
    add_mapped(samples, model->uptime_s, &mapped);
    qsort(samples->samples, samples->count, sizeof *samples->samples, by_time);
    struct sample *now = add_sample(samples, model, model->uptime_s, model->slept_s);
    for (size_t i = 0; i < model->figures_count; i++)
        now->rows[i] = row_of_totals(&model_figures_at(model, i)->self);
    now->has_resident = mapped.known;
    now->allocs = sum_allocs(now, model);
}

struct samples samples_to_judge(const struct samples *samples) {
    struct samples judged = *samples;
    judged.samples = cli_alloc(samples->count, sizeof *judged.samples);
    memcpy(judged.samples, samples->samples, samples->count * sizeof *judged.samples);
    leave_out_pairs(&judged);
    size_t last = judged.count - 1;
    if (samples->mapped_count < 2 && is_mark_of_now(&judged)) {
        judged.samples[last - 1] = judged.samples[last];
        judged.count--;
    }
    return judged;
}

double samples_slept_since(const struct samples *samples, double uptime_s) {
    double now_s = samples->samples[samples->count - 1].slept_s;
    size_t i = samples->count;
    while (i > 0 && samples->samples[i - 1].uptime_s > uptime_s)
        i--;
    return i > 0 && now_s > samples->samples[i - 1].slept_s
               ? now_s - samples->samples[i - 1].slept_s
               : 0;
}
