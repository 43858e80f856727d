/* SPDX-License-Identifier: MIT */
/*
 * Finds, makes and drops the views of a heap, moves their numbers to other heaps, and lets the
 * owner wait while the control thread changes views.
 *
 * For: the owner of a heap, when it first allocates in a context, and threads that read the views
 * of other threads. Cannot do: make a view where the tables budget has no room.
 */
#include "os/meta.h"
#include "region/heap.h"
#include "region/resizes.h"

#define FIRST_SLOTS 64U /* number of slots at first */
#define SLOT_STEP 17U   /* odd, so that a search reaches all slots */

struct lock heap_visit_lock FORK_PAGE = LOCK_INIT(RANK_VISIT);
uint32_t heap_views_epoch START_PAGE;

/* A heap always has HEAP_TABLES_BYTES for its tables, as a part of TABLES_HEAP_BYTES. Returns the
 * part of `bytes` beyond HEAP_TABLES_BYTES, which the budget has to grant. */
static int64_t bytes_beyond(int64_t bytes) {
    return bytes > HEAP_TABLES_BYTES ? bytes - HEAP_TABLES_BYTES : 0;
}

/* Returns the bytes of idle views (views that wait for a context) that the budget counts. The
 * budget does not count the first HEAP_TABLES_BYTES of a heap's tables. */
static int64_t idle_beyond(const struct heap *heap) {
    return bytes_beyond(heap->table_bytes + heap->idle_bytes) - bytes_beyond(heap->table_bytes);
}

/* Takes `bytes` of the tables' budget for tables of the heap. False: the budget's `share` is used
 * up. */
static bool heap_take(struct heap *heap, int64_t bytes, enum tables_share share) {
    int64_t more = bytes_beyond(heap->table_bytes + bytes) - bytes_beyond(heap->table_bytes);
    int64_t idle = idle_beyond(heap);
    if (share == TABLES_UNCOUNTED)
        return true;
    if (more && !tables_take(more, share))
        return false;
    heap->table_bytes += bytes;
    tables_add_idle(idle_beyond(heap) - idle);
    return true;
}

/* Counts memory of views that wait for a context; negative: bytes that do not wait any more. */
static void heap_add_idle(struct heap *heap, int64_t bytes) {
    int64_t idle = idle_beyond(heap);
    heap->idle_bytes += (uint32_t)bytes;
    tables_add_idle(idle_beyond(heap) - idle);
}

/* Like heap_take, but for memory of views that wait for a context. */
static bool heap_reuse(struct heap *heap, int64_t bytes, enum tables_share share) {
    int64_t more = bytes_beyond(heap->table_bytes + bytes) - bytes_beyond(heap->table_bytes);
    if (share == TABLES_UNCOUNTED) {
        heap_add_idle(heap, -bytes);
        return true;
    }
    if (more && !tables_reuse(more, share))
        return false;
    heap->table_bytes += bytes;
    heap->idle_bytes -= (uint32_t)bytes;
    return true;
}

static void heap_give(struct heap *heap, int64_t bytes) {
    int64_t idle = idle_beyond(heap);
    tables_add(bytes_beyond(heap->table_bytes - bytes) - bytes_beyond(heap->table_bytes));
    heap->table_bytes -= bytes;
    tables_add_idle(idle_beyond(heap) - idle);
}

static void slot_set(struct heap *heap, const struct view *view) {
    uint32_t at = view->context;
    if (UNLIKELY(!at)) /* the view waits for a context */
        return;
    while (heap->slots[at & heap->slot_mask])
        at += SLOT_STEP;
    store_owner(&heap->slots[at & heap->slot_mask], view->index);
}

/* Returns the bins for a new view. If any context has a placement, these are heap_no_bins, so that
 * the view's first allocation looks up the placement of its context. */
static struct bins *first_bins(struct heap *heap) {
    return LIKELY(!load_relaxed(&heap_placed_any)) ? &heap->mixed : (struct bins *)&heap_no_bins;
}

/* Returns the index of the first view that waits for a context and whose OS page was not given to
 * the kernel. 0: there is none. */
