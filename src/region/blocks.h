/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - a page cut into blocks: its layout, and the record that each block has.
 *
 * Pages of blocks up to GRANULE_BLOCK_MAX are cut into granules of one OS page, others are one
 * granule. The records of a granule's blocks stand in its first OS page, so that a small block and
 * its record share one: one place less in the TLB, and one page less that a forked child copies.
 * They take the place of some of the blocks (blocks_records_of says which), or, in wide pages,
 * stand before the first. Blocks of 64 bytes or a multiple start at multiples of 64, others at
 * their own power of two. A record says how much of the block was not requested (slack), and in
 * mixed pages whose it is: shift 0, own page, blocks up to 1 KiB: 8 bits of slack shift 1, own
 * page, larger blocks: 16 bits of slack shift 2, mixed page, blocks up to 1 KiB: view index (24),
 * slack + 1 (8) shift 3, mixed page, larger blocks: view index (32), slack + 1 (32) An own page
 * that became a mixed one keeps its records, shift 0 or 1 and META_OWNERS; whose its blocks are
 * stands in a table beside. A slack of all bits set (shift 0 and 1) or of none marks a free block,
 * also one that was never handed out, so that a second or a wild free is found; whose it was stays.
 */
#ifndef MEMCTX_BLOCKS_H
#define MEMCTX_BLOCKS_H

#include "region/heap.h"

#define SLACK_NARROW_MAX 254U
#define GRANULE_BLOCK_MAX 128U /* beyond it an OS page of its own would lose too much */

/* In page.meta_shift: bits that are the shift, and more. Atomic where others set or read them. */
#define META_SHIFT 3U
#define META_WIDE 1U
#define META_MIXED 2U    /* view and slack; never changes */
#define META_OWNERS 4U   /* whose the blocks are stands in page.owners */
#define META_WATCHED 8U  /* holds a chunk whose free segment_watch wants to hear of */
#define META_ALIGNED 16U /* some chunks start inside their block */
#define META_CHECKED 32U /* see region/check.h; never changes */
#define META_PUNCHED 64U /* see region/punch.h */
#define META_APART 128U  /* mixed, of heap->apart; never changes */
struct owners {          /* written by the heap's thread; gone with the page */
    const char *start;   /* of the page */
    size_t count;        /* blocks */
    uint32_t views[];    /* by block: atomic */
};

/* The mixed pages of contexts that are to stand apart from others (PLACE_APART). As in a heap's
 * own, stand-ins are the current ones of narrow classes, but hold no recent blocks: what is freed
 * goes back to its page. */
struct pool {
    struct bins bins;
    char stand_ins[NARROW_CLASSES][CACHE_LINE] __attribute__((aligned(CACHE_LINE)));
};

INTERNAL const uint8_t blocks_class_table[NARROW_MAX / 16 + 1];
INTERNAL const uint16_t blocks_bytes_table[SIZE_CLASSES];

/* Size class of a request up to SMALL_MAX. */
INLINE unsigned blocks_class_of(size_t size) {
    if (LIKELY(size <= NARROW_MAX))
        return blocks_class_table[(size + 15) >> 4];
    unsigned shift =
        61U - (unsigned)__builtin_clzl(size - 1); /* spacing is a quarter of the power */
    return NARROW_CLASSES - 4 + 4 * (shift - 7) + (unsigned)((size - 1) >> shift) - 4;
}

/* The class that serves a request up to NARROW_MAX, and up to SMALL_MAX, in this heap. */
INLINE unsigned bins_class_narrow(const struct heap *heap, size_t size) {
    return heap->size_served_by[(size + 15) >> 4];
}
INLINE unsigned bins_class_of(const struct heap *heap, size_t size) {
    return heap->served_by[blocks_class_of(size)];
}

