/* SPDX-License-Identifier: MIT */
/* Tests of src/segment and of how src/region cuts pages: spans, huge chunks, the freelist. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/options.h"
#include "region/blocks.h"
#include "segment/internal.h"

static char not_ours[64];

Test(segment, foreign_pointers_are_recognised_without_reading_them) {
    char on_stack;
    const void *foreign[] = {not_ours,
                             &on_stack,
                             (void *)16,
                             (void *)(uintptr_t)-16,
                             (void *)0x7fffffffffffUL,
                             (void *)0x800000000000UL};
    struct page *page = segment_span_alloc(1);
    cr_assert(page != NULL);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        cr_assert_null(segment_page_of(foreign[i]));
        cr_assert_null(segment_huge_of(foreign[i]));
    }
    cr_assert_null(segment_page_of(NULL));
}

/* A machine may be up for more than a year when the process starts. */
Test(segment, clock_starts_at_any_uptime) {
    const uint64_t years = 1UL << 55; /* 417 days */
    segment_clock_set(years);
    uint32_t first = segment_clock;
    cr_assert_eq(first, (uint32_t)(years >> SEGMENT_TICK_SHIFT));
    segment_clock_set(years - 1000000000);
    cr_assert_eq(segment_clock, first, "the clock went back");
    segment_clock_set(years + 1000000000);
    cr_assert_gt((int32_t)(segment_clock - first), 0);
}

static uintptr_t seen[16];
static unsigned seen_count;
static void note(struct segment *segment, bool huge, void *context) {
    if (huge == *(const bool *)context && seen_count < 16)
        seen[seen_count++] = (uintptr_t)segment >> SEGMENT_SHIFT;
}
static bool note_from(struct segment *segment, bool huge, void *context) {
    note(segment, huge, context);
    return true;
}

/* Only the map's bits are set; no memory is mapped at these addresses. */
Test(segment, the_map_covers_the_address_space_and_keeps_neighbours_apart) {
    static const uintptr_t numbers[] = {
        1, 62, 63, 64, 74, 82, 0x7fff, 0x8000, 0x10000, 98765, 0x1234567, 0x1ffff00, 0x1ffffff};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    static const enum segment_map maps[] = {SEGMENT_SLICED, SEGMENT_HUGE};
    for (int m = 0; m < 2; m++) {
        enum segment_map map = maps[m], other = maps[!m];
        bool huge = map == SEGMENT_HUGE;
        for (int i = 0; i < COUNT; i++) {
            void *segment = (void *)(numbers[i] << SEGMENT_SHIFT);
            cr_assert_not(segment_map_test(map, numbers[i]));
            cr_assert(segment_map_reserve(segment));
            segment_map_set(map, segment, true);
        }
        for (int i = 0; i < COUNT; i++) {
            cr_assert(segment_map_test(map, numbers[i]));
            cr_assert_not(segment_map_test(other, numbers[i]));
            bool before = i && numbers[i - 1] == numbers[i] - 1;
            bool behind = i + 1 < COUNT && numbers[i + 1] == numbers[i] + 1;
            cr_assert_eq(segment_map_test(map, numbers[i] - 1), before);
            cr_assert_eq(segment_map_test(map, numbers[i] + 1), behind);
        }
        seen_count = 0;
        segment_each(note, &huge);
        cr_assert_eq(seen_count, COUNT);
        for (int i = 0; i < COUNT; i++)
            cr_assert(i == 0 || seen[i] > seen[i - 1], "in address order");
        for (int i = 0; i < COUNT; i++) {
            seen_count = 0;
            segment_each_from(segment_place((void *)(numbers[i] << SEGMENT_SHIFT)), note_from,
                              &huge);
            cr_assert_eq(seen_count, COUNT - i, "from segment %#lx on", numbers[i]);
        }
        for (int i = 0; i < COUNT; i++)
            segment_map_set(map, (void *)(numbers[i] << SEGMENT_SHIFT), false);
        for (int i = 0; i < COUNT; i++)
            cr_assert_not(segment_map_test(map, numbers[i]));
    }
    cr_assert_not(segment_map_reserve((void *)(1UL << ADDRESS_BITS)), "beyond it");
    cr_assert_not(segment_map_test(SEGMENT_SLICED, 1UL << (ADDRESS_BITS - SEGMENT_SHIFT)));
    cr_assert_not(segment_map_test(SEGMENT_HUGE, UINTPTR_MAX));
}

Test(segment, every_address_of_a_span_leads_to_its_page) {
    static const uint32_t lengths[] = {1, 2, 3, 7, 63, MAX_SPAN_SLICES};
    struct page *pages[6];
    for (int i = 0; i < 6; i++) {
        pages[i] = segment_span_alloc(lengths[i]);
        cr_assert(pages[i] != NULL);
        cr_assert_eq(pages[i]->slices, lengths[i]);
        pages[i]->kind = PAGE_SPAN;
        memset(segment_span_start(pages[i]), i + 1, lengths[i] * SLICE_BYTES);
    }
    for (int i = 0; i < 6; i++) {
        char *start = segment_span_start(pages[i]);
        for (size_t at = 1; at < lengths[i] * SLICE_BYTES; at += 4093)
            cr_assert_eq(segment_page_of(start + at), pages[i]);
        cr_assert_eq(start[0], i + 1);
        cr_assert_eq(start[lengths[i] * SLICE_BYTES - 1], i + 1);
        segment_span_free(pages[i]);
    }
    cr_assert_eq(segment_used_bytes(), 0);
}

