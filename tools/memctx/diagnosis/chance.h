/* SPDX-License-Identifier: MIT */
/*
 * chance.h - whether a path grew by chance. In all these functions series->values are the bytes of
 * the path at all samples.
 */
#ifndef MEMCTX_DIAGNOSIS_CHANCE_H
#define MEMCTX_DIAGNOSIS_CHANCE_H

#include "diagnosis/series.h"
#include "diagnosis/trend.h"

/* True if chance may explain the growth of a row between two samples: chunks that come and go. */
bool chance_explains(const struct series *series, size_t number, size_t from, size_t to);
/* True if the row grows by about as much in each interval between two samples. */
bool chance_is_even(const struct series *series, size_t from, size_t to);
/* True if the row grew in the first half of the trend, and then by no more than chance explains. */
bool chance_has_settled(const struct series *series, size_t number, const struct trend *trend);

/* True if the path may have risen and fallen between the looks as far as at the looks, because its
 * chunks live for a short time. Looks that come a little later in each wave than in the wave before
 * see a growth that is none. In waves of k looks each, the low points seem to rise by up to a
 * (k - 1)th of the fall. A path that rose at each look was between the looks far above its bytes
 * now. */
bool chance_hides_waves(const struct series *series, size_t number, const struct trend *trend);

#endif
