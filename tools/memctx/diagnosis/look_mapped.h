/* SPDX-License-Identifier: MIT */
/*
 * look_mapped.h - growth of memory that did not come from malloc, as look_mapped.c sees it at the
 * looks of --watch, and look_marked.c at the marks.
 */
#ifndef MEMCTX_LOOK_MAPPED_H
#define MEMCTX_LOOK_MAPPED_H

#include "diagnosis/look.h"
#include "diagnosis/trend.h"

/* Figures of one kind of memory, the oldest first, and how they grew. */
struct mapped_trend {
    double *seconds; /* uptimes */
    int64_t *values;
    size_t count;
    size_t from, to; /* the figures grew between these elements */
    int64_t bytes;
    double watched_s, a_day;
    bool slowing, stopped;
    struct trend_line line; /* over all elements */
};

/* Makes an empty list with room for `capacity` figures. */
void mapped_trend_make(struct mapped_trend *growth, size_t capacity);
void mapped_trend_free(struct mapped_trend *growth);
/* Finds how the figures grew. False: they did not. */
bool mapped_trend_find(struct mapped_trend *growth);

/* True if the growth is large, fast and long enough for a warning. */
bool mapped_is_alarming(const struct look *look, const struct mapped_trend *growth);
/* True if the tightest limit leaves more memory than the untouched part of a mapping needs. */
bool mapped_has_room(const struct look *look, const struct model_place *place);
/* If threads explain the growth, sets the finding's call path, reason and advice. */
void mapped_tell_threads(struct look *look, struct finding *finding, enum model_place_kind kind,
                         const struct mapped_trend *growth);
/* Adds the growth to finding->use, from which forecast_tell_ends makes the texts `out`. This
 * finding gets such a text, too. Does nothing if the tightest limit counts addresses, because
 * growth in memory says nothing of them. */
void mapped_tell_forecast(const struct look *look, struct finding *finding,
                          const struct mapped_trend *growth);

#endif
