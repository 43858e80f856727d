/* SPDX-License-Identifier: MIT */
/*
 * realloc, as glibc and POSIX define it.
 *
 * Most chunks that programs resize are in blocks of the thread's own heap. resize_at_hand resizes
 * such a chunk in its block, or moves it to another block. It takes and frees blocks as the common
 * malloc and free do (fast.h). region_resize (region/resize.c) resizes chunks of other kinds where
 * they are. In all other cases realloc passes the request on (malloc.c), also if the heap has no
 * free block at hand.
 * Source: realloc(3).
 */
#include "api/fast.h"
#include "control/control.h"
#include "named/named.h"
#include "region/aset.h"
#include "region/resizes.h"

#include <stdlib.h>
#include <string.h>

#include "api/names.h"

/* A chunk that this thread's heap may resize. It starts at the start of its block. */
struct resized {
    struct page *page;
    void *record;
    struct view *payer; /* the view that pays for the chunk until now */
    size_t had;         /* requested bytes until now */
};

/* Reads the record of a chunk. False: the chunk is not in a page of blocks of this heap, the page
 * has a META_ flag (except META_MIXED and META_WIDE), or no chunk in use starts at the pointer. */
INLINE bool find_chunk(struct heap *heap, const void *chunk, struct resized *found) {
    bool exact;
    if (UNLIKELY(!segment_is_near(chunk)))
        return false;
    struct page *page = segment_slice_of(chunk);
    /* Only the header of a page's first slice has the heap; `heap` is NULL in the others. */
    if (UNLIKELY(page->heap != heap) && (page -= page->back)->heap != heap)
        return false;
    unsigned meta = load_plain(&page->meta_shift);
    char *granule = blocks_granule(page, chunk);
    unsigned index = blocks_index(page, granule, chunk, &exact);
    if (UNLIKELY(meta & ~META_SHIFT) || UNLIKELY(!exact) ||
        UNLIKELY(!blocks_was_handed_out(page, chunk)))
        return false;
    found->page = page;
    found->record = granule + page->records + ((size_t)index << meta);
    if (LIKELY(meta == META_MIXED)) {
        uint32_t record = load_relaxed((uint32_t *)found->record);
        found->payer = heap_view_at(heap, record >> 8);
        found->had = page->block_bytes + 1 - (uint8_t)record;
        return LIKELY((uint8_t)record);
    }
    if (LIKELY(!meta)) {
        uint8_t slack = load_relaxed((uint8_t *)found->record);
        found->payer = page->view;
        found->had = page->block_bytes - slack;
        return LIKELY(slack != UINT8_MAX);
    }
    /* The page is wide. */
    if (UNLIKELY(index >= page->granule_capacity))
        return false;
    struct record record = record_read(page, found->record);
    found->payer = meta & META_MIXED ? heap_view_at(heap, record.view_index) : page->view;
    found->had = page->block_bytes - record.slack;
    return LIKELY(record.slack != RECORD_FREE);
}

/* Resizes a chunk in its block. False: chunks of `view` may not be in this page. */
INLINE bool stay(struct heap *heap, struct view *view, const struct resized *chunk, size_t size) {
    const struct page *page = chunk->page;
    unsigned meta = load_plain(&page->meta_shift);
    uint32_t slack = page->block_bytes - (uint32_t)size;
    if (UNLIKELY(meta & META_MIXED ? view->bins != &heap->mixed : page->view != view))
        return false;
    if (meta == META_MIXED)
        store_owner((uint32_t *)chunk->record, view->index << 8 | (slack + 1));
    else
        record_write(page, chunk->record, view->index, slack);
    view_account_free(chunk->payer, chunk->had);
    view_account_alloc(view, size);
    resizes_count(heap, view, chunk->had, size, 0);
    return true;
}

