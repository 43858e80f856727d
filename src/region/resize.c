/* SPDX-License-Identifier: MIT */
/*
 * realloc: resizes a chunk where it is, if the kind of its page can do so (page_kinds.h). Otherwise
 * allocates a new chunk, copies the contents and frees the old chunk.
 *
 * For: chunks of all kinds. Cannot do: move chunks so that a page becomes empty; shrink a chunk
 * that has to move, when there is no memory for the new chunk (api/malloc.c then leaves the chunk
 * as it is).
 */
#include "region/page_kinds.h"
#include "region/region.h"
#include "region/resizes.h"

bool region_resize(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = segment_page_of(chunk);
    size_t had;
    if (!page || page->heap != heap ||
        !page_kind_of(page)->resize(heap, view, page, chunk, size, &had))
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
