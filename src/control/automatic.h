/* SPDX-License-Identifier: MIT */
/*
 * automatic.h - MEMCTX_AUTO: a policy for the call paths whose chunks call for one.
 *
 * From what the tree and the pages tell, every few seconds: slab, where blocks are larger than anything that is asked of them;
 * generation, where chunks of several sizes come and go and leave much of their pages unused. The second is a guess about
 * lifetimes, and so a trial: it is taken back if it has not helped when all chunks were replaced a few times more. Contexts
 * with less than AUTO_LIVE_BYTES, with a rule, or placed by hand are left alone. Why is said in each dump.
 *
 * Cost: a look takes some ns a view and a page, and is made so seldom that it takes a fiftieth of one processor at most.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_AUTOMATIC_H
#define MEMCTX_AUTOMATIC_H

#include "control/control.h"

#define AUTO_LIVE_BYTES (256L << 10)

/* Looks, if it is time. */
void automatic_look(void);
/* In words, why the context stands as it does; false: nothing was chosen for it. */
bool automatic_reason(uint32_t context, struct text *text);

#endif
