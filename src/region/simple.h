/* SPDX-License-Identifier: MIT */
/*
 * simple.h - each chunk an allocation by itself, in a list: what the other policies are measured
 * against.
 *
 * For: experiments. A chunk is a block of its size and 16 bytes for the list of its region, at the
 * block's end. Empty pages are the freelist's as all are, so the freelist is what makes the next
 * chunks cheap: without it (MEMCTX_FREELIST_KIB=0, MEMCTX_DECAY_MS=0) a reset gives back every
 * page, and with it the pages in use stay, as they do for MEMCTX_ASET. Cannot do: anything better
 * than that one does.
 *
 * Source: the baseline of the experiments with allocation sets in PostgreSQL, where each chunk is
 * one of malloc's.
 *
 * Threads: the owner of the region; blocks that others freed leave the list when they are
 * collected.
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
INLINE struct simple_node *simple_node_of(const struct page *page, const char *block) {
    return (struct simple_node *)(void *)(uintptr_t)(block + page->block_bytes) - 1;
}
/* The block is in use from now on, or free. */
INLINE void simple_link(const struct page *page, const char *block) {
    struct region *region = region_of(page->view->region);
    struct simple_node *node = simple_node_of(page, block);
    *node = (struct simple_node){.next = region->chunks};
    if (region->chunks)
        region->chunks->prev = node;
    region->chunks = node;
}
void simple_unlink(const struct page *page, const char *block);
/* The same of all that are linked by their first words. */
void simple_unlink_all(const struct page *page, const char *blocks);

#endif
