/* SPDX-License-Identifier: MIT */
/*
 * slab.h - blocks of exactly the size that a context requests.
 *
 * For: contexts that request one size, or a few sizes, just above a size class. Their blocks have
 * the requested size, rounded up to 16 bytes, instead of the class's size. In all other respects
 * slab works like aset.h. Cannot do: serve well different sizes of one class, because all blocks of
 * a class are as large as the largest request in it.
 *
 * Pages with free blocks stand in two bands. Pages that are more than half full come first, so that
 * emptier pages lose their last chunks and are given back. The common free does not look at bands:
 * page.changes_at holds the count of used blocks at which the page changes its band.
 *
 * Source: PostgreSQL's slab contexts (Tomas Vondra, 2017; David Rowley, 2022), where a block has
 * chunks of one size and stands in a list of blocks that are about equally full.
 *
 * When the block size of a class grows, pages with smaller blocks are put aside: their free blocks
 * are not used any more, and such a page is given back when it is empty. A block may be smaller
 * than the size of its class, so a caller that takes a block compares the request with
 * page.block_bytes.
 *
 * Threads: the owner of the region.
 */
#ifndef MEMCTX_SLAB_H
#define MEMCTX_SLAB_H

#include "region/blocks.h"

/* Makes the next blocks of the class at least `size` bytes large, and puts aside pages with smaller
 * blocks. */
void slab_fit(struct heap *heap, struct bins *bins, unsigned size_class, size_t size);
/* Gives back the memory of region.emptier. */
void slab_free_bands(const struct region *region);
/* Makes the two bands one list, for a region that gets another policy. */
void slab_one_band(struct bins *bins);

#endif
