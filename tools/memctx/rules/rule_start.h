/* SPDX-License-Identifier: MIT */
/*
 * rule_start.h - resolves MEMCTX_RULES before `memctx run` becomes the program (docs/rules.md).
 */
#ifndef MEMCTX_RULE_START_H
#define MEMCTX_RULE_START_H

#include <stddef.h>

/* Puts into the environment (WIRE_RANGES_VARIABLE) which code of the program and of its libraries
 * the rules match. Prints a note for each of the last `own` rules that matches no function.
 * LD_PRELOAD must be set already, so that the loader lists preloaded libraries, too. `library`: the
 * path of libmemctx.so, in which no rule applies. */
void rule_start_resolve(const char *program, const char *library, size_t own);

#endif
