/* SPDX-License-Identifier: MIT */
/* Contexts with options: zeroed, guarded, large pages, identifiers. */
#include "use.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* True if the bytes from `from` to `to` of a chunk are zero. The allocator uses the first two words
 * of a freed chunk. */
static bool is_zero(const volatile char *chunk, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (chunk[i])
            return false;
    return true;
}

static char *filled(memctx_t context, size_t bytes) {
    return memset(memctx_alloc(context, bytes), 'x', bytes);
}

static void zeroed(void) {
    static const size_t sizes[] = {32, 100, 900, 1500, 5000, 50000};
    struct memctx_options with = {.flags = MEMCTX_ZERO_FREED, .identifier = "secret"};
    for (int policy = 0; policy < 5; policy++)
        for (int life = 0; life < 3; life++) {
            with.flags = life == 1 ? 0 : MEMCTX_ZERO_FREED | (life ? MEMCTX_LARGE_PAGES : 0);
            memctx_t context =
                memctx_create_with(NULL, "zeroed", (enum memctx_policy)policy, &with);
            CHECK(!strcmp(memctx_identifier(context), "secret"));
            for (int i = 0; i < 6; i++) {
                char *freed = filled(context, sizes[i]), *by_other = filled(context, sizes[i]);
                char *kept = filled(context, sizes[i]);
                memctx_free(freed);
                CHECK(life == 1 ? i > 4 || !is_zero(freed, 16, sizes[i])
                                : is_zero(freed, 16, sizes[i]));
                run_thread(free_others_piece, by_other);
                CHECK(life == 1 || is_zero(by_other, 16, sizes[i]));
                filled(context, sizes[i]);
                memctx_reset(context);
                CHECK(life == 1 || is_zero(kept, 16, sizes[i]));
                CHECK(memctx_is_empty(context) && !memctx_check(context));
            }
            /* chunks that become smaller, the second one in front of another chunk */
            char *shrunk = filled(context, 4000), *again = realloc(shrunk, 100);
            CHECK(life == 1 || again != shrunk || is_zero(shrunk, 100, 4000));
            shrunk = filled(context, 400);
            filled(context, 64);
            again = realloc(shrunk, 220);
            CHECK(life == 1 || again != shrunk || is_zero(shrunk, 220, 400));
            memctx_delete(context);
        }
}

static void long_identifiers(void) {
    memctx_t context = make(NULL, "query");
    memctx_identify(context, "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"
                             "\u00e9\u00e9\u00e9\u00e9\u00e9");
    /* the 16th character is dropped, not cut in half */
    CHECK(strlen(memctx_identifier(context)) == 30);
    memctx_identify(context, "0123456789012345678901234567890123456789");
    CHECK(strlen(memctx_identifier(context)) == 31);
    char latin[] = "\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4\xe4"
                   "\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4\xa4";
    memctx_identify(context, latin); /* no UTF-8, so it is cut anywhere */
    CHECK(strlen(memctx_identifier(context)) == 31);
    memctx_identify(context, memctx_identifier(context) + 28);
    CHECK(!strcmp(memctx_identifier(context), "\xa4\xa4\xa4"));
    memctx_identify(context, "short");
    CHECK(!strcmp(memctx_identifier(context), "short"));
    memctx_delete(context);
}

static void options(void) {
    struct memctx_limit limit = {.bytes = 1000};
    struct memctx_options with = {.limit = &limit, .identifier = "small"}, odd = {.flags = 64};
    struct memctx_stats stats;
    CHECK(!memctx_create_with(NULL, "odd", MEMCTX_ASET, &odd));
    CHECK(!memctx_create(NULL, "odd", (enum memctx_policy)(MEMCTX_SIMPLE + 1)));
    memctx_t context = memctx_create_with(NULL, "limited", MEMCTX_ASET, &with);
    CHECK(!strcmp(memctx_identifier(context), "small"));
    CHECK(memctx_alloc(context, 900) && !memctx_alloc(context, 101));
    memctx_delete(context);
    context = memctx_create_with(NULL, "large", MEMCTX_SLAB,
                                 &(struct memctx_options){.flags = MEMCTX_LARGE_PAGES});
    CHECK(memctx_alloc(context, 40));
    memctx_get_stats(context, &stats);
    CHECK(stats.pages == 1 && stats.reserved_bytes == 65536);
    memctx_delete(context);
    /* reuses the deleted context's place */
    context = memctx_create_with(NULL, "large", MEMCTX_SLAB, NULL);
    CHECK(memctx_alloc(context, 40));
    memctx_get_stats(context, &stats);
    CHECK(stats.pages == 1 && stats.reserved_bytes == 16384);
    memctx_delete(context);
}

/* Guarded chunks end at memory that cannot be touched. After a reset the chunks cannot be touched,
 * either. */
static void guarded(void) {
    struct memctx_options with = {.flags = MEMCTX_GUARDED};
    memctx_t context = memctx_create_with(NULL, "watched", MEMCTX_ASET, &with);
    char *chunk = memctx_alloc(context, 100);
    CHECK(memctx_owner(chunk) == context && !memctx_is_empty(context));
    for (int i = 0; i < 20000; i++) {
        memctx_alloc(context, 100);
        memctx_alloc_aligned(context, 64, 100);
        memctx_reset(context);
        CHECK(memctx_is_empty(context));
    }
    chunk = memctx_alloc(context, 100);
    *(volatile char *)chunk = 1;
    memctx_reset(context);
    CHECK(!memctx_check(context));
    puts("begun");
    fflush(stdout);
    *(volatile char *)chunk = 1;
}

/* True if the kernel cannot read the byte. */
static bool is_inaccessible(const char *byte) {
    int ends[2];
    CHECK(!pipe(ends));
    bool refused = write(ends[1], byte, 1) < 0;
    close(ends[0]);
    close(ends[1]);
    return refused;
}

static void guarded_sizes(void) {
    struct memctx_options with = {.flags = MEMCTX_GUARDED};
    memctx_t context = memctx_create_with(NULL, "watched", MEMCTX_ASET, &with);
    size_t largest = 1016 << 10;
    CHECK(is_inaccessible((char *)memctx_alloc(context, 16) + 16));
    CHECK(is_inaccessible((char *)memctx_alloc(context, largest) + largest));
    CHECK(!is_inaccessible((char *)memctx_alloc(context, largest + 1) + largest + 1));
    memctx_delete(context);
}

static void with_options(void) {
    struct memctx_options with = {.flags = MEMCTX_ZERO_FREED | MEMCTX_GUARDED | MEMCTX_LARGE_PAGES};
    memctx_alloc(memctx_create_with(NULL, "with", MEMCTX_BUMP, &with), 100);
    memctx_alloc(memctx_create(NULL, "without", MEMCTX_BUMP), 100);
    puts("begun");
    fflush(stdout);
    getchar();
}

static void identified(void) {
    char line[8];
    memctx_t query = make(NULL, "query"), other = make(NULL, "query");
    memctx_identify(query, "SELECT 1");
    memctx_free(memctx_alloc(query, 5000));
    memctx_alloc(query, 300);
    memctx_alloc(other, 10);
    puts("begun");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    memctx_delete(query);
}

const struct use_case cases_of_options[] = {
    USE_CASE(zeroed),       USE_CASE(long_identifiers), USE_CASE(options),       USE_CASE(guarded),
    USE_CASE(with_options), USE_CASE(identified),       USE_CASE(guarded_sizes), {NULL, NULL},
};
