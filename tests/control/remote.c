/* SPDX-License-Identifier: MIT */
/* remote.c - a thread frees 1 200 000 chunks that another thread allocated; then both wait. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNKS 1200000
static void *chunks[CHUNKS];

static void *free_all(void *argument) {
    for (size_t i = 0; i < CHUNKS; i++)
        free(chunks[i]);
    (void)!write(STDOUT_FILENO, "ready\n", 6);
    pause();
    return argument;
}

int main(void) {
    pthread_t thread;
    for (size_t i = 0; i < CHUNKS; i++)
        chunks[i] = malloc(16);
    pthread_create(&thread, NULL, free_all, NULL);
    pthread_join(thread, NULL);
    return 0;
}
