/* SPDX-License-Identifier: MIT */
/*
 * rules.h - which call paths are placed how, by the names of the functions on them.
 *
 * A rule is "PATTERN=POLICY,OPTION,..."; a semicolon separates rules. PATTERN is the name of a
 * function; "regex:" and an expression that is searched for in it; "module:" and the file name of
 * an object; "file:" and the name of a source file; or "context:" and a number. In names * stands
 * for any characters and ? for one. A C++ function is named by any part of its name, or by
 * ns::type::function. A rule holds for every path that has such a frame anywhere. Where several
 * rules hold, the first one counts. MEMCTX_RULES has the rules that a program starts with; memctx
 * rules adds to them. Options: region/terms.h. What the command resolves: docs/rules.md.
 *
 * A node is matched when it is made (tree_watch), by the names that are known then. The control
 * thread reads the names of objects that are loaded later, and looks at new nodes ten times a
 * second. A context that was placed by hand (memctx set, isolate, merge) stays as it is.
 *
 * Threads: the control thread, or, in policy_rules_init and policy_rules_begin, the constructor.
 */
#ifndef MEMCTX_RULES_RULES_H
#define MEMCTX_RULES_RULES_H

#include "rules/rule.h"
#include <memctx/wire.h>

/* The rules of MEMCTX_RULES; what is not understood is said in `warnings`, and, unless the command
 * has resolved them (are_resolved), that some of them wait for it. In the constructor. */
void policy_rules_init(const char *rules, bool are_resolved, struct text *warnings);
/* Reads the names of what is loaded, so that a path is placed with its first chunk, and `ranges`,
 * which the command resolved (NULL: there are none). In the constructor, once code can be looked
 * up. */
void policy_rules_begin(const char *ranges);
bool policy_rules_exist(void);
/* Places what is new in the tree. may_open: the files of new objects may be opened. */
void policy_rules_apply(bool may_open);
/* Adds a rule behind the others. False: said in `text`. */
bool policy_rules_add(const char *rule, struct text *text, bool may_open);
void policy_rules_clear(bool may_open);
/* Takes what the command resolved. False: refused, said in `text`. */
bool policy_rules_resolve(const struct wire_rule_ranges *request, struct text *text);
/* The rule that a context is placed by, from 1 on; 0: none. */
unsigned policy_rules_of(uint32_t context);
uint32_t policy_rules_count(void);
/* Its text; NULL: there is none. */
const char *policy_rules_text(unsigned rule);

#endif
