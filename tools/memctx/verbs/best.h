/* SPDX-License-Identifier: MIT */
/*
 * best.h - loads only the contexts with the largest figures of the sort key, and their call paths.
 * So a short list needs no memory for millions of other contexts.
 *
 * The command asks for all contexts in pieces. Each request names the smallest figure with which a
 * context would be among the best ones so far. The target sends only the contexts that reach this
 * figure, and the sums of all contexts. Then the command asks for the paths to the best contexts.
 * With --site the command asks twice for all contexts that have figures, because the target does
 * not know names of functions. From the first answers it takes the frames, and looks up their
 * names. From the second answers it takes only contexts whose frame matches.
 */
#ifndef MEMCTX_BEST_H
#define MEMCTX_BEST_H

#include "model/view.h"
#include "target/target.h"
#include "verbs/reading.h"

/* Loads the `limit` contexts with the largest figures of the sort key, and their ancestors.
 * model->left_out has the sums and the number of all other contexts. Returns false, and loads
 * nothing, if `limit` is 0 (no limit) or above 500, or if the target cannot sort by the key,
 * because the figure comes from pages. Ends the command if the target does not answer. */
bool best_load(struct target *target, struct model *model,
               const struct target_load_options *options, const struct view_options *view,
               int64_t limit, const struct reading_names *names);

#endif
