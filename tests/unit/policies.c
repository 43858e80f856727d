/* SPDX-License-Identifier: MIT */
/* Tests of the policies of contexts: slab and what stands one behind the other; and of changing
 * them at any time. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/fast.h"
#include "region/punch.h"
#include "region/region.h"
#include "region/serial.h"
#include "region/slab.h"

static struct heap *heap_new(void) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    cr_assert(heap != NULL);
    return heap;
}

static struct page *page_at(const void *chunk) {
    struct page *page = segment_page_of(chunk);
    cr_assert(page != NULL);
    return page;
}

/* Every way that an exported malloc may take, in its order. */
static void *alloc(struct heap *heap, struct view *view, size_t size, bool zero) {
    void *chunk = NULL;
    bool fresh = false;
    if (options.check)
        return region_alloc(heap, view, size, zero);
    if (size <= NARROW_MAX) {
        chunk = view->bins == &heap->mixed ? take_block_of_mixed_page(heap, view, size)
                                           : take_block_of_own_page(heap, view, size);
        if (!chunk)
            chunk = region_alloc_narrow(heap, view, size, &fresh);
    } else if (size <= SMALL_MAX) {
        chunk = region_alloc_wide(heap, view, size, &fresh);
    }
    if (!chunk && size <= SMALL_MAX)
        chunk = region_alloc_serial(heap, view, size, &fresh);
    if (!chunk && size <= SMALL_MAX)
        chunk = region_alloc_listed(heap, view, size, &fresh);
    if (!chunk)
        chunk =
            region_next_page(heap, view, size) ? region_alloc_wide(heap, view, size, &fresh) : NULL;
    if (!chunk)
        return region_alloc(heap, view, size, zero);
    return zero && !fresh ? memset(chunk, 0, size) : chunk;
}

static void place(uint32_t context, enum placement placement) {
    cr_assert(heap_place(context, placement));
    heaps_reconsider();
}

/* A context that is past MEMCTX_PROMOTE_BYTES, placed so. */
static struct view *placed(struct heap *heap, uint32_t context, enum placement placement) {
    struct view *view = heap_view(heap, context);
    for (int i = 0; i < 40; i++)
        alloc(heap, view, 512, false);
    place(context, placement);
    return view;
}

Test(slab, blocks_have_the_size_that_is_asked_for) {
    static const size_t sizes[] = {5, 24, 130, 270, 1030, 2100, 7200};
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_SLAB);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        char *before = NULL, *chunk = NULL;
        size_t exact = align_up(sizes[s], 16), beside = 0;
        for (int i = 0; i < 100; i++, before = chunk) {
            chunk = alloc(heap, view, sizes[s], false);
            memset(chunk, i, sizes[s]);
            beside += before + exact == chunk;
            cr_assert_eq(page_at(chunk)->block_bytes, exact, "%zu bytes", sizes[s]);
            cr_assert_eq(page_at(chunk)->kind, PAGE_OWN);
            cr_assert_eq(region_usable(chunk), exact);
        }
        cr_assert_gt(beside, 60, "%zu bytes: %zu of 100 stand beside the last one", sizes[s],
                     beside);
    }
}

Test(slab, blocks_grow_to_the_largest_of_their_class) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_SLAB);
    char *chunks[60];
    for (int i = 0; i < 60; i++) { /* the class has 1 280 bytes */
        size_t size = i < 20 ? 1030 : i < 40 ? 1100 : 1041;
        chunks[i] = alloc(heap, view, size, false);
        memset(chunks[i], i, size);
        cr_assert_eq(page_at(chunks[i])->block_bytes, i < 20 ? 1040 : 1104, "chunk %d", i);
    }
    struct page *old = page_at(chunks[0]);
    region_free(heap, chunks[3]);
    region_free(heap, chunks[4]);
    for (int i = 0; i < 20; i++)
        cr_assert_neq(page_at(alloc(heap, view, 1030, false)), old, "of those put aside");
    for (int i = 0; i < 60; i++) {
        size_t size = i < 20 ? 1030 : i < 40 ? 1100 : 1041;
        if (i == 3 || i == 4)
            continue;
        for (size_t k = 0; k < size; k++)
            cr_assert_eq(chunks[i][k], i);
        region_free(heap, chunks[i]);
    }
    cr_assert_eq(old->kind, PAGE_NONE, "it goes when it is empty");
}

Test(slab, its_pages_do_not_serve_all) {
    enum { CHUNKS = 4000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_SLAB);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 130, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 10)
            region_free(heap, chunks[i]);
    place(7, PLACE_SHARED); /* what is free in its pages would serve others, were it large enough */
    for (int i = 0; i < CHUNKS; i++) {
        char *chunk = alloc(heap, heap_view(heap, 1000 + (uint32_t)i % 50), 160, false);
        cr_assert_eq(page_at(chunk)->block_bytes, page_at(chunk)->size_class == 9 ? 192U : 160U,
                     "%u", page_at(chunk)->block_bytes);
    }
}

