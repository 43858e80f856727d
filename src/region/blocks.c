/* SPDX-License-Identifier: MIT */
/*
 * Pages of equal blocks, and the bins that hold them by size class.
 *
 * For: chunks up to 8 KiB. A page has a list of freed blocks, taken first, and a mark up to which
 * blocks were ever handed out, so that untouched memory stays untouched; its granules are opened
 * one after the other. A bin has one current page and a list of others with free blocks; full pages
 * are in no list and come back when some of their blocks are free. Blocks freed by other threads
 * wait in an atomic list of their page; the first one puts the page on the heap's list, and only
 * from there the owner collects, so a page cannot be given back while another thread is still
 * announcing it.
 */
#include "base/options.h"
#include "os/meta.h"
#include "region/policy.h"
#include "region/punch.h"
#include "region/serial.h"
#include "region/simple.h"
#include "region/slab.h"
#include "region/terms.h"

/* After this many pages that were denied, plus one for each view, all regions are searched for
 * empty pages. The views count because the search takes longer with each. */
#define SWEEP_EVERY 64U
/* A context with more live bytes than this gets groups of slices of its own for its pages. */
#define GROUPED_BYTES (256L << 10)
/* Allocations of a context between two occasions at which its empty pages are given back. */
#define RELEASE_EVERY 256
#define SPARE_SHIFT 5    /* a 32nd: see spare_of */
#define DONORS_MAX 64U   /* views looked at for a page to share */
#define DONATIONS_MAX 8U /* and pages of each */
#define GRANULE_CAPACITY_MAX 255U
#define POINTER_BITS 48
#define POINTER_MASK ((1UL << POINTER_BITS) - 1)

CHILD_CONST const uint16_t blocks_bytes_table[SIZE_CLASSES] = {
    16,   32,   48,   64,   80,   96,   112,  128,  160,  192,  224,  256,
    288,  320,  352,  384,  416,  448,  480,  512,  640,  768,  896,  1024,
    1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192};

#define R2(c) c, c
#define R4(c) R2(c), R2(c)
#define R8(c) R4(c), R4(c)
CHILD_CONST const uint8_t blocks_class_table[NARROW_MAX / 16 + 1] = {
    0,      0,      1,      2,      3,      4,      5,      6,      7,
    R2(8),  R2(9),  R2(10), R2(11), R2(12), R2(13), R2(14), R2(15), R2(16),
    R2(17), R2(18), R2(19), R8(20), R8(21), R8(22), R8(23)};

/* The largest class of each doubling, provided that the slack fits its record. */
static const uint8_t largest_of[SIZE_CLASSES] = {1,  1,  3,  3,  7,  7,  7,  7,  11, 11, 11, 11,
                                                 15, 15, 15, 15, 19, 19, 19, 19, 20, 21, 22, 23,
                                                 27, 27, 27, 27, 31, 31, 31, 31, 35, 35, 35, 35};

struct page heap_no_page FORK_PAGE;
#define NO_PAGE_4 &heap_no_page, &heap_no_page, &heap_no_page, &heap_no_page
#define NO_PAGE_16 NO_PAGE_4, NO_PAGE_4, NO_PAGE_4, NO_PAGE_4
const struct bins heap_no_bins = {.current = {NO_PAGE_16, NO_PAGE_16, NO_PAGE_4}};

static char *page_end(const struct page *page) {
    return segment_span_start(page) + page->slices * SLICE_BYTES;
}

/* Returns the place of the owner's view index for the block of this record. NULL: the page was
 * reused meanwhile and its table is gone; only a dump that reads a copy of the header may see
 * that. The library's tables stay mapped, so their words may be read all the same. */
static uint32_t *owner_of(const struct page *page, const void *record) {
    struct owners *owners = page->owners;
    if (!owners)
        return NULL;
    size_t offset = (size_t)((const char *)record - owners->start);
    bool many = page->granule_mask < OS_PAGE_BYTES; /* granules; else one */
    size_t number = ((many ? offset & page->granule_mask : offset) - page->records) >>
                    (page->meta_shift & META_WIDE);
    if (many)
        number += offset / OS_PAGE_BYTES * page->granule_capacity;
    return offset < WIDE_PAGE_SLICES * SLICE_BYTES && number < owners->count
               ? &owners->views[number]
               : NULL;
}

