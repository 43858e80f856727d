/* SPDX-License-Identifier: MIT */
/*
 * resolved.h - accepts the ranges that the command resolved: for each object, the code for which a
 * rule holds.
 *
 * The library neither reads debug information nor evaluates regular expressions; docs/rules.md says
 * which part the command does. The library does not trust the ranges. It compares each object's
 * build-id and checks each range against the object's bounds. WIRE_RULE_RANGES_MAX bounds the
 * memory.
 *
 * Threads: the control thread, or the constructor.
 */
#ifndef MEMCTX_RULES_RESOLVED_H
#define MEMCTX_RULES_RESOLVED_H

#include "base/text.h"
#include <memctx/wire.h>

/* Stores the ranges of one request. False: refused, with the reason in `text`. */
bool resolved_take(const struct wire_rule_ranges *request, struct text *text);
/* Parses `ranges`, the value of the environment variable WIRE_RANGES_VARIABLE, and stores the
 * ranges of the objects that are mapped now. NULL: the variable is not set. */
void resolved_read(const char *ranges);
/* Writes the version of the list of rules. Then writes a line with the index of each loaded module
 * in which the command has not resolved all rules, and " unreadable" if the library cannot read the
 * module's names. */
void resolved_list(struct text *text);

#endif
