/* SPDX-License-Identifier: MIT */
/* values.c - makes the rows of figures that are the samples of a profile. */
#include "formats/values.h"

#include <stdlib.h>

#include "formats/condense.h"
#include "formats/subtract.h"

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

size_t values_count(const struct model *model) {
    return model_has_sums_only(model) ? TYPE_RESERVED : model->recording ? TYPE_RESIDENT : TYPES;
}

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

/* Returns the figures of each context, by its index. */
static int64_t (*read_rows(const struct model *model))[TYPES] {
    int64_t(*rows)[TYPES] = cli_alloc(model->context_count, sizeof *rows);
    for (size_t i = 0; i < model->context_count; i++)
        read_figures(&model->contexts[i].figures->self, rows[i]);
    return rows;
}

bool values_is_sample(const int64_t *row) {
    for (size_t i = 0; i < TYPES; i++)
        if (row[i] != 0)
            return true;
    return false;
}

int64_t (*values_make(const struct model *model, const struct profile_values *options,
                      bool *merged))[TYPES] {
    int64_t(*rows)[TYPES] = read_rows(model);
    if (options->before) {
        int64_t(*old)[TYPES] = read_rows(options->before);
        subtract_rows(model, options->before, rows, (const int64_t(*)[TYPES])old);
        free(old);
    }
    *merged = options->limit > 0 && condense_rows(model, rows[0], TYPES, options->limit);
    return rows;
}