Test(slab, aligned_chunks_fit) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_SLAB);
    for (size_t alignment = 32; alignment <= 4096; alignment *= 2)
        for (size_t size = 1; size < 3000; size += 97) {
            char *chunk = region_alloc_aligned(heap, view, size, alignment);
            cr_assert_eq((uintptr_t)chunk % alignment, 0);
            cr_assert_geq(region_usable(chunk), size, "%zu bytes at %zu", size, alignment);
            memset(chunk, 1, size);
        }
}

/* Pages with free blocks: each knows those before and behind it, the first one the last; of a
 * slab's, from the second band's first one on, none is more than half full. */
static void check_lists(struct bins *bins) {
    for (unsigned size_class = 0; size_class < SIZE_CLASSES; size_class++) {
        struct page *first = bins->partial[size_class], *last = NULL, *emptier = NULL;
        if (first && bins_second_band(bins, first))
            emptier = *bins_second_band(bins, first);
        bool second = false;
        for (struct page *page = first; page; last = page, page = page->next) {
            cr_assert(page == first || page->prev == last);
            cr_assert(page->flags & PAGE_LISTED);
            cr_assert_eq(page->size_class, size_class);
            second |= page == emptier;
            cr_assert(!second || page->used <= page->capacity / 2, "%u of %u in the second band",
                      page->used, page->capacity);
        }
        cr_assert(!first || first->prev == last);
        cr_assert(second || !emptier, "the second band starts in another list");
    }
}

/* Pages that are full, with their chunks, and one behind them that is the current one. */
#define FULL_PAGES 5
#define PAGE_CHUNKS 400
struct full_page {
    struct page *page;
    void *chunks[PAGE_CHUNKS];
    unsigned count;
};
static struct full_page full_pages[FULL_PAGES + 1];

static struct view *fill_pages(struct heap *heap, enum placement placement, size_t size) {
    struct view *view = placed(heap, 7, placement);
    memset(full_pages, 0, sizeof full_pages);
    struct page *before = page_at(alloc(heap, view, size, false));
    void *chunk;
    while (page_at(chunk = alloc(heap, view, size, false)) == before)
        continue; /* that one may have chunks of `placed` */
    for (int i = 0; i <= FULL_PAGES; i++) {
        struct full_page *at = &full_pages[i];
        at->page = page_at(chunk);
        for (; page_at(chunk) == at->page; chunk = alloc(heap, view, size, false)) {
            cr_assert_lt(at->count, PAGE_CHUNKS);
            at->chunks[at->count++] = chunk;
            if (i == FULL_PAGES && at->count == 3)
                return view;
        }
        cr_assert_eq(at->count, at->page->capacity);
    }
    return view;
}

static void empty_to(struct heap *heap, struct full_page *at, unsigned left) {
    while (at->count > left)
        region_free(heap, at->chunks[--at->count]);
    check_lists(at->page->view->region);
}

/* Allocates until the current page is another one, which is returned. */
static struct page *next_page(struct heap *heap, struct view *view, size_t size) {
    struct page *page = page_at(alloc(heap, view, size, false)), *next;
    while ((next = page_at(alloc(heap, view, size, false))) == page)
        continue;
    check_lists(view->region);
    return next;
}

Test(slab, its_fuller_pages_are_used_first) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, PLACE_SLAB, 130);
    unsigned capacity = full_pages[0].page->capacity;
    empty_to(heap, &full_pages[0], capacity / 3);
    empty_to(heap, &full_pages[1], capacity * 3 / 4);
    empty_to(heap, &full_pages[2], capacity / 4);
    empty_to(heap, &full_pages[3], capacity * 2 / 3);
    empty_to(heap, &full_pages[4], capacity * 2 / 3);
    empty_to(heap, &full_pages[3], capacity / 2); /* it gets to the others, behind them */
    cr_assert_eq(next_page(heap, view, 130), full_pages[1].page);
    cr_assert_eq(next_page(heap, view, 130), full_pages[4].page);
    empty_to(heap, &full_pages[0], 0); /* the first of the others */
    cr_assert_eq(next_page(heap, view, 130), full_pages[2].page);
    cr_assert_eq(next_page(heap, view, 130), full_pages[3].page);
    cr_assert_eq(region_of(view->region)->bins.partial[full_pages[1].page->size_class], NULL);
}