/* A model notes the owner of each slice while spans are allocated, resized and freed at random. */
Test(segment, spans_never_overlap) {
    enum { SPANS = 300 };
    struct page *pages[SPANS] = {NULL};
    srand(11);
    for (int step = 0; step < 20000; step++) {
        int i = rand() % SPANS;
        if (pages[i] == NULL) {
            pages[i] = segment_span_alloc((uint32_t)rand() % MAX_SPAN_SLICES + 1);
            cr_assert(pages[i] != NULL);
            pages[i]->kind = PAGE_SPAN;
        } else if (rand() % 3 == 0) {
            uint32_t more = pages[i]->slices + (uint32_t)rand() % 8 + 1;
            uint32_t before = pages[i]->slices;
            bool grown = more <= MAX_SPAN_SLICES && segment_span_extend(pages[i], more);
            cr_assert_eq(pages[i]->slices, grown ? more : before);
        } else if (rand() % 3 == 0 && pages[i]->slices > 1) {
            segment_span_shrink(pages[i], pages[i]->slices - 1);
        } else {
            cr_assert_eq(*(int *)segment_span_start(pages[i]), i, "step %d", step);
            cr_assert_eq(
                ((int *)(segment_span_start(pages[i]) + pages[i]->slices * SLICE_BYTES))[-1], i);
            segment_span_free(pages[i]);
            pages[i] = NULL;
            continue;
        }
        *(int *)segment_span_start(pages[i]) = i;
        ((int *)(segment_span_start(pages[i]) + pages[i]->slices * SLICE_BYTES))[-1] = i;
    }
    int64_t slices = 0;
    for (int i = 0; i < SPANS; i++)
        slices += pages[i] != NULL ? pages[i]->slices : 0;
    cr_assert_eq(segment_used_bytes(), slices * (int64_t)SLICE_BYTES);
    for (int i = 0; i < SPANS; i++) {
        if (pages[i] != NULL)
            segment_span_free(pages[i]);
    }
    segment_purge(true);
    struct segment_usage usage = segment_usage();
    cr_assert_eq(usage.used_bytes, 0);
    cr_assert_eq(usage.freelist_bytes, 0);
}

Test(segment, fresh_means_zero) {
    for (int round = 0; round < 200; round++) {
        struct page *page = segment_span_alloc((uint32_t)(round % 9) + 1);
        const char *start = segment_span_start(page);
        size_t bytes = page->slices * SLICE_BYTES;
        if (page->fresh) {
            for (size_t i = 0; i < bytes; i += 8)
                cr_assert_eq(*(const uint64_t *)(start + i), 0);
        }
        memset(segment_span_start(page), 0xaa, bytes);
        segment_span_free(page);
        if (round % 50 == 49)
            segment_purge(true);
    }
}

Test(segment, the_freelist_is_bounded) {
    enum { SPANS = 4000 };
    static struct page *pages[SPANS];
    for (int i = 0; i < SPANS; i++) {
        pages[i] = segment_span_alloc(1);
        memset(segment_span_start(pages[i]), 1, SLICE_BYTES);
    }
    for (int i = 0; i < SPANS; i++)
        segment_span_free(pages[i]);
    struct segment_usage usage = segment_usage();
    cr_assert_leq(usage.freelist_bytes, options.freelist_kib << 10);
    cr_assert_gt(usage.freelist_bytes, 0, "some of it stays for reuse");
    cr_assert_gt(segment_purge(true), 0);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
}

/* Writes `count` pages of one slice each, then frees them. */
static void fill_and_free(int count) {
    static struct page *pages[4000];
    for (int i = 0; i < count; i++) {
        pages[i] = segment_span_alloc(1);
        memset(segment_span_start(pages[i]), 1, SLICE_BYTES);
    }
    for (int i = 0; i < count; i++)
        segment_span_free(pages[i]);
}

/* Memory that a program frees and takes again many times stays in the freelist. The freelist and
 * the memory in use together stay below the peak use and 12 MiB. */
Test(segment, the_freelist_keeps_what_is_taken_again) {
    enum { SPANS = 4000, PEAK = SPANS * SLICE_BYTES };
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
    fill_and_free(SPANS);
    cr_assert_leq(segment_usage().freelist_bytes, options.freelist_kib << 10);
    for (int round = 0; round < 6; round++)
        fill_and_free(SPANS);
    struct segment_usage usage = segment_usage();
    int64_t returned = usage.returned_bytes;
    cr_assert_geq(usage.freelist_bytes, PEAK / 10 * 9, "%ld", (long)usage.freelist_bytes);
    cr_assert_leq(usage.freelist_bytes + usage.used_bytes, PEAK + (12 << 20));
    fill_and_free(SPANS);
    cr_assert_leq(segment_usage().returned_bytes - returned, PEAK / 100);
    segment_purge(true); /* a trim resets the noted demand */
    fill_and_free(SPANS);
    cr_assert_leq(segment_usage().freelist_bytes, options.freelist_kib << 10);
}

