/* SPDX-License-Identifier: MIT */
/*
 * Pages of equal blocks; see blocks.h for their layout.
 *
 * For: chunks up to 9 KiB. A page has a list of freed blocks, which are handed out first, and a
 * pointer to the first block that was never handed out. So memory that no chunk has used yet stays
 * untouched. The granules are opened one after the other: the next one when all blocks of the
 * previous one were handed out. Cannot do: hand out the blocks whose place the records take.
 */
#include "region/blocks.h"
#include "base/options.h"
#include "os/meta.h"
#include "region/punch.h"

/* The pages of a view with this many live bytes come from groups of slices that no other view uses
 * (segment_span_alloc_grouped). */
#define GROUPED_BYTES (256L << 10)
#define GRANULE_CAPACITY_MAX 255U /* page.granule_capacity has 8 bits */

CHILD_CONST const uint16_t blocks_bytes_table[SIZE_CLASSES] = {
    16,   32,   48,   64,   80,   96,   112,  128,  160,  192,  224,  256,  288,
    320,  352,  384,  416,  448,  480,  512,  640,  768,  896,  1024, 1152, 1280,
    1408, 1536, 1664, 1792, 1920, 2048, 2304, 2560, 2816, 3072, 3328, 3584, 3840,
    4096, 4608, 5120, 5632, 6144, 6656, 7168, 7680, 8192, 9216};

#define R2(c) c, c
#define R4(c) R2(c), R2(c)
#define R8(c) R4(c), R4(c)
CHILD_CONST const uint8_t blocks_class_table[NARROW_MAX / 16 + 1] = {
    0,      0,      1,      2,      3,      4,      5,      6,      7,
    R2(8),  R2(9),  R2(10), R2(11), R2(12), R2(13), R2(14), R2(15), R2(16),
    R2(17), R2(18), R2(19), R8(20), R8(21), R8(22), R8(23)};

static char *page_end(const struct page *page) {
    return segment_span_start(page) + page->slices * SLICE_BYTES;
}

struct reserved blocks_reserved_in(const struct page *page) {
    if (page->meta_shift & META_WIDE)
        return (struct reserved){0, 0};
    return (struct reserved){page->records / page->block_bytes,
                             (uint32_t)(blocks_record_bytes(page) + page->block_bytes - 1) /
                                 page->block_bytes};
}

/* Returns the number, within its granule, of the next untouched block, and the granule's start in
 * *granule. When the granule is used up, returns the number that a block behind the granule's end
 * would have. */
static unsigned next_index(const struct page *page, char **granule) {
    *granule = blocks_granule(page, page->next_block - (page->fresh_left ? 0 : page->block_bytes));
    return (unsigned)(page->next_block - *granule - page->first) / page->block_bytes;
}

/* A granule first hands out the blocks before its records, then the blocks behind them. */
bool blocks_open_granule(struct page *page) {
    struct reserved reserved = blocks_reserved_in(page);
    unsigned behind = reserved.first + reserved.count, end = page->granule_capacity, index = 0;
    char *granule = segment_span_start(page);
    bool is_new = true;
    if (page->next_block) {
        index = next_index(page, &granule);
        is_new = index >= behind || behind == end;
        granule += is_new ? (size_t)page->granule_mask + 1 : 0;
    }
    if (granule >= page_end(page)) {
        /* not flag_set, which would change page->changes_at */
        store_owner(&page->flags, (uint8_t)(page->flags | PAGE_USED_UP));
        return false;
    }
    bool own = (page->meta_shift & META_SHIFT) < 2;
    /* The records become "free". In mixed pages "free" is 0, so fresh memory needs no write. */
    if (is_new && (own || !page->fresh))
        __builtin_memset(granule + page->records, own ? UINT8_MAX : 0, blocks_record_bytes(page));
    index = is_new ? 0 : index;
    if (index == reserved.first)
        index = behind;
    else
        end = reserved.first;
    store_release(&page->next_block, granule + page->first + (size_t)index * page->block_bytes);
    store_owner(&page->fresh_left, (uint16_t)(end - index));
    return true;
}

