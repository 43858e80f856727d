/* SPDX-License-Identifier: MIT */
/* Two threads, each with chunks of its own, compared with one thread: `speedup N` is 2 if they do
 * not hinder each other. Each time is the least of ten, because other processes disturb two threads
 * more than one. */
#include "common.h"

#include <pthread.h>
#include <time.h>

enum { SLOTS = 1000, STEPS = 800000, TURNS = 10 };

static NOINLINE void *work(void *argument) {
    struct random random = {.state = 1 + (uintptr_t)argument};
    static __thread unsigned char *slots[SLOTS];

    for (int i = 0; i < STEPS; i++) {
        size_t bytes = 16 + random_below(&random, 240);
        unsigned char **slot = &slots[random_below(&random, SLOTS)];

        free(*slot);
        *slot = check_chunk(malloc(bytes), bytes);
        tag_chunk(*slot, bytes, 1);
    }
    for (int i = 0; i < SLOTS; i++) {
        free(slots[i]);
        slots[i] = NULL;
    }
    return NULL;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

static double seconds_of(int threads) {
    struct timespec start, end;
    pthread_t ids[2];

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)i) != 0) {
            exit(1);
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
}

int main(void) {
    double one = seconds_of(1), two = seconds_of(2);

    for (int i = 1; i < TURNS; i++) {
        one = least(one, seconds_of(1));
        two = least(two, seconds_of(2));
    }
    printf("speedup %.3f\n", 2 * one / two);
    return 0;
}
