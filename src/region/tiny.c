/* SPDX-License-Identifier: MIT */
/* The lists of chunks of tiny contexts (named contexts with a few chunks); see tiny.h. */
#include "region/tiny.h"
#include "os/meta.h"
#include "region/region.h"

void *tiny_leaves[PLACED_LEAVES];
static uint32_t tiny_count; /* atomic: number of contexts that got a list */

#define CHUNK_BITS 48U

static uint64_t word_of(const void *chunk, size_t size) {
    return (uintptr_t)chunk | (uint64_t)size << CHUNK_BITS;
}

static char *chunk_of(uint64_t word) {
    return (char *)(uintptr_t)(word & ((1UL << CHUNK_BITS) - 1));
}

/* Returns entry number `i` of the list. NULL: the list is shorter, or the context has none. */
static uint64_t *word_at(const struct tiny *tiny, unsigned i) {
    if (!tiny || i >= TINY_FIRST + TINY_MORE)
        return NULL;
    if (i < TINY_FIRST)
        return (uint64_t *)(uintptr_t)&tiny->chunks[i];
    uint64_t *more = load_acquire(&tiny->more);
    return more ? &more[i - TINY_FIRST] : NULL;
}

bool tiny_begin(uint32_t context, const struct heap *heap) {
    struct tiny *tiny = heap_leaf_entry(tiny_leaves, context, sizeof *tiny);
    if (!tiny)
        return false;
    if (!tiny->named)
        add_relaxed(&tiny_count, 1);
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

/* Returns a free entry for one more chunk. NULL: the context needs a region for the chunk, or there
 * is no memory. */
static uint64_t *room_for(struct tiny *tiny, size_t size) {
    bool many = load_relaxed(&tiny_count) >= TINY_MANY;
    uint64_t *room = NULL, *word;
    size_t bytes = size;
    if (size > TINY_MAX || tiny->allocs >= (many ? TINY_ALLOCS_OF_MANY : TINY_ALLOCS))
        return NULL;
    for (unsigned i = 0; (word = word_at(tiny, i)); i++) {
        uint64_t there = load_relaxed(word);
        bytes += there >> CHUNK_BITS;
        room = there || room ? room : word;
    }
    if (!room && many && !tiny->more) {
        uint64_t *more = meta_alloc(TINY_MORE * sizeof *more);
        store_release(&tiny->more, more);
        room = more;
    }
    return bytes <= TINY_BYTES ? room : NULL;
}

void *tiny_take(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    struct pool *pool = heap_placement(view->context) == PLACE_APART ? bins_apart(heap) : NULL;
    if (!pool)
        return NULL;
    unsigned size_class = bins_split_class(heap, blocks_class_of(size));
    struct page *page = bins_next_page(heap, &pool->bins, NULL, size_class);
    return page ? region_take(heap, page, view, size, false, fresh) : NULL;
}

void tiny_adopt(uint32_t context, const void *chunk, size_t size) {
    struct tiny *tiny = tiny_of(context);
    tiny->allocs++;
    store_release(&tiny->chunks[0], word_of(chunk, size));
}

void *tiny_alloc(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    struct tiny *tiny = tiny_of(view->context);
    uint64_t *room = tiny ? room_for(tiny, size) : NULL;
    char *chunk = room ? tiny_take(heap, view, size, fresh) : NULL;
    if (!chunk)
        return NULL;
    tiny->allocs++;
    store_release(room, word_of(chunk, size));
    return chunk;
}

/* Replaces the chunk's entry in the context's list by `by`. Does nothing if the chunk is not in the
 * list. */
static void replace(uint32_t context, const void *chunk, uint64_t by) {
    const struct tiny *tiny = tiny_of(context);
    uint64_t *word;
    for (unsigned i = 0; (word = word_at(tiny, i)); i++)
        if (chunk_of(load_relaxed(word)) == chunk) {
            store_release(word, by);
            return;
        }
}

void tiny_freed(uint32_t context, const void *chunk) {
    replace(context, chunk, 0);
}

void tiny_resized(uint32_t context, const void *chunk, size_t size) {
    replace(context, chunk, word_of(chunk, size));
}

struct tiny_sum tiny_sum(uint32_t context) {
    const struct tiny *tiny = tiny_of(context);
    struct tiny_sum sum = {0, 0, 0};
    uint64_t *word;
    for (unsigned i = 0; (word = word_at(tiny, i)); i++) {
        uint64_t there = load_acquire(word);
        if (!there)
            continue;
        sum.chunks++;
        sum.bytes += there >> CHUNK_BITS;
        sum.block_bytes += blocks_bytes_table[blocks_class_of(there >> CHUNK_BITS)];
    }
    return sum;
}

void tiny_reset(struct heap *heap, uint32_t context) {
    const struct tiny *tiny = tiny_of(context);
    uint64_t *word;
    for (unsigned i = 0; (word = word_at(tiny, i)); i++) {
        uint64_t there = load_acquire(word);
        if (there)
            region_free(heap, chunk_of(there));
    }
}

/* False: the page belongs to this heap, and the page's list of free blocks is damaged. Only a
 * heap's owner may read such lists, so pages of other heaps are not checked. */
static bool holds(const struct heap *heap, const struct page *page) {
    return !page || page == &heap_no_page || page->heap != heap || blocks_list_holds(page);
}

bool tiny_check(const struct heap *heap, uint32_t context) {
    const struct tiny *tiny = tiny_of(context);
    bool all = true;
    uint64_t *word;
    for (unsigned i = 0; (word = word_at(tiny, i)); i++) {
        uint64_t there = load_acquire(word);
        all &= holds(heap, there ? segment_page_of(chunk_of(there)) : NULL);
    }
    for (unsigned i = 0; tiny && heap->apart && i < NARROW_CLASSES; i++)
        all &= holds(heap, heap->apart->bins.current[i]->behind);
    return all;
}
