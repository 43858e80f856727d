/* SPDX-License-Identifier: MIT */
/* Parents and children, callbacks, resets; freed memory is reused; memctx_check finds damage. */
#include "use.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char order[16];
static void note(void *argument) {
    strcat(order, argument);
    free(malloc(1000)); /* the callback runs in the middle of a reset and may allocate */
}

/* A callback that is left by longjmp: the reset stops there, and a further one goes on. */
static jmp_buf out_of_callback;
static void jump(void *nothing) {
    CHECK(!nothing);
    longjmp(out_of_callback, 1);
}

static void callbacks_left_by_longjmp(void) {
    static char name[] = "1";
    static struct memctx_callback first = {note, name, NULL}, last = {jump, NULL, NULL};
    memctx_t top = make(NULL, "top"), child = make(top, "child");
    CHECK(memctx_alloc(top, 100) && memctx_alloc(child, 100));
    memctx_add_callback(child, &first);
    memctx_add_callback(child, &last);
    order[0] = 0;
    if (!setjmp(out_of_callback)) {
        memctx_delete(top);
        CHECK(!"memctx_delete returned");
    }
    CHECK(!*order && !memctx_is_empty(top) && !memctx_is_empty(child));
    memctx_delete(top);
    CHECK(!strcmp(order, "1"));
}

static void callbacks(void) {
    memctx_t top = make(NULL, "top"), child = make(top, "child");
    struct memctx_callback *first = memctx_zalloc(top, sizeof *first);
    struct memctx_callback *second = memctx_zalloc(top, sizeof *second);
    struct memctx_callback *below = memctx_zalloc(child, sizeof *below);
    *first = (struct memctx_callback){note, "1", NULL};
    *second = (struct memctx_callback){note, "2", NULL};
    *below = (struct memctx_callback){note, "c", NULL};
    memctx_call_on_reset(top, first);
    memctx_call_on_reset(top, second);
    memctx_call_on_reset(child, below);
    memctx_reset(top);
    CHECK(!strcmp(order, "c21"));
    memctx_reset(top);
    CHECK(!strcmp(order, "c21"));
    memctx_delete(top);
}

static int visit(memctx_t context, int depth, void *argument) {
    char line[64];
    snprintf(line, sizeof line, "%d%s%s ", depth, memctx_name(context), memctx_identifier(context));
    strcat(argument, line);
    return 0;
}

/* Walks a chain of 150 000 contexts. A recursive walk would overflow the stack. */
static int count_levels(memctx_t context, int depth, void *argument) {
    int *levels = argument;
    CHECK(context && depth == (*levels)++);
    return depth == 150000 ? 7 : 0;
}

static void long_chain(void) {
    enum { LEVELS = 150000 };
    memctx_t top = make(NULL, "top"), at = top;
    int levels = 0;
    for (int i = 0; i < LEVELS; i++) {
        at = make(at, "below");
        memctx_alloc(at, 10);
    }
    CHECK(memctx_walk(top, count_levels, &levels) == 7 && levels == LEVELS + 1);
    CHECK(!memctx_hand_over(top) && !memctx_take(top) && !memctx_is_empty(at));
    puts("begun");
    fflush(stdout);
    getchar();
    memctx_reset_children(top);
    CHECK(memctx_is_empty(at));
    memctx_delete(top);
}

/* Callbacks that make a context below one that is being deleted. */
static memctx_t made_late;
static void make_late(void *parent) {
    made_late = make(parent, "late");
    memctx_alloc(made_late, 100);
}

static void made_by_callbacks(void) {
    memctx_t top = make(NULL, "top"), below = make(top, "below");
    struct memctx_callback of_top = {.function = make_late, .argument = top};
    struct memctx_callback of_below = {.function = make_late, .argument = below};
    struct memctx_stats stats;
    memctx_call_on_reset(top, &of_top);
    memctx_call_on_reset(below, &of_below);
    memctx_reset(top);
    memctx_get_stats(top, &stats);
    CHECK(!stats.children && memctx_is_empty(top));
    memctx_delete(top);
}

static void tree(void) {
    char seen[256] = "";
    memctx_t a = make(NULL, "a"), b = make(a, "b"), c = make(b, "c"), d = make(a, "d");
    memctx_identify(c, "#1");
    CHECK(memctx_parent(c) == b && !memctx_parent(a));
    CHECK(!memctx_walk(a, visit, seen));
    CHECK(!strcmp(seen, "0a 1d 1b 2c#1 "));
    char *in_c = memctx_alloc(c, 100), *in_d = memctx_alloc(d, 100);
    CHECK(memctx_owner(in_c) == c && memctx_owner(in_d) == d);
    memctx_set_parent(c, NULL);
    memctx_reset_children(a);
    CHECK(memctx_is_empty(d) && !memctx_is_empty(c));
    memctx_delete(a); /* deletes its children b and d, too */
    CHECK(!strcmp(memctx_name(c), "c"));
    memctx_t again = make(NULL, "a");
    CHECK(again != a);
    memctx_delete(c);
    memctx_delete(again);
}

