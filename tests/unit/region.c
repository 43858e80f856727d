/* SPDX-License-Identifier: MIT */
/* Tests of src/region: records, pages and their states, promotion, the waste cap, other threads'
 * frees, heaps that are parked, adopted and left behind by a fork; misuse that aborts. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "os/meta.h"
#include "region/punch.h"
#include "region/region.h"

static struct heap *heap_new(void) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    cr_assert(heap != NULL);
    return heap;
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
            cr_assert_not(record.free, "shape %u, slack %u", shape, slack);
            size_t width = 1UL << shift;
            cr_assert_eq(room[width - 1], 0x33, "the record before was touched");
            cr_assert_eq(room[2 * width], 0x33, "the record behind was touched");
            cr_assert_eq(record_release(&page, at).slack, slack);
            cr_assert(record_read(&page, at).free);
        }
        if (shape & META_OWNERS) /* but the one of the block in question */
            cr_assert(!owners->views[0] && owners->views[1] && !owners->views[2]);
    }
    /* A dump may read the header of a page that is just given back or used anew. */
    struct page page = {.meta_shift = META_OWNERS, .granule_mask = 127, .granule_capacity = 8};
    memset(room, 0x33, sizeof room);
    cr_assert_eq(record_read(&page, room + 1).view_index, 0, "no table");
    page.owners = owners;
    cr_assert_neq(record_read(&page, room + 1).view_index, 0);
    owners->views[8] = owners->views[4] = 5;
    cr_assert_eq(record_read(&page, room + 8).view_index, 0, "a shorter table");
    page.granule_mask = SLICE_BYTES - 1;
    cr_assert_eq(record_read(&page, room + 4).view_index, 5);
    owners->start = (char *)((uintptr_t)room - (1UL << 20));
    cr_assert_eq(record_read(&page, room + 4).view_index, 0, "one of another page");
    free(owners);
}

/* A view with a region, as it gets one when it is large enough. */
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
            cr_assert(record_read(page, blocks_record(page, granule, k)).free);
            page->next_block += page->block_bytes;
            page->fresh_left--;
        }
    } while (blocks_open_granule(page));
    cr_assert_leq(last, end);
    cr_assert_eq(seen, page->capacity);
    /* Of the smallest blocks of a mixed page the records take a quarter. */
    unsigned used = !view && page->block_bytes == 16 ? 74 : 79;
    cr_assert_geq(seen * page->block_bytes * 100, used * page->slices * SLICE_BYTES, "%u bytes",
                  page->block_bytes);
    heap->own_free += (int64_t)seen * page->waste_unit; /* as if all had been freed */
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
    options.promote_bytes = 1 << 30;    /* mixed pages only */
    heap_recent(heap, class)->used = 0; /* and what is freed goes to them at once */
    chunks[0] = region_alloc(heap, view, BYTES, false);
    struct page *page = segment_page_of(chunks[0]);
    cr_assert_eq(heap->mixed.current[class], heap_recent(heap, class));
    cr_assert_eq(heap_recent(heap, class)->behind, page);
    unsigned count = page->capacity;
    cr_assert_leq(count, 60);
    for (unsigned i = 1; i <= count; i++)
        chunks[i] = region_alloc(heap, view, BYTES, false);
    cr_assert_neq(segment_page_of(chunks[count]), page, "a full page gives no more blocks");
    cr_assert(page->flags & PAGE_FULL);
    cr_assert_null(heap->mixed.partial[class]);
    region_free(heap, chunks[0]);
    cr_assert_eq(heap->mixed.partial[class], page, "the first free lists it again");
    cr_assert_not(page->flags & PAGE_FULL);
    for (unsigned i = 1; i < count; i++)
        region_free(heap, chunks[i]);
    cr_assert_null(heap->mixed.partial[class], "empty pages leave the list");
    cr_assert_eq(segment_used_bytes(), (int64_t)SLICE_BYTES, "and go back");
    region_free(heap, chunks[count]);
    bins_release_empty(heap, &heap->mixed);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* It has had the most time to collect free blocks, so that the next look for a page is far off. */
