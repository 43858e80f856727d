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
#include "region/member.h"
#include "region/serial.h"
#include "region/simple.h"
#include "region/terms.h"

#define REGION_SIZE_MAX ((size_t)PTRDIFF_MAX)

void *region_alloc(struct heap *heap, struct view *view, size_t size, bool zero);
void *region_alloc_large(struct heap *heap, struct view *view, size_t size, size_t alignment,
                         bool zero);
void *region_alloc_aligned(struct heap *heap, struct view *view, size_t size, size_t alignment);
/* The memory of a large chunk whose accounts and lists are done with. */
void region_give_large(struct page *page);
/* Chunks that are not blocks of this heap's pages: NULL, large, foreign, of another thread. */
void region_free_slow(struct heap *heap, struct page *page, void *chunk);
/* The new size in the same block, where that is no waste; the chunk then belongs to `view`. False:
 * nothing changed; use region_realloc. */
bool region_resize(struct heap *heap, struct view *view, void *chunk, size_t size);
/* Keeps the contents; the chunk then belongs to `view`. NULL: out of memory, the old one intact. */
void *region_realloc(struct heap *heap, struct view *view, void *chunk, size_t size);
/* Accounts what signal handlers got past the books (segment_emergency_alloc). */
void region_settle(struct heap *heap);
INTERNAL struct lock region_lock; /* rare: that, and all of region/named.h and context/named.h */
/* The context that pays for it; REGION_NO_CONTEXT: it is not ours, or free. */
uint32_t region_context_of(const void *chunk);
/* The member of a crowd whose chunk it is; 0: of none. */
uint32_t region_member_of(const void *chunk);
/* Bytes that may be used; 0 for NULL and for what is not ours. */
size_t region_usable(const void *chunk);
size_t region_requested(const void *chunk); /* the same */

enum region_misuse {
    MISUSE_DOUBLE_FREE,
    MISUSE_INTERIOR,
    MISUSE_OVERFLOW,
    MISUSE_WRITTEN_FREE,
    MISUSE_FREED_IN_RESET
};
/* Of a region, the policy of the chunks to come (PLACE_DEFAULT, or one from PLACE_SLAB on). What
 * stands in its pages stays there, and they go when they are empty. */
void region_change_policy(struct heap *heap, struct bins *bins, uint32_t policy);
__attribute__((noreturn)) void region_report(enum region_misuse misuse, const struct page *page,
                                             const void *chunk);

/* The number of the block behind a chunk's pointer; aborts the program for a wrong pointer. */
INLINE unsigned region_block_index(const struct page *page, const char *granule, const void *chunk,
                                   char **block) {
    bool exact;
    unsigned index = blocks_index(page, granule, chunk, &exact);
    *block = (char *)(uintptr_t)chunk;
    if (UNLIKELY(index >= page->granule_capacity ||
                 (!exact && !(load_relaxed(&page->meta_shift) & META_ALIGNED))))
        region_report(MISUSE_INTERIOR, page, chunk);
    if (UNLIKELY(!exact))
        *block = (char *)(uintptr_t)granule + page->first + (size_t)index * page->block_bytes;
    return index;
}

/* Its record. */
INLINE void *region_block_of(const struct page *page, const void *chunk, char **block) {
    const char *granule = blocks_granule(page, chunk);
    return blocks_record(page, granule, region_block_index(page, granule, chunk, block));
}

/* A block of the current page, which is `narrow` or may be wide, for a chunk of `size`; NULL:
 * neither a freed one nor one in the open granule is left. *fresh becomes true when the memory is
 * zero. */
INLINE char *region_take(struct heap *heap, struct page *page, struct view *view, size_t size,
                         bool narrow, bool *fresh) {
    if (UNLIKELY(size > page->block_bytes)) /* a slab's: see region/slab.h */
        return NULL;
    char *block = page->free;
    if (UNLIKELY(!block) && !page->fresh_left) { /* the recent ones: their page is next */
        page = page->waste_unit ? NULL : page->behind;
        if (!page)
            return NULL;
        block = page->free;
    }
    if (LIKELY(block != NULL)) {
        blocks_unlink(page, block);
        add_owner(&heap->own_free, -(int64_t)page->waste_unit);
    } else if (LIKELY(page->fresh_left)) {
        block = page->next_block;
        store_owner(&page->next_block, block + page->block_bytes);
        store_owner(&page->fresh_left, (uint16_t)(page->fresh_left - 1));
        *fresh = page->fresh;
    } else {
        return NULL;
    }
    order_stores(); /* a fork between the two loses one block: safe */
    add_owner(&page->used, 1);
    uint32_t slack = page->block_bytes - (uint32_t)size;
    if (narrow)
        record_set_narrow(page, block, view->index, slack);
    else
        record_set(page, block, view->index, slack);
    view_account_alloc(view, size);
    return block;
}

/* A chunk of up to NARROW_MAX bytes for a context without pages of its own, from the blocks of
 * mixed pages that were freed last. NULL: there is none; use region_alloc_narrow. */
