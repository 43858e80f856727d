/* SPDX-License-Identifier: MIT */
/*
 * Gives empty OS pages inside pages in use back to the kernel, and answers trim requests.
 *
 * For: contexts with long-lived chunks that stand far apart. Cannot do: move a chunk; give back an
 * OS page that holds records of blocks in other OS pages. Costs the thread that punches some
 * microseconds for each page that it looks at.
 */
#include "region/punch.h"
#include "region/bins.h"
#include "region/serial.h"

struct trim_wanted trim_wanted;
uint32_t trim_number FORK_PAGE;

#define UNIT_SHIFT 4 /* find_used numbers the blocks of a page in units of 16 bytes */
#define UNITS (WIDE_PAGE_SLICES * SLICE_BYTES >> UNIT_SHIFT)

/* A step of a walk over the blocks that were handed out at least once. */
struct step {
    char *block;
    uint64_t os_pages; /* a bit for each OS page that the block touches */
};

/* Returns a bit for each OS page that `bytes` bytes from `from` touch. `start` is the page's start.
 */
static uint64_t bits_of(const char *start, const char *from, size_t bytes) {
    unsigned first = (unsigned)((size_t)(from - start) / OS_PAGE_BYTES);
    unsigned last = (unsigned)((size_t)(from - start + bytes - 1) / OS_PAGE_BYTES);
    return ((2UL << ((last - first) & 63)) - 1) << first;
}

/* Moves `step` to the next block that was handed out at least once. If step->block is NULL, moves
 * it to the first such block. False: there is none. */
static bool next_block_of(const struct page *page, const char *start, struct step *step) {
    struct reserved reserved = blocks_reserved_in(page);
    size_t granule_bytes = (size_t)page->granule_mask + 1;
    size_t granule = 0;
    unsigned index = 0;
    if (step->block) {
        size_t offset = (size_t)(step->block - start);
        granule = offset / granule_bytes;
        index = (unsigned)((offset % granule_bytes - page->first) / page->block_bytes) + 1;
    }
    if (index == reserved.first)
        index += reserved.count;
    if (index >= page->granule_capacity) {
        granule++;
        index = reserved.first ? 0 : reserved.count;
    }
    step->block = (char *)(uintptr_t)start + granule * granule_bytes + page->first +
                  (size_t)index * page->block_bytes;
    step->os_pages = bits_of(start, step->block, page->block_bytes);
    return step->block < page->next_block;
}

size_t punch_held(const struct page *page) {
    uint64_t mask = blocks_punched(page);
    const char *start = segment_span_start(page);
    size_t count = 0;
    struct step step = {0};
    while (mask && next_block_of(page, start, &step))
        count += (step.os_pages & mask) != 0;
    return count;
}

/* Puts a block on the page's list, but does not change the counts of the page. */
static void push_free(struct page *page, char *block) {
    *(void **)block = load_plain(&page->free);
    store_owner(&page->free, (void *)block);
}

bool punch_refill(struct page *page) {
    const char *start = segment_span_start(page);
    size_t count = 0;
    if (UNLIKELY(!page->punched)) { /* the parent forked between punch_announce and the punch */
        and_release(&page->meta_shift, (uint8_t)~META_PUNCHED);
        return false;
    }
    do {
        unsigned number = (unsigned)__builtin_ctzl(page->punched);
        uint64_t left = page->punched & (page->punched - 1);
        char *granule = (char *)(uintptr_t)start + number * OS_PAGE_BYTES;
        if (page->granule_mask < OS_PAGE_BYTES) /* the records were lost with the OS page */
            __builtin_memset(granule + page->records, page->meta_shift & META_MIXED ? 0 : UINT8_MAX,
                             blocks_record_bytes(page));
        struct step step = {0};
        while (next_block_of(page, start, &step))
            if (step.os_pages >> number & 1 && !(step.os_pages & left)) {
                push_free(page, step.block);
                count++;
            }
        store_owner(&page->punched, left);
        if (!left)
            and_release(&page->meta_shift, (uint8_t)~META_PUNCHED);
    } while (!count && page->punched);
    struct heap *heap = page->heap;
    store_owner(&heap->own_free, heap->own_free + (int64_t)count * page->waste_unit);
    return count;
}

/* Returns a bit for each OS page that must stay: it holds a block in use, records of blocks in
 * other OS pages, or the next untouched block. *listed gets a bit for each block in the page's
 * list, at the number of the block's first unit. ~0: the list is damaged. */
static uint64_t find_used(const struct page *page, const char *start, uint64_t *listed) {
    size_t bytes = page->slices * SLICE_BYTES;
    uint64_t used = 0;
    for (const char *block = load_plain(&page->free); block; block = *(char *const *)block) {
        size_t offset = (size_t)(block - start), unit = offset >> UNIT_SHIFT;
        /* The program may have written to freed blocks, so the list may lead anywhere. Addresses
         * outside the page are never read, and no block is read twice. */
        if (offset >= bytes || offset % (1U << UNIT_SHIFT) || listed[unit >> 6] >> (unit & 63) & 1)
            return ~0UL;
        listed[unit >> 6] |= 1UL << (unit & 63);
    }
    struct step step = {0};
    while (next_block_of(page, start, &step)) {
        size_t unit = (size_t)(step.block - start) >> UNIT_SHIFT;
        if (!(listed[unit >> 6] >> (unit & 63) & 1) && !(step.os_pages & blocks_punched(page)))
            used |= step.os_pages;
    }
    for (size_t at = 0; page->granule_mask >= OS_PAGE_BYTES && at < bytes;
         at += (size_t)page->granule_mask + 1)
        used |= bits_of(start, start + at + page->records, blocks_record_bytes(page));
    if (page->fresh_left ||
        ((uintptr_t)page->next_block % OS_PAGE_BYTES && blocks_handed_out(page) < page->capacity))
        /* the OS page of next_block, in which the next untouched block begins, is in use */
        used |= bits_of(start, page->next_block, 1);
    return used;
}

