/* SPDX-License-Identifier: MIT */
/*
 * resolved.h - takes what the command resolved: which code of which object each rule holds for.
 *
 * The library reads neither debug information nor regular expressions; docs/rules.md says who does
 * what. What comes is not believed: each object is compared by its build-id, each range is held
 * against the object's bounds, and WIRE_RULE_RANGES_MAX bounds the memory.
 *
 * Threads: the control thread, or the constructor.
 */
#ifndef MEMCTX_RULES_RESOLVED_H
#define MEMCTX_RULES_RESOLVED_H

#include "base/text.h"
#include <memctx/wire.h>

/* Takes the ranges of one request. False: refused, said in `text`. */
bool resolved_take(const struct wire_rule_ranges *request, struct text *text);
/* Takes the text of WIRE_RANGES_VARIABLE, for the objects that are mapped now; NULL: none. */
void resolved_read(const char *ranges);
/* The version of the list of rules, and the index of each open module that is not resolved, a line
 * each. */
void resolved_list(struct text *text);

#endif
