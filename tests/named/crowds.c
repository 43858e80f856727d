/* SPDX-License-Identifier: MIT */
/* Crowds: very many contexts of one name; most of them are members that share one node. */
#include "use.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

memctx_t crowd[CROWD];
char *crowd_chunks[CROWD];

void gather(void) {
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
    /* a member's figures include those from before it was a member */
    CHECK(stats.chunks == 1 && stats.allocs == stats.frees + 1);
    CHECK(stats.requested_bytes == (uint64_t)(4 + i % 500) &&
          stats.peak_bytes >= stats.requested_bytes);
    CHECK(!memctx_check(crowd[i]) && !memctx_is_empty(crowd[i]));
}

static void *gather_and_end(void *nothing) {
    gather();
    return nothing;
}

void *gather_and_wait(void *nothing) {
    gather();
    pthread_barrier_wait(&began);
    /* Waits for ever. It must not call pause(): a process's first pause may start the control
     * thread, and a forked child does not know a thread that is inside the library during the fork.
     */
    pthread_barrier_wait(&began);
    return nothing;
}

static void count_call(void *count) {
    ++*(int *)count;
}

static void *free_fifths(void *nothing) {
    for (int i = 0; i < CROWD; i += 5) {
        CHECK(!memctx_owner(crowd_chunks[i])); /* the context belongs to another thread */
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

/* Makes a child below a member of another thread. */
static void *make_child(void *of) {
    memctx_t child = make(of, "child"), second = memctx_create(of, "child", MEMCTX_BUMP);
    CHECK(second && memctx_parent(child) == of && memctx_parent(second) == of);
    CHECK(memctx_alloc(child, 100) && !memctx_give(child));
    memctx_delete(second);
    return child;
}

static int count_visit(memctx_t context, int depth, void *visits) {
    int *seen = visits;
    CHECK(depth < 3 && memctx_name(context));
    seen[depth]++;
    return 0;
}

/* Other threads make children below members. Some of the members have grown before, some grow
 * afterwards, and some never grow. */
static void children_of_members(void) {
    memctx_t children[CROWD];
    struct memctx_stats stats;
    gather();
    for (int i = CROWD - 300; i < CROWD; i++) {
        if (i % 3 == 0)
            memctx_set_identifier(crowd[i], "grown");
        children[i] = run_thread(make_child, crowd[i]);
        CHECK(memctx_parent(children[i]) == crowd[i]);
    }
    int seen[3] = {0};
    CHECK(!memctx_walk(handed, count_visit, seen));
    CHECK(seen[0] == 1 && seen[1] == CROWD && seen[2] == 300);
    for (int i = CROWD - 300; i < CROWD; i++) {
        CHECK(!memctx_take(children[i]));
        if (i % 3 == 1) {
            memctx_get_stats(crowd[i], &stats);
            CHECK(stats.children == 1 && stats.chunks == 1);
        }
        CHECK(memctx_parent(children[i]) == crowd[i] && !memctx_is_empty(children[i]));
        if (i % 4 == 0)
            memctx_delete(children[i]);
        else if (i % 4 == 1)
            memctx_set_parent(children[i], handed);
        if (i % 5 == 0)
            memctx_reset(crowd[i]);
        else
            memctx_delete(crowd[i]);
    }
    memset(seen, 0, sizeof seen);
    CHECK(!memctx_walk(handed, count_visit, seen));
    CHECK(seen[1] == CROWD - 300 + 60 + 75 && !seen[2]);
    memctx_delete(handed);
    handed = NULL;
}

/* A member that is used for anything but its first chunk becomes an ordinary context. Its handle
 * stays valid. */
static void members_become_contexts(void) {
    static int called;
    struct memctx_stats stats;
    int i = CROWD - 1; /* a member: the first contexts of the crowd are ordinary ones */
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
    memctx_call_on_reset(crowd[i -= 2], &callback); /* skips a context whose chunk was freed */
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
}

/* Resets, deletes, hands over and takes single members. */
static void members_are_freed_and_moved(void) {
    for (int i = 1500; i < 3000; i++) {
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
}

/* Contexts without a parent, twice: the second time they reuse the numbers. */
static void crowd_without_parent(void) {
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < CROWD; i++) {
            crowd[i] = make(NULL, "top");
            crowd_chunks[i] = memctx_alloc(crowd[i], 20);
            CHECK(!memctx_parent(crowd[i]) && memctx_owner(crowd_chunks[i]) == crowd[i]);
        }
        for (int i = 0; i < CROWD; i++)
            memctx_delete(crowd[i]);
    }
}

static void crowds(void) {
    struct memctx_stats stats;
    int i;
    gather();
    memctx_get_stats(handed, &stats);
    CHECK(stats.children == CROWD);
    run_thread(free_fifths, NULL);
    members_become_contexts();
    members_are_freed_and_moved();
    CHECK(!memctx_hand_over(handed));
    CHECK(!memctx_take(handed));
    for (i = 3000; i < 3900; i++)
        if (i % 5)
            check_crowd(i);
    memctx_delete(handed);
    gather(); /* the new contexts reuse the places of the deleted ones */
    memctx_reset_children(handed);
    for (i = 0; i < CROWD; i++)
        CHECK(memctx_is_empty(crowd[i]));
    memctx_delete(handed);
    gather();
    memctx_reset(handed);
    memctx_get_stats(handed, &stats);
    CHECK(!stats.children);
    crowd_without_parent();
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
    CHECK(!memctx_take(crowd[CROWD - 1])); /* takes only one member of the crowd */
    check_crowd(CROWD - 1);
    memctx_delete(crowd[CROWD - 1]);
    CHECK(!memctx_take(handed));
    memctx_delete(handed);
    /* A forked child may take contexts of threads that exist only in the parent. */
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

/* Three threads make and delete contexts of one name: an empty crowd may change its owner. */
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

/* The suite asks for a reset of all contexts of the crowd. Contexts made after that are not
 * asked. */
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
        memctx_delete(later);
        if (i % 2)
            memctx_reset(crowd[i]);
        else
            memctx_delete(crowd[i]); /* the next `later` gets the place of this context */
    }
    CHECK(fgets(line, sizeof line, stdin));
}

const struct use_case cases_of_crowds[] = {
    USE_CASE(crowds),
    USE_CASE(children_of_members),
    USE_CASE(crowd_left_behind),
    USE_CASE(crowd_changes_hands),
    USE_CASE(crowd_serves),
    {NULL, NULL},
};
