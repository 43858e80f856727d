/* SPDX-License-Identifier: MIT */
/*
 * Tests the whole malloc family with threads: one thread allocates, another one resizes and frees,
 * threads come and go, and the figures must balance at the end. Under ThreadSanitizer and
 * AddressSanitizer this is the test of malloc and free. MEMCTX_STRESS_OPS sets the number of
 * allocations of a test.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/thread.h"
#include "context/collect.h"
#include "context/evict.h"
#include "context/holes.h"
#include "context/tree.h"
#include "control/act.h"
#include "figures/sums.h"

#include "api/names.h"

enum { THREADS = 4, SLOTS = 512, LIVES = 3 };

/* A chunk that another thread may take. All its bytes are `seed`, so a chunk that was handed out
 * twice is noticed. */
struct offer {
    unsigned char *chunk;
    size_t size;
    unsigned char seed;
};

static struct shelf {
    pthread_mutex_t mutex;
    struct offer offer;
} shelves[SLOTS];

static long operations(void) {
    const char *text = getenv("MEMCTX_STRESS_OPS");
    long total = text != NULL ? atol(text) : 0;
    return total > 0 ? total : 120000;
}

static size_t draw_size(unsigned *state) {
    switch (rand_r(state) % 128) {
    case 0: return (size_t)rand_r(state) % 3000000;
    case 1:
    case 2:
    case 3: return (size_t)rand_r(state) % 100000;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9: return (size_t)rand_r(state) % 9000;
    default: return (size_t)rand_r(state) % 600;
    }
}

/* True if the bytes of the chunk are its seed. Looks at every byte of chunks up to 4 KiB. */
static bool holds(const struct offer *offer) {
    size_t step = offer->size > 4096 ? 509 : 1;
    for (size_t i = 0; i < offer->size; i += step) {
        if (offer->chunk[i] != offer->seed)
            return false;
    }
    return offer->size == 0 || offer->chunk[offer->size - 1] == offer->seed;
}

/* Allocates a chunk of random size by malloc, calloc or memalign, and fills it with a seed. */
static struct offer make(unsigned *state) {
    struct offer offer = {.size = draw_size(state), .seed = (unsigned char)rand_r(state)};
    switch (rand_r(state) % 8) {
    case 0: {
        offer.chunk = calloc(1, offer.size);
        struct offer zeros = {.chunk = offer.chunk, .size = offer.size, .seed = 0};
        cr_assert(offer.chunk != NULL && holds(&zeros), "calloc gave dirty memory");
        break;
    }
    case 1: {
        size_t alignment = 16UL << rand_r(state) % 10;
        offer.chunk = memalign(alignment, offer.size);
        cr_assert_eq((uintptr_t)offer.chunk % alignment, 0);
        break;
    }
    default: offer.chunk = malloc(offer.size); break;
    }
    cr_assert(offer.chunk != NULL);
    cr_assert_geq(malloc_usable_size(offer.chunk), offer.size);
    memset(offer.chunk, offer.seed, offer.size);
    return offer;
}

/* Checks a chunk and frees it; resizes one chunk of four before. */
static void end(struct offer *offer, unsigned *state) {
    if (offer->chunk == NULL)
        return;
    cr_assert(holds(offer), "a chunk of %zu bytes was overwritten", offer->size);
    if (rand_r(state) % 4 == 0 && offer->size > 0) {
        size_t size = draw_size(state) + 1;
        offer->chunk = realloc(offer->chunk, size);
        cr_assert(offer->chunk != NULL);
        offer->size = offer->size < size ? offer->size : size;
        cr_assert(holds(offer), "realloc lost bytes");
    }
    errno = 77;
    free(offer->chunk);
    cr_assert_eq(errno, 77, "free changed errno");
}

/* A thread that works may sleep once in NAP_EVERY operations, for up to NAP_MOST_US. */
enum { NAP_EVERY = 16, NAP_MOST_US = 1000 };
static bool naps;

