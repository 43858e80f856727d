/* SPDX-License-Identifier: MIT */
/* What memctx.h says, one case at a time: use CASE. Exit status 0: as it says. Misuse is to end the program. */
#include <memctx.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: " #condition "\n", __LINE__);                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static memctx_t make(memctx_t parent, const char *name) {
    memctx_t made = memctx_create(parent, name, MEMCTX_ASET);
    CHECK(made);
    return made;
}

static void *run_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, body, argument));
    CHECK(!pthread_join(thread, &result));
    return result;
}

/* Without the library: everything works on, and does nothing. */
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

static char order[16];
static void note(void *argument) {
    strcat(order, argument);
    free(malloc(1000)); /* in the middle of a reset */
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

/* A chain that no stack is deep enough for. */
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

/* Callbacks that make contexts where others are just deleted. */
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
    memctx_delete(a); /* b and d with it */
    CHECK(!strcmp(memctx_name(c), "c"));
    memctx_t again = make(NULL, "a");
    CHECK(again != a);
    memctx_delete(c);
    memctx_delete(again);
}

/* The bytes of what was freed are used again, at once and after thousands of times. */
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

/* Whoever starts the control thread: what libc allocates for it is not the context's, and would not outlive a reset. */
static void control_starts_in_a_scope(void) {
    memctx_t context = make(NULL, "current");
    struct memctx_stats stats;
    MEMCTX_SCOPE(context) {
        for (int i = 0; i < 400; i++) { /* the thread comes with a slow allocation after 20 ms */
            free(malloc(3 << 20));
            usleep(500);
        }
        CHECK(memctx_current() == context);
    }
    memctx_get_stats(context, &stats);
    CHECK(stats.allocs == 400 && !stats.chunks);
    memctx_delete(context);
}

/* A freed chunk that was written to, in each policy that keeps a list of these in them. */
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
        *link = &link; /* a pointer to elsewhere */
        __asm__ volatile("" ::: "memory");
        const char *wrong = memctx_check(context);
        CHECK(wrong && strstr(wrong, "a freed chunk was written to"));
        *link = kept;
        CHECK(!memctx_check(context));
        memctx_delete(context);
    }
}

/* 100 MB in a million chunks, freed at once. */
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

static void *free_it(void *chunk) {
    CHECK(!memctx_owner(chunk)); /* of this thread's */
    free(chunk);
    return NULL;
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

/* What is in no context stays in none, whatever its thread is switched to when it is resized. */
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

/* One call path, known from before the switch, or first seen in it. */
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

static char *to_give_up[8];
static int give_up(memctx_t context, size_t bytes, void *argument) {
    int *calls = argument;
    CHECK(bytes == 1000 && context);
    CHECK(!memctx_alloc(context, 1000)); /* there is nobody to ask now */
    free(to_give_up[*calls]);
    return to_give_up[(*calls)++] != NULL;
}

static void *free_others_piece(void *chunk) {
    free(chunk);
    return NULL;
}

/* It gives the whole context away, or ends it, and says that there is room now. */
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
        context =
            memctx_create(NULL, "limited", MEMCTX_ASET); /* the same place, without its limit */
        CHECK(memctx_alloc(context, 100000));
        memctx_delete(context);
    }
}

/* Made by one thread, used on by another, ended by the first. */
enum { HANDED = 4, EACH = 3000 };
static memctx_t handed, parts[HANDED];
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
    run_thread(leave_it, NULL); /* which ends, and hands nothing over */
    CHECK(!memctx_take(handed));
    CHECK(!strcmp(pieces[0][0], "left behind"));
    memctx_delete(handed);
}

static pthread_barrier_t began, may_end;

/* The account goes with the context. */
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

/* Two threads that give a context to each other for as long as dumps are made of it. */
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

/* What a thread left behind may be taken, also where another one has its heap by then. */
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

