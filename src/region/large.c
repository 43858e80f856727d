/* SPDX-License-Identifier: MIT */
/*
 * Large chunks: a run of slices up to 1 MiB, a mapping of its own beyond that.
 *
 * For: buffers. The page header names the chunk's owner, so any thread can free the chunk without
 * asking the thread that allocated it. Cannot do: share an OS page with another chunk.
 */
#include "region/check.h"
#include "region/named.h"

void *region_alloc_large(struct heap *heap, struct view *view, size_t size, size_t alignment,
                         bool zero) {
    struct page *page;
    size_t padding = alignment > SLICE_BYTES ? alignment - SLICE_BYTES : 0;
    size_t tail = check_tail_bytes();
    if (size > REGION_SIZE_MAX || alignment > REGION_SIZE_MAX / 2)
        return NULL;
    if (UNLIKELY(region_is_tiny(view)) && !region_make_whole(heap, view))
        return NULL;
    if (load_relaxed(&heap->remote_pages))
        bins_collect_remote(heap);
    if (size + tail + padding <= (size_t)MAX_SPAN_SLICES * SLICE_BYTES) {
        size_t bytes = (size ? size : 1) + tail + padding;
        page = segment_span_alloc((uint32_t)((bytes + SLICE_BYTES - 1) >> SLICE_SHIFT));
        if (!page)
            return NULL;
        page->chunk = (char *)align_up((uintptr_t)segment_span_start(page), alignment);
        store_release(&page->kind, PAGE_SPAN);
    } else {
        page = segment_huge_alloc(size + tail, alignment);
        if (!page)
            return NULL;
    }
    page->requested_bytes = size;
    page->context = view->context;
    view_account_alloc(view, size);
    if (UNLIKELY(region_is_named(view)))
        region_named_large(view, page);
    if (UNLIKELY(tail)) {
        page->meta_shift = META_CHECKED;
        check_seal(page->chunk, size, page->chunk + size + tail);
    }
    if (zero && !page->fresh)
        __builtin_memset(page->chunk, 0, size);
    return page->chunk;
}
