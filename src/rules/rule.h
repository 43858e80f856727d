/* SPDX-License-Identifier: MIT */
/*
 * rule.h - one rule for call paths, and the list of the rules in force.
 *
 * Threads: the control thread and the constructor change the list, under tree_lock; a thread that
 * makes a node reads it under tree_lock.
 */
#ifndef MEMCTX_RULES_RULE_H
#define MEMCTX_RULES_RULE_H

#include "base/text.h"

#define POLICY_RULES_MAX 64U

/* The kind of thing that a rule's pattern names. */
enum rule_kind { OF_FUNCTIONS, OF_MODULES, OF_FILES, OF_EXPRESSIONS, OF_CONTEXT, RULE_KINDS };

struct policy_rule {
    const char *text;    /* the whole rule, as the user wrote it */
    const char *pattern; /* the text between the kind's prefix and the =, ended by a 0 */
    /* OF_CONTEXT: id of the context, and parent and address of its node. The rule compares all
     * three, because another node may get the id of a removed node. */
    uint32_t context, parent;
    uintptr_t address;
    uint8_t kind, placement; /* enum rule_kind; enum placement */
    bool names_policy;       /* false: the rule has options alone */
};

struct rule_list {
    struct policy_rule rules[POLICY_RULES_MAX];
    uint32_t count;   /* atomic: number of rules */
    uint32_t version; /* incremented by each change */
    /* number of the last rule that the command has to resolve, wholly or in part; 0: none */
    uint32_t needs_command;
    /* number of rules that the library can resolve in no part without the command */
    uint32_t command_alone;
    bool kinds[RULE_KINDS]; /* true for each kind that a rule in the list has */
};
INTERNAL struct rule_list rule_list; /* defined in rules.c; written under tree_lock */

/* Returns the one of two rules that takes precedence, both counted from 1; 0 means no rule. */
INLINE uint8_t rule_first(uint8_t a, uint8_t b) {
    return !a || (b && b < a) ? b : a;
}

#endif
