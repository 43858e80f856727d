/* SPDX-License-Identifier: MIT */
/*
 * slab.h - blocks of the very size that a context asks for.
 *
 * For: contexts whose chunks are of one size, or of few, just above a size class: their blocks are
 * a multiple of 16 bytes, not the class's, so nothing but that is rounded. The pages are those of
 * blocks.h, with smaller blocks: freed ones are used first, a block's number takes a
 * multiplication, one empty page is kept. Cannot do: serve sizes of one class that are far apart;
 * the class's blocks are as large as the largest that was asked for.
 *
 * Pages with free blocks stand in two bands, those that are more than half full first, so that the
 * others get empty and go. When a page gets from one to the other is known for nothing: it is the
 * number of blocks at which a free has more to do (page.rare_at).
 *
 * Source: PostgreSQL's slab contexts (Tomas Vondra, 2017; David Rowley, 2022), where a block has
 * chunks of one size and stands in the list of those that are about as full.
 *
 * Pages with blocks of another size are put aside: their blocks are used no more, and they go when
 * they are empty. Since a page's blocks may be smaller than its class, whoever takes one compares.
 *
 * Threads: the owner of the region.
 */
#ifndef MEMCTX_SLAB_H
#define MEMCTX_SLAB_H

#include "region/blocks.h"

#define SLAB_UNIT 16U
/* Of a page, what is free before it is used again: see spare_of in blocks.c. */
#define SLAB_SPARE_SHIFT 4

/* Bytes of the region's next blocks of a class. */
INLINE uint32_t slab_block_bytes(struct bins *bins, unsigned size_class) {
    if (LIKELY(bins->policy != PLACE_SLAB))
        return blocks_bytes_table[size_class];
    return (uint32_t)region_of(bins)->units[size_class] * SLAB_UNIT;
}

#define SLAB_BANDS_BYTES (SIZE_CLASSES * sizeof(struct page *))
/* Where the first page of the second band stands, of the page's class. NULL: they are in one band.
 */
INLINE struct page **slab_band(struct bins *bins, const struct page *page) {
    if (LIKELY(bins->policy != PLACE_SLAB) || !region_of(bins)->emptier)
        return NULL;
    return &region_of(bins)->emptier[page->size_class];
}
/* Of a region that gets another policy. */
void slab_one_band(struct bins *bins);

#endif
