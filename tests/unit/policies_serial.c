/* SPDX-License-Identifier: MIT */
/* Tests of the policies with serial pages (generation and bump), in which chunks stand one behind
 * the other in the order of allocation. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "policy_tests.h"
#include "region/punch.h"
#include "region/serial.h"

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
    /* Frees in the order of allocation: all pages go except the current and the spare one. */
    for (int i = 0; i < CHUNKS; i++) {
        region_free(heap, chunks[i]);
        if (i == CHUNKS / 2)
            cr_assert_lt(segment_used_bytes() - used, requested * 11 / 20 + 200000);
    }
    cr_assert_eq(view_live_bytes(view), PLACED_BYTES);
    cr_assert_leq(segment_used_bytes() - used, (int64_t)(2 * WIDE_PAGE_SLICES * SLICE_BYTES));
    cr_assert_eq(region_of(view->region)->spare != NULL, true);
    place(7, PLACE_BUMP);
    alloc(heap, view, 1, false);
    cr_assert(!region_of(view->region)->spare, "the policy bump keeps no spare page");
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
        cr_assert_eq(chunk[i % 100], 0, "the chunk is not zeroed");
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
    cr_assert_eq(region->pages, region->serial, "a page besides the current one is left");
    cr_assert(!region->pages->next);
}

Test(serial, aligned_chunks) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_GENERATION);
    static char *chunks[2000];
    int64_t waste = heap->own_free;
    chunks[0] = alloc(heap, view, 16, false);
    char *far = region_alloc_aligned(heap, view, 16, 4096);
    cr_assert_eq(heap->own_free - waste, far - chunks[0] - 16,
                 "the bytes skipped for the alignment are waste");
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
        cr_assert_eq(behind[i], 0, "bytes that the shrunk chunk wrote are left");
    cr_assert_not(region_resize(heap, view, chunk, 49), "grew into the chunk behind it");
    cr_assert(region_resize(heap, view, behind, 300), "did not shrink in place");
    cr_assert_not(region_resize(heap, view, behind, 15001), "grew beyond SMALL_MAX");
    char *moved = region_realloc(heap, view, chunk, 200);
    cr_assert_neq(moved, chunk);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(moved[i], 'y');
    cr_assert_eq(view_live_bytes(view), PLACED_BYTES + 300 + 200);
}

/* Chunks of one size fill a page to its last byte: the page holds no record of them. */
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

/* Runs of one and of several chunks with equal sizes. Checks what a walk over the page tells, then
 * frees each chunk through one of two heaps. */
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
                    continue; /* chunks that placed() allocated */
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
        /* frees every second chunk, so that no page becomes empty */
        for (i = 0; i < CHUNKS && !step; i++)
            if ((freed[i] = i % 2))
                region_free(i % 4 == 3 ? other : heap, chunks[i]);
    }
    for (int i = 0; i < CHUNKS; i += 2)
        region_free(i % 3 ? heap : other, chunks[i]);
    heap_collect_remote(heap);
    cr_assert_eq(view_live_bytes(view) + view_live_bytes(heap_view(other, 7)), PLACED_BYTES);
}

Test(serial, one_of_several_that_are_alike_is_resized) {
    struct heap *heap = heap_new();
    struct view *view = placed(heap, 7, PLACE_BUMP);
    char *chunks[5];
    for (int i = 0; i < 5; i++)
        chunks[i] = alloc(heap, view, 100, false);
    cr_assert_not(region_resize(heap, view, chunks[2], 97), "its run is of chunks of 100 bytes");
    cr_assert(region_resize(heap, view, chunks[2], 100));
    cr_assert(region_resize(heap, view, chunks[4], 200), "the last chunk of the run");
    cr_assert_eq(region_requested(chunks[4]), 200);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(region_requested(chunks[i]), 100);
    cr_assert(region_resize(heap, view, chunks[4], 100), "it joins its run again");
    char *next = alloc(heap, view, 100, false);
    cr_assert_eq(next, chunks[4] + 112);
    cr_assert_eq(region_requested(chunks[4]), 100);
    char *alone = alloc(heap, view, 300, false);
    alloc(heap, view, 40, false);
    cr_assert(region_resize(heap, view, alone, 290), "a run of one chunk");
    cr_assert_eq(region_requested(alone), 290);
    cr_assert_eq(view_live_bytes(view), PLACED_BYTES + 6 * 100 + 290 + 40);
    region_free(heap, alone);
    for (int i = 0; i < 5; i++)
        region_free(heap, chunks[i]);
    cr_assert_eq(view_live_bytes(view), PLACED_BYTES + 100 + 40);
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
    cr_assert_eq(view_live_bytes(view) + view_live_bytes(heap_view(other, 7)), PLACED_BYTES);
    cr_assert_leq(segment_used_bytes() - used, (int64_t)(3 * WIDE_PAGE_SLICES * SLICE_BYTES));
    /* The thread that frees the last chunk of a parked heap's page gives the page back. */
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 64, false);
    struct region *region = region_of(view->region);
    heap_park(heap);
    for (int i = 0; i < CHUNKS; i++)
        region_free(other, chunks[i]);
    cr_assert(!region->pages, "the parked heap keeps an empty page");
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
    *heap_placed_byte(7) |= TRIM_MARK;
    trim_wanted.all = trim_wanted.punch = true;
    trim_wanted.released = 0;
    trim_number++;
    trim_heap(heap);
    /* At most 6 000 times 208 bytes, minus the OS pages that the 60 remaining chunks keep. */
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

/* A chunk that another thread freed is linked by its first word until it is collected, so a punch
 * must keep its OS page. */
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
        cr_assert_eq(page->used, 0, "the punch lost a chunk that another thread freed");
}

/* Frees the address `offset` bytes inside a serial chunk, as its owner or `by_another` thread. With
 * `twice`, the chunk itself was freed before, as its owner or `first_by_another` thread. The last
 * free must abort; a test that reaches _exit fails. */
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