Test(region, of_pages_with_free_blocks_the_one_listed_first_is_next) {
    enum { BYTES = 2000, PAGES = 5 }; /* shares its pages with no other size */
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
    for (unsigned i = 0; i < 4;) { /* first the rest of the current page */
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
    for (unsigned i = 0; i < SIZE_CLASSES; i++) { /* one each, the smallest size of each class */
        size_t size = i ? blocks_bytes_table[i - 1] + 1 : 0;
        first[i] = region_alloc(heap, view, size, false);
        live += (int64_t)size;
        const struct page *page = segment_page_of(first[i]);
        cr_assert_leq(page->block_bytes - size, size <= 1024 ? SLACK_NARROW_MAX : SMALL_MAX);
        cr_assert_eq(page->size_class, bins_class_of(heap, size));
        if (size && size <= NARROW_MAX)
            cr_assert_eq(page->size_class, bins_class_narrow(heap, size));
    }
    static const unsigned doubling[] = {4, 5, 6, 7}; /* 80 to 128 bytes */
    struct page *shared = segment_page_of(first[7]);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(segment_page_of(first[doubling[i]]), shared);
    unsigned count = 0;
    do
        chunks[count++] = region_alloc(heap, view, 100, false);
    while (segment_page_of(chunks[count - 1]) == shared);
    cr_assert_eq(count + 3, shared->capacity, "the page was not full");
    live += 100 * count;
    cr_assert_eq(segment_page_of(chunks[count - 1])->block_bytes, 112, "then of its own");
    cr_assert_eq(bins_class_narrow(heap, 100), 6);
    cr_assert_eq(bins_class_of(heap, 90), 7, "the others stay as long as nobody asks");
    region_free(heap, chunks[0]);
    bool fresh;
    void *other = region_alloc_narrow(heap, view, 90, &fresh);
    cr_assert_eq(segment_page_of(other), shared, "while there is a free block in it");
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

/* Where the shared block's record could not tell the slack, the class is split, and no larger one is taken. */
Test(region, aligned_chunks_share_as_far_as_the_slack_can_be_told) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    const struct page *page = segment_page_of(region_alloc_aligned(heap, view, 70, 64));
    cr_assert_eq(page->block_bytes, 128);
    cr_assert_eq(segment_page_of(region_alloc(heap, view, 70, false)), page);
    char *chunk = region_alloc_aligned(heap, view, 80, 256);
    cr_assert_eq((uintptr_t)chunk % 256, 0);
    cr_assert_eq(segment_page_of(chunk)->block_bytes, 320, "384 less 80 is more than 254");
    region_free(heap, chunk);
    cr_assert_eq(view_live_bytes(view), 140);
}

Test(region, what_gets_pages_of_its_own_gets_its_own_size) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    options.promote_bytes = 2048;
    void *chunk = NULL;
    for (int i = 0; i < 40 && !view->region; i++)
        chunk = region_alloc(heap, view, 1300, false);
    cr_assert(view->region != NULL);
    const struct page *page = segment_page_of(chunk);
    cr_assert_eq(page->view, view);
    cr_assert_eq(page->block_bytes, 1536);
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
    cr_assert_eq(first->used, used, "it waits, and is not its page's yet");
    cr_assert(first->flags & PAGE_FULL);
    cr_assert_eq(region_alloc_narrow(heap, view, BYTES, &fresh), chunks[0]);
    cr_assert_eq(region_alloc_narrow(heap, view, BYTES, &fresh), chunks[COUNT - 1]);
    cr_assert_eq(recent->used, room);
    for (int i = 0; i < COUNT; i++)
        region_free(heap, chunks[i]);
    cr_assert_eq(recent->used, 0, "as many as there is room for");
    cr_assert_eq(first->used, room, "the others went to their page");
    bins_release_empty(heap, &heap->mixed);
    cr_assert_eq(recent->used, room);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* By less than a quarter at a time: it seldom moves, keeps its bytes, and the books are exact. */
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
    cr_assert_not(region_resize(heap, view, chunk, SMALL_MAX / 4), "too much slack");
    cr_assert_not(region_resize(heap, view, chunk, SMALL_MAX + 1));
    region_free(heap, chunk);
    cr_assert_eq(view_live_bytes(view), 0);
}

Test(region, what_grows_gets_room_to_grow) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9), *other = heap_view(heap, 10);
    options.promote_bytes = 1 << 30; /* mixed pages only */
    void *chunk = region_alloc(heap, other, 16, false);
    cr_assert(region_resize(heap, view, chunk, 15), "it fits, and now the other one pays");
    cr_assert_eq(view_live_bytes(other), 0);
    cr_assert_eq(view_live_bytes(view), 15);
    region_free(heap, chunk);
    grow_by_bytes(heap, view);
    options.promote_bytes = 0; /* pages of its own */
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

Test(region, contexts_get_pages_of_their_own_at_the_bound) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    options.promote_bytes = 640;
    for (int i = 0; i < 10; i++)
        cr_assert_eq(segment_page_of(region_alloc(heap, view, 64, false))->kind, PAGE_MIXED);
    struct page *page = segment_page_of(region_alloc(heap, view, 64, false));
    cr_assert_eq(page->kind, PAGE_OWN);
    cr_assert_eq(page->view, view);
}

/* Many contexts that get own pages, fill them and free nearly all: the sum of what they then hold
 * free is what the cap is for. */
Test(region, invariant_5_waste_is_capped) {
    enum { CONTEXTS = 2000, CHUNKS = 80 };
    static void *chunks[CHUNKS];
    struct heap *heap = heap_new();
    bool denied = false;
    for (uint32_t c = 1; c <= CONTEXTS; c++) {
        struct view *view = heap_view(heap, 1000 + c);
        for (int i = 0; i < CHUNKS; i++)
            chunks[i] = region_alloc(heap, view, 200, false);
        for (int i = 0; i < CHUNKS - 1; i++)
            region_free(heap, chunks[i]);
        denied |= segment_page_of(chunks[CHUNKS - 1])->kind == PAGE_MIXED;
        int64_t cap = options.waste_kib << 10, live = segment_used_bytes() - heap->own_free;
        cap = live / 16 > cap ? live / 16 : cap;
        /* One page may pass it, and a heap tells of its waste in steps. */
        cr_assert_leq(heap->own_free, cap + 2 * (int64_t)SLICE_BYTES + (16 << 10), "context %u", c);
    }
    cr_assert(denied, "the cap was never reached");
}

/* Past the cap all regions are looked through for empty pages, but the seldomer the more there are: a program that stays
 * at the cap for hours would do nothing else. */