/* Once it has another policy its pages stand in one list, as they came. */
Test(slab, its_bands_go_with_it) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, PLACE_SLAB, 128); /* just the class's size */
    unsigned capacity = full_pages[0].page->capacity;
    empty_to(heap, &full_pages[0], capacity / 3);
    place(7, PLACE_APART);
    alloc(heap, view, 3000, false); /* looks at that */
    cr_assert_eq(view->region->policy, PLACE_DEFAULT);
    empty_to(heap, &full_pages[0], 0);
    place(7, PLACE_SLAB);
    alloc(heap, view, 3000, false);
    cr_assert_eq(view->region->policy, PLACE_SLAB);
    empty_to(heap, &full_pages[1], capacity / 3);
    empty_to(heap, &full_pages[2], capacity * 3 / 4);
    cr_assert_eq(next_page(heap, view, 128), full_pages[2].page);
}

/* A full page is used again when some of its blocks are free: of a slab's more than a 16th, of
 * others' a 32nd. */
static void check_spare(enum placement placement, unsigned part) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, placement, 48);
    unsigned capacity = full_pages[0].page->capacity, spare = capacity / part;
    cr_assert_gt(spare, 1);
    struct heap *other = heap_acquire(1, false);
    region_free(other, full_pages[0].chunks[--full_pages[0].count]);
    heap_collect_remote(heap);
    cr_assert_eq(full_pages[0].page->used, capacity - 1, "whoever frees them");
    empty_to(heap, &full_pages[0], capacity - spare);
    cr_assert_eq(view->region->partial[full_pages[0].page->size_class], NULL);
    empty_to(heap, &full_pages[0], capacity - spare - 1);
    empty_to(heap, &full_pages[1], capacity - spare - 1);
    cr_assert_eq(next_page(heap, view, 48), full_pages[0].page);
    cr_assert_eq(next_page(heap, view, 48), full_pages[1].page);
    empty_to(heap, &full_pages[2], 0);
    cr_assert_eq(full_pages[2].page->kind, PAGE_NONE, "it goes when it is empty");
}

Test(place, full_pages_wait_for_some_free_blocks) {
    check_spare(PLACE_APART, 32);
}
Test(slab, full_pages_wait_for_more_free_blocks) {
    check_spare(PLACE_SLAB, 16);
}

/* Blocks of 8 KiB: that part of them is none. */
Test(place, full_pages_of_few_blocks_do_not_wait) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, PLACE_APART, 8000);
    empty_to(heap, &full_pages[0], full_pages[0].page->capacity - 1);
    cr_assert_eq(view->region->partial[full_pages[0].page->size_class], full_pages[0].page);
}

/* All its blocks can be had again. */
Test(place, a_page_that_starts_anew_has_all_its_blocks) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, PLACE_APART, 48);
    struct page *page = full_pages[FULL_PAGES].page;
    cr_assert_eq(view->region->current[page->size_class], page);
    while (page->used < page->capacity)
        cr_assert_eq(page_at(alloc(heap, view, 48, false)), page);
    cr_assert(!blocks_has_free(page));
    view->region->current[page->size_class] =
        page; /* as a reset does with it, which frees no chunk by itself */
    store_owner(&heap->own_free, heap->own_free + (int64_t)page->used * page->waste_unit);
    page->used = 0;
    blocks_rewind(heap, page);
    for (unsigned i = 0; i < page->capacity; i++)
        cr_assert_eq(page_at(alloc(heap, view, 48, false)), page, "chunk %u", i);
}

/* Its chunks are replaced one by one: neither a page with free blocks nor the current one may
 * keep the context where it is. */
Test(place, a_context_in_use_comes_over) {
    enum { CHUNKS = 2000 };
    static char *chunks[CHUNKS];
    static const enum placement placements[] = {PLACE_SLAB,   PLACE_GENERATION, PLACE_DEFAULT,
                                                PLACE_SIMPLE, PLACE_BUMP,       PLACE_SLAB,
                                                PLACE_SIMPLE, PLACE_APART};
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 7);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 130, false);
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        place(7, placements[p]);
        for (int i = 0; i < CHUNKS; i++) {
            /* As when the free comes between the placing and the next malloc. */
            region_free(heap, chunks[(i * 7) % CHUNKS]);
            chunks[(i * 7) % CHUNKS] = alloc(heap, view, 130, false);
        }
        bool serial = placements[p] == PLACE_GENERATION || placements[p] == PLACE_BUMP;
        for (int i = 0; i < CHUNKS; i++) {
            struct page *page = page_at(chunks[i]);
            cr_assert_eq(page->kind, serial ? PAGE_SERIAL : PAGE_OWN, "%d, %zu", i, p);
            if (!serial)
                cr_assert_eq(page->block_bytes, placements[p] == PLACE_SLAB ? 144 : 160, "%d, %zu",
                             i, p);
            cr_assert_eq(simple_is(page), placements[p] == PLACE_SIMPLE, "%d, %zu", i, p);
        }
    }
}

