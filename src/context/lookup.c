/* SPDX-License-Identifier: MIT */
/* The slow half of finding who pays: search, walk, tree, oracle; see lookup.h. */
#include "context/lookup.h"
#include "context/tree.h"
#include "path/oracle.h"

struct view *context_view_fixed(struct heap *heap, uint32_t fixed_context) {
    /* The first view stands for all that cannot be accounted elsewhere, so it is made first. */
    if (heap->view_count <= 1 && !heap_view(heap, TREE_UNKNOWN))
        return NULL;
    return heap_view(heap, fixed_context);
}

/* Every Nth path, as the tree names it, is compared with a fresh walk by libunwind. */
static void verify(struct heap *heap, const struct view *view) {
    struct paths *paths = heap->paths;
    if (paths->verify_left > 1) {
        paths->verify_left--;
        return;
    }
    paths->verify_left = (uint32_t)load_relaxed(&options.verify);
    /* The shared heap serves handlers too, and one may have interrupted libunwind. */
    if (!oracle_is_loaded() || heap->state == HEAP_SHARED || view->context < TREE_FIXED_COUNT)
        return;
    uintptr_t addresses[MEMCTX_DEPTH_MAX];
    unsigned count = 0;
    uint32_t id = view->context;
    for (; id >= TREE_FIXED_COUNT && count < MEMCTX_DEPTH_MAX; id = tree_node(id)->parent)
        addresses[count++] = tree_node(id)->address;
    oracle_compare(addresses, count, id == TREE_ROOT);
}

static uint32_t child_of(uint32_t parent, const struct stack_frame *frame) {
    return tree_child(parent, &(struct tree_frame){frame->address, frame->module, frame->exact});
}

/* The context of the stack's innermost `depth` frames. The nodes of frames that the walk kept are
 * known; only the others are looked up. */
static uint32_t context_of_stack(struct paths *paths, unsigned depth) {
    static const uint8_t roots[] = {[STACK_COMPLETE] = TREE_ROOT,
                                    [STACK_OPEN] = TREE_TRUNCATED,
                                    [STACK_NO_CFI] = TREE_NO_CFI,
                                    [STACK_BROKEN] = TREE_BROKEN};
    struct stack *stack = &paths->stack;
    unsigned valid = paths->nodes_valid < stack->kept ? paths->nodes_valid : stack->kept;
    bool whole = stack->count <= depth && stack->end != STACK_OPEN;
    unsigned first = whole ? valid : stack->count > depth ? stack->count - depth : 0;
    uint32_t id = !whole  ? (uint32_t)TREE_TRUNCATED
                  : valid ? stack->frames[valid - 1].node
                          : roots[stack->end];
    for (unsigned i = first; i < stack->count; i++) {
        id = child_of(id, &stack->frames[i]);
        if (!id) {
            paths->nodes_valid = 0;
            return TREE_UNKNOWN;
        }
        if (whole)
            stack->frames[i].node = id;
    }
    paths->nodes_valid = whole ? stack->count : valid;
    return id;
}

static struct view *miss(struct heap *heap, uintptr_t frame, unsigned slot) {
    struct paths *paths = heap->paths;
    unsigned depth = (unsigned)load_relaxed(&options.depth);
    stack_walk(&paths->stack, frame, depth);
    cache_learn_sizes(paths);
    store_owner(&paths->missed, paths->missed + 1);
    uint32_t context = context_of_stack(paths, depth);
    struct view *view = context_view_fixed(heap, context);
    if (paths->stack.end == STACK_BROKEN)
        paths->stack.count = paths->nodes_valid = 0; /* may be mended: never joined */
    else if (view && view->context == context)
        cache_keep(paths, slot, view, (uint16_t)view->index, depth);
    return view;
}

NOINLINE struct view *context_view_slow(struct heap *heap, uintptr_t frame) {
    struct paths *paths = heap->paths;
    if (!paths) {
        heap->paths = paths = cache_create();
        if (!paths)
            return context_view_fixed(heap, TREE_UNKNOWN);
    }
    uint32_t generation = load_acquire(&rules_generation);
    if (paths->generation != generation) {
        cache_flush(paths);
        paths->generation = generation;
        /* With MEMCTX_VERIFY every allocation is to come here. */
        paths->fast_generation = load_relaxed(&options.verify) ? 0 : generation;
    }
    if (!load_relaxed(&options.depth)) {
        struct view *view = context_view_fixed(heap, TREE_NO_PATHS);
        if (view && view->context == TREE_NO_PATHS)
            paths->fixed = view;
        return view;
    }
    unsigned slot = 0;
    struct view *view = NULL;
    if (UNLIKELY(
            load_relaxed(&options.verify))) { /* what the fast path would say is to be checked */
        paths->fast_generation = generation;
        view = cache_find(paths, frame);
        paths->fast_generation = 0;
    }
    if (!view)
        view = cache_search(paths, frame, &slot);
    if (!view)
        view = miss(heap, frame, slot);
    if (UNLIKELY(load_relaxed(&options.verify)) && view)
        verify(heap, view);
    return view;
}

void context_forget(struct heap *heap) {
    if (!heap->paths)
        return;
    cache_flush(heap->paths);
}

#define OUTERMOST_LIBC_FRAMES 3 /* clone, start_thread; __libc_start_main and its helper */

bool context_outside_libc(struct heap *heap, uintptr_t frame) {
    struct paths *paths = heap->paths;
    if (!paths)
        return false;
    struct stack *stack = &paths->stack;
    stack_walk(stack, frame, MEMCTX_DEPTH_MAX);
    if (paths->nodes_valid > stack->kept)
        paths->nodes_valid = stack->kept;
    if (stack->end == STACK_BROKEN || stack->end == STACK_OPEN || !stack->count)
        return false;
    for (unsigned i = 0; i < stack->count; i++) {
        const struct module *module = rules_module(stack->frames[i].module);
        if (module && module->loader && (i >= OUTERMOST_LIBC_FRAMES || i + 1 == stack->count))
            return false;
    }
    return true;
}

struct lookup_counts context_counts(void) {
    struct lookup_counts sum = {0};
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        const struct paths *paths = load_relaxed(&heap->paths);
        if (!paths)
            continue;
        sum.guessed += load_relaxed(&paths->guessed);
        sum.missed += load_relaxed(&paths->missed);
        sum.flushed += load_relaxed(&paths->flushed);
        sum.traces += load_relaxed(&paths->trace_count);
        sum.trace_bytes += load_relaxed(&paths->trace_bytes);
    }
    return sum;
}
