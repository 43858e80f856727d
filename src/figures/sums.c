/* SPDX-License-Identifier: MIT */
/* sums.c - adds up a context over the views of all heaps while threads allocate; see sums.h. */
#include "figures/sums.h"
#include "region/heap.h"

#include <memctx/wire.h>

/*
 * While threads run, a chunk may be allocated in one view and freed in another between the readings
 * of the two views. So first the frees of all views of one context are read, then the allocations
 * of all views. Every free that was read then has its allocation. The live bytes are too high at
 * most by the frees of the few nanoseconds between the two readings. The list of views is walked
 * anew for the allocations, because a thread could make a new view during the first walk and
 * allocate a chunk there. The first walk may have read the free of this chunk in another view.
 */
/* Greatest number of readings of one context. A reading is repeated when the threads freed more
 * chunks meanwhile than the context has views: the reader may have been preempted. */
#define TRIES_MAX 8U

uint32_t sums_resets;

void sums_begin(void) {
    lock_take(&heap_global.lock); /* while it is held, no heap is parked or adopted */
    heap_read_begin();
}

void sums_end(void) {
    heap_read_end();
    lock_release(&heap_global.lock);
}

void sums_pause(uint32_t steps) {
    if (steps % SUMS_STEPS)
        return;
    sums_end();
    sums_begin();
}

static void add_base(struct sum *sum, struct heap *heap, const struct view *view) {
    const struct baseline *base =
        sums_resets ? heap_baseline(heap, view->index, TABLES_UNCOUNTED) : NULL;
    if (!base)
        return;
    sum->base_allocs += (int64_t)base->allocs;
    sum->base_frees += (int64_t)base->frees;
    sum->base_requested_cum_bytes += (int64_t)base->requested_cum_bytes;
}

/* Adds the frees of the view. */
static void add_frees(struct sum *sum, const struct view *view) {
    sum->frees += (int64_t)load_acquire(&view->frees);
    sum->live_bytes -= (int64_t)load_acquire(&view->freed_cum_bytes);
}

/* Adds the allocations of the view; returns how many frees the view has counted by now. The view
 * for ended threads has no peak: each thread added only the bytes that were live when it ended. */
static int64_t add_allocs(struct sum *sum, const struct heap *heap, const struct view *view) {
    int64_t allocs = (int64_t)load_acquire(&view->allocs);
    int64_t bytes = (int64_t)load_acquire(&view->requested_cum_bytes);
    int64_t peak = load_relaxed(&view->peak_bytes);
    int64_t frees = (int64_t)load_acquire(&view->frees);
    sum->allocs += allocs;
    sum->requested_cum_bytes += bytes;
    sum->live_bytes += bytes;
    sum->views += allocs || frees;
    if (allocs || frees)
        sum->peak_bytes = heap == load_relaxed(&heap_global.totals) ? WIRE_UNKNOWN : peak;
    return frees;
}

/* Returns the sum that a heap's views are added to: an element of `parts`, or without parts
 * `whole`. NULL: the heap is not among the parts. */
static struct sum *part_of(struct sums_parts *parts, struct sum *whole, const struct heap *heap) {
    uint32_t number = heap->number - (parts ? parts->first : 0);
    if (!parts)
        return whole;
    return number < parts->count ? &parts->list[number] : NULL;
}

/* Reads all views once; returns how many frees they had counted when the reading ended. */
static int64_t read_once(uint32_t context, struct sum *sum, struct sums_parts *parts) {
    struct heap_views walk = heap_views_of(context);
    const struct view *view;
    int64_t frees_after = 0;
    *sum = (struct sum){0};
    if (parts)
        __builtin_memset(parts->list, 0, parts->count * sizeof parts->list[0]);
    while ((view = heap_views_next(&walk))) {
        struct sum *part = part_of(parts, sum, walk.heap);
        if (part)
            add_frees(part, view);
    }
    walk = heap_views_of(context);
    while ((view = heap_views_next(&walk))) {
        struct sum *part = part_of(parts, sum, walk.heap);
        if (!part)
            continue;
        frees_after += add_allocs(part, walk.heap, view);
        add_base(part, walk.heap, view);
    }
    return frees_after;
}

void sums_add(struct sum *sum, const struct sum *part) {
    sum->allocs += part->allocs;
    sum->frees += part->frees;
    sum->live_bytes += part->live_bytes;
    sum->requested_cum_bytes += part->requested_cum_bytes;
    sum->base_allocs += part->base_allocs;
    sum->base_frees += part->base_frees;
    sum->base_requested_cum_bytes += part->base_requested_cum_bytes;
    sum->views += part->views;
    if (part->views)
        sum->peak_bytes = part->peak_bytes;
}

void sums_read(uint32_t context, struct sum *sum, struct sums_parts *parts) {
    for (unsigned try = 0; try < TRIES_MAX; try++) {
        int64_t frees_after = read_once(context, sum, parts);
        for (uint32_t i = 0; parts && i < parts->count; i++)
            sums_add(sum, &parts->list[i]);
        if (frees_after - sum->frees <= (int64_t)sum->views)
            break;
    }
}

struct sum sums_base(uint32_t context) {
    struct heap_views walk = heap_views_of(context);
    struct sum sum = {0};
    const struct view *view;
    while (sums_resets && (view = heap_views_next(&walk)))
        add_base(&sum, walk.heap, view);
    return sum;
}

struct sum sums_all(void) {
    struct sum sum = {0};
    lock_take(&heap_global.lock);
    for (int round = 0; round < 2; round++)
        for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
            uint32_t views = load_acquire(&heap->view_count);
            for (uint32_t i = 1; i < views; i = heap_view_after(heap, i)) {
                const struct view *view = heap_view_at(heap, i);
                if (round == 0)
                    add_frees(&sum, view);
                else
                    add_allocs(&sum, heap, view);
            }
        }
    lock_release(&heap_global.lock);
    return sum;
}
