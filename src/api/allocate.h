/* SPDX-License-Identifier: MIT */
/*
 * allocate.h - the common malloc and free, inlined into each exported function.
 *
 * Each entry takes its frame pointer first: the return address, the caller's rbp and its stack pointer
 * are then at fixed places, which is all that finding the call path needs. The common malloc is: one
 * TLS load and test, one compare a frame of the cached path, then the block.
 *
 * What does not serve here ends in a sibling call, so that the common case saves no register. The
 * exported function's frame is then given up, but its words stay what they are: whoever is called
 * so first pushes the same rbp to the same place (-fno-omit-frame-pointer), below the same return
 * address.
 */
#ifndef MEMCTX_ALLOCATE_H
#define MEMCTX_ALLOCATE_H

#include "api/thread.h"

#include <string.h>

#define FRAME ((uintptr_t)__builtin_frame_address(0))

enum allocate_how {
    ALLOCATE_PLAIN,
    ALLOCATE_ZEROED,
    ALLOCATE_NEW, /* never NULL: fails as operator new does */
};

/* Beyond NARROW_MAX; not entered yet. */
void *allocate_bigger(size_t size, enum allocate_how how, uintptr_t frame);
/* Not entered yet; or the large and the rare. NULL: out of memory, errno is set. */
void *allocate_slow(size_t size, enum allocate_how how, uintptr_t frame);
/* Entered, but the path's first guess was wrong. */
void *allocate_lookup(struct heap *heap, size_t size, enum allocate_how how, uintptr_t frame);
/* Entered, and the path is known; of up to NARROW_MAX bytes, but no block freed before is at hand. */
void *allocate_narrow(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                      uintptr_t frame);
/* Entered, and the path is known, of up to SMALL_MAX bytes. */
void *allocate_wide(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                    uintptr_t frame);
/* Entered, but the current page does not serve; view NULL: none could be had. */
void *allocate_next(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                    uintptr_t frame);
void *allocate_aligned(size_t size, size_t alignment, uintptr_t frame);
/* Entered, and who pays is known; of any size. */
void *allocate_entered(struct heap *heap, struct view *view, size_t size, size_t alignment,
                       enum allocate_how how, uintptr_t frame);
/* Out of memory in operator new. */
void *new_retry(size_t size, size_t alignment, uintptr_t frame);

void free_slow(void *chunk);                     /* not entered */
void free_other(struct heap *heap, void *chunk); /* entered, these three */
void free_further(struct heap *heap, struct page *page, void *chunk);
void free_rare(struct heap *heap, struct page *page, void *block);

/* Entered, the path is known, and so is what the current page gave; NULL: nothing. */
INLINE void *allocate_done(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                           uintptr_t frame, void *chunk, bool fresh) {
    if (UNLIKELY(!chunk))
        return allocate_next(heap, view, size, how, frame);
    thread_leave(heap);
    return how == ALLOCATE_ZEROED && !fresh ? memset(chunk, 0, size) : chunk;
}

/* Entered, and the path is known; of up to NARROW_MAX bytes. */
INLINE void *allocate_with(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                           uintptr_t frame) {
    void *chunk;
    /* A branch, which is predicted, so that a block of the heap's need not wait for the view's line. */
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
