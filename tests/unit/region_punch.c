/* SPDX-License-Identifier: MIT */
/* Tests of src/region/punch.h: empty OS pages inside pages in use are given back. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "control/act.h"
#include "region/punch.h"
#include "region/region.h"
#include "region_tests.h"
#include "segment/internal.h"

/* Trims a heap as its thread does when a client asks for it: its contexts 7 to 11 are punched. */
static void trim_now(struct heap *heap) {
    for (uint32_t context = 7; context < 12; context++)
        *heap_placed_byte(context) |= TRIM_MARK;
    trim_wanted.all = trim_wanted.punch = true;
    trim_number++;
    trim_heap(heap);
    cr_assert_eq(heap->trims, trim_number);
}

static bool os_page_is_resident(const char *chunk) {
    return os_resident_bytes((const char *)((uintptr_t)chunk & ~(OS_PAGE_BYTES - 1)), 1) > 0;
}

/* Checks that a page's punched OS pages are not resident. Returns how many there are. */
static size_t count_gone_os_pages(struct page *page) {
    const char *start = segment_span_start(page);
    for (unsigned k = 0; k < page->slices * SLICE_BYTES / OS_PAGE_BYTES; k++)
        if (blocks_punched(page) >> k & 1)
            cr_assert_not(os_page_is_resident(start + k * OS_PAGE_BYTES));
    return (size_t)__builtin_popcountl(blocks_punched(page));
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
            gone += count_gone_os_pages(page_at(chunks[i]));
        }
        cr_assert_gt(gone, 0);
        /* Every free block is used again, none is handed out twice, and each has a record. */
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

Test(punch, random_use_between_punches_keeps_every_byte) {
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
        if (step % 20000 == 19999) /* frees nearly all chunks */
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
    heap_collect_remote(heap);
    int64_t live = 0;
    for (uint32_t context = 7; context < 11; context++)
        live +=
            view_live_bytes(heap_view(heap, context)) + view_live_bytes(heap_view(other, context));
    cr_assert_eq(live, 0);
    cr_assert_gt(other->freed_of[heap->number], 10000);
}

/* Frees chunks twice whose block and record were punched: the second free must be found. */
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
    _exit(0); /* reached only if no second free was found; the test expects SIGABRT */
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

Test(punch, a_parked_heap_s_waste_is_published) {
    enum { CHUNKS = 20000 };
    static char *chunks[CHUNKS];
    struct heap *parked = heap_acquire(1, false);
    options.waste_kib = 1 << 20;
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(parked, heap_view(parked, 7), 100, false);
    for (int i = 0; i < CHUNKS; i++)
        if (i % 150)
            region_free(parked, chunks[i]);
    heap_park(parked);
    int64_t before = heap_global.own_free;
    lock_take(&parked->lock);
    *heap_placed_byte(7) |= TRIM_MARK;
    trim_wanted.all = trim_wanted.punch = true;
    trim_number++;
    trim_heap(parked);
    heap_publish_waste(parked);
    lock_release(&parked->lock);
    cr_assert_lt(heap_global.own_free, before / 2);
    cr_assert_eq(parked->own_free, parked->own_free_published);
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
        /* damages the link in free blocks: it points to its block, into its block, or nowhere */
        for (int i = 1; i < CHUNKS; i += 3)
            if (i % 250 && segment_page_of(chunks[i]) && page_at(chunks[i])->kind == PAGE_OWN)
                *(void **)(void *)chunks[i] = damage == 0   ? chunks[i]
                                              : damage == 1 ? chunks[i] + 9
                                                            : (char *)(uintptr_t)damage;
        trim_now(heap); /* must end, and not crash, although lists are damaged */
    }
}

/* Asks for a trim, as a client does, of all heaps or of one context. */
static void ask_to_trim(bool one_context) {
    static uint64_t room[64];
    uint32_t words[] = {one_context ? WIRE_TRIM_CONTEXTS : 0, one_context, 9};
    struct answer answer = {.bytes = (char *)room, .capacity = sizeof room};
    cr_assert_eq(trim_run((const struct wire_contexts_request *)(const void *)words, &answer),
                 WIRE_OK);
    cr_assert_eq(((const struct wire_trim *)(const void *)room)->threads_waiting, 1);
}

/* A thread answers the newest request alone, so a request includes those that are not answered. */
Test(punch, a_trim_includes_those_that_wait) {
    for (int all_first = 0; all_first < 2; all_first++) {
        struct heap *heap = heap_new();
        region_alloc(heap, heap_view(heap, 9), 100, false);
        heap->trims = trim_number; /* it has answered all requests so far */
        ask_to_trim(!all_first);
        cr_assert_eq(trim_wanted.all, all_first);
        cr_assert_eq(trim_wanted.punch, !all_first);
        ask_to_trim(all_first);
        cr_assert(trim_wanted.all && trim_wanted.punch);
        heap->trims = trim_number;
        ask_to_trim(all_first);
        cr_assert_eq(trim_wanted.all, !all_first, "an answered request is still wanted");
        heap_park(heap);
    }
}

/* Where the kernel uses huge pages without being asked, one of them would make the punched OS pages
 * resident again. */
Test(punch, punched_os_pages_get_no_huge_page) {
    enum { CHUNKS = 3000 };
    static char *chunks[CHUNKS];
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    while (segment_global.segments <= SEGMENTS_WITHOUT_HUGE)
        cr_assert(segment_span_alloc(60) != NULL);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(heap, view, 1000, false);
    const struct segment *segment =
        (const struct segment *)((uintptr_t)chunks[CHUNKS - 1] & ~(SEGMENT_BYTES - 1));
    for (int i = 0; i < CHUNKS; i++)
        if (i % 100 != 99)
            region_free(heap, chunks[i]);
    for (int by_default = 0; by_default < 2; by_default++) {
        segment_huge_by_default = by_default;
        trim_now(heap);
        cr_assert_eq(segment->state.small_pages, by_default);
        for (int i = 0; !by_default && i < CHUNKS; i++) /* the same once more */
            if (i % 100 != 99)
                chunks[i] = region_alloc(heap, view, 1000, false);
        for (int i = 0; !by_default && i < CHUNKS; i++)
            if (i % 100 != 99)
                region_free(heap, chunks[i]);
    }
}
