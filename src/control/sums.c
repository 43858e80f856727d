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
    struct entry *next;     /* of the same context */
    struct sums_view *kept; /* NULL: not asked for */
};
struct sums_entries { /* what one round found, in a mapping of its own */
    struct sums_entries *earlier;
    struct sums_view *kept; /* as many, or NULL */
    size_t room, count;
    struct entry list[];
};
#define ROUNDS_MAX 16U /* views that are made meanwhile get another round */
#define TRIES_MAX 8U   /* the reader may have been preempted */

/* What the view had freed. */
static void read_frees(struct sum *sum, const struct view *view) {
    sum->frees = (int64_t)load_acquire(&view->frees);
    sum->live_bytes = -(int64_t)load_acquire(&view->freed_cum_bytes);
}

/* What it has allocated until then; returns what it has freed by now. */
static int64_t read_allocs(struct sum *sum, const struct view *view) {
    sum->allocs = (int64_t)load_acquire(&view->allocs);
    sum->requested_cum_bytes = (int64_t)load_acquire(&view->requested_cum_bytes);
    sum->live_bytes += sum->requested_cum_bytes;
    sum->peak_bytes = load_relaxed(&view->peak_bytes);
    return (int64_t)load_acquire(&view->frees);
}

/* One try; returns how many frees went by meanwhile. */
static int64_t read_once(struct sum *sum, const struct entry *first) {
    int64_t frees_after = 0;
    struct sum part;
    sum->allocs = sum->frees = sum->live_bytes = sum->requested_cum_bytes = 0;
    sum->views = 0;
    for (const struct entry *entry = first; entry; entry = entry->next) {
        struct sum *one = entry->kept ? &entry->kept->sum : &part;
        read_frees(one, entry->view);
        sum->frees += one->frees;
        sum->live_bytes += one->live_bytes;
    }
    for (const struct entry *entry = first; entry; entry = entry->next) {
        struct sum *one = entry->kept ? &entry->kept->sum : &part;
        int64_t gone = read_allocs(one, entry->view);
        frees_after += gone;
        sum->allocs += one->allocs;
        sum->requested_cum_bytes += one->requested_cum_bytes;
        sum->live_bytes += one->requested_cum_bytes;
        sum->views += one->allocs || gone;
        if (one->allocs || gone)
            sum->peak_bytes = one->peak_bytes;
    }
    return frees_after - sum->frees;
}

static void read_context(struct sum *sum, const struct entry *first) {
    for (unsigned try = 0; try < TRIES_MAX; try++)
        if (read_once(sum, first) <= (int64_t)sum->views)
            break;
}

static void add_base(struct sum *sum, const struct baseline *base) {
    sum->base_allocs += (int64_t)base->allocs;
    sum->base_frees += (int64_t)base->frees;
    sum->base_requested_cum_bytes += (int64_t)base->requested_cum_bytes;
}

static void add_entry(struct sums *sums, struct entry **firsts, struct sums_entries *to,
                      struct heap *heap, uint32_t index) {
    const struct view *view = heap_view_at(heap, index);
    const struct baseline *base = heap_baseline(heap, index, false);
    bool parked = load_relaxed(&heap->state) == HEAP_PARKED; /* and stays it under the lock */
    if (view->context >= sums->count || (parked && !view->allocs && !view->frees))
        return;
    struct sums_view *kept = to->kept ? &to->kept[to->count] : NULL;
    struct entry *entry = &to->list[to->count++];
    *entry = (struct entry){.view = view, .next = firsts[view->context], .kept = kept};
    firsts[view->context] = entry;
    if (kept)
        *kept = (struct sums_view){.heap = heap, .context = view->context, .sum = {.views = 1}};
    if (base) {
        add_base(&sums->rows[view->context], base);
        if (kept)
            add_base(&kept->sum, base);
    }
}

static size_t entries_bytes(size_t room) {
    return sizeof(struct sums_entries) + room * sizeof(struct entry);
}

static void entries_free(struct sums_entries *entries) {
    while (entries) {
        struct sums_entries *earlier = entries->earlier;
        control_unmap(entries->kept);
        control_unmap(entries);
        entries = earlier;
    }
}

/* Of the views that were made since the last round; puts them before `*all`. False: there are none, or, with *failed, no
 * memory. */
static bool find_views(struct sums *sums, struct entry **firsts, bool keep,
                       struct sums_entries **all, bool *failed) {
    struct heap *heaps = load_acquire(&heap_global.first);
    size_t left = 0;
    for (struct heap *heap = heaps; heap; heap = heap->next)
        left += load_acquire(&heap->view_count) - heap->views_summed;
    if (!left)
        return false;
    struct sums_entries *found = control_map(entries_bytes(left));
    *failed = !found;
    if (!found)
        return false;
    found->room = left;
    found->earlier = *all;
    *all = found;
    if (keep)
        found->kept = control_map(left * sizeof *found->kept);
    *failed = keep && !found->kept;
    if (*failed)
        return false;
    for (struct heap *heap = heaps; heap; heap = heap->next) {
        uint32_t end = load_acquire(&heap->view_count);
        for (; heap->views_summed < end && left; heap->views_summed++, left--)
            if (heap->views_summed) /* index 0 is unused */
                add_entry(sums, firsts, found, heap, heap->views_summed);
    }
    return true;
}

/* Under heap_global.lock: no thread's numbers move to the totals meanwhile. */
static bool collect(struct sums *sums, struct entry **firsts, bool keep) {
    struct sums_entries *all = NULL;
    bool failed = false;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        heap->views_summed = 0;
    for (unsigned round = 1; round <= ROUNDS_MAX && find_views(sums, firsts, keep, &all, &failed);
         round++) {
        for (size_t i = 0; i < all->count; i++) {
            uint32_t context = all->list[i].view->context;
            struct sum *sum = &sums->rows[context];
            if (sum->round != round)
                read_context(sum, firsts[context]);
            sum->round = round;
        }
    }
    if (keep && !failed)
        sums->entries = all;
    else
        entries_free(all);
    return !failed;
}

const struct sums_view *sums_next_view(const struct sums *sums, struct sums_place *place) {
    if (!place->entries)
        *place = (struct sums_place){.entries = sums->entries};
    while (place->entries && place->next == place->entries->count)
        *place = (struct sums_place){.entries = place->entries->earlier};
    return place->entries ? &place->entries->kept[place->next++] : NULL;
}

bool sums_collect(struct sums *sums, bool keep_views) {
    sums->entries = NULL;
    sums->count = tree_count();
    sums->rows = control_map(sums->count * sizeof *sums->rows);
    struct entry **firsts = control_map(sums->count * sizeof *firsts);
    bool collected = sums->rows && firsts;
    if (collected) {
        lock_take(&heap_global.lock);
        collected = collect(sums, firsts, keep_views);
        lock_release(&heap_global.lock);
    }
    control_unmap(firsts);
    if (!collected)
        sums_free(sums);
    return collected;
}

void sums_free(struct sums *sums) {
    control_unmap(sums->rows);
    entries_free(sums->entries);
    sums->rows = NULL;
    sums->entries = NULL;
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
    if (!sums_collect(&sums, false)) {
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
    control_unmap(selected);
    text_add(text, "counters and peaks of ");
    text_add_number(text, (int64_t)contexts);
    text_add(text, " contexts start anew; nothing was freed");
    return WIRE_OK;
}
