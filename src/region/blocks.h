/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - a page cut into blocks: its layout, and the record that each block has.
 *
 * Pages of blocks up to GRANULE_BLOCK_MAX are cut into granules of one OS page, pages of larger
 * narrow blocks into granules of one slice; a page of wide blocks is one granule. The records of a
 * granule's blocks stand in the granule's first OS page, so that a small block and its record share
 * an OS page. Sharing saves a TLB entry, and the copy of a second OS page in a forked child. The
 * records take the place of some of the blocks (blocks_records_of says which), or, in wide pages,
 * stand before the first block.
 *
 * A block starts at a multiple of the largest power of two that divides its size. In a wide page,
 * this alignment is at most WIDE_ALIGNMENT_MAX. A record holds the block's slack (the bytes that
 * were not requested), and in mixed pages also the index of the view that paid for the block.
 * page.meta_shift holds the logarithm of the size of a record in bytes (shift):
 *   shift 0, own page, blocks up to 1 KiB: 8 bits of slack
 *   shift 1, own page, larger blocks: 16 bits of slack
 *   shift 2, mixed page, blocks up to 1 KiB: 24 bits of view index, 8 bits of slack + 1
 *   shift 3, mixed page, larger blocks: 32 bits of view index, 32 bits of slack + 1
 * An own page that became a mixed one keeps its records (shift 0 or 1) and gets META_OWNERS; a
 * table beside the page (struct owners) then holds the view indices of its blocks. A free block has
 * all bits of the slack set (shift 0 and 1) or none (shift 2 and 3). When a granule is opened, all
 * its blocks are marked free, so that the free of a block that was never handed out is found. The
 * record of a free block still names the last view.
 */
#ifndef MEMCTX_BLOCKS_H
#define MEMCTX_BLOCKS_H

#include "region/heap.h"

#define SLACK_NARROW_MAX 254U /* slack in a byte, of which one value means "free" */
/* The first block of a wide page stands behind the records. With this alignment, a page of blocks
 * of 4 or 8 KiB leaves an OS page to the records. That costs no block, and a block touches as few
 * OS pages as possible. With a greater alignment, blocks of 8 KiB would leave two OS pages. */
#define WIDE_ALIGNMENT_MAX 4096U
/* Larger blocks would leave too many bytes at the end of a granule of one OS page. */
#define GRANULE_BLOCK_MAX 128U

/* The bits of page.meta_shift: two bits of shift, and flags. A flag that other threads set or read
 * is accessed atomically. */
#define META_SHIFT 3U
#define META_WIDE 1U
#define META_MIXED 2U   /* records hold a view index and the slack; never changes */
#define META_OWNERS 4U  /* page.owners holds the view indices of the blocks */
#define META_WATCHED 8U /* frees in the page call segment_watch */
/* Frees in the page go to page_kinds.h, for one of three reasons: some chunks start inside their
 * block, a free must zero the block, or a free must remove the block from a list. */
#define META_ALIGNED 16U
#define META_CHECKED 32U /* chunks have a pattern behind them: region/check.h; never changes */
/* Some OS pages were given back, or a visitor makes the owner's frees in the page wait:
 * region/punch.h. */
#define META_PUNCHED 64U
#define META_APART 128U /* a mixed page of heap->apart; never changes */
/* The view indices of a page with META_OWNERS. The heap's thread writes the table, and frees it
 * with the page. */
struct owners {
    const char *start; /* start of the page */
    size_t count;      /* number of entries, one for each block that the granules have room for */
    uint32_t views[];  /* atomic: for each block of each granule, the index of the view that paid */
};

INTERNAL const uint8_t blocks_class_table[NARROW_MAX / 16 + 1];
INTERNAL const uint16_t blocks_bytes_table[SIZE_CLASSES];

/* Returns the size class of a request of up to SMALL_MAX bytes. */
INLINE unsigned blocks_class_of(size_t size) {
    if (LIKELY(size <= NARROW_MAX))
        return blocks_class_table[(size + 15) >> 4];
    /* Between a power of two and the next one there are eight classes; 1 << shift is the step from
     * one class to the next. */
    unsigned shift = 60U - (unsigned)__builtin_clzl(size - 1);
    return NARROW_CLASSES + 8 * (shift - 7) + (unsigned)((size - 1) >> shift) - 8;
}

/* Returns the alignment of the first block of a wide page. */
INLINE uint32_t blocks_wide_alignment(uint32_t block_bytes) {
    uint32_t alignment = block_bytes & -block_bytes;
    return alignment < CACHE_LINE           ? CACHE_LINE
           : alignment > WIDE_ALIGNMENT_MAX ? WIDE_ALIGNMENT_MAX
                                            : alignment;
}

