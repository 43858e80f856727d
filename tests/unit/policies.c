/* SPDX-License-Identifier: MIT */
/* Tests of the policies that place chunks in blocks (slab, simple), and of changing a policy. */
#include <criterion/criterion.h>
#include <string.h>

#include "policy_tests.h"
#include "region/punch.h"
#include "region/slab.h"
#include "region/terms.h"

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
    for (int i = 0; i < 60; i++) { /* all in one size class, of up to 1 280 bytes */
        size_t size = i < 20 ? 1030 : i < 40 ? 1100 : 1041;
        chunks[i] = alloc(heap, view, size, false);
        memset(chunks[i], i, size);
        cr_assert_eq(page_at(chunks[i])->block_bytes, i < 20 ? 1040 : 1104, "chunk %d", i);
    }
    struct page *old = page_at(chunks[0]);
    region_free(heap, chunks[3]);
    region_free(heap, chunks[4]);
    for (int i = 0; i < 20; i++)
        cr_assert_neq(page_at(alloc(heap, view, 1030, false)), old,
                      "a page with smaller blocks is used again");
    for (int i = 0; i < 60; i++) {
        size_t size = i < 20 ? 1030 : i < 40 ? 1100 : 1041;
        if (i == 3 || i == 4)
            continue;
        for (size_t k = 0; k < size; k++)
            cr_assert_eq(chunks[i][k], i);
        region_free(heap, chunks[i]);
    }
    cr_assert_eq(old->kind, PAGE_NONE, "the empty page was not given back");
}

Test(slab, free_blocks_of_its_pages_may_be_too_small_for_others) {
    enum { CHUNKS = 4000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_SLAB);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 130, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 10)
            region_free(heap, chunks[i]);
    /* other contexts may use free blocks of its pages; those are too small for 160 bytes */
    place(7, PLACE_SHARED);
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

/* Full pages with their chunks; the last element is the current page, which is not full. */
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
        continue; /* the first page may have chunks that placed() allocated */
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

/* Allocates until the region switches to another page. Returns that page. */
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
    /* the page moves to the second band, at its end */
    empty_to(heap, &full_pages[3], capacity / 2);
    cr_assert_eq(next_page(heap, view, 130), full_pages[1].page);
    cr_assert_eq(next_page(heap, view, 130), full_pages[4].page);
    empty_to(heap, &full_pages[0], 0); /* the page is the first of the second band */
    cr_assert_eq(next_page(heap, view, 130), full_pages[2].page);
    cr_assert_eq(next_page(heap, view, 130), full_pages[3].page);
    cr_assert_eq(region_of(view->region)->bins.partial[full_pages[1].page->size_class], NULL);
}

/* When the context gets another policy, its pages stand in one list again, in the order in which
 * they got free blocks. */
Test(slab, bands_end_with_the_policy) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, PLACE_SLAB, 128); /* exactly the size of the class */
    unsigned capacity = full_pages[0].page->capacity;
    empty_to(heap, &full_pages[0], capacity / 3);
    place(7, PLACE_APART);
    alloc(heap, view, 3000, false); /* this call applies the new policy */
    cr_assert_eq(view->region->policy, PLACE_DEFAULT);
    empty_to(heap, &full_pages[0], 0);
    place(7, PLACE_SLAB);
    alloc(heap, view, 3000, false);
    cr_assert_eq(view->region->policy, PLACE_SLAB);
    empty_to(heap, &full_pages[1], capacity / 3);
    empty_to(heap, &full_pages[2], capacity * 3 / 4);
    cr_assert_eq(next_page(heap, view, 128), full_pages[2].page);
}

/* A full page is used again when enough of its blocks are free: more than 1/16 of them with the
 * policy slab, 1/32 with others. */
static void check_spare(enum placement placement, unsigned part) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, placement, 48);
    unsigned capacity = full_pages[0].page->capacity, spare = capacity / part;
    cr_assert_gt(spare, 1);
    struct heap *other = heap_acquire(1, false);
    region_free(other, full_pages[0].chunks[--full_pages[0].count]);
    heap_collect_remote(heap);
    cr_assert_eq(full_pages[0].page->used, capacity - 1, "the other thread's free does not count");
    empty_to(heap, &full_pages[0], capacity - spare);
    cr_assert_eq(view->region->partial[full_pages[0].page->size_class], NULL);
    empty_to(heap, &full_pages[0], capacity - spare - 1);
    empty_to(heap, &full_pages[1], capacity - spare - 1);
    cr_assert_eq(next_page(heap, view, 48), full_pages[0].page);
    cr_assert_eq(next_page(heap, view, 48), full_pages[1].page);
    empty_to(heap, &full_pages[2], 0);
    cr_assert_eq(full_pages[2].page->kind, PAGE_NONE, "the empty page was not given back");
}

