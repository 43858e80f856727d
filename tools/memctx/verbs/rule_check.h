/* SPDX-License-Identifier: MIT */
/*
 * rule_check.h - checks the text of a rule as the library does (src/rules/parse.c).
 *
 * memctx run calls it because the library would ignore a bad rule at the start of the program.
 * memctx rules and memctx set call it because a bad rule must not end the command between two
 * requests.
 */
#ifndef MEMCTX_RULE_CHECK_H
#define MEMCTX_RULE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "target/target.h"

/* Ends the command with a usage error if the library would refuse the text of the rule, or has no
 * room for it together with the rules that were checked before. */
void rule_check(const char *rule);
/* Ends the command with a message if the process would refuse one of these rules: it has no context
 * with the number that the rule names, or no room. `cleared`: the caller will clear the present
 * rules of the process first. */
void rule_check_target(struct target *target, const char *const *rules, size_t count, bool cleared);

#endif
