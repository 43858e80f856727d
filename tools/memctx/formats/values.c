/* SPDX-License-Identifier: MIT */
/* values.c - makes the rows of figures that are the samples of a profile. */
#include "formats/values.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "formats/condense.h"

const char *const values_types[TYPES][2] = {
    [TYPE_ALLOC_OBJECTS] = {"alloc_objects", "count"},
    [TYPE_ALLOC_SPACE] = {"alloc_space", "bytes"},
    [TYPE_INUSE_OBJECTS] = {"inuse_objects", "count"},
    [TYPE_INUSE_SPACE] = {"inuse_space", "bytes"},
    [TYPE_RESERVED] = {"reserved", "bytes"},
    [TYPE_WASTE] = {"waste", "bytes"},
    [TYPE_HOLES] = {"holes", "bytes"},
    [TYPE_PINNED] = {"pinned", "bytes"},
    [TYPE_RESIDENT] = {"resident", "bytes"},
};

static int64_t difference(int64_t a, int64_t b) {
    return a == WIRE_UNKNOWN || b == WIRE_UNKNOWN ? 0 : model_tame(a) - model_tame(b);
}

static void read_figures(const struct model_totals *self, int64_t *row) {
    row[TYPE_ALLOC_OBJECTS] = model_tame(self->allocs);
    row[TYPE_ALLOC_SPACE] = model_tame(self->requested_cum_bytes);
    row[TYPE_INUSE_OBJECTS] = model_tame(self->live_chunks);
    row[TYPE_INUSE_SPACE] = model_tame(self->requested_bytes);
    row[TYPE_RESERVED] = model_tame(self->reserved_bytes);
    row[TYPE_WASTE] = difference(self->reserved_bytes, self->requested_bytes);
    row[TYPE_HOLES] = difference(self->reserved_bytes, self->block_bytes);
    row[TYPE_PINNED] = model_tame(self->pinned_bytes);
    row[TYPE_RESIDENT] = model_tame(self->resident_bytes);
}

/* Returns the context with this id in an earlier state; NULL: the earlier state has no such
 * context, or its id belonged to another frame, because the library reuses ids of removed contexts.
 */
static const struct model_context *find_before(const struct model *before, uint32_t id,
                                               const struct model_frame *frame) {
    uint32_t index = model_find_context(before, id);
    if (index == WIRE_NONE)
        return NULL;
    const struct model_context *context = &before->contexts[index];
    bool same = context->frame->kind == frame->kind && context->frame->address == frame->address;
    return same ? context : NULL;
}

/* Subtracts the figures of an earlier state. Counters of allocations that were reset in between are
 * left as they are: they count from the reset on. */
static void subtract_before(const struct model *before, const struct model_context *context,
                            int64_t *row) {
    int64_t old[TYPES];
    const struct model_context *then = find_before(before, context->id, context->frame);
    if (!then)
        return;
    read_figures(&then->figures->self, old);
    bool reset = row[TYPE_ALLOC_OBJECTS] < old[TYPE_ALLOC_OBJECTS] ||
                 row[TYPE_ALLOC_SPACE] < old[TYPE_ALLOC_SPACE];
    for (size_t i = 0; i < TYPES; i++)
        if (!reset || (i != TYPE_ALLOC_OBJECTS && i != TYPE_ALLOC_SPACE))
            row[i] = difference(row[i], old[i]);
}

bool values_is_sample(const int64_t *row) {
    for (size_t i = 0; i < TYPES; i++)
        if (row[i] != 0)
            return true;
    return false;
}

int64_t (*values_make(const struct model *model, const struct profile_values *options,
                      bool *merged))[TYPES] {
    int64_t(*rows)[TYPES] = cli_alloc(model->context_count, sizeof *rows);
    for (size_t i = 0; i < model->context_count; i++) {
        read_figures(&model->contexts[i].figures->self, rows[i]);
        if (options->before)
            subtract_before(options->before, &model->contexts[i], rows[i]);
    }
    *merged = options->limit > 0 && condense_rows(model, rows[0], TYPES, options->limit);
    return rows;
}

uint64_t values_time_ns(const struct model *model) {
    struct timespec time;
    struct stat status;
    clock_gettime(CLOCK_REALTIME, &time);
    if (model->from_snapshot && stat(model->source, &status) == 0)
        time = status.st_mtim;
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}