Test(region, sweeps_are_rare_where_contexts_are_many) {
    enum { CONTEXTS = 1000 };
    struct heap *heap = heap_new();
    options.promote_bytes = 0;
    struct page *first = NULL;
    for (uint32_t c = 1; c <= CONTEXTS; c++) {
        void *chunk = region_alloc(heap, heap_view(heap, 1000 + c), 100, false);
        first = first ? first : segment_page_of(chunk);
        region_free(heap, chunk); /* its page stays, as the current one */
    }
    struct view *view = heap_view(heap, 1001);
    cr_assert(view->region && first->view == view && first->used == 0);
    cr_assert(!heap_may_segregate(heap), "the cap was never reached");
    for (uint32_t i = 0; i < CONTEXTS / 2; i++)
        cr_assert_neq(segment_page_of(region_alloc(heap, view, 600, false))->kind, PAGE_OWN);
    cr_assert_eq(first->kind, PAGE_OWN, "swept already");
    for (uint32_t i = 0; i < CONTEXTS; i++)
        region_alloc(heap, view, 600, false);
    cr_assert_eq(first->kind, PAGE_NONE, "never swept");
}

/* An old context leaves a few chunks in each of its pages. What comes after it must find the room between
 * them, once the waste is past its cap: both in pages of small and of large blocks. */
enum { OLD = 60000, YOUNG = 55000 };
static char *old_chunks[OLD], *young_chunks[YOUNG];

static size_t mixed_up_size(int i) {
    return i % 16 ? 180 + (size_t)(i % 5) : 2800 + (size_t)(i % 7);
}

static void age(struct heap *heap, uint32_t old, uint32_t young) {
    cr_assert(heap_view(heap, old + 100) != NULL); /* the old one is not number 1 */
    struct view *first = heap_view(heap, old), *second = heap_view(heap, young);
    for (int i = 0; i < OLD; i++) {
        old_chunks[i] = region_alloc(heap, first, mixed_up_size(i), false);
        memset(old_chunks[i], i, mixed_up_size(i));
    }
    for (int i = 0; i < OLD; i++)
        if (i % 33) {
            region_free(heap, old_chunks[i]);
            old_chunks[i] = NULL;
        }
    for (int i = 0; i < YOUNG; i++) {
        young_chunks[i] = region_alloc(heap, second, mixed_up_size(i), i % 2);
        for (size_t k = 0; i % 2 && k < mixed_up_size(i); k++)
            cr_assert_eq(young_chunks[i][k], 0);
        memset(young_chunks[i], i + 1, mixed_up_size(i));
    }
}

static void check_and_free(struct heap *heap, int first, int step) {
    for (int i = first; i < OLD; i += step) {
        char *chunks[] = {old_chunks[i], i < YOUNG ? young_chunks[i] : NULL};
        for (int k = 0; k < 2; k++) {
            if (!chunks[k])
                continue;
            size_t size = mixed_up_size(i);
            cr_assert_eq(chunks[k][0], (char)(i + k));
            cr_assert_eq(chunks[k][size - 1], (char)(i + k));
            cr_assert_geq(region_usable(chunks[k]), size);
            region_free(heap, chunks[k]);
        }
    }
}

Test(region, past_the_cap_old_pages_serve_all) {
    struct heap *heap = heap_new();
    int64_t tables_before = 0;
    for (int round = 0; round < 3; round++) {
        age(heap, 9, 10);
        int shared = 0;
        int64_t requested =
            view_live_bytes(heap_view(heap, 9)) + view_live_bytes(heap_view(heap, 10));
        for (int i = 0; i < YOUNG; i++)
            shared += (segment_page_of(young_chunks[i])->meta_shift & META_OWNERS) != 0;
        cr_assert_gt(shared, YOUNG / 2, "%d", shared);
        cr_assert_leq(segment_used_bytes(), requested * 5 / 4, "%ld for %ld", segment_used_bytes(),
                      requested);
        check_and_free(heap, 0, 1);
        for (uint32_t context = 9; context <= 10; context++) {
            const struct view *view = heap_view(heap, context);
            cr_assert_eq(view->allocs, view->frees);
            cr_assert_eq(view_live_bytes(view), 0);
        }
        bins_release_empty(heap, &heap->mixed);
        regions_release_empty(heap);
        cr_assert_eq(segment_used_bytes(), 0);
        cr_assert_eq(heap->own_free, 0);
        int64_t tables = meta_usage(false).used_bytes;
        if (round) /* the first one made the regions */
            cr_assert_eq(tables, tables_before);
        tables_before = tables;
    }
}

static void *check_and_free_half(void *unused) {
    struct heap *heap = heap_new();
    check_and_free(heap, 1, 2);
    return unused ? NULL : heap;
}

Test(region, others_free_from_shared_pages) {
    struct heap *heap = heap_new(), *other;
    pthread_t thread;
    age(heap, 9, 10);
    cr_assert_eq(pthread_create(&thread, NULL, check_and_free_half, NULL), 0);
    check_and_free(heap, 0, 2);
    pthread_join(thread, (void **)&other);
    for (uint32_t context = 9; context <= 10; context++) {
        const struct view *mine = heap_view(heap, context), *theirs = heap_view(other, context);
        cr_assert_gt(theirs->frees, 0);
        cr_assert_eq(mine->allocs, mine->frees + theirs->frees);
        cr_assert_eq(view_live_bytes(mine) + view_live_bytes(theirs), 0);
    }
    bins_collect_remote(heap);
    bins_release_empty(heap, &heap->mixed);
    regions_release_empty(heap);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_eq(heap->own_free, 0);
}