INLINE void *region_alloc_recent(struct heap *heap, struct view *view, size_t size) {
    struct page *recent = heap_recent(heap, bins_class_narrow(heap, size));
    char *block = recent->free;
    if (UNLIKELY(!block))
        return NULL;
    blocks_unlink(recent, block);
    order_stores();
    add_owner(&recent->used, 1);
    record_set_mixed(recent, block, view->index, recent->block_bytes - (uint32_t)size);
    view_account_alloc(view, size);
    return block;
}

/* The same for a context with pages of its own, from the current one. NULL: it has no block that
 * was in use before, or this is to be decided anew; use region_alloc_narrow. */
INLINE void *region_alloc_own(struct heap *heap, struct view *view, size_t size) {
    struct page *page = view->bins->current[bins_class_narrow(heap, size)];
    char *block = page->free;
    uint32_t bytes = page->block_bytes;
    if (UNLIKELY(!block) || UNLIKELY(size > bytes))
        return NULL;
    blocks_unlink(page, block);
    order_stores();
    add_owner(&page->used, 1);
    add_owner(&heap->own_free, -(int64_t)bytes);
    char *granule = blocks_granule_narrow(page, block);
    bool exact;
    unsigned index = blocks_index_narrow(page, granule, block, &exact);
    store_owner((uint8_t *)granule + page->records + index, (uint8_t)(bytes - size));
    view_account_alloc(view, size);
    return block;
}

/* A chunk of up to NARROW_MAX bytes from the current page. NULL: the page does not serve, or it is
 * time to ask whether the context gets pages of its own: use region_alloc. */
INLINE void *region_alloc_narrow(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    return region_take(heap, view->bins->current[bins_class_narrow(heap, size)], view, size, true,
                       fresh);
}

/* The same for up to SMALL_MAX bytes. */
void *region_alloc_wide(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* After one of these gave NULL: behind the context's last chunk, if its policy says so and there is
 * room. */
INLINE void *region_alloc_serial(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    if (!serial_is(view->bins->policy))
        return NULL;
    void *chunk = serial_alloc_quick(view, size, fresh);
    return chunk ? chunk : serial_alloc_current(heap, view, size, fresh);
}
/* The same for `simple`, where nothing but that is to be looked at. */
INLINE void *region_alloc_listed(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    size_t room = (size | !size) + sizeof(struct simple_node);
    if (LIKELY(!view->region) || view->region->policy != PLACE_SIMPLE || room > NARROW_MAX ||
        terms_exist() || region_of(view->region)->limit ||
        region_of(view->region)->looked != load_relaxed(&heap_placings))
        return NULL;
    struct page *page = view->region->current[blocks_class_of(room)];
    char *block = simple_is(page) ? region_take(heap, page, view, size, true, fresh) : NULL;
    if (LIKELY(block != NULL))
        simple_link(page, block);
    return block;
}
/* After one of these gave NULL: from another page that has free blocks. */
void *region_alloc_next(struct heap *heap, struct view *view, size_t size, bool *fresh);

/* Frees a chunk of this heap's page. Not NULL: blocks_freed_rarely has to follow, with this block.
 */
void *region_free_further(struct heap *heap, struct page *page, void *chunk);
/* Which of the two: this one is for wide pages and for those with more bits than the shift. */
INLINE bool region_is_further(const struct page *page) {
    return load_plain(&page->meta_shift) & ~META_MIXED; /* narrow, own or mixed */
}
/* False: nothing is done, because this is no chunk, or a free one; region_free_further says so. */
INLINE bool region_free_narrow(struct heap *heap, struct page *page, void *chunk, bool *rare) {
    bool exact;
    char *granule = blocks_granule_narrow(page, chunk);
    unsigned index = blocks_index_narrow(page, granule, chunk, &exact);
    if (UNLIKELY(!exact))
        return false;
    granule += page->records;
    if (!(load_plain(&page->meta_shift) & META_MIXED)) { /* no bit that others may set meanwhile */
        uint8_t *at = (uint8_t *)granule + index, slack = load_relaxed(at);
        if (UNLIKELY(slack == UINT8_MAX))
            return false;
        store_owner(at, UINT8_MAX);
        view_account_free(page->view, page->block_bytes - slack);
        *rare = blocks_free_owned(heap, page, chunk);
        return true;
    }
    uint32_t *at = (uint32_t *)(void *)granule + index, record = load_relaxed(at);
    if (UNLIKELY(!(uint8_t)record))
        return false;
    store_owner((uint8_t *)at, 0);
    view_account_free(heap_view_at(heap, record >> 8), page->block_bytes + 1 - (record & 0xff));
    *rare = blocks_free_mixed(heap, page, chunk);
    return true;
}

INLINE void region_free(struct heap *heap, void *chunk) {
    struct page *page = segment_page_of(chunk);
    if (UNLIKELY(!page || page->heap != heap)) {
        region_free_slow(heap, page, chunk);
        return;
    }
    void *block = region_free_further(heap, page, chunk);
    if (UNLIKELY(block))
        blocks_freed_rarely(heap, page, block);
}

#endif
