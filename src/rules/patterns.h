/* SPDX-License-Identifier: MIT */
/*
 * patterns.h - tells whether a name matches the pattern of a rule.
 *
 * In a pattern * stands for any characters and ? for one character. A C++ function matches by its
 * mangled name, by each part of its name, or by namespace::type::function (mangled.h).
 *
 * Threads: any; nothing is written.
 */
#ifndef MEMCTX_RULES_PATTERNS_H
#define MEMCTX_RULES_PATTERNS_H

#include "rules/rule.h"

/* True when the rule's pattern matches a function. `symbol`: the function's name in the symbol
 * table. */
bool pattern_matches_function(const struct policy_rule *rule, const char *symbol);
/* True when the rule's pattern matches the file name at the end of an object's path. */
bool pattern_matches_module(const struct policy_rule *rule, const char *path);

#endif
