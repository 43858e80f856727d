/* SPDX-License-Identifier: MIT */
/*
 * simple.h - each chunk has a block and is in a list of all chunks: the baseline for the other
 * policies.
 *
 * For: experiments. A chunk is a block with room for its size and for 16 bytes at the block's end,
 * which link the chunk into its region's list. Empty pages go to the freelist, like those of every
 * policy, so the freelist makes the next chunks cheap. Without the freelist (MEMCTX_FREELIST_KIB=0,
 * MEMCTX_DECAY_MS=0) a reset gives back every page. With the freelist a reset keeps current pages,
 * as it does for MEMCTX_ASET (reset, kind_blocks.c). Cannot do: anything better than MEMCTX_ASET
 * does.
 *
 * Source: the baseline of the experiments with allocation sets in PostgreSQL, where each chunk is a
 * malloc of its own.
 *
 * Threads: the owner of the region. A block that another thread freed leaves the list when the
 * owner collects it.
 */
#ifndef MEMCTX_SIMPLE_H
#define MEMCTX_SIMPLE_H

#include "region/blocks.h"

/* The links of a chunk in its region's list (region.chunks), at the end of the chunk's block. */
struct simple_node {
    struct simple_node *prev, *next;
};

/* True when the blocks of the page contain list links. */
INLINE bool simple_is(const struct page *page) {
    return UNLIKELY(load_relaxed(&page->flags) & PAGE_CHAINED);
}
/* Returns the bytes of a block of the page that hold the list's links instead of the chunk. */
INLINE size_t simple_bytes(const struct page *page) {
    return simple_is(page) ? sizeof(struct simple_node) : 0;
}
INLINE struct simple_node *simple_node_of(const struct page *page, const char *block) {
    return (struct simple_node *)(void *)(uintptr_t)(block + page->block_bytes) - 1;
}
/* simple_link adds a block that was just handed out to the list; simple_unlink removes a block that
 * is freed. */
INLINE void simple_link(const struct page *page, const char *block) {
    struct region *region = region_of(page->view->region);
    struct simple_node *node = simple_node_of(page, block);
    *node = (struct simple_node){.next = region->chunks};
    if (region->chunks)
        region->chunks->prev = node;
    region->chunks = node;
}
void simple_unlink(const struct page *page, const char *block);
/* Removes from the list all blocks of a chain of freed blocks. The first word of each block points
 * to the chain's next block. */
void simple_unlink_all(const struct page *page, const char *blocks);

#endif
