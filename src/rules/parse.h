/* SPDX-License-Identifier: MIT */
/*
 * parse.h - the text of a rule, PATTERN=POLICY,OPTION,...
 *
 * Each function returns NULL, or what is wrong in words.
 */
#ifndef MEMCTX_RULES_PARSE_H
#define MEMCTX_RULES_PARSE_H

#include "region/terms.h"
#include "rules/rule.h"

/* What stands in front of the =: rule->pattern, which has an end there. */
const char *parse_pattern(struct policy_rule *rule);
/* What stands behind it; the commas become ends. */
const char *parse_wanted(char *wanted, struct policy_rule *rule, struct terms *terms);
/* Says in `text` why a rule is not understood. */
void parse_refuse(struct text *text, const char *rule, size_t length, const char *why);

#endif
