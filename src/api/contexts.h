/* SPDX-License-Identifier: MIT */
/*
 * contexts.h - how the functions of memctx.h enter the allocator (contexts.c, contexts_alloc.c).
 *
 * Threads: any thread of the program; the caller has not entered.
 */
#ifndef MEMCTX_API_CONTEXTS_H
#define MEMCTX_API_CONTEXTS_H

#include "api/fast.h"
#include "named/named.h"

/* Slow path of context_enter: thread_enter has returned NULL. */
struct heap *context_enter_own(void);

/* Enters the thread's own heap. Returns NULL in four cases: a signal handler that interrupted the
 * allocator makes the call; a fork handler makes it during a fork; the thread is ending; there is
 * no memory for a heap of this thread. */
INLINE struct heap *context_enter(void) {
    struct heap *heap = thread_enter();
    return LIKELY(heap != NULL) ? heap : context_enter_own();
}

/* Enters the allocator, stores the thread's heap in *heap, and returns the context. Ends the
 * program when the context was deleted or belongs to another thread. A member of a crowd
 * (named/named.h) first grows into a context of its own; if memory for the growth is short, leaves
 * the allocator and returns NULL. */
struct named *context_enter_mine(struct heap **heap, memctx_t context, const char *what);

#endif