/* In a program that takes freed memory again, the freelist may have 12 MiB although no byte of the
 * peak is free. */
Test(segment, the_freelist_learns_at_the_peak) {
    enum { SPANS = 4000 };
    int64_t plain;
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
    for (int round = 0; round < 6; round++)
        fill_and_free(SPANS);
    for (int i = 0; i < SPANS; i++)
        cr_assert_not_null(segment_span_alloc(1));
    cr_assert_gt(segment_slices_bound(&plain), 11 << 20);
    cr_assert_leq(segment_slices_bound(&plain), 12 << 20);
    cr_assert_eq(plain, 8 << 20);
}

/* Allocates `count` spans and frees them, so often that a cache may get places for them. */
static void use_span_cache(struct span_cache *cache, uint32_t slices, unsigned count) {
    struct page *pages[SPAN_CACHE_EACH];
    for (int round = 0; round < 100; round++) {
        for (unsigned i = 0; i < count; i++)
            pages[i] = segment_span_alloc_by(cache, slices, 0, NULL);
        for (unsigned i = 0; i < count; i++)
            segment_span_free_by(cache, pages[i]);
    }
}

static int64_t spans_in(const struct span_cache *cache) {
    int64_t count = 0;
    for (unsigned i = 0; i < SPAN_CACHE_SPANS; i++)
        count += cache->spans[i] != NULL;
    return count;
}

static void look_at_caches(void) {
    segment_global.next_purge_ns = 0;
    segment_purge(false);
}

/* A thread's freed spans serve its next requests. They count as part of the freelist, and a purge
 * gives them back. */
Test(segment, a_span_cache_serves_its_own_spans) {
    enum { FIRST = 2, ALL_SLICES = FIRST * SPAN_CACHE_SLICES * (SPAN_CACHE_SLICES + 1) / 2 };
    static struct span_cache cache;
    use_span_cache(&cache, 1, 1);
    cr_assert_not(cache.places[0], "no control thread purges");
    os_identity_init();
    segment_purger = os_process_id();
    options.decay_ms = 60000;
    struct page *pages[FIRST + 1];
    for (uint32_t slices = 1; slices <= SPAN_CACHE_SLICES + 1; slices++) {
        use_span_cache(&cache, slices, 1);
        for (unsigned i = 0; i <= FIRST; i++) {
            pages[i] = segment_span_alloc_by(&cache, slices, 0, NULL);
            memset(segment_span_start(pages[i]), 1, slices * SLICE_BYTES);
            pages[i]->kind = PAGE_SPAN;
            pages[i]->context = 7;
        }
        for (unsigned i = 0; i <= FIRST; i++) {
            segment_span_free_by(&cache, pages[i]);
            cr_assert_eq(pages[i]->kind, PAGE_NONE);
        }
        struct page *again = segment_span_alloc_by(&cache, slices, 0, NULL);
        if (slices <= SPAN_CACHE_SLICES)
            cr_assert_eq(again, pages[FIRST - 1], "the last span that was kept");
        cr_assert_eq(again->slices, slices);
        cr_assert_eq(again->context, 0);
        cr_assert_not(again->fresh);
        segment_span_free_by(&cache, again);
    }
    cr_assert_eq(spans_in(&cache), FIRST * SPAN_CACHE_SLICES);
    struct segment_usage usage = segment_usage();
    cr_assert_eq(usage.used_bytes, 0);
    cr_assert_geq(usage.freelist_bytes, ALL_SLICES * (int64_t)SLICE_BYTES);
    segment_purge(true);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_eq(segment_global.span_caches_room, 0);
}

/* A thread that only frees spans of a length gets no places for it. A thread that frees and takes
 * many gets more places, as long as all caches have little. */
Test(segment, span_caches_grow_where_spans_are_taken_again) {
    static struct span_cache frees, few, many;
    os_identity_init();
    segment_purger = os_process_id();
    options.decay_ms = 60000;
    for (int i = 0; i < 100; i++)
        segment_span_free_by(&frees, segment_span_alloc(1));
    cr_assert_eq(frees.places[0], 0);
    use_span_cache(&few, 1, 1);
    cr_assert_eq(few.places[0], 2);
    use_span_cache(&many, 1, SPAN_CACHE_EACH);
    cr_assert_eq(many.places[0], SPAN_CACHE_EACH);
    cr_assert_eq(spans_in(&many), SPAN_CACHE_EACH);
    use_span_cache(&many, SPAN_CACHE_SLICES, SPAN_CACHE_EACH);
    cr_assert_eq(many.places[SPAN_CACHE_SLICES - 1], 4);
    cr_assert_leq(segment_global.span_caches_room * (int64_t)SLICE_BYTES,
                  (options.freelist_kib << 10) / 8);
    fill_and_free(4000); /* past the caches, whose spans count towards the bound */
    cr_assert_leq(segment_usage().freelist_bytes, options.freelist_kib << 10);
    cr_assert_gt(spans_in(&many), SPAN_CACHE_EACH);
    for (int look = 0; look < 2; look++) { /* spans are freed, and none is taken */
        segment_span_free_by(&many, segment_span_alloc(1));
        look_at_caches();
    }
    cr_assert_eq(many.places[0], 0);
    cr_assert_eq(segment_global.span_caches_room, 0);
}

