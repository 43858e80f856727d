/* SPDX-License-Identifier: MIT */
/* Scopes: chunks of other threads, chunks that are resized in another scope; programs without the
 * library. */
#include "use.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without the library all functions can be called, and there is no context. */
static void absent(void) {
    struct memctx_stats stats;
    struct memctx_callback callback = {NULL, NULL, NULL};
    CHECK(!memctx_is_active());
    memctx_t context = memctx_create(NULL, "a", MEMCTX_ASET);
    CHECK(!context && !memctx_switch(context) && !memctx_current());
    CHECK(!memctx_create_with(NULL, "a", MEMCTX_ASET, NULL));
    char *chunk = memctx_alloc(context, 100);
    CHECK(chunk && !memctx_owner(chunk));
    chunk = memctx_realloc(context, chunk, 200);
    memctx_free(chunk);
    chunk = memctx_zalloc(context, 100);
    CHECK(chunk && !chunk[99]);
    memctx_free(chunk);
    chunk = memctx_alloc_aligned(context, 64, 128);
    CHECK(chunk && (uintptr_t)chunk % 64 == 0);
    memctx_free(chunk);
    chunk = memctx_strdup(context, "text");
    CHECK(!strcmp(chunk, "text"));
    memctx_free(chunk);
    memctx_get_stats(context, &stats);
    CHECK(!stats.chunks && memctx_is_empty(context) && !*memctx_name(context));
    CHECK(!*memctx_identifier(context) && !memctx_parent(context) && !memctx_check(context));
    CHECK(!memctx_walk(context, NULL, NULL));
    memctx_call_on_reset(context, &callback);
    memctx_identify(context, "b");
    memctx_set_limit(context, NULL);
    CHECK(!memctx_hand_over(context) && !memctx_take(context) && !memctx_reset_requested(context));
    memctx_set_parent(context, NULL);
    memctx_reset_children(context);
    memctx_reset(context);
    memctx_delete(context);
    int times = 0;
    MEMCTX_SCOPE(context) {
        times++;
    }
    CHECK(times == 1);
}

/* The control thread starts inside a scope, and changes neither the scope nor its figures. */
static void control_starts_in_a_scope(void) {
    memctx_t context = make(NULL, "current");
    struct memctx_stats stats;
    MEMCTX_SCOPE(context) {
        /* Allocations that need new memory start the control thread, from 20 ms on. */
        for (int i = 0; i < 400; i++) {
            free(malloc(3 << 20));
            usleep(500);
        }
        CHECK(memctx_current() == context);
    }
    memctx_get_stats(context, &stats);
    CHECK(stats.allocs == 400 && !stats.chunks);
    memctx_delete(context);
}

static void *resize_it(void *chunk) {
    char *moved = realloc(chunk, 100000);
    CHECK(!memctx_owner(moved));
    return moved;
}

static void other_threads(void) {
    memctx_t context = make(NULL, "shared");
    char *kept = memctx_strdup(context, "kept");
    run_thread(free_it, memctx_alloc(context, 1000));
    run_thread(free_it, memctx_alloc(context, 100000));
    char *moved = run_thread(resize_it, kept);
    CHECK(!strcmp(moved, "kept") && memctx_is_empty(context));
    memctx_delete(context);
    CHECK(!strcmp(moved, "kept"));
    free(moved);
}

/* A chunk of no named context stays in none when it is resized inside a scope. */
static void resized_elsewhere(void) {
    memctx_t context = make(NULL, "short");
    char *chunk = malloc(24);
    strcpy(chunk, "stays");
    MEMCTX_SCOPE(context) {
        for (size_t bytes = 24; bytes < 10 << 20; bytes *= 3) {
            chunk = realloc(chunk, bytes);
            CHECK(!memctx_owner(chunk));
        }
    }
    memctx_delete(context);
    CHECK(!strcmp(chunk, "stays"));
    free(chunk);
}

static void early_end(memctx_t context) {
    MEMCTX_SCOPE(context) {
        if (memctx_current() == context)
            return;
    }
}

/* Allocates on one call path, which the library first sees outside of a context or inside of
 * one. */
