/* SPDX-License-Identifier: MIT */
/*
 * serial_pages.h - what serial.c (chunks) and serial_pages.c (their pages) share.
 *
 * Threads: the owner of the page or region.
 */
#ifndef MEMCTX_SERIAL_PAGES_H
#define MEMCTX_SERIAL_PAGES_H

#include "region/serial.h"

/* Returns the number of words that hold one bit for each unit of the page. page->gone has twice as
 * many words: first the bits of chunks that the owner freed or collected, then the bits of chunks
 * that other threads freed. */
INLINE size_t serial_gone_words(const struct page *page) {
    return page->slices * (SLICE_BYTES / SERIAL_UNIT / 64);
}

/* Returns the bytes of the table page->gone. */
INLINE size_t serial_gone_bytes(const struct page *page) {
    return 2 * serial_gone_words(page) * sizeof(uint64_t);
}

INLINE struct region *serial_region(const struct page *page) {
    return region_of(page->view->region);
}

/* Counts `bytes` more bytes of the page that hold no live chunk: they are waste (heap.own_free).
 * Negative: so many fewer bytes. */
INLINE void serial_add_dead(struct heap *heap, struct page *page, int64_t bytes) {
    page->dead_bytes += (uint32_t)bytes;
    store_owner(&heap->own_free, heap->own_free + bytes);
}

/* Makes another page the region's current page, for a chunk of `bytes` bytes. NULL: out of memory.
 */
struct page *serial_next_page(struct heap *heap, struct view *view, size_t bytes);
/* Called when the last live chunk of the page was freed. */
void serial_page_got_empty(struct heap *heap, struct page *page);
/* page_kind.reset (page_kinds.h). */
void serial_reset(struct heap *heap, struct region *region, struct page *page, uint32_t *kept);

#endif
