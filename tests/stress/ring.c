/* SPDX-License-Identifier: MIT */
/* ring - one thread allocates and an older one frees, through a ring of RING places, until stdin
 * ends. Both threads have allocated on thousands of call paths before, so that a dump reads their
 * figures at different times. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RING = 64, CHUNK_BYTES = 100, PATH_BITS = 11 };

static _Atomic(char *) ring[RING];
static char *volatile kept; /* keeps the compiler from removing allocations */

__attribute__((noinline)) static void branch(unsigned path, unsigned bits) {
    if (!bits) {
        kept = malloc(1);
        free(kept);
        return;
    }
    if (path & 1) {
        branch(path >> 1, bits - 1);
        kept = NULL;
    } else {
        branch(path >> 1, bits - 1);
        /* work after the call, so that the two calls have different return addresses */
        kept = NULL;
        __asm__ volatile("");
    }
}

__attribute__((noinline)) static char *produce(void) {
    char *made = malloc(CHUNK_BYTES);
    __asm__ volatile("" : "+r"(made));
    return made;
}

static void *producer(void *unused) {
    for (unsigned path = 0; path < 1U << PATH_BITS; path++) {
        branch(path, PATH_BITS);
    }
    for (unsigned place = 0;; place = (place + 1) % RING) {
        char *made = produce();
        while (atomic_load(&ring[place])) {
            sched_yield();
        }
        atomic_store(&ring[place], made);
    }
    return unused;
}

static void *consumer(void *unused) {
    for (unsigned path = 0; path < 1U << PATH_BITS; path++) {
        branch(path, PATH_BITS);
    }
    pthread_t younger;
    if (pthread_create(&younger, NULL, producer, NULL) != 0) {
        exit(1);
    }
    for (unsigned place = 0;; place = (place + 1) % RING) {
        char *taken;
        while (!(taken = atomic_exchange(&ring[place], NULL))) {
            sched_yield();
        }
        free(taken);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    char byte;
    if (pthread_create(&thread, NULL, consumer, NULL) != 0) {
        return 1;
    }
    while (!atomic_load(&ring[0])) {
        usleep(1000);
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) != 0;
}