/* Its chunks do not come the slow way, where that would be seen. */
Test(simple, a_context_that_is_placed_elsewhere_comes_over) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_SIMPLE);
    void *chunk = alloc(heap, view, 100, false);
    cr_assert(simple_is(page_at(chunk)));
    region_free(heap, chunk);
    place(7, PLACE_DEFAULT);
    alloc(heap, heap_view(heap, 8), 5000,
          false); /* the thread has seen it, but for another context */
    chunk = alloc(heap, view, 100, false);
    cr_assert_not(simple_is(page_at(chunk)));
}

/* From the region's list: number of chunks, of those that hang together. */
static unsigned listed(const struct view *view) {
    unsigned count = 0;
    const struct simple_node *before = NULL;
    for (struct simple_node *node = region_of(view->region)->chunks; node; node = node->next) {
        cr_assert_eq(node->prev, before);
        before = node;
        count++;
    }
    return count;
}

Test(simple, each_chunk_is_in_the_list_and_no_other) {
    enum { CHUNKS = 1000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    struct view *view = placed(heap, 7, PLACE_SIMPLE);
    for (int i = 0; i < CHUNKS; i++) {
        size_t size = (size_t)i * 7 % 1500;
        chunks[i] =
            i % 5 ? alloc(heap, view, size, false) : region_alloc_aligned(heap, view, size, 256);
        cr_assert_geq(region_usable(chunks[i]), size);
        memset(chunks[i], 0xff, region_usable(chunks[i]));
    }
    cr_assert_eq(listed(view), CHUNKS);
    for (int i = 0; i < CHUNKS; i += 2)
        region_free(i % 4 ? other : heap, chunks[i]);
    heap_collect_remote(heap);
    cr_assert_eq(listed(view), CHUNKS / 2);
    for (int i = 1; i < CHUNKS; i += 2)
        region_free(heap, chunks[i]);
    cr_assert_eq(listed(view), 0);
}

/* Whatever the place is at which it was left: also where a granule was just opened. */
Test(place, a_page_that_was_left_and_trimmed_serves_again) {
    enum { CHUNKS = 300 };
    static const size_t sizes[] = {16, 48, 112, 128};
    static unsigned char *chunks[CHUNKS];
    options.promote_bytes = 0;
    struct heap *heap = heap_new();
    for (uint32_t n = 1; n < 4 * 100; n++) {
        uint32_t context = 100 + n;
        size_t size = sizes[n % 4], count = 20 + n % 100;
        struct view *view = heap_view(heap, context);
        alloc(heap, view, 8000, false); /* it has a region */
        for (size_t i = 0; i < count; i++) {
            chunks[i] = alloc(heap, view, size, false);
            memset(chunks[i], (int)i, size);
        }
        place(context, PLACE_GENERATION);
        void *other = alloc(heap, view, size, false);
        region_free(heap, chunks[0]);
        trim_wanted.all = trim_wanted.punch = true;
        trim_number++;
        trim_heap(heap);
        place(context, PLACE_DEFAULT);
        for (size_t i = count; i <= CHUNKS; i++) {
            chunks[i % CHUNKS] = alloc(heap, view, size, false);
            memset(chunks[i % CHUNKS], (int)(i % CHUNKS), size);
        }
        for (size_t i = 0; i < CHUNKS; i++) {
            for (size_t k = 0; k < size; k++)
                cr_assert_eq(chunks[i][k], i % 256, "chunk %zu of %zu bytes, %zu before", i, size,
                             count);
            region_free(heap, chunks[i]);
        }
        region_free(heap, other);
    }
}

/* --- one behind the other --------------------------------------------------------------------- */

Test(serial, chunks_stand_one_behind_the_other) {
    static const size_t sizes[] = {1, 16, 17, 100, 500, 999, 0, 1024};
    enum { KINDS = sizeof sizes / sizeof *sizes, CHUNKS = 20000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    int64_t used = segment_used_bytes(), requested = 0;
    int beside = 0;
    for (int i = 0; i < CHUNKS; i++) {
        size_t size = sizes[i % KINDS];
        chunks[i] = alloc(heap, view, size, false);
        memset(chunks[i], i % 127, size);
        requested += (int64_t)size;
        cr_assert_eq(page_at(chunks[i])->kind, PAGE_SERIAL);
        size_t before = align_up(sizes[(i + KINDS - 1) % KINDS], 16);
        beside += i && chunks[i] == chunks[i - 1] + (before ? before : 16);
    }
    cr_assert_gt(beside, CHUNKS - 200, "%d", beside);
    cr_assert_lt(segment_used_bytes() - used, requested + requested / 16);
    for (int i = 0; i < CHUNKS; i++) {
        cr_assert_eq(region_usable(chunks[i]), align_up(sizes[i % KINDS] + !sizes[i % KINDS], 16));
        for (size_t k = 0; k < sizes[i % KINDS]; k++)
            cr_assert_eq(chunks[i][k], i % 127);
    }
    /* In the order they came: page after page goes, but the current one and a spare one. */
    for (int i = 0; i < CHUNKS; i++) {
        region_free(heap, chunks[i]);
        if (i == CHUNKS / 2)
            cr_assert_lt(segment_used_bytes() - used, requested * 11 / 20 + 200000);
    }
    cr_assert_eq(view_live_bytes(view), 40 * 512);
    cr_assert_leq(segment_used_bytes() - used, (int64_t)(2 * WIDE_PAGE_SLICES * SLICE_BYTES));
    cr_assert_eq(region_of(view->region)->spare != NULL, true);
    place(7, PLACE_BUMP);
    alloc(heap, view, 1, false);
    cr_assert(!region_of(view->region)->spare, "bump keeps none");
}

Test(serial, a_page_is_used_again_when_it_is_empty) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_BUMP);
    char *first = alloc(heap, view, 100, false);
    memset(first, 'x', 100);
    region_free(heap, first);
    for (int i = 0; i < 100000; i++) {
        char *chunk = alloc(heap, view, 100, true);
        cr_assert_eq(chunk, first);
        cr_assert_eq(chunk[i % 100], 0, "zeroed");
        memset(chunk, 'x', 100);
        region_free(heap, chunk);
    }
}

