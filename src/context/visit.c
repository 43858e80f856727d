/* SPDX-License-Identifier: MIT */
/* Evicts views, and gives back caches, in heaps that no thread uses at the moment: parked heaps,
 * the shared heap, and heaps of threads outside the allocator. Also begins and ends the visits of
 * holes.c and collect.c. See evict.h. */
#include "context/admit.h"
#include "context/internal.h"
#include "context/replay.h"
#include "context/tree.h"

/* The number of live chunks of each context in all heaps, counted by find_alive during a sweep. */
static struct {
    uint32_t *counts; /* by the context's id; NULL: not counted */
    uint32_t count;   /* length of `counts` */
} alive;

bool visit_has_caches(struct heap *heap) {
    const struct paths *paths = paths_of(heap);
    return paths->traces || paths->replays || paths->admission;
}

bool visit_heap_is_idle(struct heap *heap) {
    uint32_t kind = load_acquire(&heap->state);
    return kind == HEAP_TOTALS || (kind == HEAP_PARKED && !visit_has_caches(heap));
}

/* Adds the allocations of all views to alive.counts, or subtracts the frees. */
static void add_to_alive(bool frees) {
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t views = load_acquire(&heap->view_count);
        for (uint32_t i = 1; i < views; i = heap_view_after(heap, i)) {
            const struct view *view = heap_view_at(heap, i);
            uint32_t context = load_relaxed(&view->context);
            if (!context || context >= alive.count)
                continue;
            if (frees)
                alive.counts[context] -= (uint32_t)load_acquire(&view->frees);
            else
                alive.counts[context] += (uint32_t)load_acquire(&view->allocs);
        }
    }
}

void visit_forget_alive(void) {
    if (alive.counts)
        os_unmap(alive.counts, align_up(alive.count * sizeof *alive.counts, OS_PAGE_BYTES));
    alive.counts = NULL;
    alive.count = 0;
}

/* Counts the live chunks of each context. All frees are read before all allocations. So if the
 * count of a context is 0, there was a moment between the two readings when none of its chunks was
 * alive. A heap whose owner has allocated nothing since that moment has no live chunk of the
 * context. If memory is short, no context has a count. */
static void find_alive(void) {
    uint32_t count = tree_count();
    if (alive.counts && alive.count >= count) {
        __builtin_memset(alive.counts, 0, alive.count * sizeof *alive.counts);
    } else {
        visit_forget_alive();
        alive.counts = os_map(align_up(count * sizeof *alive.counts, OS_PAGE_BYTES));
        alive.count = alive.counts ? count : 0;
    }
    if (!alive.counts)
        return;
    add_to_alive(true);
    add_to_alive(false);
}

bool visit_none_is_alive(uint32_t id) {
    return id < alive.count && !alive.counts[id];
}

void visit_end_caches(struct heap *heap) {
    struct paths *paths = paths_of(heap);
    evict_changed(heap);
    cache_end(paths, true);
    admit_end(paths);
    replay_end(paths);
}

void visit_idle(bool now) {
    uint32_t probes = PROBES_MAX;
    bool found = false;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t kind = load_acquire(&heap->state);
        if (!found && (kind == HEAP_TOTALS || kind == HEAP_PARKED)) {
            /* one count serves all heaps: none is parked or adopted while heap_global.lock is
             * held */
            find_alive();
            found = true;
        }
        if (kind == HEAP_TOTALS) {
            evict_views(heap, heap, NULL);
        } else if ((visit_heap_is_idle(heap) ||
                    (now && (kind == HEAP_PARKED || kind == HEAP_SHARED))) &&
                   lock_try(&heap->lock)) {
            bool still = load_acquire(&heap->state) == kind;
            if (still && now && visit_has_caches(heap)) {
                visit_end_caches(heap);
                if (kind == HEAP_PARKED)
                    heap_keep_less(heap);
            }
            if (still && now && kind == HEAP_PARKED && heap_totals())
                evict_fold_rested(heap, heap_global.totals);
            if (still && (now || visit_heap_is_idle(heap)) && heap_totals())
                evict_views(heap, heap_global.totals, kind == HEAP_SHARED ? &probes : NULL);
            lock_release(&heap->lock);
        }
    }
}

/* --- visits of threads outside the allocator -------------------------------------------------- */

static bool ways_are_closed(const struct heap *heap) {
    const struct paths *paths = (const struct paths *)heap->paths_room;
    return !load_relaxed(&paths->fast_generation) && !load_relaxed(&paths->replay_generation) &&
           !load_relaxed(&paths->fixed_generation);
}

/* Closes the fast ways to a view, which do not call heap_await, and makes heap_await wait. */
static void announce(struct heap *heap) {
    struct paths *paths = paths_of(heap);
    store_release(&heap->visited, 1);
    /* The owner's next free of another heap's chunk then looks up its view anew, too, and waits. */
    add_relaxed(&heap_views_epoch, 1);
    store_owner(&paths->fast_generation, 0);
    store_owner(&paths->replay_generation, 0);
    store_owner(&paths->fixed_generation, 0);
}

/* True if the owner is outside the allocator, and will wait at heap_await. See evict.h. */
static bool owner_waits(const struct heap *heap) {
    return load_acquire(&heap->state) == HEAP_OWNED && !load_acquire(&heap->busy) &&
           ways_are_closed(heap);
}

bool visit_begin(struct heap *heap) {
    lock_take(&heap_visit_lock);
    announce(heap);
    return os_barrier_in_threads() && owner_waits(heap);
}

bool visit_owner_is_outside(const struct heap *heap) {
    return os_barrier_in_threads() && !load_acquire(&heap->busy);
}

void visit_end(struct heap *heap) {
    store_release(&heap->visited, 0);
    lock_release(&heap_visit_lock);
}

/* Announces the visit to all heaps, so that one barrier serves all of them. */
void visit_sleeping(bool views) {
    struct heap *totals = heap_totals();
    lock_take(&heap_visit_lock);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        if (load_acquire(&heap->state) == HEAP_OWNED)
            announce(heap);
    bool all = os_barrier_in_threads() && totals;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        if (load_relaxed(&heap->visited) && !(all && owner_waits(heap)))
            store_release(&heap->visited, 0);
    if (views)
        find_alive(); /* no heap with `visited` set allocates from here on */
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        if (!load_relaxed(&heap->visited))
            continue;
        visit_end_caches(heap);
        if (views)
            evict_views(heap, totals, NULL);
        store_release(&heap->visited, 0);
    }
    lock_release(&heap_visit_lock);
}

void evict_caches(void) {
    if (lock_any_is_mine() || !lock_try(&heap_global.lock))
        return;
    visit_sleeping(false);
    lock_release(&heap_global.lock);
}