/* Where the granule starts that a pointer into the page is in. */
INLINE char *blocks_granule_narrow(const struct page *page, const void *pointer) {
    return (char *)((uintptr_t)pointer & ~(uintptr_t)page->granule_mask);
}
INLINE char *blocks_granule(const struct page *page, const void *pointer) {
    return LIKELY(!(load_relaxed(&page->meta_shift) & META_WIDE))
               ? blocks_granule_narrow(page, pointer)
               : segment_span_start(page);
}

/* The block that a pointer into a granule of a narrow page is in: its number there, at most that of
 * the rest behind the last block, which has a record as well, that of a free block. *exact when the
 * block starts just there: then, and only then, the fraction is less than the reciprocal, because
 * it is the quotient times the reciprocal's rounding error, which is below the offset, while the
 * least remainder adds a whole reciprocal (2^19 at least). Offsets are below 2^16. */
INLINE unsigned blocks_index_narrow(const struct page *page, const char *granule,
                                    const void *pointer, bool *exact) {
    uint64_t product = (uint64_t)((const char *)pointer - granule) * page->reciprocal;
    *exact = (uint32_t)product < page->reciprocal;
    return (unsigned)(product >> 32);
}

/* The same in any page: more than there are: none. What is before the first block wraps around to
 * very large numbers. */
INLINE unsigned blocks_index(const struct page *page, const char *granule, const void *pointer,
                             bool *exact) {
    return blocks_index_narrow(page, granule + page->first, pointer, exact);
}

/* Where the records of the granule stand that this block is in, whose page is this one or has this
 * stand-in: at another place in each slice, because what stands at the same place of every OS page
 * shares a few sets of each cache. */
INLINE size_t blocks_color_of(const struct page *stand_in, const void *block) {
    return ((uintptr_t)block >> SLICE_SHIFT & stand_in->color_mask) * stand_in->block_bytes;
}
INLINE size_t blocks_records_of(const struct page *page, const void *block) {
    return page->records + blocks_color_of(page, block);
}

INLINE size_t blocks_record_bytes(const struct page *page) { /* of a granule */
    size_t count = page->meta_shift & META_WIDE ? page->granule_capacity
                                                : page->granule_mask / page->block_bytes + 1;
    return count << (page->meta_shift & META_SHIFT);
}

INLINE void *blocks_record(const struct page *page, const char *granule, unsigned index) {
    return (char *)(uintptr_t)granule + page->records +
           ((size_t)index << (load_relaxed(&page->meta_shift) & META_SHIFT));
}

/* Where it stands whose block that is. */
INLINE uint32_t *blocks_owner(const struct page *page, const char *granule, unsigned index) {
    if (page->granule_mask < OS_PAGE_BYTES) /* many granules, else one */
        index += (unsigned)((size_t)(granule - page->owners->start) / OS_PAGE_BYTES) *
                 page->granule_capacity;
    return &page->owners->views[index];
}

/* Flags are the owner's. */
INLINE void flags_set(struct page *page, unsigned flags) {
    store_owner(&page->flags, (uint8_t)flags);
    /* The first free of a full page, unless that waits (spare_of in blocks.c), the last one of
     * others, but not of the heap's current ones. */
    page->rare_at = (uint16_t)(flags & PAGE_FULL                   ? page->used - 1
                               : flags & PAGE_LISTED || page->view ? 0
                                                                   : UINT16_MAX);
}

INLINE void flag_set(struct page *page, enum page_flag flag) {
    flags_set(page, page->flags | flag);
}

INLINE void flag_clear(struct page *page, enum page_flag flag) {
    flags_set(page, page->flags & ~flag);
}

/* How records of a page read: the slack, whose, and whether the block is free. */
struct record {
    uint32_t slack;
    uint32_t view_index; /* mixed pages; else 0 */
    bool free;
};

void record_write(const struct page *page, void *record, uint32_t view, uint32_t slack);

struct record record_read(const struct page *page, const void *record);
/* The same, and the block is free from now on. */
struct record record_release(const struct page *page, void *record);

