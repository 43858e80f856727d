/* SPDX-License-Identifier: MIT */
/*
 * sums.c - sums over the views of all heaps, and resets: the requests that need not look at pages.
 *
 * A context is added up when a client asks for it, so no sums are stored, however many contexts
 * there are.
 */
#include "context/tree.h"
#include "control/control.h"
#include "region/heap.h"

/*
 * While threads run, a chunk may be allocated in one view and freed in another between the readings
 * of the two. So the views of one context are read together, all frees before all allocations:
 * every free then has its allocation, and the live bytes are too high by no more than the frees of
 * the few nanoseconds between. The list of views is walked twice, because a view that did not exist
 * in the first walk may have allocated a chunk that another view had freed then.
 */
#define TRIES_MAX 8U /* the reader may have been preempted */

static bool resets_made; /* control thread only */

void sums_begin(void) {
    lock_take(&heap_global.lock); /* no thread's numbers move to the totals meanwhile */
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
        resets_made ? heap_baseline(heap, view->index, TABLES_UNCOUNTED) : NULL;
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

/* Adds the allocations of the view; returns its number of frees by now. */
static int64_t add_allocs(struct sum *sum, const struct view *view) {
    int64_t allocs = (int64_t)load_acquire(&view->allocs);
    int64_t bytes = (int64_t)load_acquire(&view->requested_cum_bytes);
    int64_t peak = load_relaxed(&view->peak_bytes);
    int64_t frees = (int64_t)load_acquire(&view->frees);
    sum->allocs += allocs;
    sum->requested_cum_bytes += bytes;
    sum->live_bytes += bytes;
    sum->views += allocs || frees;
    if (allocs || frees)
        sum->peak_bytes = peak;
    return frees;
}

/* Returns the heap's place in parts, or `whole`; NULL: the heap's part is not asked for. */
static struct sum *part_of(struct sums_parts *parts, struct sum *whole, const struct heap *heap) {
    uint32_t number = heap->number - (parts ? parts->first : 0);
    if (!parts)
        return whole;
    return number < parts->count ? &parts->list[number] : NULL;
}

/* Reads all views once; returns the number of frees by the end of the reading. */
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
        frees_after += add_allocs(part, view);
        add_base(part, walk.heap, view);
    }
    return frees_after;
}

static void add_sum(struct sum *sum, const struct sum *part) {
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
            add_sum(sum, &parts->list[i]);
        if (frees_after - sum->frees <= (int64_t)sum->views)
            break;
    }
}

struct sum sums_of(uint32_t context) {
    struct sum sum;
    sums_begin();
    sums_read(context, &sum, NULL);
    sums_end();
    return sum;
}

struct sum sums_base(uint32_t context) {
    struct heap_views walk = heap_views_of(context);
    struct sum sum = {0};
    const struct view *view;
    while (resets_made && (view = heap_views_next(&walk)))
        add_base(&sum, walk.heap, view);
    return sum;
}

struct sum sums_all(void) {
    struct sum sum = {0};
    lock_take(&heap_global.lock);
    for (int round = 0; round < 2; round++)
        for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
            uint32_t views = load_acquire(&heap->view_count);
            for (uint32_t i = 1; i < views; i++) {
                const struct view *view = heap_view_at(heap, i);
                if (round == 0)
                    add_frees(&sum, view);
                else
                    add_allocs(&sum, view);
            }
        }
    lock_release(&heap_global.lock);
    return sum;
}

/* --- resets ----------------------------------------------------------------------------------- */

/* True for the root and its descendants; a parent's id is lower than its children's. */
static bool is_below(uint32_t id, uint32_t root) {
    while (id > root)
        id = tree_node(id)->parent;
    return id == root;
}

static bool reset_view(struct heap *heap, uint32_t index) {
    struct view *view = heap_view_at(heap, index);
    struct baseline *base = heap_baseline(heap, index, TABLES_SITE);
    if (!base)
        return false;
    base->allocs = load_relaxed(&view->allocs);
    base->frees = load_relaxed(&view->frees);
    base->requested_cum_bytes = load_relaxed(&view->requested_cum_bytes);
    /* The owner may write a higher peak at the same time: the peak is off by the chunks in
     * flight. */
    store_owner(&view->peak_bytes, view_live_bytes(view));
    return true;
}

struct reset {
    uint32_t root, count; /* the subtree; its ids are below count */
    uint64_t views;       /* views that were reset, or would be */
    int64_t bytes;        /* memory that the reset needs and does not have yet */
};

/* Resets each view of the subtree. only_look: counts the memory that this needs. False: out of
 * memory. */
static bool reset_heap(struct heap *heap, struct reset *reset, bool only_look) {
    uint32_t views = load_acquire(&heap->view_count), block = UINT32_MAX;
    for (uint32_t i = 1; i < views; i++) {
        const struct view *view = heap_view_at(heap, i);
        if (view->context >= reset->count || (reset->root && !is_below(view->context, reset->root)))
            continue;
        reset->views++;
        if (!only_look && !reset_view(heap, i))
            return false;
        if (only_look && i / BASELINES_PER_BLOCK != block &&
            !heap_baseline(heap, i, TABLES_UNCOUNTED))
            reset->bytes += BASELINE_BLOCK_BYTES;
        block = i / BASELINES_PER_BLOCK;
    }
    return true;
}

static bool reset_heaps(struct reset *reset, bool only_look) {
    bool done = true;
    reset->views = 0;
    lock_take(&heap_global.lock);
    for (struct heap *heap = load_acquire(&heap_global.first); heap && done; heap = heap->next)
        done = reset_heap(heap, reset, only_look);
    lock_release(&heap_global.lock);
    return done;
}

static uint32_t refuse_reset(struct text *text, const struct reset *reset) {
    text_add(text, "no room for the reset; it keeps ");
    text_add_kib(text, (uint64_t)reset->bytes);
    text_add(text, " of counters of ");
    text_add_number(text, (int64_t)reset->views);
    text_add(text, " contexts in the tables (MEMCTX_TABLES); reset a smaller part, or use memctx "
                   "dump TARGET -o FILE now and memctx diff FILE TARGET later");
    return WIRE_REFUSED;
}

static uint32_t reset_all(const struct wire_reset_request *request, struct text *text) {
    struct reset reset = {
        .root = request->context == WIRE_NONE ? TREE_ROOT : request->context,
        .count = tree_count(),
    };
    if (!tree_is_id(reset.root)) {
        text_add(text, "no context has this id");
        return WIRE_REFUSED;
    }
    /* All or none, so that no client takes counters of different times for counters of one time. */
    reset_heaps(&reset, true);
    if (!asked_fits(reset.bytes))
        return refuse_reset(text, &reset);
    asked_bytes += reset.bytes;
    resets_made = true;
    marks_forget_counters();
    if (!reset_heaps(&reset, false))
        return refuse_reset(text, &reset);
    text_add(text, "counters and peaks of ");
    text_add_number(text, (int64_t)reset.views);
    text_add(text, " contexts were reset; no chunk was freed");
    return WIRE_OK;
}

/* The figures stay where they are meanwhile, so the views that are reset are the views that were
 * counted. */
uint32_t reset_run(const struct wire_reset_request *request, struct text *text) {
    uint64_t read_until_ns = load_relaxed(&tree_read_until_ns);
    store_release(&tree_read_until_ns, UINT64_MAX);
    uint32_t status = reset_all(request, text);
    store_release(&tree_read_until_ns, read_until_ns);
    return status;
}