void record_write(const struct page *page, void *record, uint32_t view, uint32_t slack) {
    if (UNLIKELY(page->meta_shift & META_OWNERS))
        store_owner(owner_of(page, record), view);
    switch (page->meta_shift & META_SHIFT) {
    case 0: store_owner((uint8_t *)record, (uint8_t)slack); break;
    case 1: store_owner((uint16_t *)record, (uint16_t)slack); break;
    case 2: store_owner((uint32_t *)record, view << 8 | (slack + 1)); break;
    default: store_owner((uint64_t *)record, (uint64_t)view << 32 | (slack + 1));
    }
}

void record_set(const struct page *page, const void *block, uint32_t view, uint32_t slack) {
    const char *granule = blocks_granule(page, block);
    bool exact;
    unsigned index = blocks_index(page, granule, block, &exact);
    record_write(page, blocks_record(page, granule, index), view, slack);
}

/* Reads a record of a page with that shift; with `release`, also marks the block free. */
INLINE struct record record_visit(const struct page *page, uint8_t shift, void *record,
                                  bool release) {
    uint32_t view = 0;
    if (UNLIKELY(shift & META_OWNERS)) {
        const uint32_t *owner = owner_of(page, record);
        view = owner ? load_relaxed(owner) : 0;
    }
    switch (shift & META_SHIFT) {
    case 0: {
        uint8_t slack = load_relaxed((uint8_t *)record);
        if (release)
            store_owner((uint8_t *)record, UINT8_MAX);
        return (struct record){slack, view, slack == UINT8_MAX};
    }
    case 1: {
        uint16_t slack = load_relaxed((uint16_t *)record);
        if (release)
            store_owner((uint16_t *)record, UINT16_MAX);
        return (struct record){slack, view, slack == UINT16_MAX};
    }
    case 2: {
        uint32_t word = load_relaxed((uint32_t *)record);
        if (release)
            store_owner((uint8_t *)record, 0);
        return (struct record){(word & 0xff) - 1, word >> 8, !(word & 0xff)};
    }
    default: {
        uint64_t word = load_relaxed((uint64_t *)record);
        if (release)
            store_owner((uint32_t *)record, 0);
        return (struct record){(uint32_t)word - 1, (uint32_t)(word >> 32), !(uint32_t)word};
    }
    }
}

struct record record_read(const struct page *page, const void *record) {
    return record_visit(page, load_acquire(&page->meta_shift), (void *)(uintptr_t)record, false);
}

struct record record_release(const struct page *page, void *record) {
    return record_visit(page, load_acquire(&page->meta_shift), record, true);
}

struct reserved blocks_reserved_in(const struct page *page) {
    if (page->meta_shift & META_WIDE)
        return (struct reserved){0, 0};
    return (struct reserved){page->records / page->block_bytes,
                             (uint32_t)(blocks_record_bytes(page) + page->block_bytes - 1) /
                                 page->block_bytes};
}

/* Returns the number of the next block to be handed out within its granule, which may be the
 * granule's end. */
static unsigned next_index(const struct page *page, char **granule) {
    *granule = blocks_granule(page, page->next_block - (page->fresh_left ? 0 : page->block_bytes));
    return (unsigned)(page->next_block - *granule - page->first) / page->block_bytes;
}

/* A granule hands out first the blocks before the reserved ones, then the blocks behind them. */
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
        store_owner(&page->flags, (uint8_t)(page->flags | PAGE_USED_UP));
        return false;
    }
    bool own = (page->meta_shift & META_SHIFT) < 2;
    if (is_new && (own || !page->fresh)) /* marks of free blocks */
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

/* Sets the fields of a page that depend on the size class, on the bytes of a block (at most
 * those of the class), and on whether the page belongs to one context. */
