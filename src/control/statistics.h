/* SPDX-License-Identifier: MIT */
/* statistics.h - answers WIRE_SELF: figures of the library's own work, for `memctx dump --self` and
 * MEMCTX_VERBOSE=2. */
#ifndef MEMCTX_CONTROL_STATISTICS_H
#define MEMCTX_CONTROL_STATISTICS_H

#include "base/text.h"

/* Writes a line for each figure: name, value (a number or a path; "-": not known), meaning,
 * separated by tabs. Costs a walk over all heaps and their views. `body` is the request's, which is
 * empty. Returns WIRE_OK. Any thread. */
uint32_t statistics_fill(const char *body, struct text *text);

#endif
