/* SPDX-License-Identifier: MIT */
/*
 * load.h - whether the memory of a path grew only because the load of the program rose.
 */
#ifndef MEMCTX_LOAD_H
#define MEMCTX_LOAD_H

#include "diagnosis/series.h"

/* True if the live bytes of a path followed the rate of its allocations in the samples of the
 * trend, so that each chunk lived about as long at the end as at the beginning. Only chunks that
 * live no longer than an interval between two samples are judged: on average, an interval has as
 * many allocations as there are live chunks, or more. */
bool load_explains(const struct series *series, size_t number, const struct trend *trend);

#endif