Test(serial, bump_keeps_no_empty_page) {
    enum { CHUNKS = 1000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_BUMP);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 100, false);
    for (int i = 0; i < CHUNKS; i++)
        region_free(heap, chunks[i]);
    struct region *region = region_of(view->region);
    cr_assert(!region->spare);
    cr_assert_eq(region->pages, region->serial, "the current one");
    cr_assert(!region->pages->next);
}

Test(serial, aligned_chunks) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    static char *chunks[2000];
    int64_t waste = heap->own_free;
    chunks[0] = alloc(heap, view, 16, false);
    char *far = region_alloc_aligned(heap, view, 16, 4096);
    cr_assert_eq(heap->own_free - waste, far - chunks[0] - 16, "what was skipped is waste");
    region_free(heap, chunks[0]);
    region_free(heap, far);
    for (int i = 0; i < 2000; i++) {
        size_t alignment = 32UL << i % 8, size = 1 + (size_t)i * 3 % 3000;
        chunks[i] = region_alloc_aligned(heap, view, size, alignment);
        cr_assert_eq((uintptr_t)chunks[i] % alignment, 0);
        cr_assert_eq(page_at(chunks[i])->kind, PAGE_SERIAL);
        memset(chunks[i], i % 127, size);
    }
    for (int i = 0; i < 2000; i++)
        for (size_t k = 0; k < 1 + (size_t)i * 3 % 3000; k++)
            cr_assert_eq(chunks[i][k], i % 127);
    for (int i = 0; i < 2000; i++)
        region_free(heap, chunks[i]);
    place(7, PLACE_DEFAULT);
    alloc(heap, view, 1, false);
    cr_assert(!region_of(view->region)->pages, "a page is left");
}

Test(serial, the_last_chunk_grows_and_shrinks_where_it_is) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    char *chunk = alloc(heap, view, 100, false);
    memset(chunk, 'x', 100);
    cr_assert(region_resize(heap, view, chunk, 1000));
    cr_assert_eq(region_usable(chunk), 1008);
    memset(chunk, 'y', 1000);
    cr_assert(region_resize(heap, view, chunk, 40));
    char *behind = alloc(heap, view, 500, true);
    cr_assert_eq(behind, chunk + 48);
    for (int i = 0; i < 500; i++)
        cr_assert_eq(behind[i], 0, "what the chunk before wrote");
    cr_assert_not(region_resize(heap, view, chunk, 49), "another one stands behind");
    cr_assert(region_resize(heap, view, behind, 300), "not much less");
    cr_assert(region_resize(heap, view, behind, 15000 + 1) == false, "a large one");
    char *moved = region_realloc(heap, view, chunk, 200);
    cr_assert_neq(moved, chunk);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(moved[i], 'y');
    cr_assert_eq(view_live_bytes(view), 40 * 512 + 300 + 200);
}