Test(region, a_forked_child_finds_its_new_views) {
    static struct view *views[100];
    for (uint32_t made = 1; made < 100; made *= 2) {
        struct heap *heap = heap_new();
        heap_fork_child(heap);
        for (uint32_t i = 0; i < made; i++)
            views[i] = heap_view(heap, 50 + i * 64);
        uint32_t count = heap->view_count;
        for (uint32_t i = made; i-- > 0;)
            cr_assert_eq(heap_view(heap, 50 + i * 64), views[i], "%u of %u", i, made);
        cr_assert_eq(heap->view_count, count);
    }
}

static struct heap *owner;
static void *given[2000];

static void *free_them(void *argument) {
    struct heap *heap = heap_new();
    for (int i = (int)(intptr_t)argument; i < 2000; i += 2)
        region_free(heap, given[i]);
    return heap;
}

Test(region, blocks_freed_by_others_come_back) {
    owner = heap_new();
    struct view *view = heap_view(owner, 9);
    for (int i = 0; i < 2000; i++)
        given[i] = region_alloc(owner, view, 100, false);
    pthread_t threads[2];
    void *others[2];
    for (intptr_t i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, free_them, (void *)i), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &others[i]);
    cr_assert_eq(view->frees, 0, "each thread keeps its own numbers");
    int64_t live = view_live_bytes(view);
    for (int i = 0; i < 2; i++)
        live += view_live_bytes(heap_view(others[i], 9));
    cr_assert_eq(live, 0);
    bins_collect_remote(owner);
    bins_release_empty(owner, &owner->mixed);
    regions_release_empty(owner);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_eq(owner->own_free, 0);
}

Test(heap, parking_folds_exactly_and_adopting_keeps_pages) {
    struct heap *first = heap_new();
    struct view *view = heap_view(first, 9);
    void *chunk = region_alloc(first, view, 100, false);
    region_free(first, region_alloc(first, view, 50, false));
    heap_park(first);
    cr_assert_eq(first->state, HEAP_PARKED);
    cr_assert_eq(view->allocs + view->frees, 0);
    struct view *sum = heap_view(heap_global.totals, 9);
    cr_assert_eq(sum->allocs, 2);
    cr_assert_eq(sum->frees, 1);
    cr_assert_eq(view_live_bytes(sum), 100);
    cr_assert_eq(sum->requested_cum_bytes, 150);
    cr_assert_eq(heap_new(), first, "the next thread adopts it");
    cr_assert_eq(first->state, HEAP_OWNED);
    region_free(first, chunk);
    cr_assert_eq(view_live_bytes(sum) + view_live_bytes(view), 0);
}

Test(heap, a_parked_heap_gets_its_blocks_back_at_once) {
    struct heap *first = heap_new(), *second = heap_new();
    void *chunk = region_alloc(first, heap_view(first, 9), 100, false);
    heap_park(first);
    cr_assert_eq(segment_used_bytes(), (int64_t)SLICE_BYTES);
    region_free(second, chunk);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_null(first->remote_pages);
}

/* Else no context gets pages of its own any more, some threads later. */
Test(heap, a_parked_heap_whose_pages_others_empty_wastes_nothing) {
    enum { CHUNKS = 3000 };
    static void *chunks[CHUNKS];
    struct heap *first = heap_new(), *second = heap_new();
    struct view *view = heap_view(first, 9);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(first, view, 100, false);
    for (int i = 0; i < CHUNKS; i += 2)
        region_free(first, chunks[i]);
    cr_assert(view->region != NULL);
    heap_park(first);
    cr_assert_gt(heap_global.own_free, CHUNKS / 3 * 100);
    for (int i = 1; i < CHUNKS; i += 2)
        region_free(second, chunks[i]);
    cr_assert_eq(heap_global.own_free, 0);
}

/* As api/allocate.h goes from the common case to the rare one. */
static void *alloc_like_malloc(struct heap *heap, struct view *view, size_t size) {
    bool fresh = false;
    void *chunk = view->bins == &heap->mixed ? region_alloc_recent(heap, view, size)
                                             : region_alloc_own(heap, view, size);
    if (!chunk)
        chunk = region_alloc_narrow(heap, view, size, &fresh);
    if (!chunk)
        chunk = region_alloc_next(heap, view, size, &fresh);
    return chunk ? chunk : region_alloc(heap, view, size, false);
}

Test(heap, what_others_freed_is_collected_though_there_are_free_blocks) {
    enum { CHUNKS = 20000, STEPS = 400000 };
    static void *chunks[CHUNKS];
    struct heap *heap = heap_new(), *other = heap_new();
    struct view *view = heap_view(heap, 9);
    unsigned random = 1;
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc_like_malloc(heap, view, 64);
    for (int i = 0; i < CHUNKS; i += 2) {
        region_free(heap, chunks[i]);
        chunks[i] = NULL;
    }
    region_free(other, region_alloc(heap, heap_view(heap, 10), 500, false));
    cr_assert(heap->remote_pages != NULL);
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525 + 1013904223;
        void **chunk = &chunks[(random >> 8) % CHUNKS];
        if (*chunk)
            region_free(heap, *chunk);
        *chunk = *chunk ? NULL : alloc_like_malloc(heap, view, 64);
    }
    cr_assert_null(heap->remote_pages);
}

