/* SPDX-License-Identifier: MIT */
/*
 * wander - stacks that change in many ways between two allocations.
 *
 * Eight functions with frames of different kinds call each other at random. A chain of 210 further
 * functions leads to them, from a random function of the chain on, so that some paths are longer
 * than the library keeps. Fibers do this on stacks of their own, and greenlets on one stack, whose
 * contents are copied away and back. Some calls end by longjmp, and signal handlers allocate, too.
 * Usage: wander SEED STEPS. The program ends with status 0.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "../../lib/repeat.h"

#define FRAME __attribute__((noinline, noclone))

enum { KEPT = 2048, FIBERS = 12, STACK_BYTES = 256 << 10, CHAIN = 210, DEEPEST = 40 };

static _Thread_local uint64_t state;
static _Thread_local void *kept[KEPT];
static _Thread_local long steps;
static _Thread_local jmp_buf *out;

static unsigned below(unsigned bound) {
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(state >> 33) % bound;
}

static FRAME void allocate(void) {
    void **place = &kept[below(KEPT)];
    void *taken = *place; /* a signal handler may allocate meanwhile */
    *place = NULL;
    free(taken);
    if (below(8))
        taken = malloc(16 + below(100));
    else
        taken = realloc(calloc(1, 16), 40);
    free(*place);
    *place = taken;
    steps--;
}

static void on_signal(int number) {
    (void)number;
    allocate();
}

static void pause_here(void);
typedef void visit_function(unsigned left);
static visit_function visit_0, visit_1, visit_2, visit_3, visit_4, visit_5, visit_6, visit_7;
static visit_function *const visits[] = {visit_0, visit_1, visit_2, visit_3,
                                         visit_4, visit_5, visit_6, visit_7};

static void any_visit(unsigned left) {
    visits[below(8)](left - 1);
}

static void go_on(unsigned left) {
    switch (below(64)) {
    case 0: pause_here(); break;
    case 1: raise(SIGUSR1); break;
    case 2:
        if (out)
            longjmp(*out, 1);
        break;
    default: break;
    }
    if (below(3))
        allocate();
    if (left && steps > 0)
        any_visit(left);
    if (left && steps > 0 && !below(3))
        any_visit(left);
    if (!below(3))
        allocate();
}

#define VISIT(number, before, after)                                                               \
    static FRAME void visit_##number(unsigned left) {                                              \
        before;                                                                                    \
        go_on(left);                                                                               \
        after;                                                                                     \
        __asm__ volatile("# visit " #number);                                                      \
    }
VISIT(0, , )
VISIT(1, volatile char large[300]; large[0] = 1, (void)large[0])
VISIT(2, volatile char *room = alloca(16 + below(200)); room[0] = 1, room[1] = 2)
VISIT(3, volatile char aligned[64] __attribute__((aligned(128))); aligned[0] = 1, (void)aligned[0])
VISIT(4, any_visit(left ? left : 1), allocate())
VISIT(5, if (left) visit_5(left - 1), )
VISIT(6, if (left) visit_6(left - 1 - left / 2), if (!below(4)) allocate())

static FRAME void visit_7(unsigned left) {
    jmp_buf here, *before = out;
    volatile unsigned depth = left;
    if (!setjmp(here)) {
        out = &here;
        go_on(depth);
    }
    out = before;
    allocate();
}

typedef void link_function(unsigned at, unsigned left);
static link_function *const chain[CHAIN + 1];
#define LINK(number)                                                                               \
    static FRAME void link_##number(unsigned at, unsigned left) {                                  \
        if (!(at % 64))                                                                            \
            allocate();                                                                            \
        chain[at + 1](at + 1, left);                                                               \
        __asm__ volatile("# link " #number);                                                       \
    }
static FRAME void last_link(unsigned at, unsigned left) {
    (void)at;
    any_visit(left);
    allocate();
}
/* clang-format formats this list in another way each time */
/* clang-format off */
#define ALL(X)                                                                                     \
    TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9)      \
    HUNDRED(X, 1) TEN(X, 20) TEN(X, 21)