Test(place, full_pages_wait_for_some_free_blocks) {
    check_spare(PLACE_APART, 32);
}
Test(slab, full_pages_wait_for_more_free_blocks) {
    check_spare(PLACE_SLAB, 16);
}

/* In a page of 8 KiB blocks, 1/32 of the blocks is less than one: one free block is enough. */
Test(place, full_pages_of_few_blocks_do_not_wait) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, PLACE_APART, 8000);
    empty_to(heap, &full_pages[0], full_pages[0].page->capacity - 1);
    cr_assert_eq(view->region->partial[full_pages[0].page->size_class], full_pages[0].page);
}

/* After blocks_rewind (region/blocks.h) each block of the page can be allocated again. */
Test(place, a_page_that_starts_anew_has_all_its_blocks) {
    struct heap *heap = heap_new();
    struct view *view = fill_pages(heap, PLACE_APART, 48);
    struct page *page = full_pages[FULL_PAGES].page;
    cr_assert_eq(view->region->current[page->size_class], page);
    while (page->used < page->capacity)
        cr_assert_eq(page_at(alloc(heap, view, 48, false)), page);
    cr_assert(!blocks_has_free(page));
    /* the state that a reset leaves behind, because it does not free chunk by chunk */
    view->region->current[page->size_class] = page;
    store_owner(&heap->own_free, heap->own_free + (int64_t)page->used * page->waste_unit);
    page->used = 0;
    blocks_rewind(heap, page);
    for (unsigned i = 0; i < page->capacity; i++)
        cr_assert_eq(page_at(alloc(heap, view, 48, false)), page, "chunk %u", i);
}

/* The chunks of the context are replaced one by one after each change of policy: neither a page
 * with free blocks nor the current page may keep the old policy in use. */
Test(place, a_context_in_use_gets_its_new_policy) {
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
            /* The free comes between the change of policy and the next malloc. */
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

/* Chunks of the policy simple come from region_alloc_listed, which has to notice a change of the
 * placement. */
Test(simple, a_context_with_a_new_placement_leaves_the_list) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_SIMPLE);
    void *chunk = alloc(heap, view, 100, false);
    cr_assert(simple_is(page_at(chunk)));
    region_free(heap, chunk);
    place(7, PLACE_DEFAULT);
    alloc(heap, heap_view(heap, 8), 5000,
          false); /* the thread notices the change in an allocation of another context */
    chunk = alloc(heap, view, 100, false);
    cr_assert_not(simple_is(page_at(chunk)));
}

/* A context leaves its policy, or its large pages, and allocates no more. Contexts that share pages
 * may then take its pages over, but only pages that have the form of mixed pages. */
static void only_usual_pages_are_shared(enum placement placement, uint8_t slices) {
    enum { CHUNKS = 1500, SIZE = 240 };
    static char *chunks[CHUNKS], *others[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, placement), *other = heap_view(heap, 8);
    view->region->slices = slices;
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = memset(alloc(heap, view, SIZE, false), 7, SIZE);
    if (slices)
        cr_assert_eq(page_at(chunks[CHUNKS - 1])->slices, slices);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 10)
            free_like_api(heap, chunks[i]);
    place(7, PLACE_SHARED);
    options.promote_bytes = 1 << 30;
    for (int i = 0; i < CHUNKS; i++)
        others[i] = memset(alloc(heap, other, SIZE, false), 8, SIZE);
    for (int i = 0; i < CHUNKS; i += 10) {
        cr_assert_eq(chunks[i][0] + chunks[i][SIZE - 1], 14);
        free_like_api(heap, chunks[i]);
    }
    for (int i = 0; i < CHUNKS; i++) {
        cr_assert_eq(others[i][0] + others[i][SIZE - 1], 16);
        free_like_api(heap, others[i]);
    }
    cr_assert_eq(view->allocs - view->frees, PLACED_CHUNKS, "those of placed()");
    cr_assert_eq(other->allocs, other->frees);
}

Test(place, pages_of_policy_simple_are_not_shared) {
    only_usual_pages_are_shared(PLACE_SIMPLE, 0);
}

