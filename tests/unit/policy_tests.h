/* SPDX-License-Identifier: MIT */
/* Contexts with policies, for the tests of src/region's policies. */
#ifndef TESTS_UNIT_POLICY_TESTS_H
#define TESTS_UNIT_POLICY_TESTS_H

#include "region_tests.h"

/* Allocates as malloc does: tries the fast functions first and the slow ones after them. */
void *alloc(struct heap *heap, struct view *view, size_t size, bool zero);
/* Frees a chunk as free does, for a thread that has entered the allocator. */
void free_like_api(struct heap *heap, void *chunk);
/* Sets the placement of a context. */
void place(uint32_t context, enum placement placement);
/* Returns the view of a context that has MEMCTX_PROMOTE_BYTES alive and then gets a placement. */
struct view *placed(struct heap *heap, uint32_t context, enum placement placement);
/* Checks the lists of pages with free blocks: neighbours point to each other, and no page in the
 * second band of a slab list is more than half full. */
void check_lists(struct bins *bins);

#endif
