/* SPDX-License-Identifier: MIT */
/* Tests of src/context/collect.h: the control thread collects chunks that other threads freed, for
 * owners that sleep. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "context/collect.h"
#include "region/region.h"
#include "region_tests.h"

enum { CHUNKS = 4000, BYTES = 300, WIDE = 3000, STAYS = 100 };

static unsigned char *chunks[CHUNKS];
static struct heap *owner, *other;

/* The owner allocates CHUNKS chunks of `bytes` bytes in one context; another heap frees all of them
 * but every STAYS-th. */
static void hand_over(size_t bytes) {
    owner = heap_new();
    other = heap_new();
    struct view *view = heap_view(owner, 9);
    for (size_t i = 0; i < CHUNKS; i++) {
        chunks[i] = region_alloc(owner, view, bytes, false);
        memset(chunks[i], (int)(i % 251), bytes);
    }
    for (size_t i = 0; i < CHUNKS; i++)
        if (i % STAYS) {
            region_free(other, chunks[i]);
            chunks[i] = NULL;
        }
    heap_publish_waste(owner);
}

/* Visits the owner as the control thread does. Returns the number of collected pages. */
static unsigned visit(void) {
    lock_take(&heap_global.lock);
    unsigned pages = collect_visit(owner);
    lock_release(&heap_global.lock);
    return pages;
}

/* Checks the contents of the chunks that are left and frees them. No page may be left then. */
static void free_rest(size_t bytes) {
    for (size_t i = 0; i < CHUNKS; i++) {
        for (size_t k = 0; chunks[i] && k < bytes; k++)
            cr_assert_eq(chunks[i][k], i % 251, "chunk %zu", i);
        if (chunks[i])
            region_free(owner, chunks[i]);
    }
    heap_park(owner);
    cr_assert_eq(segment_used_bytes(), 0, "pages are left");
    cr_assert_eq(heap_global.own_free, 0, "waste that is not there");
}

Test(collect, empty_pages_of_a_sleeping_owner_go) {
    hand_over(BYTES);
    int64_t used = segment_used_bytes();
    cr_assert_gt(visit(), CHUNKS * BYTES / SLICE_BYTES / 2);
    /* about every second page has none of the chunks that stay */
    cr_assert_lt(segment_used_bytes(), used * 3 / 4);
    cr_assert_eq(owner->visited, 0);
    cr_assert_null(owner->remote_pages);
    cr_assert_eq(visit(), 0);
    free_rest(BYTES);
}

Test(collect, wide_pages_and_mixed_pages) {
    hand_over(WIDE);
    int64_t used = segment_used_bytes();
    while (visit()) {
    }
    cr_assert_lt(segment_used_bytes(), used * 3 / 4);
    free_rest(WIDE);
}

Test(collect, mixed_pages) {
    options.promote_bytes = INT64_MAX;
    hand_over(BYTES);
    cr_assert_eq(page_at(chunks[0])->kind, PAGE_MIXED);
    int64_t used = segment_used_bytes();
    cr_assert_gt(visit(), 0);
    cr_assert_lt(segment_used_bytes(), used * 3 / 4);
    free_rest(BYTES);
}

Test(collect, an_owner_inside_the_allocator_is_left_alone) {
    hand_over(BYTES);
    int64_t used = segment_used_bytes();
    owner->busy = 1;
    cr_assert_eq(visit(), 0);
    owner->busy = 0;
    cr_assert_eq(owner->visited, 0);
    cr_assert_eq(segment_used_bytes(), used);
    cr_assert_not_null(owner->remote_pages);
    heap_collect_remote(owner);
    cr_assert_lt(segment_used_bytes(), used);
    free_rest(BYTES);
}

/* A visit takes a bounded number of pages; the rest stays listed, behind the pages that are listed
 * meanwhile. */
Test(collect, the_rest_stays_listed) {
    enum { MOST = 5 };
    int64_t waste = 0;
    hand_over(BYTES);
    unsigned before = 0, after = 0;
    for (struct page *page = owner->remote_pages; page; page = page->remote_next)
        before++;
    struct page *taken = remote_announce(owner, MOST);
    region_free(other, chunks[CHUNKS - STAYS]); /* its page is listed anew if it was not listed */
    chunks[CHUNKS - STAYS] = NULL;
    cr_assert_eq(remote_collect(owner, taken, true, &waste), MOST);
    for (struct page *page = owner->remote_pages; page; page = page->remote_next)
        after++;
    cr_assert(after == before - MOST || after == before - MOST + 1, "%u, %u", before, after);
    heap_global.own_free += waste;
    taken = remote_announce(owner, MOST);
    cr_assert_eq(remote_collect(owner, taken, false, &waste), 0, "the owner is inside");
    while (visit()) {
    }
    free_rest(BYTES);
}

/* A visitor leaves pages whose chunks have guard bytes (META_CHECKED) listed for their owner. */
Test(collect, pages_that_only_the_owner_collects) {
    hand_over(BYTES);
    for (struct page *page = owner->remote_pages; page; page = page->remote_next)
        blocks_mark(page, META_CHECKED);
    int64_t used = segment_used_bytes();
    cr_assert_eq(visit(), 0);
    cr_assert_eq(segment_used_bytes(), used);
    for (struct page *page = owner->remote_pages; page; page = page->remote_next)
        and_release(&page->meta_shift, (uint8_t)~META_CHECKED);
    cr_assert_gt(visit(), 0);
    free_rest(BYTES);
}

static uint32_t freed;

static void *free_by_owner(void *chunk) {
    region_free(owner, chunk);
    store_release(&freed, 1);
    return NULL;
}

/* The first free in a full page puts the page into a list, which a visitor may be changing. */
Test(collect, a_free_that_changes_a_list_waits_for_the_visitor) {
    enum { FULL = 200 };
    pthread_t thread;
    options.promote_bytes = 0;
    owner = heap_new();
    struct view *view = heap_view(owner, 9);
    for (size_t i = 0; i < FULL; i++)
        chunks[i] = region_alloc(owner, view, BYTES, false);
    cr_assert(page_at(chunks[0])->flags & PAGE_FULL);
    for (size_t i = 1; page_at(chunks[0])->used > page_at(chunks[0])->changes_at + 1U; i++)
        region_free(owner, chunks[i]);
    lock_take(&heap_visit_lock);
    store_release(&owner->visited, 1);
    cr_assert_eq(pthread_create(&thread, NULL, free_by_owner, chunks[0]), 0);
    usleep(100000);
    cr_assert_eq(load_acquire(&freed), 0, "the free did not wait");
    store_release(&owner->visited, 0);
    lock_release(&heap_visit_lock);
    pthread_join(thread, NULL);
    cr_assert_eq(freed, 1);
}

Test(collect, only_owners_that_sleep) {
    hand_over(BYTES);
    owner->tid = os_thread_id();
    uint64_t until = os_now_exact_ns() + 1000000000U, busy_until = os_thread_cpu_ns() + 5000000;
    int64_t used = segment_used_bytes();
    collect_look(false, until);
    while (os_thread_cpu_ns() < busy_until) {
    }
    cr_assert_not(collect_look(false, until));
    cr_assert_eq(segment_used_bytes(), used, "the owner ran");
    cr_assert_not(collect_look(true, until));
    cr_assert_lt(segment_used_bytes(), used, "collected on request");
    free_rest(BYTES);
}