static void set_layout(struct page *page, size_t bytes, bool own, unsigned size_class,
                       uint32_t block_bytes) {
    size_t granule = block_bytes <= GRANULE_BLOCK_MAX                     ? OS_PAGE_BYTES
                     : size_class < NARROW_CLASSES && bytes > SLICE_BYTES ? SLICE_BYTES
                                                                          : bytes;
    unsigned shift = (own ? 0 : 2) + (size_class < NARROW_CLASSES ? 0 : 1);
    page->meta_shift = (uint8_t)(shift | (UNLIKELY(options.check) ? META_CHECKED : 0));
    page->granule_mask = (uint16_t)(granule - 1);
    page->color_mask = 0;
    page->records = 0;
    page->block_bytes = block_bytes;
    if (size_class < NARROW_CLASSES) {
        size_t capacity = granule / block_bytes;
        if (capacity > GRANULE_CAPACITY_MAX)
            capacity = GRANULE_CAPACITY_MAX;
        page->granule_capacity = (uint8_t)capacity;
        size_t reserved = (blocks_record_bytes(page) + block_bytes - 1) / block_bytes;
        /* With each of these colors the records stay in the first OS page. */
        size_t colors = OS_PAGE_BYTES / block_bytes - reserved + 1;
        page->color_mask = (uint8_t)((1U << (31 - __builtin_clz((unsigned)colors))) - 1);
    } else {
        size_t capacity = granule / (block_bytes + (1U << shift));
        while (align_up(capacity << shift, CACHE_LINE) + capacity * block_bytes > granule)
            capacity--;
        page->first = (uint16_t)align_up(capacity << shift, CACHE_LINE);
        page->granule_capacity = (uint8_t)capacity;
    }
    page->reciprocal = (uint32_t)((1UL << 32) / block_bytes) + 1;
    page->waste_unit = (uint16_t)(own ? block_bytes : 0);
    page->size_class = (uint8_t)size_class;
}

static size_t granules_in(const struct page *page) {
    return page->slices * SLICE_BYTES / ((size_t)page->granule_mask + 1);
}

#define RESIZABLE_MAX 2048U /* of larger blocks too few fit into other pages */

/* Returns the number of slices of a class's next page; bins NULL: a mixed page. */
static uint32_t page_slices(const struct bins *bins, unsigned size_class) {
    if (LIKELY(!bins) || LIKELY(!bins->slices) || blocks_bytes_table[size_class] > RESIZABLE_MAX)
        return size_class < NARROW_CLASSES ? 1 : WIDE_PAGE_SLICES;
    return bins->slices;
}

static bool serves_terms(const struct bins *bins, const struct page *page) {
    bool zero = terms_table[bins->terms].flags & TERMS_ZERO;
    return page->slices == page_slices(bins, page->size_class) &&
           (!zero || load_relaxed(&page->meta_shift) & META_ALIGNED);
}

/* True when the page may serve new chunks of its class: the next page of the class would have
 * the same layout. */
INLINE bool bins_serve(struct bins *bins, const struct page *page) {
    return page->block_bytes == slab_block_bytes(bins, page->size_class) &&
           (LIKELY(!bins->terms) || serves_terms(bins, page)) &&
           simple_is(page) == (bins->policy == PLACE_SIMPLE);
}

struct page *blocks_page_create(struct heap *heap, struct view *view, unsigned size_class) {
    int64_t live = view ? view_live_bytes(view) : 0;
    bool large = live >= GROUPED_BYTES;
    uint32_t group = live >= GROUPED_BYTES * 2 ? 64 : 16;
    struct page *page =
        segment_span_alloc_grouped(page_slices(view ? view->region : NULL, size_class), group,
                                   large ? &view->region->next_page : &heap->mixed.next_page);
    if (!page)
        return NULL;
    set_layout(page, page->slices * SLICE_BYTES, view != NULL, size_class,
               view ? slab_block_bytes(view->region, size_class) : blocks_bytes_table[size_class]);
    page->records = (uint16_t)blocks_records_of(page, segment_span_start(page));
    page->color_mask = 0; /* that was it */
    page->capacity =
        (uint32_t)granules_in(page) * (page->granule_capacity - blocks_reserved_in(page).count);
    page->view = view;
    page->heap = heap;
    blocks_open_granule(page);
    flags_set(page, view ? PAGE_TAIL : 0);
    if (view)
        store_owner(&heap->own_free, heap->own_free + (int64_t)OS_PAGE_BYTES);
    store_release(&page->kind, view ? PAGE_OWN : PAGE_MIXED);
    return page;
}

/* Called when all blocks were handed out once: from now on no OS page is partly touched. */
static void tail_done(struct heap *heap, struct page *page) {
    if (!(page->flags & PAGE_TAIL))
        return;
    flag_clear(page, PAGE_TAIL);
    store_owner(&heap->own_free, heap->own_free - (int64_t)OS_PAGE_BYTES);
}

