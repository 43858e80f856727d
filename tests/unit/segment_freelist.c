/* SPDX-License-Identifier: MIT */
/* Tests of src/segment: the bound of the freelist, and the freed spans that a thread keeps. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment_tests.h"

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
    cr_assert_gt(usage.freelist_bytes, 0, "nothing stays for reuse");
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
    keep_what_is_freed();
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
    keep_what_is_freed();
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

/* Purges as the control thread does: first looks which caches were used since its last look. */
static void look_at_caches(void) {
    segment_global.next_purge_ns = 0;
    segment_purge(false);
}

/* The cache of freed spans that each thread has serves its next requests. The cached spans count as
 * part of the freelist, and a purge gives them back. */
Test(segment, a_span_cache_serves_its_own_spans) {
    enum { FIRST = 2, ALL_SLICES = FIRST * SPAN_CACHE_SLICES * (SPAN_CACHE_SLICES + 1) / 2 };
    static struct span_cache cache;
    use_span_cache(&cache, 1, 1);
    cr_assert_not(cache.places[0], "a cache without a control thread that would empty it");
    keep_what_is_freed();
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
            cr_assert_eq(again, pages[FIRST - 1], "not the span that was kept last");
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

/* The cache of a thread that only frees spans of a length gets no places for that length. The cache
 * of a thread that frees and takes many gets more places, while all caches together have few. */
Test(segment, span_caches_grow_where_spans_are_taken_again) {
    static struct span_cache frees, few, many;
    keep_what_is_freed();
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
    keep_what_is_freed();
    options.freelist_kib = 1024;
    for (int i = 0; i < CACHES; i++)
        use_span_cache(&caches[i], 1, 1);
    cr_assert_eq(segment_global.span_caches_room * (int64_t)SLICE_BYTES, 512 << 10);
    use_span_cache(&caches[0], SPAN_CACHE_SLICES, 1);
    cr_assert_eq(caches[0].places[SPAN_CACHE_SLICES - 1], 0);
    for (int look = 0; look < 2; look++) {
        cr_assert(caches[0].places[0], "a cache in use lost its places");
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
    cr_assert_eq(caches[0].places[0], 0, "a cache beside a freelist of 0 bytes");
}

static uint32_t freed, stop;

/* Fills and frees pages, and gives all memory back. `freed`: no page is in use. */
static void *purge_again_and_again(void *nothing) {
    while (!load_acquire(&stop)) {
        fill_and_free(200);
        store_release(&freed, 1);
        segment_purge(true);
        store_release(&freed, 0);
    }
    return nothing;
}

/* A child that is forked while another thread purges frees the slices that the purge had taken.
 * Some of them still hold what the parent's pages held. */
Test(segment, a_forked_child_frees_what_a_purge_had_taken) {
    enum { FORKS = 300 };
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, purge_again_and_again, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        segment_fork_prepare(false);
        pid_t child = fork();
        bool whole = segment_fork_done(!child);
        if (!child)
            _exit(whole && load_acquire(&freed) && segment_used_bytes() ? 1 : 0);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "fork %d: slices stay taken", i);
    }
    store_release(&stop, 1);
    pthread_join(thread, NULL);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* A signal handler may interrupt a thread that holds the lock, and fork. The child's thread goes on
 * with its change of the lists, so the slices of another thread's purge stay taken there. */
Test(segment, a_child_forked_under_the_lock_changes_no_list) {
    enum { FORKS = 20 };
    pthread_t thread;
    int forks = 0;
    cr_assert_eq(pthread_create(&thread, NULL, purge_again_and_again, NULL), 0);
    while (forks < FORKS) {
        int status;
        lock_take(&segment_global.lock);
        int64_t used = segment_used_bytes();
        /* A purge has taken slices: no page is in use. */
        if (!load_acquire(&freed) || !used) {
            lock_release(&segment_global.lock);
            continue;
        }
        segment_fork_prepare(true);
        pid_t child = fork();
        segment_fork_done(!child);
        if (!child)
            _exit(segment_used_bytes() != used);
        lock_release(&segment_global.lock);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "fork %d: the child changed the lists", forks);
        forks++;
    }
    store_release(&stop, 1);
    pthread_join(thread, NULL);
}

