/* SPDX-License-Identifier: MIT */
/* threads - threads that start and end: blocks that another thread frees, key destructors that
 * allocate and free, all pthread keys taken, the smallest stacks, detached threads, pthread_exit
 * and cancellation. The output must not depend on the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GENERATIONS = 300, AT_ONCE = 6, HANDED = 64 };

static pthread_key_t key;
static atomic_int destroyed, detached_done, corrupt;
static _Atomic(char *) handed[HANDED];

/* A key destructor that allocates and sets its key again, so that it is called three times. */
static void key_destroy(void *value) {
    int *count = value;
    char *text = strdup("from a key destructor");
    int *next = malloc(sizeof *next);
    *next = *count - 1;
    free(text);
    free(count);
    if (*next > 0) {
        pthread_setspecific(key, next);
    } else {
        free(next);
        atomic_fetch_add(&destroyed, 1);
    }
}

static void hand_over(unsigned seed) {
    size_t bytes = 8 + seed % 2000;
    char *block = malloc(bytes);
    memset(block, (int)(bytes % 251), bytes);
    memcpy(block, &bytes, sizeof bytes);
    block = atomic_exchange(&handed[seed % HANDED], block);
    if (block) {
        memcpy(&bytes, block, sizeof bytes);
        for (size_t i = sizeof bytes; i < bytes; i++) {
            if (block[i] != (char)(bytes % 251)) {
                atomic_fetch_add(&corrupt, 1);
            }
        }
        free(block);
    }
}

static void *thread_main(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    int *count = malloc(sizeof *count);
    *count = 3;
    pthread_setspecific(key, count);
    for (unsigned i = 0; i < 300; i++) {
        hand_over(seed * 977 + i * 131);
    }
    if (seed % 3 == 0) {
        pthread_exit(NULL);
    }
    return NULL;
}

static void *small_stack_main(void *argument) {
    char *block = malloc(1000);
    snprintf(block, 1000, "on a stack of %ld bytes", (long)(size_t)argument);
    return block;
}

static void *detached_main(void *argument) {
    free(malloc((size_t)argument));
    atomic_fetch_add(&detached_done, 1);
    return NULL;
}

static void *cancelled_main(void *argument) {
    for (;;) {
        free(malloc(100));
        pthread_testcancel();
    }
    return argument;
}

/* Generations of threads that hand chunks over to each other. */
static void run_generations(void) {
    pthread_t threads[AT_ONCE];
    for (size_t generation = 0; generation < GENERATIONS; generation++) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            pthread_create(&threads[i], NULL, thread_main, (void *)(generation * AT_ONCE + i));
        }
        for (size_t i = 0; i < AT_ONCE; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    printf("%d destroyed, %d corrupt\n", destroyed, corrupt);
}

/* Threads with the smallest stacks. Returns false if one cannot be created. */
static bool run_on_small_stacks(pthread_attr_t *attributes) {
    size_t small_bytes = (size_t)PTHREAD_STACK_MIN + 4096;
    pthread_t thread;
    void *result;
    pthread_attr_init(attributes);
    pthread_attr_setstacksize(attributes, small_bytes);
    for (int i = 0; i < 20; i++) {
        int status = pthread_create(&thread, attributes, small_stack_main, (void *)small_bytes);
        if (status != 0) {
            printf("small stack: %s\n", strerror(status));
            return false;
        }
        pthread_join(thread, &result);
        if (i == 0) {
            puts(result);
        }
        free(result);
    }
    return true;
}

static void run_detached(pthread_attr_t *attributes) {
    pthread_t thread;
    pthread_attr_setdetachstate(attributes, PTHREAD_CREATE_DETACHED);
    for (size_t i = 0; i < 50; i++) {
        while (pthread_create(&thread, attributes, detached_main, (void *)(i * 10)) == EAGAIN) {
            usleep(1000);
        }
    }
    while (atomic_load(&detached_done) < 50) {
        usleep(1000);
    }
    puts("50 detached");
}

static void run_cancelled(void) {
    int cancelled = 0;
    pthread_t thread;
    void *result;
    for (int i = 0; i < 20; i++) {
        pthread_create(&thread, NULL, cancelled_main, NULL);
        usleep(200);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("%d cancelled\n", cancelled);
}

/* A thread that starts when no key is left. */
static void run_without_keys(void) {
    int keys = 0;
    pthread_t thread;
    for (pthread_key_t more; pthread_key_create(&more, NULL) == 0;) {
        keys++;
    }
    printf("all keys taken: %d\n", keys > 900);
    pthread_create(&thread, NULL, thread_main, (void *)5);
    pthread_join(thread, NULL);
    printf("%d destroyed\n", destroyed);
}

int main(void) {
    pthread_attr_t attributes;
    pthread_key_create(&key, key_destroy);
    run_generations();
    if (!run_on_small_stacks(&attributes)) {
        return 1;
    }
    run_detached(&attributes);
    run_cancelled();
    run_without_keys();
    for (int i = 0; i < HANDED; i++) {
        free(handed[i]);
    }
    return corrupt != 0;
}
