/* SPDX-License-Identifier: MIT */
/* resets.c - `memctx reset`: lets counters and peaks of contexts start anew. Nothing is freed; each
 * view keeps a baseline, which dumps subtract. */
#include "control/resets.h"
#include "context/tree.h"
#include "control/marks.h"
#include "figures/sums.h"
#include "region/resizes.h"

/* True for `root` and its descendants. A parent's id is lower than its children's ids. */
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
    /* The owner may write a higher peak at the same time. The peak then may be off by the chunks
     * that the owner is just allocating. */
    store_owner(&view->peak_bytes, view_live_bytes(view));
    return true;
}

/* The owner may count a realloc at the same time, which then counts before or after the reset. */
static void reset_resizes(struct view_resizes *entry) {
#define X(name) entry->base.name = load_relaxed(&entry->counts.name);
    RESIZE_COUNTS(X)
#undef X
}

struct reset {
    uint32_t root, count; /* root of the subtree; ids from `count` on are left alone */
    int64_t bytes;        /* memory that new baselines need */
};

static bool concerns(const struct reset *reset, const struct view *view) {
    return view->context < reset->count && (!reset->root || is_below(view->context, reset->root));
}

static void reset_resizes_of(struct heap *heap, const struct reset *reset) {
    struct resizes *all = load_acquire(&heap->resizes);
    for (struct resizes_block *block = all ? &all->first : NULL; block;
         block = load_acquire(&block->next)) {
        uint32_t used = load_acquire(&block->used);
        for (uint32_t i = 0; i < used; i++)
            if (block->list[i].counts.reallocs &&
                concerns(reset, heap_view_at(heap, block->list[i].view_index)))
                reset_resizes(&block->list[i]);
    }
}

/* A reset goes over the views three times, so that it is refused for lack of room before the first
 * view is reset. */
enum reset_pass { RESET_COUNTS_ROOM, RESET_MAKES_ROOM, RESET_RESETS };

/* Makes a pass over the views of the subtree. RESET_COUNTS_ROOM adds to reset->bytes the memory of
 * the baselines that are missing, RESET_MAKES_ROOM the memory of the baselines that it makes.
 * False: out of memory. */
static bool reset_heap(struct heap *heap, struct reset *reset, enum reset_pass pass) {
    uint32_t views = load_acquire(&heap->view_count), block = UINT32_MAX;
    for (uint32_t i = 1; i < views; i = heap_view_after(heap, i)) {
        const struct view *view = heap_view_at(heap, i);
        if (!concerns(reset, view))
            continue;
        bool makes = pass != RESET_RESETS && i / BASELINES_PER_BLOCK != block &&
                     !heap_baseline(heap, i, TABLES_UNCOUNTED);
        block = i / BASELINES_PER_BLOCK;
        if (pass == RESET_MAKES_ROOM && makes && !heap_baseline(heap, i, TABLES_SITE))
            return false;
        reset->bytes += makes ? BASELINE_BLOCK_BYTES : 0;
        if (pass == RESET_RESETS && !reset_view(heap, i))
            return false;
    }
    if (pass == RESET_RESETS)
        reset_resizes_of(heap, reset);
    return true;
}

static bool reset_heaps(struct reset *reset, enum reset_pass pass) {
    bool done = true;
    lock_take(&heap_global.lock);
    for (struct heap *heap = load_acquire(&heap_global.first); heap && done; heap = heap->next)
        done = reset_heap(heap, reset, pass);
    lock_release(&heap_global.lock);
    return done;
}

static uint32_t refuse_reset(struct text *text, const struct reset *reset) {
    text_add(text, "no room for the reset; it keeps ");
    text_add_kib(text, (uint64_t)reset->bytes);
    text_add(text,
             " of counters in the tables (MEMCTX_TABLES); reset a smaller part, or use memctx "
             "dump TARGET -o FILE now and memctx diff FILE TARGET later");
    return WIRE_REFUSED;
}

static uint32_t reset_all(const struct wire_reset_request *request, struct text *text) {
    struct reset reset = {
        .root = request->context == WIRE_NONE ? TREE_ROOT : request->context,
        .count = tree_count(),
    };
    if (!tree_is_id(reset.root)) {
        text_add(text, "no context has the number ");
        text_add_number(text, request->context);
        text_add(text, "; memctx dump --json TARGET shows the numbers");
        return WIRE_REFUSED;
    }
    /* Reset all views or none: counters that begin at different times cannot be compared. */
    reset_heaps(&reset, RESET_COUNTS_ROOM);
    struct reset made = reset;
    made.bytes = 0;
    if (!asked_fits(reset.bytes))
        return refuse_reset(text, &reset);
    bool has_room = reset_heaps(&made, RESET_MAKES_ROOM);
    asked_bytes += made.bytes; /* also if the reset is refused: the baselines stay */
    if (!has_room)
        return refuse_reset(text, &reset);
    sums_resets++;
    marks_forget_counters();
    if (!reset_heaps(&reset, RESET_RESETS))
        return refuse_reset(text, &reset);
    text_add(text, "counters and peaks were reset; no chunk was freed");
    return WIRE_OK;
}

/* While tree_read_until_ns is set, no figures move between views. So the views that are reset are
 * the views that were counted. */
uint32_t reset_run(const struct wire_reset_request *request, struct text *text) {
    uint64_t read_until_ns = load_relaxed(&tree_read_until_ns);
    store_release(&tree_read_until_ns, UINT64_MAX);
    uint32_t status = reset_all(request, text);
    store_release(&tree_read_until_ns, read_until_ns);
    return status;
}
