/* SPDX-License-Identifier: MIT */
/*
 * rules.h - places call paths by rules that name code on them.
 *
 * A rule is "PATTERN=POLICY,OPTION,..."; a semicolon separates rules. PATTERN is the name of a
 * function; or "regex:" and an expression that is searched for in the function's name; or "module:"
 * and the file name of an object; or "file:" and the name of a source file; or "context:" and a
 * number. In names * stands for any characters and ? for one character. A C++ function is named by
 * any part of its name, or by ns::type::function. A rule holds for every path that has a matching
 * frame anywhere. Where several rules hold, the first one counts. Rules with "context:" come before
 * all others: the newest such rule for the context, else the one that its parent has. MEMCTX_RULES
 * has the rules that a program starts with; `memctx rules` adds others. region/terms.h lists the
 * options. docs/rules.md says which patterns the command resolves.
 *
 * A node is matched when it is made (tree_watch), by the names that the library knows at that time.
 * Ten times a second the control thread reads the names of new objects, and matches the nodes that
 * were made since its last look. A context that was placed by hand (memctx set, isolate, merge)
 * keeps its placement, until a later rule with a policy names it, or a context above it, by number.
 *
 * Threads: the control thread, or, in policy_rules_init and policy_rules_begin, the constructor.
 */
#ifndef MEMCTX_RULES_RULES_H
#define MEMCTX_RULES_RULES_H

#include "rules/rule.h"
#include <memctx/wire.h>

/* Adds the rules of MEMCTX_RULES. Writes to `warnings` which rules are not understood. Also warns
 * that some rules wait for the command, unless the command has resolved them (are_resolved). Called
 * by the constructor. */
void policy_rules_init(const char *rules, bool are_resolved, struct text *warnings);
/* Reads the names of the loaded objects, so that a path is placed with its first chunk. Stores the
 * `ranges` that the command resolved (NULL: none). Called by the constructor, once code can be
 * looked up. */
void policy_rules_begin(const char *ranges);
bool policy_rules_exist(void);
/* Matches the tree's new contexts, at most 65 536 of them, and places those that a rule names.
 * may_open: the function may open the files of new objects. */
void policy_rules_apply(bool may_open);
/* Like policy_rules_apply, but matches all contexts, in about 0.1 s for a million. */
void policy_rules_apply_all(bool may_open);
/* True when the rule is understood, so that it can be added if there is room. False: refused, with
 * the reason in `text`. */
bool policy_rules_check(const char *rule, struct text *text);
/* Adds a rule after the others. False: refused, with the reason in `text`. */
bool policy_rules_add(const char *rule, struct text *text, bool may_open);
void policy_rules_clear(bool may_open);
/* Stores ranges that the command resolved. False: refused, with the reason in `text`. */
bool policy_rules_resolve(const struct wire_rule_ranges *request, struct text *text);
/* Returns the number, counted from 1, of the rule that counts for a context; 0: none. */
unsigned policy_rules_of(uint32_t context);
/* Like policy_rules_of, but also 0 when nothing of the rule holds: a user placed the context, and
 * the rule has no options; or the context is named. */
unsigned policy_rules_held(uint32_t context);
/* Called when a user has placed the context by hand (PLACED_BY_HAND), or has taken that back.
 * Applies the context's rule again. */
void policy_rules_placed(uint32_t context);
INTERNAL void *const *const rules_matched_shown; /* for control/outside.c */
uint32_t policy_rules_count(void);
/* Returns the rule's text; NULL: no such rule. */
const char *policy_rules_text(unsigned rule);

#endif