Test(heap, states_in_a_forked_child) {
    struct heap *self = heap_new(), *idle = heap_new(), *busy = heap_new(), *parked = heap_new();
    heap_park(parked);
    busy->busy = 1;
    heap_fork_child(self);
    cr_assert_eq(self->state, HEAP_OWNED);
    cr_assert_eq(idle->state, HEAP_PARKED, "its thread was outside the allocator");
    cr_assert_eq(busy->state, HEAP_ORPHAN, "its lists may be torn");
    cr_assert_eq(parked->state, HEAP_PARKED);
    cr_assert_eq(heap_global.totals->state, HEAP_TOTALS);
    cr_assert_eq(busy->tid, 0);
}

Test(misuse, a_second_free_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    void *chunk = region_alloc(heap, heap_view(heap, 9), 100, false);
    cr_assert(region_alloc(heap, heap_view(heap, 9), 100, false) != NULL);
    region_free(heap, chunk);
    region_free(heap, chunk);
}

Test(misuse, a_second_free_in_a_shared_page_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    age(heap, 9, 10);
    for (int i = 0; i < YOUNG; i++)
        if (segment_page_of(young_chunks[i])->meta_shift & META_OWNERS) {
            region_free(heap, young_chunks[i]);
            region_free(heap, young_chunks[i]);
        }
}

Test(misuse, a_second_free_of_a_large_chunk_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    void *chunk = region_alloc(heap, heap_view(heap, 9), 100000, false);
    region_free(heap, chunk);
    region_free(heap, chunk);
}

Test(misuse, a_pointer_into_a_block_aborts, .signal = SIGABRT) {
    struct heap *heap = heap_new();
    char *chunk = region_alloc(heap, heap_view(heap, 9), 100, false);
    region_free(heap, chunk + 16);
}

/* A chunk of a context's own page, whose records say nothing but the slack. */
static char *own_chunk(size_t size) {
    struct heap *heap = heap_new();
    options.promote_bytes = 0;
    char *chunk = region_alloc(heap, heap_view(heap, 9), size, false);
    cr_assert_eq(segment_page_of(chunk)->kind, PAGE_OWN);
    return chunk;
}

Test(misuse, a_block_that_was_never_handed_out_aborts, .signal = SIGABRT) {
    char *chunk = own_chunk(64);
    struct page *page = segment_page_of(chunk);
    size_t number = page->records < (size_t)32 * 64 ? 62 : 31;
    region_free(page->heap, blocks_granule(page, chunk) + number * 64);
}

Test(misuse, the_place_of_the_records_is_none, .signal = SIGABRT) {
    char *chunk = own_chunk(64);
    struct page *page = segment_page_of(chunk);
    region_free(page->heap, blocks_granule(page, chunk) + page->records);
}

/* What stays of one of them then keeps few segments and few headers. */
Test(region, contexts_with_much_have_groups_of_slices_of_their_own) {
    enum { BYTES = 1000, CHUNKS = 8000, KINDS = 3 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    const struct view *whose[64] = {NULL};
    unsigned mixed_groups = 0, groups = 0;
    options.promote_bytes = 1024;
    for (int i = 0; i < CHUNKS; i++) /* 2.7 MB each */
        chunks[i] = region_alloc(heap, heap_view(heap, 9 + i % KINDS), BYTES, false);
    uintptr_t base = (uintptr_t)chunks[CHUNKS / 4] & ~(SEGMENT_BYTES - 1);
    for (int i = CHUNKS / 4; i < CHUNKS; i++) { /* more than GROUPED_BYTES of each were there */
        if (((uintptr_t)chunks[i] & ~(SEGMENT_BYTES - 1)) != base)
            continue;
        const struct view *view = segment_page_of(chunks[i])->view;
        const struct view **group = &whose[((uintptr_t)chunks[i] - base) / (16 * SLICE_BYTES)];
        groups += !*group;
        mixed_groups += *group && *group != view;
        *group = view;
    }
    cr_assert_geq(groups, 5);
    cr_assert_eq(mixed_groups, 0, "%u pages in a group of another context", mixed_groups);
    for (int i = 0; i < CHUNKS; i++)
        region_free(heap, chunks[i]);
}

/* Nobody allocates in a context whose chunks were all freed: its current pages are not to wait for that. */
Test(region, a_context_that_is_done_keeps_no_page) {
    enum { CHUNKS = 4000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    options.promote_bytes = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CHUNKS; i++)
            chunks[i] = region_alloc(heap, view, (size_t)(i * 37) % 1000, false);
        cr_assert_gt(segment_used_bytes(), CHUNKS * 500);
        for (int i = 0; i < CHUNKS; i++)
            region_free(heap, chunks[i]);
        cr_assert_eq(segment_used_bytes(), 0, "%ld bytes are kept", (long)segment_used_bytes());
    }
    /* But one whose only chunk comes and goes does not make a page each time. */
    unsigned made = 0;
    void *last = NULL;
    for (int i = 0; i < 1000; i++) {
        char *chunk = region_alloc(heap, view, 100, false);
        made += segment_page_of(chunk) != last;
        last = segment_page_of(chunk);
        region_free(heap, chunk);
        made += segment_used_bytes() == 0;
    }
    cr_assert_lt(made, 12, "%u pages for 1000 chunks, one at a time", made);
}

