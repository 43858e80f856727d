/* SPDX-License-Identifier: MIT */
/* Tests of src/segment: the map of segments, spans, headers of pages, the clock, a fork. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
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
    const uint64_t uptime_ns = 1UL << 55; /* 417 days */
    segment_clock_set(uptime_ns);
    uint32_t first = segment_clock;
    cr_assert_eq(first, (uint32_t)(uptime_ns >> SEGMENT_TICK_SHIFT));
    segment_clock_set(uptime_ns - 1000000000);
    cr_assert_eq(segment_clock, first, "the clock went back");
    segment_clock_set(uptime_ns + 1000000000);
    cr_assert_gt((int32_t)(segment_clock - first), 0);
}

/* segment_each reports segments to `note`, which collects the numbers of those of one map. */
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
            cr_assert_eq(seen_count + (unsigned)i, COUNT, "from segment %#lx on", numbers[i]);
        }
        for (int i = 0; i < COUNT; i++)
            segment_map_set(map, (void *)(numbers[i] << SEGMENT_SHIFT), false);
        for (int i = 0; i < COUNT; i++)
            cr_assert_not(segment_map_test(map, numbers[i]));
    }
    cr_assert_not(segment_map_reserve((void *)(1UL << ADDRESS_BITS)), "beyond the address space");
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

/* True if the kernel was told to put no huge pages into the mapping of an address. */
static bool has_no_huge_pages(const void *address) {
    char line[512];
    bool found = false, forbidden = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    cr_assert(smaps != NULL);
    while (fgets(line, sizeof line, smaps)) {
        uintptr_t start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            found = (uintptr_t)address >= start && (uintptr_t)address < end;
        else if (found && !strncmp(line, "VmFlags:", 8))
            forbidden = strstr(line, " nh") != NULL;
    }
    cr_assert_eq(fclose(smaps), 0);
    return forbidden;
}

static bool kernel_has_huge_pages(void) {
    return access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0;
}

/* Returns a page in a new segment, which may get huge pages. */
static struct page *page_in_new_segment(void) {
    uint64_t segments = segment_global.segments;
    struct page *page;
    do
        page = segment_span_alloc(1);
    while (segment_global.segments == segments || segment_global.segments <= SEGMENTS_WITHOUT_HUGE);
    return page;
}

Test(segment, the_first_ones_get_no_huge_page) {
    if (!kernel_has_huge_pages())
        cr_skip("the kernel has no transparent huge pages");
    while (segment_global.segments < SEGMENTS_WITHOUT_HUGE)
        cr_assert(has_no_huge_pages(segment_span_alloc(1)));
    cr_assert_not(has_no_huge_pages(page_in_new_segment()));
}

/* Where the kernel uses huge pages without being asked, it would make memory that went back to it
 * resident again. */
Test(segment, memory_that_went_back_gets_no_huge_page) {
    if (!kernel_has_huge_pages())
        cr_skip("the kernel has no transparent huge pages");
    for (int by_default = 0; by_default < 2; by_default++) {
        struct page *stays = page_in_new_segment(), *freed = segment_span_alloc(1);
        segment_huge_by_default = by_default;
        segment_span_free(freed);
        cr_assert_not(has_no_huge_pages(stays));
        cr_assert_gt(segment_purge(true), 0);
        cr_assert_eq(has_no_huge_pages(stays), by_default);
    }
}

/* A huge page makes slices resident that were never used. A purge discards them, unless it has done
 * so before (gaps_are_empty). */
Test(segment, slices_that_were_never_used_go_back_once) {
    segment_huge_by_default = true;
    for (int turn = 0; turn < 2; turn++) {
        struct page *stays = page_in_new_segment(), *freed = segment_span_alloc(1);
        struct segment *segment = (struct segment *)((uintptr_t)stays & ~(SEGMENT_BYTES - 1));
        char *unused = (char *)segment + SEGMENT_BYTES - SLICE_BYTES;
        *unused = 1; /* makes the slice resident, as a huge page would */
        segment->state.gaps_are_empty = turn;
        segment_span_free(freed);
        int64_t returned = (int64_t)segment_purge(true);
        cr_assert_eq(*unused, turn);
        cr_assert_eq(returned, (int64_t)SLICE_BYTES, "slices that were never used do not count");
    }
}

/* Pages that fill groups of 64 slices (a MiB) one after the other. The first group of a segment
 * holds the headers, and has room for pages behind them. */
Test(segment, pages_in_groups_leave_no_group_empty) {
    enum { SLICES = 4, PAGES = 10 * ((SEGMENT_SLICES - HEADER_SLICES) / SLICES) };
    uintptr_t next = 0;
    for (int i = 0; i < PAGES; i++)
        cr_assert(segment_span_alloc_grouped(SLICES, 64, &next) != NULL);
    cr_assert_leq(segment_global.segments, 10 + 1);
}
