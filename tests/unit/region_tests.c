/* SPDX-License-Identifier: MIT */
/* Functions that the tests of src/region share; see region_tests.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "region_tests.h"

struct heap *heap_new(void) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    cr_assert(heap != NULL);
    return heap;
}

struct page *page_at(const void *chunk) {
    struct page *page = segment_page_of(chunk);
    cr_assert(page != NULL);
    return page;
}

char *old_chunks[OLD], *young_chunks[YOUNG];

size_t mixed_up_size(int i) {
    return i % 16 ? 180 + (size_t)(i % 5) : 2800 + (size_t)(i % 7);
}

void age(struct heap *heap, uint32_t old, uint32_t young) {
    /* so that the old context's view is not number 1 */
    cr_assert(heap_view(heap, old + 100) != NULL);
    struct view *first = heap_view(heap, old), *second = heap_view(heap, young);
    for (int i = 0; i < OLD; i++) {
        old_chunks[i] = region_alloc(heap, first, mixed_up_size(i), false);
        memset(old_chunks[i], i, mixed_up_size(i));
    }
    for (int i = 0; i < OLD; i++)
        if (i % 33) {
            region_free(heap, old_chunks[i]);
            old_chunks[i] = NULL;
        }
    for (int i = 0; i < YOUNG; i++) {
        young_chunks[i] = region_alloc(heap, second, mixed_up_size(i), i % 2);
        for (size_t k = 0; i % 2 && k < mixed_up_size(i); k++)
            cr_assert_eq(young_chunks[i][k], 0);
        memset(young_chunks[i], i + 1, mixed_up_size(i));
    }
}

void check_and_free(struct heap *heap, int first, int step) {
    for (int i = first; i < OLD; i += step) {
        char *chunks[] = {old_chunks[i], i < YOUNG ? young_chunks[i] : NULL};
        for (int k = 0; k < 2; k++) {
            if (!chunks[k])
                continue;
            size_t size = mixed_up_size(i);
            cr_assert_eq(chunks[k][0], (char)(i + k));
            cr_assert_eq(chunks[k][size - 1], (char)(i + k));
            cr_assert_geq(region_usable(chunks[k]), size);
            region_free(heap, chunks[k]);
        }
    }
}
