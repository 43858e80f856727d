/* SPDX-License-Identifier: MIT */
/* Tests of src/region: size classes, records, pages and their states, sizes that share pages,
 * growth in place. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "os/meta.h"
#include "region/aset.h"
#include "region/region.h"
#include "region/resizes.h"
#include "region_tests.h"
#include "segment_tests.h"

Test(blocks, classes_hold_what_they_are_for) {
    unsigned last = 0;
    for (size_t size = 0; size <= SMALL_MAX; size++) {
        unsigned size_class = blocks_class_of(size);
        uint32_t bytes = blocks_bytes_table[size_class];
        cr_assert_lt(size_class, SIZE_CLASSES);
        cr_assert_geq(bytes, size);
        cr_assert_eq(bytes % 16, 0);
        cr_assert_geq(size_class, last);
        if (size_class > 0 && size > 0)
            cr_assert_lt(blocks_bytes_table[size_class - 1], size, "size %zu fits a class less",
                         size);
        if (size > 64)
            cr_assert_leq(bytes - size, size / 4 + 16, "size %zu in %u", size, bytes);
        last = size_class;
    }
    cr_assert_eq(last, SIZE_CLASSES - 1);
}

static char place[64];

Test(blocks, the_reciprocal_divides_exactly) {
    for (unsigned size_class = 0; size_class < SIZE_CLASSES; size_class++) {
        uint32_t bytes = blocks_bytes_table[size_class];
        struct page page = {.meta_shift = META_WIDE,
                            .first = 64,
                            .block_bytes = bytes,
                            .reciprocal = (uint32_t)((1ULL << 32) / bytes + 1)};
        bool exact;
        for (uintptr_t offset = 0; offset < WIDE_PAGE_SLICES * SLICE_BYTES - 64; offset++) {
            const void *pointer = (char *)((uintptr_t)place + 64 + offset);
            cr_assert_eq(blocks_index(&page, place, pointer, &exact), offset / bytes);
            cr_assert_eq(exact, offset % bytes == 0);
        }
        for (uintptr_t offset = 0; offset < SLICE_BYTES; offset++) {
            const void *pointer = place + offset;
            cr_assert_eq(blocks_index_narrow(&page, place, pointer, &exact), offset / bytes);
            cr_assert_eq(exact, offset % bytes == 0);
        }
        for (uintptr_t offset = 0; offset < 64; offset++) /* the first 64 bytes hold the records */
            cr_assert_gt(blocks_index(&page, place, place + offset, &exact), UINT8_MAX);
    }
}

Test(region, records_of_all_shapes_round_trip) {
    static char room[128] __attribute__((aligned(64)));
    static const uint32_t slack_max[] = {SLACK_NARROW_MAX, UINT16_MAX - 1, SLACK_NARROW_MAX,
                                         SMALL_MAX};
    struct owners *owners = calloc(1, sizeof *owners + 9 * sizeof owners->views[0]);
    cr_assert(owners != NULL);
    owners->start = room;
    owners->count = 8;
    for (uint8_t shape = 0; shape < 6; shape++) {
        uint8_t shift = shape & 3;
        struct page page = {.meta_shift = shape, .granule_mask = 127};
        if (shape & META_OWNERS) {
            page.owners = owners;
            page.granule_capacity = 8;
        }
        void *at = room + (1UL << shift);
        for (uint32_t slack = 0; slack <= slack_max[shift]; slack++) {
            uint32_t view = shape < 2 ? 0 : 1 + slack * 7 % (VIEWS_PER_BLOCK * VIEW_BLOCKS - 1);
            memset(room, 0x33, sizeof room);
            record_write(&page, at, view, slack);
            struct record record = record_read(&page, at);
            cr_assert_eq(record.slack, slack);
            cr_assert_eq(record.view_index, view);
            size_t width = 1UL << shift;
            cr_assert_eq(room[width - 1], 0x33, "the record before was touched");
            cr_assert_eq(room[2 * width], 0x33, "the record behind was touched");
            cr_assert_eq(record_release(&page, at).slack, slack);
            cr_assert_eq(record_read(&page, at).slack, RECORD_FREE);
        }
        if (shape & META_OWNERS) /* no other block's view was written */
            cr_assert(!owners->views[0] && owners->views[1] && !owners->views[2]);
    }
    /* A dump may read a page header while the page is given back or made anew, so its table of
     * views may be missing, too short or another page's. */
    struct page page = {.meta_shift = META_OWNERS, .granule_mask = 127, .granule_capacity = 8};
    memset(room, 0x33, sizeof room);
    cr_assert_eq(record_read(&page, room + 1).view_index, 0, "a page without a table");
    page.owners = owners;
    cr_assert_neq(record_read(&page, room + 1).view_index, 0);
    owners->views[8] = owners->views[4] = 5;
    cr_assert_eq(record_read(&page, room + 8).view_index, 0, "a table that is too short");
    page.granule_mask = SLICE_BYTES - 1;
    cr_assert_eq(record_read(&page, room + 4).view_index, 5);
    owners->start = (char *)((uintptr_t)room - (1UL << 20));
    cr_assert_eq(record_read(&page, room + 4).view_index, 0, "the table of another page");
    free(owners);
}

