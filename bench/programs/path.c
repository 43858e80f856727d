/* SPDX-License-Identifier: MIT */
/* The cost of a call path of 16 frames: a loop of malloc and free below 16 frames, and a loop of
 * unw_backtrace on this stack. Prints the ns of each. The benchmark also runs this program with
 * MEMCTX_DEPTH=0, and subtracts the first figure of that run. */
#include "common.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <time.h>

enum { FRAMES = 16, ALLOCATIONS = 3000000, WALKS = 50000, FRAMES_MAX = 64 };

static double now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static NOINLINE void measure(void) {
    void *frames[FRAMES_MAX];
    double start = now_ns();

    for (int i = 0; i < ALLOCATIONS; i++) {
        free(check_chunk(malloc(64), 64));
    }
    double allocated = now_ns();
    for (int i = 0; i < WALKS; i++) {
        escape(frames);
        unw_backtrace(frames, FRAMES_MAX);
    }
    double walked = now_ns();
    printf("malloc_ns %.2f unwind_ns %.2f\n", (allocated - start) / ALLOCATIONS,
           (walked - allocated) / WALKS);
}

/* Calls itself until a malloc in measure has a path of FRAMES frames. */
static NOINLINE void descend(int more) {
    if (more > 0) {
        descend(more - 1);
    } else {
        measure();
    }
    __asm__ volatile("# a frame is kept" : : : "memory");
}

int main(void) {
    void *frames[FRAMES_MAX];

    descend(FRAMES - 2 - unw_backtrace(frames, FRAMES_MAX));
    return 0;
}