#define BINS_UNIT 16U
/* Returns the size in bytes of the next blocks of a class. */
INLINE uint32_t bins_block_bytes(struct bins *bins, unsigned size_class) {
    if (LIKELY(!(bins->recipe & RECIPE_EXACT)))
        return blocks_bytes_table[size_class];
    return (uint32_t)region_of(bins)->units[size_class] * BINS_UNIT;
}

/* Return the class that serves a request in this heap: bins_class_narrow for up to NARROW_MAX
 * bytes, bins_class_of for up to SMALL_MAX bytes. */
INLINE unsigned bins_class_narrow(const struct heap *heap, size_t size) {
    return heap->size_served_by[(size + 15) >> 4];
}
INLINE unsigned bins_class_of(const struct heap *heap, size_t size) {
    return heap->served_by[blocks_class_of(size)];
}

/* Return the start of the granule that holds a pointer into the page. blocks_granule_narrow is for
 * pages of narrow blocks. */
INLINE char *blocks_granule_narrow(const struct page *page, const void *pointer) {
    return (char *)((uintptr_t)pointer & ~(uintptr_t)page->granule_mask);
}
INLINE char *blocks_granule(const struct page *page, const void *pointer) {
    return LIKELY(!(load_relaxed(&page->meta_shift) & META_WIDE))
               ? blocks_granule_narrow(page, pointer)
               : segment_span_start(page);
}

/* Returns the number of the block that holds a pointer into a granule of a narrow page. The bytes
 * behind the last block of the granule count as one more block, whose record always says "free".
 * *exact becomes true when the block starts exactly at the pointer. The test is whether the lower
 * half of the product is less than the reciprocal. For the start of a block, the lower half is the
 * error that the rounding of the reciprocal makes. The error is at most the offset, and offsets are
 * below 2^16. For any other pointer, each byte behind the block's start adds a whole reciprocal,
 * which is at least 2^18. */
INLINE unsigned blocks_index_narrow(const struct page *page, const char *granule,
                                    const void *pointer, bool *exact) {
    uint64_t product = (uint64_t)((const char *)pointer - granule) * page->reciprocal;
    *exact = (uint32_t)product < page->reciprocal;
    return (unsigned)(product >> 32);
}

/* Like blocks_index_narrow, but for any page. An index >= granule_capacity means no block; a
 * pointer before the first block wraps around to such an index. */
INLINE unsigned blocks_index(const struct page *page, const char *granule, const void *pointer,
                             bool *exact) {
    return blocks_index_narrow(page, granule + page->first, pointer, exact);
}

/* blocks_records_of returns the offset of the records in the granule of a block. In a narrow page
 * the offset contains the color, a number of bytes that differs from slice to slice. Without the
 * color, the records of all pages would stand at the same offset in OS pages, and so would share a
 * few sets of each CPU cache. blocks_color_of returns the color; `stand_in` is the stand-in of the
 * block's size class. In the header of a page, `records` contains the color, and color_mask is 0.
 */
INLINE size_t blocks_color_of(const struct page *stand_in, const void *block) {
    return ((uintptr_t)block >> SLICE_SHIFT & stand_in->color_mask) * stand_in->block_bytes;
}
INLINE size_t blocks_records_of(const struct page *page, const void *block) {
    return page->records + blocks_color_of(page, block);
}

/* Returns the bytes of the records of one granule. */
INLINE size_t blocks_record_bytes(const struct page *page) {
    size_t count = page->meta_shift & META_WIDE ? page->granule_capacity
                                                : page->granule_mask / page->block_bytes + 1;
    return count << (page->meta_shift & META_SHIFT);
}

INLINE void *blocks_record(const struct page *page, const char *granule, unsigned index) {
    return (char *)(uintptr_t)granule + page->records +
           ((size_t)index << (load_relaxed(&page->meta_shift) & META_SHIFT));
}

/* Returns the entry in page->owners for a block of a page with META_OWNERS. */
INLINE uint32_t *blocks_owner(const struct page *page, const char *granule, unsigned index) {
    /* the page has many granules; other pages with owners have one granule */
    if (page->granule_mask < OS_PAGE_BYTES)
        index += (unsigned)((size_t)(granule - segment_span_start(page)) / OS_PAGE_BYTES) *
                 page->granule_capacity;
    return &page->owners->views[index];
}

/* The next three functions set or clear flags of a page, and update page->changes_at. Only the
 * heap's owner, or its visitor while the owner waits, calls them. */
