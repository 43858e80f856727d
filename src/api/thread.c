/* SPDX-License-Identifier: MIT */
/* A thread's first entry, its later entries that thread_enter cannot serve, and its end. */
#include "api/fast.h"
#include "context/tree.h"
#include "control/control.h"
#include "named/named.h"
#include "os/libc.h"
#include "region/check.h"

#include <pthread.h>

/* glibc stores a thread's values of this many keys without an allocation */
#define KEYS_WITHOUT_ALLOCATION 32
/* glibc calls key destructors in up to 4 rounds. The heap is parked in the third round, so that the
 * destructors of other keys, which may allocate and free, have two rounds before. */
#define EXIT_ROUNDS 2

#define NO_HEAP ((struct heap *)(uintptr_t)thread_no_heap)
const uint32_t thread_no_heap[CACHE_LINE / sizeof(uint32_t)]
    __attribute__((aligned(CACHE_LINE))) = {1};
THREAD_LOCAL struct heap *thread_heap = (struct heap *)thread_no_heap;

static THREAD_LOCAL enum { THREAD_NEW, THREAD_STARTING, THREAD_READY, THREAD_ENDED } thread_state;

/* The loader writes the first thread's thread-local variables after it has called the resolvers of
 * the program's indirect functions (IFUNC). Until then all variables are 0, and such a resolver may
 * call malloc. The loader calls this library's resolver before the program's. This resolver
 * lets the thread use the shared heap; later the loader writes THREAD_NEW. The thread sanitizer's
 * run-time library is not ready yet. */
static void nothing(void) {}
__attribute__((used)) UNSANITIZED static void (*resolve_early(void))(void) {
    if (!thread_heap) {
        thread_heap = NO_HEAP;
        thread_state = THREAD_ENDED;
    }
    return nothing;
}
static void early(void) __attribute__((ifunc("resolve_early")));
/* The loader calls resolve_early only because this pointer refers to `early`. */
__attribute__((used)) static void (*const volatile early_reference)(void) = early;

/* A thread that got no memory for its own heap uses the shared heap, and asks for a heap of its own
 * again once in this many entries. A request that the kernel refuses takes long, and a program
 * without memory would repeat it at each allocation. */
#define REFUSED_RETRY_EVERY 64U
static THREAD_LOCAL uint32_t refused_first_entries;

/* A heap costs several OS pages for tables and blocks, which a thread that allocates a few chunks
 * and then waits does not need. The first HEAPS_AT_ONCE threads of a process get a heap at once. If
 * no heap is parked, each later thread is "young": it uses the shared heap for its first
 * YOUNG_ENTRIES entries. Each of these entries takes a lock and unwinds the stack. */
#define HEAPS_AT_ONCE 8U
#define YOUNG_ENTRIES 512U
#define YOUNG_WAIT 4U /* an entry that waits for the lock counts as this many entries */
static THREAD_LOCAL uint32_t young_entries;
/* The thread that last used the shared heap, as an address in the thread's thread-local storage.
 * The shared heap's lock guards this variable. */
static const void *shared_user;

static struct {
    pthread_key_t key;
    bool has_key;
    bool untold; /* atomic: some thread will end without a call of thread_exits */
} global FORK_PAGE;
void *thread_deferred FORK_PAGE;

/* The key's destructor. The C library calls it in the thread that is about to end. */
static void thread_exits(void *argument) {
    struct heap *heap = thread_heap_if_any();
    (void)argument;
    if (!heap)
        return;
    if (heap->thread_exits++ < EXIT_ROUNDS && !OS_TRY_ERROR(os_libc.key_set(global.key, heap)))
        return;
    /* From now on this thread uses the shared heap, so that it leaves no second heap behind. */
    thread_state = THREAD_ENDED;
    thread_heap = NO_HEAP;
    order_stores();
    if (UNLIKELY(
            heap->busy)) { /* a signal handler that interrupted the allocator ends the thread */
        /* The state changes before the count, because heap_fork_child subtracts each HEAP_OWNED
         * heap from the count. If another thread forked between the two steps in the other order,
         * the child would subtract this heap twice. */
        store_owner(&heap->state, HEAP_ORPHAN);
        order_stores();
        tables_count_heap(-1, TABLES_HEAP_BYTES);
        return;
    }
    store_owner(&heap->busy, 1);
    context_forget(heap);
    heap_park(heap);
}

