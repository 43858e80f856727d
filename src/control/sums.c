/* SPDX-License-Identifier: MIT */
/* Sums over the views of all heaps, marks and resets: everything that needs no look at pages. */
#include "base/options.h"
#include "context/tree.h"
#include "control/control.h"
#include "region/heap.h"

struct mark marks[WIRE_MARKS_MAX] START_PAGE;

static void add_view(struct sum *sum, struct heap *heap, const struct view *view) {
    int64_t allocs = (int64_t)load_relaxed(&view->allocs);
    int64_t frees = (int64_t)load_relaxed(&view->frees);
    if (!allocs && !frees)
        return;
    const struct baseline *base = heap_baseline(heap, view->index, false);
    sum->allocs += allocs;
    sum->frees += frees;
    sum->live_bytes += load_relaxed(&view->live_bytes);
    sum->requested_cum_bytes += (int64_t)load_relaxed(&view->requested_cum_bytes);
    if (base) {
        sum->base_allocs += (int64_t)base->allocs;
        sum->base_frees += (int64_t)base->frees;
        sum->base_requested_cum_bytes += (int64_t)base->requested_cum_bytes;
    }
    sum->peak_bytes = load_relaxed(&view->peak_bytes);
    sum->views++;
}

bool sums_collect(struct sums *sums) {
    sums->count = tree_count();
    sums->rows = control_map(sums->count * sizeof *sums->rows);
    if (!sums->rows)
        return false;
    lock_take(&heap_global.lock); /* no thread's numbers move to the totals meanwhile */
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t count = load_acquire(&heap->view_count);
        for (uint32_t i = 1; i < count; i++) {
            const struct view *view = heap_view_at(heap, i);
            if (view->context < sums->count)
                add_view(&sums->rows[view->context], heap, view);
        }
    }
    lock_release(&heap_global.lock);
    return true;
}

void sums_free(struct sums *sums) {
    control_unmap(sums->rows, sums->count * sizeof *sums->rows);
    sums->rows = NULL;
}

uint32_t mark_set(const struct wire_mark_request *request, struct text *text) {
    char name[WIRE_MARK_NAME_MAX] = "default";
    if (request->name[0]) {
        __builtin_memcpy(name, request->name, sizeof name);
        name[sizeof name - 1] = 0;
    }
    struct mark *mark = NULL;
    for (unsigned i = 0; i < WIRE_MARKS_MAX; i++) {
        if (marks[i].sums.rows && text_equal(marks[i].name, name)) {
            mark = &marks[i];
            break;
        }
        if (!marks[i].sums.rows && !mark)
            mark = &marks[i];
    }
    if (!mark) {
        text_add(text, "all marks are in use; a mark of an existing name moves it");
        return WIRE_REFUSED;
    }
    struct sums sums;
    if (!sums_collect(&sums)) {
        text_add(text, "no memory for a mark");
        return WIRE_NO_MEMORY;
    }
    sums_free(&mark->sums);
    __builtin_memcpy(mark->name, name, sizeof name);
    mark->sums = sums;
    mark->uptime_ns = control_uptime_ns();
    text_add(text, "mark ");
    text_add(text, name);
    text_add(text, " set");
    return WIRE_OK;
}

/* True for nodes at and below `root`; a parent's id is lower than its children's. */
static bool *select_subtree(uint32_t root, uint32_t count) {
    bool *selected = control_map(count);
    for (uint32_t id = 0; selected && id < count; id++)
        selected[id] = id == root || (id && selected[tree_node(id)->parent]);
    return selected;
}

uint32_t reset_run(const struct wire_reset_request *request, struct text *text) {
    uint32_t count = tree_count();
    uint32_t root = request->context == WIRE_NONE ? TREE_ROOT : request->context;
    if (root >= count) {
        text_add(text, "no context has this id");
        return WIRE_REFUSED;
    }
    bool *selected = select_subtree(root, count);
    if (!selected) {
        text_add(text, "no memory for a reset");
        return WIRE_NO_MEMORY;
    }
    uint64_t contexts = 0;
    lock_take(&heap_global.lock);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t views = load_acquire(&heap->view_count);
        for (uint32_t i = 1; i < views; i++) {
            struct view *view = heap_view_at(heap, i);
            if (view->context >= count || !selected[view->context])
                continue;
            struct baseline *base = heap_baseline(heap, i, true);
            if (!base)
                continue;
            base->allocs = load_relaxed(&view->allocs);
            base->frees = load_relaxed(&view->frees);
            base->requested_cum_bytes = load_relaxed(&view->requested_cum_bytes);
            /* The owner may write a higher peak at the same time: off by what is in flight. */
            store_owner(&view->peak_bytes, load_relaxed(&view->live_bytes));
            contexts++;
        }
    }
    lock_release(&heap_global.lock);
    control_unmap(selected, count);
    text_add(text, "counters and peaks of ");
    text_add_number(text, (int64_t)contexts);
    text_add(text, " contexts start anew; nothing was freed");
    return WIRE_OK;
}
