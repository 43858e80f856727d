/* SPDX-License-Identifier: MIT */
/*
 * policy.h - where a region's chunks come from: one table, and a file for each policy.
 *
 * The table is consulted when a page has run out, and at each allocation of a policy that lists its
 * chunks. The fast paths know the policies by number (api/allocate.h, region/region.h). Freeing and
 * resizing depend on the kind of the chunk's page, not on the policy: a page outlives a change of
 * policy.
 *
 * Threads: constant.
 */
#ifndef MEMCTX_POLICY_H
#define MEMCTX_POLICY_H

#include "base/options.h"
#include "region/blocks.h"

struct policy {
    const char *name; /* as rules and dumps have it */
    /* Allocates a chunk; size and alignment together are at most SMALL_MAX bytes. The caller has
     * already done what the view may need before an allocation. *fresh becomes true when the
     * memory is zero. NULL: out of memory. */
    void *(*alloc)(struct heap *heap, struct view *view, size_t size, size_t alignment,
                   bool *fresh);
    /* Called before a page is searched: blocks of that class must have room for `room` bytes.
     * NULL: blocks have the size of their class. */
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
/* Returns the number of the policy for a placement. */
INLINE uint32_t policy_placed(enum placement placement) {
    return placement >= PLACE_SLAB && !UNLIKELY(options.check) ? placement : PLACE_DEFAULT;
}

#endif
