/* SPDX-License-Identifier: MIT */
/* Limits: which allocations are refused, and the program's function that is called before a
 * refusal. */
#include "use.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

static char *to_give_up[8];
static int give_up(memctx_t context, size_t bytes, void *argument) {
    int *calls = argument;
    CHECK(bytes == 1000 && context);
    /* this allocation fails, because the library does not call give_up inside of give_up */
    CHECK(!memctx_alloc(context, 1000));
    free(to_give_up[*calls]);
    return to_give_up[(*calls)++] != NULL;
}

/* The function that is asked for room hands the context over or deletes it, and returns that there
 * is room. */
static int give_away(memctx_t context, size_t bytes, void *ends) {
    CHECK(bytes == 6000);
    if (ends)
        memctx_delete(context);
    else
        CHECK(!memctx_hand_over(context));
    return 1;
}

static void limits_of_what_is_gone(void) {
    for (int ends = 0; ends < 2; ends++) {
        struct memctx_limit limit = {10000, give_away, ends ? &limit : NULL};
        memctx_t context = make(NULL, "limited");
        struct memctx_stats stats;
        CHECK(memctx_alloc(context, 6000));
        memctx_set_limit(context, &limit);
        CHECK(!memctx_alloc(context, 6000) && errno == ENOMEM);
        if (ends)
            continue;
        CHECK(!memctx_take(context));
        memctx_get_stats(context, &stats);
        CHECK(stats.chunks == 1 && stats.requested_bytes == 6000);
        memctx_set_limit(context, NULL);
        memctx_delete(context);
    }
}

/* A function that sets another limit: the library keeps that limit. */
static int set_another(memctx_t context, size_t bytes, void *other) {
    CHECK(bytes == 6000 && !memctx_set_limit(context, other));
    return 1;
}

/* A function that says that there is room, though there is none: the library asks it once. */
static int promise_room(memctx_t context, size_t bytes, void *calls) {
    ++*(int *)calls;
    return context && bytes;
}

static void limits_with_empty_promises(void) {
    int calls = 0;
    struct memctx_limit limit = {10000, promise_room, &calls};
    memctx_t context = make(NULL, "limited");
    CHECK(!memctx_set_limit(context, &limit));
    char *chunk = memctx_alloc(context, 6000);
    CHECK(chunk && !calls);
    CHECK(!memctx_alloc(context, 6000) && errno == ENOMEM && calls == 1);
    CHECK(!realloc(chunk, 12000) && errno == ENOMEM && calls == 2);
    memctx_delete(context);
}

/* A function that is left by longjmp, as by the error handling of a database. */
static jmp_buf out_of_limit;
static int jump(memctx_t context, size_t bytes, void *calls) {
    ++*(int *)calls;
    CHECK(context && bytes == 2000);
    longjmp(out_of_limit, 1);
}

static void limits_left_by_longjmp(void) {
    static int calls;
    static struct memctx_limit limit = {1000, jump, &calls};
    memctx_t context = make(NULL, "limited");
    CHECK(!memctx_set_limit(context, &limit));
    for (volatile int round = 1; round <= 3; round++) {
        if (!setjmp(out_of_limit))
            CHECK(!memctx_alloc(context, 2000)); /* this call does not return */
        CHECK(calls == round);
        /* the function is not called again, but the limit holds */
        CHECK(!memctx_alloc(context, 2000) && errno == ENOMEM && calls == round);
        CHECK(memctx_alloc(context, 100));
        CHECK(!memctx_set_limit(context, &limit));
    }
    memctx_delete(context);
}

static int count_call(memctx_t context, size_t bytes, void *calls) {
    ++*(int *)calls;
    return !context || !bytes;
}

static void limits_that_change(void) {
    int calls = 0, old_calls = 0;
    struct memctx_limit other = {20000, count_call, &calls}, lower = {.bytes = 100};
    struct memctx_limit first = {10000, set_another, &other};
    memctx_t context = make(NULL, "limited");
    char *chunk = memctx_alloc(context, 6000);
    CHECK(!memctx_set_limit(context, &first));
    CHECK(memctx_alloc(context, 6000));
    first = (struct memctx_limit){1, count_call, &old_calls};
    CHECK(!memctx_alloc(context, 10000) && calls == 1 && !old_calls);
    /* a chunk may shrink in a context above its limit, but not grow */
    CHECK(!memctx_set_limit(context, &lower));
    CHECK((chunk = realloc(chunk, 5000)) && (chunk = realloc(chunk, 40)));
    CHECK(!realloc(chunk, 41) && !memctx_alloc(context, 1));
    memctx_delete(context);
    /* a limit that no program reaches */
    first = (struct memctx_limit){.bytes = UINT64_MAX};
    context = make(NULL, "hardly limited");
    CHECK(memctx_alloc(context, 100000) && !memctx_set_limit(context, &first));
    CHECK(memctx_alloc(context, 100000));
    memctx_delete(context);
}

static void limits(void) {
    for (int policy = MEMCTX_ASET; policy <= MEMCTX_SIMPLE; policy++) {
        int calls = 0;
        memctx_t context = memctx_create(NULL, "limited", (enum memctx_policy)policy);
        struct memctx_limit plain = {.bytes = 10000}, asking = {10000, give_up, &calls};
        char *first = memctx_alloc(context, 6000);
        memctx_set_limit(context, &plain);
        CHECK(!memctx_alloc(context, 4001) && errno == ENOMEM);
        char *second = memctx_alloc(context, 4000);
        CHECK(second && !memctx_zalloc(context, 1));
        CHECK(!memctx_alloc_aligned(context, 64, 64) && !memctx_alloc(context, 100000));
        volatile size_t alignment = 48, bytes = SIZE_MAX / 2;
        errno = 0;
        CHECK(!memctx_alloc_aligned(context, alignment, 64) && errno == EINVAL);
        CHECK(!memctx_alloc_aligned(context, 64, bytes) && errno == ENOMEM);
        errno = 0;
        MEMCTX_SCOPE(context) {
            CHECK(!malloc(1) && errno == ENOMEM);
        }
        CHECK(!realloc(second, 4001) && (second = realloc(second, 3999)));
        free(first);
        CHECK((first = memctx_alloc(context, 6001)));
        run_thread(free_others_piece, first);
        CHECK((first = memctx_alloc(context, 6001)));
        memctx_set_limit(context, NULL);
        CHECK(memctx_alloc(context, 100000));
        memctx_reset(context);
        memctx_set_limit(context, &asking);
        for (int i = 0; i < 10; i++)
            CHECK((to_give_up[i < 3 ? i : 3] = memctx_alloc(context, 1000)));
        to_give_up[3] = NULL;
        for (int i = 0; i < 3; i++)
            CHECK(memctx_alloc(context, 1000) && calls == i + 1);
        CHECK(!memctx_alloc(context, 1000) && calls == 4);
        CHECK(!memctx_check(context));
        memctx_delete(context);
        /* The new context has the deleted one's place, without its limit. */
        context = memctx_create(NULL, "limited", MEMCTX_ASET);
        CHECK(memctx_alloc(context, 100000));
        memctx_delete(context);
    }
}

const struct use_case cases_of_limits[] = {
    USE_CASE(limits),
    USE_CASE(limits_left_by_longjmp),
    USE_CASE(limits_that_change),
    USE_CASE(limits_with_empty_promises),
    USE_CASE(limits_of_what_is_gone),
    {NULL, NULL},
};
