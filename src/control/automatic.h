/* SPDX-License-Identifier: MIT */
/*
 * automatic.h - MEMCTX_AUTO: chooses a placement policy for each call path that profits from one.
 *
 * At most every two seconds the control thread looks at the tree of contexts and at the pages. The
 * thread chooses slab for a context whose blocks are larger than every request that they served, if
 * this spare room is 6 % of the blocks or more (SLAB_SPARE). The thread chooses generation for
 * a context that has chunks of several sizes, if these chunks come and go and leave a tenth of
 * their pages or more unused (GENERATION_WASTE). Generation is a guess about lifetimes, so it
 * begins as a trial: the choice is taken back if the waste is not less after all chunks were
 * replaced a few times (TURNOVERS). Named contexts, and contexts with less than AUTO_LIVE_BYTES,
 * with a rule, or placed by hand are left alone. Each dump gives the reason for each choice.
 *
 * Cost: a look takes some ns per view and page. Looks are spaced so that they take a fiftieth of
 * one processor at most.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_AUTOMATIC_H
#define MEMCTX_AUTOMATIC_H

#include "base/text.h"

#define AUTO_LIVE_BYTES (256L << 10) /* live bytes of a context, at least */

/* Does nothing until the pause since the last look is over. Then makes choices if MEMCTX_AUTO is
 * on, and judges trials that have begun. */
void automatic_look(void);
/* Writes the reason for the context's placement in words. False: no choice was made for the
 * context. */
bool automatic_reason(uint32_t context, struct text *text);

#endif