/* Returns a view that has a region, as large contexts get one. */
static struct view *view_of_own(struct heap *heap, uint32_t context) {
    struct view *view = heap_view(heap, context);
    struct region *region = meta_alloc(sizeof *region);
    cr_assert(region != NULL);
    bins_init(&region->bins);
    view->region = &region->bins;
    return view;
}

static void check_page(struct heap *heap, struct page *page) {
    cr_assert(page != NULL);
    const struct view *view = page->view;
    unsigned size_class = page->size_class;
    char *start = segment_span_start(page), *end = start + page->slices * SLICE_BYTES;
    size_t granule_bytes = (size_t)page->granule_mask + 1;
    unsigned seen = 0;
    char *last = start;
    size_t record_bytes = blocks_record_bytes(page);
    if (size_class < NARROW_CLASSES)
        cr_assert_leq(page->records + record_bytes, OS_PAGE_BYTES);
    do {
        for (; page->fresh_left; seen++) {
            char *block = page->next_block;
            char *granule = blocks_granule(page, block);
            bool exact;
            unsigned k = blocks_index(page, granule, block, &exact);
            cr_assert_eq((size_t)(granule - start) % granule_bytes, 0);
            cr_assert(block + page->block_bytes <= granule + page->records ||
                      block >= granule + page->records + record_bytes);
            cr_assert_lt(k, page->granule_capacity);
            if (!view && size_class < NARROW_CLASSES)
                cr_assert_eq(blocks_records_of(heap_recent(heap, size_class), block),
                             page->records);
            cr_assert_geq(block, last);
            cr_assert_leq(block + page->block_bytes, granule + granule_bytes);
            last = block + page->block_bytes;
            cr_assert_eq((uintptr_t)block % 16, 0);
            if (page->block_bytes % 64 == 0)
                cr_assert_eq((uintptr_t)block % 64, 0);
            cr_assert(exact);
            cr_assert_eq(segment_page_of(block), page);
            cr_assert_eq(record_read(page, blocks_record(page, granule, k)).slack, RECORD_FREE);
            page->next_block += page->block_bytes;
            page->fresh_left--;
        }
    } while (blocks_open_granule(page));
    cr_assert_leq(last, end);
    cr_assert_eq(seen, page->capacity);
    /* In mixed pages with 16-byte blocks the records take a quarter of the page. */
    unsigned used = !view && page->block_bytes == 16 ? 74 : 79;
    cr_assert_geq(seen * page->block_bytes * 100, used * page->slices * SLICE_BYTES, "%u bytes",
                  page->block_bytes);
    heap->own_free += (int64_t)seen * page->waste_unit; /* as if all blocks had been freed */
    blocks_page_destroy(heap, page);
}

