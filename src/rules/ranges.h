/* SPDX-License-Identifier: MIT */
/*
 * ranges.h - pieces of an object's code, each with the rule that holds for it, found by address.
 *
 * Cost: 24 bytes a piece; a look-up halves the list until it is there.
 *
 * Threads: the caller's lock.
 */
#ifndef MEMCTX_RULES_RANGES_H
#define MEMCTX_RULES_RANGES_H

#include "base/base.h"

struct rule_range {
    uint64_t start, end; /* addresses as the object's file has them */
    uint8_t rule;        /* from 1 on */
};
struct rule_ranges {
    struct rule_range *list;
    uint32_t count, room;
};

/* Adds a range behind the others. False: out of memory. */
bool ranges_add(struct rule_ranges *ranges, struct rule_range range);
/* Sorts them by where they start. Of several with one start, which are names of one function, the
 * first rule's stays. */
void ranges_sort(struct rule_ranges *ranges);
/* The rule of the range that holds the address; 0: none does. The ranges are sorted. */
uint8_t ranges_rule_of(const struct rule_ranges *ranges, uint64_t address);
void ranges_free(struct rule_ranges *ranges);

#endif
