/* SPDX-License-Identifier: MIT */
/* sparse.c - "sparse CHUNKS STAYS" makes CHUNKS chunks, frees all but every STAYS-th, and waits in
 * a read. For each line on standard input it makes and frees a chunk, and checks the content of the
 * others. At the end of input it frees all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 300 };

static unsigned char **chunks;

static __attribute__((noinline)) unsigned char *make(size_t number) {
    unsigned char *chunk = malloc(BYTES);

    if (chunk == NULL) {
        exit(2);
    }
    memset(chunk, (int)(number % 251), BYTES);
    return chunk;
}

static void check(size_t number) {
    for (size_t i = 0; i < BYTES; i++) {
        if (chunks[number][i] != number % 251) {
            exit(3);
        }
    }
}

int main(int argc, char **argv) {
    size_t count = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    size_t stays = argc == 3 ? strtoul(argv[2], NULL, 10) : 1;
    char line[64];

    chunks = calloc(count + 1, sizeof *chunks);
    for (size_t i = 0; i < count; i++) {
        chunks[i] = make(i);
    }
    for (size_t i = 0; i < count; i++) {
        if (i % stays != 0) {
            free(chunks[i]);
        }
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        free(make(0));
        for (size_t i = 0; i < count; i += stays) {
            check(i);
        }
        puts("right");
        fflush(stdout);
    }
    for (size_t i = 0; i < count; i += stays) {
        free(chunks[i]);
    }
    free((void *)chunks);
    return 0;
}