/* Sets the thread's value of the key, so that thread_exits is called when the thread ends. */
static void tell_of_end(struct heap *heap) {
    if (!global.has_key || OS_TRY_ERROR(os_libc.key_set(global.key, heap)))
        store_owner(&global.untold, true);
}

/* The control thread uses no heap. If libc should call malloc in it, the shared heap serves. */
static void control_begins(void) {
    thread_heap = NO_HEAP;
    thread_state = THREAD_ENDED;
}

void thread_init(void) {
    control_thread_begins = control_begins;
    if (!os_libc.key_create || OS_TRY_ERROR(os_libc.key_create(&global.key, thread_exits)))
        return;
    if (global.key >= KEYS_WITHOUT_ALLOCATION)
        os_libc.key_delete(global.key); /* region/heap.c then finds ended threads by their ids */
    else
        global.has_key = true;
    /* true: no thread started before the key was created */
    if (load_relaxed(&heap_global.threads_seen) <= 1)
        store_owner(&global.untold, false);
    if (thread_heap_if_any())
        tell_of_end(thread_heap);
}

/* Gives the thread a heap of its own, and enters that heap. NULL: out of memory. */
static struct heap *first_entry(void) {
    thread_state = THREAD_STARTING;
    order_stores();
    named_set_hooks();
    uint32_t tid = os_thread_id();
    struct heap *heap = heap_acquire(tid, !load_relaxed(&global.untold));
    if (heap) {
        store_owner(&heap->busy, 1);
        order_stores();
        /* The heap may be of a thread that ended without a call of thread_exits, or that a fork did
         * not copy. Then the path cache still describes that thread's stack, and the heap is still
         * switched to that thread's current context. */
        context_switch(heap, NULL);
        context_thread_changes(heap);
    }
    if (heap && !context_view_fixed(heap, TREE_UNKNOWN)) {
        heap_park(heap);
        heap = NULL;
    }
    if (!heap) {
        thread_state = THREAD_NEW;
        return NULL;
    }
    thread_heap = heap;
    order_stores();
    thread_state = THREAD_READY;
    tell_of_end(heap);
    return heap;
}

/* Makes the shared heap's path cache forget the stack if another thread used the heap last. */
static struct heap *shared_entered(struct heap *heap) {
    if (heap && shared_user != &young_entries) {
        context_thread_changes(heap);
        shared_user = &young_entries;
    }
    return heap;
}

/* Enters the shared heap for a young thread. Returns NULL when the thread should get its own heap,
 * or when there is no memory for the view of [unknown], which pays for allocations that cannot be
 * charged elsewhere. */
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
    if (heap)
        heap_shared_unlock(heap);
    return NULL;
}

static enum thread_access enter_own_or_shared(struct heap **heap, bool may_be_young) {
    *heap = thread_heap_if_any();
    if (*heap && !(*heap)->busy) {
        store_owner(&(*heap)->busy, 1);
        order_stores();
        heap_entered(*heap);
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
    *heap = NULL;
    if (!lock_any_is_mine()) {
        /* The program may have left malloc by a jump out of a signal handler, after a stack
         * overflow. The heap stays busy then. lock_reach_for_walk makes the next overflow come
         * before the thread takes the lock. A young thread does not call it, because it would
         * mostly touch one more OS page of the stack. */
        lock_reach_for_walk();
        *heap = shared_entered(heap_shared_lock());
    }
    return *heap ? THREAD_SHARED : THREAD_NONE;
}

enum thread_access thread_enter_any(struct heap **heap) {
    return enter_own_or_shared(heap, true);
}

enum thread_access thread_enter_own(struct heap **heap) {
    return enter_own_or_shared(heap, false);
}

void thread_leave_any(struct heap *heap, enum thread_access access) {
    if (access == THREAD_OWN)
        thread_leave(heap);
    else if (access != THREAD_NONE)
        heap_shared_unlock(heap);
}

void thread_defer_free(void *chunk) {
    void *head = load_relaxed(&thread_deferred);
    do
        *(void **)chunk = head;
    while (!cas_release(&thread_deferred, &head, chunk));
}

COLD void thread_settle_waiting(struct heap *heap) {
    if (segment_emergency_waits())
        region_settle(heap);
    void *chunk = exchange_acquire(&thread_deferred, NULL);
    while (chunk) {
        void *next = *(void **)chunk;
        size_t requested = region_requested(chunk);
        if (requested < sizeof next) /* the list's link overwrote MEMCTX_CHECK's pattern */
            check_seal(chunk, requested, (char *)chunk + sizeof next);
        region_free(heap, chunk);
        chunk = next;
    }
}
