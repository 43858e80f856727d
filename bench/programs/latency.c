/* SPDX-License-Identifier: MIT */
/* latency PERCENTILE SECONDS - the time of single calls of malloc. Four paths replace 20 000
 * chunks of 16 to 1 024 bytes at random; each malloc is timed. Prints this percentile of the
 * times in ns. */
#include "common.h"

#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

enum { SLOTS = 20000, SITES = 4, BATCH = 4096, SUB_BITS = 6, SUBS = 1 << SUB_BITS };

static unsigned char *slots[SLOTS];
/* A histogram of the times, with SUBS / 2 bins between two powers of two. A bin counts by its
 * lowest value, which is at most 3 % below the times in the bin. */
static uint64_t counts[64 * SUBS];

static uint64_t clock_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static inline uint64_t ticks(void) {
#ifdef __x86_64__
    unsigned int processor;
    return __rdtscp(&processor);
#else
    return clock_ns();
#endif
}

static void count(uint64_t value) {
    unsigned shift = value < SUBS ? 0 : 64 - SUB_BITS - (unsigned)__builtin_clzll(value);

    counts[shift * SUBS + (value >> shift)]++;
}

static double percentile(double percent) {
    uint64_t all = 0, below = 0;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        all += counts[i];
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        below += counts[i];
        if ((double)below >= (double)all * percent / 100) {
            return (double)((i % SUBS) << i / SUBS);
        }
    }
    return 0;
}

static inline unsigned char *timed(size_t bytes) {
    uint64_t start = ticks();
    unsigned char *chunk = malloc(bytes);
    uint64_t end = ticks();

    count(end - start);
    return check_chunk(chunk, bytes);
}

#define SITE(n)                                                                                    \
    static NOINLINE unsigned char *site_##n(size_t bytes) {                                        \
        unsigned char *chunk = timed(bytes);                                                       \
        __asm__ volatile("nop # " #n);                                                             \
        return chunk;                                                                              \
    }
SITE(0)
SITE(1)
SITE(2)
SITE(3)

int main(int argc, char **argv) {
    static unsigned char *(*const sites[SITES])(size_t) = {site_0, site_1, site_2, site_3};
    struct random random = {.state = 12};

    if (argc != 3) {
        return 2;
    }
    uint64_t begun_ns = clock_ns(), begun = ticks(), limit_ns = (uint64_t)(atof(argv[2]) * 1e9);
    do {
        for (int i = 0; i < BATCH; i++) {
            unsigned char **slot = &slots[random_below(&random, SLOTS)];
            size_t bytes = 16 + random_below(&random, 1009);

            free(*slot);
            *slot = sites[random_below(&random, SITES)](bytes);
            tag_chunk(*slot, bytes, 1);
        }
    } while (clock_ns() - begun_ns < limit_ns);
    double ns_a_tick = (double)(clock_ns() - begun_ns) / (double)(ticks() - begun);
    printf("ns %.1f\n", percentile(atof(argv[1])) * ns_a_tick);
    return 0;
}
