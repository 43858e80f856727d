/* SPDX-License-Identifier: MIT */
/*
 * use.h - functions that the cases of the program named-use share. A file has the cases of one
 * subject and ends in their table, cases_of_SUBJECT; use.c runs the case that its argument names.
 */
#ifndef TESTS_NAMED_USE_H
#define TESTS_NAMED_USE_H

#include <memctx.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

#include "check.h"

static inline memctx_t make(memctx_t parent, const char *name) {
    memctx_t made = memctx_create(parent, name, MEMCTX_ASET);
    CHECK(made);
    return made;
}

static inline void *run_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, body, argument));
    CHECK(!pthread_join(thread, &result));
    return result;
}

/* Bodies of threads: they free a chunk of a context that is not the thread's own. */
static inline void *free_it(void *chunk) {
    CHECK(!memctx_owner(chunk)); /* the context belongs to another thread */
    free(chunk);
    return NULL;
}

static inline void *free_others_piece(void *chunk) {
    free(chunk);
    return NULL;
}

/* The context that threads hand to each other, and the barriers at which they wait (use.c). */
extern memctx_t handed;
extern pthread_barrier_t began, may_end;

/*
 * CROWD contexts of one name, so many that most are members of a crowd. The chunk of each holds its
 * number (crowds.c).
 */
enum { CROWD = 4000 };
extern memctx_t crowd[CROWD];
extern char *crowd_chunks[CROWD];

/* gather() makes the contexts of the crowd, below `handed`. gather_and_wait() is a thread that does
 * so and never ends. */
void gather(void);
void *gather_and_wait(void *nothing);

/* A case that returns has passed. A table ends with a case that has no name. */
struct use_case {
    const char *name;
    void (*run)(void);
};
#define USE_CASE(name)                                                                             \
    { #name, name }
extern const struct use_case cases_of_scopes[], cases_of_tree[], cases_of_limits[],
    cases_of_hand_over[], cases_of_tiny[], cases_of_options[], cases_of_crowds[], cases_of_misuse[];

#endif
