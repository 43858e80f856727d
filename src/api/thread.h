/* SPDX-License-Identifier: MIT */
/*
 * thread.h - entering and leaving the allocator.
 *
 * Each thread has a pointer to its heap (initial-exec TLS: no allocation, one load). While the
 * thread is inside, heap->busy is set. What finds it set is a signal handler that interrupted the
 * allocator: it uses the shared heap, as a thread does that has allocated little so far, or gets no
 * memory for a heap of its own; and where the thread holds one of our locks, memory straight from
 * the kernel (allocations) or a list that is worked off later (frees).
 */
#ifndef MEMCTX_THREAD_H
#define MEMCTX_THREAD_H

#include "context/lookup.h"
#include "region/region.h"

#define THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

INTERNAL THREAD_LOCAL struct heap *thread_heap;

/* The start of a heap that is always busy: of threads that have none, so that one test is enough. */
INTERNAL const uint32_t thread_no_heap[CACHE_LINE / sizeof(uint32_t)];
INLINE struct heap *thread_heap_if_any(void) {
    return (const void *)thread_heap != thread_no_heap ? thread_heap : NULL;
}

/* The heap when it can be used at once, marked busy; else NULL: ask thread_enter_slow. */
INLINE struct heap *thread_enter(void) {
    struct heap *heap = thread_heap;
    if (UNLIKELY(heap->busy))
        return NULL;
    store_owner(&heap->busy, 1);
    order_stores();
    return heap;
}

INLINE void thread_leave(struct heap *heap) {
    order_stores();
    store_owner(&heap->busy, 0);
}

enum thread_access {
    THREAD_OWN,    /* heap is this thread's */
    THREAD_SHARED, /* heap is the shared one, locked */
    THREAD_YOUNG,  /* the same, because the thread has no heap of its own yet */
    THREAD_NONE,   /* no heap can be used here; heap is NULL */
};
enum thread_access thread_enter_slow(struct heap **heap);
/* The same for what needs a heap of its own. */
enum thread_access thread_enter_own(struct heap **heap);
void thread_leave_slow(struct heap *heap, enum thread_access access);

/* Frees that had to wait for a lock of this thread. */
void thread_defer_free(void *chunk);
/* Does what had to wait: these frees, and the accounting of emergency chunks. */
void thread_settle(struct heap *heap);

/* Set-up that needs libc: the key whose destructor tells of a thread's end. */
void thread_init(void);

#endif