/* A page of them, and nothing but them. */
Test(serial, chunks_that_are_alike_take_nothing_beside_themselves) {
    static const size_t sizes[] = {16, 64, 128, 1024, 2048, 4096};
    struct heap *heap = heap_new();
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct view *view = placed(heap, 20 + i, PLACE_BUMP);
        struct page *page = NULL, *wide = NULL;
        unsigned count = 0;
        for (size_t bytes = 0; bytes < (2UL << 20); bytes += sizes[i]) {
            char *chunk = alloc(heap, view, sizes[i], false);
            if (page_at(chunk) == page) {
                count++;
                continue;
            }
            if (page && page->slices == WIDE_PAGE_SLICES) {
                cr_assert_eq(count * sizes[i], WIDE_PAGE_SLICES * SLICE_BYTES, "%u of %zu", count,
                             sizes[i]);
                cr_assert_eq(serial_record_bytes(page), 0);
                wide = page;
            }
            page = page_at(chunk);
            count = 1;
        }
        cr_assert(wide);
    }
}

/* Runs of several and of one, all that a walk tells, and each chunk freed, by both threads. */
Test(serial, runs_of_all_lengths) {
    enum { CHUNKS = 3000 };
    static char *chunks[CHUNKS];
    static size_t sizes[CHUNKS];
    static bool freed[CHUNKS];
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    size_t size = 0;
    for (int i = 0, left = 0, run = 0; i < CHUNKS; i++) {
        if (!left--) {
            left = run++ % 7;
            size = 1 + (size_t)run * 37 % 400;
        }
        sizes[i] = size;
        chunks[i] = alloc(heap, view, size, false);
    }
    for (int step = 0; step < 2; step++) {
        int i = 0;
        struct serial_chunk there;
        for (struct page *page = NULL; i < CHUNKS;) {
            page = page_at(chunks[i]);
            struct serial_walk walk = serial_walk(page);
            char *start = segment_span_start(page);
            while (serial_next(page, start, &walk, &there)) {
                if (start + there.offset < chunks[i])
                    continue; /* what the region had before */
                cr_assert_eq(start + there.offset, chunks[i], "chunk %d", i);
                cr_assert_eq(there.bytes, align_up(sizes[i], 16));
                cr_assert_eq(there.bytes - there.slack, sizes[i]);
                cr_assert_eq(there.state,
                             !freed[i]    ? SERIAL_LIVE
                             : i % 4 == 3 ? SERIAL_FREED
                                          : SERIAL_DEAD,
                             "chunk %d", i);
                if (!freed[i])
                    cr_assert_eq(region_requested(chunks[i]), sizes[i]);
                i++;
            }
        }
        for (i = 0; i < CHUNKS && !step; i++) /* odd ones, so that no page gets empty */
            if ((freed[i] = i % 2))
                region_free(i % 4 == 3 ? other : heap, chunks[i]);
    }
    for (int i = 0; i < CHUNKS; i += 2)
        region_free(i % 3 ? heap : other, chunks[i]);
    heap_collect_remote(heap);
    cr_assert_eq(view_live_bytes(view) + view_live_bytes(heap_view(other, 7)), 40 * 512);
}

Test(serial, one_of_several_that_are_alike_is_resized) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_BUMP);
    char *chunks[5];
    for (int i = 0; i < 5; i++)
        chunks[i] = alloc(heap, view, 100, false);
    cr_assert_not(region_resize(heap, view, chunks[2], 97), "its neighbours have 100");
    cr_assert(region_resize(heap, view, chunks[2], 100));
    cr_assert(region_resize(heap, view, chunks[4], 200), "the last one");
    cr_assert_eq(region_requested(chunks[4]), 200);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(region_requested(chunks[i]), 100);
    cr_assert(region_resize(heap, view, chunks[4], 100), "the run grows together");
    char *next = alloc(heap, view, 100, false);
    cr_assert_eq(next, chunks[4] + 112);
    cr_assert_eq(region_requested(chunks[4]), 100);
    char *alone = alloc(heap, view, 300, false);
    alloc(heap, view, 40, false);
    cr_assert(region_resize(heap, view, alone, 290), "alone of its kind");
    cr_assert_eq(region_requested(alone), 290);
    cr_assert_eq(view_live_bytes(view), 40 * 512 + 6 * 100 + 290 + 40);
    region_free(heap, alone);
    for (int i = 0; i < 5; i++)
        region_free(heap, chunks[i]);
    cr_assert_eq(view_live_bytes(view), 40 * 512 + 100 + 40);
}

Test(serial, others_free_and_the_owner_collects) {
    enum { CHUNKS = 5000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    int64_t used = segment_used_bytes();
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < CHUNKS; i++)
            chunks[i] = alloc(heap, view, 64, false);
        for (int i = 0; i < CHUNKS; i++)
            region_free(i % 3 ? other : heap, chunks[i]);
    }
    heap_collect_remote(heap);
    cr_assert_eq(view_live_bytes(view) + view_live_bytes(heap_view(other, 7)), 40 * 512);
    cr_assert_leq(segment_used_bytes() - used, (int64_t)(3 * WIDE_PAGE_SLICES * SLICE_BYTES));
    /* Of a heap that is parked, the one who frees gives the page back. */
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 64, false);
    struct region *region = region_of(view->region);
    heap_park(heap);
    for (int i = 0; i < CHUNKS; i++)
        region_free(other, chunks[i]);
    cr_assert(!region->pages, "nobody allocates there");
    cr_assert_eq(heap_acquire(2, false), heap);
    chunks[0] = alloc(heap, heap_view(heap, 7), 64, false);
    region_free(heap, chunks[0]);
}