/* Puts new chunks on random shelves and ends those that stood there, whichever thread made them. */
static void *work(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    long count = operations() / (THREADS * LIVES);
    for (long i = 0; i < count; i++) {
        if (naps && i % NAP_EVERY == 0)
            usleep((useconds_t)rand_r(&state) % NAP_MOST_US);
        struct shelf *shelf = &shelves[rand_r(&state) % SLOTS];
        struct offer mine = make(&state);
        pthread_mutex_lock(&shelf->mutex);
        struct offer theirs = shelf->offer;
        shelf->offer = mine;
        pthread_mutex_unlock(&shelf->mutex);
        end(&theirs, &state);
    }
    return NULL;
}

/* Adds up the figures of all views as a dump does, and compares them with the number of chunks that
 * are alive. No other thread may allocate meanwhile. */
static void expect_balance(uint64_t live_chunks) {
    int64_t live_bytes = 0;
    uint64_t allocs = 0, frees = 0;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        for (uint32_t i = 1; i < heap->view_count; i++) {
            const struct view *view = heap_view_at(heap, i);
            allocs += view->allocs;
            frees += view->frees;
            live_bytes += view_live_bytes(view);
        }
    }
    cr_assert_gt(allocs, 0);
    cr_assert_eq(allocs - frees, live_chunks, "%llu allocs, %llu frees", (unsigned long long)allocs,
                 (unsigned long long)frees);
    cr_assert(live_chunks > 0 || live_bytes == 0, "%lld bytes live", (long long)live_bytes);
    cr_assert_eq(heap_global.lost_views, 0);
}

static void run_threads(void) {
    for (int life = 0; life < LIVES; life++) { /* threads of later lives adopt earlier heaps */
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, work,
                                        (void *)(uintptr_t)(life * THREADS + i + 1)),
                         0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

static void clear_shelves(void) {
    unsigned state = 99;
    for (int i = 0; i < SLOTS; i++) {
        end(&shelves[i].offer, &state);
        shelves[i].offer.chunk = NULL;
    }
}

static void set_up(void) {
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&shelves[i].mutex, NULL);
    thread_init();
    unwind_rules_init();
}

static void expect_closed_books(void) {
    uint64_t live = 0;
    for (int i = 0; i < SLOTS; i++)
        live += shelves[i].offer.chunk != NULL;
    expect_balance(live);
    clear_shelves();
    expect_balance(0);
}

Test(threads, chunks_pass_between_threads_and_the_books_close, .init = set_up) {
    run_threads();
    expect_closed_books();
}

Test(threads, empty_pages_go_back, .init = set_up) {
    run_threads();
    clear_shelves();
    malloc_trim(0);
    struct segment_usage usage = segment_usage();
    cr_assert_eq(usage.freelist_bytes, 0);
    cr_assert_lt(usage.used_bytes, 24 << 20, "%lld bytes of pages are still in use",
                 (long long)usage.used_bytes);
}

static void *allocate_once(void *heap) {
    free(malloc(100));
    *(struct heap **)heap = thread_heap_if_any();
    return NULL;
}

/* Returns the bytes of tables that the heap of an ended thread keeps, with a budget of `limit`
 * bytes for all tables. */
static int64_t kept_with_limit(int64_t limit) {
    pthread_t thread;
    struct heap *heap = NULL;
    options.tables = limit;
    tables_limit_bytes();
    cr_assert_eq(pthread_create(&thread, NULL, allocate_once, &heap), 0);
    pthread_join(thread, NULL);
    cr_assert(heap && heap->state == HEAP_PARKED);
    return heap->kept_bytes;
}

Test(threads, heaps_of_ended_threads_keep_little_if_the_budget_is_small, .init = set_up) {
    cr_assert_eq(kept_with_limit(1 << 20), TABLES_PARKED_READY_BYTES);
    cr_assert_eq(kept_with_limit(512 << 10), TABLES_PARKED_BYTES);
    cr_assert_eq(kept_with_limit(1 << 20), TABLES_PARKED_READY_BYTES);
}

static void *visit_heaps(void *stop) {
    while (!load_acquire((uint32_t *)stop)) {
        collect_look(true, os_now_exact_ns() + 1000000000U);
        holes_look_now();
    }
    return NULL;
}

