/* SPDX-License-Identifier: MIT */
/*
 * objects.h - which rule holds for a frame, by the code of the object that it stands in.
 *
 * Of an object's names only the addresses of what matches a rule are kept, so that the 500 000
 * symbols of a browser cost one reading and hardly any memory.
 *
 * Threads: objects_read the control thread, or the constructor; the rest under tree_lock.
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
/* Reads the names of an object, if rules need them and it was not done yet. may_open: it may open
 * files. */
void objects_read(uint32_t module, bool may_open);
/* The first rule that holds for the frame of a node; 0: none. */
uint8_t objects_rule_of(const struct tree_node *node);
/* Forgets what was read, because the rules have changed. resolved_too: the rules that are left have
 * other numbers, or there are none. */
void objects_forget(bool resolved_too);

/* --- what the command resolved (docs/rules.md) ------------------------------------------------ */

/* Whether the command has resolved all rules that need it in the module. */
bool objects_is_resolved(uint32_t module);
uint32_t objects_resolved_count(uint32_t module); /* ranges of the module */
void objects_drop_resolved(uint32_t module);
/* Adds a range behind the module's others. NULL: done; else why not, in words. */
const char *objects_add_resolved(uint32_t module, struct rule_range range);
void objects_mark_resolved(uint32_t module);

#endif