/* All places have at most half of the freelist's bound. A cache that nobody uses loses its places.
 */
Test(segment, span_caches_are_bounded_and_fade) {
    enum { CACHES = 40 };
    static struct span_cache caches[CACHES];
    os_identity_init();
    segment_purger = os_process_id();
    options.decay_ms = 60000;
    options.freelist_kib = 1024;
    for (int i = 0; i < CACHES; i++)
        use_span_cache(&caches[i], 1, 1);
    cr_assert_eq(segment_global.span_caches_room * (int64_t)SLICE_BYTES, 512 << 10);
    use_span_cache(&caches[0], SPAN_CACHE_SLICES, 1);
    cr_assert_eq(caches[0].places[SPAN_CACHE_SLICES - 1], 0);
    for (int look = 0; look < 2; look++) {
        cr_assert(caches[0].places[0], "used since the last look");
        use_span_cache(&caches[0], 1, 1);
        look_at_caches();
    }
    cr_assert_eq(segment_global.span_caches_room, 2);
    cr_assert_eq(spans_in(&caches[1]), 0);
    use_span_cache(&caches[0], 2, 1);
    cr_assert_eq(spans_in(&caches[0]), 2);
    for (int look = 0; look < 2; look++) { /* the span of two slices is not used any more */
        use_span_cache(&caches[0], 1, 1);
        look_at_caches();
    }
    cr_assert_eq(caches[0].places[0], 2);
    cr_assert_eq(spans_in(&caches[0]), 1);
    for (int i = 0; i < CACHES; i++)
        use_span_cache(&caches[i], 1, 1);
    cr_assert_eq(segment_global.span_caches_room * (int64_t)SLICE_BYTES, 512 << 10);
    options.freelist_kib = 128; /* the bound falls: only two caches fit */
    look_at_caches();
    cr_assert_eq(segment_global.span_caches_room, 4);
    segment_span_cache_end(&caches[0]);
    options.freelist_kib = 0;
    look_at_caches();
    cr_assert_eq(segment_global.span_caches_room, 0);
    cr_assert_eq(spans_in(&caches[CACHES - 1]), 0);
    cr_assert_eq(segment_used_bytes(), 0);
    use_span_cache(&caches[0], 1, 1);
    cr_assert_eq(caches[0].places[0], 0, "there is no freelist");
}

/* With a freelist of 0 bytes nothing is kept, however often memory is taken again. */
Test(segment, a_freelist_of_no_bytes_keeps_nothing) {
    options.freelist_kib = 0;
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
    for (int round = 0; round < 6; round++)
        fill_and_free(1000);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
}

/* The noted demand fades: after half a minute the freelist has its initial bound again. */
Test(segment, the_freelist_forgets_what_is_not_taken_any_more) {
    options.decay_ms = 4;
    os_identity_init();
    segment_purger = os_process_id();
    for (int round = 0; round < 6; round++)
        fill_and_free(4000);
    int64_t plain, most = segment_freelist_bound(0, &plain);
    cr_assert_gt(most, plain);
    for (int tick = 0; tick < 800; tick++) {
        usleep(1100);
        segment_purge(false);
    }
    cr_assert_eq(segment_freelist_bound(0, &plain), plain);
}

/* An OS page whose page headers are all unused goes back to the kernel; the OS page beside it, with
 * a header in use, stays. */
Test(segment, headers_of_empty_slices_go_back) {
    enum { SPANS = SEGMENT_SLICES - HEADER_SLICES };
    struct page *pages[SPANS];
    const unsigned per_page = OS_PAGE_BYTES / sizeof(struct page);
    for (int i = 0; i < SPANS; i++)
        pages[i] = segment_span_alloc(1);
    for (int i = 0; i < SPANS; i++)
        if (i != 100)
            segment_span_free(pages[i]);
    segment_purge(true);
    const struct segment *segment = (struct segment *)((uintptr_t)pages[0] & ~(SEGMENT_BYTES - 1));
    unsigned kept = (unsigned)(pages[100] - segment->pages) / per_page;
    for (unsigned i = 1; i < SEGMENT_SLICES / per_page; i++)
        cr_assert_eq(os_resident_bytes(&segment->pages[i * per_page], OS_PAGE_BYTES) > 0, i == kept,
                     "headers %u", i);
    cr_assert_eq(pages[100]->slices, 1);
    for (int i = 0; i < SPANS; i++) { /* all slices can be allocated again */
        struct page *page = i != 100 ? segment_span_alloc(1) : NULL;
        cr_assert(!page || ((uintptr_t)page & ~(SEGMENT_BYTES - 1)) == (uintptr_t)segment);
    }
}

/* If another thread was changing the lists during the fork, the child does not trust them and gives
 * up the free memory. */
