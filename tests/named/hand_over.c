/* SPDX-License-Identifier: MIT */
/* Contexts that one thread hands over and another one takes; contexts whose thread has ended. */
#include "use.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

/* Contexts that the main thread makes, another thread uses, and the main thread deletes. */
enum { HANDED = 4, EACH = 3000 };
static memctx_t parts[HANDED];
static char *pieces[HANDED][EACH];

static size_t piece_size(int i) {
    return i % 500 == 499 ? 100000 : (size_t)(16 + i % 700);
}

static void get_pieces(int first, int step) {
    for (int part = 0; part < HANDED; part++)
        for (int i = first; i < EACH; i += step) {
            pieces[part][i] = memctx_alloc(parts[part], piece_size(i));
            memset(pieces[part][i], part * 7 + i % 100, piece_size(i));
        }
}

static void free_pieces(int first, int step) {
    for (int part = 0; part < HANDED; part++)
        for (int i = first; i < EACH; i += step) {
            for (size_t k = 0; k < piece_size(i); k += 7)
                CHECK(pieces[part][i][k] == (char)(part * 7 + i % 100));
            free(pieces[part][i]);
        }
}

static void check_parts(uint64_t chunks) {
    struct memctx_stats stats;
    for (int part = 0; part < HANDED; part++) {
        memctx_get_stats(parts[part], &stats);
        CHECK(stats.chunks == chunks && !memctx_check(parts[part]));
    }
}

static void *work_on(void *nothing) {
    CHECK(!memctx_take(handed));
    check_parts(EACH);
    free_pieces(1, 2);
    get_pieces(1, 4);
    check_parts(EACH / 2 + EACH / 4);
    CHECK(memctx_owner(pieces[2][5]) == parts[2]);
    memctx_reset(parts[3]);
    CHECK(!memctx_hand_over(handed));
    return nothing;
}

static void *leave_it(void *nothing) {
    handed = make(NULL, "left");
    parts[0] = memctx_create(handed, "part", MEMCTX_SLAB);
    pieces[0][0] = memctx_strdup(parts[0], "left behind");
    return nothing;
}

static void handed_over(void) {
    handed = make(NULL, "handed");
    for (int part = 0; part < HANDED; part++) {
        parts[part] = memctx_create(handed, "part", (enum memctx_policy)part);
        CHECK(parts[part]);
    }
    for (int round = 0; round < 20; round++) {
        get_pieces(0, 1);
        CHECK(!memctx_hand_over(handed));
        run_thread(free_it, memctx_alloc(NULL, 10));
        run_thread(work_on, NULL);
        CHECK(!memctx_take(handed));
        CHECK(memctx_is_empty(parts[3]) && !memctx_check(parts[3]));
        for (int part = 0; part < 3; part++)
            CHECK(!memctx_is_empty(parts[part]) && !memctx_check(parts[part]));
        memctx_reset_children(handed);
        check_parts(0);
    }
    memctx_delete(handed);
    run_thread(leave_it, NULL); /* that thread ends without a hand-over */
    CHECK(!memctx_take(handed));
    CHECK(!strcmp(pieces[0][0], "left behind"));
    memctx_delete(handed);
}

/* A thread that gets a heap of its own, and keeps it until the test ends. */
static void *keep_heap(void *nothing) {
    free(malloc(100));
    pthread_barrier_wait(&began);
    pthread_barrier_wait(&may_end);
    return nothing;
}

/* Beside OWN_HEAPS threads, a thread that allocates little uses the shared heap, which also has the
 * contexts that belong to no thread. The thread's realloc moves the chunks out of such contexts. */
enum { OWN_HEAPS = 16 };
static void *resize_nobodys(void *chunk) {
    for (size_t bytes = 40; bytes < 100000; bytes *= 7)
        CHECK((chunk = realloc(chunk, bytes)) && !strcmp(chunk, "nobody's"));
    return chunk;
}

