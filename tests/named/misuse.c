/* SPDX-License-Identifier: MIT */
/* Misuse: each case must end the program with a message. */
#include "use.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

static void used_after_delete(void) {
    memctx_t context = make(NULL, "gone");
    memctx_delete(context);
    memctx_alloc(context, 1);
}

static void deleted_twice(void) {
    memctx_t context = make(NULL, "gone");
    memctx_delete(context);
    make(NULL, "gone"); /* the new context gets the deleted one's place */
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

static void zeroed_after_hand_over(void) {
    memctx_t context = make(NULL, "ended");
    CHECK(!memctx_give(context));
    memctx_zalloc(context, 1);
}

static void used_by_a_long_name(void) {
    char name[300];
    memset(name, 'n', sizeof name);
    memcpy(name, "a\nb", 3);
    name[sizeof name - 1] = 0;
    memctx_t context = make(NULL, name);
    free(memctx_alloc(context, 100));
    memctx_delete(context);
    memctx_reset(context);
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

/* The first chunks of this context are in shared pages, the later ones in pages that it keeps at
 * the reset. */
static void freed_after_reset_of_pages(void) {
    memctx_t context = make(NULL, "pages");
    char *chunk = NULL;
    for (int i = 0; i < 10; i++)
        chunk = memctx_alloc(context, 600);
    memctx_reset(context);
    free(chunk);
}

static void parent_below_itself(void) {
    memctx_t top = make(NULL, "top"), below = make(top, "below");
    memctx_set_parent(top, below);
}

static void *set_parent_of_own(void *others) {
    memctx_set_parent(make(NULL, "own"), others);
    return NULL;
}
static void parent_of_another(void) {
    run_thread(set_parent_of_own, make(NULL, "mine"));
}

static void reset_above_the_current(void) {
    memctx_t above = make(NULL, "above"), below = make(above, "below");
    memctx_switch(below);
    memctx_reset(above);
}

/* Resets the context in the third round of the destructors of an ending thread. */
static pthread_key_t key;
static void end_late(void *context) {
    static int round;
    if (++round < 3)
        CHECK(!pthread_setspecific(key, context));
    else
        memctx_reset(context);
}
static void *end_with_a_context(void *nothing) {
    CHECK(!pthread_key_create(&key, end_late));
    CHECK(!pthread_setspecific(key, make(NULL, "mine")));
    return nothing;
}
static void reset_by_a_thread_that_ends(void) {
    run_thread(end_with_a_context, NULL);
}

const struct use_case cases_of_misuse[] = {
    USE_CASE(member_used_after_delete),
    USE_CASE(member_used_after_another_took_its_number),
    USE_CASE(member_allocated_by_another),
    USE_CASE(member_taken_from_its_owner),
    USE_CASE(member_freed_twice),
    USE_CASE(used_after_delete),
    USE_CASE(deleted_twice),
    USE_CASE(deleted_while_current),
    USE_CASE(allocated_by_another),
    USE_CASE(reset_by_another),
    USE_CASE(used_after_hand_over),
    USE_CASE(zeroed_after_hand_over),
    USE_CASE(used_by_a_long_name),
    USE_CASE(taken_from_its_owner),
    USE_CASE(freed_twice),
    USE_CASE(freed_after_reset),
    USE_CASE(freed_after_reset_of_pages),
    USE_CASE(parent_below_itself),
    USE_CASE(parent_of_another),
    USE_CASE(reset_above_the_current),
    USE_CASE(reset_by_a_thread_that_ends),
    {NULL, NULL},
};
