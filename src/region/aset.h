/* SPDX-License-Identifier: MIT */
/*
 * aset.h - blocks by size class: the policy of every context that has no other policy.
 *
 * For: most contexts. A freed block is used again at once, for a chunk of its size class. Until a
 * context has a region, its blocks stand among the blocks of other contexts in mixed pages. The
 * policies slab and simple take their blocks through this code, too. Cannot do: make blocks of a
 * size that is not a class's; slab can.
 *
 * Source: PostgreSQL's allocation sets. Each set there takes blocks of its own from malloc; here
 * the small contexts of a thread share pages.
 *
 * Threads: the owner of the heap.
 */
#ifndef MEMCTX_ASET_H
#define MEMCTX_ASET_H

#include "region/policy.h"
#include "region/terms.h"

/* Allocates a chunk of at most SMALL_MAX bytes; with an alignment above 16, size and alignment
 * together are at most SMALL_MAX. The caller has called look_around (alloc.c). *fresh becomes true
 * when the memory is zero. NULL: out of memory. */
void *aset_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment, bool *fresh);

/* Sets the bins that serve the view's next chunks. If the context has a limit, guards or the policy
 * simple, the bins are heap_no_bins, so that the common malloc (api/fast.h) serves none of its
 * allocations. */
INLINE void aset_set_bins(struct view *view, struct bins *bins) {
    const struct bins *region = view->region;
    bool no_bins =
        (region && (UNLIKELY(region_of(view->region)->limit) || region->recipe & RECIPE_CHAINED)) ||
        UNLIKELY(terms_with(view->context, TERMS_LIMIT | TERMS_GUARD) != NULL);
    view->bins = no_bins ? (struct bins *)&heap_no_bins : bins;
}
/* Returns a page with a free block, of this size class or of the class that serves this class
 * (heap.served_by). `room`: the bytes that the block must have. NULL: out of memory. */
struct page *aset_page_of(struct heap *heap, struct view *view, unsigned size_class, size_t room);
/* Like aset_page_of, but for a chunk of `size` bytes in a block with `room` bytes. Takes a larger
 * class if the records of the class cannot store the slack, the bytes that `size` leaves in the
 * block. */
struct page *aset_page(struct heap *heap, struct view *view, size_t size, unsigned size_class,
                       size_t room);
/* Returns `size` rounded up to a multiple of `alignment`. A block of such a size is aligned without
 * padding if its page is narrow, or if the alignment is at most WIDE_ALIGNMENT_MAX. */
INLINE size_t aset_aligned_room(size_t size, size_t alignment) {
    return align_up(size | !size, alignment);
}
/* True when the record of a block can store the slack that a chunk of `size` bytes leaves. */
INLINE bool aset_slack_fits(uint32_t block_bytes, size_t size) {
    uint32_t max = block_bytes <= NARROW_MAX ? SLACK_NARROW_MAX : UINT16_MAX - 1;
    return block_bytes - size <= max;
}

/* True if a chunk of `size` bytes may stay in its block, which has room for it: the block's record
 * can store the slack, and no other size class would serve `size` with less than half of the room.
 */
INLINE bool aset_may_stay(const struct heap *heap, const struct page *page, size_t size) {
    return aset_slack_fits(page->block_bytes, size) &&
           (size * 2 >= page->block_bytes || bins_class_of(heap, size) == page->size_class);
}

/* A chunk that grows gets no more room than this. Many programs let a buffer grow to 8 KiB and no
 * further, so a block of 9 216 bytes would mostly stay partly unused. */
#define GROWN_MAX 8192U

/* Returns how much room a chunk gets that had `had` usable bytes and is resized to `size`. A chunk
 * that has grown by little is likely to grow again, so it gets a quarter more than it had. */
INLINE size_t aset_grown_room(size_t had, size_t size) {
    size_t room = had + had / 4;
    return size > had && size < room && room <= GROWN_MAX ? room : size;
}

#endif