/* Contexts may be given again, as after a memctx_give that found too little memory. */
static void given_again(void) {
    handed = make(NULL, "given");
    memctx_t part = memctx_create(handed, "part", MEMCTX_SLAB), small = make(handed, "small");
    char *first = memctx_strdup(part, "nobody's"), *second = memctx_strdup(small, "nobody's");
    CHECK(!memctx_give(part));
    CHECK(!memctx_give(handed) && !memctx_give(handed));
    pthread_t others[OWN_HEAPS];
    pthread_barrier_init(&began, NULL, OWN_HEAPS + 1);
    pthread_barrier_init(&may_end, NULL, OWN_HEAPS + 1);
    for (int i = 0; i < OWN_HEAPS; i++)
        CHECK(!pthread_create(&others[i], NULL, keep_heap, NULL));
    pthread_barrier_wait(&began);
    first = run_thread(resize_nobodys, first);
    second = run_thread(resize_nobodys, second);
    CHECK(!memctx_take(handed));
    CHECK(memctx_is_empty(part) && memctx_is_empty(small));
    CHECK(!memctx_check(part) && !memctx_check(small));
    memctx_delete(handed);
    CHECK(!strcmp(first, "nobody's") && !strcmp(second, "nobody's"));
    free(first);
    free(second);
    pthread_barrier_wait(&may_end);
    for (int i = 0; i < OWN_HEAPS; i++)
        CHECK(!pthread_join(others[i], NULL));
}

/* Checks the figures of a context: they move with it to another thread. */
static void check_account(uint64_t allocs, uint64_t frees, uint64_t peak) {
    struct memctx_stats stats;
    memctx_get_stats(handed, &stats);
    CHECK(stats.allocs == allocs && stats.frees == frees && stats.peak_bytes == peak);
    CHECK(stats.chunks == allocs - frees);
}

static void *add_to_account(void *nothing) {
    CHECK(!memctx_take(handed));
    check_account(12, 0, 1200);
    free(memctx_alloc(handed, 100));
    memctx_alloc(handed, 10);
    CHECK(!memctx_hand_over(handed));
    return nothing;
}

/* Contexts of one name follow each other in one place, and threads free chunks of each other's. */
static void *use_the_place(void *nothing) {
    memctx_t context = memctx_create(NULL, "in one place", MEMCTX_SLAB);
    pieces[0][0] = memctx_alloc(context, 1000);
    pthread_barrier_wait(&began);
    pthread_barrier_wait(&may_end); /* the first thread has freed the chunk */
    memctx_delete(context);
    return nothing;
}

