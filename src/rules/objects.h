/* SPDX-License-Identifier: MIT */
/*
 * objects.h - finds the rule that holds for a frame, from the code of the object that contains it.
 *
 * Only the addresses of names that match a rule are kept. So the 500 000 symbols of a browser cost
 * one reading and hardly any memory.
 *
 * Threads: the control thread or the constructor calls objects_read. All other functions need
 * tree_lock.
 */
#ifndef MEMCTX_RULES_OBJECTS_H
#define MEMCTX_RULES_OBJECTS_H

#include "context/tree.h"
#include "rules/ranges.h"
#include "rules/rule.h"
#include <memctx/wire.h>

/* Makes the table of objects. False: out of memory. */
bool objects_begin(void);
bool objects_exist(void);
/* Reads the names of an object, if rules need them and they were not read before. may_open: the
 * function may open files. */
void objects_read(uint32_t module, bool may_open);
/* Returns the first rule that holds for the frame of a node; 0: none. */
uint8_t objects_rule_of(const struct tree_node *node);
/* Forgets the names that were read, because the rules have changed. resolved_too: also forgets the
 * command's ranges, because the remaining rules have new numbers or no rule is left. */
void objects_forget(bool resolved_too);

/* --- ranges that the command resolved (docs/rules.md) ----------------------------------------- */

/* True when the command has resolved all rules that need it in the module. */
bool objects_is_resolved(uint32_t module);
uint32_t objects_resolved_count(uint32_t module); /* number of ranges of the module */
void objects_drop_resolved(uint32_t module);
/* Adds a range after the module's other ranges. NULL: done; else the reason why not, in words. */
const char *objects_add_resolved(uint32_t module, struct rule_range range);
void objects_mark_resolved(uint32_t module);

#endif
