/* SPDX-License-Identifier: MIT */
/*
 * verify.h - a context's path held against a walk by libunwind, folded by the same rule.
 *
 * Threads: any that may call libunwind (see path/oracle.h).
 */
#ifndef MEMCTX_VERIFY_H
#define MEMCTX_VERIFY_H

#include "path/rules.h"

/* Compares the calling function's stack with what the tree says of this context; the result is counted
 * in oracle_counts. */
void verify_path(uint32_t context, unsigned depth, bool folding);

#endif