Test(place, large_pages_are_not_shared) {
    only_usual_pages_are_shared(PLACE_APART, 4);
}

/* Returns the number of chunks in the list that a region of the policy simple keeps. Checks the
 * links of the list. */
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

/* A context leaves its current page at any block, also at the first of a granule. The page is
 * trimmed and used again. */
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
        alloc(heap, view, 8000, false); /* now the context has a region */
        for (size_t i = 0; i < count; i++) {
            chunks[i] = alloc(heap, view, size, false);
            memset(chunks[i], (int)i, size);
        }
        place(context, PLACE_GENERATION);
        void *other = alloc(heap, view, size, false);
        region_free(heap, chunks[0]);
        *heap_placed_byte(context) |= TRIM_MARK;
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

/* Checks that a freed chunk is zero. The allocator uses the first two words of a free block. */
static void check_zero(const char *chunk, size_t size) {
    for (size_t i = 16; i < size; i++)
        cr_assert_eq(chunk[i], 0, "byte %zu of %zu", i, size);
}

Test(terms, without_room_for_a_region_freed_chunks_are_zeroed_in_mixed_pages) {
    static const size_t sizes[] = {40, 200, 3000};
    static const enum placement placements[] = {PLACE_APART, PLACE_SLAB, PLACE_GENERATION};
    struct heap *heap = heap_new(), *other = heap_new();
    terms_table[3].flags = TERMS_OWN | TERMS_ZERO;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t context = 7 + i;
        struct view *view = heap_view(heap, context);
        cr_assert(terms_set(context, 3));
        place(context, placements[i]);
        tables_add(tables_limit_bytes());
        int64_t before = tables_used_bytes;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            char *mine = memset(alloc(heap, view, sizes[s], false), 1, sizes[s]);
            char *others = memset(alloc(heap, view, sizes[s], false), 1, sizes[s]);
            cr_assert_eq(page_at(mine)->kind, PAGE_MIXED);
            free_like_api(heap, mine);
            check_zero(mine, sizes[s]);
            region_free(other, others);
            check_zero(others, sizes[s]);
        }
        cr_assert_null(view->region);
        cr_assert_eq(tables_used_bytes, before);
        tables_add(-tables_limit_bytes());
    }
}

Test(terms, a_context_that_allocates_no_more_leaves_its_region_too) {
    enum { CHUNKS = 20 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 7), *other = heap_view(heap, 8);
    terms_table[3].flags = TERMS_OWN;
    cr_assert(terms_set(7, 3));
    place(7, PLACE_APART);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 100, false);
    struct page *page = page_at(chunks[0]);
    cr_assert_eq(page->view, view);
    cr_assert(terms_set(7, 0));
    place(7, PLACE_DEFAULT);
    alloc(heap, other, 100, false); /* this call notices that context 7 has left its region */
    cr_assert(region_of(view->region)->left);
    for (int i = 0; i < CHUNKS; i++)
        free_like_api(heap, chunks[i]);
    cr_assert_eq(page->kind, PAGE_NONE, "the empty page was not given back");
}

/* A context whose chunks were zeroed leaves its region: its pages can become mixed pages. A context
 * that had the policy generation leaves its region: it keeps no empty page. */
Test(terms, a_context_that_left_its_region_follows_no_rule) {
    struct heap *heap = heap_new();
    struct view *zeroed = heap_view(heap, 7), *aged = heap_view(heap, 8);
    terms_table[3].flags = TERMS_OWN | TERMS_ZERO;
    cr_assert(terms_set(7, 3));
    place(7, PLACE_APART);
    cr_assert(terms_set(8, 3));
    place(8, PLACE_GENERATION);
    alloc(heap, zeroed, 100, false);
    char *chunk = alloc(heap, aged, 100, false);
    cr_assert_eq(page_at(chunk)->kind, PAGE_SERIAL);
    free_like_api(heap, chunk);
    cr_assert(terms_set(7, 0));
    cr_assert(terms_set(8, 0));
    place(7, PLACE_DEFAULT);
    place(8, PLACE_DEFAULT);
    alloc(heap, heap_view(heap, 9), 100, false);
    cr_assert(region_of(zeroed->region)->left);
    cr_assert_eq(zeroed->region->recipe, 0);
    cr_assert(region_of(aged->region)->left);
    cr_assert_eq(aged->region->recipe, 0);
    cr_assert_null(region_of(aged->region)->pages);
}
