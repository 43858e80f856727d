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
    if (!oracle_is_loaded() || view->context < TREE_FIXED_COUNT)
        return;
    uintptr_t addresses[MEMCTX_DEPTH_MAX];
    unsigned count = 0;
    uint32_t id = view->context;
    for (; id >= TREE_FIXED_COUNT && count < MEMCTX_DEPTH_MAX; id = tree_node(id)->parent)
        addresses[count++] = tree_node(id)->address;
    enum walk_end end = id == TREE_ROOT ? WALK_COMPLETE : WALK_TRUNCATED;
    oracle_compare(addresses, count, end);
}

static struct view *miss(struct heap *heap, uintptr_t frame, struct trace *near, uint32_t at) {
    struct paths *paths = heap->paths;
    struct walk walk; /* 5 KiB of stack, on misses only */
    walk_stack(&walk, frame, (unsigned)load_relaxed(&options.depth), &paths->stack);
    store_owner(&paths->missed, paths->missed + 1);
    uint32_t context = tree_intern(&walk);
    struct view *view = context_view_fixed(heap, context);
    if (view && view->context == context)
        cache_insert(paths, &walk, view, frame + 16, near, at);
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
    }
    if (!load_relaxed(&options.depth)) {
        struct view *view = context_view_fixed(heap, TREE_NO_PATHS);
        if (view && view->context == TREE_NO_PATHS)
            paths->fixed = view;
        return view;
    }
    struct trace *near = NULL;
    uint32_t at = 0;
    uintptr_t sp = frame + 16;
    uintptr_t address = *(const uintptr_t *)(frame + 8);
    struct trace *trace = cache_search(paths, address, sp, &near, &at);
    struct view *view;
    if (trace) {
        view = trace->view;
        store_owner(&paths->searched, paths->searched + 1);
    } else {
        view = miss(heap, frame, near, at);
    }
    if (UNLIKELY(load_relaxed(&options.verify)) && view)
        verify(heap, view);
    return view;
}

void context_forget(struct heap *heap) {
    if (!heap->paths)
        return;
    cache_flush(heap->paths);
    heap->paths->stack = (struct walk_stack){0, 0};
}

#define OUTERMOST_LIBC_FRAMES 3 /* clone, start_thread; __libc_start_main and its helper */

bool context_outside_libc(uintptr_t frame) {
    struct walk walk;
    struct walk_stack stack = {0, 0};
    walk_stack(&walk, frame, MEMCTX_DEPTH_MAX, &stack);
    if (walk.end == WALK_BROKEN || walk.end == WALK_TRUNCATED)
        return false;
    unsigned inner = walk.frame_count > OUTERMOST_LIBC_FRAMES
                         ? walk.frame_count - OUTERMOST_LIBC_FRAMES
                         : 0;
    for (unsigned i = 0; i < walk.frame_count; i++) {
        const struct module *module = rules_module(walk.frames[i].module);
        if (module && module->loader && i < (inner ? inner : 1))
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
        sum.searched += load_relaxed(&paths->searched);
        sum.missed += load_relaxed(&paths->missed);
        sum.flushed += load_relaxed(&paths->flushed);
        sum.traces += load_relaxed(&paths->trace_count);
        sum.cache_bytes += load_relaxed(&paths->arena_bytes);
    }
    return sum;
}
