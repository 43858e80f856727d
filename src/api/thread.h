/* SPDX-License-Identifier: MIT */
/*
 * thread.h - entering the allocator in the cases that thread_enter (api/fast.h) does not serve.
 *
 * Each thread has a pointer to its heap (initial-exec TLS: no allocation, one load). heap->busy is
 * set while the thread is inside the allocator. A signal handler that finds heap->busy set has
 * interrupted the allocator, and uses the shared heap. A thread that has allocated little so far,
 * that is ending, or that gets no memory for a heap of its own, uses the shared heap, too. When the
 * interrupted thread holds a lock of this library, the handler's allocations come straight from the
 * kernel, and its frees go to a list that thread_settle empties later. During a fork, the forking
 * thread holds the library's locks, so allocations and frees in other libraries' fork handlers are
 * served in this way, too.
 */
#ifndef MEMCTX_THREAD_H
#define MEMCTX_THREAD_H

#include "context/lookup.h"
#include "region/region.h"

#define THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

INTERNAL THREAD_LOCAL struct heap *thread_heap;

/* The start of a heap that is always busy. thread_heap of a thread without a heap points here, so
 * that one test tells whether the thread can enter. */
INTERNAL const uint32_t thread_no_heap[CACHE_LINE / sizeof(uint32_t)];
INLINE struct heap *thread_heap_if_any(void) {
    return (const void *)thread_heap != thread_no_heap ? thread_heap : NULL;
}

/* How a thread has entered. */
enum thread_access {
    THREAD_OWN,    /* with its own heap */
    THREAD_SHARED, /* with the shared heap, and its lock */
    THREAD_YOUNG,  /* like THREAD_SHARED, because the thread has no heap of its own yet */
    THREAD_NONE,   /* without a heap: the thread holds a lock of the library */
};
/* Enters the allocator, whatever state the thread is in. Returns which heap the thread uses, and
 * stores it in *heap (NULL: none). May take a lock, make a heap or call libc. */
enum thread_access thread_enter_any(struct heap **heap);
/* Like thread_enter_any, but for an operation that needs the thread's own heap: makes that heap
 * even if the thread is young, so never returns THREAD_YOUNG. */
enum thread_access thread_enter_own(struct heap **heap);
void thread_leave_any(struct heap *heap, enum thread_access access);

/* Puts a chunk on the list of frees that wait until this thread holds no lock. */
void thread_defer_free(void *chunk);
INTERNAL void *thread_deferred; /* atomic: the list, linked through the chunks' first word */
/* Does the work that had to wait while a lock was held: the frees of thread_defer_free, and the
 * accounting of emergency chunks (region_settle). */
void thread_settle_waiting(struct heap *heap);
INLINE void thread_settle(struct heap *heap) {
    if (UNLIKELY(segment_emergency_waits()) || UNLIKELY(load_relaxed(&thread_deferred) != NULL))
        thread_settle_waiting(heap);
}

/* Creates the pthread key whose destructor runs when a thread ends. */
void thread_init(void);

#endif
