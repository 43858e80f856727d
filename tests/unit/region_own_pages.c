/* SPDX-License-Identifier: MIT */
/* Tests of src/region: contexts that get pages of their own, the waste cap, shared pages above the
 * cap. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "os/meta.h"
#include "policy_tests.h"
#include "region/region.h"

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

/* 4 300 bytes fit the smaller size of the pair 4 608 and 5 120. */
Test(region, many_chunks_of_the_smaller_size_of_a_pair_get_blocks_of_this_size) {
    enum { BYTES = 4300, CHUNKS = 1000 };
    static void *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9), *other = heap_view(heap, 10);
    for (int i = 0; i < CHUNKS; i++) {
        int64_t live = view_live_bytes(view);
        chunks[i] = region_alloc(heap, view, BYTES, false);
        uint32_t bytes = segment_page_of(chunks[i])->block_bytes;
        if (live < 1 << 20)
            cr_assert_neq(bytes, 4608, "with only %ld bytes alive", live);
        else if (live > (1 << 20) + WIDE_PAGE_SLICES * (int64_t)SLICE_BYTES)
            cr_assert_eq(bytes, 4608, "with %ld bytes alive", live);
    }
    void *mixed = region_alloc(heap, other, BYTES, false);
    cr_assert_eq(segment_page_of(mixed)->kind, PAGE_MIXED);
    cr_assert_eq(segment_page_of(mixed)->block_bytes, 4608, "the size is frequent in this heap");
    void *larger = region_alloc(heap, view, 5000, false);
    cr_assert_eq(segment_page_of(larger)->block_bytes, 5120);
    region_free(heap, mixed);
    region_free(heap, larger);
    for (int i = 0; i < CHUNKS; i++)
        region_free(heap, chunks[i]);
    cr_assert_eq(view_live_bytes(view), 0);
    cr_assert_eq(view_live_bytes(other), 0);
}

/* The sizes from 4 608 to 8 192 bytes share a page. When it is full, each pair has its own. */
Test(region, wide_sizes_share_mixed_pages_in_pairs) {
    static void *chunks[64];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    unsigned count = 0;
    options.promote_bytes = 1 << 30; /* mixed pages only */
    do
        chunks[count] = region_alloc(heap, view, 4300, false);
    while (segment_page_of(chunks[count++])->block_bytes == 8192 && count < 10);
    cr_assert_eq(count, 8, "the first page has room for seven blocks, not %u", count - 1);
    cr_assert_eq(segment_page_of(chunks[count - 1])->block_bytes, 5120);
    chunks[count] = region_alloc(heap, view, 4700, false);
    cr_assert_eq(segment_page_of(chunks[count++])->block_bytes, 5120);
    chunks[count] = region_alloc(heap, view, 5200, false);
    cr_assert_eq(segment_page_of(chunks[count++])->block_bytes, 6144);
    while (count--)
        region_free(heap, chunks[count]);
    cr_assert_eq(view_live_bytes(view), 0);
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

/* Many contexts get own pages, fill them and free nearly all of their chunks. The cap bounds the
 * sum of their free bytes. */
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
        /* One page may exceed the cap, and a heap publishes its waste in steps. */
        cr_assert_leq(heap->own_free, cap + 2 * (int64_t)SLICE_BYTES + (16 << 10), "context %u", c);
    }
    cr_assert(denied, "the cap was never reached");
}

/* Above the waste cap a heap searches all its regions for empty pages. The more views it has, the
 * more seldom it searches, else a program at the cap would spend its time on searches. */
