/* SPDX-License-Identifier: MIT */
/* Tests of src/region: frees by other threads; heaps that are parked, adopted and forked; the
 * counts of realloc. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "os/meta.h"
#include "policy_tests.h"
#include "region/region.h"
#include "region/resizes.h"

Test(region, a_forked_child_finds_its_new_views) {
    static struct view *views[100];
    for (uint32_t made = 1; made < 100; made *= 2) {
        struct heap *heap = heap_new();
        heap_fork_child(heap);
        for (uint32_t i = 0; i < made; i++)
            views[i] = heap_view(heap, 50 + i * 64);
        uint32_t count = heap->view_count;
        for (uint32_t i = made; i-- > 0;)
            cr_assert_eq(heap_view(heap, 50 + i * 64), views[i], "%u of %u", i, made);
        cr_assert_eq(heap->view_count, count);
    }
}

static struct heap *owner;
static void *given[2000];

static void *free_them(void *argument) {
    struct heap *heap = heap_new();
    for (int i = (int)(intptr_t)argument; i < 2000; i += 2)
        region_free(heap, given[i]);
    return heap;
}

Test(region, blocks_freed_by_others_come_back) {
    owner = heap_new();
    struct view *view = heap_view(owner, 9);
    for (int i = 0; i < 2000; i++)
        given[i] = region_alloc(owner, view, 100, false);
    pthread_t threads[2];
    void *others[2];
    for (intptr_t i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, free_them, (void *)i), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &others[i]);
    cr_assert_eq(view->frees, 0, "the owner's view counts frees of other threads");
    int64_t live = view_live_bytes(view);
    for (int i = 0; i < 2; i++)
        live += view_live_bytes(heap_view(others[i], 9));
    cr_assert_eq(live, 0);
    heap_collect_remote(owner);
    bins_release_empty(owner, &owner->mixed);
    regions_release_empty(owner);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_eq(owner->own_free, 0);
}

Test(heap, parking_folds_exactly_and_adopting_keeps_pages) {
    struct heap *first = heap_new();
    struct view *view = heap_view(first, 9);
    void *chunk = region_alloc(first, view, 100, false);
    region_free(first, region_alloc(first, view, 50, false));
    heap_park(first);
    cr_assert_eq(first->state, HEAP_PARKED);
    cr_assert_eq(view->allocs + view->frees, 0);
    struct view *sum = heap_view(heap_global.totals, 9);
    cr_assert_eq(sum->allocs, 2);
    cr_assert_eq(sum->frees, 1);
    cr_assert_eq(view_live_bytes(sum), 100);
    cr_assert_eq(sum->requested_cum_bytes, 150);
    cr_assert_eq(heap_new(), first, "the next thread adopts it");
    cr_assert_eq(first->state, HEAP_OWNED);
    region_free(first, chunk);
    cr_assert_eq(view_live_bytes(sum) + view_live_bytes(view), 0);
}

Test(heap, frees_for_others_are_folded_exactly) {
    enum { OTHER = 100 };
    struct heap *first = heap_new(), *second = heap_new();
    heap_count_remote_grow(first, OTHER);
    first->freed_of[OTHER] = 5;
    heap_park(first); /* the totals have no array yet */
    cr_assert_eq(heap_global.totals->freed_of[OTHER], 5);
    heap_count_remote_grow(second, OTHER);
    heap_park(second);
    cr_assert_eq(heap_global.totals->freed_of[OTHER], 6);
    cr_assert_eq(first->freed_of[OTHER] + second->freed_of[OTHER], 0);
}

/* The caches of a parked heap went, so the budget counts fewer bytes for it; the next thread that
 * has the heap makes caches again. */
Test(heap, an_adopted_heap_counts_its_caches_again) {
    struct heap *heap = heap_new();
    heap_park(heap);
    int64_t parked_bytes = tables_used_bytes;
    heap_keep_less(heap);
    cr_assert_lt(tables_used_bytes, parked_bytes);
    cr_assert_eq(heap_new(), heap);
    heap_park(heap);
    cr_assert_eq(tables_used_bytes, parked_bytes);
}