static uint32_t first_waiting(struct heap *heap) {
    uint32_t index = heap_view_after(heap, heap->dropped_from - 1);
    while (index < heap->view_count && heap_view_at(heap, index)->context)
        index = heap_view_after(heap, index);
    heap->dropped_from = index;
    return index < heap->view_count ? index : 0;
}

/* Reuses the first OS page of views that was given to the kernel; no view in it has a context.
 * Returns the index of the page's first view; 0: no OS page was given to the kernel. */
static uint32_t first_discarded(struct heap *heap) {
    for (uint32_t block = 0; heap->views_discarded && block * VIEWS_PER_BLOCK < heap->view_count;
         block++) {
        uint64_t *pages = &heap->views_discarded[block];
        if (!*pages)
            continue;
        uint32_t page = (uint32_t)__builtin_ctzl(*pages);
        store_release(pages, *pages & (*pages - 1));
        heap->dropped_from = block * VIEWS_PER_BLOCK + page * VIEWS_PER_PAGE;
        return heap->dropped_from;
    }
    return 0;
}

/* Reuses a view that waits for a context. Views in OS pages that were not given to the kernel come
 * first, because the budget may have no room for another OS page. NULL: no view waits, or the
 * budget's share is used up. */
static struct view *view_reuse(struct heap *heap, uint32_t context, enum tables_share share) {
    uint32_t index = first_waiting(heap);
    /* A view that discard_dropped zeroed has index 0. Its bytes do not count as idle any more, so
     * the budget has to grant them like new ones. */
    bool idle = index && heap_view_at(heap, index)->index;
    if (!(idle ? heap_reuse : heap_take)(heap, sizeof(struct view), share))
        return NULL;
    if (!index && !(index = first_discarded(heap))) {
        heap_give(heap, sizeof(struct view));
        return NULL;
    }
    struct view *view = heap_view_at(heap, index);
    heap->dropped_from++;
    heap->views_dropped--;
    view->index = index;
    view->bins = first_bins(heap);
    store_owner(&view->peak_bytes, 0);
    store_owner(&view->context, context);
    if (index < heap->views_in_slots)
        slot_set(heap, view);
    return view;
}

static struct view *view_create(struct heap *heap, uint32_t context, enum tables_share share) {
    if (UNLIKELY(heap->views_dropped))
        return view_reuse(heap, context, share);
    uint32_t index = heap->view_count ? heap->view_count : 1;
    if (index / VIEWS_PER_BLOCK >= VIEW_BLOCKS)
        return NULL;
    struct view **block = &heap->views[index / VIEWS_PER_BLOCK];
    struct view *fresh = *block ? *block : meta_alloc(VIEWS_PER_BLOCK * sizeof(struct view));
    if (!fresh || !heap_take(heap, sizeof *fresh, share)) {
        if (!*block)
            meta_free(fresh, VIEWS_PER_BLOCK * sizeof *fresh);
        return NULL;
    }
    if (!*block)
        store_release(block, fresh);
    struct view *view = heap_view_at(heap, index);
    view->context = context;
    view->index = index;
    view->bins = first_bins(heap);
    store_release(&heap->view_count, index + 1); /* other threads may read the view from now on */
    return view;
}

/* --- slots that other threads read ------------------------------------------------------------ */

/* The bits of slots_shown that hold the logarithm of the table's length. In an address from
 * meta_alloc, a multiple of 64, these bits are 0. */
#define SHOWN_LOG 63U

static uint32_t *shown_slots(uintptr_t shown) {
    return (uint32_t *)(shown & ~(uintptr_t)SHOWN_LOG);
}

static uint32_t shown_count(uintptr_t shown) {
    return shown ? 1U << (shown & SHOWN_LOG) : 0;
}

static void free_retired(struct heap *heap) {
    uintptr_t old = exchange_acq_rel(&heap->slots_retired, 0);
    meta_free(shown_slots(old), shown_count(old) * sizeof(uint32_t));
}

/* Shows the new slots to other threads and frees the old ones. Either a reader sees the new slots,
 * or this thread sees that another thread reads (heap_global.reading). While a thread reads, the
 * old slots stay; heap_read_end or the next call of this function frees them. */