/* Runs the threads of this file while another thread calls `visit` until it is told to stop. */
static void run_threads_beside(void *(*visit)(void *stop)) {
    uint32_t stop = 0;
    pthread_t visitor;
    cr_assert_eq(pthread_create(&visitor, NULL, visit, &stop), 0);
    run_threads();
    store_release(&stop, 1);
    pthread_join(visitor, NULL);
    expect_closed_books();
    malloc_trim(0);
    int64_t used = segment_usage().used_bytes;
    cr_assert_lt(used, 24 << 20, "%lld bytes of pages are still in use", (long long)used);
}

/* Another thread visits all heaps as often as it can, as the control thread does now and then: it
 * collects chunks for their owners and punches empty OS pages. */
Test(threads, heaps_are_visited_meanwhile, .init = set_up) {
    run_threads_beside(visit_heaps);
}

/* A control thread that trims, collects, punches, adds up all figures and takes caches and views
 * away, as often as it can. */
static void *visit_sleepers(void *stop) {
    static uint64_t room[64];
    for (uint32_t round = 0; !load_acquire((uint32_t *)stop); round++) {
        struct answer answer = {.bytes = (char *)room, .capacity = sizeof room};
        uint32_t words[] = {0, 0}; /* a trim of all contexts */
        if (round % 8 == 0)
            trim_run((const struct wire_contexts_request *)(const void *)words, &answer);
        collect_look(true, os_now_exact_ns() + 1000000000U);
        holes_look_now();
        sums_all();
        evict_caches();
        evict_want();
        evict_sweep();
    }
    return NULL;
}

/* Threads sleep and wake, free each other's chunks and end, while all that a control thread does in
 * their heaps goes on. */
Test(threads, sleepers_are_visited_meanwhile, .init = set_up) {
    naps = true;
    run_threads_beside(visit_sleepers);
}

enum { HANDED = 40000, ROUNDS = 40 };
/* the first half is freed by another thread, the second half by the owner */
static void *handed[HANDED];
static pthread_barrier_t round_begins, round_ends;

static void *free_first_half(void *nothing) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&round_begins);
        for (int i = 0; i < HANDED / 2; i++)
            free(handed[i]);
        pthread_barrier_wait(&round_ends);
    }
    return nothing;
}

/* An owner frees chunks in some of its pages, which changes its lists of pages, while a visitor
 * collects what another thread frees in other pages of these lists. */
Test(threads, pages_are_collected_while_their_owner_frees, .init = set_up) {
    uint32_t stop = 0;
    pthread_t visitor, other;
    pthread_barrier_init(&round_begins, NULL, 2);
    pthread_barrier_init(&round_ends, NULL, 2);
    cr_assert_eq(pthread_create(&visitor, NULL, visit_heaps, &stop), 0);
    cr_assert_eq(pthread_create(&other, NULL, free_first_half, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < HANDED; i++)
            memset(handed[i] = malloc(200), round, 200);
        pthread_barrier_wait(&round_begins);
        for (int i = HANDED / 2; i < HANDED; i++)
            free(handed[i]);
        pthread_barrier_wait(&round_ends);
    }
    store_release(&stop, 1);
    pthread_join(visitor, NULL);
    pthread_join(other, NULL);
    expect_balance(0);
    malloc_trim(0);
    int64_t used = segment_usage().used_bytes;
    cr_assert_lt(used, 8 << 10, "%lld bytes of pages are still in use", (long long)used);
}

/* realloc gets a pointer to a block that was never handed out, whose record may say anything. One
 * and the same call allocates all chunks, so they belong to one context, which gets pages of its
 * own. */
Test(threads, realloc_of_an_untouched_block_aborts, .signal = SIGABRT) {
    char *volatile next = NULL;
    options.promote_bytes = 0;
    for (int i = 0; i < 1000; i++) {
        bool last = next != NULL;
        char *chunk = realloc(next, 60);
        if (last)
            exit(0); /* no report */
        const struct page *page = segment_page_of(chunk);
        char *untouched = (char *)align_up((uintptr_t)page->next_block, OS_PAGE_BYTES);
        if (page->kind == PAGE_OWN && segment_page_of(untouched + OS_PAGE_BYTES) == page)
            next = untouched + OS_PAGE_BYTES;
    }
}
