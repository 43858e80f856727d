/* SPDX-License-Identifier: MIT */
/*
 * realloc: resizes a chunk where it is if the kind of its page can (page_kinds.h). Otherwise
 * allocates a new chunk, copies the contents and frees the old chunk.
 *
 * For: chunks of all kinds. Cannot do: move a chunk to leave a page empty.
 */
#include "region/page_kinds.h"
#include "region/region.h"
#include "region/resizes.h"

/* Resizes the chunk where it is, if possible, and counts that. NULL: nothing changed. */
static void *resize_here(struct heap *heap, struct view *view, struct page *page, void *chunk,
                         size_t size, size_t *had) {
    const struct page_kind *kind = page_kind_of(page);
    *had = kind->requested(page, chunk);
    void *resized = kind->resize(heap, view, page, chunk, size);
    if (resized)
        resizes_count(heap, view, *had, size, 0);
    return resized;
}

bool region_resize(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = segment_page_of(chunk);
    size_t had;
    return page && page->heap == heap && resize_here(heap, view, page, chunk, size, &had);
}

void *region_realloc(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = region_page_of(chunk);
    if (!page || size > REGION_SIZE_MAX) {
        if (!page)
            add_relaxed(&heap_global.foreign_frees, 1);
        return NULL;
    }
    size_t had;
    void *resized = resize_here(heap, view, page, chunk, size, &had);
    if (resized)
        return resized;
    size_t usable = region_usable(chunk); /* the program may have used all these bytes */
    size_t keep = usable < size ? usable : size;
    void *moved = region_alloc_grown(heap, view, size, usable);
    if (!moved)
        return NULL;
    __builtin_memcpy(moved, chunk, keep);
    region_free(heap, chunk);
    resizes_count(heap, view, had, size, keep);
    return moved;
}
