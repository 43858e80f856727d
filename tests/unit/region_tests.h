/* SPDX-License-Identifier: MIT */
/* Functions that the tests of src/region share: a heap of this thread, the page of a chunk, aged
 * contexts. */
#ifndef TESTS_UNIT_REGION_TESTS_H
#define TESTS_UNIT_REGION_TESTS_H

#include "region/region.h"

/* Returns a new heap that this thread owns. */
struct heap *heap_new(void);

/* Returns the page of a chunk; fails if the chunk has none. */
struct page *page_at(const void *chunk);

/*
 * age() leaves a few chunks of the context `old` in each of its pages, then allocates in the
 * context `young`. When the waste is above its cap, the young chunks must use the free blocks
 * between the old ones, in pages of small and of large blocks. check_and_free() checks the content
 * of every step-th chunk of both and frees it.
 */
enum { OLD = 60000, YOUNG = 55000 };
extern char *old_chunks[OLD], *young_chunks[YOUNG];
size_t mixed_up_size(int i); /* returns the size of the i-th chunk of both contexts */
void age(struct heap *heap, uint32_t old, uint32_t young);
void check_and_free(struct heap *heap, int first, int step);

#endif
