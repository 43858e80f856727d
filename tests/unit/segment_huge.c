/* SPDX-License-Identifier: MIT */
/* Tests of src/segment: huge chunks, their cached mappings, and huge pages of the kernel. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment_tests.h"

/* Twenty buffers are replaced one by one. Few bytes of the new ones come from the kernel: a cached
 * mapping that is too small is extended with memory of another one. */
Test(huge, the_freelist_keeps_whole_mappings_that_are_taken_again) {
    enum { BUFFERS = 20, STEPS = 400 };
    static struct page *buffers[BUFFERS];
    uint64_t random = 7, fresh = 0, all = 0;
    keep_what_is_freed();
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
    static const size_t sizes[] = {5 << 20, 8 << 20, 30 << 20, 64 << 20, 150 << 20};
    keep_what_is_freed();
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

/* A buffer of 1 MiB moves from slices to a mapping and grows to 7 MiB, again and again. The
 * freelist keeps the mapping whole beside the slices. */
Test(huge, the_freelist_keeps_a_mapping_beside_the_slices_that_it_left) {
    keep_what_is_freed();
    for (int round = 0; round < 10; round++) {
        struct page *page = segment_span_alloc(MAX_SPAN_SLICES);
        struct page *header = segment_huge_alloc(2 << 20, 16);
        segment_span_free(page);
        header = segment_huge_resize(header, 7 << 20);
        cr_assert(header != NULL);
        if (round >= 5)
            cr_assert_geq(os_resident_bytes(header, 7 << 20), 7 << 20, "round %d", round);
        memset(header->chunk, 1, 7 << 20);
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

static long resident_kib(void) {
    long pages = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    cr_assert(statm && fscanf(statm, "%ld %ld", &pages, &resident) == 2);
    fclose(statm);
    return resident * 4;
}

/* Three buffers at a time, of which two are smaller copies of the first. Hardly any bytes come from
 * the kernel: what a mapping lacks comes from other mappings, and from spare ends of mappings in
 * use, also after many mappings were put together. */
Test(huge, a_picture_and_its_copies_take_what_they_freed) {
#ifdef __SANITIZE_THREAD__
    cr_skip("ThreadSanitizer's own memory is in the resident set, too");
#endif
    enum { STEPS = 1000 };
    uint64_t random = 7, fresh = 0, all = 0;
    long before_kib = resident_kib();
    keep_what_is_freed();
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        size_t bytes = (2 << 20) + (size_t)(random >> 33) % (6 << 20);
        struct page *headers[3];
        for (unsigned i = 0; i < 3; i++) {
            size_t part = bytes >> 2 * i;
            headers[i] = segment_huge_alloc(part, 16);
            cr_assert(headers[i] != NULL);
            if (step >= STEPS / 2) {
                all += part;
                fresh += part - os_resident_bytes(headers[i], part);
            }
            memset(headers[i]->chunk, 1, part);
        }
        for (unsigned i = 0; i < 3; i++)
            segment_huge_free(headers[i]);
    }
    cr_assert_lt(fresh, all / 64, "%lu of %lu MiB", (unsigned long)(fresh >> 20),
                 (unsigned long)(all >> 20));
    cr_assert_eq(segment_used_bytes(), 0);
    segment_purge(true);
    cr_assert_leq(resident_kib(), before_kib + 4096, "memory was lost");
}

/* The number of cuts in all mappings has a bound. A process that puts mappings together again and
 * again, and gives them back, does not come to this bound. */
Test(huge, cuts_of_mappings_that_went_back_are_forgotten) {
    enum { HALF = 3 << 20, ROUNDS = 4200 };
    keep_what_is_freed();
    for (int round = 0; round < ROUNDS; round++) {
        struct page *halves[2] = {segment_huge_alloc(HALF, 16), segment_huge_alloc(HALF, 16)};
        segment_huge_free(halves[0]);
        segment_huge_free(halves[1]);
        struct page *header = segment_huge_alloc(2 * HALF, 16);
        cr_assert_gt(header->stale_bytes, HALF + (1 << 20), "round %d: not put together", round);
        segment_huge_free(header);
        cr_assert_neq(segment_huge_purge(true), 0);
    }
}

/* A chunk for which no freed mapping is left takes the spare end of a chunk in use. That chunk and
 * the new one keep their contents, and the sums stay exact. */
Test(huge, a_spare_end_becomes_a_mapping) {
    keep_what_is_freed();
    struct page *first = segment_huge_alloc(7 << 20, 16);
    memset(first->chunk, 1, 7 << 20);
    segment_huge_free(first);
    first = segment_huge_alloc(2 << 20, 16);
    int64_t kept = segment_usage().freelist_bytes;
    struct page *second = segment_huge_alloc(3 << 20, 16);
    cr_assert_geq(os_resident_bytes(second, 3 << 20), 3 << 20);
    cr_assert_geq(second->stale_bytes, 3U << 20);
    cr_assert_eq(segment_usage().freelist_bytes, kept - (3 << 20));
    memset(second->chunk, 2, 3 << 20);
    first = segment_huge_resize(first, 6 << 20);
    cr_assert_eq(first->chunk[(2 << 20) - 1], 1);
    cr_assert_eq(first->chunk[5 << 20], 0, "the kernel's memory is zero");
    memset(first->chunk, 3, 6 << 20);
    cr_assert_eq(second->chunk[0], 2);
    cr_assert_eq(second->chunk[(3 << 20) - 1], 2);
    segment_huge_free(first);
    segment_huge_free(second);
    cr_assert_eq(segment_used_bytes(), 0);
    segment_purge(true);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
}

/* A chunk takes its spare end when it grows, and leaves a spare end when it shrinks. The sums stay
 * exact, also when the spare end has gone back to the kernel. */
Test(huge, a_spare_end_is_taken_and_left) {
    options.decay_ms = 60000;
    struct page *header = segment_huge_alloc(5 << 20, 16);
    memset(header->chunk, 1, 5 << 20);
    int64_t mapped = segment_usage().mapped_bytes;
    segment_huge_free(header);
    header = segment_huge_alloc(2 << 20, 16);
    struct page *same = header;
    cr_assert_eq(segment_usage().mapped_bytes, mapped);
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

/* Memory of a spare end that was never written does not become a part of another mapping: only the
 * part that was asked for goes back to the kernel, and the rest still belongs to the chunk. */
Test(huge, a_spare_end_that_was_never_written_goes_back) {
    enum { SECOND = 1536 << 10 };
    keep_what_is_freed();
    segment_huge_free(segment_huge_alloc(5 << 20, 16));
    struct page *first = segment_huge_alloc(2 << 20, 16);
    cr_assert_eq(segment_usage().freelist_bytes, 3 << 20);
    int64_t returned = segment_usage().returned_bytes;
    struct page *second = segment_huge_alloc(SECOND, 16);
    cr_assert(second->fresh);
    cr_assert_eq(segment_usage().returned_bytes, returned + SECOND);
    cr_assert_eq(segment_usage().freelist_bytes, (3 << 20) - SECOND);
    memset(first->chunk, 1, 2 << 20);
    memset(second->chunk, 2, SECOND);
    cr_assert_eq(segment_huge_resize(first, (5 << 20) - SECOND), first);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
    memset(first->chunk + (2 << 20), 3, (3 << 20) - SECOND);
    cr_assert_eq(second->chunk[0], 2);
    segment_huge_free(first);
    segment_huge_free(second);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* A chunk with a spare end shrinks, or the freelist is purged: the spare end goes back to the
 * kernel. The program filled the spare end with 0xff. The library must not take these bytes for the
 * list of cuts of a mapping (segment/huge.h). */
Test(huge, a_spare_end_goes_back_with_what_is_given_up) {
    keep_what_is_freed();
    for (int purged = 0; purged <= 1; purged++) {
        struct page *header = segment_huge_alloc(5 << 20, 16);
        memset(header->chunk, 0xff, 5 << 20);
        segment_huge_free(header);
        header = segment_huge_alloc(2 << 20, 16);
        cr_assert_eq(segment_usage().freelist_bytes, 3 << 20);
        const char *spare = (char *)header + header->mapped_bytes;
        int64_t returned = segment_usage().returned_bytes;
        if (purged) {
            cr_assert_eq(segment_huge_purge(true), 3U << 20);
            cr_assert_eq(os_resident_bytes((char *)header, 2 << 20), 2 << 20);
        } else {
            header = segment_huge_resize(header, 1536 << 10);
            cr_assert_eq(segment_usage().returned_bytes, returned + (3 << 20));
        }
        cr_assert_eq(segment_usage().freelist_bytes, 0);
        cr_assert_eq(os_resident_bytes(spare, OS_PAGE_BYTES), -1, "still mapped");
        segment_huge_free(header);
        segment_purge(true);
    }
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

/* Checks that each OS page behind the chunk's stale bytes begins with a word of zeros. */
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
    keep_what_is_freed();
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

/* A program frees large buffers and then grows another one beyond the old peak. While it grows, the
 * freelist gives memory back, so that it never has more bytes than its bound. */
Test(huge, the_freelist_shrinks_while_a_chunk_grows) {
    enum { COUNT = 4, BYTES = 20 << 20, MOST = 200 << 20, STEP = 10 << 20 };
    struct page *headers[COUNT];
    keep_what_is_freed();
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

/* A program advises huge pages for a part of each array, as numpy does, which splits the kernel's
 * area. Only the first such mapping goes back to the kernel: each later one is no larger than one
 * that was freed before. */
Test(huge, advice_for_a_part_of_a_mapping_costs_it_once) {
    keep_what_is_freed();
    for (int round = 0; round < 3; round++) {
        struct page *header = segment_huge_alloc(6 << 20, 16);
        uintptr_t at = ((uintptr_t)header->chunk + (1 << 20)) & ~(OS_PAGE_BYTES - 1);
        cr_assert_eq(madvise((void *)at, 4 << 20, MADV_DONTDUMP), 0);
        memset(header->chunk, 1, 6 << 20);
        segment_huge_free(header);
        cr_assert_eq(segment_usage().freelist_bytes > 0, round > 0, "round %d", round);
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
