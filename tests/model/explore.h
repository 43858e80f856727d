/* SPDX-License-Identifier: MIT */
/*
 * explore.h - runs a scenario of few threads in all orders, up to a number of preemptions.
 *
 * The library is built with -DMEMCTX_MODEL: before each atomic operation or access to a word that
 * others may read, and in each futex call, it asks here who goes on; one thread runs at a time.
 * Each execution is a process of its own, forked from one that has done nothing, so that nothing is
 * left of the one before. Orders are enumerated depth first, those with at most N preemptions
 * (Musuvathi and Qadeer, "Iterative Context Bounding", 2007); points count whose word more than one
 * thread uses. Beyond that, orders are drawn at random, from seeds.
 *
 * Memory is as on one processor: what another processor may see late (on x86: a store, by a later
 * load) is not explored. Wake-ups are exact: who waits is woken, or waits for ever, which is found
 * as a deadlock.
 */
#ifndef MEMCTX_EXPLORE_H
#define MEMCTX_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_THREADS_MAX 4

struct scenario {
    const char *name;
    unsigned threads;
    bool timeouts;       /* of waits with a limit may come at any time, instead of a wake-up */
    void (*setup)(void); /* by nobody's thread, before */
    void (*thread)(unsigned id); /* 0 .. threads - 1 */
    void (*check)(void);         /* after all have ended */
};

/* Ends the execution as a finding, with the order that led there. */
#define model_check(condition, text) ((condition) ? (void)0 : model_found(text))
__attribute__((noreturn)) void model_found(const char *text);

/* Nothing happens meanwhile. */
void model_time_passes(uint64_t ns);

/* Called in the thread that asks for a barrier in all threads; NULL: nothing to call. */
extern void (*model_barrier)(void);

int model_main(int argc, char **argv, const struct scenario *scenarios, unsigned count);

#endif
