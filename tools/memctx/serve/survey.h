/* SPDX-License-Identifier: MIT */
/*
 * survey.h - one look at all contexts of a process: the sum of each name that the program gave to
 * contexts, and the call paths that hold most.
 *
 * Each name or path becomes the label of a time series, so their number is bounded: SURVEY_NAMES
 * names and SURVEY_PATHS call paths are kept. All other contexts are summed.
 */
#ifndef MEMCTX_SURVEY_H
#define MEMCTX_SURVEY_H

#include "model/wire_load.h"

#define SURVEY_NAMES 100
#define SURVEY_PATHS 20

struct survey_figures {
    int64_t requested_bytes, live_chunks, allocs;
    int64_t contexts; /* number of contexts with live chunks */
};

struct survey_name {
    char *name; /* NULL: the slot is free */
    struct survey_figures figures;
};

struct survey_path {
    uint32_t id;
    struct survey_figures figures;
};

struct survey {
    struct survey_figures all;
    struct survey_name *names; /* a hash table, until survey_finish sorts it */
    size_t name_count, name_room;
    struct survey_path paths[SURVEY_PATHS + 1]; /* sorted by falling bytes */
    size_t path_count;
};

void survey_begin(struct survey *survey);
/* Adds a context: to the sum of its name, or to the list of the largest call paths. The label is
 * copied. */
void survey_add(struct survey *survey, const struct wire_context *context,
                const struct wire_sums *sums, const char *label);
/* Sorts the names by falling bytes, and drops all after the first SURVEY_NAMES. */
void survey_finish(struct survey *survey);
/* Adds figures to a sum. */
void survey_sum(struct survey_figures *sum, const struct survey_figures *part);
void survey_free(struct survey *survey);
/* Returns the sum of all contexts, without those that have one of the kept names, and without each
 * paths[i] for which told_paths[i] is true. */
struct survey_figures survey_rest(const struct survey *survey, const bool *told_paths);

#endif
