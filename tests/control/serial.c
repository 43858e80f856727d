/* SPDX-License-Identifier: MIT */
/*
 * serial.c - fills pages in which chunks stand one behind the other, frees some chunks by their own
 * thread and some by another thread, and fills pages with blocks of 48 bytes. For each line on
 * stdin it allocates once more.
 */
#include <memctx.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNKS 6000
static void *chunks[CHUNKS], *blocks[CHUNKS];

/* Frees every fifth chunk, and all chunks of a stretch. The first thread does not collect them,
 * because it allocates no more. */
static void *free_some(void *argument) {
    for (size_t i = 1; i < CHUNKS; i++)
        if (i % 5 == 3 || (i >= 2000 && i < 2600))
            free(chunks[i]);
    return argument;
}

static void fill(memctx_t context, size_t step) {
    for (size_t i = 0; i < CHUNKS; i++) {
        /* runs of like chunks, and runs of one chunk */
        size_t bytes = i % 40 < 20 ? 48 : 8 + (i * step) % 300;
        chunks[i] = memset(memctx_alloc(context, bytes), 1, bytes);
    }
}

int main(void) {
    pthread_t thread;
    fill(memctx_create(NULL, "bumped", MEMCTX_BUMP), 13);
    fill(memctx_create(NULL, "generations", MEMCTX_GENERATION), 7);
    for (size_t i = 1; i < CHUNKS; i++)
        if (i % 5 == 1 || (i >= 3000 && i < 3400)) {
            free(chunks[i]);
            chunks[i] = NULL;
        }
    memctx_t plain = memctx_create(NULL, "blocks", MEMCTX_ASET);
    for (size_t i = 0; i < CHUNKS; i++)
        blocks[i] = memset(memctx_alloc(plain, 48), 1, 48);
    pthread_create(&thread, NULL, free_some, NULL);
    pthread_join(thread, NULL);
    /* stdio would allocate its buffers, and an allocation may collect freed chunks */
    char line[64];
    const char *answer = "ready\n";
    while (write(STDOUT_FILENO, answer, strlen(answer)) > 0 &&
           read(STDIN_FILENO, line, sizeof line) > 0) {
        free(malloc(5000));
        answer = "more\n";
    }
    return 0;
}
