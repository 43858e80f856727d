/* SPDX-License-Identifier: MIT */
/*
 * common.h - functions that the programs share: a seeded generator, allocation that may not fail,
 * and a checksum, which most programs print so that a wrong run is noticed.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random) {
    uint64_t x = random->state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    random->state = x;
    return x * 0x2545f4914f6cdd1dULL;
}

static inline size_t random_below(struct random *random, size_t limit) {
    return (size_t)(((random_next(random) >> 32) * (uint64_t)limit) >> 32);
}

static inline uint64_t mix(uint64_t sum, uint64_t value) {
    return (sum ^ value) * 0x9e3779b97f4a7c15ULL + (sum >> 29);
}

/* Returns its argument. The compiler must assume that the memory is used, so it cannot remove or
 * merge allocations. */
static inline void *escape(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static inline void *check_chunk(void *pointer, size_t bytes) {
    if (pointer == NULL) {
        fprintf(stderr, "out of memory: %zu bytes\n", bytes);
        exit(1);
    }
    return escape(pointer);
}

/* Returns the resident bytes of this process. */
static inline long resident_bytes(void) {
    FILE *statm = fopen("/proc/self/statm", "re");
    long total = 0, resident = 0;

    if (statm == NULL || fscanf(statm, "%ld %ld", &total, &resident) != 2) {
        exit(1);
    }
    fclose(statm);
    return resident * sysconf(_SC_PAGESIZE);
}

/* Writes a tag into the first and the last byte, so that both ends of the chunk are touched. */
static inline void tag_chunk(void *pointer, size_t bytes, unsigned int tag) {
    unsigned char *chunk = pointer;

    chunk[0] = (unsigned char)tag;
    chunk[bytes - 1] = (unsigned char)tag;
}

static inline void check_tag(const void *pointer, size_t bytes, unsigned int tag) {
    const unsigned char *chunk = pointer;

    if (chunk[0] != (unsigned char)tag || chunk[bytes - 1] != (unsigned char)tag) {
        fprintf(stderr, "chunk of %zu bytes at %p was overwritten\n", bytes, pointer);
        exit(1);
    }
}

#endif