bool blocks_list_holds(const struct page *page) {
    const char *start = segment_span_start(page), *end = start + page->slices * SLICE_BYTES;
    unsigned length = 0;
    for (const char *block = page->free; block; block = *(const char *const *)(const void *)block)
        if (block < start || block >= end || ++length > page->capacity)
            return false;
    return true;
}

size_t blocks_handed_out(const struct page *page) {
    struct reserved reserved = blocks_reserved_in(page);
    char *granule;
    unsigned index = next_index(page, &granule);
    size_t before = (size_t)(granule - segment_span_start(page)) / ((size_t)page->granule_mask + 1);
    if (index > reserved.first)
        index -= reserved.count;
    return before * (page->granule_capacity - reserved.count) + index;
}

void blocks_set_layout(struct page *page, size_t bytes, bool own, unsigned size_class,
                       uint32_t block_bytes) {
    size_t granule = block_bytes <= GRANULE_BLOCK_MAX                     ? OS_PAGE_BYTES
                     : size_class < NARROW_CLASSES && bytes > SLICE_BYTES ? SLICE_BYTES
                                                                          : bytes;
    unsigned shift = (own ? 0 : 2) + (size_class < NARROW_CLASSES ? 0 : 1);
    store_owner(&page->meta_shift, (uint8_t)(shift | (UNLIKELY(options.check) ? META_CHECKED : 0)));
    page->granule_mask = (uint16_t)(granule - 1);
    page->color_mask = 0;
    page->records = 0;
    store_owner(&page->block_bytes, block_bytes);
    if (size_class < NARROW_CLASSES) {
        size_t capacity = granule / block_bytes;
        if (capacity > GRANULE_CAPACITY_MAX)
            capacity = GRANULE_CAPACITY_MAX;
        page->granule_capacity = (uint8_t)capacity;
        size_t reserved = (blocks_record_bytes(page) + block_bytes - 1) / block_bytes;
        /* Each color below `colors` leaves the records in the granule's first OS page. */
        size_t colors = OS_PAGE_BYTES / block_bytes - reserved + 1;
        page->color_mask = (uint8_t)((1U << (31 - __builtin_clz((unsigned)colors))) - 1);
    } else {
        size_t capacity = granule / (block_bytes + (1U << shift));
        uint32_t alignment = blocks_wide_alignment(block_bytes);
        while (align_up(capacity << shift, alignment) + capacity * block_bytes > granule)
            capacity--;
        page->first = (uint16_t)align_up(capacity << shift, alignment);
        page->granule_capacity = (uint8_t)capacity;
    }
    page->reciprocal = (uint32_t)((1UL << 32) / block_bytes) + 1;
    page->waste_unit = (uint16_t)(own ? block_bytes : 0);
    page->size_class = (uint8_t)size_class;
}

static size_t granules_in(const struct page *page) {
    return page->slices * SLICE_BYTES / ((size_t)page->granule_mask + 1);
}

/* Terms may change the number of slices of pages whose blocks have at most this size. A page of one
 * slice would have too few larger blocks. */
#define RESIZABLE_MAX 2048U

uint32_t blocks_page_slices(const struct bins *bins, unsigned size_class) {
    if (LIKELY(!bins) || LIKELY(!bins->slices) || blocks_bytes_table[size_class] > RESIZABLE_MAX)
        return size_class < NARROW_CLASSES ? 1 : WIDE_PAGE_SLICES;
    return bins->slices;
}