Test(region, blocks_of_a_page_lie_apart_from_records_and_each_other) {
    struct heap *heap = heap_new();
    struct view *view = view_of_own(heap, 9);
    for (unsigned i = 0; i < SIZE_CLASSES * 2; i++)
        check_page(heap, blocks_page_create(heap, i % 2 ? view : NULL, i / 2));
    view->region->policy = PLACE_SLAB;
    for (size_t bytes = 16; bytes <= SMALL_MAX; bytes += 16) {
        unsigned size_class = blocks_class_of(bytes);
        region_of(view->region)->units[size_class] = (uint16_t)(bytes / 16);
        check_page(heap, blocks_page_create(heap, view, size_class));
    }
    cr_assert_eq(heap->own_free, 0);
    cr_assert_eq(segment_used_bytes(), 0);
}

Test(region, a_page_is_current_then_full_then_partial_then_gone) {
    enum { BYTES = 1024 };
    static void *chunks[64];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    unsigned class = blocks_class_of(BYTES);
    options.promote_bytes = 1 << 30; /* mixed pages only */
    /* freed blocks go to their pages at once, not to the stand-in */
    heap_recent(heap, class)->used = 0;
    chunks[0] = region_alloc(heap, view, BYTES, false);
    struct page *page = segment_page_of(chunks[0]);
    cr_assert_eq(heap->mixed.current[class], heap_recent(heap, class));
    cr_assert_eq(heap_recent(heap, class)->behind, page);
    unsigned count = page->capacity;
    cr_assert_leq(count, 60);
    for (unsigned i = 1; i <= count; i++)
        chunks[i] = region_alloc(heap, view, BYTES, false);
    cr_assert_neq(segment_page_of(chunks[count]), page, "a full page gave one more block");
    cr_assert(page->flags & PAGE_FULL);
    cr_assert_null(heap->mixed.partial[class]);
    region_free(heap, chunks[0]);
    cr_assert_eq(heap->mixed.partial[class], page, "the first free did not list the page again");
    cr_assert_not(page->flags & PAGE_FULL);
    for (unsigned i = 1; i < count; i++)
        region_free(heap, chunks[i]);
    cr_assert_null(heap->mixed.partial[class], "an empty page is still listed");
    cr_assert_eq(segment_used_bytes(), (int64_t)SLICE_BYTES, "an empty page was not given back");
    region_free(heap, chunks[count]);
    bins_release_empty(heap, &heap->mixed);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* The page that was listed first has had the most time to collect free blocks, so it serves longest
 * before the next search. */
Test(region, of_pages_with_free_blocks_the_one_listed_first_is_next) {
    enum { BYTES = 2000, PAGES = 5 }; /* no other size has blocks of this class */
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    static void *chunks[PAGES * 64];
    struct page *pages[PAGES];
    unsigned class = bins_class_of(heap, BYTES), count = 0, n = 0;
    options.promote_bytes = 1 << 30; /* mixed pages only */
    while (n < PAGES) {
        chunks[count] = region_alloc(heap, view, BYTES, false);
        if (!n || segment_page_of(chunks[count]) != pages[n - 1])
            pages[n++] = segment_page_of(chunks[count]);
        count++;
    }
    static const unsigned order[] = {2, 0, 3, 1};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0, freed = 0; freed < 2; k++)
            if (chunks[k] && segment_page_of(chunks[k]) == pages[order[i]]) {
                region_free(heap, chunks[k]);
                chunks[k] = NULL;
                freed++;
            }
    const struct page *last = pages[PAGES - 1];
    for (unsigned i = 0; i < 4;) { /* uses up the current page first */
        const struct page *page = segment_page_of(region_alloc(heap, view, BYTES, false));
        if (page == last)
            continue;
        cr_assert_eq(page, pages[order[i]], "%u", i);
        last = page;
        i++;
    }
    cr_assert_null(heap->mixed.partial[class]);
}

