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

/* Makes all further blocks of the class at least `size` bytes large. */
void slab_fit(struct heap *heap, struct bins *bins, unsigned size_class, size_t size);
/* Joins the two bands of a region that gets another policy. */
void slab_one_band(struct bins *bins);

#endif