struct page *blocks_page_create(struct heap *heap, struct view *view, unsigned size_class) {
    int64_t live = view ? view_live_bytes(view) : 0;
    bool large = live >= GROUPED_BYTES;
    uint32_t group = live >= GROUPED_BYTES * 2 ? 64 : 16;
    struct page *page = segment_span_alloc_by(
        &heap->span_cache, blocks_page_slices(view ? view->region : NULL, size_class), group,
        large ? &view->region->next_page : &heap->mixed.next_page);
    if (!page)
        return NULL;
    blocks_set_layout(page, page->slices * SLICE_BYTES, view != NULL, size_class,
                      view ? bins_block_bytes(view->region, size_class)
                           : blocks_bytes_table[size_class]);
    page->records = (uint16_t)blocks_records_of(page, segment_span_start(page));
    page->color_mask = 0; /* `records` contains the color from now on */
    unsigned capacity = page->granule_capacity - blocks_reserved_in(page).count;
    store_owner(&page->capacity, (uint16_t)(granules_in(page) * capacity));
    store_owner(&page->view, view);
    store_owner(&page->heap, heap);
    store_owner(&page->seen, PAGE_NOT_SEEN);
    blocks_open_granule(page);
    flags_set(page, view ? PAGE_TAIL : 0);
    if (view) {
        store_owner(&heap->own_free, heap->own_free + (int64_t)OS_PAGE_BYTES);
        heap->open_slices += page->slices;
    }
    store_release(&page->kind, view ? PAGE_OWN : PAGE_MIXED);
    return page;
}

void blocks_tail_done(struct heap *heap, struct page *page) {
    if (!(page->flags & PAGE_TAIL))
        return;
    flag_clear(page, PAGE_TAIL);
    heap->open_slices -= page->slices;
    store_owner(&heap->own_free, heap->own_free - (int64_t)OS_PAGE_BYTES);
}

static size_t owners_bytes(const struct page *page) {
    return sizeof *page->owners +
           granules_in(page) * page->granule_capacity * sizeof page->owners->views[0];
}

/* Returns the waste of the free blocks of a page that has no block in use. Blocks that are held out
 * (punch.h) are no waste: their memory went back to the kernel. */
static int64_t waste_of_blocks(const struct page *page) {
    size_t free_blocks = blocks_handed_out(page);
    if (UNLIKELY(page->meta_shift & META_PUNCHED))
        free_blocks -= punch_held(page);
    return (int64_t)free_blocks * page->waste_unit;
}

int64_t blocks_page_destroy_visited(struct page *page) {
    int64_t waste = waste_of_blocks(page);
    segment_span_free(page);
    return waste;
}

void blocks_page_destroy(struct heap *heap, struct page *page) {
    heap_await(heap); /* a visitor may be about to punch the page */
    blocks_tail_done(heap, page);
    store_owner(&heap->own_free, heap->own_free - waste_of_blocks(page));
    if (page->meta_shift & META_OWNERS)
        meta_free(page->owners, owners_bytes(page));
    if (UNLIKELY(load_relaxed(&heap->state) == HEAP_PARKED)) /* a parked heap needs no spans */
        segment_span_free(page);
    else
        segment_span_free_by(&heap->span_cache, page);
}

bool blocks_become_mixed(struct page *page) {
    struct view *view = page->view;
    struct owners *owners = meta_alloc(owners_bytes(page));
    if (!owners)
        return false;
    while (page->meta_shift & META_PUNCHED) /* page.punched and page.owners share a word */
        punch_refill(page);
    owners->start = segment_span_start(page);
    owners->count = granules_in(page) * page->granule_capacity;
    for (unsigned i = 0; i < owners->count; i++)
        owners->views[i] = view->index;
    page->owners = owners;
    /* A thread that frees a block at the same time finds the same view, either in page->view or in
     * the table, because the table is complete before page->view becomes NULL. See paid_by in
     * kind_blocks.c. */
    blocks_mark(page, META_OWNERS);
    store_release(&page->view, NULL);
    store_release(&page->kind, PAGE_MIXED);
    return true;
}

void blocks_rewind(struct heap *heap, struct page *page) {
    size_t free_blocks = blocks_handed_out(page) - page->used;
    store_owner(&heap->own_free, heap->own_free - (int64_t)free_blocks * page->waste_unit);
    page->free = NULL;
    page->fresh = 0;
    store_owner(&page->used, 0);
    store_owner(&page->fresh_left, 0);
    store_release(&page->next_block, NULL);
    store_owner(&page->flags, (uint8_t)(page->flags & ~PAGE_USED_UP));
    blocks_open_granule(page);
}
