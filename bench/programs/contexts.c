/* SPDX-License-Identifier: MIT */
/* A process with 10 000 contexts to dump: four levels of ten call sites each, and one live chunk at
 * the end of each of the 10 000 paths. Prints `ready`, then waits to be killed. */
#include "common.h"

enum { LEVELS = 4, PATHS = 10000 };

static void *chunks[PATHS];
static size_t chunk_count;

static inline __attribute__((always_inline)) void at_the_end(void) {
    size_t bytes = 16 + chunk_count % 200;

    chunks[chunk_count++] = check_chunk(malloc(bytes), bytes);
}

#include "descend.h"

int main(void) {
    descend_all(PATHS);
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
