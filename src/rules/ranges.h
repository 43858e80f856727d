/* SPDX-License-Identifier: MIT */
/*
 * ranges.h - lists of address ranges of an object's code, each with the rule that holds there.
 *
 * Cost: 24 bytes a range; a look-up is a binary search.
 *
 * Threads: the caller holds the lock that guards the list.
 */
#ifndef MEMCTX_RULES_RANGES_H
#define MEMCTX_RULES_RANGES_H

#include "base/base.h"

struct rule_range {
    uint64_t start, end; /* start and end address in the object's file */
    uint8_t rule;        /* number of the rule, counted from 1 */
};
struct rule_ranges {
    struct rule_range *list;
    uint32_t count, room; /* number of ranges; number of ranges that `list` has room for */
};

/* Adds a range after the others. False: out of memory. */
bool ranges_add(struct rule_ranges *ranges, struct rule_range range);
/* Sorts the ranges by start address. Ranges with the same start are names of one function: they
 * become one range with the first rule and the largest end. */
void ranges_sort(struct rule_ranges *ranges);
/* Returns the rule of the range that contains the address; 0: no range contains it. The list must
 * be sorted. */
uint8_t ranges_rule_of(const struct rule_ranges *ranges, uint64_t address);
void ranges_free(struct rule_ranges *ranges);

#endif
