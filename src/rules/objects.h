/* SPDX-License-Identifier: MIT */
/*
 * objects.h - finds the rule that holds for a frame, from the code of the object that contains it.
 *
 * Only the addresses of names that match a rule are kept. So the 500 000 symbols of a browser cost
 * one reading and hardly any memory.
 *
 * Threads: the control thread or the constructor; objects_rule_of is also called by any thread that
 * makes a node. objects_rule_of, objects_forget and the functions that add, drop or mark ranges
 * need tree_lock; objects_read takes tree_lock itself.
 */
#ifndef MEMCTX_RULES_OBJECTS_H
#define MEMCTX_RULES_OBJECTS_H

#include "context/tree.h"
#include "rules/ranges.h"
#include "rules/rule.h"
#include <memctx/wire.h>

/* Makes the table of objects. False: out of memory. */
bool objects_begin(void);
/* Reads the names of an object, if a rule was added since the last reading. may_open: the function
 * may open files. */
void objects_read(uint32_t module, bool may_open);
/* True when objects_read has nothing to do. */
bool objects_is_read(uint32_t module);
/* Returns the first rule that holds for the frame of a node, counted from 1; 0: none. */
uint8_t objects_rule_of(const struct tree_node *node);
/* Forgets all ranges, because the rules that they name are gone. */
void objects_forget(void);

/* --- ranges that the command resolved (docs/rules.md) ----------------------------------------- */

/* True when the command has resolved, in this module, all rules that need the command. */
bool objects_is_resolved(uint32_t module);
/* True when the library could not read the module's names for some rule. In this module, a plain
 * function name in such a rule then holds only if the command resolves the rule. */
bool objects_is_unreadable(uint32_t module);
uint32_t objects_resolved_count(uint32_t module); /* number of resolved ranges in the module */
void objects_drop_resolved(uint32_t module);
/* Adds a range after the module's other ranges. Returns NULL, or the reason for a refusal in
 * words. */
const char *objects_add_resolved(uint32_t module, struct rule_range range);
/* Notes that the command has resolved all present rules in the module. */
void objects_mark_resolved(uint32_t module);

#endif