Test(region, sweeps_are_rare_where_contexts_are_many) {
    enum { CONTEXTS = 1000 };
    struct heap *heap = heap_new();
    options.promote_bytes = 0;
    struct page *first = NULL;
    for (uint32_t c = 1; c <= CONTEXTS; c++) {
        void *chunk = region_alloc(heap, heap_view(heap, 1000 + c), 100, false);
        first = first ? first : segment_page_of(chunk);
        region_free(heap, chunk); /* its page stays as the region's current page */
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

/* Checks that the contexts 9 to `last` have each made more than `least` allocations and freed all
 * of them, and that no memory is left in use. */
static void check_all_freed(struct heap *heap, uint32_t last, uint64_t least) {
    for (uint32_t context = 9; context <= last; context++) {
        const struct view *view = heap_view(heap, context);
        cr_assert_gt(view->allocs, least);
        cr_assert_eq(view->allocs, view->frees);
        cr_assert_eq(view_live_bytes(view), 0);
    }
    bins_release_empty(heap, &heap->mixed);
    regions_release_empty(heap);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_eq(heap->own_free, 0);
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
        check_all_freed(heap, 10, 0);
        int64_t tables = meta_usage(false).used_bytes;
        if (round) /* round 0 made the regions */
            cr_assert_eq(tables, tables_before);
        tables_before = tables;
    }
}

/* Replaces random chunks of the old and the young context and of a third one without a region. */
static void replace_at_random(struct heap *heap, int steps) {
    unsigned random = 1;
    for (int step = 0; step < steps; step++) {
        random = random * 1103515245 + 12345;
        int i = (int)(random >> 8) % YOUNG;
        size_t size = mixed_up_size(i);
        cr_assert_eq(young_chunks[i][0], (char)(i + 1));
        cr_assert_eq(young_chunks[i][size - 1], (char)(i + 1));
        free_like_api(heap, young_chunks[i]);
        uint32_t context = 9 + random % 3;
        char *chunk = alloc(heap, heap_view(heap, context), size, false);
        cr_assert_eq(region_context_of(chunk), context);
        cr_assert_eq(region_requested(chunk), size);
        memset(chunk, i + 1, size);
        young_chunks[i] = chunk;
    }
}

Test(region, blocks_of_shared_pages_that_were_freed_last_are_used_first) {
    struct heap *heap = heap_new();
    age(heap, 9, 10);
    int i = 1;
    while (i % 16 == 0 || segment_page_of(young_chunks[i])->meta_shift != META_OWNERS)
        cr_assert_lt(++i, YOUNG);
    const struct page *page = segment_page_of(young_chunks[i]);
    struct page *recent = heap_recent(heap, page->size_class);
    unsigned used = page->used;
    free_like_api(heap, young_chunks[i]);
    cr_assert_eq(recent->free_with_owners, young_chunks[i]);
    cr_assert_eq(page->used, used, "the block waits, and is not its page's yet");
    struct view *third = heap_view(heap, 11);
    /* from now on this context uses mixed pages */
    free_like_api(heap, alloc(heap, third, 16, false));
    cr_assert_eq(alloc(heap, third, mixed_up_size(i), false), young_chunks[i]);
    cr_assert_null(recent->free_with_owners);
    memset(young_chunks[i], i + 1, mixed_up_size(i));
    replace_at_random(heap, 300000);
    check_and_free(heap, 0, 1);
    check_all_freed(heap, 11, 90000);
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
    heap_collect_remote(heap);
    bins_release_empty(heap, &heap->mixed);
    regions_release_empty(heap);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_eq(heap->own_free, 0);
}

/* Each large context fills whole groups of slices. So the chunks of a context that stay alive keep
 * few segments and few page headers in memory. */
Test(region, contexts_with_much_have_groups_of_slices_of_their_own) {
    enum { BYTES = 1000, CHUNKS = 8000, KINDS = 3 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    const struct view *whose[64] = {NULL};
    unsigned mixed_groups = 0, groups = 0;
    options.promote_bytes = 1024;
    for (int i = 0; i < CHUNKS; i++) /* 2.7 MB for each of the three contexts */
        chunks[i] = region_alloc(heap, heap_view(heap, 9 + i % KINDS), BYTES, false);
    uintptr_t base = (uintptr_t)chunks[CHUNKS / 4] & ~(SEGMENT_BYTES - 1);
    /* from here on each context has more than GROUPED_BYTES */
    for (int i = CHUNKS / 4; i < CHUNKS; i++) {
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

/* A context whose chunks were all freed gives its current pages back, because perhaps no thread
 * ever allocates in it again. */
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
    /* A context whose only chunk is freed and allocated again and again does not make a page each
     * time. */
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
