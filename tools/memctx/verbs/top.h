/* SPDX-License-Identifier: MIT */
/*
 * top.h - of a dump only the contexts that have most, and the paths to them: for a list of a few, the command needs no memory
 * for the other millions.
 *
 * The target looks at all contexts and tells those whose figure is as large as the least of the best so far, with sums of all;
 * then the paths to the best are asked for. With a site the target is asked for all contexts with figures twice: for their
 * frames, whose names are looked up, and for those whose names match.
 */
#ifndef MEMCTX_TOP_H
#define MEMCTX_TOP_H

#include "model/view.h"
#include "target/target.h"
#include "verbs/reading.h"

/* Loads the options' contexts with most, at most `limit`; the sums and the count of all others are in model->left_out. False:
 * nothing was done, because the list is long, or sorted by what only pages tell. */
bool top_load(struct target *target, struct model *model, const struct target_load_options *options,
              const struct view_options *view, int64_t limit, const struct reading_names *names);

#endif