static __attribute__((noinline)) void *get(void) {
    void *chunk = malloc(100);
    __asm__ volatile("");
    return chunk;
}
static void known_paths(memctx_t context) {
    enum { TIMES = 3000 };
    static void *chunks[4 * TIMES];
    for (int i = 0; i < 4 * TIMES; i++) {
        if (i % TIMES == 0)
            memctx_switch(i / TIMES % 2 ? context : NULL);
        chunks[i] = get();
        CHECK(memctx_owner(chunks[i]) == (i / TIMES % 2 ? context : NULL));
    }
    memctx_switch(NULL);
    for (int i = 0; i < 4 * TIMES; i++)
        free(chunks[i]);
    CHECK(memctx_is_empty(context));
}

static void scopes(void) {
    memctx_t a = make(NULL, "a"), b = make(NULL, "b");
    known_paths(a);
    MEMCTX_SCOPE(a) {
        early_end(b);
        CHECK(memctx_current() == a);
        MEMCTX_SCOPE(NULL) {
            char *outside = strdup("x");
            CHECK(!memctx_owner(outside));
            free(outside);
        }
        char *inside = strdup("x");
        CHECK(memctx_owner(inside) == a);
    }
    CHECK(!memctx_current());
    memctx_delete(a);
    memctx_delete(b);
}

/* The blocks of the policy slab have exactly the requested sizes, so the next free block may be
 * large enough for an aligned chunk, but aligned to 16 bytes only: 528 bytes are no multiple of 32.
 * The first aligned chunk makes the context's blocks larger, so each case needs a new context. */
static void slab_chunks_are_aligned(void) {
    enum { CONTEXTS = 64, BLOCK_BYTES = 528, BYTES = 520 };
    for (int before = 1; before <= CONTEXTS; before++) {
        size_t alignment = 32UL << before % 3;
        memctx_t context = memctx_create(NULL, "exact", MEMCTX_SLAB);
        MEMCTX_SCOPE(context) {
            for (int i = 0; i < before; i++)
                CHECK(malloc(BLOCK_BYTES));
            for (int i = 0; i < 4; i++) {
                char *chunk = aligned_alloc(alignment, BYTES);
                CHECK(chunk && (uintptr_t)chunk % alignment == 0 && memctx_owner(chunk) == context);
                memset(chunk, 1, BYTES);
            }
        }
        CHECK(!memctx_check(context));
        memctx_delete(context);
    }
}

static char *freed_in_fork[2];

static void free_in_fork(void) {
    for (int i = 0; i < 2; i++) {
        free(freed_in_fork[i]);
        freed_in_fork[i] = NULL;
    }
}

/* Runs before the constructors of all libraries, so that fork calls `free_in_fork` when the
 * library's fork handler has taken its locks. */
static void at_first(void) {
    pthread_atfork(free_in_fork, NULL, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = at_first;

/* A fork handler frees chunks. The library has to do these frees later, but before a reset. */
static void freed_in_a_fork(void) {
    int status = -1;
    memctx_t context = memctx_create(NULL, "reset", MEMCTX_ASET);
    freed_in_fork[0] = memctx_alloc(context, 100);
    freed_in_fork[1] = strdup("x"); /* shorter than a pointer */
    pid_t child = fork();
    if (!child)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    memctx_reset(context);
    char *chunks[20];
    for (int i = 0; i < 20; i++)
        memset(chunks[i] = memctx_alloc(context, 100), 0x55, 100);
    free(malloc(9000));
    for (int i = 0; i < 20; i++)
        free(chunks[i]);
    CHECK(memctx_check(context) == NULL && memctx_is_empty(context));
    memctx_delete(context);
}

const struct use_case cases_of_scopes[] = {
    USE_CASE(absent),
    USE_CASE(control_starts_in_a_scope),
    USE_CASE(freed_in_a_fork),
    USE_CASE(other_threads),
    USE_CASE(resized_elsewhere),
    USE_CASE(scopes),
    USE_CASE(slab_chunks_are_aligned),
    {NULL, NULL},
};
