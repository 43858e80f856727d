/* SPDX-License-Identifier: MIT */
/*
 * realloc: resizes a chunk where it is if the kind of its page can (page_kinds.h). Otherwise
 * allocates a new chunk, copies the contents and frees the old chunk.
 *
 * For: chunks of all kinds. Cannot do: move a chunk to leave a page empty.
 */
#include "region/page_kinds.h"
#include "region/region.h"

bool region_resize(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = segment_page_of(chunk);
    return page && page->heap == heap && page_kind_of(page)->resize(heap, view, page, chunk, size);
}

void *region_realloc(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = region_page_of(chunk);
    if (!page || size > REGION_SIZE_MAX) {
        if (!page)
            add_relaxed(&heap_global.foreign_frees, 1);
        return NULL;
    }
    void *resized = page_kind_of(page)->resize(heap, view, page, chunk, size);
    if (resized)
        return resized;
    size_t keep = region_usable(chunk); /* the program may have used all these bytes */
    void *moved = region_alloc_grown(heap, view, size, keep);
    if (!moved)
        return NULL;
    __builtin_memcpy(moved, chunk, keep < size ? keep : size);
    region_free(heap, chunk);
    return moved;
}