/* Gives the OS pages of the mask back to the kernel, adjacent OS pages with one system call. */
static void discard(const char *start, uint64_t mask) {
    segment_keep_gaps(start);
    while (mask) {
        unsigned first = (unsigned)__builtin_ctzl(mask);
        uint64_t behind = mask >> first;
        unsigned count = ~behind ? (unsigned)__builtin_ctzl(~behind) : 64U;
        os_discard((char *)(uintptr_t)start + first * OS_PAGE_BYTES, count * OS_PAGE_BYTES);
        mask &= ~(((2UL << (count - 1)) - 1) << first);
    }
}

/* Punches the empty OS pages of one page. Returns the bytes of these OS pages. Adds to *waste the
 * bytes of the free blocks that leave the page's list: they no longer count as waste
 * (heap.own_free). */
static size_t punch_page(struct page *page, int64_t *waste) {
    uint64_t listed[UNITS / 64] = {0};
    const char *start = segment_span_start(page);
    /* With META_OWNERS the word of page.punched holds page.owners. With META_CHECKED the free
     * blocks hold a pattern (check.h). */
    if (!page->free || page->meta_shift & (META_OWNERS | META_CHECKED))
        return 0;
    unsigned count = (unsigned)(blocks_reached(page, start) / OS_PAGE_BYTES);
    uint64_t empty = ~find_used(page, start, listed) & ~blocks_punched(page) & ((1UL << count) - 1);
    if (!empty)
        return 0;
    size_t held = 0;
    struct step step = {0};
    store_owner(&page->free, (void *)NULL);
    while (next_block_of(page, start, &step)) {
        size_t unit = (size_t)(step.block - start) >> UNIT_SHIFT;
        if (!(listed[unit >> 6] >> (unit & 63) & 1))
            continue;
        if (step.os_pages & empty)
            held++;
        else
            push_free(page, step.block);
    }
    *waste += (int64_t)held * page->waste_unit;
    store_owner(&page->punched, blocks_punched(page) | empty);
    blocks_mark(page, META_PUNCHED);
    discard(start, empty);
    return (size_t)__builtin_popcountl(empty) * OS_PAGE_BYTES;
}

bool punch_may_help(const struct page *page) {
    unsigned kind = load_acquire(&page->kind);
    size_t free_blocks = load_relaxed(&page->capacity) - load_relaxed(&page->used);
    return (kind == PAGE_OWN || kind == PAGE_MIXED) && !(load_relaxed(&page->flags) & PAGE_FULL) &&
           free_blocks * load_relaxed(&page->block_bytes) >= OS_PAGE_BYTES &&
           !(load_relaxed(&page->meta_shift) & (META_OWNERS | META_CHECKED | META_APART));
}

void punch_announce(struct page *page) {
    if (!(load_relaxed(&page->meta_shift) & META_PUNCHED))
        store_owner(&page->punched, 0); /* without META_PUNCHED the mask is not valid */
    blocks_mark(page, META_PUNCHED);
}

size_t punch_announced(struct page *page, int64_t *waste) {
    return punch_page(page, waste);
}

void punch_end(struct page *page) {
    if (!page->punched)
        and_release(&page->meta_shift, (uint8_t)~META_PUNCHED);
}

static size_t punch_bins(struct heap *heap, const struct bins *bins) {
    size_t bytes = 0;
    int64_t waste = 0;
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        for (struct page *page = bins->partial[i]; page; page = page->next)
            bytes += punch_page(page, &waste);
    store_owner(&heap->own_free, heap->own_free - waste);
    return bytes;
}

static bool is_wanted(const struct view *view) {
    return trim_wanted.all || trim_is_marked(view);
}

static bool is_any(const struct view *view) {
    (void)view;
    return true;
}

/* Gives back the empty pages of heap->mixed and heap->apart, and of the regions of the views for
 * which `wanted` is true. If `punched` is not NULL, also punches the pages of heap->mixed and
 * heap->apart, and of the regions of the views for which both `wanted` and `punched` are true.
 * Returns the bytes of the punched OS pages. */
static size_t give_back(struct heap *heap, bool (*wanted)(const struct view *view),
                        bool (*punched)(const struct view *view)) {
    size_t bytes = 0;
    heap_collect_remote(heap);
    bins_release_empty(heap, &heap->mixed);
    if (heap->apart)
        bins_release_empty(heap, &heap->apart->bins);
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        const struct view *view = heap_view_at(heap, i);
        if (!view->region || !wanted(view))
            continue;
        bins_release_empty(heap, view->region);
        serial_release_empty(region_of(view->region));
        if (punched && punched(view))
            bytes += punch_bins(heap, view->region) + serial_punch(region_of(view->region));
    }
    if (punched) {
        bytes += punch_bins(heap, &heap->mixed);
        if (heap->apart)
            bytes += punch_bins(heap, &heap->apart->bins);
    }
    return bytes;
}

COLD void trim_heap(struct heap *heap) {
    /* read first: a request that comes meanwhile then gets an answer of its own */
    uint32_t number = load_acquire(&trim_number);
    size_t bytes = give_back(heap, is_wanted, trim_wanted.punch ? trim_is_marked : NULL);
    add_relaxed(&trim_wanted.released, (int64_t)bytes);
    store_release(&heap->trims, number);
}

COLD size_t trim_whole(struct heap *heap) {
    size_t bytes = give_back(heap, is_any, is_any);
    heap_publish_waste(heap);
    return bytes;
}
