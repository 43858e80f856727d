/* SPDX-License-Identifier: MIT */
/*
 * allocate.h - the common malloc and free, inlined into each exported function.
 *
 * Each exported function reads its frame pointer first. The return address, the caller's rbp and
 * the caller's stack pointer are at fixed offsets from it, and the lookup of the call path needs
 * nothing else. The common malloc is one TLS load and test, one compare for each frame of the
 * cached path, and taking the block.
 *
 * When a step here cannot serve the request, it tail-calls another function, so the common case
 * saves no callee-saved register. A tail call gives up the exported function's frame, but the words
 * of the frame stay valid: the called function first pushes the same rbp to the same address, below
 * the same return address (-fno-omit-frame-pointer).
 *
 * "Entered" means that the thread is inside the allocator: thread_enter marked its heap busy.
 */
#ifndef MEMCTX_ALLOCATE_H
#define MEMCTX_ALLOCATE_H

#include "api/thread.h"

#include <string.h>

#define FRAME ((uintptr_t)__builtin_frame_address(0))

enum allocate_how {
    ALLOCATE_PLAIN,
    ALLOCATE_ZEROED,
    ALLOCATE_NEW, /* never returns NULL: fails as operator new does */
};

/* Not entered; size > NARROW_MAX. */
void *allocate_bigger(size_t size, enum allocate_how how, uintptr_t frame);
/* Not entered: for large sizes, and when thread_enter failed. Returns NULL with errno set when
 * memory is short. */
void *allocate_slow(size_t size, enum allocate_how how, uintptr_t frame);
/* Entered; context_find did not find the call path's view in the cache. */
void *allocate_lookup(struct heap *heap, size_t size, enum allocate_how how, uintptr_t frame);
/* Entered, view known, size <= NARROW_MAX; the view has no freed block of this size at hand. */
void *allocate_narrow(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                      uintptr_t frame);
/* Entered, view known, size <= SMALL_MAX. */
void *allocate_wide(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                    uintptr_t frame);
/* Entered; the current page cannot serve the request. view is NULL when there was no memory for
 * one. */
void *allocate_next(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                    uintptr_t frame);
void *allocate_aligned(size_t size, size_t alignment, uintptr_t frame);
/* Entered, view known, any size. */
void *allocate_entered(struct heap *heap, struct view *view, size_t size, size_t alignment,
                       enum allocate_how how, uintptr_t frame);
/* For operator new when memory is short: calls the new-handler and tries again, or throws. */
void *new_retry(size_t size, size_t alignment, uintptr_t frame);

/* Not entered. */
void free_slow(void *chunk);
/* Entered; the chunk is in no page of this heap, or not in a segment that the common case finds. */
void free_other(struct heap *heap, void *chunk);
/* Entered; the chunk is in a page of this heap, which the common case cannot free from. */
void free_further(struct heap *heap, struct page *page, void *chunk);
/* Entered; the block is free already, but its page has more to do: see blocks_freed_rarely. */
void free_rare(struct heap *heap, struct page *page, void *block);

/* Entered, view known. `chunk` is what the current page gave; NULL: nothing. `fresh` says that the
 * chunk is zeros already. */
INLINE void *allocate_done(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                           uintptr_t frame, void *chunk, bool fresh) {
    if (UNLIKELY(!chunk))
        return allocate_next(heap, view, size, how, frame);
    thread_leave(heap);
    return how == ALLOCATE_ZEROED && !fresh ? memset(chunk, 0, size) : chunk;
}

/* Entered, view known, size <= NARROW_MAX. */
INLINE void *allocate_with(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                           uintptr_t frame) {
    void *chunk;
    /* A predicted branch: taking a block of the heap then need not wait for the cache line of the
     * view. */
    if (view->bins == &heap->mixed)
        chunk = region_alloc_recent(heap, view, size);
    else
        chunk = region_alloc_own(heap, view, size);
    if (UNLIKELY(!chunk))
        return allocate_narrow(heap, view, size, how, frame);
    return allocate_done(heap, view, size, how, frame, chunk, false);
}

INLINE void *allocate(size_t size, enum allocate_how how, uintptr_t frame) {
    struct heap *heap;
    if (UNLIKELY(size > NARROW_MAX))
        return allocate_bigger(size, how, frame);
    if (UNLIKELY(!(heap = thread_enter())))
        return allocate_slow(size, how, frame);
    struct view *view = context_find(heap, frame);
    if (UNLIKELY(!view))
        return allocate_lookup(heap, size, how, frame);
    return allocate_with(heap, view, size, how, frame);
}

INLINE void free_inline(void *chunk) {
    struct heap *heap = thread_enter();
    struct page *page;
    if (UNLIKELY(!heap)) {
        free_slow(chunk);
        return;
    }
    if (UNLIKELY(!segment_is_near(chunk))) {
        free_other(heap, chunk);
        return;
    }
    page = segment_slice_of(chunk);
    if (UNLIKELY(page->heap != heap) && (page -= page->back)->heap != heap) {
        free_other(heap, chunk);
        return;
    }
    bool rare = false;
    if (UNLIKELY(region_is_further(page)) || !region_free_narrow(heap, page, chunk, &rare)) {
        free_further(heap, page, chunk);
        return;
    }
    if (UNLIKELY(rare)) {
        free_rare(heap, page, chunk);
        return;
    }
    thread_leave(heap);
}

#endif
