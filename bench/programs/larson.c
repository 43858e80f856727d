/* SPDX-License-Identifier: MIT */
/* A server of two threads, like Larson's benchmark: each thread replaces random chunks of its set,
 * then the two exchange their sets. One free in eight is of a chunk of the other thread: the first
 * free in each slot after an exchange. */
#include "common.h"

#include <pthread.h>

enum { THREADS = 2, SLOTS = 8000, EPOCHS = 100, REPLACEMENTS = 60000 };

struct slot {
    unsigned char *chunk;
    uint32_t bytes;
};

static struct slot sets[THREADS][SLOTS];
static uint64_t sums[THREADS];
static pthread_barrier_t barrier;

static NOINLINE void slot_fill(struct slot *slot, struct random *random) {
    slot->bytes = (uint32_t)(10 + random_below(random, 490));
    slot->chunk = check_chunk(malloc(slot->bytes), slot->bytes);
    tag_chunk(slot->chunk, slot->bytes, slot->bytes);
}

static NOINLINE void serve(struct slot *set, struct random *random, uint64_t *sum) {
    for (int i = 0; i < REPLACEMENTS; i++) {
        struct slot *slot = &set[random_below(random, SLOTS)];

        check_tag(slot->chunk, slot->bytes, slot->bytes);
        *sum = mix(*sum, slot->bytes);
        free(slot->chunk);
        slot_fill(slot, random);
    }
}

static void *server(void *argument) {
    size_t self = (size_t)argument;
    struct random random = {.state = 77 + self};

    for (int i = 0; i < SLOTS; i++) {
        slot_fill(&sets[self][i], &random);
    }
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        pthread_barrier_wait(&barrier);
        serve(sets[(self + epoch) % THREADS], &random, &sums[self]);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, server, (void *)i) != 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%016llx %016llx\n", (unsigned long long)sums[0], (unsigned long long)sums[1]);
    return 0;
}