/* clang-format on */
ALL(LINK)
#define ENTRY(number) link_##number,
static link_function *const chain[CHAIN + 1] = {ALL(ENTRY) last_link};

static FRAME void wander(void) {
    static const unsigned begins[] = {CHAIN, CHAIN - 3, CHAIN - 90, CHAIN - 154, 20, 84};
    while (steps > 0) {
        unsigned begin = begins[below(6)];
        if (!below(4))
            begin = below(CHAIN);
        chain[begin](begin, 1 + below(DEEPEST));
    }
}

/* --- fibers and greenlets -------------------------------------------------------------------- */

struct fiber {
    ucontext_t context;
    char *stack; /* of a greenlet: where its part of the common stack is kept */
    size_t kept_bytes;
    uint64_t state;
    jmp_buf *out;
    int done;
};
static struct fiber fibers[FIBERS];
static ucontext_t scheduler;
static _Thread_local struct fiber *running;
static char *common; /* the stack of all greenlets, which are the second half of the fibers */

static void pause_here(void) {
    struct fiber *fiber = running;
    if (!fiber)
        return;
    fiber->out = out;
    swapcontext(&fiber->context, &scheduler);
}

static void fiber_main(void) {
    long all = steps;
    while (steps > 0 && all - steps < 3000)
        chain[below(CHAIN)](CHAIN - 1 - below(60), 1 + below(DEEPEST));
    running->done = 1;
    swapcontext(&running->context, &scheduler);
}

static int is_greenlet(const struct fiber *fiber) {
    return fiber - fibers >= FIBERS / 2;
}

static void fiber_begin(struct fiber *fiber) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = is_greenlet(fiber) ? common : fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES - (is_greenlet(fiber) ? 512 * below(3) : 0);
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber_main, 0);
    fiber->done = 0;
    fiber->out = NULL;
}

static char *stack_pointer(const struct fiber *fiber) {
    return (char *)fiber->context.uc_mcontext.gregs[REG_RSP] - 128;
}

static void fiber_run(struct fiber *fiber) {
    jmp_buf *before = out;
    if (fiber->done)
        fiber_begin(fiber);
    else if (is_greenlet(fiber))
        memcpy(common + STACK_BYTES - fiber->kept_bytes,
               fiber->stack + STACK_BYTES - fiber->kept_bytes, fiber->kept_bytes);
    out = fiber->out;
    running = fiber;
    swapcontext(&scheduler, &fiber->context);
    running = NULL;
    out = before;
    if (is_greenlet(fiber)) {
        fiber->kept_bytes = (size_t)(common + STACK_BYTES - stack_pointer(fiber));
        memcpy(fiber->stack + STACK_BYTES - fiber->kept_bytes, stack_pointer(fiber),
               fiber->kept_bytes);
    }
}

static void fibers_run(long count) {
    steps = count;
    common = malloc(STACK_BYTES);
    for (int i = 0; i < FIBERS; i++) {
        fibers[i].stack = malloc(STACK_BYTES);
        fibers[i].done = 1;
    }
    while (steps > 0)
        fiber_run(&fibers[below(FIBERS)]);
}

static void *thread_main(void *argument) {
    state = (uintptr_t)argument;
    steps = (long)(1000 + below(20000));
    wander();
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[3];
    struct sigaction action = {.sa_handler = on_signal};
    if (argc < 3)
        return 2;
    state = strtoul(argv[1], NULL, 10) * 7919 + 1;
    long all = atol(argv[2]);
    sigaction(SIGUSR1, &action, NULL);
    for (int round = 0; round < 3; round++) {
        steps = all / 6;
        wander();
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)(round * 3 + i + 5));
        fibers_run(all / 6);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    }
    puts("done");
    return 0;
}