/* Makes a heap with tables of all kinds, then retires and frees it. */
static void use_and_free_a_heap(void) {
    enum { VIEWS = 5000, OTHER = 100 };
    struct heap *heap = heap_new();
    for (uint32_t i = 0; i < VIEWS; i++) {
        struct view *view = heap_view(heap, 50 + i);
        if (i % 4)
            continue;
        cr_assert_not_null(heap_baseline(heap, view->index, TABLES_MUST));
        cr_assert_not_null(resizes_entry(heap, view, TABLES_MUST));
    }
    heap_count_remote_grow(heap, OTHER);
    cr_assert_eq(heap->freed_of[OTHER], 1, "the free that made the array grow");
    heap->freed_of[OTHER] = 0;
    lock_take(&heap_global.lock);
    for (uint32_t i = 0; i < VIEWS; i++)
        heap_view_drop(heap, heap_view(heap, 50 + i));
    cr_assert_gt(heap->idle_bytes, VIEWS / 2 * sizeof(struct view));
    heap_views_dropped(heap);
    cr_assert_lt(heap->idle_bytes, 4 * OS_PAGE_BYTES, "OS pages that were given back are not idle");
    lock_release(&heap_global.lock);
    for (uint32_t i = 0; i < VIEWS; i++)
        heap_view(heap, 50 + i);
    for (uint32_t i = 0; i < VIEWS; i++)
        cr_assert_eq(heap_view(heap, 50 + i)->context, 50 + i, "each view serves one context");
    cr_assert_eq(heap->view_count, VIEWS + 1, "the views that waited are used again");
    heap_park(heap);
    lock_take(&heap_global.lock);
    cr_assert(heap_retire(heap));
    lock_release(&heap_global.lock);
    heap_free(heap);
}

Test(heap, a_freed_heap_gives_its_tables_back) {
    struct meta_usage before;
    int64_t used_bytes = 0, idle_bytes = 0;
    heap_new(); /* the first heap stays for ever */
    for (int round = 0; round < 3; round++) {
        use_and_free_a_heap();
        if (round == 0) { /* the totals were made in this round */
            before = meta_usage(false);
            used_bytes = tables_used_bytes;
            idle_bytes = tables_idle_bytes;
        }
    }
    cr_assert_eq(tables_used_bytes, used_bytes, "%ld bytes of the budget more",
                 (long)(tables_used_bytes - used_bytes));
    cr_assert_eq(tables_idle_bytes, idle_bytes, "%ld idle bytes more",
                 (long)(tables_idle_bytes - idle_bytes));
    cr_assert_eq(meta_usage(false).used_bytes, before.used_bytes, "%ld bytes of memory more",
                 (long)(meta_usage(false).used_bytes - before.used_bytes));
}

Test(heap, a_parked_heap_gets_its_blocks_back_at_once) {
    struct heap *first = heap_new(), *second = heap_new();
    void *chunk = region_alloc(first, heap_view(first, 9), 100, false);
    heap_park(first);
    cr_assert_eq(segment_used_bytes(), (int64_t)SLICE_BYTES);
    region_free(second, chunk);
    cr_assert_eq(segment_used_bytes(), 0);
    cr_assert_null(first->remote_pages);
}

/* The threads that allocated in the shared heap may never use it again. */
Test(heap, the_shared_heap_gets_its_blocks_back_at_once) {
    static void *chunks[200];
    struct heap *self = heap_new(), *shared = heap_shared_lock();
    struct view *view = heap_view(shared, 9);
    for (int i = 0; i < 200; i++)
        chunks[i] = region_alloc(shared, view, 4000, false);
    heap_shared_unlock(shared);
    int64_t used = segment_used_bytes();
    for (int i = 0; i < 200; i++)
        region_free(self, chunks[i]);
    cr_assert_eq(view_live_bytes(view), 0);
    cr_assert_lt(segment_used_bytes(), used - 100 * 4000);
}

/* If another thread was changing the shared heap during the fork, the child makes a new shared heap
 * and does not follow the lists of the old one. */
Test(heap, a_torn_shared_heap_is_left_alone_in_a_forked_child) {
    struct heap *self = heap_new(), *shared = heap_shared_lock();
    void *chunk = region_alloc(shared, heap_view(shared, 9), 4000, false);
    heap_shared_unlock(shared);
    segment_page_of(chunk)->next = segment_page_of(chunk)->prev = (void *)16;
    shared->lock.word = 16; /* held by a thread that the child does not have */
    cr_assert_not(heap_fork_done(true));
    region_free(self, chunk);
    struct heap *anew = heap_shared_lock();
    cr_assert_neq(anew, shared);
    chunk = region_alloc(anew, heap_view(anew, 9), 4000, false);
    cr_assert(chunk != NULL);
    heap_shared_unlock(anew);
    region_free(self, chunk);
}

Test(heap, a_parked_heap_whose_pages_others_empty_wastes_nothing) {
    enum { CHUNKS = 3000 };
    static void *chunks[CHUNKS];
    struct heap *first = heap_new(), *second = heap_new();
    struct view *view = heap_view(first, 9);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = region_alloc(first, view, 100, false);
    for (int i = 0; i < CHUNKS; i += 2)
        region_free(first, chunks[i]);
    cr_assert(view->region != NULL);
    heap_park(first);
    cr_assert_gt(heap_global.own_free, CHUNKS / 3 * 100);
    for (int i = 1; i < CHUNKS; i += 2)
        region_free(second, chunks[i]);
    cr_assert_eq(heap_global.own_free, 0);
}