static size_t owners_bytes(const struct page *page) {
    return sizeof *page->owners +
           granules_in(page) * page->granule_capacity * sizeof page->owners->views[0];
}

void blocks_page_destroy(struct heap *heap, struct page *page) {
    tail_done(heap, page);
    size_t free_blocks = blocks_handed_out(page);
    if (UNLIKELY(page->meta_shift & META_PUNCHED)) /* those that are held out are no waste */
        free_blocks -= punch_held(page);
    store_owner(&heap->own_free, heap->own_free - (int64_t)free_blocks * page->waste_unit);
    if (page->meta_shift & META_OWNERS)
        meta_free(page->owners, owners_bytes(page));
    segment_span_free(page);
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

void bins_init(struct bins *bins) {
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        bins->current[i] = &heap_no_page;
        bins->partial[i] = NULL;
    }
}

/* The most bytes of a size class that may wait as recent blocks; the number of blocks is
 * limited, too. */
#define RECENT_BYTES 2048U
#define RECENT_MAX 32U

static uint16_t recent_room(unsigned size_class) {
    unsigned room = RECENT_BYTES / blocks_bytes_table[size_class];
    return (uint16_t)(room < RECENT_MAX ? room : RECENT_MAX);
}

static void classes_init(struct heap *heap) {
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        heap->served_by[i] = largest_of[i];
    for (unsigned i = 0; i <= NARROW_MAX / 16; i++)
        heap->size_served_by[i] = largest_of[blocks_class_table[i]];
}

void bins_split_class(struct heap *heap, unsigned size_class) {
    if (heap->served_by[size_class] == size_class)
        return;
    heap->served_by[size_class] = (uint8_t)size_class;
    for (unsigned i = 0; i <= NARROW_MAX / 16; i++)
        if (blocks_class_table[i] == size_class)
            heap->size_served_by[i] = (uint8_t)size_class;
}

void bins_init_mixed(struct heap *heap) {
    bins_init(&heap->mixed);
    classes_init(heap);
    for (unsigned i = 0; i < NARROW_CLASSES; i++) {
        struct page *recent = heap_recent(heap, i);
        set_layout(recent, SLICE_BYTES, false, i, blocks_bytes_table[i]);
        recent->free = NULL;
        recent->used = recent_room(i);
        recent->behind = &heap_no_page;
        heap->mixed.current[i] = recent;
    }
}

/* Gives the recent blocks back to their pages. */
static void flush_recent(struct heap *heap) {
    for (unsigned i = 0; i < NARROW_CLASSES; i++) {
        struct page *recent = heap_recent(heap, i);
        void *block = recent->free;
        recent->free = NULL;
        recent->used = recent_room(i);
        while (block) {
            void *next = *(void **)block;
            struct page *page = segment_page_of(block);
            if (blocks_free_owned(heap, page, block))
                blocks_freed_rarely(heap, page, block);
            block = next;
        }
    }
}

struct pool *bins_apart(struct heap *heap) {
    if (heap->apart)
        return heap->apart;
    struct pool *pool = meta_alloc(sizeof *pool);
    if (!pool)
        return NULL;
    bins_init(&pool->bins);
    for (unsigned i = 0; i < NARROW_CLASSES; i++) {
        struct page *stand_in = (struct page *)pool->stand_ins[i];
        set_layout(stand_in, SLICE_BYTES, false, i, blocks_bytes_table[i]);
        stand_in->behind = &heap_no_page;
        pool->bins.current[i] = stand_in;
    }
    heap->apart = pool;
    return pool;
}

static bool is_apart(const struct heap *heap, const struct bins *bins) {
    return UNLIKELY(heap->apart != NULL) && bins == &heap->apart->bins;
}

/* Returns the place of the pointer to the current page of a size class. If there is a stand-in,
 * this is the stand-in's `behind`. */
static struct page **current_of(struct heap *heap, struct bins *bins, unsigned size_class) {
    return (bins == &heap->mixed || is_apart(heap, bins)) && size_class < NARROW_CLASSES
               ? &bins->current[size_class]->behind
               : &bins->current[size_class];
}

/* Appends a page to the list of pages with free blocks. The `prev` of the first page is the last
 * page. The page that waits longest is used first; with bands, pages that are at least half full
 * come before the others. */
