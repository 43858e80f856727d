/* SPDX-License-Identifier: MIT */
/* Thread churn: 30 000 threads, four at a time. Each makes 120 chunks, frees most and leaves ten to
 * the main thread, which frees them long after the thread has ended. */
#include "common.h"

#include <pthread.h>

enum { THREADS = 30000, AT_A_TIME = 4, CHUNKS = 120, LEFT = 10, KEPT = 4000 };

struct job {
    uint64_t seed;
    unsigned char *left[LEFT];
    uint64_t sum;
};

static unsigned char *kept[KEPT];

static NOINLINE void *work(void *argument) {
    struct job *job = argument;
    struct random random = {.state = job->seed};
    unsigned char *chunks[CHUNKS];

    for (int i = 0; i < CHUNKS; i++) {
        size_t bytes = 16 + random_below(&random, 300);

        chunks[i] = check_chunk(malloc(bytes), bytes);
        tag_chunk(chunks[i], bytes, (unsigned int)i);
        job->sum = mix(job->sum, bytes);
    }
    for (int i = 0; i < CHUNKS; i++) {
        if (i % (CHUNKS / LEFT) == 0) {
            job->left[i / (CHUNKS / LEFT)] = chunks[i];
        } else {
            free(chunks[i]);
        }
    }
    return NULL;
}

static NOINLINE void keep(unsigned char *chunk, size_t *turn) {
    size_t index = (*turn)++ % KEPT;

    free(kept[index]);
    kept[index] = chunk;
}

int main(void) {
    uint64_t sum = 0;
    size_t turn = 0;

    for (uint64_t done = 0; done < THREADS; done += AT_A_TIME) {
        struct job jobs[AT_A_TIME] = {0};
        pthread_t threads[AT_A_TIME];

        for (uint64_t i = 0; i < AT_A_TIME; i++) {
            jobs[i].seed = done + i + 1;
            if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0) {
                return 1;
            }
        }
        for (int i = 0; i < AT_A_TIME; i++) {
            pthread_join(threads[i], NULL);
            sum = mix(sum, jobs[i].sum);
            for (int j = 0; j < LEFT; j++) {
                keep(jobs[i].left[j], &turn);
            }
        }
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