Test(heap, what_others_freed_is_collected_though_there_are_free_blocks) {
    enum { CHUNKS = 20000, STEPS = 400000 };
    static void *chunks[CHUNKS];
    struct heap *heap = heap_new(), *other = heap_new();
    struct view *view = heap_view(heap, 9);
    unsigned random = 1;
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = alloc(heap, view, 64, false);
    for (int i = 0; i < CHUNKS; i += 2) {
        region_free(heap, chunks[i]);
        chunks[i] = NULL;
    }
    region_free(other, region_alloc(heap, heap_view(heap, 10), 500, false));
    cr_assert(heap->remote_pages != NULL);
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525 + 1013904223;
        void **chunk = &chunks[(random >> 8) % CHUNKS];
        if (*chunk)
            region_free(heap, *chunk);
        *chunk = *chunk ? NULL : alloc(heap, view, 64, false);
    }
    cr_assert_null(heap->remote_pages);
}

Test(heap, states_in_a_forked_child) {
    struct heap *self = heap_new(), *idle = heap_new(), *busy = heap_new(), *parked = heap_new();
    struct heap *visited = heap_acquire(1, false);
    cr_assert_neq(visited, parked);
    heap_park(parked);
    busy->busy = 1;
    visited->visited = 1;
    heap_fork_child(self);
    cr_assert_eq(self->state, HEAP_OWNED);
    cr_assert_eq(idle->state, HEAP_PARKED, "its thread was outside the allocator");
    cr_assert_eq(busy->state, HEAP_ORPHAN, "its lists may be torn");
    cr_assert_eq(visited->state, HEAP_ORPHAN, "the visitor may have torn them");
    cr_assert_eq(visited->visited, 0, "the visitor is not in the child");
    cr_assert_eq(parked->state, HEAP_PARKED);
    cr_assert_eq(heap_global.totals->state, HEAP_TOTALS);
    cr_assert_eq(busy->tid, 0);
}

/* Freeing the last chunk of a parked heap's page may unmap the segment that holds the page's
 * header. */
Test(region, a_parked_heap_loses_segments_chunk_by_chunk) {
    enum { CHUNKS = 4000, BYTES = 4096 };
    static void *chunks[CHUNKS];
    options.freelist_kib = 0;
    options.decay_ms = 0;
    struct heap *heap = heap_new(), *parked = heap_acquire(1, false);
    struct view *view = heap_view(parked, 7);
    for (int i = 0; i < CHUNKS; i++) {
        chunks[i] = region_alloc(parked, view, BYTES, false);
        cr_assert(chunks[i] != NULL);
    }
    int64_t mapped = segment_usage().mapped_bytes;
    heap_park(parked);
    /* Only the last segment in the list of segments with free slices is unmapped. Therefore the
     * test frees some whole pages of each segment, which puts it into the list, then all other
     * chunks backwards. */
    for (int i = 0; i < CHUNKS; i++)
        if (i % 1000 >= 500 && i % 1000 < 540)
            region_free(heap, chunks[i]);
    for (int i = CHUNKS; i-- > 0;)
        if (i % 1000 < 500 || i % 1000 >= 540)
            region_free(heap, chunks[i]);
    cr_assert_leq(segment_usage().mapped_bytes, mapped - (int64_t)(2 * SEGMENT_BYTES));
    /* counted in the parked heap's own view, under that heap's lock */
    cr_assert_eq(heap_view(parked, 7)->frees, CHUNKS);
}

/* --- counts of realloc ------------------------------------------------------------------------ */

static struct view_resizes *resizes_at(struct heap *heap, uint32_t context) {
    return resizes_entry(heap, heap_view(heap, context), TABLES_UNCOUNTED);
}

Test(resizes, each_realloc_is_counted_for_the_view_that_pays) {
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9), *other = heap_view(heap, 10);
    char *chunk = region_alloc(heap, view, 100, false);
    cr_assert_null(heap->resizes, "malloc makes no table");
    chunk = region_realloc(heap, view, chunk, 101); /* it grows in its block */
    char *moved = region_realloc(heap, other, chunk, 5000);
    cr_assert_neq(moved, chunk);
    moved = region_realloc(heap, other, moved, 4990);
    moved = region_realloc(heap, other, moved, 4990);
    const struct resize_counts *first = &resizes_at(heap, 9)->counts;
    cr_assert(first->reallocs == 1 && first->grows == 1 && first->copies == 0);
    cr_assert(first->grown_bytes == 1 && first->grown_from_bytes == 100);
    const struct resize_counts *second = &resizes_at(heap, 10)->counts;
    cr_assert(second->reallocs == 3 && second->grows == 1 && second->copies == 1);
    cr_assert(second->grown_bytes == 4899 && second->grown_from_bytes == 101);
    cr_assert(second->copied_bytes >= 101 && second->copied_bytes <= 128,
              "not the bytes of the block");
    region_free(heap, moved);
}