/* Contexts that hold next to nothing: their chunks stand among others' of the thread that allocated them, whoever's the context is. */
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
        run_thread(take_small, NULL); /* whose heap has the third ones, after its end */
        CHECK(!memctx_take(handed));
        for (int i = 0; i < SMALL_ONES; i++) {
            CHECK(i % 3 == 0 || small_chunks[i][2][0] == (char)(i + 2));
            memctx_delete(small_ones[i]);
        }
    }
    memctx_delete(handed);
}

/* Grown, shrunk and grown again in a context, where it stands or elsewhere; it is never another one's. */
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
    MEMCTX_SCOPE(b) { /* now it is nobody's that this thread could grow it in */
        chunk = realloc(chunk, 7);
    }
    CHECK(memctx_owner(chunk) == b && !memctx_take(a) && memctx_is_empty(a));
    memctx_get_stats(b, &stats);
    CHECK(stats.chunks == 1 && stats.requested_bytes == 7);
    memctx_delete(b);
    memctx_delete(a);
}

/* Made with options: zeroed is what goes by each way, by each policy. Behind the first words, which the allocator uses. */
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
            memctx_delete(context);
        }
}

static void long_identifiers(void) {
    memctx_t context = make(NULL, "query");
    memctx_identify(context, "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"
                             "\u00e9\u00e9\u00e9\u00e9\u00e9");
    CHECK(strlen(memctx_identifier(context)) == 30); /* not half of the 16th */
    memctx_identify(context, "0123456789012345678901234567890123456789");
    CHECK(strlen(memctx_identifier(context)) == 31);
    memctx_identify(context, "short");
    CHECK(!strcmp(memctx_identifier(context), "short"));
    memctx_delete(context);
}

static void options(void) {
    struct memctx_limit limit = {.bytes = 1000};
    struct memctx_options with = {.limit = &limit, .identifier = "small"}, odd = {.flags = 64};
    struct memctx_stats stats;
    CHECK(!memctx_create_with(NULL, "odd", MEMCTX_ASET, &odd));
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
    context = memctx_create_with(NULL, "large", MEMCTX_SLAB, NULL); /* the same place */
    CHECK(memctx_alloc(context, 40));
    memctx_get_stats(context, &stats);
    CHECK(stats.pages == 1 && stats.reserved_bytes == 16384);
    memctx_delete(context);
}

/* They end at memory that cannot be touched, and go with a reset; then they cannot be touched, either. */
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

static void with_options(void) {
    struct memctx_options with = {.flags = MEMCTX_ZERO_FREED | MEMCTX_GUARDED | MEMCTX_LARGE_PAGES};
    memctx_alloc(memctx_create_with(NULL, "with", MEMCTX_BUMP, &with), 100);
    memctx_alloc(memctx_create(NULL, "without", MEMCTX_BUMP), 100);
    puts("begun");
    fflush(stdout);
    getchar();
}

/* A hundred thousand of them, each tenth with some chunks more: an OS page each would be 400 MB. */
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

/* Contexts of one name, so many that most are members of a crowd; each has a chunk that tells of it. */
enum { CROWD = 4000 };
static memctx_t crowd[CROWD];
static char *crowd_chunks[CROWD];

static void gather(void) {
    handed = make(NULL, "all");
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = make(handed, "one");
        CHECK(memctx_is_empty(crowd[i]) && !strcmp(memctx_name(crowd[i]), "one"));
        crowd_chunks[i] = memctx_alloc(crowd[i], (size_t)(4 + i % 500));
        memcpy(crowd_chunks[i], &i, sizeof i);
        CHECK(memctx_owner(crowd_chunks[i]) == crowd[i] && memctx_parent(crowd[i]) == handed);
    }
}

static void check_crowd(int i) {
    struct memctx_stats stats;
    int told;
    memcpy(&told, crowd_chunks[i], sizeof told);
    CHECK(told == i && memctx_owner(crowd_chunks[i]) == crowd[i]);
    memctx_get_stats(crowd[i], &stats);
    CHECK(stats.chunks == 1 && stats.allocs == stats.frees + 1); /* with those of its node before */
    CHECK(stats.requested_bytes == (uint64_t)(4 + i % 500) &&
          stats.peak_bytes >= stats.requested_bytes);
    CHECK(!memctx_check(crowd[i]) && !memctx_is_empty(crowd[i]));
}

