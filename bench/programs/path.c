/* SPDX-License-Identifier: MIT */
/* What a call path of 16 frames costs: a loop of malloc and free down there, and one of
 * unw_backtrace on the same stack. Prints ns for each; the loop under memctx with depth 0 is to be
 * subtracted. */
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

/* Until the path of a malloc in measure has FRAMES frames. */
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
