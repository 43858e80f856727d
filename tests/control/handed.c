/* SPDX-License-Identifier: MIT */
/* handed.c - "handed CHUNKS STAYS" makes CHUNKS chunks of many sizes, lets two threads free all but
 * every STAYS-th, and waits in a read while these threads wait for more. For each line on standard
 * input it makes and frees a chunk, and checks the content of the others. At the end of input it
 * frees all. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BYTES = 40, SIZES = 600, THREADS = 2 };

static unsigned char **chunks;
static size_t count, stays;
static pthread_barrier_t freed;

static size_t size_of(size_t number) {
    return LEAST_BYTES + number * 37 % SIZES;
}

static __attribute__((noinline)) unsigned char *make(size_t number) {
    unsigned char *chunk = malloc(size_of(number));
    if (!chunk)
        exit(2);
    return memset(chunk, (int)(number % 251), size_of(number));
}

static void check(size_t number) {
    for (size_t i = 0; i < size_of(number); i++)
        if (chunks[number][i] != number % 251)
            exit(3);
}

static void *free_part(void *argument) {
    for (size_t i = (size_t)(char *)argument - 1; i < count; i += THREADS)
        if (i % stays != 0)
            free(chunks[i]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&freed); /* waits until the program ends */
    return NULL;
}

int main(int argc, char **argv) {
    char line[64];
    count = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    stays = argc == 3 ? strtoul(argv[2], NULL, 10) : 1;
    setvbuf(stdout, NULL, _IONBF, 0); /* puts and fgets allocate nothing */
    setvbuf(stdin, NULL, _IONBF, 0);
    chunks = calloc(count + 1, sizeof *chunks);
    for (size_t i = 0; i < count; i++)
        chunks[i] = make(i);
    pthread_barrier_init(&freed, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, free_part, (void *)(i + 1)) != 0)
            return 4;
    }
    pthread_barrier_wait(&freed);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        free(make(0));
        for (size_t i = 0; i < count; i += stays)
            check(i);
        puts("right");
    }
    for (size_t i = 0; i < count; i += stays)
        free(chunks[i]);
    free((void *)chunks);
    return 0;
}