static void *gather_and_end(void *nothing) {
    gather();
    return nothing;
}

static void *gather_and_wait(void *nothing) {
    gather();
    pthread_barrier_wait(&began);
    pause();
    return nothing;
}

static void count_call(void *count) {
    ++*(int *)count;
}

static void *free_fifths(void *nothing) {
    for (int i = 0; i < CROWD; i += 5) {
        CHECK(!memctx_owner(crowd_chunks[i])); /* another thread's */
        free(crowd_chunks[i]);
    }
    return nothing;
}

static void check_freed(int i, uint64_t allocs) {
    struct memctx_stats stats;
    CHECK(memctx_is_empty(crowd[i]));
    memctx_get_stats(crowd[i], &stats);
    CHECK(!stats.chunks && !stats.requested_bytes && stats.allocs >= allocs &&
          stats.frees == stats.allocs);
    CHECK(stats.peak_bytes >= (uint64_t)(4 + i % 500) || !allocs);
}

/* All that is asked of a member makes it what any other context is; its handle stays. */
static void crowds(void) {
    static int called;
    struct memctx_stats stats;
    gather();
    memctx_get_stats(handed, &stats);
    CHECK(stats.children == CROWD);
    run_thread(free_fifths, NULL);
    int i = CROWD - 1; /* the first ones have places */
    CHECK(memctx_identifier(crowd[i])[0] == 0);
    memctx_identify(crowd[i], "last");
    CHECK(!strcmp(memctx_identifier(crowd[i]), "last"));
    check_crowd(i--);
    memctx_t below = make(crowd[i], "below");
    CHECK(memctx_parent(below) == crowd[i]);
    check_crowd(i--);
    char *second = memctx_strdup(crowd[i], "second");
    CHECK(memctx_owner(second) == crowd[i] && !memctx_is_empty(crowd[i]));
    free(second);
    CHECK(crowd_chunks[--i] && memctx_owner(crowd_chunks[i]) == crowd[i]);
    crowd_chunks[i] = realloc(crowd_chunks[i], 5000);
    CHECK(memctx_owner(crowd_chunks[i]) == crowd[i]);
    memctx_get_stats(crowd[i], &stats);
    CHECK(stats.chunks == 1 && stats.requested_bytes == 5000);
    struct memctx_callback callback = {.function = count_call, .argument = &called};
    memctx_call_on_reset(crowd[i -= 2], &callback); /* the one between was freed */
    check_crowd(i);
    memctx_reset(crowd[i]);
    CHECK(called == 1 && memctx_is_empty(crowd[i]));
    memctx_t before = memctx_switch(crowd[--i]);
    CHECK(!before && memctx_current() == crowd[i]);
    memctx_switch(NULL);
    check_crowd(i);
    i--;
    memctx_set_parent(crowd[i], crowd[i + 1]);
    CHECK(memctx_parent(crowd[i]) == crowd[i + 1]);
    check_crowd(i);
    memctx_set_parent(crowd[i], handed);
    for (i = 1500; i < 3000; i++) {
        if (i % 5 == 0) {
            check_freed(i, 1);
        } else if (i % 5 == 1) {
            memctx_reset(crowd[i]);
            check_freed(i, 1);
            CHECK(memctx_alloc(crowd[i], 10) != NULL && !memctx_is_empty(crowd[i]));
        } else if (i % 5 == 2) {
            memctx_delete(crowd[i]);
            crowd[i] = make(handed, "one");
            check_freed(i, 0);
        } else if (i % 5 == 3) {
            CHECK(!memctx_hand_over(crowd[i]) && !memctx_take(crowd[i]));
            check_crowd(i);
        }
    }
    CHECK(!memctx_hand_over(handed));
    CHECK(!memctx_take(handed));
    for (i = 3000; i < 3900; i++)
        if (i % 5)
            check_crowd(i);
    memctx_delete(handed);
    gather(); /* in what the others left */
    memctx_reset_children(handed);
    for (i = 0; i < CROWD; i++)
        CHECK(memctx_is_empty(crowd[i]));
    memctx_delete(handed);
    gather();
    memctx_reset(handed);
    memctx_get_stats(handed, &stats);
    CHECK(!stats.children);
    for (int k = 0; k < 2; k++) { /* below none, and in the numbers of the others */
        for (i = 0; i < CROWD; i++) {
            crowd[i] = make(NULL, "top");
            crowd_chunks[i] = memctx_alloc(crowd[i], 20);
            CHECK(!memctx_parent(crowd[i]) && memctx_owner(crowd_chunks[i]) == crowd[i]);
        }
        for (i = 0; i < CROWD; i++)
            memctx_delete(crowd[i]);
    }
}

