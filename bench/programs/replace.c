/* SPDX-License-Identifier: MIT */
/* replace THREADS SLOTS STEPS - a cache of buffers of 8 to 100 KB. Each thread has a table of
 * buffers and replaces a random one at each step, so that free memory of all lengths lies between
 * the buffers. With many slots the heap is large. Several threads need, at one time, the part of
 * the allocator that serves such sizes. */
#include "common.h"

#include <pthread.h>

enum { THREADS_MAX = 16, LEAST = 8200, MOST = 100000, PAGE = 4096 };

static size_t slots, steps;
static uint64_t sums[THREADS_MAX];

static NOINLINE char *buffer_create(struct random *random, size_t *bytes) {
    char *buffer;

    *bytes = LEAST + random_below(random, MOST - LEAST);
    buffer = check_chunk(malloc(*bytes), *bytes);
    for (size_t at = 0; at < *bytes; at += PAGE) {
        buffer[at] = (char)at;
    }
    return buffer;
}

static void *run(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    struct random random = {number + 1};
    char **buffers = check_chunk(calloc(slots, sizeof *buffers), slots * sizeof *buffers);
    size_t *sizes = check_chunk(calloc(slots, sizeof *sizes), slots * sizeof *sizes);

    for (size_t step = 0; step < slots + steps; step++) {
        size_t slot = step < slots ? step : random_below(&random, slots);

        if (buffers[slot] != NULL) {
            check_tag(buffers[slot], sizes[slot], (unsigned int)slot);
            free(buffers[slot]);
        }
        buffers[slot] = buffer_create(&random, &sizes[slot]);
        tag_chunk(buffers[slot], sizes[slot], (unsigned int)slot);
        sums[number] = mix(sums[number], sizes[slot]);
    }
    for (size_t slot = 0; slot < slots; slot++) {
        check_tag(buffers[slot], sizes[slot], (unsigned int)slot);
        free(buffers[slot]);
    }
    free(buffers);
    free(sizes);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS_MAX];
    uint64_t sum = 0;
    size_t count = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;

    if (count == 0 || count > THREADS_MAX) {
        return 2;
    }
    slots = strtoul(argv[2], NULL, 10);
    steps = strtoul(argv[3], NULL, 10);
    for (uintptr_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, run, (void *)i) != 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum = mix(sum, sums[i]);
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