static void show_slots(struct heap *heap) {
    uintptr_t shown = (uintptr_t)heap->slots | (unsigned)__builtin_ctz(heap->slot_mask + 1);
    uintptr_t old = exchange_full(&heap->slots_shown, shown);
    if (!load_full(&heap_global.reading)) {
        meta_free(shown_slots(old), shown_count(old) * sizeof(uint32_t));
        free_retired(heap);
        return;
    }
    /* Slots that were retired before may still be read, too. Only one table can be retired, so the
     * memory of the earlier one, which is half as large, is lost. */
    if (old)
        exchange_acq_rel(&heap->slots_retired, old);
}

void heap_read_begin(void) {
    (void)exchange_full(&heap_global.reading, true);
}

void heap_read_end(void) {
    store_release(&heap_global.reading, false);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        if (UNLIKELY(load_relaxed(&heap->slots_retired)))
            free_retired(heap);
}

/* Finds a view in another thread's heap. Views below views_in_slots stand in the slots; views from
 * views_in_slots on are in no slot, and are looked at one by one. The owner may write the slots
 * meanwhile, so an index counts only if the view at that index names the context. */
static const struct view *find_foreign(struct heap *heap, uint32_t context) {
    uint32_t in_slots = load_acquire(&heap->views_in_slots);
    uint32_t views = load_acquire(&heap->view_count);
    uintptr_t shown = load_full(&heap->slots_shown);
    uint32_t count = shown_count(shown), at = context;
    for (uint32_t tries = 0; tries < count; tries++, at += SLOT_STEP) {
        uint32_t index = load_relaxed(&shown_slots(shown)[at & (count - 1)]);
        if (!index)
            break;
        const struct view *view = index < views ? heap_view_at(heap, index) : NULL;
        if (view && load_relaxed(&view->context) == context)
            return view;
    }
    for (uint32_t i = in_slots ? in_slots : 1; i < views; i++)
        if (load_relaxed(&heap_view_at(heap, i)->context) == context)
            return heap_view_at(heap, i);
    return NULL;
}

const struct view *heap_views_next(struct heap_views *walk) {
    const struct view *view = NULL;
    while (!view && walk->next) {
        walk->heap = walk->next;
        walk->next = walk->heap->next;
        view = find_foreign(walk->heap, walk->context);
    }
    return view;
}

/* Doubles the number of slots. False: out of memory, or `share` of the budget is used up. */
static bool slots_grow(struct heap *heap, enum tables_share share) {
    uint32_t old_count = heap->slots ? heap->slot_mask + 1 : 0;
    uint32_t count = old_count ? old_count * 2 : FIRST_SLOTS;
    int64_t more = (int64_t)((count - old_count) * sizeof *heap->slots);
    if (!heap_take(heap, more, share))
        return false;
    uint32_t *slots = meta_alloc(count * sizeof *slots);
    if (!slots) {
        if (share != TABLES_UNCOUNTED)
            heap_give(heap, more);
        return false;
    }
    heap->slots = slots;
    heap->slot_mask = count - 1;
    for (uint32_t i = 1; i < heap->views_in_slots; i = heap_view_after(heap, i))
        slot_set(heap, heap_view_at(heap, i));
    show_slots(heap);
    return true;
}

/* Counts an operation for which the context has no view and none can be made. Returns the view of
 * [unknown]; NULL: the heap has no view at all. */
static struct view *view_lost(struct heap *heap) {
    add_relaxed(&heap_global.lost_views, 1);
    return heap->view_count > 1 ? heap_view_at(heap, 1) : NULL;
}

/* Enters the newest views in the slots. */
static void slot_newest(struct heap *heap) {
    heap->newest_max = 0;
    for (uint32_t next = heap->views_in_slots; next < heap->view_count;) {
        if (next)
            slot_set(heap, heap_view_at(heap, next));
        store_release(&heap->views_in_slots, ++next);
    }
}

/* Finds a view that is in no slot yet. In a forked child the first new views are entered in the
 * slots only when one of them is looked for again, or when they are more than newest_max. A child
 * that allocates little then writes, and so copies, fewer OS pages. */
