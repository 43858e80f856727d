/* SPDX-License-Identifier: MIT */
/* Threads: their first entry, re-entry, end; see thread.h. */
#include "api/thread.h"
#include "context/tree.h"
#include "control/control.h"
#include "os/fault.h"

#include <pthread.h>

#define KEYS_WITHOUT_ALLOCATION 32 /* glibc keeps so many inside its thread descriptor */
#define EXIT_ROUNDS 2              /* key destructors run up to 4 rounds; the others' come first */

#define NO_HEAP ((struct heap *)(uintptr_t)thread_no_heap)
const uint32_t thread_no_heap[CACHE_LINE / sizeof(uint32_t)]
    __attribute__((aligned(CACHE_LINE))) = {1};
THREAD_LOCAL struct heap *thread_heap = (struct heap *)thread_no_heap;

static THREAD_LOCAL enum { THREAD_NEW, THREAD_STARTING, THREAD_READY, THREAD_ENDED } thread_state;

/* Without memory for a heap of its own a thread uses the shared one, and asks for its own only now and then: to
 * find out that there is none takes long, and a program that has run out of memory asks often. */
#define REFUSED_RETRY_EVERY 64U
static THREAD_LOCAL uint32_t refused_first_entries;

/* A heap is several OS pages of tables and of blocks that one thread alone uses. A thread that allocates a few chunks and
 * then waits is not worth it: where a process has so many heaps already, and none is parked, a thread is *young*
 * until it has come so often, and uses the shared heap as long. What that takes is a lock and a walk of the stack each
 * time. */
#define HEAPS_AT_ONCE 8U
#define YOUNG_ENTRIES 512U
#define YOUNG_WAIT 4U /* waiting for another thread counts as so many */
static THREAD_LOCAL uint32_t young_entries;
static const void *shared_user; /* under the shared heap's lock: some word of the thread's */

static struct {
    pthread_key_t key;
    bool has_key;
    bool untold;    /* atomic: the end of some thread will not be told */
    void *deferred; /* atomic list of chunks through their first word */
} global FORK_PAGE;

/* The key's destructor: the thread is about to end. */
static void thread_exits(void *argument) {
    struct heap *heap = thread_heap_if_any();
    (void)argument;
    if (!heap)
        return;
    if (heap->thread_exits++ < EXIT_ROUNDS && !OS_TRY_ERROR(pthread_setspecific(global.key, heap)))
        return;
    if (os_is_first_thread(heap->tid))
        control_first_thread_ended();
    /* From here this thread uses the shared heap, so that it leaves nothing behind. */
    thread_state = THREAD_ENDED;
    thread_heap = NO_HEAP;
    order_stores();
    store_owner(&heap->busy, 1);
    context_forget(heap);
    heap_park(heap);
}

static void tell_of_end(struct heap *heap) {
    if (!global.has_key || OS_TRY_ERROR(pthread_setspecific(global.key, heap)))
        store_owner(&global.untold, true);
}

void thread_init(void) {
    if (OS_TRY_ERROR(pthread_key_create(&global.key, thread_exits)))
        return;
    if (global.key >= KEYS_WITHOUT_ALLOCATION)
        pthread_key_delete(global.key); /* dead threads are then found by their ids */
    else
        global.has_key = true;
    if (load_relaxed(&heap_global.threads_seen) <= 1) /* none that began before there was a key */
        store_owner(&global.untold, false);
    if (thread_heap_if_any())
        tell_of_end(thread_heap);
}

static struct heap *first_entry(void) {
    thread_state = THREAD_STARTING;
    order_stores();
    uint32_t tid = os_thread_id();
    struct heap *heap = heap_acquire(tid, !load_relaxed(&global.untold));
    if (heap && !context_view_fixed(heap, TREE_UNKNOWN)) {
        heap_park(heap);
        heap = NULL;
    }
    if (!heap) {
        thread_state = THREAD_NEW;
        return NULL;
    }
    store_owner(&heap->busy, 1);
    thread_heap = heap;
    order_stores();
    thread_state = THREAD_READY;
    tell_of_end(heap);
    return heap;
}

static struct heap *shared_entered(struct heap *heap) {
    if (heap && shared_user != &young_entries) {
        context_thread_changes(heap);
        shared_user = &young_entries;
    }
    return heap;
}

/* NULL: it is time for a heap of its own; or there is no memory for a first view, which stands for what cannot be
 * accounted. */
static struct heap *enter_young(void) {
    if (young_entries >= YOUNG_ENTRIES || load_relaxed(&heap_global.parked) ||
        (load_relaxed(&heap_global.at_once) < HEAPS_AT_ONCE &&
         add_relaxed(&heap_global.at_once, 1) < HEAPS_AT_ONCE))
        return NULL;
    struct heap *heap = heap_shared_try();
    young_entries += heap ? 1 : YOUNG_WAIT;
    heap = shared_entered(heap ? heap : heap_shared_lock());
    if (heap && context_view_fixed(heap, TREE_UNKNOWN))
        return heap;
    heap_shared_unlock(heap);
    return NULL;
}

static enum thread_access enter_slow(struct heap **heap, bool may_be_young) {
    *heap = thread_heap_if_any();
    if (*heap && !(*heap)->busy) {
        store_owner(&(*heap)->busy, 1);
        order_stores();
        return THREAD_OWN;
    }
    if (!*heap && thread_state == THREAD_NEW && !lock_any_is_mine()) {
        if (may_be_young && (*heap = enter_young()))
            return THREAD_YOUNG;
        if (!(refused_first_entries++ % REFUSED_RETRY_EVERY))
            *heap = first_entry();
        if (*heap)
            return THREAD_OWN;
    }
    *heap = lock_any_is_mine() ? NULL : shared_entered(heap_shared_lock());
    return *heap ? THREAD_SHARED : THREAD_NONE;
}

enum thread_access thread_enter_slow(struct heap **heap) {
    return enter_slow(heap, true);
}

enum thread_access thread_enter_own(struct heap **heap) {
    return enter_slow(heap, false);
}

void thread_leave_slow(struct heap *heap, enum thread_access access) {
    if (access == THREAD_OWN)
        thread_leave(heap);
    else if (access != THREAD_NONE)
        heap_shared_unlock(heap);
}

void thread_defer_free(void *chunk) {
    void *head = load_relaxed(&global.deferred);
    do
        *(void **)chunk = head;
    while (!cas_release(&global.deferred, &head, chunk));
}

void thread_settle(struct heap *heap) {
    if (UNLIKELY(segment_emergency_waits()))
        region_settle(heap);
    if (LIKELY(!load_relaxed(&global.deferred)))
        return;
    void *chunk = exchange_acquire(&global.deferred, NULL);
    while (chunk) {
        void *next = *(void **)chunk;
        region_free(heap, chunk);
        chunk = next;
    }
}