/* The record of a block that starts at `block`. */
void record_set(const struct page *page, const void *block, uint32_t view, uint32_t slack);
/* Narrow ones: of a block of a mixed page, of any page; the page may be a stand-in. */
INLINE void record_set_mixed(const struct page *stand_in, const void *block, uint32_t view,
                             uint32_t slack) {
    char *granule = blocks_granule_narrow(stand_in, block);
    bool exact;
    unsigned index = blocks_index_narrow(stand_in, granule, block, &exact);
    granule += blocks_color_of(stand_in, block);
    store_owner((uint32_t *)(void *)granule + index, view << 8 | (slack + 1));
}
INLINE void record_set_narrow(const struct page *page, const void *block, uint32_t view,
                              uint32_t slack) {
    char *granule = blocks_granule_narrow(page, block);
    bool exact;
    unsigned index = blocks_index_narrow(page, granule, block, &exact);
    char *records = granule + blocks_records_of(page, block);
    if ((load_plain(&page->meta_shift) & META_SHIFT) == META_MIXED) {
        store_owner((uint32_t *)(void *)records + index, view << 8 | (slack + 1));
        return;
    }
    if (UNLIKELY(load_plain(&page->meta_shift) & META_OWNERS))
        store_owner(blocks_owner(page, granule, index), view);
    store_owner((uint8_t *)records + index, (uint8_t)slack);
}

/* A new page for one size class; view NULL: mixed. NULL: out of memory. */
struct page *blocks_page_create(struct heap *heap, struct view *view, unsigned size_class);
void blocks_page_destroy(struct heap *heap, struct page *page);
/* Makes the page's next granule ready for its first block. False: there is none. */
bool blocks_open_granule(struct page *page);
bool punch_refill(struct page *page);
INLINE bool blocks_has_free(struct page *page) {
    return page->free || page->fresh_left ||
           (!(page->flags & PAGE_USED_UP) && page->next_block && blocks_open_granule(page)) ||
           (UNLIKELY(load_plain(&page->meta_shift) & META_PUNCHED) && punch_refill(page));
}
/* Bytes of the page, from its start, that blocks were handed out of, in whole OS pages. */
INLINE size_t blocks_reached(const struct page *page, const char *start) {
    size_t bytes = (size_t)(page->next_block - start);
    size_t open = page->granule_mask < OS_PAGE_BYTES || !(bytes & page->granule_mask);
    return align_up(bytes + (open && page->fresh_left), OS_PAGE_BYTES);
}
/* A bit for each OS page of these that was given back. The word first: another thread's page may
 * just become one with META_OWNERS, which stand in that word, and then the bit is gone before. */
INLINE uint64_t blocks_punched(const struct page *page) {
    uint64_t mask = load_acquire(&page->punched);
    return load_relaxed(&page->meta_shift) & META_PUNCHED ? mask : 0;
}
/* The others' bytes. */
INLINE size_t blocks_touched(const struct page *page, const char *start) {
    return blocks_reached(page, start) -
           (size_t)__builtin_popcountl(blocks_punched(page)) * OS_PAGE_BYTES;
}
/* False: a free block was written to, so that the page's list leads elsewhere. The owner. */
bool blocks_list_holds(const struct page *page);
/* Blocks that were handed out at least once. */
size_t blocks_handed_out(const struct page *page);
/* The blocks of a granule whose place its records take. */
struct reserved {
    unsigned first, count;
};
struct reserved blocks_reserved_in(const struct page *page);

/* The current page ran out. False: no other one has free blocks. */
bool bins_switch(struct heap *heap, struct bins *bins, unsigned size_class);
/* Another one with free blocks, or a new one, or NULL. */
struct page *bins_next_page(struct heap *heap, struct bins *bins, struct view *view,
                            unsigned size_class);
