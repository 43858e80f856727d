/* SPDX-License-Identifier: MIT */
/*
 * rule_check.h - checks the text of a rule as the library does (src/rules/parse.c).
 *
 * For: `memctx run`, because the library would ignore a bad rule at the start of the program;
 * `memctx rules` and `memctx set`, because a bad rule must not end the command between two
 * requests. Cannot do: tell whether a process has a context of the number that a rule names.
 */
#ifndef MEMCTX_RULE_CHECK_H
#define MEMCTX_RULE_CHECK_H

/* Ends the command with a usage error if the library would refuse the rule. */
void rule_check(const char *rule);

#endif