/* The same place in every page would be the same few sets of a cache. */
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

Test(misuse, the_rest_behind_the_last_block_is_none, .signal = SIGABRT) {
    char *chunk = own_chunk(112);
    struct page *page = segment_page_of(chunk);
    size_t behind = (size_t)page->granule_capacity * 112;
    cr_assert_lt(behind, page->granule_mask);
    region_free(page->heap, blocks_granule(page, chunk) + behind);
}

Test(misuse, foreign_pointers_are_counted_and_left_alone) {
    static char foreign[64];
    struct heap *heap = heap_new();
    region_free(heap, foreign + 16);
    region_free(heap, NULL);
    cr_assert_eq(heap_global.foreign_frees, 1);
    cr_assert_eq(region_usable(foreign + 16), 0);
}

/* Freeing the last chunk of a parked heap's page may unmap the segment that holds the page's header. */
Test(region, a_parked_heap_loses_segments_chunk_by_chunk) {
    enum { CHUNKS = 4000, BYTES = 4096 };
    static void *chunks[CHUNKS];
    options.freelist_kib = 0;
    options.decay_ms = 0;
    struct heap *heap = heap_new(), *parked = heap_acquire(1, false);
    struct view *view = heap_view(parked, 7);
    for (int i = 0; i < CHUNKS; i++) {
        chunks[i] = region_alloc(parked, view, BYTES, false);
        cr_assert(chunks[i] != NULL);
    }
    int64_t mapped = segment_usage().mapped_bytes;
    heap_park(parked);
    /* Whole pages of every segment first, then the rest backwards: so the segment that gets empty is
     * the last one in the list of those with free slices, which is the one that goes. */
    for (int i = 0; i < CHUNKS; i++)
        if (i % 1000 >= 500 && i % 1000 < 540)
            region_free(heap, chunks[i]);
    for (int i = CHUNKS; i-- > 0;)
        if (i % 1000 < 500 || i % 1000 >= 540)
            region_free(heap, chunks[i]);
    cr_assert_leq(segment_usage().mapped_bytes, mapped - (int64_t)(2 * SEGMENT_BYTES));
    cr_assert_eq(heap_view(parked, 7)->frees, CHUNKS); /* under its lock, its own view */
}

/* --- punched pages ------------------------------------------------------------------------------- */

static __attribute__((noinline)) struct page *page_at(const void *chunk) {
    struct page *page = segment_page_of(chunk);
    cr_assert(page != NULL);
    return page;
}

static void trim_now(struct heap *heap) {
    trim_wanted.all = trim_wanted.punch = true;
    trim_number++;
    trim_heap(heap);
    cr_assert_eq(heap->trims, trim_number);
}

static bool os_page_is_resident(const char *chunk) {
    return os_resident_bytes((const char *)((uintptr_t)chunk & ~(OS_PAGE_BYTES - 1)), 1) > 0;
}

Test(punch, memory_of_empty_os_pages_goes_and_comes_back) {
    enum { CHUNKS = 20000 };
    static const size_t sizes[] = {16, 48, 100, 112, 300, 512, 1000, 3000, 8000};
    static char *chunks[CHUNKS];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s], count = size > 2000 ? 2000 : CHUNKS, stays = 60 + 16384 / size;
        struct heap *heap = heap_new();
        struct view *view = heap_view(heap, 9);
        for (size_t i = 0; i < count; i++) {
            chunks[i] = region_alloc(heap, view, size, false);
            memset(chunks[i], (int)(i % 251), size);
        }
        int64_t used = segment_used_bytes();
        for (size_t i = 0; i < count; i++) {
            if (i % stays == 7)
                continue;
            region_free(heap, chunks[i]);
            chunks[i] = NULL;
        }
        int64_t waste = heap->own_free;
        trim_wanted.released = 0;
        trim_now(heap);
        cr_assert_gt(trim_wanted.released, (int64_t)(count * size / 20), "of blocks of %zu bytes",
                     size);
        cr_assert_leq(heap->own_free, waste - trim_wanted.released / 2, "%zu", size);
        trim_wanted.released = 0;
        trim_now(heap);
        cr_assert_eq(trim_wanted.released, 0, "given back twice");
        size_t gone = 0;
        for (size_t i = 0; i < count; i++) {
            if (!chunks[i])
                continue;
            for (size_t k = 0; k < size; k++)
                cr_assert_eq((unsigned char)chunks[i][k], i % 251);
            struct page *page = page_at(chunks[i]);
            gone += (size_t)__builtin_popcountl(blocks_punched(page)) * OS_PAGE_BYTES;
            const char *start = segment_span_start(page);
            for (unsigned k = 0; k < page->slices * SLICE_BYTES / OS_PAGE_BYTES; k++)
                if (blocks_punched(page) >> k & 1)
                    cr_assert_not(os_page_is_resident(start + k * OS_PAGE_BYTES));
        }
        cr_assert_gt(gone, 0);
        /* All of it is used again, no block twice, none without a record. */
        for (size_t i = 0; i < count; i++) {
            if (chunks[i])
                continue;
            chunks[i] = region_alloc(heap, view, size, false);
            memset(chunks[i], (int)(i % 251), size);
        }
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < size; k++)
                cr_assert_eq((unsigned char)chunks[i][k], i % 251, "chunk %zu of %zu bytes", i,
                             size);
        cr_assert_leq(segment_used_bytes(), used + (int64_t)(4 * WIDE_PAGE_SLICES * SLICE_BYTES));
        for (size_t i = 0; i < count; i++)
            region_free(heap, chunks[i]);
        cr_assert_eq(view_live_bytes(view), 0);
        heap_park(heap);
        cr_assert_lt(heap->own_free, (int64_t)(2 * OS_PAGE_BYTES), "%zu: waste that is not there",
                     size);
    }
}