/* A region's current page of a class becomes one of the others; of all its pages of a class those
 * go out of use whose blocks have not the size that they should have by now: their free blocks are
 * not handed out, and they go when they are empty. */
void bins_put_aside(struct heap *heap, struct bins *bins, unsigned size_class);
void bins_put_aside_others(struct heap *heap, struct bins *bins, unsigned size_class);
/* Collects what other threads freed into this heap's pages. */
void bins_collect_remote(struct heap *heap);
void bins_init(struct bins *bins);
void bins_init_mixed(struct heap *heap);
/* heap->apart, made when it is missing. NULL: out of memory. */
struct pool *bins_apart(struct heap *heap);
/* The class that is to serve this one: itself from now on, if the page that it shares is full. */
unsigned bins_share_class(struct heap *heap, unsigned size_class);
/* From now on it is itself. */
void bins_split_class(struct heap *heap, unsigned size_class);
/* Gives back one current page, which got empty with the free of this block. */
void bins_release_page(struct heap *heap, struct page *page, void *block);
/* Gives back the empty current pages: of some bins, of all regions. */
void bins_release_empty(struct heap *heap, struct bins *bins);
void regions_release_empty(struct heap *heap);
/* Out of the list of pages with free blocks. */
void bins_unlist(struct bins *bins, struct page *page);
/* The list of a region's pages that are in no other one. */
INLINE void region_list(struct page **list, struct page *page) {
    page->prev = NULL;
    page->next = *list;
    if (page->next)
        page->next->prev = page;
    *list = page;
}
INLINE void region_unlist(struct page **list, struct page *page) {
    if (page->prev)
        page->prev->next = page->next;
    else
        *list = page->next;
    if (page->next)
        page->next->prev = page->prev;
    page->next = page->prev = NULL;
}
/* Nothing in the page is alive, and its first block is the next one again. */
void blocks_rewind(struct heap *heap, struct page *page);
INLINE void blocks_mark(struct page *page, unsigned meta) {
    or_release(&page->meta_shift, (uint8_t)meta);
}
/* From now on segment_watch hears of the page's frees. Any thread, which holds a chunk in it. */
INLINE void blocks_watch(struct page *page) {
    blocks_mark(page, META_WATCHED);
}
INLINE bool blocks_are_watched(const struct page *page) {
    return load_relaxed(&page->meta_shift) & META_WATCHED;
}
/* Another thread's free: hands the block to the page's owner. */
void blocks_free_remote(struct page *page, void *block);
/* What a free may have to do besides: tell who watches the page; a full page is one with a free
 * block again, an empty one is given back. */
void blocks_freed_rarely(struct heap *heap, struct page *page, void *block);

/* Takes the list's first block. The one behind it is the next, and mostly in no cache if another
 * thread freed it, or long ago. */
INLINE void blocks_unlink(struct page *page, const void *block) {
    page->free = *(void *const *)block;
    __builtin_prefetch(page->free, 1);
}

INLINE void blocks_link(struct page *page, void *block) {
    *(void **)block = page->free;
    order_stores(); /* a fork between the two leaves a block too many in `used`: safe */
    page->free = block;
    order_stores();
    add_owner(&page->used, -1);
}

/* The owner's free, after the record was written and the view accounted. True: blocks_freed_rarely
 * has to follow. A current page that gets empty stays: the next allocation is near. */
INLINE bool blocks_free_owned(struct heap *heap, struct page *page, void *block) {
    blocks_link(page, block);
    add_owner(&heap->own_free, page->waste_unit);
    return UNLIKELY(page->used == page->rare_at);
}

/* The same for a narrow block of a mixed page, which mostly is the next to be used again. */
INLINE bool blocks_free_mixed(struct heap *heap, struct page *page, void *block) {
    struct page *recent = heap_recent(heap, page->size_class);
    if (UNLIKELY(!recent->used))
        return blocks_free_owned(heap, page, block);
    blocks_link(recent, block);
    return false;
}

#endif
