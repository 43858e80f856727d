/* SPDX-License-Identifier: MIT */
/*
 * slots.h - heaps, and chunks in slots, for the scenarios.
 *
 * Every chunk has a stamp while it is alive; a chunk that is handed out twice loses its stamp. At
 * the end all chunks are freed: each context has as many frees as allocations, and no slice is in
 * use.
 */
#ifndef MEMCTX_MODEL_SLOTS_H
#define MEMCTX_MODEL_SLOTS_H

#include "explore.h"

#include "region/heap.h"

enum { BLOCK = 8000, IN_PAGE = 7, CONTEXTS = 2, CHUNKS = 16 }; /* 7 blocks of 8 KiB in a page */

extern struct heap *heaps[MODEL_THREADS_MAX];
extern uint32_t contexts[CONTEXTS];
extern void *chunks[CHUNKS];
extern size_t sizes[CHUNKS];
extern int64_t used_before;          /* segment_used_bytes when the heaps were made */
extern uint64_t allocated[CONTEXTS]; /* number of chunks ever allocated in each context */

/* Makes a heap for each of the first `count` threads. */
void new_heaps(unsigned count);
void three_heaps(void);
/* Allocates three chunks in one page of the first heap. */
void three_chunks(void);
/* set: gives the chunk in the slot its stamp. Checks that the chunk has its stamp. */
void stamp(unsigned slot, bool set);
/* Allocates a chunk into the slot. `context` is an index of contexts[]. */
void take_sized(struct heap *heap, unsigned slot, unsigned context, size_t size);
/* Allocates a chunk of BLOCK bytes in contexts[0]. */
void take(struct heap *heap, unsigned slot);
/* Frees the chunk in the slot. */
void give(struct heap *heap, unsigned slot);
/* Frees the chunk in the slot if there is one. Only one thread frees each slot. */
void give_if_there(struct heap *heap, unsigned slot);
/* Checks that each context has as many frees as allocations; no thread may allocate or free
 * meanwhile. */
void check_books(void);
/* Frees the remaining chunks and parks all heaps; no page may be left. */
void check_all_gone(void);

#endif
