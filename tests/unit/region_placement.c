/* SPDX-License-Identifier: MIT */
/* Tests of src/region: contexts that are placed in pages of their own or among others. */
#include <criterion/criterion.h>

#include "os/meta.h"
#include "region/punch.h"
#include "region/region.h"
#include "region_tests.h"

Test(place, contexts_apart_share_no_page_with_others) {
    enum { CHUNKS = 500 };
    static char *chunks[4][CHUNKS];
    struct heap *heap = heap_new();
    heap_set_placement(7, PLACE_APART);
    heap_set_placement(8, PLACE_APART);
    heaps_reconsider();
    for (int i = 0; i < CHUNKS; i++)
        for (uint32_t c = 0; c < 4; c++) {
            chunks[c][i] =
                region_alloc(heap, heap_view(heap, 7 + c), 16 + (size_t)(i % 8) * 3, false);
            /* a freed block is used again only by contexts of the same placement */
            if (i % 3 == 0) {
                region_free(heap, chunks[c][i]);
                chunks[c][i] = region_alloc(heap, heap_view(heap, 7 + c), 24, false);
            }
        }
    for (int i = 0; i < CHUNKS; i++)
        for (uint32_t c = 0; c < 4; c++) {
            struct page *page = page_at(chunks[c][i]);
            bool apart = page->kind == PAGE_MIXED && page->meta_shift & META_APART;
            cr_assert_eq(apart, c < 2, "chunk %d of context %u", i, 7 + c);
        }
    for (int i = 0; i < CHUNKS; i++)
        for (uint32_t c = 0; c < 4; c++)
            region_free(heap, chunks[c][i]);
    bins_release_empty(heap, &heap->apart->bins);
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        cr_assert(!heap->apart->bins.partial[i]);
}

Test(place, apart_means_own_pages_past_the_cap_too) {
    options.waste_kib = 0;
    struct heap *heap = heap_new();
    heap_set_placement(7, PLACE_APART);
    for (int i = 0; i < 3000; i++)
        region_alloc(heap, heap_view(heap, 7), 64, false);
    heap->own_free += 1L << 30; /* the waste is now far above its cap */
    heap_publish_waste(heap);
    struct page *last = NULL;
    for (int i = 0; i < 3000; i++)
        last = page_at(region_alloc(heap, heap_view(heap, 7), 64, false));
    cr_assert_eq(last->kind, PAGE_OWN);
    heap_set_placement(7, PLACE_SHARED);
    heaps_reconsider();
    for (int i = 0; i < 3000; i++)
        last = page_at(region_alloc(heap, heap_view(heap, 7), 64, false));
    cr_assert_eq(last->kind, PAGE_MIXED);
    cr_assert_eq(last->meta_shift & META_APART, 0);
}

Test(place, what_is_free_in_merged_pages_serves_others) {
    enum { CHUNKS = 4000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(heap, heap_view(heap, 7), 64, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 10)
            region_free(heap, chunks[i]);
    heap_set_placement(7, PLACE_SHARED);
    int64_t used = segment_used_bytes();
    for (int i = 0; i < CHUNKS / 2; i++)
        region_alloc(heap, heap_view(heap, 1000 + (uint32_t)i % 50), 64, false);
    cr_assert_leq(segment_used_bytes(), used + (int64_t)(4 * SLICE_BYTES));
    cr_assert_eq(page_at(chunks[0])->kind, PAGE_MIXED);
}

Test(place, nothing_moves_in_or_out_by_realloc) {
    struct heap *heap = heap_new();
    heap_set_placement(7, PLACE_APART);
    char *apart = region_alloc(heap, heap_view(heap, 7), 100, false);
    char *other = region_alloc(heap, heap_view(heap, 8), 100, false);
    cr_assert_not(region_resize(heap, heap_view(heap, 8), apart, 104));
    cr_assert_not(region_resize(heap, heap_view(heap, 7), other, 104));
    cr_assert(region_resize(heap, heap_view(heap, 7), apart, 104));
    cr_assert(region_resize(heap, heap_view(heap, 8), other, 104));
}

Test(place, a_forked_child_owes_no_trim) {
    struct heap *heap = heap_new();
    trim_number += 3;
    heap_fork_child(heap);
    cr_assert_eq(heap->trims, trim_number);
}
