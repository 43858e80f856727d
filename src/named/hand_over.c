/* SPDX-License-Identifier: MIT */
/* hand_over.c - contexts change their owner: memctx_give, memctx_take, the end of a thread. A
 * context that belongs to no thread belongs to the shared heap; any thread can take such a context.
 */
#include "context/lookup.h"
#include "context/tree.h"
#include "named/internal.h"
#include "region/region.h"

/* Gives a crowd to the heap `to`. False: no memory for the crowd's view in that heap. The caller
 * holds heap_global.lock, and the lock of each heap that does not belong to the calling thread. */
static bool move_crowd(struct named *crowd, struct heap *to) {
    struct view *view = heap_view_within(to, crowd->context, TABLES_UNCOUNTED);
    if (!view || view->context != crowd->context)
        return false;
    crowd->view = view;
    store_release(&crowd->heap, to);
    return true;
}

/* Like move_crowd, but for a context that is no crowd: its chunks move, too. */
static bool move_to(struct named *named, struct heap *from, struct heap *to) {
    struct view *view = heap_view_within(to, named->context, TABLES_UNCOUNTED);
    if (!view || view->context != named->context)
        return false;
    region_move(from, named->view, to, view);
    named->view = view;
    store_release(&named->heap, to);
    return true;
}

/* Takes heap_global.lock and the shared heap's lock, and returns the shared heap. NULL: the thread
 * holds the shared heap's lock already, or there is no memory for the shared heap's first view,
 * which pays for everything that cannot be charged elsewhere. */
static struct heap *lock_both(void) {
    lock_take(&heap_global.lock);
    struct heap *shared = heap_shared_lock();
    if (shared && context_view_fixed(shared, TREE_UNKNOWN))
        return shared;
    if (shared)
        heap_shared_unlock(shared);
    lock_release(&heap_global.lock);
    return NULL;
}

static void unlock_both(struct heap *shared) {
    heap_shared_unlock(shared);
    lock_release(&heap_global.lock);
}

bool named_give(struct heap *heap, struct named *named) {
    struct heap *shared = lock_both();
    bool given = shared && move_to(named, heap, shared);
    if (shared)
        unlock_both(shared);
    return given;
}

void named_leave(struct heap *heap) {
    struct heap *shared = load_relaxed(&region_named_any) ? lock_both() : NULL;
    if (!shared)
        return;
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        const struct view *view = heap_view_at(heap, i);
        struct named *named = tree_is_named(view->context)
                                  ? named_at((uint32_t)tree_node(view->context)->address)
                                  : NULL;
        if (!named)
            continue;
        bool is_crowd = named->policy == NAMED_CROWD;
        /* The view is read last. Another thread that takes over an empty crowd, or a place that was
         * given up, sets the view first. Only after that does the crowd have members, or the place
         * a context that is alive. */
        bool in_use =
            is_crowd ? load_acquire(&named->members) : load_acquire(&named->generation) & 1;
        if (!in_use || load_relaxed(&named->view) != view)
            continue;
        /* if memory is short, the context stays in the ended thread's heap */
        if (is_crowd)
            (void)move_crowd(named, shared);
        else
            (void)move_to(named, heap, shared);
    }
    unlock_both(shared);
}

bool named_take(struct heap *heap, struct named *named) {
    struct heap *shared = lock_both(), *owner = load_acquire(&named->heap);
    bool nobodys = owner == shared, taken = owner == heap;
    if (!shared)
        return false;
    if (nobodys)
        taken = move_to(named, owner, heap);
    heap_shared_unlock(shared);
    /* If the owner's thread has ended, its heap is parked. */
    if (!nobodys && !taken) {
        lock_take(&owner->lock);
        nobodys = load_acquire(&owner->state) == HEAP_PARKED;
        taken = nobodys && move_to(named, owner, heap);
        lock_release(&owner->lock);
    }
    lock_release(&heap_global.lock);
    if (!nobodys && !taken)
        named_misused("memctx_take", named_handle((uint32_t)tree_node(named->context)->address),
                      "belongs to another thread; that thread has to call memctx_give first");
    return taken;
}

struct named *named_grow_of_nobody(memctx_t handle) {
    struct heap *shared = lock_both();
    if (!shared)
        return NULL;
    struct named *crowd = named_crowd_of(handle), *grown = NULL;
    struct heap *owner = crowd ? load_acquire(&crowd->heap) : NULL;
    bool nobodys = owner == shared;
    if (nobodys)
        grown = crowd_grow(handle, crowd);
    heap_shared_unlock(shared);
    /* If the owner's thread has ended, its heap is parked. */
    if (owner && !nobodys) {
        lock_take(&owner->lock);
        nobodys = load_acquire(&owner->state) == HEAP_PARKED;
        grown = nobodys ? crowd_grow(handle, crowd) : NULL;
        lock_release(&owner->lock);
    }
    lock_release(&heap_global.lock);
    if (!nobodys)
        named_misused("memctx_take", handle,
                      "belongs to another thread; that thread has to call memctx_give first");
    return grown;
}
