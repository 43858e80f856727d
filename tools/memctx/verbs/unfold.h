/* SPDX-License-Identifier: MIT */
/* unfold.h - memctx set TARGET CONTEXT unfold: new call paths keep every turn of a recursion for
 * a time. */
#ifndef MEMCTX_UNFOLD_H
#define MEMCTX_UNFOLD_H

#include "verbs/choose.h"

#define UNFOLD_SECONDS 60 /* unless --for says another time */

/* Asks the target to unfold the recursive contexts for `seconds`, or to fold them again (0), and
 * prints the answer. */
void unfold_contexts(const struct choice *choice, int64_t seconds);

#endif
