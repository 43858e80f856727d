/* SPDX-License-Identifier: MIT */
/*
 * policy.h - where a region's chunks come from: one table, a file for each policy.
 *
 * What is here is asked when a page has run out, or by each allocation of a policy that lists its
 * chunks. The common cases know the policies by number (api/allocate.h, region/region.h), and what
 * becomes of a chunk is its page's matter, not the policy's: a page outlives a change of policy.
 *
 * Threads: constant.
 */
#ifndef MEMCTX_POLICY_H
#define MEMCTX_POLICY_H

#include "base/options.h"
#include "region/blocks.h"

struct policy {
    const char *name; /* as rules and dumps have it */
    /* A chunk of up to SMALL_MAX bytes, with the alignment, for a view that was looked after.
     * *fresh becomes true when it is zero. NULL: out of memory. */
    void *(*alloc)(struct heap *heap, struct view *view, size_t size, size_t alignment,
                   bool *fresh);
    /* Before a page is looked for: blocks of that class have to have so much room. NULL: they are
     * as large as their class. */
    void (*fit)(struct heap *heap, struct bins *bins, unsigned size_class, size_t room);
    bool in_order;     /* chunks stand one behind the other, in the pages of region/serial.h */
    bool keeps_spare;  /* one page that got empty is kept */
    bool lists_chunks; /* each is in a list, and each allocation comes to `alloc` */
};

extern const struct policy policy_aset, policy_slab, policy_generation, policy_bump, policy_simple;
INTERNAL const struct policy *const policy_table[PLACE_COUNT]; /* by enum placement */

INLINE const struct policy *policy_of(const struct bins *bins) {
    return policy_table[bins->policy];
}
/* The number of the one that a placement stands for. */
INLINE uint32_t policy_placed(enum placement placement) {
    return placement >= PLACE_SLAB && !UNLIKELY(options.check) ? placement : PLACE_DEFAULT;
}

#endif
