/* SPDX-License-Identifier: MIT */
/* rule.h - one rule for call paths, and the list of the rules in force. */
#ifndef MEMCTX_RULES_RULE_H
#define MEMCTX_RULES_RULE_H

#include "base/text.h"

#define POLICY_RULES_MAX 64U

/* The kind of thing that a rule's pattern names. */
enum rule_kind { OF_FUNCTIONS, OF_MODULES, OF_FILES, OF_EXPRESSIONS, OF_CONTEXT, RULE_KINDS };

struct policy_rule {
    const char *text;    /* the whole rule */
    const char *pattern; /* text after the kind's prefix, up to the =; ended by a 0 */
    uint32_t context;    /* only for OF_CONTEXT */
    uint8_t kind, placement;
};

struct rule_list {
    struct policy_rule rules[POLICY_RULES_MAX];
    uint32_t count;
    uint32_t version; /* incremented by each change */
    /* Number of the last rule that the command resolves, in part or alone. */
    uint32_t needs_command;
    uint32_t command_alone; /* number of rules that only the command can resolve */
    bool kinds[RULE_KINDS]; /* true for each kind that the list has */
};
INTERNAL struct rule_list rule_list; /* in rules.c; written under tree_lock */

/* Returns the rule that takes precedence, of two rules counted from 1; 0 means no rule. */
INLINE uint8_t rule_first(uint8_t a, uint8_t b) {
    return !a || (b && b < a) ? b : a;
}

#endif
