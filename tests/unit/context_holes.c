/* SPDX-License-Identifier: MIT */
/* Tests of src/context/holes.h: the control thread punches empty OS pages in pages that are not in
 * use at present. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "context/holes.h"
#include "control/act.h"
#include "region/punch.h"
#include "region/region.h"
#include "region_tests.h"

enum { CHUNKS = 4000, STAYS = 100, BYTES = 300 };

static unsigned char *chunks[CHUNKS];

/* Allocates CHUNKS chunks in one context and frees all but every STAYS-th. */
static struct heap *sparse_heap(void) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    for (size_t i = 0; i < CHUNKS; i++) {
        chunks[i] = region_alloc(heap, view, BYTES, false);
        memset(chunks[i], (int)(i % 251), BYTES);
    }
    for (size_t i = 0; i < CHUNKS; i++)
        if (i % STAYS) {
            region_free(heap, chunks[i]);
            chunks[i] = NULL;
        }
    heap_publish_waste(heap);
    return heap;
}

static void check_survivors(void) {
    for (size_t i = 0; i < CHUNKS; i += STAYS)
        for (size_t k = 0; k < BYTES; k++)
            cr_assert_eq(chunks[i][k], i % 251, "chunk %zu", i);
}

Test(holes, a_page_is_punched_at_the_second_look) {
    struct heap *heap = sparse_heap();
    int64_t waste = heap_global.own_free;
    cr_assert_eq(holes_look_now(), 0, "a page was quiet at once");
    size_t bytes = 0;
    for (size_t more; (more = holes_look_now());) /* one look does not visit all pages */
        bytes += more;
    cr_assert_gt(bytes, (size_t)CHUNKS * BYTES / 4);
    cr_assert_leq(heap_global.own_free, waste - (int64_t)bytes / 2);
    cr_assert_eq(heap->visited, 0);
    check_survivors();
    /* The punched memory can be used again. */
    int64_t used = segment_used_bytes();
    for (size_t i = 0; i < CHUNKS; i++)
        if (!chunks[i]) {
            chunks[i] = region_alloc(heap, heap_view(heap, 9), BYTES, false);
            memset(chunks[i], (int)(i % 251), BYTES);
        }
    for (size_t i = 0; i < CHUNKS; i++) {
        for (size_t k = 0; k < BYTES; k++)
            cr_assert_eq(chunks[i][k], i % 251, "chunk %zu", i);
        region_free(heap, chunks[i]);
    }
    cr_assert_gt(used, segment_used_bytes());
    heap_park(heap);
    cr_assert_lt(heap_global.own_free, (int64_t)(2 * OS_PAGE_BYTES), "waste that is not there");
}

/* A thread keeps its current page although all its chunks were freed. */
Test(holes, an_empty_page_is_punched_and_used_again) {
    enum { FEW = 5, LARGE = 3000 };
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    for (int round = 0; round < 3; round++) {
        unsigned char *few[FEW];
        for (size_t i = 0; i < FEW; i++) {
            few[i] = region_alloc(heap, view, LARGE, false);
            memset(few[i], (int)i + 1, LARGE);
        }
        for (size_t i = 0; i < FEW; i++) {
            for (size_t k = 0; k < LARGE; k++)
                cr_assert_eq(few[i][k], i + 1, "round %d, chunk %zu", round, i);
            region_free(heap, few[i]);
        }
        heap_publish_waste(heap);
        size_t bytes = holes_look_now();
        for (size_t more; (more = holes_look_now());)
            bytes += more;
        cr_assert_geq(bytes, (size_t)2 * OS_PAGE_BYTES, "round %d", round);
    }
    heap_park(heap);
    cr_assert_lt(heap_global.own_free, (int64_t)(2 * OS_PAGE_BYTES), "waste that is not there");
}