Test(punch, whatever_happens_in_between) {
    enum { CHUNKS = 3000, STEPS = 200000 };
    static struct {
        unsigned char *chunk;
        size_t size;
    } slots[CHUNKS];
    uint64_t dice = 88172645463325252U;
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    for (int step = 0; step < STEPS; step++) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        unsigned at = dice % CHUNKS;
        if (step % 1000 == 999)
            trim_now(heap);
        if (step % 20000 == 19999) /* mostly empty for a while */
            for (unsigned i = 0; i < CHUNKS; i++)
                if (i % 20 && slots[i].chunk) {
                    region_free(i % 3 ? heap : other, slots[i].chunk);
                    slots[i].chunk = NULL;
                }
        if (slots[at].chunk) {
            for (size_t k = 0; k < slots[at].size; k++)
                cr_assert_eq(slots[at].chunk[k], at % 251, "step %d", step);
            region_free(dice >> 32 & 1 ? heap : other, slots[at].chunk);
            slots[at].chunk = NULL;
            continue;
        }
        slots[at].size = 16 + (dice >> 40) % 700;
        bool zero = dice >> 33 & 1;
        slots[at].chunk = region_alloc(heap, heap_view(heap, 7 + (uint32_t)(dice >> 34 & 3)),
                                       slots[at].size, zero);
        cr_assert(slots[at].chunk != NULL);
        for (size_t k = 0; zero && k < slots[at].size; k++)
            cr_assert_eq(slots[at].chunk[k], 0);
        memset(slots[at].chunk, (int)(at % 251), slots[at].size);
    }
    for (unsigned i = 0; i < CHUNKS; i++)
        if (slots[i].chunk)
            region_free(heap, slots[i].chunk);
    bins_collect_remote(heap);
    int64_t live = 0;
    for (uint32_t context = 7; context < 11; context++)
        live +=
            view_live_bytes(heap_view(heap, context)) + view_live_bytes(heap_view(other, context));
    cr_assert_eq(live, 0);
    cr_assert_gt(other->freed_of[heap->number], 10000);
}

/* The second of two frees is found although the record went with its memory. */
static void free_twice(bool by_another, size_t size) {
    enum { CHUNKS = 4000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(heap, heap_view(heap, 9), size, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 256)
            region_free(heap, chunks[i]);
    trim_now(heap);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 256 && page_at(chunks[i])->kind != PAGE_NONE &&
            blocks_is_punched(page_at(chunks[i]), chunks[i]))
            region_free(by_another ? other : heap, chunks[i]);
    _exit(0); /* none was found: not SIGABRT */
}

Test(punch, a_second_free_aborts, .signal = SIGABRT) {
    free_twice(false, 64);
}

Test(punch, a_second_free_of_a_larger_block_aborts, .signal = SIGABRT) {
    free_twice(false, 400);
}

Test(punch, a_second_free_by_another_aborts, .signal = SIGABRT) {
    free_twice(true, 64);
}

Test(punch, only_the_contexts_that_are_asked_for) {
    enum { CHUNKS = 8000 };
    static char *chunks[2][CHUNKS];
    struct heap *heap = heap_new();
    options.waste_kib = 1 << 20;
    for (int i = 0; i < CHUNKS; i++)
        for (uint32_t c = 0; c < 2; c++)
            chunks[c][i] = region_alloc(heap, heap_view(heap, 7 + c), 100, false);
    for (int i = 0; i < CHUNKS; i++)
        for (int c = 0; c < 2 && i % 200; c++)
            region_free(heap, chunks[c][i]);
    uint8_t *mark = heap_placed_byte(8);
    *mark |= TRIM_MARK;
    trim_wanted.all = false;
    trim_wanted.punch = true;
    trim_number++;
    trim_heap(heap);
    for (uint32_t c = 0; c < 2; c++) {
        size_t punched = 0;
        for (int i = CHUNKS / 2; i < CHUNKS; i += 200)
            punched += blocks_punched(page_at(chunks[c][i])) != 0;
        cr_assert_eq(punched > 0, c == 1, "context %u", 7 + c);
    }
    cr_assert_eq(heap_placement(8), PLACE_DEFAULT);
}

/* --- placing --------------------------------------------------------------------------------------- */

