/* SPDX-License-Identifier: MIT */
/* Contexts with policies, for the tests of src/region's policies. */
#ifndef TESTS_UNIT_POLICY_TESTS_H
#define TESTS_UNIT_POLICY_TESTS_H

#include "region_tests.h"

/* Allocates as malloc does: tries the functions of src/region in the order of api/fast.h and
 * api/malloc.c, so that tests reach each of them. */
void *alloc(struct heap *heap, struct view *view, size_t size, bool zero);
/* Frees a chunk as free does, for a thread that has entered the allocator. */
void free_like_api(struct heap *heap, void *chunk);
/* Sets the placement of a context. */
void place(uint32_t context, enum placement placement);
/* Returns the view of a context that has PLACED_CHUNKS chunks and then gets a placement. With
 * PLACED_BYTES, which is more than MEMCTX_PROMOTE_BYTES, the context has pages of its own. */
enum { PLACED_CHUNKS = 40, PLACED_BYTES = PLACED_CHUNKS * 512 };
struct view *placed(struct heap *heap, uint32_t context, enum placement placement);
/* Checks the lists of pages with free blocks: neighbours point to each other, and no page in the
 * second band of a slab list is more than half full. */
void check_lists(struct bins *bins);

#endif