static struct view *find_newest(struct heap *heap, uint32_t context) {
    for (uint32_t i = heap->views_in_slots; i < heap->view_count; i++)
        if (i && heap_view_at(heap, i)->context == context) {
            slot_newest(heap);
            return heap_view_at(heap, i);
        }
    return NULL;
}

static struct view *find_view(struct heap *heap, uint32_t context) {
    for (uint32_t at = context; heap->slots; at += SLOT_STEP) {
        uint32_t index = heap->slots[at & heap->slot_mask];
        if (!index)
            break;
        struct view *view = heap_view_at(heap, index);
        if (view->context == context)
            return view;
    }
    return find_newest(heap, context);
}

static uint32_t views_in_use(const struct heap *heap) {
    return heap->view_count - heap->views_dropped;
}

/* Waits until no visitor is left: a visitor holds heap_visit_lock until its visit is over. */
void heap_await_visitor(struct heap *heap) {
    do {
        lock_take(&heap_visit_lock);
        lock_release(&heap_visit_lock);
    } while (load_acquire(&heap->visited));
}

NOINLINE struct view *heap_view_within(struct heap *heap, uint32_t context,
                                       enum tables_share share) {
    heap_await(heap);
    struct view *view = find_view(heap, context);
    if (view)
        return view;
    /* If the slots cannot grow, the view is made all the same while a free slot is left over. A
     * search for a missing view ends at a free slot. */
    if ((UNLIKELY(!heap->slots) ||
         UNLIKELY(tables_hash_is_full(views_in_use(heap), heap->slot_mask))) &&
        !slots_grow(heap, share) && (!heap->slots || views_in_use(heap) >= heap->slot_mask))
        return NULL;
    view = view_create(heap, context, share);
    if (view && heap->view_count - heap->views_in_slots > heap->newest_max)
        slot_newest(heap);
    return view;
}

NOINLINE struct view *heap_view_make(struct heap *heap, uint32_t context) {
    struct view *view = heap_view_within(heap, context, TABLES_MUST);
    return view ? view : view_lost(heap);
}

void heap_view_drop(struct heap *heap, struct view *view) {
    store_owner(&view->context, 0);
    if (!heap->views_dropped++ || view->index < heap->dropped_from)
        heap->dropped_from = view->index;
    heap_give(heap, sizeof *view);
    heap_add_idle(heap, sizeof *view);
    struct baseline *base = heap_baseline(heap, view->index, TABLES_UNCOUNTED);
    if (base)
        *base = (struct baseline){0};
}

/* Notes that an OS page of views is given to the kernel. False: no memory for the note. */
static bool note_discarded(struct heap *heap, uint32_t index) {
    if (!heap->views_discarded) {
        uint64_t *made = meta_alloc(VIEW_BLOCKS * sizeof *made);
        if (!made)
            return false;
        /* The array has two OS pages. The second one is only touched with two million views. */
        heap_take(heap, OS_PAGE_BYTES, TABLES_MUST);
        store_release(&heap->views_discarded, made);
    }
    uint64_t *pages = &heap->views_discarded[index / VIEWS_PER_BLOCK];
    store_release(pages, *pages | 1UL << index % VIEWS_PER_BLOCK / VIEWS_PER_PAGE);
    return true;
}

/* Gives the kernel the OS pages in which all views wait for a context. These views read as zeros
 * then. The heap's first OS page of views always stays. `here` counts the views of an OS page whose
 * bytes are idle: a view with index 0 was given to the kernel before, and was not used since. */
static void discard_dropped(struct heap *heap) {
    for (uint32_t i = heap_view_after(heap, VIEWS_PER_PAGE - 1);
         i + VIEWS_PER_PAGE <= heap->view_count;
         i = heap_view_after(heap, i + VIEWS_PER_PAGE - 1)) {
        struct view *first = heap_view_at(heap, i);
        uint32_t at = 0;
        int64_t here = 0;
        for (; at < VIEWS_PER_PAGE && !first[at].context; at++)
            here += first[at].index != 0;
        if (at < VIEWS_PER_PAGE || (uintptr_t)first % OS_PAGE_BYTES || !note_discarded(heap, i))
            continue;
        os_discard(first, OS_PAGE_BYTES);
        if (heap->dropped_from - i < VIEWS_PER_PAGE)
            heap->dropped_from = i + VIEWS_PER_PAGE;
        heap_add_idle(heap, -here * (int64_t)sizeof *first);
    }
}