Test(segment, what_was_free_is_given_up_where_it_may_be_torn) {
    struct page *spans[40];
    for (int i = 0; i < 40; i++)
        spans[i] = segment_span_alloc(30);
    for (int i = 0; i < 40; i += 2)
        segment_span_free(spans[i]);
    uint64_t other = 16;
    segment_global.dirty_last = 1;    /* a number that was half written */
    segment_global.lock.word = other; /* held by a thread that the child does not have */
    cr_assert_not(segment_fork_done(true));
    for (int i = 0; i < 40; i += 2) {
        spans[i] = segment_span_alloc(30);
        cr_assert(spans[i] != NULL);
        memset(segment_span_start(spans[i]), i, 30 * SLICE_BYTES);
    }
    for (int i = 0; i < 40; i++)
        segment_span_free(spans[i]);
    cr_assert(segment_span_alloc(1) != NULL);
    segment_purge(true);
    cr_assert(segment_span_alloc(60) != NULL);
}

/* Twenty buffers are replaced one by one. Few bytes of the new ones come from the kernel: a cached
 * mapping that is too small is extended with memory of another one. */
Test(huge, the_freelist_keeps_whole_mappings_that_are_taken_again) {
    enum { BUFFERS = 20, STEPS = 400 };
    static struct page *buffers[BUFFERS];
    uint64_t random = 7, fresh = 0, all = 0;
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        size_t bytes = (5 << 20) + (size_t)(random >> 33) % (10 << 20), place = random >> 40;
        struct page *header = segment_huge_alloc(bytes, 16);
        cr_assert(header != NULL);
        if (step >= STEPS / 2) {
            all += bytes;
            fresh += bytes - os_resident_bytes(header, bytes);
        }
        memset(header->chunk, 1, bytes);
        if (buffers[place % BUFFERS])
            segment_huge_free(buffers[place % BUFFERS]);
        buffers[place % BUFFERS] = header;
    }
    cr_assert_lt(fresh, all / 8, "%lu of %lu MiB", (unsigned long)(fresh >> 20),
                 (unsigned long)(all >> 20));
}

/* A program has one buffer at a time, of more than half of the freelist's bound. Its OS pages are
 * kept from one buffer to the next. */
Test(huge, the_freelist_keeps_a_single_buffer_whole) {
    static const size_t sizes[] = {5 << 20, 8 << 20, 30 << 20};
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int round = 0; round < 10; round++) {
            struct page *header = segment_huge_alloc(sizes[i], 16);
            cr_assert(header != NULL);
            if (round >= 5)
                cr_assert_geq(os_resident_bytes(header, sizes[i]), (int64_t)sizes[i],
                              "%zu bytes, round %d", sizes[i], round);
            memset(header->chunk, 1, sizes[i]);
            segment_huge_free(header);
        }
}

/* Buffers of two sizes in turn: the smaller one gets the mapping of the larger one, whose end stays
 * in the freelist. So no OS page comes from the kernel again. */
Test(huge, the_freelist_keeps_the_end_of_a_larger_mapping) {
    static const size_t sizes[] = {1400 << 10, 3 << 20};
    options.decay_ms = 60000;
    for (int round = 0; round < 20; round++) {
        size_t bytes = sizes[round % 2];
        struct page *header = segment_huge_alloc(bytes, 16);
        cr_assert(header != NULL);
        if (round >= 2)
            cr_assert_geq(os_resident_bytes(header, bytes), (int64_t)bytes, "round %d", round);
        memset(header->chunk, 1, bytes);
        segment_huge_free(header);
    }
    segment_purge(true);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
}

/* A chunk takes its spare end when it grows, and leaves a spare end when it shrinks. The sums stay
 * exact, also when the spare end has gone back to the kernel. */