INLINE void flags_set(struct page *page, unsigned flags) {
    store_owner(&page->flags, (uint8_t)flags);
    /* A free that leaves changes_at blocks in use calls page_after_free. In a full page this is the
     * first free (current_is_full in bins.c may choose a later one). In a listed page, and in a
     * current page of a region, it is the free that empties the page (partial_push in bins.c may
     * choose an earlier one). In a current mixed page no free calls page_after_free. */
    page->changes_at = (uint16_t)(flags & PAGE_FULL                   ? page->used - 1
                                  : flags & PAGE_LISTED || page->view ? 0
                                                                      : UINT16_MAX);
}

INLINE void flag_set(struct page *page, enum page_flag flag) {
    flags_set(page, page->flags | flag);
}

INLINE void flag_clear(struct page *page, enum page_flag flag) {
    flags_set(page, page->flags & ~flag);
}

/* The contents of a record. Functions return the struct's 8 bytes in one register. */
struct record {
    uint32_t slack;      /* bytes of the block that were not requested; RECORD_FREE: it is free */
    uint32_t view_index; /* in a mixed page: index of the view that paid for the block; else 0 */
};
#define RECORD_FREE UINT32_MAX

void record_write(const struct page *page, void *record, uint32_t view, uint32_t slack);

struct record record_read(const struct page *page, const void *record);
/* Reads the record, and marks the block free. */
struct record record_release(const struct page *page, void *record);

/* Writes the record of a block that starts at `block`. */
void record_set(const struct page *page, const void *block, uint32_t view, uint32_t slack);
/* Like record_set, but only for narrow blocks. */
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

/* Creates a page for one size class; with `view` NULL, a mixed page. NULL: out of memory. */
struct page *blocks_page_create(struct heap *heap, struct view *view, unsigned size_class);
void blocks_page_destroy(struct heap *heap, struct page *page);
/* Like blocks_page_destroy, but for a visitor of the heap (remote_collect). Returns the bytes of
 * waste that end with the page, and leaves heap->own_free alone, because only the owner writes it.
 * The page has no META_OWNERS. */
int64_t blocks_page_destroy_visited(struct page *page);
/* Puts a chain of `length` blocks that other threads freed on the page's list of free blocks;
 * `last` is the last block of the chain. */
INLINE void blocks_take_back(struct page *page, void *chain, void *last, uint16_t length) {
    /* The chain is not read to its end, because its blocks are in no cache of this CPU. */
    if (page->free)
        *(void **)last = page->free;
    store_owner(&page->free, chain);
    store_owner(&page->used, (uint16_t)(page->used - length));
}
/* Sets the layout fields of a page, or of a stand-in. `bytes` is the size of the page; `own` says
 * that the page belongs to one context; `block_bytes` is at most the block size of the class. */
void blocks_set_layout(struct page *page, size_t bytes, bool own, unsigned size_class,
                       uint32_t block_bytes);
/* Returns the number of slices of a class's next page. `bins` NULL: the page is a mixed one. */
uint32_t blocks_page_slices(const struct bins *bins, unsigned size_class);
/* Notes that the page hands out no further untouched blocks. From now on heap.own_free counts no OS
 * page for the untouched end of the page. */
void blocks_tail_done(struct heap *heap, struct page *page);
/* Turns a context's own page into a mixed page. False: out of memory. */
bool blocks_become_mixed(struct page *page);
/* Makes the next untouched blocks of the page ready to be handed out: those behind the records of
 * the current granule, or those of the next granule. False: all blocks were handed out. */
bool blocks_open_granule(struct page *page);
/* Puts free blocks of a punched OS page (region/punch.h) back on the page's list. False: no OS page
 * of the page is punched. */
bool punch_refill(struct page *page);
/* True when the page can hand out a block. Makes a block ready if none is ready yet. */
INLINE bool blocks_has_free(struct page *page) {
    return page->free || page->fresh_left ||
           (!(page->flags & PAGE_USED_UP) && page->next_block && blocks_open_granule(page)) ||
           (UNLIKELY(load_plain(&page->meta_shift) & META_PUNCHED) && punch_refill(page));
}
/* Returns the bytes from the page's start to the end of the blocks that were handed out at least
 * once, rounded up to whole OS pages. The first OS page of an opened granule counts even if none of
 * the granule's blocks was handed out, because the records were written. */
INLINE size_t blocks_reached(const struct page *page, const char *start) {
    size_t bytes = (size_t)(page->next_block - start);
    size_t open = page->granule_mask < OS_PAGE_BYTES || !(bytes & page->granule_mask);
    return align_up(bytes + (open && page->fresh_left), OS_PAGE_BYTES);
}
/* True if the block was handed out at least once. Any thread that was given the block by its owner.
 * Where a granule was never opened, the records may say anything. The free of fast.h, in the
 * owner's thread, leaves this test out, because it would cost each free some instructions. */
