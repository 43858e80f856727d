/* SPDX-License-Identifier: MIT */
/* rule_walk.h - the child's side of rule_code.h: reads one file, and writes the ranges of its code
 * that the rules match to a stream. */
#ifndef MEMCTX_RULE_WALK_H
#define MEMCTX_RULE_WALK_H

#include "rules/rule_code.h"

/* Writes a byte (enum symbols_source), a count of 8 bytes, and `count` struct rule_range. */
void rule_walk_answer(const struct symbols_request *request, const struct rule_patterns *patterns,
                      FILE *answer);

#endif
