/* SPDX-License-Identifier: MIT */
/* values.h - the values of the samples of pprof and OTLP profiles: a row of figures a context. */
#ifndef MEMCTX_VALUES_H
#define MEMCTX_VALUES_H

#include "formats/profile.h"

/* The first four have the names, units and order of Go's heap profiles, which readers know. */
enum values_type {
    TYPE_ALLOC_OBJECTS,
    TYPE_ALLOC_SPACE,
    TYPE_INUSE_OBJECTS,
    TYPE_INUSE_SPACE,
    TYPE_RESERVED,
    TYPE_WASTE,
    TYPE_HOLES,
    TYPE_PINNED,
    TYPE_RESIDENT,
    TYPES,
};

/* Name and unit of each type. */
extern const char *const values_types[TYPES][2];

/* Returns a row for each context, by its index; the caller frees them. Rows of zeros are no
 * samples. *merged: small samples were added to those of their callers. */
int64_t (*values_make(const struct model *model, const struct profile_values *options,
                      bool *merged))[TYPES];
/* Returns whether a row has anything but zeros. */
bool values_is_sample(const int64_t *row);
/* Returns the time of the figures, in nanoseconds since 1970. A snapshot does not have it, so the
 * time is taken when its file was written. */
uint64_t values_time_ns(const struct model *model);

#endif
