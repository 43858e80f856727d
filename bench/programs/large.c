/* SPDX-License-Identifier: MIT */
/* Large buffers of 5 to 25 MiB, all bytes of which are written: 20 are alive at a time. A new
 * buffer replaces a random one, which is freed after the new one was allocated. */
#include "common.h"

enum { BUFFERS = 20, STEPS = 600 };
#define LEAST (5UL << 20)
#define SPREAD (20UL << 20)

int main(void) {
    static unsigned char *buffers[BUFFERS];
    static size_t sizes[BUFFERS];
    struct random random = {.state = 271828};
    uint64_t sum = 0;

    for (int step = 0; step < STEPS; step++) {
        size_t place = random_below(&random, BUFFERS),
               bytes = LEAST + random_below(&random, SPREAD);
        unsigned char *fresh = check_chunk(malloc(bytes), bytes);

        memset(fresh, step & 0xff, bytes);
        if (buffers[place] != NULL) {
            sum = mix(sum, buffers[place][sizes[place] / 2]);
            free(buffers[place]);
        }
        buffers[place] = fresh;
        sizes[place] = bytes;
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