static void partial_push(struct bins *bins, struct page *page) {
    struct page **head = &bins->partial[page->size_class], **emptier = slab_band(bins, page);
    uint32_t half = page->capacity / 2;
    bool fuller = emptier && page->used > half;
    struct page *behind = fuller ? *emptier : NULL;
    if (page->view && page->view->bins != &heap_no_bins)
        page->view->bins = bins; /* it has free blocks of its own again */
    flag_set(page, PAGE_LISTED);
    if (fuller)
        page->rare_at = (uint16_t)half;
    else if (emptier && !*emptier)
        *emptier = page;
    page->next = behind;
    if (!*head) {
        page->prev = page;
        *head = page;
        return;
    }
    struct page *at =
        behind ? behind : *head; /* whose `prev` is the one before it, or the last one */
    page->prev = at->prev;
    at->prev = page;
    if (behind == *head)
        *head = page;
    else
        page->prev->next = page;
}

void bins_unlist(struct bins *bins, struct page *page) {
    struct page **head = &bins->partial[page->size_class], **emptier = slab_band(bins, page);
    if (emptier && *emptier == page)
        *emptier = page->next;
    if (page == *head) {
        *head = page->next;
        if (page->next)
            page->next->prev = page->prev;
    } else {
        page->prev->next = page->next;
        (page->next ? page->next : *head)->prev = page->prev;
    }
    page->next = page->prev = NULL;
    flag_clear(page, PAGE_LISTED);
}

static struct bins *bins_of(struct heap *heap, const struct page *page) {
    if (page->kind == PAGE_OWN)
        return page->view->region;
    return UNLIKELY(page->meta_shift & META_APART) ? &heap->apart->bins : &heap->mixed;
}

/* Returns how many blocks of a full page may be free before the page is used again: finding a
 * page with one free block takes longer than using it. Free blocks of mixed pages are mostly
 * reused before their page hears of them (heap.recent_room). */
static uint32_t spare_of(const struct page *page) {
    if (!page->view)
        return 0;
    return page->capacity >>
           (page->view->region->policy == PLACE_SLAB ? SLAB_SPARE_SHIFT : SPARE_SHIFT);
}

static void current_is_full(struct heap *heap, struct page *page) {
    if (page == &heap_no_page)
        return;
    store_owner(&page->filled, load_relaxed(&segment_clock));
    flag_set(page, PAGE_FULL);
    tail_done(heap, page);
    uint32_t spare = spare_of(page);
    page->rare_at = (uint16_t)(page->used > spare ? page->used - 1 - spare : 0);
    if (UNLIKELY(page->view && region_of(page->view->region)->named))
        region_list(&region_of(page->view->region)->pages, page);
}

void bins_put_aside(struct heap *heap, struct bins *bins, unsigned size_class) {
    struct page *page = bins->current[size_class];
    bins->current[size_class] = &heap_no_page;
    if (page == &heap_no_page)
        return;
    if (!page->used)
        blocks_page_destroy(heap, page);
    else if (bins_serve(bins, page) && blocks_has_free(page))
        partial_push(bins, page);
    else
        current_is_full(heap, page);
}

void bins_put_aside_others(struct heap *heap, struct bins *bins, unsigned size_class) {
    if (!bins_serve(bins, bins->current[size_class]))
        bins_put_aside(heap, bins, size_class);
    for (struct page *page = bins->partial[size_class], *next; page; page = next) {
        next = page->next;
        if (bins_serve(bins, page))
            continue;
        bins_unlist(bins, page);
        current_is_full(heap, page);
    }
}

bool bins_switch(struct heap *heap, struct bins *bins, unsigned size_class) {
    struct page **current = current_of(heap, bins, size_class);
    if (blocks_has_free(*current))
        return true;
    do {
        struct page *next = bins->partial[size_class];
        if (!next)
            return false;
        current_is_full(heap, *current);
        bins_unlist(bins, next);
        *current = next;
    } while (!blocks_has_free(*current)); /* of a page that was given back in part, some again */
    struct page *after = bins->partial[size_class];
    if (after) { /* what the next switch will wait for */
        __builtin_prefetch(after->free, 1);
        __builtin_prefetch(after->next, 1);
    }
    return true;
}

