/* SPDX-License-Identifier: MIT */
/* fibers - makecontext fibers on small malloc'ed stacks. They allocate at different depths, free
 * each other's blocks, and are resumed by another thread than the one they started on. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { FIBERS = 64, STEPS = 200, STACK_BYTES = 32 * 1024, BLOCKS = 256 };

struct fiber {
    ucontext_t context;
    ucontext_t *caller;
    unsigned index;
    unsigned long sum;
    int finished;
};

static struct fiber fibers[FIBERS];
static char *blocks[BLOCKS];
static size_t block_bytes[BLOCKS];

__attribute__((noinline)) static unsigned long work(struct fiber *fiber, int depth, int step) {
    volatile char frame[64];
    frame[0] = (char)step;
    if (depth > 0) {
        unsigned long below = work(fiber, depth - 1, step);
        return below + (unsigned long)frame[0];
    }
    unsigned slot = (fiber->index * 31U + (unsigned)step * 7U) % BLOCKS;
    unsigned long sum = 0;
    if (blocks[slot]) {
        for (size_t i = 0; i < block_bytes[slot]; i++) {
            sum += (unsigned char)blocks[slot][i];
        }
    }
    free(blocks[slot]);
    block_bytes[slot] = 1 + (fiber->index * 101U + (unsigned)step * 13U) % 3000;
    blocks[slot] = malloc(block_bytes[slot]);
    memset(blocks[slot], (int)fiber->index, block_bytes[slot]);
    return sum;
}

static void fiber_main(unsigned low, unsigned high) {
    struct fiber *fiber = (struct fiber *)(((unsigned long)high << 32) | low);
    for (int step = 0; step < STEPS; step++) {
        fiber->sum += work(fiber, step % 20, step);
        swapcontext(&fiber->context, fiber->caller);
    }
    fiber->finished = 1;
    swapcontext(&fiber->context, fiber->caller);
}

static void fiber_resume(struct fiber *fiber) {
    ucontext_t here;
    fiber->caller = &here;
    swapcontext(&here, &fiber->context);
}

/* A thread that resumes each fiber once. Only one such thread runs at a time. */
static void *round_main(void *unused) {
    for (int i = 0; i < FIBERS; i++) {
        if (!fibers[i].finished) {
            fiber_resume(&fibers[i]);
        }
    }
    return unused;
}

int main(void) {
    static unsigned long sum; /* static, because gcc assumes that getcontext may return twice */
    static int finished;
    unsigned long address;
    for (unsigned i = 0; i < FIBERS; i++) {
        struct fiber *fiber = &fibers[i];
        getcontext(&fiber->context);
        fiber->index = i;
        fiber->context.uc_stack.ss_sp = malloc(STACK_BYTES);
        fiber->context.uc_stack.ss_size = STACK_BYTES;
        address = (unsigned long)fiber;
        makecontext(&fiber->context, (void (*)(void))fiber_main, 2, (unsigned)address,
                    (unsigned)(address >> 32));
    }
    for (int round = 0; round < STEPS + 1; round++) {
        pthread_t thread;
        if (round % 3 == 0) {
            round_main(NULL);
        } else if (pthread_create(&thread, NULL, round_main, NULL) != 0 ||
                   pthread_join(thread, NULL) != 0) {
            puts("no thread");
            return 1;
        }
    }
    for (int i = 0; i < FIBERS; i++) {
        sum += fibers[i].sum;
        finished += fibers[i].finished;
        free(fibers[i].context.uc_stack.ss_sp);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    printf("%d finished, sum %lu\n", finished, sum);
    return 0;
}