Test(region, sizes_of_a_doubling_share_one_page_until_it_is_full) {
    static void *first[SIZE_CLASSES], *chunks[1024];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    int64_t live = 0;
    options.promote_bytes = 1 << 30;              /* mixed pages only */
    for (unsigned i = 0; i < SIZE_CLASSES; i++) { /* one chunk of the least size of each class */
        size_t size = i ? blocks_bytes_table[i - 1] + 1 : 0;
        first[i] = region_alloc(heap, view, size, false);
        live += (int64_t)size;
        const struct page *page = segment_page_of(first[i]);
        cr_assert_leq(page->block_bytes - size, size <= 1024 ? SLACK_NARROW_MAX : SMALL_MAX);
        cr_assert_eq(page->size_class, bins_class_of(heap, size));
        if (size && size <= NARROW_MAX)
            cr_assert_eq(page->size_class, bins_class_narrow(heap, size));
    }
    /* the size classes with blocks of 80 to 128 bytes */
    static const unsigned doubling[] = {4, 5, 6, 7};
    struct page *shared = segment_page_of(first[7]);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(segment_page_of(first[doubling[i]]), shared);
    unsigned count = 0;
    do
        chunks[count++] = region_alloc(heap, view, 100, false);
    while (segment_page_of(chunks[count - 1]) == shared);
    cr_assert_eq(count + 3, shared->capacity, "the page was not full");
    live += 100 * count;
    cr_assert_eq(segment_page_of(chunks[count - 1])->block_bytes, 112,
                 "behind a full shared page, the size gets a page of its own");
    cr_assert_eq(bins_class_narrow(heap, 100), 6);
    cr_assert_eq(bins_class_of(heap, 90), 7, "a size that nobody asked for left the shared page");
    region_free(heap, chunks[0]);
    bool fresh;
    void *other = region_alloc_narrow(heap, view, 90, &fresh);
    cr_assert_eq(segment_page_of(other), shared, "the shared page has a free block");
    cr_assert_eq(view_live_bytes(view), live - 100 + 90);
    void *more = region_alloc(heap, view, 90, false);
    cr_assert_eq(segment_page_of(more)->block_bytes, 96);
    for (unsigned i = 1; i < count; i++)
        region_free(heap, chunks[i]);
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        region_free(heap, first[i]);
    region_free(heap, other);
    region_free(heap, more);
    cr_assert_eq(view_live_bytes(view), 0);
    bins_release_empty(heap, &heap->mixed);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* A class shares blocks of a larger class only if the records can hold the slack that arises. */
Test(region, aligned_chunks_share_as_far_as_the_slack_can_be_told) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    const struct page *page = segment_page_of(region_alloc_aligned(heap, view, 70, 64));
    cr_assert_eq(page->block_bytes, 128);
    cr_assert_eq(segment_page_of(region_alloc(heap, view, 70, false)), page);
    page = aset_page(heap, view, 80, blocks_class_of(320), 320);
    cr_assert_eq(page->block_bytes, 320, "384 less 80 is more than 254");
    char *chunk = region_alloc_aligned(heap, view, 80, 256);
    cr_assert_eq((uintptr_t)chunk % 256, 0);
    cr_assert_eq(segment_page_of(chunk)->block_bytes, 256, "a block of 256 bytes is aligned");
    region_free(heap, chunk);
    cr_assert_eq(view_live_bytes(view), 140);
}

/* GLib's slices take chunks of 2 032 bytes with an alignment of 2 048: those must not take 4 KiB.
 * A program that reads files with O_DIRECT has buffers of 4 KiB at 4 096: those need one block. */
Test(region, aligned_chunks_above_1_kib_take_no_padding) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    for (size_t alignment = 128; alignment <= 4096; alignment *= 2)
        for (size_t size = align_up(2048, alignment); size + alignment <= 8192; size += alignment)
            for (int i = 0; i < 3; i++) {
                char *chunk = region_alloc_aligned(heap, view, size - 16, alignment);
                const struct page *page = segment_page_of(chunk);
                cr_assert_eq((uintptr_t)chunk % alignment, 0);
                cr_assert_leq(page->block_bytes, blocks_bytes_table[bins_class_of(heap, size)],
                              "%zu bytes at %zu: %u", size, alignment, page->block_bytes);
                memset(chunk, 1, size - 16);
            }
}

