/* SPDX-License-Identifier: MIT */
/* rule.h - one rule for call paths, and the list of those in force. */
#ifndef MEMCTX_RULES_RULE_H
#define MEMCTX_RULES_RULE_H

#include "base/text.h"

#define POLICY_RULES_MAX 64U

/* What a rule's pattern names. */
enum rule_kind { OF_FUNCTIONS, OF_MODULES, OF_FILES, OF_EXPRESSIONS, OF_CONTEXT, RULE_KINDS };

struct policy_rule {
    const char *text;    /* all of it */
    const char *pattern; /* behind its kind; ended by the = */
    uint32_t context;    /* OF_CONTEXT */
    uint8_t kind, placement;
};

struct rule_list {
    struct policy_rule rules[POLICY_RULES_MAX];
    uint32_t count;
    uint32_t version; /* counts each change */
    uint32_t
        needs_command; /* number of the last rule that the command resolves, in part or alone */
    uint32_t command_alone; /* rules that the command alone resolves */
    bool kinds[RULE_KINDS]; /* there are such rules */
};
INTERNAL struct rule_list rule_list; /* rules.c; written under tree_lock */

/* Of two rules, counted from 1 on, the one that counts; 0 is none. */
INLINE uint8_t rule_first(uint8_t a, uint8_t b) {
    return !a || (b && b < a) ? b : a;
}

#endif
