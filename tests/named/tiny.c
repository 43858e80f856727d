/* SPDX-License-Identifier: MIT */
/* Tiny contexts: their few chunks share pages with chunks of other contexts. */
#include "use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tiny contexts with up to three chunks. A chunk shares pages with other chunks of the thread that
 * allocated it, whichever thread owns the context. */
enum { SMALL_ONES = 2000 };
static memctx_t small_ones[SMALL_ONES];
static char *small_chunks[SMALL_ONES][3];

static void get_small(int i, int k) {
    small_chunks[i][k] = memctx_alloc(small_ones[i], (size_t)(8 + (i + k) % 150));
    memset(small_chunks[i][k], i + k, (size_t)(8 + (i + k) % 150));
    CHECK(memctx_owner(small_chunks[i][k]) == small_ones[i]);
}

static void check_small(int i, uint64_t chunks, uint64_t bytes) {
    struct memctx_stats stats;
    memctx_get_stats(small_ones[i], &stats);
    CHECK(stats.chunks == chunks && stats.requested_bytes == bytes);
    CHECK(stats.reserved_bytes >= bytes && !stats.pages && !memctx_check(small_ones[i]));
    CHECK(memctx_is_empty(small_ones[i]) == !chunks);
}

static void *free_first_ones(void *nothing) {
    for (int i = 0; i < SMALL_ONES; i++)
        free(small_chunks[i][0]);
    return nothing;
}

static void *take_small(void *nothing) {
    CHECK(!memctx_take(handed));
    for (int i = 0; i < SMALL_ONES; i++) {
        CHECK(memctx_owner(small_chunks[i][1]) == small_ones[i]);
        CHECK(small_chunks[i][1][0] == (char)(i + 1));
        check_small(i, 1, (uint64_t)(8 + (i + 1) % 150));
        get_small(i, 2);
        if (i % 2)
            free(small_chunks[i][1]);
        if (i % 3 == 0)
            memctx_reset(small_ones[i]);
        check_small(i, i % 3 ? 2 - i % 2 : 0,
                    i % 3 == 0 ? 0
                               : (uint64_t)(8 + (i + 2) % 150 + (i % 2 ? 0 : 8 + (i + 1) % 150)));
    }
    CHECK(!memctx_hand_over(handed));
    return nothing;
}

static void tiny_ones(void) {
    char name[32];
    handed = make(NULL, "small ones");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SMALL_ONES; i++) {
            snprintf(name, sizeof name, "%d of %d", i, round);
            small_ones[i] = make(handed, name);
            get_small(i, 0);
            get_small(i, 1);
        }
        run_thread(free_first_ones, NULL);
        CHECK(!memctx_hand_over(handed));
        run_thread(take_small, NULL); /* that thread ends; chunk 2 of each context is in its heap */
        CHECK(!memctx_take(handed));
        for (int i = 0; i < SMALL_ONES; i++) {
            CHECK(i % 3 == 0 || small_chunks[i][2][0] == (char)(i + 2));
            memctx_delete(small_ones[i]);
        }
    }
    memctx_delete(handed);
}

/* A chunk that is made larger and smaller, in place or elsewhere, stays in its context. */
static void tiny_ones_grow(void) {
    memctx_t a = make(NULL, "a"), b = make(NULL, "b");
    char *chunk = memctx_strdup(a, "kept"), *other = memctx_strdup(b, "other");
    struct memctx_stats stats;
    for (size_t bytes = 5; bytes < 5000; bytes += 1 + bytes / 3) {
        MEMCTX_SCOPE(b) {
            chunk = realloc(chunk, bytes);
        }
        CHECK(memctx_owner(chunk) == a && !strcmp(chunk, "kept") && memctx_owner(other) == b);
        memctx_get_stats(a, &stats);
        CHECK(stats.chunks == 1 && stats.requested_bytes == bytes);
    }
    memctx_reset(b);
    CHECK(!strcmp(chunk, "kept") && !memctx_is_empty(a));
    memctx_delete(a);
    a = make(NULL, "c");
    chunk = memctx_strdup(a, "given");
    CHECK(!memctx_hand_over(a));
    MEMCTX_SCOPE(b) { /* the context has no owner, so this thread may not allocate in it */
        chunk = realloc(chunk, 7);
    }
    CHECK(memctx_owner(chunk) == b && !memctx_take(a) && memctx_is_empty(a));
    memctx_get_stats(b, &stats);
    CHECK(stats.chunks == 1 && stats.requested_bytes == 7);
    /* large chunks, which stand in a list of their context, move with the context, too */
    for (size_t bytes = 20000; bytes < 10000000; bytes *= 4) {
        chunk = memset(memctx_alloc(a, bytes), 'x', bytes);
        CHECK(!memctx_hand_over(a));
        MEMCTX_SCOPE(b) {
            chunk = realloc(chunk, bytes + bytes / 8);
        }
        CHECK(memctx_owner(chunk) == b && !memctx_take(a) && memctx_is_empty(a));
        CHECK(!memctx_check(a));
        memctx_reset(a);
        CHECK(chunk[0] == 'x' && chunk[bytes - 1] == 'x');
        free(chunk);
    }
    memctx_delete(b);
    memctx_delete(a);
}

/* Makes 100 000 contexts with one chunk, each tenth with 8. With an OS page for each they would
 * take 400 MB. */
static void very_many(void) {
    enum { MANY = 100000 };
    memctx_t all = make(NULL, "all");
    for (int i = 0; i < MANY; i++) {
        memctx_t one = make(all, "one");
        for (int k = 0; k < (i % 10 ? 1 : 8); k++)
            memset(memctx_alloc(one, 100), 1, 100);
    }
    puts("begun");
    fflush(stdout);
    getchar();
    memctx_delete(all);
}

const struct use_case cases_of_tiny[] = {
    USE_CASE(tiny_ones),
    USE_CASE(tiny_ones_grow),
    USE_CASE(very_many),
    {NULL, NULL},
};