/* The memory of freed chunks is reused, at once and after thousands of rounds. */
static void memory_is_used_again(void) {
    memctx_t context = make(NULL, "request");
    struct memctx_stats stats;
    for (int i = 0; i < 20000; i++) {
        for (int k = 0; k < 20; k++)
            memset(memctx_alloc(context, 100), k, 100);
        if (i % 100 == 0)
            memset(memctx_alloc(context, 3 << 20), 1, 100);
        memctx_reset(context);
    }
    memctx_get_stats(context, &stats);
    CHECK(!stats.chunks && !stats.requested_bytes && stats.reserved_bytes <= 65536);
    CHECK(stats.allocs == 20000 * 20 + 200 && stats.frees == stats.allocs);
    CHECK(stats.peak_bytes == 20 * 100 + (3 << 20));
    for (int i = 0; i < 20000; i++) {
        memctx_t request = make(context, "query");
        memctx_alloc(request, 100);
        memctx_delete(request);
    }
    memctx_delete(context);
}

/* memctx_check finds a write to a freed chunk, in each policy that links free chunks inside the
 * chunks. */
static void check_finds_what_is_damaged(void) {
    static const enum memctx_policy policies[] = {MEMCTX_ASET, MEMCTX_SLAB, MEMCTX_SIMPLE};
    for (int i = 0; i < 3; i++) {
        memctx_t context = memctx_create(NULL, "damaged", policies[i]);
        char *chunks[3];
        for (int k = 0; k < 3; k++)
            chunks[k] = memctx_alloc(context, 100);
        CHECK(!memctx_check(context));
        free(chunks[0]);
        free(chunks[1]);
        CHECK(!memctx_check(context));
        void **link = (void **)(void *)chunks[1], *kept = *link;
        *link = &link; /* a pointer to memory outside of the context */
        __asm__ volatile("" ::: "memory");
        const char *wrong = memctx_check(context);
        CHECK(wrong && strstr(wrong, "a freed chunk was overwritten"));
        *link = kept;
        CHECK(!memctx_check(context));
        memctx_delete(context);
    }
}

/* Resets free a million chunks with 100 MB each time. */
static void reset_of_much(void) {
    memctx_t context = memctx_create(NULL, "much", MEMCTX_BUMP);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000000; i++)
            memset(memctx_alloc(context, 100), 1, 100);
        memctx_reset(context);
    }
    puts("begun");
    fflush(stdout);
    getchar();
}

/* A worker with a context "cache", which it resets when the command asks for that. serves() starts
 * two of them. No thread looks whether the command asks for a reset of the context "deaf". The
 * program runs until it reads a line. */
static void *keep_cache(void *nothing) {
    memctx_t cache = make(NULL, "cache");
    for (int i = 0; i < 1000; i++)
        memctx_alloc(cache, 1000);
    while (!memctx_reset_requested(cache))
        usleep(1000);
    memctx_reset(cache);
    CHECK(!memctx_reset_requested(cache));
    pause();
    return nothing;
}

static void serves(void) {
    char line[8];
    pthread_t workers[2];
    memctx_t deaf = make(NULL, "deaf");
    memctx_alloc(deaf, 1000);
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&workers[i], NULL, keep_cache, NULL));
    puts("begun");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    CHECK(!memctx_is_empty(deaf));
}

/* Number of threads that still make and delete children. */
static int makers;

static void *make_and_delete(void *parent) {
    for (int i = 0; i < 300000; i++)
        memctx_delete(make(parent, "child"));
    __atomic_fetch_sub(&makers, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Each of three threads has at most one child below a context of this thread. */
static void children_of_other_threads(void) {
    pthread_t threads[3];
    memctx_t parent = make(NULL, "parent");
    struct memctx_stats stats;
    makers = 3;
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&threads[i], NULL, make_and_delete, parent));
    while (__atomic_load_n(&makers, __ATOMIC_RELAXED)) {
        memctx_get_stats(parent, &stats);
        CHECK(stats.children <= 3);
    }
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_join(threads[i], NULL));
    memctx_get_stats(parent, &stats);
    CHECK(!stats.children);
    memctx_delete(parent);
}

const struct use_case cases_of_tree[] = {
    USE_CASE(children_of_other_threads),
    USE_CASE(callbacks),
    USE_CASE(callbacks_left_by_longjmp),
    USE_CASE(tree),
    USE_CASE(long_chain),
    USE_CASE(made_by_callbacks),
    USE_CASE(memory_is_used_again),
    USE_CASE(check_finds_what_is_damaged),
    USE_CASE(reset_of_much),
    USE_CASE(serves),
    {NULL, NULL},
};
