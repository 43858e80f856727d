/* SPDX-License-Identifier: MIT */
/*
 * condense.h - reduces the number of a profile's samples without changing their sums, for readers
 * that take a limited number.
 *
 * A table has one row of figures for each context; a row that is not all zeros is a sample. Small
 * samples are added to the rows of their callers, so only inner parts of paths are lost.
 */
#ifndef MEMCTX_CONDENSE_H
#define MEMCTX_CONDENSE_H

#include "model/model.h"

/* Leaves at most `limit` (> 0) samples in rows[context_count][columns], without changing the sum of
 * any column. A sample is as large as its largest share of any column. Returns true if samples were
 * added to the root's row, which otherwise has only allocations without a call path. */
bool condense_rows(const struct model *model, int64_t *rows, size_t columns, size_t limit);

#endif
