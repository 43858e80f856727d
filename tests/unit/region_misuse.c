/* SPDX-License-Identifier: MIT */
/* Tests of src/region: a free of an address that is no live chunk aborts, and pointers that the
 * library did not allocate are counted. */
#include <criterion/criterion.h>
#include <signal.h>

#include "os/meta.h"
#include "policy_tests.h"
#include "region/region.h"

Test(misuse, a_second_free_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    void *chunk = region_alloc(heap, heap_view(heap, 9), 100, false);
    cr_assert(region_alloc(heap, heap_view(heap, 9), 100, false) != NULL);
    region_free(heap, chunk);
    region_free(heap, chunk);
}

Test(misuse, a_second_free_in_a_shared_page_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    age(heap, 9, 10);
    for (int i = 0; i < YOUNG; i++)
        if (segment_page_of(young_chunks[i])->meta_shift & META_OWNERS) {
            region_free(heap, young_chunks[i]);
            region_free(heap, young_chunks[i]);
        }
}

Test(misuse, a_second_free_of_a_block_with_an_owner_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    age(heap, 9, 10);
    for (int i = 0; i < YOUNG; i++)
        if (segment_page_of(young_chunks[i])->meta_shift == META_OWNERS) {
            free_like_api(heap, young_chunks[i]);
            free_like_api(heap, young_chunks[i]);
        }
}

Test(misuse, a_second_free_of_a_large_chunk_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    void *chunk = region_alloc(heap, heap_view(heap, 9), 100000, false);
    region_free(heap, chunk);
    region_free(heap, chunk);
}

Test(misuse, a_pointer_into_a_block_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    char *chunk = region_alloc(heap, heap_view(heap, 9), 100, false);
    region_free(heap, chunk + 16);
}

/* Returns a chunk in a page of one context, whose records hold only the slack. */
static char *own_chunk(size_t size) {
    struct heap *heap = heap_new();
    options.promote_bytes = 0;
    char *chunk = region_alloc(heap, heap_view(heap, 9), size, false);
    cr_assert_eq(segment_page_of(chunk)->kind, PAGE_OWN);
    return chunk;
}

/* Frees a block beside the only chunk of an OS page. The block lies in the half of the OS page
 * that does not hold the records (region/blocks.h), so it is a block that could be handed out. */
Test(misuse, a_block_that_was_never_handed_out_aborts, .signal = SIGABRT) {
    char *chunk = own_chunk(64);
    struct page *page = segment_page_of(chunk);
    size_t number = page->records < OS_PAGE_BYTES / 2 ? 62 : 31;
    region_free(page->heap, blocks_granule(page, chunk) + number * 64);
}

/* Returns a block of an OS page of `page` in which no block was handed out yet. */
static char *untouched_block(const struct page *page, const char *chunk) {
    cr_assert_lt(page->granule_mask, OS_PAGE_BYTES);
    return blocks_granule(page, chunk) + (size_t)3 * OS_PAGE_BYTES;
}

Test(misuse, an_untouched_block_freed_by_another_thread_aborts, .signal = SIGABRT) {
    char *chunk = own_chunk(64);
    struct heap *other = heap_new();
    char *block = untouched_block(segment_page_of(chunk), chunk);
    struct page *page = segment_page_of(block);
    if (!region_free_block_by_other_thread(other, page->heap, page, block))
        region_free(other, block);
}

Test(misuse, an_untouched_block_that_is_resized_aborts, .signal = SIGABRT) {
    char *chunk = own_chunk(64);
    struct heap *heap = segment_page_of(chunk)->heap;
    region_realloc(heap, heap_view(heap, 9), untouched_block(segment_page_of(chunk), chunk), 80);
}

Test(misuse, a_pointer_to_the_records_aborts, .signal = SIGABRT) {
    char *chunk = own_chunk(64);
    struct page *page = segment_page_of(chunk);
    region_free(page->heap, blocks_granule(page, chunk) + page->records);
}

Test(misuse, a_pointer_behind_the_last_block_aborts, .signal = SIGABRT) {
    char *chunk = own_chunk(112);
    struct page *page = segment_page_of(chunk);
    size_t behind = (size_t)page->granule_capacity * 112;
    cr_assert_lt(behind, page->granule_mask);
    region_free(page->heap, blocks_granule(page, chunk) + behind);
}

Test(misuse, foreign_pointers_are_counted_and_left_alone) {
    static char foreign[64];
    struct heap *heap = heap_new();
    region_free(heap, foreign + 16);
    region_free(heap, NULL);
    cr_assert_eq(heap_global.foreign_frees, 1);
    cr_assert_eq(region_usable(foreign + 16), 0);
}
