/* SPDX-License-Identifier: MIT */
/*
 * best.h - loads only the contexts that have most of the sort key, with their call paths. For a
 * short list the command then needs no memory for millions of others.
 *
 * The command asks for all contexts in pieces. Each request names the smallest figure with which a
 * context would be among the best ones so far. The target sends only the contexts that reach this
 * figure, and the sums of all contexts. Then the command asks for the paths to the best contexts.
 * With --site the target is asked twice for all contexts that have figures. The first answers give
 * their frames, whose names are looked up here. From the second answers, only contexts with a
 * matching name are taken.
 */
#ifndef MEMCTX_BEST_H
#define MEMCTX_BEST_H

#include "model/view.h"
#include "target/target.h"
#include "verbs/reading.h"

/* Loads at most `limit` contexts, those with most of the sort key; model->left_out has the sums and
 * the number of all others. Returns false and does nothing if `limit` is above 500, or if only
 * pages give the sort key. */
bool best_load(struct target *target, struct model *model,
               const struct target_load_options *options, const struct view_options *view,
               int64_t limit, const struct reading_names *names);

#endif
