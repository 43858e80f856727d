/* SPDX-License-Identifier: MIT */
/*
 * Allocations in named contexts, and the current context of a thread: the functions of memctx.h
 * that a program calls most often. Each tests for the common case inline, as malloc does (fast.h).
 */
#include "api/contexts.h"
#include "context/tree.h"

#include <errno.h>

static memctx_t handle_of(const struct view *view) {
    return view ? named_handle((uint32_t)tree_node(view->context)->address) : NULL;
}

EXPORT memctx_t memctx_do_switch(memctx_t context) {
    struct heap *heap = context_enter();
    if (!heap)
        return NULL;
    memctx_t before = handle_of(context_switched(heap));
    const struct named *to = context ? named_mine(heap, context, "memctx_switch") : NULL;
    if (LIKELY(to || !context)) /* if memory is short, the current context stays */
        context_switch(heap, to ? to->view : NULL);
    thread_leave(heap);
    return before;
}

EXPORT memctx_t memctx_do_current(void) {
    struct heap *heap = context_enter();
    if (!heap)
        return NULL;
    memctx_t current = handle_of(context_switched(heap));
    thread_leave(heap);
    return current;
}

/* Allocates in a context with the policy simple. */
NOINLINE static void *allocate_listed(struct heap *heap, struct view *view, size_t size,
                                      enum allocate_how how, uintptr_t frame) {
    bool fresh = false;
    void *chunk = region_alloc_listed(heap, view, size, &fresh);
    return chunk ? allocate_done(heap, view, size, how, frame, chunk, fresh)
                 : allocate_page_used_up(heap, view, size, how, frame);
}

/* Allocates in a context of this thread that is no member of a crowd. Each case that this function
 * does not serve itself ends in a tail call, so that the common cases save no callee-saved
 * register. */
INLINE void *allocate_by_policy(struct heap *heap, const struct named *named, size_t size,
                                enum allocate_how how, uintptr_t frame) {
    struct view *view = named->view;
    /* Generation and bump: the chunk comes directly behind the last one. */
    if (named->policy >= MEMCTX_GENERATION && size <= SMALL_MAX && view->bins == view->region &&
        UNLIKELY(view->bins->recipe & RECIPE_SERIAL)) {
        bool fresh = false;
        void *chunk = serial_alloc_like_last(view, size, &fresh);
        return LIKELY(chunk != NULL) ? allocate_done(heap, view, size, how, frame, chunk, fresh)
                                     : allocate_page_used_up(heap, view, size, how, frame);
    }
    if (UNLIKELY(options.check) || UNLIKELY(size > SMALL_MAX))
        return allocate_entered(heap, view, size, 1, how, frame);
    if (named->policy == MEMCTX_SIMPLE)
        return allocate_listed(heap, view, size, how, frame);
    if (UNLIKELY(size > NARROW_MAX))
        return allocate_wide_block(heap, view, size, how, frame);
    return allocate_narrow(heap, view, size, how, frame);
}

/* Slow path of memctx_alloc and memctx_zalloc. Either the thread has not entered (`heap` is NULL),
 * or the handle names no ordinary context of this thread. It then names a member of a crowd, a
 * former member or another thread's context, or is invalid. */
NOINLINE static void *allocate_crowd_or_foreign(struct heap *heap, memctx_t context, size_t size,
                                                enum allocate_how how, uintptr_t frame) {
    if (!heap && !(heap = context_enter()))
        return allocate_not_entered(size, how, frame);
    bool fresh = false;
    const char *what = how == ALLOCATE_ZEROED ? "memctx_zalloc" : "memctx_alloc";
    const struct named *crowd = named_my_crowd(heap, context, what), *named;
    uint32_t number = named_place(context) & ~NAMED_MEMBER;
    void *chunk = crowd ? named_alloc_in_member(heap, crowd->view, number, size, &fresh) : NULL;
    if (chunk)
        return allocate_done(heap, crowd->view, size, how, frame, chunk, fresh);
    if ((named = named_mine(heap, context, what)))
        return allocate_by_policy(heap, named, size, how, frame);
    thread_leave(heap);
    errno = ENOMEM;
    return NULL;
}

INLINE void *allocate_in_context(memctx_t context, size_t size, enum allocate_how how,
                                 uintptr_t frame) {
    struct heap *heap = thread_enter();
    const struct named *named = LIKELY(heap != NULL) ? named_find_placed(context) : NULL;
    if (UNLIKELY(!named) || UNLIKELY(named->heap != heap))
        return allocate_crowd_or_foreign(heap, context, size, how, frame);
    return allocate_by_policy(heap, named, size, how, frame);
}

EXPORT void *memctx_do_alloc(memctx_t context, size_t size) {
    return allocate_in_context(context, size, ALLOCATE_PLAIN, FRAME);
}

EXPORT void *memctx_do_zalloc(memctx_t context, size_t size) {
    return allocate_in_context(context, size, ALLOCATE_ZEROED, FRAME);
}

EXPORT void *memctx_do_alloc_aligned(memctx_t context, size_t alignment, size_t size) {
    if (!is_power_of_two(alignment) || size > REGION_SIZE_MAX) {
        errno = is_power_of_two(alignment) ? ENOMEM : EINVAL;
        return NULL;
    }
    if (alignment <= 16)
        return allocate_in_context(context, size, ALLOCATE_PLAIN, FRAME);
    struct heap *heap;
    const struct named *named = context_enter_mine(&heap, context, "memctx_alloc_aligned");
    if (named)
        return allocate_entered(heap, named->view, size, alignment, ALLOCATE_PLAIN, FRAME);
    errno = ENOMEM;
    return NULL;
}

EXPORT memctx_t memctx_do_owner(const void *chunk) {
    struct heap *heap = context_enter();
    if (!heap)
        return NULL;
    memctx_t owner = named_owner(heap, chunk);
    thread_leave(heap);
    return owner;
}