/* Chunks of which only the first OS page was written are moved by realloc. The resident set grows
 * by the written OS pages alone. */
Test(resizes, os_pages_that_were_never_written_do_not_become_resident) {
#ifdef __SANITIZE_THREAD__
    cr_skip("ThreadSanitizer's own memory is in the resident set, too");
#endif
    enum { COUNT = 40, BYTES = 500 << 10 };
    struct heap *heap = heap_new();
    struct view *view = heap_view(heap, 9);
    char *chunks[COUNT];
    int moved = 0;
    for (int i = 0; i < COUNT; i++) {
        chunks[i] = region_alloc(heap, view, BYTES, false);
        memset(chunks[i], i + 1, OS_PAGE_BYTES);
    }
    int64_t before = os_rss_bytes();
    for (int i = 0; i < COUNT; i += 2) { /* the other chunks are in the way */
        char *grown = region_realloc(heap, view, chunks[i], BYTES + BYTES / 2);
        moved += grown != chunks[i];
        cr_assert_eq(grown[OS_PAGE_BYTES - 1], i + 1);
        cr_assert_eq(grown[OS_PAGE_BYTES], 0);
        chunks[i] = grown;
    }
    int64_t more = os_rss_bytes() - before;
    cr_assert_gt(moved, COUNT / 4);
    cr_assert_lt(more, moved * (BYTES / 2), "%d moved, %ld KiB more", moved, (long)(more >> 10));
    for (int i = 0; i < COUNT; i++)
        region_free(heap, chunks[i]);
}

Test(resizes, counts_of_an_ended_thread_move_with_its_numbers) {
    struct heap *heap = heap_new();
    for (uint32_t i = 0; i < 100; i++) {
        struct view *view = heap_view(heap, 20 + i);
        char *chunk = region_alloc(heap, view, 10, false);
        for (size_t size = 11; size <= 12 + i; size++)
            chunk = region_realloc(heap, view, chunk, size);
        region_free(heap, chunk);
    }
    resizes_at(heap, 25)->base.reallocs = 3; /* the baseline that a reset would set */
    heap_park(heap);
    for (uint32_t i = 0; i < 100; i++) {
        cr_assert_eq(resizes_at(heap, 20 + i)->counts.reallocs, 0, "context %u", 20 + i);
        cr_assert_eq(resizes_at(heap_global.totals, 20 + i)->counts.reallocs, 2 + i);
        cr_assert_eq(resizes_at(heap_global.totals, 20 + i)->counts.grown_bytes, 2 + i);
    }
    cr_assert_eq(resizes_at(heap_global.totals, 25)->base.reallocs, 3);
    cr_assert_eq(resizes_at(heap, 25)->base.reallocs, 0);
    cr_assert_eq(resizes_lost, 0);
}

Test(resizes, a_full_table_is_bounded_and_counts_its_losses) {
    struct heap *heap = heap_new();
    char *chunk = region_alloc(heap, heap_view(heap, 9), 100, false);
    int64_t before = tables_used_bytes;
    for (uint32_t i = 0; i < RESIZES_MOST + 500; i++)
        chunk = region_realloc(heap, heap_view(heap, 20 + i), chunk, 100 + i % 2);
    cr_assert_eq(heap->resizes->count, RESIZES_MOST);
    cr_assert_eq(resizes_lost, 500);
    cr_assert_gt(tables_used_bytes, before + (int64_t)(RESIZES_MOST * sizeof(struct view_resizes)));
    chunk = region_realloc(heap, heap_view(heap, 20), chunk, 102);
    cr_assert_eq(resizes_at(heap, 20)->counts.reallocs, 2, "a view with an entry is not counted");
    cr_assert_eq(resizes_lost, 500);
    region_free(heap, chunk);
}

Test(resizes, without_room_in_the_budget_calls_are_lost_and_served) {
    struct heap *heap = heap_new();
    char *chunk = region_alloc(heap, heap_view(heap, 9), 100, false);
    tables_add(tables_limit_bytes());
    chunk = region_realloc(heap, heap_view(heap, 9), chunk, 4000);
    cr_assert_not_null(chunk);
    cr_assert_null(heap->resizes);
    cr_assert_eq(resizes_lost, 1);
    tables_add(-tables_limit_bytes());
    chunk = region_realloc(heap, heap_view(heap, 9), chunk, 5000);
    cr_assert_eq(resizes_at(heap, 9)->counts.reallocs, 1);
    region_free(heap, chunk);
}