Test(region, mixed_blocks_that_were_freed_last_are_used_first) {
    enum { BYTES = 64, COUNT = 300 };
    static void *chunks[COUNT];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    struct page *recent = heap_recent(heap, blocks_class_of(BYTES));
    unsigned room = recent->used;
    options.promote_bytes = 1 << 30; /* mixed pages only */
    for (int i = 0; i < COUNT; i++)
        chunks[i] = region_alloc(heap, view, BYTES, false);
    const struct page *first = segment_page_of(chunks[0]),
                      *last = segment_page_of(chunks[COUNT - 1]);
    unsigned used = first->used;
    bool fresh;
    cr_assert_neq(first, last);
    region_free(heap, chunks[COUNT - 1]);
    region_free(heap, chunks[0]);
    cr_assert_eq(first->used, used, "the freed block went to its page at once");
    cr_assert(first->flags & PAGE_FULL);
    cr_assert_eq(region_alloc_narrow(heap, view, BYTES, &fresh), chunks[0]);
    cr_assert_eq(region_alloc_narrow(heap, view, BYTES, &fresh), chunks[COUNT - 1]);
    cr_assert_eq(recent->used, room);
    for (int i = 0; i < COUNT; i++)
        region_free(heap, chunks[i]);
    cr_assert_eq(recent->used, 0, "the list of recently freed blocks is not full");
    cr_assert_eq(first->used, room, "the other blocks did not go to their page");
    bins_release_empty(heap, &heap->mixed);
    cr_assert_eq(recent->used, room);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* Resizes a chunk from 15 bytes to SMALL_MAX, one byte at a time. It moves seldom, keeps its last
 * byte at each step, and the figures are exact. */
static void grow_by_bytes(struct heap *heap, struct view *view) {
    unsigned moves = 0;
    unsigned char *chunk = region_alloc(heap, view, 15, false);
    chunk[14] = 15;
    for (size_t size = 16; size <= SMALL_MAX; size++) {
        unsigned char *last = chunk;
        if (!region_resize(heap, view, chunk, size))
            chunk = region_realloc(heap, view, chunk, size);
        moves += chunk != last;
        cr_assert_eq(view_live_bytes(view), (int64_t)size);
        cr_assert_geq(region_usable(chunk), size);
        cr_assert_eq(chunk[size - 2], (unsigned char)(size - 1), "at %zu", size);
        chunk[size - 1] = (unsigned char)size;
    }
    cr_assert_lt(moves, SIZE_CLASSES * 7 / 8, "%u moves", moves);
    cr_assert_not(region_resize(heap, view, chunk, SMALL_MAX / 4), "a record with so much slack");
    cr_assert_not(region_resize(heap, view, chunk, SMALL_MAX + 1));
    region_free(heap, chunk);
    cr_assert_eq(view_live_bytes(view), 0);
}

/* A large chunk grows within its slices or its mapping, by one byte at a time. The figures are
 * exact at each step. Other resizes, and those that another view pays for, are refused. */
Test(region, a_large_chunk_grows_within_its_memory) {
    static const struct {
        size_t from, to; /* the chunk grows from `from` to `to` bytes */
        size_t least;    /* a chunk of so few bytes would leave slices or OS pages unused */
    } cases[] = {{3 * SLICE_BYTES - 4000, 3 * SLICE_BYTES, 2 * SLICE_BYTES},
                 {(2 << 20) - 4000, 2 << 20, 1 << 20}};
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9), *other = heap_view(heap, 10);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *chunk = region_alloc(heap, view, cases[i].from, false);
        for (size_t size = cases[i].from + 1; size <= cases[i].to; size++) {
            cr_assert(region_resize(heap, view, chunk, size), "to %zu", size);
            cr_assert_eq(view_live_bytes(view), (int64_t)size);
            cr_assert_eq(region_requested(chunk), size);
        }
        cr_assert_not(region_resize(heap, view, chunk, cases[i].to + 1));
        cr_assert_not(region_resize(heap, view, chunk, cases[i].least));
        cr_assert_not(region_resize(heap, other, chunk, cases[i].to - 1));
        cr_assert_not(region_resize(heap, view, chunk + 16, cases[i].to - 1),
                      "no start of a chunk");
        region_free(heap, chunk);
        cr_assert_eq(view_live_bytes(view), 0);
        cr_assert_eq(view_live_bytes(other), 0);
    }
    cr_assert_eq(resizes_entry(heap, view, TABLES_UNCOUNTED)->counts.reallocs, 8000);
}

