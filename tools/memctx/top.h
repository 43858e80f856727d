/* SPDX-License-Identifier: MIT */
/*
 * top.h - of a dump only the contexts that have most, and the paths to them: for a list of a few, the command needs no memory
 * for the other millions.
 *
 * All contexts are read once, and of each only its parent and the figure that is sorted by are kept (13 bytes); then the
 * records of those that are shown are asked for. Cost: the time of a dump.
 */
#ifndef MEMCTX_TOP_H
#define MEMCTX_TOP_H

#include "target.h"
#include "view.h"

/* Loads the `limit` contexts with most; the sums and the count of all others are in model->left_out. False: nothing was done,
 * because the list is long, or sorted by what only pages tell. */
bool top_load(struct target *target, struct model *model, const struct target_load_options *options,
              enum view_sort sort, int64_t limit);

#endif