Test(serial, os_pages_with_nothing_alive_go) {
    enum { CHUNKS = 6000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    for (int i = 0; i < CHUNKS; i++) {
        chunks[i] = alloc(heap, view, 200, false);
        memset(chunks[i], i % 127, 200);
    }
    int64_t waste = heap->own_free;
    for (int i = 0; i < CHUNKS; i++)
        if (i % 100)
            region_free(heap, chunks[i]);
    trim_wanted.all = trim_wanted.punch = true;
    trim_wanted.released = 0;
    trim_number++;
    trim_heap(heap);
    /* 6 000 times 208 bytes, less an OS page for each that stays, and its neighbours' parts. */
    cr_assert_gt(trim_wanted.released, 800000, "%ld", (long)trim_wanted.released);
    cr_assert_leq(heap->own_free, waste + CHUNKS * 208 - trim_wanted.released);
    int64_t once = trim_wanted.released;
    trim_number++;
    trim_heap(heap);
    cr_assert_eq(trim_wanted.released, once, "given back twice");
    for (int i = 0; i < CHUNKS; i += 100) {
        for (int k = 0; k < 200; k++)
            cr_assert_eq(chunks[i][k], i % 127);
        region_free(heap, chunks[i]);
    }
    heap_park(heap);
    cr_assert_lt(heap->own_free, (int64_t)(4 * OS_PAGE_BYTES), "%ld: waste that is not there",
                 (long)heap->own_free);
}

/* Its first word holds the page's list of what others freed. */
Test(serial, what_is_not_collected_yet_stays) {
    enum { CHUNKS = 2000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 200, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 60)
            region_free(i % 60 == 30 ? other : heap, chunks[i]);
    cr_assert_gt(serial_punch(region_of(view->region)), 0);
    for (int i = 0; i < CHUNKS; i += 60)
        region_free(heap, chunks[i]);
    heap_collect_remote(heap);
    for (struct page *page = region_of(view->region)->pages; page; page = page->next)
        cr_assert_eq(page->used, 0, "freed, and lost");
}

static void wrong_free_of(bool first_by_another, bool by_another, bool twice, size_t offset) {
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    char *chunks[50];
    for (int i = 0; i < 50; i++)
        chunks[i] = alloc(heap, view, 100, false);
    if (twice)
        region_free(first_by_another ? other : heap, chunks[20]);
    region_free(by_another ? other : heap, chunks[20] + offset);
    _exit(0);
}

static void wrong_free(bool by_another, bool twice, size_t offset) {
    wrong_free_of(false, by_another, twice, offset);
}

Test(misuse, a_second_free_of_a_serial_chunk_that_another_freed_aborts, .signal = SIGABRT) {
    wrong_free_of(true, false, true, 0);
}
Test(misuse, a_second_free_by_another_of_what_another_freed_aborts, .signal = SIGABRT) {
    wrong_free_of(true, true, true, 0);
}
Test(misuse, a_second_free_of_a_serial_chunk_aborts, .signal = SIGABRT) {
    wrong_free(false, true, 0);
}
Test(misuse, a_second_free_of_a_serial_chunk_by_another_aborts, .signal = SIGABRT) {
    wrong_free(true, true, 0);
}
Test(misuse, a_pointer_into_a_serial_chunk_aborts, .signal = SIGABRT) {
    wrong_free(false, false, 16);
}
Test(misuse, an_odd_pointer_into_a_serial_chunk_aborts, .signal = SIGABRT) {
    wrong_free(true, false, 8);
}

/* --- whatever happens ------------------------------------------------------------------------- */

static uint64_t dice;
static uint64_t roll(uint64_t sides) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (dice >> 11) % sides;
}

static struct slot {
    unsigned char *chunk, mark;
    size_t size;
} slots[4000];
#define SLOTS (sizeof slots / sizeof *slots)

static void check_slot(const struct slot *slot) {
    for (size_t k = 0; k < slot->size; k++)
        cr_assert_eq(slot->chunk[k], slot->mark, "byte %zu of %zu", k, slot->size);
}

static size_t some_size(void) {
    switch (roll(8)) {
    case 0: return roll(20);
    case 1: return 1000 + roll(300);
    case 2: return roll(9000);
    case 3:
    case 4: return 16 * (1 + roll(2)); /* chunks that are alike, one behind the other */
    default: return 16 + roll(200);
    }
}

