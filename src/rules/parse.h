/* SPDX-License-Identifier: MIT */
/*
 * parse.h - parses the text of a rule, PATTERN=POLICY,OPTION,...
 *
 * The parse functions return NULL, or the error in words. Threads: the control thread or the
 * constructor.
 */
#ifndef MEMCTX_RULES_PARSE_H
#define MEMCTX_RULES_PARSE_H

#include "region/terms.h"
#include "rules/rule.h"

/* Parses rule->pattern, the part before the =. A 0 stands in place of the =. */
const char *parse_pattern(struct policy_rule *rule);
/* Parses `wanted`, the part after the =, and overwrites its commas with 0. */
const char *parse_wanted(char *wanted, struct policy_rule *rule, struct terms *terms);
/* Writes to `text` why a rule is refused. */
void parse_refuse(struct text *text, const char *rule, size_t length, const char *why);

#endif
