/* SPDX-License-Identifier: MIT */
/* Sums over the views of all heaps, marks and resets: everything that needs no look at pages. */
#include "base/options.h"
#include "context/tree.h"
#include "control/control.h"
#include "region/heap.h"

struct mark marks[WIRE_MARKS_MAX] START_PAGE;

/*
 * While threads run, a chunk may be allocated in one view and freed in another between the readings of the two. So the
 * views of one context are read together, what was freed before what was allocated: then no free is without its
 * allocation, and what is alive is too much by no more than what is freed meanwhile, some nanoseconds.
 */
struct entry {
    const struct view *view;
    struct entry *next; /* of the same context */
};
struct entries { /* what one round found, in a mapping of its own */
    struct entries *earlier;
    size_t bytes, count;
    struct entry list[];
};
#define ROUNDS_MAX 16U /* views that are made meanwhile get another round */
#define TRIES_MAX 8U   /* the reader may have been preempted */

static void read_context(struct sum *sum, const struct entry *first) {
    int64_t fewest = INT64_MAX;
    for (unsigned try = 0; try < TRIES_MAX && fewest > (int64_t)sum->views; try++) {
        int64_t frees = 0, freed_bytes = 0, allocs = 0, allocated_bytes = 0, frees_after = 0;
        sum->views = 0;
        for (const struct entry *entry = first; entry; entry = entry->next) {
            const struct view *view = entry->view;
            frees += (int64_t)load_acquire(&view->frees);
            freed_bytes += (int64_t)load_acquire(&view->freed_cum_bytes);
        }
        for (const struct entry *entry = first; entry; entry = entry->next) {
            const struct view *view = entry->view;
            int64_t made = (int64_t)load_acquire(&view->allocs);
            int64_t gone = (int64_t)load_acquire(&view->frees);
            allocs += made;
            allocated_bytes += (int64_t)load_acquire(&view->requested_cum_bytes);
            frees_after += gone;
            sum->views += made || gone;
            if (made || gone)
                sum->peak_bytes = load_relaxed(&view->peak_bytes);
        }
        if (frees_after - frees >= fewest)
            continue;
        fewest = frees_after - frees;
        sum->allocs = allocs;
        sum->frees = frees;
        sum->live_bytes = allocated_bytes - freed_bytes;
        sum->requested_cum_bytes = allocated_bytes;
    }
}

static void add_entry(struct sums *sums, struct entry **firsts, struct entries *to,
                      struct heap *heap, uint32_t index) {
    const struct view *view = heap_view_at(heap, index);
    const struct baseline *base = heap_baseline(heap, index, false);
    bool parked = load_relaxed(&heap->state) == HEAP_PARKED; /* and stays it under the lock */
    if (view->context >= sums->count || (parked && !view->allocs && !view->frees))
        return;
    struct sum *sum = &sums->rows[view->context];
    struct entry *entry = &to->list[to->count++];
    *entry = (struct entry){.view = view, .next = firsts[view->context]};
    firsts[view->context] = entry;
    if (base) {
        sum->base_allocs += (int64_t)base->allocs;
        sum->base_frees += (int64_t)base->frees;
        sum->base_requested_cum_bytes += (int64_t)base->requested_cum_bytes;
    }
}

/* The views that were made since the last round. NULL: none, or, with *failed, out of memory. */
static struct entries *find_views(struct sums *sums, struct entry **firsts, bool *failed) {
    struct heap *all = load_acquire(&heap_global.first);
    size_t left = 0;
    for (struct heap *heap = all; heap; heap = heap->next)
        left += load_acquire(&heap->view_count) - heap->views_summed;
    if (!left)
        return NULL;
    size_t bytes = sizeof(struct entries) + left * sizeof(struct entry);
    struct entries *found = control_map(bytes);
    *failed = !found;
    if (!found)
        return NULL;
    found->bytes = bytes;
    for (struct heap *heap = all; heap; heap = heap->next) {
        uint32_t end = load_acquire(&heap->view_count);
        for (; heap->views_summed < end && left; heap->views_summed++, left--)
            if (heap->views_summed) /* index 0 is unused */
                add_entry(sums, firsts, found, heap, heap->views_summed);
    }
    return found;
}

static bool collect(struct sums *sums, struct entry **firsts) {
    struct entries *all = NULL;
    bool failed = false;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        heap->views_summed = 0;
    for (unsigned round = 1; round <= ROUNDS_MAX; round++) {
        struct entries *found = find_views(sums, firsts, &failed);
        if (!found)
            break;
        found->earlier = all;
        all = found;
        for (size_t i = 0; i < found->count; i++) {
            uint32_t context = found->list[i].view->context;
            struct sum *sum = &sums->rows[context];
            if (sum->round != round)
                read_context(sum, firsts[context]);
            sum->round = round;
        }
    }
    while (all) {
        struct entries *entries = all;
        all = entries->earlier;
        control_unmap(entries, entries->bytes);
    }
    return !failed;
}

bool sums_collect(struct sums *sums) {
    sums->count = tree_count();
    sums->rows = control_map(sums->count * sizeof *sums->rows);
    struct entry **firsts = control_map(sums->count * sizeof *firsts);
    bool collected = sums->rows && firsts;
    if (collected) {
        lock_take(&heap_global.lock); /* no thread's numbers move to the totals meanwhile */
        collected = collect(sums, firsts);
        lock_release(&heap_global.lock);
    }
    control_unmap(firsts, sums->count * sizeof *firsts);
    if (!collected)
        sums_free(sums);
    return collected;
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
            store_owner(&view->peak_bytes, view_live_bytes(view));
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
