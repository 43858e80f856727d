/* SPDX-License-Identifier: MIT */
/* unfold.h - leaves folded functions unfolded for a time (WIRE_UNFOLD). Control thread only, but
 * unfold_end is also called by a thread that has ended the control thread, and any thread may read
 * unfold_count and unfold_seconds_left for statistics. */
#ifndef MEMCTX_CONTROL_UNFOLD_H
#define MEMCTX_CONTROL_UNFOLD_H

#include "base/text.h"
#include <memctx/wire.h>

/* Unfolds the recursive functions on the paths of some contexts for as many seconds as the
 * request's verb says; 0 folds them again. Returns enum wire_status, with the answer or the reason
 * in `text`. */
uint32_t unfold_run(const struct wire_contexts_request *request, struct text *text);
/* ends unfoldings that have expired; called by the poll loop (server.c) */
void unfold_look(void);
void unfold_end(void);             /* ends all unfoldings */
int64_t unfold_count(void);        /* number of unfolded functions */
int64_t unfold_seconds_left(void); /* until the last unfolded function is folded again */

#endif
