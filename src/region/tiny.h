/* SPDX-License-Identifier: MIT */
/*
 * tiny.h - the first chunks of named contexts that hold next to nothing.
 *
 * For: very many contexts with a few chunks each, such as an aggregate with a context for each
 * group. Pages of its own would cost each context a KiB of tables, and an OS page for each size
 * class. So the first chunks of a named context stand in the pages that the thread's contexts of
 * PLACE_APART share, and the context has a list of these chunks for its reset. A context that
 * outgrows the list gets a region; chunks in the list stay where they are until they are freed. A
 * program with few contexts can afford their regions, which are faster, and has two places in each
 * list; a program with many contexts has eighteen. Cannot do: serve contexts with a policy, terms,
 * a limit or checks; these have a region from the start.
 *
 * Cost: 32 bytes a context, and 128 more for the third chunk. An allocation takes the slow path,
 * and a free searches the list.
 *
 * Source: the cost of PostgreSQL's array_agg with a first block of 1 KiB for each of a million
 * groups.
 *
 * Threads: the context's owner allocates, resets and moves. Any thread may free, and strikes the
 * chunk off the list before its block can be used again. The pages stay with the heap that
 * allocated them, also when the context is handed over.
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

/* Makes a new named context without chunks. False: out of memory. */
bool tiny_begin(uint32_t context, const struct heap *heap);
/* Makes the context belong to the heap `to`. */
void tiny_move(uint32_t context, const struct heap *to);
/* Allocates a chunk in shared pages. NULL: the chunk has to stand in a region, or there is no
 * memory. */
void *tiny_alloc(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* Allocates a chunk of up to TINY_MAX bytes in the shared pages without listing it. NULL: out of
 * memory, or the context's chunks have to stand elsewhere. */
void *tiny_take(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* Makes an existing chunk of the shared pages the first chunk of a new context. */
void tiny_adopt(uint32_t context, const void *chunk, size_t size);
/* Update the context's list after a chunk in a page with META_APART was freed, or resized in
 * place. */
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
/* Frees all chunks in the context's list. */
void tiny_reset(struct heap *heap, uint32_t context);
/* Checks the lists of free blocks: in the heap's pages that hold the context's chunks, and in
 * the pages that the next chunks would come from. False: a list is damaged. */
bool tiny_check(const struct heap *heap, uint32_t context);

#endif
