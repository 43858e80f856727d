/* SPDX-License-Identifier: MIT */
/*
 * explore.h - runs a scenario of few threads in all orders, up to a number of preemptions.
 *
 * The library is built with -DMEMCTX_MODEL. Before each atomic operation, before each access to a
 * word that other threads may read, and in each futex call, the library asks the scheduler which
 * thread goes on. Such a place is a *point*. One thread runs at a time. Each execution is a process
 * of its own, forked from a process that has done nothing, so nothing is left of an earlier
 * execution. Orders with at most N preemptions are enumerated depth first (Musuvathi and Qadeer,
 * "Iterative Context Bounding", 2007). The scheduler switches threads only at points whose word
 * more than one thread uses. Orders with more preemptions are drawn at random, from seeds.
 *
 * Memory behaves as on one processor: reordering between processors (on x86: a store after a later
 * load) is not explored. Futexes have no spurious wake-ups: a thread that nobody wakes waits for
 * ever, and the scheduler reports a deadlock.
 */
#ifndef MEMCTX_EXPLORE_H
#define MEMCTX_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_THREADS_MAX 4

/* For functions that must have a frame on the stack. clang makes no clones of functions. */
#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif

struct scenario {
    const char *name;
    unsigned threads;
    bool timeouts;               /* a futex wait may end with a time-out at any point */
    void (*setup)(void);         /* runs before the threads start */
    void (*thread)(unsigned id); /* 0 .. threads - 1 */
    void (*check)(void);         /* runs after all threads have ended */
};

/* If the condition is false, ends the execution as a finding and prints the order of threads that
 * led to it. */
#define model_check(condition, text) ((condition) ? (void)0 : model_found(text))
__attribute__((noreturn)) void model_found(const char *text);

/* Advances the model's clock; no other thread runs during this time. */
void model_time_passes(uint64_t ns);

/* A hook, called in the thread that asks for a memory barrier in all threads; NULL: no hook. */
extern void (*model_barrier)(void);

int model_main(int argc, char **argv, const struct scenario *scenarios, unsigned count);

#endif
