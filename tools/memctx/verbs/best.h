/* SPDX-License-Identifier: MIT */
/*
 * best.h - loads only the contexts that have most of the sort key, with their call paths. For a
 * short list the command then needs no memory for millions of others.
 *
 * The target looks at all contexts. It sends the contexts whose figure is not below the smallest of
 * the best contexts so far, and the sums of all; then the command asks for the paths to the best.
 * With --site the target is asked twice for all contexts that have figures: once for their frames,
 * whose names are looked up here, and once for those whose names match.
 */
#ifndef MEMCTX_BEST_H
#define MEMCTX_BEST_H

#include "model/view.h"
#include "target/target.h"
#include "verbs/reading.h"

/* Loads at most `limit` contexts, those with most of the sort key; model->left_out has the sums
 * and the number of all others. Returns false and does nothing if the list is long, or is sorted
 * by a figure that only pages give. */
bool best_load(struct target *target, struct model *model,
               const struct target_load_options *options, const struct view_options *view,
               int64_t limit, const struct reading_names *names);

#endif