unsigned bins_share_class(struct heap *heap, unsigned size_class) {
    unsigned largest = heap->served_by[size_class];
    if (largest != size_class && *current_of(heap, &heap->mixed, largest) != &heap_no_page &&
        !bins_switch(heap, &heap->mixed, largest)) {
        bins_split_class(heap, size_class);
        return size_class;
    }
    return largest;
}

/* Turns a context's own page, which is in the context's list, into a mixed page. False: out of
 * memory. */
static bool own_becomes_mixed(struct page *page) {
    struct view *view = page->view;
    struct owners *owners = meta_alloc(owners_bytes(page));
    if (!owners)
        return false;
    while (page->meta_shift & META_PUNCHED) /* its mask stands where `owners` will */
        punch_refill(page);
    owners->start = segment_span_start(page);
    owners->count = granules_in(page) * page->granule_capacity;
    for (unsigned i = 0; i < owners->count; i++)
        owners->views[i] = view->index;
    bins_unlist(view->region, page);
    page->owners = owners;
    /* Threads that free a block meanwhile find the same owner in the page before and after: see
     * paid_by. */
    blocks_mark(page, META_OWNERS);
    store_release(&page->view, NULL);
    store_release(&page->kind, PAGE_MIXED);
    return true;
}

/* Past the waste cap the free blocks of contexts with pages of their own serve all contexts.
 * Before it, only those of contexts that are to have no pages of their own do (PLACE_SHARED). */
static bool may_share(const struct view *view, bool past_cap) {
    enum placement placement = heap_placement(view->context);
    return placement == PLACE_SHARED || (placement == PLACE_DEFAULT && past_cap);
}

static struct page *share_own_page(struct heap *heap, unsigned size_class, bool past_cap) {
    for (unsigned looks = 0; looks < DONORS_MAX && looks < heap->view_count; looks++) {
        if (heap->donor >= heap->view_count)
            heap->donor = 1;
        const struct view *view = heap_view_at(heap, heap->donor);
        const struct bins *region = may_share(view, past_cap) ? view->region : NULL;
        struct page *page = region ? region->partial[size_class] : NULL;
        for (unsigned i = 0; i < DONATIONS_MAX && page; i++, page = page->next)
            if (page->used <= page->capacity - page->capacity / 8 &&
                page->block_bytes == blocks_bytes_table[size_class])
                return own_becomes_mixed(page) ? page : NULL;
        heap->donor++;
    }
    return NULL;
}

struct page *bins_next_page(struct heap *heap, struct bins *bins, struct view *view,
                            unsigned size_class) {
    struct page **current = current_of(heap, bins, size_class);
    struct page *page = NULL;
    if (bins_switch(heap, bins, size_class))
        return *current;
    current_is_full(heap, *current);
    /* Past the waste cap this context's new chunks share mixed pages. */
    enum placement placement = view ? heap_placement(view->context) : PLACE_DEFAULT;
    bool below_cap = heap_may_segregate(heap);
    bool segregate = placement == PLACE_DEFAULT ? below_cap : placement != PLACE_SHARED;
    bool apart = is_apart(heap, bins);
    if (!view && !apart && (!below_cap || load_relaxed(&heap_placed_any) & 1U << PLACE_SHARED))
        page = share_own_page(heap, size_class, !below_cap);
    if (view ? segregate : !page) {
        page = blocks_page_create(heap, view, size_class);
        if (page && apart)
            blocks_mark(page, META_APART);
        if (page && UNLIKELY(bins->terms) && terms_table[bins->terms].flags & TERMS_ZERO)
            blocks_mark(page, META_ALIGNED); /* what makes a free go the further way */
        if (page && view && UNLIKELY(policy_of(bins)->lists_chunks)) {
            blocks_mark(page, META_ALIGNED);
            flag_set(page, PAGE_SIMPLE);
        }
    } else if (view && ++heap->denied >= SWEEP_EVERY + heap->view_count) {
        heap->denied = 0;
        regions_release_empty(heap); /* current pages that are empty, the one waste we hold */
    }
    *current = page ? page : &heap_no_page;
    return page;
}

/* Called when a current page got empty for the first time since it became current. The empty
 * pages of its region are given back, unless the context will need them again soon: it made some
 * allocations since the last time, but fewer than RELEASE_EVERY. */
static void current_is_empty(struct heap *heap, struct page *page) {
    struct bins *region = page->view->region;
    uint64_t since = page->view->allocs - region->allocs_at_release;
    page->rare_at = UINT16_MAX;
    if (since && since < RELEASE_EVERY)
        return;
    region->allocs_at_release = page->view->allocs;
    bins_release_empty(heap, region);
}

