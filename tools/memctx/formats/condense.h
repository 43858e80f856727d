/* SPDX-License-Identifier: MIT */
/*
 * condense.h - reduces the number of samples without changing their sums, for readers that take a
 * limited number.
 *
 * A table has one row of figures for each context; a row that is all zeros is no sample. Small
 * samples are added to the rows of their callers, so the outer part of each path stays.
 */
#ifndef MEMCTX_CONDENSE_H
#define MEMCTX_CONDENSE_H

#include "model/model.h"

/* Leaves at most `limit` (> 0) samples in rows[context_count][columns]; each column's sum stays as
 * it is. A sample's size is its largest share of any column. Returns true if samples were added to
 * the root's row, which then has more than the allocations without a call path. */
bool condense_rows(const struct model *model, int64_t *rows, size_t columns, size_t limit);

#endif
