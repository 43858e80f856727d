/* SPDX-License-Identifier: MIT */
/* The first chunks of named contexts that hold next to nothing; see tiny.h. */
#include "region/tiny.h"
#include "os/meta.h"
#include "region/region.h"

struct tiny *tiny_leaves[PLACED_LEAVES];

#define CHUNK_BITS 48U

static uint64_t word_of(const void *chunk, size_t size) {
    return (uintptr_t)chunk | (uint64_t)size << CHUNK_BITS;
}

static char *chunk_of(uint64_t word) {
    return (char *)(uintptr_t)(word & ((1UL << CHUNK_BITS) - 1));
}

bool tiny_begin(uint32_t context, const struct heap *heap) {
    if (context / PLACED_PER_LEAF >= PLACED_LEAVES)
        return false;
    struct tiny **leaf = &tiny_leaves[context / PLACED_PER_LEAF];
    if (!load_acquire(leaf)) {
        struct tiny *made = meta_alloc(PLACED_PER_LEAF * sizeof *made), *there = NULL;
        if (!made)
            return false;
        if (!cas_acq_rel(leaf, &there, made))
            meta_free(made, PLACED_PER_LEAF * sizeof *made);
    }
    struct tiny *tiny = load_acquire(leaf) + context % PLACED_PER_LEAF;
    tiny->allocs = 0;
    store_owner(&tiny->named, true);
    tiny_move(context, heap);
    return true;
}

void tiny_move(uint32_t context, const struct heap *to) {
    struct tiny *tiny = tiny_of(context);
    if (tiny)
        store_release(&tiny->owner, to->number);
}

void *tiny_alloc(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    struct tiny *tiny = tiny_of(view->context);
    struct pool *pool;
    unsigned free = 0;
    if (!tiny || size > TINY_MAX || tiny->allocs >= TINY_ALLOCS ||
        heap_placement(view->context) != PLACE_APART || !(pool = bins_apart(heap)))
        return NULL;
    while (free < TINY_CHUNKS && load_relaxed(&tiny->chunks[free]))
        free++;
    if (free == TINY_CHUNKS)
        return NULL;
    unsigned size_class = blocks_class_of(size);
    bins_split_class(heap, size_class);
    struct page *page = bins_next_page(heap, &pool->bins, NULL, size_class);
    char *chunk = page ? region_take(heap, page, view, size, false, fresh) : NULL;
    if (!chunk)
        return NULL;
    tiny->allocs++;
    store_release(&tiny->chunks[free], word_of(chunk, size));
    return chunk;
}

/* The chunk's word; NULL: it is not in the list. */
static uint64_t *find(uint32_t context, const void *chunk) {
    struct tiny *tiny = tiny_of(context);
    for (unsigned i = 0; tiny && i < TINY_CHUNKS; i++)
        if (chunk_of(load_relaxed(&tiny->chunks[i])) == chunk)
            return &tiny->chunks[i];
    return NULL;
}

void tiny_freed(uint32_t context, const void *chunk) {
    uint64_t *word = find(context, chunk);
    if (word)
        store_release(word, 0);
}

void tiny_resized(uint32_t context, const void *chunk, size_t size) {
    uint64_t *word = find(context, chunk);
    if (word)
        store_release(word, word_of(chunk, size));
}

struct tiny_sum tiny_sum(uint32_t context) {
    const struct tiny *tiny = tiny_of(context);
    struct tiny_sum sum = {0, 0, 0};
    for (unsigned i = 0; tiny && i < TINY_CHUNKS; i++) {
        uint64_t word = load_acquire(&tiny->chunks[i]);
        if (!word)
            continue;
        sum.chunks++;
        sum.bytes += word >> CHUNK_BITS;
        sum.block_bytes += blocks_bytes_table[blocks_class_of(word >> CHUNK_BITS)];
    }
    return sum;
}

void tiny_reset(struct heap *heap, uint32_t context) {
    struct tiny *tiny = tiny_of(context);
    for (unsigned i = 0; tiny && i < TINY_CHUNKS; i++) {
        uint64_t word = load_acquire(&tiny->chunks[i]);
        if (word)
            region_free(heap, chunk_of(word));
    }
}

bool tiny_check(const struct heap *heap, uint32_t context) {
    const struct tiny *tiny = tiny_of(context);
    for (unsigned i = 0; tiny && i < TINY_CHUNKS; i++) {
        uint64_t word = load_acquire(&tiny->chunks[i]);
        const struct page *page = word ? segment_page_of(chunk_of(word)) : NULL;
        if (page && page->heap == heap && !blocks_list_holds(page))
            return false;
    }
    return true;
}