static void change_slot(struct slot *slot, struct heap *heap, struct heap *other) {
    struct view *view = heap_view(heap, 7 + (uint32_t)roll(5));
    if (slot->chunk) {
        check_slot(slot);
        if (roll(4)) {
            region_free(roll(3) ? heap : other, slot->chunk);
            slot->chunk = NULL;
            return;
        }
        size_t size = some_size();
        if (!region_resize(heap, view, slot->chunk, size))
            slot->chunk = region_realloc(heap, view, slot->chunk, size);
        cr_assert(slot->chunk != NULL);
        slot->size = size < slot->size ? size : slot->size;
        check_slot(slot); /* what was there stays */
        slot->size = size;
    } else {
        bool zero = roll(2), aligned = !roll(10);
        size_t alignment = 16UL << roll(8);
        slot->size = some_size();
        slot->chunk = aligned ? region_alloc_aligned(heap, view, slot->size, alignment)
                              : alloc(heap, view, slot->size, zero);
        cr_assert(slot->chunk != NULL);
        cr_assert_eq((uintptr_t)slot->chunk % (aligned ? alignment : 16), 0);
        for (size_t k = 0; k < slot->size && zero && !aligned; k++)
            cr_assert_eq(slot->chunk[k], 0);
    }
    slot->mark = (unsigned char)roll(256);
    memset(slot->chunk, slot->mark, slot->size);
}

static void play(uint64_t seed, int steps) {
    dice = seed * 0x9e3779b97f4a7c15U + 1;
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    for (int step = 0; step < steps; step++) {
        change_slot(&slots[roll(SLOTS)], heap, other);
        if (!roll(3000))
            place(7 + (uint32_t)roll(5), (enum placement)roll(PLACE_COUNT));
        for (uint32_t context = 7; context < 12 && !roll(200); context++)
            if (heap_view(heap, context)->region)
                check_lists(heap_view(heap, context)->region);
        if (!roll(2000)) {
            trim_wanted.all = trim_wanted.punch = true;
            trim_number++;
            heaps_reconsider();
        }
        if (!roll(20000)) { /* mostly empty for a while, in the order they came or in any */
            for (size_t i = 0; i < SLOTS; i++)
                if (slots[i].chunk && i % 30) {
                    check_slot(&slots[i]);
                    region_free(i % 3 ? heap : other, slots[i].chunk);
                    slots[i].chunk = NULL;
                }
        }
        if (!roll(30000)) {
            heap_park(heap);
            for (int i = 0; i < 500; i++) {
                struct slot *slot = &slots[roll(SLOTS)];
                if (!slot->chunk)
                    continue;
                check_slot(slot);
                region_free(other, slot->chunk);
                slot->chunk = NULL;
            }
            cr_assert_eq(heap_acquire(os_thread_id(), false), heap);
        }
    }
    int64_t live = 0, requested = 0;
    for (uint32_t context = 7; context < 12; context++)
        for (struct heap *at = heap_global.first; at; at = at->next)
            live += view_live_bytes(heap_view(at, context));
    for (size_t i = 0; i < SLOTS; i++)
        requested += slots[i].chunk ? (int64_t)slots[i].size : 0;
    cr_assert_eq(live, requested, "seed %lu", (unsigned long)seed);
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].chunk) {
            check_slot(&slots[i]);
            region_free(i % 2 ? heap : other, slots[i].chunk);
            slots[i].chunk = NULL;
        }
    heap_park(heap);
    heap_park(other);
    cr_assert_eq(heap_global.lost_views, 0);
    cr_assert_lt(heap->own_free, (int64_t)(8 * OS_PAGE_BYTES), "seed %lu: %ld bytes of waste",
                 (unsigned long)seed, (long)heap->own_free);
    for (uint32_t context = 7; context < 12; context++) {
        struct bins *region = heap_view(heap, context)->region;
        cr_assert(!region || !region_of(region)->pages, "seed %lu: a page is left",
                  (unsigned long)seed);
        for (unsigned i = 0; region && i < SIZE_CLASSES; i++)
            cr_assert(!region->partial[i] && region->current[i] == &heap_no_page, "seed %lu",
                      (unsigned long)seed);
    }
}

Test(policies, whatever_happens) {
    play(1, 150000);
}
Test(policies, whatever_happens_to_small_contexts) {
    options.promote_bytes = 0;
    play(2, 150000);
}
Test(policies, whatever_happens_past_the_cap) {
    options.waste_kib = 0;
    play(3, 150000);
}
Test(policies, whatever_happens_in_checking_mode) {
    options.check = 1;
    play(4, 60000);
}
