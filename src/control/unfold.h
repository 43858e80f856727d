/* SPDX-License-Identifier: MIT */
/* unfold.h - leaves folded functions unfolded for a time (WIRE_UNFOLD). Only the control thread
 * calls this, or a thread that ends the control thread. */
#ifndef MEMCTX_CONTROL_UNFOLD_H
#define MEMCTX_CONTROL_UNFOLD_H

#include "base/text.h"
#include <memctx/wire.h>

/* Unfolds the recursive functions on the paths of some contexts for some seconds, or folds them
 * again. */
uint32_t unfold_run(const struct wire_contexts_request *request, struct text *text);
/* ends unfoldings that have expired; called by the poll loop (server.c) */
void unfold_look(void);
void unfold_end(void);             /* ends all unfoldings */
int64_t unfold_count(void);        /* number of unfolded functions */
int64_t unfold_seconds_left(void); /* until the last unfolded function is folded again */

#endif
