/* SPDX-License-Identifier: MIT */
/*
 * subtract.h - subtracts the figures of an earlier state of a process, for profiles of an interval.
 *
 * The library gives the id of a removed context to another path. So a context of both states is one
 * path only if the frames from the root to it are equal in both. If a context is gone, its live
 * figures are subtracted from the nearest ancestor that is still there. The library has moved the
 * count of its allocations below [other callers] of an ancestor (model/folding.h), so the
 * allocations are subtracted there; otherwise they would seem to be new. So the sum of each column
 * is the difference of the sums of both states. One exception: counters that memctx reset has set
 * to zero in between count from the reset on.
 */
#ifndef MEMCTX_SUBTRACT_H
#define MEMCTX_SUBTRACT_H

#include "formats/values.h"

/* Subtracts the rows `old` of the contexts of `before` from the rows of the contexts of `model`. */
void subtract_rows(const struct model *model, const struct model *before, int64_t (*rows)[TYPES],
                   const int64_t (*old)[TYPES]);

#endif