INLINE bool blocks_was_handed_out(const struct page *page, const char *block) {
    return block < load_plain(&page->next_block);
}
/* Returns a bit for each OS page of the page that region/punch.h gave back to the kernel.
 * page.owners shares the word of page.punched, and the owner may be giving the page META_OWNERS at
 * the same time. The owner clears META_PUNCHED before it stores page.owners, so page.punched is
 * read before META_PUNCHED. */
INLINE uint64_t blocks_punched(const struct page *page) {
    uint64_t mask = load_acquire(&page->punched);
    return load_relaxed(&page->meta_shift) & META_PUNCHED ? mask : 0;
}
/* Returns the bytes of blocks_reached without the OS pages that were given back. */
INLINE size_t blocks_touched(const struct page *page, const char *start) {
    return blocks_reached(page, start) -
           (size_t)__builtin_popcountl(blocks_punched(page)) * OS_PAGE_BYTES;
}
/* Checks the page's list of free blocks; only the owner may call this function. False: the list
 * leads out of the page, or in a circle, because the program wrote to a free block. */
bool blocks_list_holds(const struct page *page);
/* Returns the number of blocks that were handed out at least once. */
size_t blocks_handed_out(const struct page *page);
/* The blocks of a granule that cannot be handed out, because the records take their place: `count`
 * blocks from number `first` on. */
struct reserved {
    unsigned first, count;
};
struct reserved blocks_reserved_in(const struct page *page);

/* region_list adds a page to a list of a region (`pages` or `large`), region_unlist removes it. */
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
/* Brings the page into the state of a new page: all blocks are free, and the first block is handed
 * out next. */
void blocks_rewind(struct heap *heap, struct page *page);
/* Sets a META_ flag of the page. Any thread. */
INLINE void blocks_mark(struct page *page, unsigned meta) {
    or_release(&page->meta_shift, (uint8_t)meta);
}
/* Makes frees in the page call segment_watch. Any thread that holds a chunk in the page may call
 * it. */
INLINE void blocks_watch(struct page *page) {
    blocks_mark(page, META_WATCHED);
}
INLINE bool blocks_are_watched(const struct page *page) {
    return load_relaxed(&page->meta_shift) & META_WATCHED;
}
/* Reads page.meta_shift before a common free. The thread sanitizer does not know that a processor
 * keeps the order of a visitor's writes: see heap_entered (region/heap.h). */
#ifdef __SANITIZE_THREAD__
#define blocks_meta(page) load_acquire(&(page)->meta_shift)
#else
#define blocks_meta(page) load_plain(&(page)->meta_shift)
#endif
/* Takes the first block off the page's list, and prefetches the next block. Without the prefetch,
 * the next call would wait for a block that another thread freed, because that block is in no cache
 * of this CPU. NULL is never prefetched: the CPU keeps no translation of an address that is not
 * mapped, so each such prefetch walks the page table, which takes longer than malloc and free. */
INLINE void blocks_unlink(struct page *page, const void *block) {
    void *next = *(void *const *)block;
    store_owner(&page->free, next);
    __builtin_prefetch(next ? next : block, 1);
}

/* Puts a block on the page's list. The stores are ordered: a child forked between them counts one
 * block too many as used, which is safe. */
INLINE void blocks_link(struct page *page, void *block) {
    *(void **)block = load_plain(&page->free);
    order_stores();
    store_owner(&page->free, block);
    order_stores();
    add_owner(&page->used, -1);
}

/* Frees a block. Only the page's owner calls it, after it marked the record free and counted the
 * free in the view. True: call page_after_free next. */
INLINE bool blocks_free_owned(struct heap *heap, struct page *page, void *block) {
    blocks_link(page, block);
    add_owner(&heap->own_free, page->waste_unit);
    return UNLIKELY(page->used == page->changes_at);
}

/* Like blocks_free_owned, but for a narrow block of a mixed page. The block goes to the heap's
 * recent blocks (heap.recent_room) if there is room, because the next allocation of this size class
 * takes that block first. */
INLINE bool blocks_free_mixed(struct heap *heap, struct page *page, void *block) {
    struct page *recent = heap_recent(heap, page->size_class);
    if (UNLIKELY(!recent->used))
        return blocks_free_owned(heap, page, block);
    blocks_link(recent, block);
    return false;
}

/* Like blocks_free_mixed, but for a page with META_OWNERS. */
INLINE bool blocks_free_with_owner(struct heap *heap, struct page *page, void *block) {
    struct page *recent = heap_recent(heap, page->size_class);
    if (UNLIKELY(!recent->used))
        return blocks_free_owned(heap, page, block);
    *(void **)block = recent->free_with_owners;
    /* In a child forked between the stores, the list may get one block above its bound: safe. */
    order_stores();
    store_owner(&recent->free_with_owners, block);
    order_stores();
    add_owner(&recent->used, -1);
    return false;
}

#endif
