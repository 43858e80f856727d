/* SPDX-License-Identifier: MIT */
/* misuse.h - prints the call paths of a chunk that a program misused. The region layer calls these
 * functions through its hooks; region/hooks.h describes each function. */
#ifndef MEMCTX_MISUSE_H
#define MEMCTX_MISUSE_H

#include "base/base.h"

struct terms;

void misuse_explain(uint32_t context, bool found);
void misuse_explain_guarded(uint32_t context, const uintptr_t *freed_by, unsigned count);
unsigned misuse_callers(uintptr_t frame, uintptr_t *addresses, unsigned max);
void misuse_tell_limit(const struct terms *terms, uint32_t context);

#endif