Test(huge, a_spare_end_is_taken_and_left) {
    options.decay_ms = 60000;
    struct page *header = segment_huge_alloc(5 << 20, 16);
    memset(header->chunk, 1, 5 << 20);
    segment_huge_free(header);
    header = segment_huge_alloc(2 << 20, 16);
    struct page *same = header;
    int64_t mapped = segment_usage().mapped_bytes;
    cr_assert_eq(segment_usage().freelist_bytes, 3 << 20);
    header = segment_huge_resize(header, 4 << 20);
    cr_assert_eq(header, same);
    cr_assert_eq(segment_usage().freelist_bytes, 1 << 20);
    cr_assert_eq(segment_used_bytes(), (4 << 20) + (int64_t)OS_PAGE_BYTES);
    cr_assert_geq(os_resident_bytes(header, 4 << 20), 4 << 20);
    cr_assert(segment_huge_shrink_to_spare(header, 3 << 20));
    cr_assert(segment_huge_shrink_to_spare(header, 1 << 20));
    cr_assert_eq(segment_usage().freelist_bytes, 4 << 20);
    cr_assert_eq(segment_usage().freelist_items, 1);
    cr_assert_eq(segment_usage().mapped_bytes, mapped);
    segment_purge(true);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
    cr_assert_eq(os_resident_bytes((char *)header + (2 << 20), OS_PAGE_BYTES), -1, "still mapped");
    header = segment_huge_resize(header, 6 << 20);
    cr_assert_eq(header->chunk[(1 << 20) - 1], 1);
    cr_assert_eq(header->chunk[2 << 20], 0, "the kernel's memory is zero");
    segment_huge_free(header);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* Writes the buffer's name and the offset at every 64 KiB of a buffer. */
static void sign(char *chunk, size_t from, size_t bytes, uint64_t name) {
    for (size_t at = align_up(from, 64 << 10); at + 16 <= bytes; at += 64 << 10) {
        memcpy(chunk + at, &name, sizeof name);
        memcpy(chunk + at + sizeof name, &at, sizeof at);
    }
}
static void check_signed(const char *chunk, size_t bytes, uint64_t name) {
    for (size_t at = 0; at + 16 <= bytes; at += 64 << 10) {
        uint64_t found[2];
        memcpy(found, chunk + at, sizeof found);
        cr_assert_eq(found[0], name, "at %zu of %zu", at, bytes);
        cr_assert_eq(found[1], at);
    }
}

/* Checks that no OS page behind the chunk's stale bytes begins with another word than 0. */
static void check_fresh(const struct page *header, size_t bytes) {
    for (size_t at = header->stale_bytes; at < bytes; at += OS_PAGE_BYTES)
        cr_assert_eq(*(const uint64_t *)(const void *)(header->chunk + at), 0, "at %zu of %zu", at,
                     bytes);
}

/* Buffers made of several cached mappings keep their contents and their size when they are resized
 * and freed. */
Test(huge, mappings_put_together_are_whole) {
    enum { BUFFERS = 12, STEPS = 3000 };
    static struct page *buffers[BUFFERS];
    static size_t sizes[BUFFERS];
    uint64_t random = 11, resized = 0, copied = 0;
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
    for (uint64_t step = 1; step < STEPS; step++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        size_t bytes = (2 << 20) + (size_t)(random >> 33) % (14 << 20),
               place = (random >> 28) % BUFFERS;
        struct page *header = buffers[place];
        if (header && random % 7 == 0 && bytes < sizes[place]) {
            sizes[place] = segment_huge_shrink_to_spare(header, bytes) ? bytes : sizes[place];
            continue;
        }
        if (header && random % 5 == 0) {
            size_t had = sizes[place] < bytes ? sizes[place] : bytes;
            struct page *moved = segment_huge_resize(header, bytes);
            if (moved) {
                check_signed(moved->chunk, had, place);
                sign(moved->chunk, had, bytes, place);
                buffers[place] = moved;
                sizes[place] = bytes;
                resized++;
                copied += moved != header;
            }
            continue;
        }
        if (header) {
            check_signed(header->chunk, sizes[place], place);
            segment_huge_free(header);
        }
        buffers[place] = header = segment_huge_alloc(bytes, 16);
        cr_assert(header != NULL);
        cr_assert_eq(segment_huge_of(header->chunk), header);
        cr_assert_geq(segment_huge_capacity(header), bytes);
        sizes[place] = bytes;
        if (step % 8 == 0)
            check_fresh(header, bytes);
        sign(header->chunk, 0, bytes, place);
        if (step % 500 == 0)
            segment_purge(true);
    }
    cr_assert_gt(resized, STEPS / 20);
    cr_assert_gt(copied, STEPS / 100);
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i]) {
            check_signed(buffers[i]->chunk, sizes[i], (uint64_t)i);
            segment_huge_free(buffers[i]);
        }
    segment_purge(true);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
}

/* A program frees large buffers, and then grows another one beyond the old peak. The freelist gives
 * back what the bytes in use and the freelist exceed their peak by. */
Test(huge, the_freelist_shrinks_while_a_chunk_grows) {
    enum { COUNT = 4, BYTES = 20 << 20, MOST = 200 << 20, STEP = 10 << 20 };
    struct page *headers[COUNT];
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < COUNT; i++)
            headers[i] = segment_huge_alloc(BYTES, 16);
        for (int i = 0; i < COUNT; i++)
            segment_huge_free(headers[i]);
    }
    cr_assert_gt(segment_usage().freelist_bytes, 2 * BYTES, "the freelist has learnt nothing");
    struct page *header = segment_huge_alloc(70 << 20, 16);
    for (size_t bytes = 70 << 20; bytes < MOST; bytes += STEP) {
        header = segment_huge_resize(header, bytes);
        cr_assert(header != NULL);
        struct segment_usage usage = segment_usage();
        int64_t plain, bound = segment_freelist_bound(0, &plain);
        cr_assert_leq(usage.freelist_bytes, bound, "%ld MiB in use",
                      (long)(usage.used_bytes >> 20));
    }
}

