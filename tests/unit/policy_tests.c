/* SPDX-License-Identifier: MIT */
/* Functions that the tests of policies share; see policy_tests.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/fast.h"
#include "policy_tests.h"

void *alloc(struct heap *heap, struct view *view, size_t size, bool zero) {
    void *chunk = NULL;
    bool fresh = false;
    if (options.check)
        return region_alloc(heap, view, size, zero);
    if (size <= NARROW_MAX) {
        chunk = view->bins == &heap->mixed ? take_block_of_mixed_page(heap, view, size)
                                           : take_block_of_own_page(heap, view, size);
        if (!chunk && view->bins == &heap->mixed)
            chunk = take_block_with_owner(heap, view, size);
        if (!chunk)
            chunk = region_alloc_narrow(heap, view, size, &fresh);
    } else if (size <= SMALL_MAX) {
        chunk = region_alloc_wide(heap, view, size, &fresh);
    }
    if (!chunk && size <= SMALL_MAX)
        chunk = region_alloc_serial(heap, view, size, &fresh);
    if (!chunk && size <= SMALL_MAX)
        chunk = region_alloc_listed(heap, view, size, &fresh);
    if (!chunk)
        chunk = region_alloc_next_page(heap, view, size, &fresh);
    if (!chunk)
        return region_alloc(heap, view, size, zero);
    return zero && !fresh ? memset(chunk, 0, size) : chunk;
}

void free_like_api(struct heap *heap, void *chunk) {
    struct page *page = segment_page_of(chunk);
    if (page->heap == heap && page->meta_shift & ~META_MIXED)
        free_by_page_kind(heap, page, chunk);
    else
        region_free(heap, chunk);
}

void place(uint32_t context, enum placement placement) {
    cr_assert(heap_set_placement(context, placement));
    heaps_reconsider();
}

struct view *placed(struct heap *heap, uint32_t context, enum placement placement) {
    struct view *view = heap_view(heap, context);
    for (int i = 0; i < PLACED_CHUNKS; i++)
        alloc(heap, view, PLACED_BYTES / PLACED_CHUNKS, false);
    place(context, placement);
    return view;
}

void check_lists(struct bins *bins) {
    for (unsigned size_class = 0; size_class < SIZE_CLASSES; size_class++) {
        struct page *first = bins->partial[size_class], *last = NULL, *emptier = NULL;
        if (first && bins_second_band(bins, first))
            emptier = *bins_second_band(bins, first);
        bool second = false;
        for (struct page *page = first; page; last = page, page = page->next) {
            cr_assert(page == first || page->prev == last);
            cr_assert(page->flags & PAGE_LISTED);
            cr_assert_eq(page->size_class, size_class);
            second |= page == emptier;
            cr_assert(!second || page->used <= page->capacity / 2, "%u of %u in the second band",
                      page->used, page->capacity);
        }
        cr_assert(!first || first->prev == last);
        cr_assert(second || !emptier, "the second band starts in another list");
    }
}