static void crowd_left_behind(void) {
    run_thread(gather_and_end, NULL);
    run_thread(free_fifths, NULL);
    CHECK(!memctx_take(handed));
    for (int i = 0; i < CROWD; i++)
        if (i % 5)
            check_crowd(i);
        else
            check_freed(i, 1);
    memctx_delete(handed);
    run_thread(gather_and_end, NULL);
    CHECK(!memctx_take(crowd[CROWD - 1])); /* one alone */
    check_crowd(CROWD - 1);
    memctx_delete(crowd[CROWD - 1]);
    CHECK(!memctx_take(handed));
    memctx_delete(handed);
    /* In a forked child it is what other threads had. */
    pthread_t thread;
    int status;
    pthread_barrier_init(&began, NULL, 2);
    CHECK(!pthread_create(&thread, NULL, gather_and_wait, NULL));
    pthread_barrier_wait(&began);
    pid_t child = fork();
    if (child == 0) {
        CHECK(!memctx_take(handed));
        for (int i = 0; i < CROWD; i += 7)
            check_crowd(i);
        memctx_delete(handed);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && !status);
}

/* Two threads make contexts of one name by turns: whose the crowd is changes when it is empty. */
static void *come_and_go(void *seed) {
    enum { MINE = 900 };
    static __thread memctx_t mine[MINE];
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < MINE; i++) {
            mine[i] = memctx_create(NULL, "come and go", MEMCTX_ASET);
            CHECK(mine[i] && memctx_alloc(mine[i], (size_t)(20 + i)) && seed);
        }
        for (int i = 0; i < MINE; i++)
            memctx_delete(mine[i]);
    }
    return NULL;
}

static void crowd_changes_hands(void) {
    pthread_t threads[3];
    int seed = 1;
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&threads[i], NULL, come_and_go, &seed));
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_join(threads[i], NULL));
}

/* Most of a crowd; asked to be reset until all were, and one more after that. */
static void crowd_serves(void) {
    char line[8];
    gather();
    puts("begun");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    CHECK(!memctx_reset_requested(crowd[0]) && !memctx_reset_requested(crowd[CROWD - 1]));
    puts("waits");
    fflush(stdout);
    for (int i = CROWD; i-- > 0;) {
        while (!memctx_reset_requested(crowd[i]))
            usleep(1000);
        memctx_t later = make(handed, "one");
        CHECK(!memctx_reset_requested(later));
        if (i % 2)
            memctx_reset(crowd[i]);
        else
            memctx_delete(crowd[i]);
        memctx_delete(later);
    }
    CHECK(fgets(line, sizeof line, stdin));
}

static void member_used_after_delete(void) {
    gather();
    memctx_delete(crowd[CROWD - 1]);
    memctx_alloc(crowd[CROWD - 1], 1);
}

static void member_used_after_another_took_its_number(void) {
    gather();
    memctx_t before = crowd[CROWD - 1];
    memctx_delete(before);
    make(handed, "one");
    memctx_is_empty(before);
}

static void *allocate_in_member(void *nothing) {
    memctx_alloc(crowd[CROWD - 1], 1);
    return nothing;
}

static void member_allocated_by_another(void) {
    gather();
    run_thread(allocate_in_member, NULL);
}

