/* SPDX-License-Identifier: MIT */
/*
 * tiny.h - the first chunks of named contexts that have a few small chunks.
 *
 * For: very many contexts with a few chunks each, such as an aggregate with a context for each
 * group. Pages of its own would cost each context a KiB of tables, and an OS page for each size
 * class. So the first chunks of a named context stand in the pages that the thread's contexts of
 * PLACE_APART share, and the context has a list of these chunks, for its reset. Such a context is
 * called *tiny*. A context that outgrows the list gets a region; chunks in the list stay where they
 * are until they are freed. The list has two entries. In a program with at least TINY_MANY contexts
 * a list gets sixteen more entries when it needs a third one: a region for each of so many contexts
 * would take too much memory, although regions are faster. Cannot do: serve contexts with a policy,
 * terms, a limit or checks; these have a region from the start.
 *
 * Cost: 32 bytes a context, and 128 more for the third chunk in a program with TINY_MANY contexts.
 * region_alloc serves each allocation, and a free searches the list.
 *
 * Source: the cost of PostgreSQL's array_agg with a first block of 1 KiB for each of a million
 * groups.
 *
 * Threads: the context's owner allocates, resets and moves. Any thread may free a chunk, and
 * removes the chunk from the list before its block can be used again. When a context is handed over
 * to another thread, the pages stay with the heap that allocated them.
 */
#ifndef MEMCTX_TINY_H
#define MEMCTX_TINY_H

#include "region/blocks.h"

#define TINY_FIRST 2U       /* entries that each list has */
#define TINY_MORE 16U       /* further entries, in a program with at least TINY_MANY contexts */
#define TINY_MAX NARROW_MAX /* greatest size of a chunk in a list */
#define TINY_BYTES 8192U    /* greatest sum of the sizes in a list */
/* number of contexts with a list from which on lists have TINY_MORE further entries */
#define TINY_MANY 1024U
/* Number of allocations after which a context gets a region: TINY_ALLOCS, or TINY_ALLOCS_OF_MANY in
 * a program with at least TINY_MANY contexts. */
#define TINY_ALLOCS 32U
#define TINY_ALLOCS_OF_MANY 1000U

struct tiny {
    /* atomic: the list. An entry is a chunk's address in the low 48 bits and its requested bytes in
     * the high 16 bits; 0: the entry is free */
    uint64_t chunks[TINY_FIRST];
    uint64_t *more;  /* atomic: TINY_MORE further entries, never freed; NULL: not made yet */
    uint32_t owner;  /* atomic: number of the owner's heap */
    uint16_t allocs; /* owner: allocations since the context was created */
    bool named;      /* the context is or was a named one; never becomes false again */
};
_Static_assert(sizeof(struct tiny) == 32, "as the header says");

INTERNAL void *tiny_leaves[PLACED_LEAVES]; /* atomic: leaves of struct tiny, see heap_placed */

/* Returns the struct of a named context. NULL: the context never was a named one with a list. */
INLINE struct tiny *tiny_of(uint32_t context) {
    if (context / PLACED_PER_LEAF >= PLACED_LEAVES)
        return NULL;
    struct tiny *leaf = (struct tiny *)load_acquire(&tiny_leaves[context / PLACED_PER_LEAF]);
    struct tiny *tiny = leaf ? &leaf[context % PLACED_PER_LEAF] : NULL;
    return tiny && load_relaxed(&tiny->named) ? tiny : NULL;
}

/* Gives a new named context an empty list. False: out of memory. */
bool tiny_begin(uint32_t context, const struct heap *heap);
/* Notes that the context belongs to the heap `to` from now on. */
void tiny_move(uint32_t context, const struct heap *to);
/* Allocates a chunk in shared pages and adds it to the list. NULL: the context needs a region for
 * the chunk, or there is no memory. */
void *tiny_alloc(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* Allocates a chunk of up to TINY_MAX bytes in shared pages, and leaves the list alone. NULL: out
 * of memory, or the context has another placement than PLACE_APART. */
void *tiny_take(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* Makes an existing chunk of the shared pages the first chunk of a new context. */
void tiny_adopt(uint32_t context, const void *chunk, size_t size);
/* Update the context's list: tiny_freed when a chunk in a page with META_APART is freed, before its
 * block can be used again; tiny_resized when such a chunk was resized in place. */
void tiny_freed(uint32_t context, const void *chunk);
void tiny_resized(uint32_t context, const void *chunk, size_t size);

/* The chunks in a context's list. */
struct tiny_sum {
    uint64_t chunks, bytes; /* number of chunks, and their requested bytes */
    uint64_t block_bytes;   /* bytes of their blocks */
};
struct tiny_sum tiny_sum(uint32_t context);
/* False: the context's list is empty, or the context has no list. True: the list may have chunks.
 */
INLINE bool tiny_any(uint32_t context) {
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
