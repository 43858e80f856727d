/* SPDX-License-Identifier: MIT */
/* split_stack - functions that allocate at any depth of a stack that grows in small pieces
 * (-fsplit-stack), in the first thread and in others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, ROUNDS = 20, DEEP = 200, FRAME = 2000 };

static int descend(int depth) {
    volatile char frame[FRAME] = {(char)depth};
    void *block = malloc(100 + (size_t)depth);
    int below = block && depth ? descend(depth - 1) : 0;
    free(block);
    return below + frame[0] + !block;
}

static void *run(void *nothing) {
    for (int round = 0; round < ROUNDS; round++)
        descend(DEEP);
    return nothing;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            return 1;
    run(NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
