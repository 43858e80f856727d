/* SPDX-License-Identifier: MIT */
/*
 * condense.h - fewer samples with the same sums, for readers that take only so many.
 *
 * A table has one row of figures for each context; a row that is all zeros is no sample. Samples
 * that are small are added to their callers' rows, so that of each path the outer part stays.
 */
#ifndef MEMCTX_CONDENSE_H
#define MEMCTX_CONDENSE_H

#include "model/model.h"

/* Leaves at most `limit` (> 0) samples in rows[context_count][columns]; each column's sum stays as
 * it is. A sample's size is its largest share of any column. True where some were added to the
 * root's row, which then stands for more than what has no call path. */
bool condense_rows(const struct model *model, int64_t *rows, size_t columns, size_t limit);

#endif
