/* SPDX-License-Identifier: MIT */
/* samples.c - puts marks and earlier dumps into the order of time, context by context. */
#include "samples.h"

#include <stdlib.h>

static struct sample *add_sample(struct samples *samples, const struct model *model,
                                 double uptime_s) {
    struct sample *sample = &samples->samples[samples->count++];
    sample->uptime_s = uptime_s;
    sample->rows = cli_alloc(model->context_count, sizeof(*sample->rows));
    return sample;
}

static struct sample_row row_of(int64_t requested_bytes, int64_t live_chunks, int64_t allocs) {
    return (struct sample_row){model_tame(requested_bytes), model_tame(live_chunks),
                               model_tame(allocs)};
}

static struct sample_row row_of_context(const struct model_context *context) {
    return row_of(context->self.requested_bytes, context->self.live_chunks, context->self.allocs);
}

static int by_time(const void *a, const void *b) {
    const struct sample *left = a, *right = b;
    return left->uptime_s < right->uptime_s ? -1 : left->uptime_s > right->uptime_s;
}

void samples_make(struct samples *samples, const struct model *model, const struct model *earlier,
                  size_t earlier_count) {
    *samples = (struct samples){
        .samples = cli_alloc(model->mark_count + earlier_count + 1, sizeof(*samples->samples))};
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        if (!mark->has_entries || mark->uptime_s > model->uptime_s) {
            continue;
        }
        struct sample *sample = add_sample(samples, model, mark->uptime_s);
        for (size_t k = 0; k < mark->entry_count; k++) {
            const struct wire_mark_entry *entry = &mark->entries[k];
            sample->rows[entry->context] =
                row_of(entry->requested_bytes, entry->live_chunks, entry->allocs);
        }
    }
    for (size_t i = 0; i < earlier_count; i++) {
        struct sample *sample = add_sample(samples, model, earlier[i].uptime_s);
        for (size_t k = 0; k < earlier[i].context_count; k++) {
            uint32_t index = model_find_context(model, earlier[i].contexts[k].id);
            if (index != WIRE_NONE) {
                sample->rows[index] = row_of_context(&earlier[i].contexts[k]);
            }
        }
    }
    qsort(samples->samples, samples->count, sizeof(*samples->samples), by_time);
    struct sample *now = add_sample(samples, model, model->uptime_s);
    for (size_t i = 0; i < model->context_count; i++) {
        now->rows[i] = row_of_context(&model->contexts[i]);
    }
}
