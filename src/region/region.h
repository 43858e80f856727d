/* SPDX-License-Identifier: MIT */
/*
 * region.h - chunks of one (thread, context): allocate, free, resize, look at.
 *
 * Every call takes the calling thread's heap (busy, see api/thread.h) and, to allocate, the view of
 * the context that pays. Small chunks (up to 8 KiB) are blocks of pages: pages of the context's own
 * once it has MEMCTX_PROMOTE_BYTES alive and the waste cap allows, mixed pages before that. Larger
 * chunks are spans of slices or huge mappings.
 *
 * Cost of the common case: allocate: the view's line, the bin's, the page header's first line, the
 * block's record and the block; free: the same without the bin. No atomic read-modify-write, no
 * lock, no division, no system call.
 *
 * NULL means out of memory and nothing changed. errno is never written.
 */
#ifndef MEMCTX_REGION_H
#define MEMCTX_REGION_H

#include "base/options.h"
#include "region/blocks.h"

#define REGION_SIZE_MAX ((size_t)PTRDIFF_MAX)

void *region_alloc(struct heap *heap, struct view *view, size_t size, bool zero);
void *region_alloc_large(struct heap *heap, struct view *view, size_t size, size_t alignment,
                         bool zero);
void *region_alloc_aligned(struct heap *heap, struct view *view, size_t size, size_t alignment);
/* Chunks that are not blocks of this heap's pages: NULL, large, foreign, of another thread. */
void region_free_slow(struct heap *heap, struct page *page, void *chunk);
/* Keeps the contents; the chunk then belongs to `view`. NULL: out of memory, the old one intact. */
void *region_realloc(struct heap *heap, struct view *view, void *chunk, size_t size);
/* Accounts what signal handlers got past the books (segment_emergency_alloc). */
void region_settle(struct heap *heap);
extern struct lock region_settle_lock;
/* Bytes that may be used; 0 for NULL and for what is not ours. */
size_t region_usable(const void *chunk);

enum region_misuse { MISUSE_DOUBLE_FREE, MISUSE_INTERIOR };
__attribute__((noreturn)) void region_report(enum region_misuse misuse, const struct page *page,
                                             const void *chunk);

/* The block behind a chunk's pointer: its index; aborts the program for a wrong pointer. */
INLINE unsigned region_block_of(const struct page *page, const void *chunk, char **block) {
    bool exact;
    unsigned index = blocks_index_exact(page, chunk, &exact);
    *block = (char *)(uintptr_t)chunk;
    if (UNLIKELY(index >= load_relaxed(&page->bump) ||
                 (!exact && !(load_relaxed(&page->flags) & PAGE_ALIGNED))))
        region_report(MISUSE_INTERIOR, page, chunk);
    if (UNLIKELY(!exact))
        *block = page->blocks + (size_t)index * page->block_bytes;
    return index;
}

/* A small chunk from the current page; NULL: that page is used up, or it is time to ask whether the
 * context gets pages of its own: use region_alloc. *fresh becomes true when the memory is zero. */
INLINE void *region_alloc_fast(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    struct page *page = view->bins->current[blocks_class_of(size)];
    char *block = page->free;
    unsigned index;
    if (LIKELY(block != NULL)) {
        page->free = *(void **)block;
        index = blocks_index(page, block);
        store_owner(&heap->own_free, heap->own_free - page->waste_unit);
    } else if (LIKELY(page->bump < page->capacity)) {
        index = page->bump;
        block = page->blocks + (size_t)index * page->block_bytes;
        store_owner(&page->bump, (uint16_t)(index + 1));
        *fresh = page->fresh;
    } else {
        return NULL;
    }
    order_stores(); /* a fork between the two loses one block: safe */
    store_owner(&page->used, (uint16_t)(page->used + 1));
    record_write(page, index, view->index, page->block_bytes - (uint32_t)size);
    view_account_alloc(view, size);
    return block;
}

/* Frees a chunk of this heap's page. True: blocks_freed_rarely has to follow. */
INLINE bool region_free_fast(struct heap *heap, struct page *page, void *chunk, void **freed) {
    char *block;
    unsigned index = region_block_of(page, chunk, &block);
    struct record record = record_free(page, index);
    if (UNLIKELY(record.free))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    struct view *view = page->view ? page->view : heap_view_at(heap, record.view_index);
    view_account_free(view, page->block_bytes - record.slack);
    *freed = block;
    return blocks_free_owned(heap, page, block);
}

INLINE void region_free(struct heap *heap, void *chunk) {
    struct page *page = segment_page_of(chunk);
    void *block;
    if (UNLIKELY(!page || page->heap != heap))
        region_free_slow(heap, page, chunk);
    else if (UNLIKELY(region_free_fast(heap, page, chunk, &block)))
        blocks_freed_rarely(heap, page, block);
}

#endif