/* Once a chunk was freed, no chunk of its size is examined when it is freed (segment_largest). */
Test(region, only_the_largest_chunks_are_examined) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    for (size_t size = LIBC_MAPS_BYTES; size <= 4UL << 20; size *= 2)
        for (int turn = 0; turn < 2; turn++) {
            void *chunk = region_alloc(heap, view, size, false);
            cr_assert_eq((region_page_of(chunk)->flags & PAGE_LARGEST) != 0, turn == 0,
                         "turn %d of %zu bytes", turn, size);
            region_free(heap, chunk);
        }
}

Test(region, what_grows_gets_room_to_grow) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9), *other = heap_view(heap, 10);
    options.promote_bytes = 1 << 30; /* mixed pages only */
    void *chunk = region_alloc(heap, other, 32, false);
    cr_assert(region_resize(heap, view, chunk, 31), "it fits; from now on `view` pays");
    cr_assert_eq(view_live_bytes(other), 0);
    cr_assert_eq(view_live_bytes(view), 31);
    region_free(heap, chunk);
    cr_assert_eq(view_live_bytes(view), 0);
    grow_by_bytes(heap, view);
    options.promote_bytes = 0; /* the context gets pages of its own */
    grow_by_bytes(heap, heap_view(heap, 11));
}

Test(region, no_page_is_lost_and_no_block_given_twice) {
    enum { SLOTS = 3000 };
    static struct {
        unsigned char *chunk;
        size_t size;
        int context;
    } slots[SLOTS];
    int64_t live[6] = {0};
    struct heap *heap = heap_new();
    srand(21);
    for (int step = 0; step < 200000; step++) {
        int i = rand() % SLOTS;
        if (slots[i].chunk == NULL) {
            slots[i].size = (size_t)rand() % (rand() % 50 == 0 ? 100000 : 1500);
            slots[i].context = rand() % 5 + 1;
            struct view *view = heap_view(heap, 100 + (uint32_t)slots[i].context);
            slots[i].chunk = rand() % 9 == 0 ? region_alloc_aligned(heap, view, slots[i].size, 256)
                                             : region_alloc(heap, view, slots[i].size, false);
            cr_assert(slots[i].chunk != NULL);
            memset(slots[i].chunk, i & 0xff, slots[i].size);
            live[slots[i].context] += (int64_t)slots[i].size;
        } else {
            for (size_t k = 0; k < slots[i].size; k += 61)
                cr_assert_eq(slots[i].chunk[k], i & 0xff, "step %d", step);
            region_free(heap, slots[i].chunk);
            live[slots[i].context] -= (int64_t)slots[i].size;
            slots[i].chunk = NULL;
        }
    }
    for (uint32_t c = 1; c <= 5; c++)
        cr_assert_eq(view_live_bytes(heap_view(heap, 100 + c)), live[c], "context %u", c);
    for (int i = 0; i < SLOTS; i++)
        region_free(heap, slots[i].chunk);
    bins_release_empty(heap, &heap->mixed);
    regions_release_empty(heap);
    cr_assert_eq(segment_used_bytes(), 0, "pages were lost");
    cr_assert_eq(heap->own_free, 0);
}

