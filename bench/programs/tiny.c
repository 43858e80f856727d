/* SPDX-License-Identifier: MIT */
/* A million tiny contexts: six levels of ten call sites each, and one chunk of 100 bytes at the end
 * of each path. Prints the bytes of all chunks, and by how much the resident bytes grew. */
#include "common.h"

#include <sys/mman.h>

enum { LEVELS = 6, PATHS = 1000000, BYTES = 100 };

static unsigned char **chunks;
static size_t chunk_count;

static inline __attribute__((always_inline)) void at_the_end(void) {
    chunks[chunk_count] = check_chunk(malloc(BYTES), BYTES);
    tag_chunk(chunks[chunk_count++], BYTES, LEVELS);
}

#include "descend.h"

int main(void) {
    size_t table_bytes = PATHS * sizeof *chunks;

    chunks = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunks == MAP_FAILED) {
        return 1;
    }
    memset(chunks, 0, table_bytes); /* makes the table resident before the first measurement */
    long before = resident_bytes();
    descend_all(PATHS);
    printf("live %d resident %ld\n", PATHS * BYTES, resident_bytes() - before);
    return 0;
}