/* Takes a block of at least `room` bytes that the heap has at hand. NULL: there is none. */
INLINE void *take_block(struct heap *heap, struct view *view, size_t size, size_t room) {
    void *block = NULL;
    bool fresh;
    if (room > NARROW_MAX || room != size) {
        bool narrow = room <= NARROW_MAX;
        struct page *page = view->bins->current[bins_class_of(heap, room)];
        if (room != size && (view->bins->recipe || !aset_slack_fits(page->block_bytes, size)))
            return NULL;
        return region_take(heap, page, view, size, narrow, &fresh);
    }
    if (view->bins != &heap->mixed)
        block = take_block_of_own_page(heap, view, size);
    else if (!(block = take_block_of_mixed_page(heap, view, size)))
        block = take_block_with_owner(heap, view, size);
    return block ? block : region_alloc_narrow(heap, view, size, &fresh);
}

/* Moves a chunk to another block, and leaves the allocator. NULL: nothing changed. */
static void *move(struct heap *heap, struct view *view, const struct resized *chunk, void *old,
                  size_t size) {
    struct page *page = chunk->page;
    uint32_t usable = page->block_bytes; /* the program may have used all these bytes */
    size_t copied = usable < size ? usable : size;
    bool changes = false;
    if (UNLIKELY(load_relaxed(&control_waiting))) /* resize_entered may start the control thread */
        return NULL;
    void *moved = take_block(heap, view, size, aset_grown_room(usable, size));
    if (UNLIKELY(!moved))
        return NULL;
    memcpy(moved, old, copied);
    resizes_count(heap, view, chunk->had, size, copied);
    if (load_plain(&page->meta_shift) & META_WIDE || !free_block(heap, page, old, &changes)) {
        free_by_page_kind(heap, page, old);
        return moved;
    }
    if (UNLIKELY(changes))
        page_after_free(heap, page, old);
    thread_leave(heap);
    return moved;
}

/* Resizes a chunk in its block, or moves it to another block, as far as no limit, no check and no
 * search for memory is needed. The thread has entered, and `view` pays. Returns the chunk, and
 * leaves the allocator. NULL: nothing changed. */
INLINE void *resize_at_hand(struct heap *heap, struct view *view, void *old, size_t size) {
    struct resized chunk;
    if (UNLIKELY(limits_exist()) || UNLIKELY(options.check) ||
        UNLIKELY(!find_chunk(heap, old, &chunk)))
        return NULL;
    if (size > chunk.page->block_bytes || !aset_may_stay(heap, chunk.page, size))
        return move(heap, view, &chunk, old, size);
    if (UNLIKELY(!stay(heap, view, &chunk, size)))
        return NULL;
    thread_leave(heap);
    return old;
}

EXPORT void *realloc(void *old, size_t size) {
    uintptr_t frame = FRAME;
    struct heap *heap;
    if (!old)
        return allocate(size, ALLOCATE_PLAIN, frame);
    if (!size) {               /* like glibc: frees the chunk, and does not change errno */
        free_not_entered(old); /* not free(): that may be the program's own function */
        return NULL;
    }
    if (UNLIKELY(size > REGION_SIZE_MAX) || UNLIKELY(!(heap = thread_enter())))
        return resize_not_entered(old, size, frame);
    struct view *view = NULL;
    if (UNLIKELY(load_relaxed(&region_named_any)))
        view = context_view_kept(heap, old);
    if (!view)
        view = view_of_path(heap, frame, size);
    if (UNLIKELY(!view))
        return resize_entered(heap, view, old, size, frame);
    void *chunk = LIKELY(size <= SMALL_MAX) ? resize_at_hand(heap, view, old, size) : NULL;
    if (LIKELY(chunk != NULL))
        return chunk;
    /* region_resize asks for no limit. If a context has a limit, its view has heap_no_bins. */
    if ((limits_exist() && view->bins == &heap_no_bins) || !region_resize(heap, view, old, size))
        return resize_entered(heap, view, old, size, frame);
    thread_leave(heap);
    return old;
}

#ifndef MEMCTX_UNIT
EXPORT void *__libc_realloc(void *old, size_t size) ALIAS(realloc);
#endif