#define SLOTS_SPARSE 16U /* with more slots than this for each view in use, the table shrinks */

/* Replaces the slots by a quarter as many or fewer, all empty. False: a quarter of the slots would
 * be too few, or memory is short. */
static bool slots_shrink(struct heap *heap) {
    uint32_t old_count = heap->slot_mask + 1, count = old_count;
    while (count > FIRST_SLOTS && count / SLOTS_SPARSE > views_in_use(heap))
        count /= 2;
    uint32_t *slots = count < old_count / 2 ? meta_alloc(count * sizeof *slots) : NULL;
    if (!slots)
        return false;
    heap->slots = slots;
    heap->slot_mask = count - 1;
    heap_give(heap, (int64_t)((old_count - count) * sizeof *slots));
    return true;
}

/* Rewrites the slots. No other thread reads the slots meanwhile: readers hold heap_global.lock,
 * which the caller holds. */
void heap_views_dropped(struct heap *heap) {
    bool fewer = slots_shrink(heap);
    if (!fewer)
        __builtin_memset(heap->slots, 0, (heap->slot_mask + 1UL) * sizeof *heap->slots);
    for (uint32_t i = 1; i < heap->views_in_slots; i = heap_view_after(heap, i))
        slot_set(heap, heap_view_at(heap, i));
    if (fewer)
        show_slots(heap);
    discard_dropped(heap);
    add_relaxed(&heap_views_epoch, 1);
}

void heap_forget_twins(struct heap *heap) {
    heap->twins_of = load_relaxed(&heap_views_epoch);
    __builtin_memset(heap->twins, 0, sizeof heap->twins);
}

/* heap->baselines has room for pointers to the blocks of all possible views. The kernel gives
 * memory only for the parts of the array that are used. */
struct baseline *heap_baseline(struct heap *heap, uint32_t view_index, enum tables_share make) {
    if (!heap->baselines && make)
        heap->baselines = meta_alloc((VIEW_BLOCKS * VIEWS_PER_BLOCK / BASELINES_PER_BLOCK + 1) *
                                     sizeof *heap->baselines);
    if (!heap->baselines)
        return NULL;
    struct baseline **block = &heap->baselines[view_index / BASELINES_PER_BLOCK];
    if (!*block && make && tables_take(BASELINE_BLOCK_BYTES, make)) {
        *block = meta_alloc(BASELINES_PER_BLOCK * sizeof **block);
        tables_add(*block ? 0 : -BASELINE_BLOCK_BYTES);
    }
    return *block ? *block + view_index % BASELINES_PER_BLOCK : NULL;
}
_Static_assert(BASELINES_PER_BLOCK * sizeof(struct baseline) <= BASELINE_BLOCK_BYTES, "fits");

#define FREED_OF_FIRST 8U

void heap_count_remote_grow(struct heap *heap, uint32_t owner) {
    uint32_t count = heap->freed_of_count ? heap->freed_of_count : FREED_OF_FIRST;
    while (count <= owner)
        count *= 2;
    uint64_t *counts;
    int64_t bytes = (int64_t)(count * sizeof *counts);
    bool may = tables_take(bytes, TABLES_OTHERS);
    counts = may ? meta_alloc((size_t)bytes) : NULL;
    if (!counts) {
        tables_add(may ? -bytes : 0);
        add_relaxed(&heap_global.lost_remote, 1);
        return;
    }
    uint64_t *old = heap->freed_of;
    uint32_t old_count = heap->freed_of_count;
    for (uint32_t i = 0; i < old_count; i++)
        counts[i] = old[i];
    counts[owner]++;
    store_release(&heap->freed_of, counts);
    store_release(&heap->freed_of_count, count);
    /* A dump reads the arrays under heap_global.lock. If a dump may be reading the old array, this
     * array is never freed. All old arrays together are smaller than the new one. */
    bool mine = lock_is_mine(&heap_global.lock);
    if (!old || (!mine && (lock_any_is_mine() || !lock_try(&heap_global.lock))))
        return;
    tables_add(-(int64_t)(old_count * sizeof *old));
    meta_free(old, old_count * sizeof *old);
    if (!mine)
        lock_release(&heap_global.lock);
}

