/* SPDX-License-Identifier: MIT */
/*
 * resolved.h - accepts the ranges that the command resolved: the code of each object that a rule
 * holds for.
 *
 * The library reads neither debug information nor regular expressions; docs/rules.md says which
 * part the command does. The library does not trust the ranges: it compares each object's build-id,
 * checks each range against the object's bounds, and WIRE_RULE_RANGES_MAX bounds the memory.
 *
 * Threads: the control thread, or the constructor.
 */
#ifndef MEMCTX_RULES_RESOLVED_H
#define MEMCTX_RULES_RESOLVED_H

#include "base/text.h"
#include <memctx/wire.h>

/* Takes the ranges of one request. False: refused, with the reason in `text`. */
bool resolved_take(const struct wire_rule_ranges *request, struct text *text);
/* Takes the ranges in the value of WIRE_RANGES_VARIABLE, for the objects that are mapped now. NULL:
 * the variable is not set. */
void resolved_read(const char *ranges);
/* Writes the version of the list of rules, then the index of each open module that is not resolved,
 * one per line. */
void resolved_list(struct text *text);

#endif