static void bins_freed_into(struct heap *heap, struct page *page) {
    struct bins *bins = bins_of(heap, page);
    if (page->flags & (PAGE_FULL | PAGE_LISTED) && page->used > page->rare_at)
        return;
    if (page->flags & PAGE_FULL) {
        bool listed = UNLIKELY(page->view && region_of(bins)->named);
        if (listed)
            region_unlist(&region_of(bins)->pages, page);
        flag_clear(page, PAGE_FULL);
        if (!page->used)
            blocks_page_destroy(heap, page);
        else if (LIKELY(bins_serve(bins, page)))
            partial_push(bins, page);
        else { /* to be looked at with its next free again */
            flag_set(page, PAGE_FULL);
            if (listed)
                region_list(&region_of(bins)->pages, page);
        }
    } else if (page->flags & PAGE_LISTED) {
        bins_unlist(bins, page);
        if (page->used)
            partial_push(bins, page); /* half full: behind those that are more */
        else
            blocks_page_destroy(heap, page);
    } else if (!page->used && page->kind == PAGE_OWN) {
        current_is_empty(heap, page);
    }
}

void blocks_freed_rarely(struct heap *heap, struct page *page, void *block) {
    if (blocks_are_watched(page))
        segment_watch(block);
    bins_freed_into(heap, page);
}

void bins_release_page(struct heap *heap, struct page *page, void *block) {
    if (blocks_are_watched(page))
        segment_watch(block);
    *current_of(heap, bins_of(heap, page), page->size_class) = &heap_no_page;
    blocks_page_destroy(heap, page);
}

void bins_release_empty(struct heap *heap, struct bins *bins) {
    if (bins == &heap->mixed)
        flush_recent(heap);
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        struct page **current = current_of(heap, bins, i), *page = *current;
        if (page == &heap_no_page || page->used)
            continue;
        *current = &heap_no_page;
        blocks_page_destroy(heap, page);
    }
}

void regions_release_empty(struct heap *heap) {
    if (heap->apart)
        bins_release_empty(heap, &heap->apart->bins);
    for (uint32_t i = 1; i < heap->view_count; i++) {
        struct bins *region = heap_view_at(heap, i)->region;
        if (!region)
            continue;
        bins_release_empty(heap, region);
        serial_release_empty(region_of(region));
    }
}

void blocks_free_remote(struct page *page, void *block) {
    if (UNLIKELY(blocks_are_watched(page)))
        segment_watch(block);
    uint64_t head = load_relaxed(&page->remote);
    uint64_t new_head;
    do {
        *(void **)block = (void *)(head & POINTER_MASK);
        new_head = ((head >> POINTER_BITS) + 1) << POINTER_BITS | (uintptr_t)block;
    } while (!cas_acq_rel(&page->remote, &head, new_head)); /* acquire: remote_next is free */
    if (head)
        return;
    struct heap *heap = page->heap;
    struct page *first = load_relaxed(&heap->remote_pages);
    do
        store_owner(&page->remote_next, first);
    while (!cas_release(&heap->remote_pages, &first, page));
}

void bins_collect_remote(struct heap *heap) {
    struct page *page = exchange_acquire(&heap->remote_pages, NULL);
    while (page) {
        struct page *next =
            load_relaxed(&page->remote_next); /* before others may announce the page anew */
        uint64_t head = exchange_acq_rel(&page->remote, 0);
        void *block = (void *)(head & POINTER_MASK);
        uint16_t count = (uint16_t)(head >> POINTER_BITS);
        if (UNLIKELY(page->kind == PAGE_SERIAL)) {
            serial_collect(heap, page, block);
            page = next;
            continue;
        }
        if (simple_is(page))
            simple_unlink_all(page, block);
        if (page->free) { /* mostly there is none, and the blocks are not looked at: they are in no
                             cache */
            void *last = block;
            while (*(void **)last)
                last = *(void **)last;
            *(void **)last = page->free;
        }
        page->free = block;
        store_owner(&page->used, (uint16_t)(page->used - count));
        store_owner(&heap->own_free, heap->own_free + (int64_t)count * page->waste_unit);
        bins_freed_into(heap, page);
        page = next;
    }
}