/* When the freelist has no room for whole mappings, it keeps only their beginnings. */
Test(huge, the_freelist_keeps_beginnings) {
    enum { COUNT = 12, BYTES = 3 << 20 };
    struct page *headers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        headers[i] = segment_huge_alloc(BYTES, 16);
        memset(headers[i]->chunk, 1, BYTES);
    }
    for (int i = 0; i < COUNT; i++)
        segment_huge_free(headers[i]);
    uintptr_t end = (uintptr_t)headers[COUNT - 1] + BYTES;
    cr_assert_not(os_is_readable(end - OS_PAGE_BYTES, end), "an end is still mapped");
    struct segment_usage usage = segment_usage();
    cr_assert_leq(usage.freelist_bytes, options.freelist_kib << 10);
    cr_assert_geq(usage.freelist_items, 4, "only %ld mappings", (long)usage.freelist_items);
    for (int i = 0; i < 4; i++) { /* each beginning is extended to a whole mapping */
        headers[i] = segment_huge_alloc(BYTES, 16);
        cr_assert_not(headers[i]->fresh);
        memset(headers[i]->chunk, 2, BYTES);
    }
    cr_assert_eq(segment_usage().freelist_items, usage.freelist_items - 4);
    for (int i = 0; i < 4; i++)
        segment_huge_free(headers[i]);
    /* When a beginning goes back to the kernel, memory mapped at the former end must stay. */
    enum { ENDS = 8 };
    char *ends[ENDS] = {NULL};
    for (int i = 0; i < HUGE_CACHE_MAX && i < ENDS; i++) {
        const struct huge_cached *c = &segment_huge_cache[i];
        if (c->start)
            ends[i] = mmap(c->start + c->bytes, OS_PAGE_BYTES, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    segment_purge(true);
    for (int i = 0; i < ENDS; i++)
        cr_assert(!ends[i] || os_is_readable((uintptr_t)ends[i], (uintptr_t)ends[i] + 1));
}

Test(huge, chunks_are_aligned_found_resized_and_gone) {
    for (size_t alignment = 16; alignment <= 16UL << 20; alignment *= 16) {
        size_t bytes = (5 << 20) + 123;
        struct page *header = segment_huge_alloc(bytes, alignment);
        cr_assert(header != NULL);
        char *chunk = header->chunk;
        cr_assert_eq((uintptr_t)chunk % alignment, 0);
        cr_assert_geq(segment_huge_capacity(header), bytes);
        cr_assert_eq(segment_huge_of(chunk), header);
        cr_assert_null(segment_page_of(chunk));
        memset(chunk, 0x5a, bytes);
        struct page *larger = segment_huge_resize(header, 40 << 20);
        /* A chunk that is aligned to more than an OS page may not be movable: NULL tells the caller
         * to copy. */
        cr_assert(larger != NULL || alignment > OS_PAGE_BYTES);
        header = larger != NULL ? larger : header;
        chunk = header->chunk;
        cr_assert_geq(segment_huge_capacity(header), larger != NULL ? (size_t)40 << 20 : bytes);
        cr_assert_eq(chunk[0], 0x5a);
        cr_assert_eq(chunk[bytes - 1], 0x5a);
        cr_assert_eq(segment_huge_of(chunk), header);
        header = segment_huge_resize(header, 2 << 20);
        cr_assert_eq(header->chunk[(2 << 20) - 1], 0x5a);
        chunk = header->chunk;
        segment_huge_free(header);
        cr_assert_null(segment_huge_of(chunk));
    }
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_null(segment_huge_alloc((size_t)1 << 62, 16));
}

/* A cached mapping that cannot grow in place would have to move, but while a dump reads no mapping
 * may move. So it goes back to the kernel, and segment_huge_alloc makes a new mapping. */
static void *grow_from_cache(void *unused) {
    struct page *small = segment_huge_alloc(2 << 20, 16);
    char *behind = (char *)small + small->mapped_bytes;
    segment_huge_free(small);
    mmap(behind, OS_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
         0); /* if this fails, something is mapped there already */
    (void)unused;
    return segment_huge_alloc(6 << 20, 16);
}

static void visit(struct segment *segment, bool huge, void *result) {
    pthread_t thread;
    (void)segment;
    if (huge || *(void **)result)
        return;
    cr_assert_eq(pthread_create(&thread, NULL, grow_from_cache, NULL), 0);
    cr_assert_eq(pthread_join(thread, result), 0);
}

Test(huge, a_cached_mapping_that_cannot_move_is_given_up) {
    struct page *keeps_a_segment = segment_span_alloc(1);
    struct page *header = NULL;
    options.freelist_kib = 64 << 10;
    options.decay_ms = 1000;
    segment_each(visit, &header);
    cr_assert(header != NULL);
    cr_assert_geq(segment_huge_capacity(header), 6 << 20);
    memset(header->chunk, 1, 6 << 20);
    segment_huge_free(header);
    segment_span_free(keeps_a_segment);
}

static unsigned resident_pages(const void *start, size_t bytes) {
    unsigned char vector[64];
    unsigned sum = 0;
    cr_assert_leq(bytes, sizeof vector * OS_PAGE_BYTES);
    cr_assert_eq(mincore((void *)(uintptr_t)start, bytes, vector), 0);
    for (size_t i = 0; i < bytes / OS_PAGE_BYTES; i++)
        sum += vector[i] & 1;
    return sum;
}

/* One of two huge pages holds a live span, so only the other one goes back to the kernel. */
Test(segment, huge_pages_that_are_asked_for_go_back_whole) {
    enum { SPANS = 8, SPAN_SLICES = 31 };
    struct page *spans[SPANS];
    for (int always = 0; always <= 1; always++) {
        options.thp = always ? THP_ALWAYS : THP_DEFAULT;
        options.decay_ms = 1;
        for (int i = 0; i < SPANS; i++) {
            spans[i] = segment_span_alloc(SPAN_SLICES);
            cr_assert(spans[i] != NULL);
            memset(segment_span_start(spans[i]), 1, SPAN_SLICES * SLICE_BYTES);
        }
        char *first = segment_span_start(spans[0]), *last = segment_span_start(spans[SPANS - 1]);
        /* Makes the never used end of a huge page resident, as the kernel does. */
        char *unused =
            (char *)(((uintptr_t)last & ~(SEGMENT_BYTES - 1)) + SEGMENT_BYTES) - SLICE_BYTES;
        memset(unused, 0, SLICE_BYTES);
        for (int i = 1; i < SPANS; i++)
            segment_span_free(spans[i]);
        usleep(20000);
        segment_purge(false);
        cr_assert_eq(resident_pages(last, SLICE_BYTES), 0);
        if (always)
            cr_assert_eq(resident_pages(unused, SLICE_BYTES), 0);
        os_discard(unused, SLICE_BYTES);
        unsigned near = resident_pages(first + SPAN_SLICES * SLICE_BYTES, SLICE_BYTES);
        cr_assert_eq(near, always ? SLICE_BYTES / OS_PAGE_BYTES : 0, "thp %d: %u", always, near);
        segment_purge(true);
        cr_assert_eq(resident_pages(first + SPAN_SLICES * SLICE_BYTES, SLICE_BYTES), 0);
        segment_span_free(spans[0]);
        segment_purge(true);
    }
}

/* The header of an aligned chunk stands 4 MiB in front of the chunk. */
Test(segment, an_aligned_chunk_has_no_huge_page_for_its_header) {
    options.thp = THP_ALWAYS;
    struct page *header = segment_huge_alloc(SEGMENT_BYTES, SEGMENT_BYTES);
    cr_assert(header != NULL);
    cr_assert_eq(header->chunk, (char *)header + SEGMENT_BYTES);
    cr_assert_eq(resident_pages(header, 64 * OS_PAGE_BYTES), 1);
    segment_huge_free(header);
}

static uintptr_t leaf_of(const void *address) {
    return (uintptr_t)address >> (SEGMENT_SHIFT + SEGMENT_LEAF_SHIFT);
}

/* Takes all address space nearby, so that the next mapping lies where the segment map has no
 * leaf. */
Test(huge, a_cached_mapping_may_move_to_where_no_chunk_was_yet) {
    static const size_t pieces[] = {64UL << 30, 1UL << 30, 40UL << 20};
    options.freelist_kib = 64 << 10;
    options.decay_ms = 1000;
    struct page *header = segment_huge_alloc(2 << 20, 16);
    cr_assert(header != NULL);
    uintptr_t leaf = leaf_of(header);
    char *end = (char *)header + header->mapped_bytes;
    memset(header->chunk, 7, 2 << 20);
    segment_huge_free(header);
    mmap(end, OS_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
         0); /* if this fails, something is mapped there already */
    for (int i = 0; i < 3; i++) {
        void *taken;
        do {
            taken = mmap(NULL, pieces[i], PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);
            cr_assert_neq(taken, MAP_FAILED);
        } while (leaf_of(taken) >= leaf);
        munmap(taken, pieces[i]);
    }
    header = segment_huge_alloc(40 << 20, 16);
    cr_assert(header != NULL);
    cr_assert_neq(leaf_of(header), leaf);
    cr_assert_not(header->fresh, "it was not the cached one");
    cr_assert_eq(segment_huge_of(header->chunk), header);
    memset(header->chunk, 8, 40 << 20);
    segment_huge_free(header);
}

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

Test(blocks, the_reciprocal_divides_exactly) {
    for (unsigned size_class = 0; size_class < SIZE_CLASSES; size_class++) {
        uint32_t bytes = blocks_bytes_table[size_class];
        struct page page = {.meta_shift = META_WIDE,
                            .first = 64,
                            .block_bytes = bytes,
                            .reciprocal = (uint32_t)((1ULL << 32) / bytes + 1)};
        bool exact;
        for (uintptr_t offset = 0; offset < WIDE_PAGE_SLICES * SLICE_BYTES - 64; offset++) {
            const void *pointer = (char *)((uintptr_t)not_ours + 64 + offset);
            cr_assert_eq(blocks_index(&page, not_ours, pointer, &exact), offset / bytes);
            cr_assert_eq(exact, offset % bytes == 0);
        }
        for (uintptr_t offset = 0; offset < SLICE_BYTES; offset++) {
            const void *pointer = not_ours + offset;
            cr_assert_eq(blocks_index_narrow(&page, not_ours, pointer, &exact), offset / bytes);
            cr_assert_eq(exact, offset % bytes == 0);
        }
        for (uintptr_t offset = 0; offset < 64; offset++) /* the first 64 bytes hold the records */
            cr_assert_gt(blocks_index(&page, not_ours, not_ours + offset, &exact), UINT8_MAX);
    }
}