static void places_are_used_again(void) {
    struct memctx_stats stats;
    pthread_t thread;
    pthread_barrier_init(&began, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    memctx_t context = memctx_create(NULL, "in one place", MEMCTX_SLAB);
    CHECK(memctx_alloc(context, 64));
    memctx_delete(context);
    CHECK(!pthread_create(&thread, NULL, use_the_place, NULL));
    pthread_barrier_wait(&began);
    free(pieces[0][0]);
    pthread_barrier_wait(&may_end);
    CHECK(!pthread_join(thread, NULL));
    context = memctx_create(NULL, "in one place", MEMCTX_SLAB);
    char *kept = memctx_alloc(context, 10), *freed = memctx_alloc(context, 10);
    run_thread(free_others_piece, freed);
    memctx_get_stats(context, &stats);
    CHECK(kept && stats.chunks == 1 && stats.requested_bytes == 10);
    memctx_reset(context);
    memctx_get_stats(context, &stats);
    CHECK(stats.chunks == 0 && stats.requested_bytes == 0);
    memctx_delete(context);
}

static void accounts_move(void) {
    handed = make(NULL, "accounted");
    for (int i = 0; i < 12; i++)
        memctx_alloc(handed, 100);
    CHECK(!memctx_hand_over(handed));
    run_thread(add_to_account, NULL);
    CHECK(!memctx_take(handed));
    check_account(14, 1, 1300);
    memctx_reset(handed);
    check_account(14, 14, 1300);
    memctx_delete(handed);
}

/* Two threads give a context to each other while the suite makes dumps. */
static volatile int handing;
static void *give_and_take(void *nothing) {
    while (handing) {
        pthread_barrier_wait(&began);
        CHECK(!memctx_take(handed) && !memctx_hand_over(handed));
        pthread_barrier_wait(&may_end);
    }
    return nothing;
}

static void hands_over_all_the_time(void) {
    pthread_t thread;
    fd_set readable;
    struct timeval now = {0, 0};
    pthread_barrier_init(&began, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    handed = make(NULL, "handed");
    for (int i = 0; i < 1000; i++)
        memctx_alloc(handed, 100);
    handing = 1;
    CHECK(!pthread_create(&thread, NULL, give_and_take, NULL));
    puts("begun");
    fflush(stdout);
    do {
        CHECK(!memctx_hand_over(handed));
        pthread_barrier_wait(&began);
        FD_ZERO(&readable);
        FD_SET(0, &readable);
        handing = !select(1, &readable, NULL, NULL, &now);
        pthread_barrier_wait(&may_end);
        CHECK(!memctx_take(handed));
    } while (handing);
    CHECK(!pthread_join(thread, NULL));
}

/* Contexts of an ended thread may be taken, also if another thread has adopted that thread's
 * heap. */
static void *adopt_heap(void *nothing) {
    free(malloc(100));
    pthread_barrier_wait(&began);
    pthread_barrier_wait(&may_end);
    return nothing;
}

static void left_behind(void) {
    pthread_t thread;
    pthread_barrier_init(&began, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    run_thread(leave_it, NULL);
    CHECK(!pthread_create(&thread, NULL, adopt_heap, NULL));
    pthread_barrier_wait(&began);
    CHECK(!memctx_take(handed) && !strcmp(pieces[0][0], "left behind"));
    CHECK(memctx_owner(pieces[0][0]) == parts[0] && !memctx_check(parts[0]));
    memctx_delete(handed);
    pthread_barrier_wait(&may_end);
    CHECK(!pthread_join(thread, NULL));
}

static size_t resident_kib(void) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %zu", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

static void *make_messages(void *nothing) {
    for (;;) {
        pthread_barrier_wait(&began);
        if (!handing)
            return nothing;
        handed = memctx_create(NULL, "message", MEMCTX_BUMP);
        memctx_alloc(handed, 100);
        CHECK(!memctx_hand_over(handed));
        pthread_barrier_wait(&may_end);
    }
}

/* One thread makes contexts, another one takes and deletes them: nothing of them may stay. */
static void messages(void) {
    pthread_t thread;
    size_t before = 0;
    pthread_barrier_init(&began, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    handing = 1;
    CHECK(!pthread_create(&thread, NULL, make_messages, NULL));
    for (int i = 0; i < 9000; i++) {
        if (i == 1000)
            before = resident_kib();
        pthread_barrier_wait(&began);
        pthread_barrier_wait(&may_end);
        CHECK(!memctx_take(handed) && memctx_owner(memctx_alloc(handed, 10)) == handed);
        memctx_delete(handed);
    }
    CHECK(resident_kib() < before + 2000);
    handing = 0;
    pthread_barrier_wait(&began);
    CHECK(!pthread_join(thread, NULL));
}

/* In a forked child, a new thread gets the heap of a thread that had switched to a context. The new
 * thread must not be switched. */
static void *stay_switched(void *nothing) {
    memctx_t own = make(NULL, "switched");
    memctx_switch(own);
    free(malloc(10));
    pthread_barrier_wait(&began);
    pthread_barrier_wait(&may_end);
    return nothing;
}

static void *tell_current(void *nothing) {
    void *chunk = malloc(10);
    bool fresh = !memctx_current() && !memctx_owner(chunk);
    free(chunk);
    return fresh ? nothing : &began;
}

static void switched_at_a_fork(void) {
    pthread_t thread;
    int status;
    pthread_barrier_init(&began, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    CHECK(!pthread_create(&thread, NULL, stay_switched, NULL));
    pthread_barrier_wait(&began);
    pid_t child = fork();
    if (!child) {
        void *wrong = NULL;
        for (int i = 0; i < 4 && !wrong; i++) {
            CHECK(!pthread_create(&thread, NULL, tell_current, NULL));
            CHECK(!pthread_join(thread, &wrong));
        }
        _exit(wrong ? 3 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    pthread_barrier_wait(&may_end);
    CHECK(!pthread_join(thread, NULL));
}

const struct use_case cases_of_hand_over[] = {
    USE_CASE(handed_over),   USE_CASE(given_again),           USE_CASE(left_behind),
    USE_CASE(accounts_move), USE_CASE(places_are_used_again), USE_CASE(hands_over_all_the_time),
    USE_CASE(messages),      USE_CASE(switched_at_a_fork),    {NULL, NULL},
};
