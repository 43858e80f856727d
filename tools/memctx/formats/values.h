/* SPDX-License-Identifier: MIT */
/* values.h - the values of samples in pprof and OTLP profiles: one row of figures for each context.
 */
#ifndef MEMCTX_VALUES_H
#define MEMCTX_VALUES_H

#include "formats/profile.h"

/* The first four types have the names, units and order of Go's heap profiles, because readers know
 * these. */
enum values_type {
    TYPE_ALLOC_OBJECTS,
    TYPE_ALLOC_SPACE,
    TYPE_INUSE_OBJECTS,
    TYPE_INUSE_SPACE,
    TYPE_RESERVED, /* from here on: figures of pages */
    TYPE_WASTE,
    TYPE_HOLES,
    TYPE_PINNED,
    TYPE_RESIDENT,
    TYPES,
};

/* Name and unit of each type. */
extern const char *const values_types[TYPES][2];
/* Returns how many types a profile has, counted from the first. A moment of a recording lacks the
 * last type, and often all types from TYPE_RESERVED on. */
size_t values_count(const struct model *model);

/* Returns a row of figures for each context, by its index; the caller frees the rows. A context
 * with a row of zeros has no sample. Sets *merged if small samples were added to the root's row. */
int64_t (*values_make(const struct model *model, const struct profile_values *options,
                      bool *merged))[TYPES];
/* Returns true if a row has a figure that is not 0. */
bool values_is_sample(const int64_t *row);

#endif
