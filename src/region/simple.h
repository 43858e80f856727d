/* SPDX-License-Identifier: MIT */
/*
 * simple.h - each chunk an allocation by itself, in a list: what the other policies are measured against.
 *
 * For: experiments. A chunk is a block of its size and 16 bytes for the list of its region, at the block's end; it is freed
 * one by one, also when its context is reset, by walking that list. Its pages go to the freelist as all do, so the freelist is
 * what makes the next chunks cheap (MEMCTX_FREELIST_KIB=0 and MEMCTX_DECAY_MS=0 show what it is worth). Cannot do:
 * anything better than MEMCTX_ASET does.
 *
 * Source: the baseline of the experiments with allocation sets in PostgreSQL, where each chunk is one of malloc's.
 *
 * Threads: the owner of the region; blocks that others freed leave the list when they are collected.
 */
#ifndef MEMCTX_SIMPLE_H
#define MEMCTX_SIMPLE_H

#include "region/blocks.h"

struct simple_node { /* behind a chunk */
    struct simple_node *prev, *next;
};

INLINE bool simple_is(const struct page *page) {
    return UNLIKELY(load_relaxed(&page->flags) & PAGE_SIMPLE);
}
/* Bytes of the page's blocks that are not the chunk's. */
INLINE size_t simple_bytes(const struct page *page) {
    return simple_is(page) ? sizeof(struct simple_node) : 0;
}
/* The block is in use from now on, or free. */
void simple_link(const struct page *page, const char *block);
void simple_unlink(const struct page *page, const char *block);
/* The same of all that are linked by their first words. */
void simple_unlink_all(const struct page *page, const char *blocks);
/* Frees all that is in the region's list. */
void simple_reset(struct heap *heap, struct region *region);

#endif