/* The owner of the heap does not answer the request, because it allocates nothing. */
Test(holes, a_trim_visits_a_thread_that_sleeps) {
    static uint64_t room[64];
    for (int others = 1; others >= 0; others--) { /* a trim of another context, then of this one */
        struct heap *heap = sparse_heap();
        heap->trims = trim_number;
        uint32_t words[] = {WIRE_TRIM_CONTEXTS, 0};
        /* The test marks the context: trim_run marks only contexts of the tree, and this one was
         * made without a tree. */
        or_release(heap_placed_byte(others ? 8 : 9), TRIM_MARK);
        struct answer answer = {.bytes = (char *)room, .capacity = sizeof room};
        cr_assert_eq(trim_run((const struct wire_contexts_request *)(const void *)words, &answer),
                     WIRE_OK);
        const struct wire_trim *trim = (const struct wire_trim *)(const void *)room;
        cr_assert_geq(trim->threads_waiting, 1U);
        int64_t bytes = trim->punched_bytes;
        cr_assert(others ? bytes < CHUNKS * BYTES / 16 : bytes > CHUNKS * BYTES / 4,
                  "%ld bytes, others: %d", (long)bytes, others);
        check_survivors();
    }
}

/* Each round punches pages and then uses their blocks again. A chunk in each page stays, so no page
 * goes, and none is new. */
Test(holes, waste_of_a_heap_that_needs_no_page) {
    enum { LARGE = 5000, LARGE_STAYS = 4 };
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    for (size_t i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(heap, view, LARGE, false);
    for (size_t i = 0; i < CHUNKS; i++)
        if (i % LARGE_STAYS)
            region_free(heap, chunks[i]);
    for (int round = 0; round < 10; round++) {
        size_t bytes = holes_look_now();
        for (size_t more; (more = holes_look_now());)
            bytes += more;
        cr_assert_gt(bytes, (size_t)CHUNKS * LARGE / 8, "round %d", round);
        for (size_t i = 0; i < CHUNKS / 2; i++)
            if (i % LARGE_STAYS)
                chunks[i] = region_alloc(heap, view, LARGE, false);
        for (size_t i = 0; i < CHUNKS / 2; i++)
            if (i % LARGE_STAYS)
                region_free(heap, chunks[i]);
    }
    cr_assert_gt(heap_global.own_free, -(int64_t)CHUNKS * LARGE, "published too late");
}

Test(holes, the_first_call_makes_no_look) {
    sparse_heap();
    options.holes = 1;
    holes_look();
    cr_assert_eq(holes_look_now(), 0, "the call before was a look");
    cr_assert_gt(holes_look_now(), 0);
}

Test(holes, a_page_in_use_stays) {
    struct heap *heap = sparse_heap();
    holes_look_now();
    size_t kept = 0;
    for (size_t i = 0; i < CHUNKS; i += STAYS) {
        struct page *page = page_at(chunks[i]);
        region_free(heap, chunks[i]);
        chunks[i] = NULL;
        kept += page->kind == PAGE_NONE;
        if (i >= (size_t)2 * STAYS)
            break;
    }
    cr_assert_geq(kept, 1);
    heap->busy = 1;
    cr_assert_eq(holes_look_now(), 0, "punched while the owner was inside");
    cr_assert_eq(heap->visited, 0);
    for (size_t i = (size_t)3 * STAYS; i < CHUNKS; i += STAYS)
        cr_assert_not(page_at(chunks[i])->meta_shift & META_PUNCHED);
    heap->busy = 0;
    cr_assert_gt(holes_look_now(), 0);
}

Test(holes, heaps_without_a_thread) {
    struct heap *heap = sparse_heap();
    heap_park(heap);
    holes_look_now();
    heap->lock.word = 1; /* as if another thread were freeing chunks of this heap */
    cr_assert_eq(holes_look_now(), 0);
    heap->lock.word = 0;
    cr_assert_gt(holes_look_now(), 0);
    check_survivors();
}

Test(holes, a_second_free_of_a_block_that_is_gone, .signal = SIGABRT) {
    struct heap *heap = sparse_heap();
    holes_look_now();
    holes_look_now();
    for (size_t i = 0; i < CHUNKS; i += STAYS) {
        struct page *page = page_at(chunks[i]);
        char *start = segment_span_start(page);
        for (unsigned k = 0; k < page->capacity; k++) {
            char *block = start + (size_t)k * page->block_bytes;
            if (blocks_is_punched(page, block))
                region_free(heap, block);
        }
    }
    _exit(0);
}
