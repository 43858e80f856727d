/* SPDX-License-Identifier: MIT */
/*
 * seeds.h - what the files of the program seeds share: the policy of the argument, random numbers,
 * the time, and functions that allocate. A file ends in the table of its experiments, in which the
 * last entry has the name NULL.
 */
#ifndef MEMCTX_BENCH_SEEDS_H
#define MEMCTX_BENCH_SEEDS_H

#include <memctx.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern enum memctx_policy policy; /* seeds.c */
extern uint64_t dice_state;

struct experiment {
    const char *name;
    void (*run)(void);
};
extern const struct experiment workloads[]; /* seeds_workloads.c */
extern const struct experiment costs[];     /* seeds_costs.c */

static inline uint32_t dice(uint32_t sides) {
    dice_state = dice_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(dice_state >> 33) % sides;
}

static inline double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline long rss_kib(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) {
        exit(1);
    }
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static inline void figure(const char *name, double value) {
    printf("%s %.3f\n", name, value);
}

static inline memctx_t make(memctx_t parent, const char *name) {
    memctx_t made = memctx_create(parent, name, policy);
    if (made == NULL) {
        fprintf(stderr, "seeds: no context could be made\n");
        exit(1);
    }
    return made;
}

/* Allocates a chunk and writes to its first 64 bytes. */
static inline char *take(memctx_t context, size_t bytes) {
    char *chunk = memctx_alloc(context, bytes);
    if (chunk == NULL) {
        exit(1);
    }
    memset(chunk, 1, bytes < 64 ? bytes : 64);
    return chunk;
}

#endif
