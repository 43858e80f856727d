/* SPDX-License-Identifier: MIT */
/*
 * realloc: resizes a chunk where it is, if the kind of its page can do so (page_kinds.h). Otherwise
 * allocates a new chunk, copies the contents and frees the old chunk.
 *
 * For: chunks of all kinds. Cannot do: move chunks so that a page becomes empty; shrink a chunk
 * that has to move, when there is no memory for the new chunk (api/malloc.c then leaves the chunk
 * as it is).
 */
#include "base/options.h"
#include "region/page_kinds.h"
#include "region/region.h"
#include "region/resizes.h"

/* Resizes a large chunk of the view's context that keeps its slices, or grows within its mapping.
 * False: nothing changed, and page_kind_large has to decide. */
static bool resize_large_plain(struct view *view, struct page *page, const void *chunk, size_t size,
                               size_t *had) {
    bool span = page->kind == PAGE_SPAN;
    if ((!span && page->kind != PAGE_HUGE) || page->chunk != chunk || page->view ||
        page->context != view->context || size <= SMALL_MAX ||
        UNLIKELY(load_relaxed(&heap_placed_any)) || UNLIKELY(options.check) ||
        UNLIKELY(load_acquire(&page->flags) & (PAGE_EMERGENCY | PAGE_GUARDED)))
        return false;
    *had = page->requested_bytes;
    size_t room = segment_huge_capacity(page);
    if (span)
        room = page->slices * SLICE_BYTES - (size_t)(page->chunk - segment_span_start(page));
    if (size > room || (span ? size + SLICE_BYTES <= room : size <= *had))
        return false;
    view_account_free(view, *had);
    view_account_alloc(view, size);
    page->requested_bytes = size;
    return true;
}

bool region_resize(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = segment_page_of(chunk);
    size_t had;
    if (!page && !(page = segment_huge_of(chunk)))
        return false;
    bool resized = page->heap == heap
                       ? page_kind_of(page)->resize(heap, view, page, chunk, size, &had) != NULL
                       : resize_large_plain(view, page, chunk, size, &had);
    if (!resized)
        return false;
    resizes_count(heap, view, had, size, 0);
    return true;
}

void *region_realloc(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = region_page_of(chunk);
    if (!page || size > REGION_SIZE_MAX) {
        if (!page)
            add_relaxed(&heap_global.foreign_frees, 1);
        return NULL;
    }
    size_t had, copied = 0;
    void *resized = page_kind_of(page)->resize(heap, view, page, chunk, size, &had);
    if (!resized) {
        size_t usable = region_usable(chunk); /* the program may have used all these bytes */
        had = region_requested(chunk);
        copied = usable < size ? usable : size;
        resized = region_alloc_grown(heap, view, size, usable);
        if (!resized)
            return NULL;
        region_copy(resized, chunk, copied);
        region_free(heap, chunk);
    }
    resizes_count(heap, view, had, size, copied);
    return resized;
}
