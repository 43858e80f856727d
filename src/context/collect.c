/* SPDX-License-Identifier: MIT */
/* Collects chunks that other threads freed, for owners that sleep; see collect.h. */
#include "context/collect.h"
#include "context/internal.h"

#define PAGES_MAX 512U      /* most pages of one visit */
#define RAN_MOST_NS 1000000 /* an owner that ran for longer between two looks does not sleep */
/* A visit is fruitless if the owner is inside the allocator, or if only the owner can collect the
 * listed pages (may_collect in region/remote.c). After FRUITLESS_MAX fruitless visits in a row, a
 * look leaves the heap. If no visit of a look was fruitful, the next RESTS looks leave the heap
 * out. */
#define FRUITLESS_MAX 4
#define RESTS 16

unsigned collect_visit(struct heap *heap) {
    int64_t waste = 0;
    unsigned count = 0;
    if (visit_begin(heap)) {
        struct page *taken = remote_announce(heap, PAGES_MAX);
        count = remote_collect(heap, taken, visit_owner_is_outside(heap), &waste);
    }
    add_relaxed(&heap_global.own_free, waste);
    visit_end(heap);
    return count;
}

/* True if the owner used hardly any processor time since the last call. */
static bool slept(struct heap *heap) {
    uint64_t before = heap->ran_ns, now = os_other_cpu_ns(load_relaxed(&heap->tid));
    heap->ran_ns = now;
    return now && now - before <= RAN_MOST_NS;
}

/* Visits a heap until its list is empty, the time is over, or FRUITLESS_MAX visits in a row have
 * collected nothing. True: the time is over, and pages are left. */
static bool collect_all(struct heap *heap, uint64_t until_ns) {
    unsigned fruitless = 0;
    bool any = false, over = false;
    while (load_relaxed(&heap->remote_pages) && fruitless < FRUITLESS_MAX && !over) {
        lock_take(&heap_global.lock);
        bool collected = load_acquire(&heap->state) == HEAP_OWNED && collect_visit(heap);
        lock_release(&heap_global.lock);
        fruitless = collected ? 0 : fruitless + 1;
        any |= collected;
        over = os_now_exact_ns() >= until_ns;
    }
    heap->rests = any ? 0 : RESTS;
    return over && any && load_relaxed(&heap->remote_pages);
}

bool collect_look(bool all, uint64_t until_ns) {
    bool left = false;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        if (load_acquire(&heap->state) != HEAP_OWNED || !load_relaxed(&heap->remote_pages))
            continue;
        bool rests = heap->rests && heap->rests--;
        if ((!slept(heap) || rests) && !all)
            continue;
        if (os_now_exact_ns() >= until_ns)
            return true;
        left |= collect_all(heap, until_ns);
    }
    return left;
}