/* If the records stood at equal offsets in all pages, they would share a few sets of the
 * processor's cache. */
Test(region, records_of_neighbouring_pages_are_in_different_sets_of_a_cache) {
    enum { PAGES = 16 };
    struct heap *heap = heap_new();
    struct view *view = view_of_own(heap, 9);
    bool seen[OS_PAGE_BYTES / CACHE_LINE] = {false};
    for (unsigned i = 0; i < PAGES; i++) {
        const struct page *page = blocks_page_create(heap, view, blocks_class_of(64));
        cr_assert_not(seen[page->records / CACHE_LINE]);
        seen[page->records / CACHE_LINE] = true;
    }
}

/* Allocates a zeroed chunk, checks that it is zero, and returns how many of its bytes were resident
 * before. */
static int64_t zeroed_resident(struct heap *heap, struct view *view, size_t bytes) {
    unsigned char *chunk = region_alloc(heap, view, bytes, true);
    int64_t resident = os_resident_bytes(chunk, bytes);
    for (size_t at = 0; at < bytes; at += OS_PAGE_BYTES)
        cr_assert_eq(chunk[at], 0, "at %zu of %zu", at, bytes);
    region_free(heap, chunk);
    return resident;
}

/* Allocates a chunk, writes all its bytes and frees it. */
static void use_large(struct heap *heap, struct view *view, size_t bytes) {
    void *chunk = region_alloc(heap, view, bytes, false);
    memset(chunk, 1, bytes);
    region_free(heap, chunk);
}

Test(region, zeroed_large_chunks_are_not_made_resident) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    options.decay_ms = 60000;
    use_large(heap, view, 20 << 20); /* the freelist keeps its beginning, of some 6 MiB */
    int64_t kept = segment_usage().freelist_bytes;
    cr_assert(kept > 0 && kept < 8 << 20, "%ld", kept);
    cr_assert_leq(zeroed_resident(heap, view, 30 << 20), kept);
    keep_what_is_freed();
    for (int i = 0; i < 10; i++) /* the freelist learns to keep it whole */
        use_large(heap, view, 40 << 20);
    cr_assert_gt(segment_usage().freelist_bytes, 40 << 20);
    cr_assert_lt(zeroed_resident(heap, view, 40 << 20), 2 << 20);
}

/* The program used a small part of a chunk, which the freelist then keeps. calloc gets the chunk
 * again: it makes no more of it resident. */
Test(region, zeroed_reused_chunks_are_not_made_resident) {
    static const size_t sizes[] = {512 << 10, 3 << 20, 6 << 20};
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    keep_what_is_freed();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *chunk = region_alloc(heap, view, sizes[i], false);
        os_discard(chunk, sizes[i]);
        for (size_t at = 0; at < sizes[i]; at += sizes[i] / 8)
            chunk[at] = 1;
        region_free(heap, chunk);
        cr_assert_lt(zeroed_resident(heap, view, sizes[i]), (int64_t)sizes[i] / 2, "%zu", sizes[i]);
    }
}

/* A sample has four OS pages, also if the distance between two samples is an odd number of OS
 * pages. */
Test(region, samples_of_reused_chunks_begin_at_os_pages) {
    enum { SAMPLES = 3, DISTANCE = 65 };
    const size_t bytes = (size_t)SAMPLES * DISTANCE * OS_PAGE_BYTES;
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    keep_what_is_freed();
    char *chunk = region_alloc(heap, view, bytes, false);
    os_discard(chunk, bytes);
    for (size_t page = 0; page < (size_t)SAMPLES * DISTANCE; page++)
        if (page % DISTANCE == DISTANCE / 2 + 1 || page % DISTANCE == DISTANCE / 2 + 4)
            chunk[page * OS_PAGE_BYTES] = 1;
    region_free(heap, chunk);
    cr_assert_lt(zeroed_resident(heap, view, bytes), (int64_t)bytes / 2);
}
