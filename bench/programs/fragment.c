/* SPDX-License-Identifier: MIT */
/* Fragmentation by mixed lifetimes: 20 paths make a million chunks of 16 to 512 bytes in random
 * order; then all are freed but those of one path, about 13 MB. Prints the live bytes and the
 * resident bytes after 1.5 s of light work, in which an allocator can give memory back: `live N
 * resident N`. */
#include "common.h"

#include <sys/mman.h>
#include <time.h>

enum { CHUNKS = 1000000, PATHS = 20, SURVIVOR = 7 };

struct entry {
    unsigned char *chunk;
    uint32_t bytes, path;
};

#define MAKER(n)                                                                                   \
    static NOINLINE unsigned char *maker_##n(size_t bytes) {                                       \
        unsigned char *chunk = check_chunk(malloc(bytes), bytes);                                  \
        memset(chunk, n + 1, bytes);                                                               \
        return chunk;                                                                              \
    }
MAKER(0)
MAKER(1)
MAKER(2)
MAKER(3)
MAKER(4)
MAKER(5)
MAKER(6)
MAKER(7)
MAKER(8)
MAKER(9)
MAKER(10)
MAKER(11)
MAKER(12)
MAKER(13)
MAKER(14)
MAKER(15)
MAKER(16)
MAKER(17)
MAKER(18)
MAKER(19)

static unsigned char *(*const makers[PATHS])(size_t) = {
    maker_0,  maker_1,  maker_2,  maker_3,  maker_4,  maker_5,  maker_6,
    maker_7,  maker_8,  maker_9,  maker_10, maker_11, maker_12, maker_13,
    maker_14, maker_15, maker_16, maker_17, maker_18, maker_19};

int main(void) {
    struct random random = {.state = 20};
    size_t table_bytes = CHUNKS * sizeof(struct entry);
    size_t live_bytes = 0;
    /* The table is from mmap and is unmapped before the measurement. */
    struct entry *table =
        mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (table == MAP_FAILED) {
        return 1;
    }
    for (size_t i = 0; i < CHUNKS; i++) {
        table[i].path = (uint32_t)random_below(&random, PATHS);
        table[i].bytes = (uint32_t)(16 + random_below(&random, 497));
        table[i].chunk = makers[table[i].path](table[i].bytes);
    }
    for (size_t i = 0; i < CHUNKS; i++) {
        check_tag(table[i].chunk, table[i].bytes, table[i].path + 1);
        if (table[i].path == SURVIVOR) {
            live_bytes += table[i].bytes;
        } else {
            free(table[i].chunk);
        }
    }
    munmap(table, table_bytes);
    for (int i = 0; i < 30; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        free(maker_0(64));
    }
    printf("live %zu resident %ld\n", live_bytes, resident_bytes());
    return 0;
}