/* Tells by *found that a free slice that does not count as dirty holds a byte of a page. New chunks
 * there would count as zero. */
static bool find_written(struct segment *segment, bool huge, void *found) {
    const struct segment_state *state = &segment->state;
    for (unsigned i = 0; !huge && i < SEGMENT_SLICES; i++) {
        uint64_t bit = 1UL << i % 64;
        const char *slice = (const char *)segment + i * SLICE_BYTES;
        for (size_t at = 0; at < SLICE_BYTES; at += OS_PAGE_BYTES)
            if (state->free[i / 64] & ~state->dirty[i / 64] & bit && slice[at])
                *(bool *)found = true;
    }
    return true;
}

/* Fills pages, frees every second one and gives this memory back: slice by slice, because the
 * slices between are in use. */
static void *purge_single_slices(void *nothing) {
    enum { PAGES = 200 };
    struct page *pages[PAGES];
    while (!load_acquire(&stop)) {
        for (int i = 0; i < PAGES; i++) {
            pages[i] = segment_span_alloc(1);
            memset(segment_span_start(pages[i]), 1, SLICE_BYTES);
        }
        for (int i = 0; i < PAGES; i += 2)
            segment_span_free(pages[i]);
        segment_purge(true);
        for (int i = 1; i < PAGES; i += 2)
            segment_span_free(pages[i]);
    }
    return nothing;
}

/* Some of the slices that a purge had taken still hold what the parent's pages held. */
Test(segment, a_forked_child_takes_no_slice_with_content_for_zero) {
    enum { FORKS = 200 };
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, purge_single_slices, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        segment_fork_prepare(false);
        pid_t child = fork();
        segment_fork_done(!child);
        if (!child) {
            bool written = false;
            segment_each_of_map(0, find_written, &written);
            _exit(written);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "fork %d", i);
    }
    store_release(&stop, 1);
    pthread_join(thread, NULL);
}

static uint32_t purging, handled;
static bool is_child;

/* Forks in the middle of the thread's purge, unless the thread holds the lock. */
static void fork_in_purge(int number) {
    (void)number;
    int status;
    if (!load_acquire(&purging) || lock_is_mine(&segment_global.lock))
        return;
    segment_fork_prepare(false);
    pid_t child = fork();
    segment_fork_done(!child);
    if (!child) {
        is_child = true; /* the purge goes on in the child */
        return;
    }
    if (waitpid(child, &status, 0) != child || status)
        _exit(3);
    add_relaxed(&handled, 1);
}

static void *purge_under_signals(void *nothing) {
    while (!load_acquire(&stop)) {
        fill_and_free(200);
        store_release(&purging, 1);
        segment_purge(true);
        store_release(&purging, 0);
        if (is_child)
            _exit(segment_used_bytes() != 0);
    }
    return nothing;
}

/* A signal handler may interrupt a purge, and fork. In the child that purge goes on, and frees the
 * slices that it has taken itself: once. */
Test(segment, a_purge_interrupted_by_a_fork_goes_on_in_the_child) {
    enum { FORKS = 30 };
    pthread_t thread;
    signal(SIGUSR1, fork_in_purge);
    cr_assert_eq(pthread_create(&thread, NULL, purge_under_signals, NULL), 0);
    while (load_acquire(&handled) < FORKS) {
        if (load_acquire(&purging))
            pthread_kill(thread, SIGUSR1);
        usleep(100);
    }
    store_release(&stop, 1);
    pthread_join(thread, NULL);
    cr_assert_eq(segment_used_bytes(), 0);
}

/* With a freelist of 0 bytes nothing is kept, however often memory is taken again. */
Test(segment, a_freelist_of_no_bytes_keeps_nothing) {
    keep_what_is_freed();
    options.freelist_kib = 0;
    for (int round = 0; round < 6; round++)
        fill_and_free(1000);
    cr_assert_eq(segment_usage().freelist_bytes, 0);
}

/* The noted demand fades with each quarter of the decay time, which is a millisecond here. After
 * 800 of them the freelist has its initial bound again. */
Test(segment, the_freelist_forgets_what_is_not_taken_any_more) {
    keep_what_is_freed();
    options.decay_ms = 4;
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
