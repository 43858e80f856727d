/* SPDX-License-Identifier: MIT */
/* Scenarios of segments and spans; see spans.h. */
#include "spans.h"
#include "slots.h"

#include "segment/internal.h"

enum { SPANS = 8 };
static struct page *spans[SPANS];

/* --- segments and the freelist ---------------------------------------------------------------- */

static void fill(struct page *page, char value) {
    model_check(page, "out of memory");
    for (uint32_t i = 0; i < page->slices; i++)
        segment_span_start(page)[i * SLICE_BYTES] = value;
}

static void check_filled(const struct page *page, char value) {
    for (uint32_t i = 0; i < page->slices; i++)
        model_check(segment_span_start(page)[i * SLICE_BYTES] == value,
                    "a slice was changed by somebody else");
}

static void empty(struct page *page, char value) {
    check_filled(page, value);
    segment_span_free(page);
}

/* Puts some used slices into the freelist. */
void dirty_slices(void) {
    new_heaps(1);
    struct page *pages[] = {segment_span_alloc(4), segment_span_alloc(1), segment_span_alloc(2)};
    for (unsigned i = 0; i < 3; i++)
        fill(pages[i], 9);
    empty(pages[0], 9);
    empty(pages[2], 9);
    spans[0] = pages[1];
}

void thread_slices(unsigned id) {
    if (id == 0) {
        segment_purge(true);
        return;
    }
    char value = (char)id;
    struct page *page = segment_span_alloc(2 + id);
    fill(page, value);
    if (id == 1)
        segment_span_shrink(page, 1);
    else if (segment_span_extend(page, 6))
        fill(page, value);
    struct page *other = segment_span_alloc(2);
    fill(other, (char)(value + 10));
    empty(page, value);
    empty(other, (char)(value + 10));
}

void check_slices(void) {
    if (spans[0])
        segment_span_free(spans[0]);
    segment_purge(true);
    struct segment_usage usage = segment_usage();
    model_check(usage.used_bytes == used_before, "slices are left in use");
    model_check(usage.freelist_bytes == 0, "the freelist was purged, and is not empty");
    model_check(!segment_global.deferred, "what a dump deferred waits for the next dump");
}

static struct span_cache caches[2];

/* Gets places for spans of two slices in the caches of two heaps. */
void two_span_caches(void) {
    new_heaps(1);
    os_identity_init();
    segment_purger = os_process_id();
    for (unsigned i = 0; i < 2; i++) {
        caches[i] = (struct span_cache){.misses = {0, 15}, .lacked = 2};
        segment_span_free_by(&caches[i], segment_span_alloc(2));
        model_check(caches[i].places[1] == 2, "a cache got no places");
    }
}

/* Each of two threads uses its cache; the third one takes the spans out of both. */
void thread_span_caches(unsigned id) {
    if (id == 2) {
        segment_purge(true);
        return;
    }
    char value = (char)(id + 1);
    for (unsigned i = 0; i < 3; i++) {
        struct page *page = segment_span_alloc_by(&caches[id], 2, 0, NULL);
        fill(page, value);
        check_filled(page, value);
        segment_span_free_by(&caches[id], page);
    }
}

void check_span_caches(void) {
    for (unsigned i = 0; i < 2; i++)
        segment_span_cache_end(&caches[i]);
    model_check(!segment_global.span_caches_room, "a cache keeps places");
    check_slices();
    segment_purger = 0;
    segment_global.span_caches = NULL;
}

/* Leaves one span in each of two segments; a thread frees each of them. */
void two_segments(void) {
    new_heaps(1);
    for (unsigned i = 0; i < SPANS; i++) {
        spans[i] = segment_span_alloc(i % 4 < 3 ? 64 : 62);
        fill(spans[i], 1);
    }
    for (unsigned i = 0; i < SPANS; i++) {
        if (i % 4)
            empty(spans[i], 1);
    }
}

static void look(struct segment *segment, bool huge, void *context) {
    uint64_t *sum = context;
    if (huge)
        *sum += load_relaxed(&segment->huge.mapped_bytes);
    else
        for (unsigned i = HEADER_SLICES; i < SEGMENT_SLICES; i++)
            *sum += load_acquire(&segment->pages[i].kind);
}

void thread_segments(unsigned id) {
    if (id < 2) {
        empty(spans[id * 4], 1);
        spans[id * 4] = NULL;
        segment_purge(true);
    } else {
        uint64_t sum = 0;
        segment_each(look, &sum);
        struct page *page = segment_span_alloc(64);
        fill(page, 5);
        empty(page, 5);
    }
}

void thread_huge(unsigned id) {
    if (id == 2) {
        uint64_t sum = 0;
        segment_each(look, &sum);
        segment_purge(true);
        return;
    }
    /* mappings of 65 MiB are not kept for reuse, those of 3 MiB are */
    struct page *page = segment_huge_alloc((id ? 3U : 65U) << 20, 16);
    model_check(page, "out of memory");
    page->chunk[0] = (char)(id + 1);
    if (id == 1) {
        struct page *moved = segment_huge_resize(page, 9 << 20);
        page = moved ? moved : page;
    }
    model_check(page->chunk[0] == (char)(id + 1), "a huge chunk was changed by somebody else");
    segment_huge_free(page);
    page = segment_huge_alloc(2U << 20, 16);
    model_check(page, "out of memory");
    page->chunk[0] = (char)(id + 11);
    model_point(page);
    model_check(page->chunk[0] == (char)(id + 11), "a huge chunk was changed by somebody else");
    segment_huge_free(page);
}