Test(place, contexts_apart_share_no_page_with_others) {
    enum { CHUNKS = 500 };
    static char *chunks[4][CHUNKS];
    struct heap *heap = heap_new();
    heap_place(7, PLACE_APART);
    heap_place(8, PLACE_APART);
    heaps_reconsider();
    for (int i = 0; i < CHUNKS; i++)
        for (uint32_t c = 0; c < 4; c++) {
            chunks[c][i] =
                region_alloc(heap, heap_view(heap, 7 + c), 16 + (size_t)(i % 8) * 3, false);
            if (i % 3 == 0) { /* and what was freed is used again within the same kind */
                region_free(heap, chunks[c][i]);
                chunks[c][i] = region_alloc(heap, heap_view(heap, 7 + c), 24, false);
            }
        }
    for (int i = 0; i < CHUNKS; i++)
        for (uint32_t c = 0; c < 4; c++) {
            struct page *page = page_at(chunks[c][i]);
            bool apart = page->kind == PAGE_MIXED && page->meta_shift & META_APART;
            cr_assert_eq(apart, c < 2, "chunk %d of context %u", i, 7 + c);
        }
    for (int i = 0; i < CHUNKS; i++)
        for (uint32_t c = 0; c < 4; c++)
            region_free(heap, chunks[c][i]);
    bins_release_empty(heap, &heap->apart->bins);
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        cr_assert(!heap->apart->bins.partial[i]);
}

Test(place, apart_means_own_pages_past_the_cap_too) {
    options.waste_kib = 0;
    struct heap *heap = heap_new();
    heap_place(7, PLACE_APART);
    for (int i = 0; i < 3000; i++)
        region_alloc(heap, heap_view(heap, 7), 64, false);
    heap->own_free += 1L << 30; /* far past the cap */
    heap_publish_waste(heap);
    struct page *last = NULL;
    for (int i = 0; i < 3000; i++)
        last = page_at(region_alloc(heap, heap_view(heap, 7), 64, false));
    cr_assert_eq(last->kind, PAGE_OWN);
    heap_place(7, PLACE_SHARED);
    heaps_reconsider();
    for (int i = 0; i < 3000; i++)
        last = page_at(region_alloc(heap, heap_view(heap, 7), 64, false));
    cr_assert_eq(last->kind, PAGE_MIXED);
    cr_assert_eq(last->meta_shift & META_APART, 0);
}

Test(place, what_is_free_in_merged_pages_serves_others) {
    enum { CHUNKS = 4000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(heap, heap_view(heap, 7), 64, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 10)
            region_free(heap, chunks[i]);
    heap_place(7, PLACE_SHARED);
    int64_t used = segment_used_bytes();
    for (int i = 0; i < CHUNKS / 2; i++)
        region_alloc(heap, heap_view(heap, 1000 + (uint32_t)i % 50), 64, false);
    cr_assert_leq(segment_used_bytes(), used + (int64_t)(4 * SLICE_BYTES));
    cr_assert_eq(page_at(chunks[0])->kind, PAGE_MIXED);
}

/* --- what was found by reading -------------------------------------------------------------------- */

Test(punch, a_parked_heap_s_waste_is_published) {
    enum { CHUNKS = 20000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new(), *parked = heap_acquire(1, false);
    options.waste_kib = 1 << 20;
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(parked, heap_view(parked, 7), 100, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 150)
            region_free(parked, chunks[i]);
    heap_park(parked);
    int64_t before = heap_global.own_free;
    lock_take(&parked->lock);
    trim_wanted.all = trim_wanted.punch = true;
    trim_number++;
    trim_heap(parked);
    heap_publish_waste(parked);
    lock_release(&parked->lock);
    cr_assert_lt(heap_global.own_free, before / 2);
    cr_assert_eq(parked->own_free, parked->own_free_published);
    cr_assert(heap != parked);
}

Test(punch, a_damaged_list_is_left_alone) {
    enum { CHUNKS = 4000 };
    static char *chunks[CHUNKS];
    for (int damage = 0; damage < 3; damage++) {
        struct heap *heap = heap_new();
        struct view *view = heap_view(heap, 9);
        for (int i = 0; i < CHUNKS; i++)
            chunks[i] = region_alloc(heap, view, 64, false);
        for (int i = 0; i < CHUNKS; i++)
            if (i % 250)
                region_free(heap, chunks[i]);
        for (int i = 1; i < CHUNKS;
             i += 3) /* into a block that is free: to itself, beside the start, far away */
            if (i % 250 && segment_page_of(chunks[i]) && page_at(chunks[i])->kind == PAGE_OWN)
                *(void **)(void *)chunks[i] = damage == 0   ? chunks[i]
                                              : damage == 1 ? chunks[i] + 9
                                                            : (char *)(uintptr_t)damage;
        trim_now(heap); /* ends */
    }
}

Test(place, nothing_moves_in_or_out_by_realloc) {
    struct heap *heap = heap_new();
    heap_place(7, PLACE_APART);
    char *apart = region_alloc(heap, heap_view(heap, 7), 100, false);
    char *other = region_alloc(heap, heap_view(heap, 8), 100, false);
    cr_assert_not(region_resize(heap, heap_view(heap, 8), apart, 104));
    cr_assert_not(region_resize(heap, heap_view(heap, 7), other, 104));
    cr_assert(region_resize(heap, heap_view(heap, 7), apart, 104));
    cr_assert(region_resize(heap, heap_view(heap, 8), other, 104));
}

Test(place, a_forked_child_owes_no_trim) {
    struct heap *heap = heap_new();
    trim_number += 3;
    heap_fork_child(heap);
    cr_assert_eq(heap->trims, trim_number);
}
