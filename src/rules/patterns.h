/* SPDX-License-Identifier: MIT */
/*
 * patterns.h - whether a name matches the pattern of a rule.
 *
 * In a pattern * stands for any characters and ? for one. A function of C++ is compared by its
 * mangled name, by each part of its name, and by namespace::type::function.
 *
 * Threads: any; nothing is written.
 */
#ifndef MEMCTX_RULES_PATTERNS_H
#define MEMCTX_RULES_PATTERNS_H

#include "rules/rule.h"

/* `symbol`: a name of the symbol table. */
bool pattern_matches_function(const struct policy_rule *rule, const char *symbol);
/* By the name of its file. */
bool pattern_matches_module(const struct policy_rule *rule, const char *path);

#endif
