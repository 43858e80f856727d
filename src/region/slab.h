/* SPDX-License-Identifier: MIT */
/*
 * slab.h - blocks of exactly the size that a context requests.
 *
 * For: contexts that request one size, or a few sizes, just above a size class. The size of their
 * blocks is a multiple of 16 bytes instead of the class's size, so sizes are rounded up to 16 bytes
 * only. The pages are those of blocks.h, with smaller blocks: freed blocks are used first, the
 * number of a block takes a multiplication, one empty page is kept. Cannot do: serve well different
 * sizes of one class, because all blocks of a class are as large as the largest request in it.
 *
 * Pages with free blocks stand in two bands. Pages that are more than half full come first, so that
 * the emptier pages get empty and are given back. Band changes cost the common free nothing:
 * page.rare_at holds the block count at which the page changes band.
 *
 * Source: PostgreSQL's slab contexts (Tomas Vondra, 2017; David Rowley, 2022), where a block has
 * chunks of one size and stands in a list of blocks that are about equally full.
 *
 * Pages with blocks of an outdated size are put aside: their free blocks are not used any more, and
 * such a page is given back when it is empty. The blocks of a page may be smaller than the page's
 * class, so a caller that takes a block compares the sizes.
 *
 * Threads: the owner of the region.
 */
#ifndef MEMCTX_SLAB_H
#define MEMCTX_SLAB_H

#include "region/blocks.h"

#define SLAB_UNIT 16U
/* The part of a page (as a shift) that must be free before a formerly full page is used again:
 * see spare_of in blocks.c. */
#define SLAB_SPARE_SHIFT 4

/* Returns the size in bytes of the region's next blocks of a class. */
INLINE uint32_t slab_block_bytes(struct bins *bins, unsigned size_class) {
    if (LIKELY(bins->policy != PLACE_SLAB))
        return blocks_bytes_table[size_class];
    return (uint32_t)region_of(bins)->units[size_class] * SLAB_UNIT;
}

#define SLAB_BANDS_BYTES (SIZE_CLASSES * sizeof(struct page *))
/* Returns the place of the pointer to the second band's first page, in the class of `page`.
 * NULL: the region has one band. */
INLINE struct page **slab_band(struct bins *bins, const struct page *page) {
    if (LIKELY(bins->policy != PLACE_SLAB) || !region_of(bins)->emptier)
        return NULL;
    return &region_of(bins)->emptier[page->size_class];
}
/* Joins the two bands of a region that gets another policy. */
void slab_one_band(struct bins *bins);

#endif
