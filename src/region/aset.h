/* SPDX-License-Identifier: MIT */
/*
 * aset.h - blocks by size class: what every context has that has no other policy.
 *
 * For: most. A block that was freed is used again at once, by its size. Until a context has a
 * region its blocks are among others' in mixed pages. Slab and simple take their blocks here, too.
 * Cannot do: blocks of other sizes than the classes', which slab can.
 *
 * Source: PostgreSQL's allocation sets, whose blocks double; here pages do that for all contexts of
 * a thread together.
 *
 * Threads: the owner of the heap.
 */
#ifndef MEMCTX_ASET_H
#define MEMCTX_ASET_H

#include "region/policy.h"
#include "region/terms.h"

void *aset_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment, bool *fresh);

/* Where the view's next chunks come from. With a limit, guards or a list it is asked the slow way
 * for each. */
INLINE void aset_set_bins(struct view *view, struct bins *bins) {
    const struct bins *region = view->region;
    bool slow =
        (region && (UNLIKELY(region_of(view->region)->limit) || policy_of(region)->lists_chunks)) ||
        UNLIKELY(terms_with(view->context, TERMS_LIMIT | TERMS_GUARD) != NULL);
    view->bins = slow ? (struct bins *)&heap_no_bins : bins;
}
/* A page of this size class, or of the one that serves it; `room`: the bytes that a block has to
 * have. NULL: out of memory. */
struct page *aset_page_of(struct heap *heap, struct view *view, unsigned size_class, size_t room);
/* The same, or of a class whose records can tell that so little of a block was requested. */
struct page *aset_page(struct heap *heap, struct view *view, size_t size, unsigned size_class,
                       size_t room);
/* Whether the record of a block can tell that so little of it was requested. */
INLINE bool aset_slack_fits(uint32_t block_bytes, size_t size) {
    uint32_t max = block_bytes <= NARROW_MAX ? SLACK_NARROW_MAX : UINT16_MAX - 1;
    return block_bytes - size <= max;
}

#endif