void heap_free_views(struct heap *heap) {
    size_t blocks = VIEW_BLOCKS * VIEWS_PER_BLOCK / BASELINES_PER_BLOCK + 1;
    for (size_t i = 0; heap->baselines && i * BASELINES_PER_BLOCK < heap->view_count; i++)
        if (heap->baselines[i]) {
            meta_free(heap->baselines[i], BASELINES_PER_BLOCK * sizeof **heap->baselines);
            tables_add(-BASELINE_BLOCK_BYTES);
        }
    meta_free(heap->baselines, blocks * sizeof *heap->baselines);
    resizes_free(heap);
    tables_add(-(int64_t)(heap->freed_of_count * sizeof *heap->freed_of));
    meta_free(heap->freed_of, heap->freed_of_count * sizeof *heap->freed_of);
    free_retired(heap);
    meta_free(heap->slots, (heap->slot_mask + 1UL) * sizeof *heap->slots);
    meta_free(heap->views_discarded, VIEW_BLOCKS * sizeof *heap->views_discarded);
    for (unsigned i = 0; i < VIEW_BLOCKS && heap->views[i]; i++)
        meta_free(heap->views[i], VIEWS_PER_BLOCK * sizeof(struct view));
    tables_add_idle(-idle_beyond(heap));
    tables_add(-bytes_beyond(heap->table_bytes));
}

void heap_fold(struct heap *heap, struct view *view, struct heap *to, struct view *sum) {
    struct baseline *base = heap_baseline(heap, view->index, TABLES_UNCOUNTED);
    if (base) {
        struct baseline *sum_base = heap_baseline(to, sum->index, TABLES_MUST);
        if (sum_base) {
            sum_base->allocs += base->allocs;
            sum_base->frees += base->frees;
            sum_base->requested_cum_bytes += base->requested_cum_bytes;
        }
        *base = (struct baseline){0};
    }
    resizes_fold(heap, view, to, sum);
    add_owner(&sum->allocs, view->allocs);
    add_owner(&sum->frees, view->frees);
    add_owner(&sum->requested_cum_bytes, view->requested_cum_bytes);
    add_owner(&sum->freed_cum_bytes, view->freed_cum_bytes);
    if (view_live_bytes(sum) > sum->peak_bytes)
        store_owner(&sum->peak_bytes, view_live_bytes(sum));
    store_owner(&view->allocs, 0);
    store_owner(&view->frees, 0);
    store_owner(&view->requested_cum_bytes, 0);
    store_owner(&view->freed_cum_bytes, 0);
    store_owner(&view->peak_bytes, 0);
    if (view->region)
        /* the view no longer counts the chunks of its region */
        region_of(view->region)->others_chunks = region_of(view->region)->others_bytes =
            REGION_RECOUNT;
}

/* Does the work of heap_count_free when the first slot for the context does not have its view. */
static NOINLINE void count_free_searched(struct heap *heap, uint32_t context, size_t requested) {
    struct view *view = heap_view_within(heap, context, TABLES_OTHERS);
    if (UNLIKELY(!view) && !lock_any_is_mine()) {
        lock_take(&heap_global.lock);
        struct heap *totals = heap_totals();
        view = totals ? heap_view_within(totals, context, TABLES_MUST) : NULL;
        if (view)
            view_account_free(view, requested);
        lock_release(&heap_global.lock);
        if (view)
            return;
    }
    if (!view)
        view = heap_view_make(heap, context);
    if (view)
        view_account_free(view, requested);
}

void heap_count_free(struct heap *heap, uint32_t context, size_t requested) {
    struct view *view = heap_view_in_slot(heap, context);
    if (LIKELY(view != NULL))
        view_account_free(view, requested);
    else
        count_free_searched(heap, context, requested);
}
