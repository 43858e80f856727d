/* SPDX-License-Identifier: MIT */
/*
 * tiny.h - the first chunks of named contexts that hold next to nothing.
 *
 * For: very many contexts with a few chunks each, as an aggregate has them by group. Pages of its
 * own would cost each a KiB of tables and an OS page for each class of sizes. So the first chunks
 * of a named context stand in the pages that the thread's contexts of PLACE_APART share, and the
 * context has a list of them, for its reset. When it is no tiny one any more it gets a region; what
 * is in the list stays where it is until it is freed. A program with few contexts can afford their
 * regions, which are faster, and has two places in each list; one with many has eighteen. Cannot
 * do: serve contexts with a policy, terms, a limit or checks; they have a region from the start.
 *
 * Cost: 32 bytes a context, 128 more for the third chunk. Such an allocation goes the slow way, a
 * free looks through the list.
 *
 * Source: what PostgreSQL's array_agg cost with a first block of 1 KiB for each of a million
 * groups.
 *
 * Threads: allocated, reset and moved by the context's owner; freed by any, who strikes the chunk
 * off the list before its block is anybody's again. The pages stay those of the heap that
 * allocated, also when the context is handed over.
 */
#ifndef MEMCTX_TINY_H
#define MEMCTX_TINY_H

#include "region/blocks.h"

#define TINY_FIRST 2U
#define TINY_MORE 16U
#define TINY_MAX NARROW_MAX
#define TINY_BYTES 8192U /* in one context */
#define TINY_MANY 1024U  /* contexts; from here on: */
#define TINY_ALLOCS 32U  /* in a context's life; of many: */
#define TINY_ALLOCS_OF_MANY 1000U

struct tiny {
    uint64_t chunks[TINY_FIRST]; /* atomic: address, above it the requested bytes; 0: none */
    uint64_t *more;              /* atomic: TINY_MORE further ones, for good; NULL: none yet */
    uint32_t owner;              /* atomic: number of the heap whose context it is */
    uint16_t allocs;             /* owner: since it was made */
    bool named;                  /* it is or was a named context, for good */
};
_Static_assert(sizeof(struct tiny) == 32, "as the header says");

INTERNAL void *tiny_leaves[PLACED_LEAVES]; /* atomic: struct tiny by context, as heap_placed */

INLINE struct tiny *tiny_of(uint32_t context) { /* NULL: it never was one */
    if (context / PLACED_PER_LEAF >= PLACED_LEAVES)
        return NULL;
    struct tiny *leaf = (struct tiny *)load_acquire(&tiny_leaves[context / PLACED_PER_LEAF]);
    struct tiny *tiny = leaf ? &leaf[context % PLACED_PER_LEAF] : NULL;
    return tiny && load_relaxed(&tiny->named) ? tiny : NULL;
}

/* A new named context, which has no chunks. False: out of memory. */
bool tiny_begin(uint32_t context, const struct heap *heap);
/* It belongs to that heap from now on. */
void tiny_move(uint32_t context, const struct heap *to);
/* A chunk in shared pages. NULL: it is to stand in a region, or there is no memory. */
void *tiny_alloc(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* A chunk of up to TINY_MAX bytes in those pages, in no list. NULL: out of memory, or the context's
 * chunks are to stand elsewhere. */
void *tiny_take(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* A chunk that stands there already is the first of a new context. */
void tiny_adopt(uint32_t context, const void *chunk, size_t size);
/* A chunk of the context in a page with META_APART is freed, or resized where it stands. */
void tiny_freed(uint32_t context, const void *chunk);
void tiny_resized(uint32_t context, const void *chunk, size_t size);

struct tiny_sum {
    uint64_t chunks, bytes; /* requested */
    uint64_t block_bytes;
};
struct tiny_sum tiny_sum(uint32_t context);
INLINE bool tiny_any(uint32_t context) { /* false: there is none */
    const struct tiny *tiny = tiny_of(context);
    return tiny && (load_relaxed(&tiny->chunks[0]) || load_relaxed(&tiny->chunks[1]) ||
                    load_relaxed(&tiny->more));
}
/* Frees all that is in the list. */
void tiny_reset(struct heap *heap, uint32_t context);
/* Whether the lists of free blocks hold together in those pages that are the heap's, and in those
 * that chunks would come from next. */
bool tiny_check(const struct heap *heap, uint32_t context);

#endif
