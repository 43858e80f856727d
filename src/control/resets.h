/* SPDX-License-Identifier: MIT */
/* resets.h - answers WIRE_RESET. */
#ifndef MEMCTX_CONTROL_RESETS_H
#define MEMCTX_CONTROL_RESETS_H

#include "base/text.h"
#include <memctx/wire.h>

/* Lets the counters of a context and its descendants, or of all contexts, start anew. Costs 24
 * bytes a view, which are part of the tables' budget. Returns enum wire_status, with a sentence for
 * the user in `text`. Control thread only. */
uint32_t reset_run(const struct wire_reset_request *request, struct text *text);

#endif
