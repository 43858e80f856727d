/* SPDX-License-Identifier: MIT */
/*
 * verify.h - compares a context's path with a walk by libunwind, folded by the rule of prefix.c.
 *
 * Threads: any thread that may call libunwind (see path/oracle.h).
 */
#ifndef MEMCTX_VERIFY_H
#define MEMCTX_VERIFY_H

#include "path/unwind_rules.h"

/* Compares the calling function's stack with the path that the tree has for this context. Counts
 * the result in oracle_counts. `fold_epoch`: function_epoch when the path was found; 0: no function
 * was folded. If other functions are folded by now, the path is not judged. */
void verify_path(uint32_t context, unsigned depth, uint32_t fold_epoch);

#endif