static void member_taken_from_its_owner(void) {
    pthread_t thread;
    pthread_barrier_init(&began, NULL, 2);
    CHECK(!pthread_create(&thread, NULL, gather_and_wait, NULL));
    pthread_barrier_wait(&began);
    memctx_take(crowd[CROWD - 1]);
}

static void member_freed_twice(void) {
    gather();
    free(crowd_chunks[CROWD - 1]);
    free(crowd_chunks[CROWD - 1]);
}

/* A cache of each of two workers, and one that nobody asks; until a line comes. */
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

/* --- misuse --------------------------------------------------------------------------------------------- */

static void used_after_delete(void) {
    memctx_t context = make(NULL, "gone");
    memctx_delete(context);
    memctx_alloc(context, 1);
}

static void deleted_twice(void) {
    memctx_t context = make(NULL, "gone");
    memctx_delete(context);
    make(NULL, "gone"); /* in its place */
    memctx_delete(context);
}

static void deleted_while_current(void) {
    memctx_t context = make(NULL, "current");
    memctx_switch(context);
    memctx_delete(context);
}

static void *allocate_there(void *context) {
    return memctx_alloc(context, 1);
}
static void allocated_by_another(void) {
    run_thread(allocate_there, make(NULL, "mine"));
}

static void *reset_it(void *context) {
    memctx_reset(context);
    return NULL;
}
static void reset_by_another(void) {
    run_thread(reset_it, make(NULL, "mine"));
}

static void used_after_hand_over(void) {
    memctx_t context = make(NULL, "given");
    CHECK(!memctx_hand_over(context));
    memctx_alloc(context, 1);
}

static void *take_it(void *context) {
    memctx_take(context);
    return NULL;
}
static void taken_from_its_owner(void) {
    run_thread(take_it, make(NULL, "mine"));
}

static void freed_twice(void) {
    memctx_t context = make(NULL, "twice");
    char *chunk = memctx_alloc(context, 100);
    memctx_alloc(context, 100);
    free(chunk);
    free(chunk);
}

static void freed_after_reset(void) {
    memctx_t context = make(NULL, "reset");
    char *chunk = memctx_alloc(context, 100);
    memctx_reset(context);
    free(chunk);
}

static void parent_below_itself(void) {
    memctx_t top = make(NULL, "top"), below = make(top, "below");
    memctx_set_parent(top, below);
}

int main(int argc, char **argv) {
#define CASE(name)                                                                                 \
    { #name, name }
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        CASE(absent),
        CASE(callbacks),
        CASE(tree),
        CASE(long_chain),
        CASE(made_by_callbacks),
        CASE(memory_is_used_again),
        CASE(control_starts_in_a_scope),
        CASE(check_finds_what_is_damaged),
        CASE(reset_of_much),
        CASE(other_threads),
        CASE(resized_elsewhere),
        CASE(scopes),
        CASE(limits),
        CASE(limits_of_what_is_gone),
        CASE(handed_over),
        CASE(left_behind),
        CASE(accounts_move),
        CASE(hands_over_all_the_time),
        CASE(tiny_ones),
        CASE(tiny_ones_grow),
        CASE(very_many),
        CASE(zeroed),
        CASE(long_identifiers),
        CASE(options),
        CASE(guarded),
        CASE(with_options),
        CASE(serves),
        CASE(identified),
        CASE(crowds),
        CASE(crowd_left_behind),
        CASE(crowd_changes_hands),
        CASE(crowd_serves),
        CASE(member_used_after_delete),
        CASE(member_used_after_another_took_its_number),
        CASE(member_allocated_by_another),
        CASE(member_taken_from_its_owner),
        CASE(member_freed_twice),
        CASE(used_after_delete),
        CASE(deleted_twice),
        CASE(deleted_while_current),
        CASE(allocated_by_another),
        CASE(reset_by_another),
        CASE(used_after_hand_over),
        CASE(taken_from_its_owner),
        CASE(freed_twice),
        CASE(freed_after_reset),
        CASE(parent_below_itself),
    };
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            puts("done");
            return 0;
        }
    return 2;
}
