/* SPDX-License-Identifier: MIT */
/* Gives back heaps of ended threads; see retire.h. */
#include "context/retire.h"
#include "context/internal.h"
#include "context/tree.h"
#include "region/bins.h"

#define LOOK_NS 1000000000UL    /* time between two looks */
#define LOOK_OVER_NS 50000000UL /* this time while the tables are above their limit */
/* The time doubles after each look in vain, at most this many times. */
#define DOUBLED_MOST 6U
/* At least this many heaps without a thread stay while the tables are within their limit. */
#define KEPT_LEAST 8U
#define CANDIDATES_MOST 256U /* most heaps that one look marks */
/* The library unmaps no segment while this many segments, at most, are read. */
#define SEGMENTS_AT_ONCE 64U

static struct {
    uint64_t next_ns;
    /* Heaps that have left the list, linked by heap.retired. All of them left it in one look. */
    struct heap *retired;
    uint32_t surplus; /* heaps without a thread beyond those that stay, at the last look */
    uint32_t below;   /* the next look marks heaps with lower numbers; 0: it begins at the first */
    uint32_t in_vain; /* looks in a row that retired nothing */
    bool shared_was_inside; /* as heap.was_inside, for the thread that uses the shared heap */
} state;

/* Returns how many heaps without a thread are to stay for new threads. */
static uint32_t count_kept(bool over) {
    uint32_t threads = load_relaxed(&tables_heaps);
    return over ? 0 : threads > KEPT_LEAST ? threads : KEPT_LEAST;
}

/* Returns how many heaps this look is to retire. A heap should wait for at least one look, because
 * threads may end and begin all the time. So half of the surplus is retired that this look and the
 * last one found; if the tables are above their limit, the whole surplus. */
static uint32_t count_wanted(bool over) {
    uint32_t parked = load_relaxed(&heap_global.parked), stay = count_kept(over);
    uint32_t before = state.surplus;
    state.surplus = parked > stay ? parked - stay : 0;
    if (over)
        return state.surplus;
    return ((before < state.surplus ? before : state.surplus) + 1) / 2;
}

/* --- 1. mark ---------------------------------------------------------------------------------- */

static bool has_named(struct heap *heap) {
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        const struct view *view = heap_view_at(heap, i);
        if (tree_is_named(view->context) || (view->region && region_of(view->region)->named))
            return true;
    }
    return false;
}

/* Marks a heap, after its caches and its empty pages were given back. The caller holds the heap's
 * lock. False: the heap has to stay. */
static bool mark(struct heap *heap) {
    if (load_acquire(&heap->state) != HEAP_PARKED || has_named(heap))
        return false;
    if (visit_has_caches(heap)) {
        visit_end_caches(heap);
        heap_keep_less(heap);
    }
    heap_collect_remote(heap);
    bins_release_empty(heap, &heap->mixed);
    regions_release_empty(heap);
    heap_publish_waste(heap);
    heap->may_retire = true;
    return true;
}

/* Marks heaps without a thread, behind the first ones of the list, which new threads will adopt.
 * Returns how many were marked. */
static uint32_t mark_some(bool over) {
    uint32_t stay = count_kept(over), marked = 0, below = state.below ? state.below : UINT32_MAX;
    state.below = 0;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        if (load_acquire(&heap->state) != HEAP_PARKED || (stay && stay--) ||
            heap->number >= below || !lock_try(&heap->lock))
            continue;
        marked += mark(heap);
        lock_release(&heap->lock);
        if (marked == CANDIDATES_MOST) {
            state.below = heap->number;
            break;
        }
    }
    return marked;
}

/* --- 2. look for pages ------------------------------------------------------------------------ */

static bool unmark_owner(void *context, struct page *page) {
    struct heap *heap = load_relaxed(&page->heap);
    (void)context;
    if (heap && load_relaxed(&heap->may_retire))
        store_owner(&heap->may_retire, false);
    return true;
}

struct reading {
    uint64_t place; /* of the segment where reading goes on */
    unsigned left;  /* number of segments that may still be read */
};

static bool read_segment(struct segment *segment, bool huge, void *context) {
    struct reading *reading = context;
    reading->place = segment_place(segment);
    if (!reading->left)
        return false;
    reading->left--;
    /* a large chunk names no heap */
    return huge || visit_pages(segment, unmark_owner, NULL);
}

static void unmark_owners(void) {
    struct reading reading = {0};
    do {
        reading.left = SEGMENTS_AT_ONCE;
        segment_each_from(reading.place, read_segment, &reading);
    } while (!reading.left);
}

/* --- 3. take out and give back ---------------------------------------------------------------- */

static bool is_inside(const struct heap *heap) {
    return load_acquire(&heap->state) == HEAP_OWNED && load_acquire(&heap->busy);
}

/* Adds the heap's counts of look-ups to those of the totals. */
static void keep_counts(struct heap *heap) {
    const struct paths *from = paths_of(heap);
    struct paths *to = paths_of(heap_global.totals);
    add_owner(&to->guessed, from->guessed);
    add_owner(&to->replayed, from->replayed);
    add_owner(&to->missed, from->missed);
    add_owner(&to->flushed, from->flushed);
    add_owner(&to->walked_far, from->walked_far);
    for (int kind = 0; kind < PATH_KINDS; kind++) {
        add_owner(&to->timed_ns[kind], from->timed_ns[kind]);
        add_owner(&to->timed_count[kind], from->timed_count[kind]);
    }
}

/* Takes up to `most` marked heaps out of the list. Returns how many heaps left. */
static uint32_t take_out(uint32_t most) {
    uint32_t count = 0;
    for (struct heap *heap = load_acquire(&heap_global.first), *next; heap; heap = next) {
        next = heap->next;
        if (!heap->may_retire)
            continue;
        heap->may_retire = false;
        if (count == most || !lock_try(&heap->lock))
            continue;
        if (load_acquire(&heap->state) == HEAP_PARKED && heap_retire(heap)) {
            keep_counts(heap);
            heap->retired = state.retired;
            state.retired = heap;
            count++;
        }
        lock_release(&heap->lock);
    }
    for (struct heap *heap = load_acquire(&heap_global.first); count && heap; heap = heap->next)
        heap->was_inside = true;
    state.shared_was_inside = true;
    return count;
}

/* True if each thread that may have been inside the allocator when the heaps left the list has been
 * outside since. After the barrier, a thread that seems to be outside has finished all reads of its
 * last call, and its next call does not find the heaps. */
static bool all_were_outside(void) {
    bool ordered = os_barrier_in_threads(), inside;
    state.shared_was_inside = state.shared_was_inside && (!ordered || heap_shared_is_locked());
    inside = state.shared_was_inside;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        heap->was_inside = heap->was_inside && (!ordered || is_inside(heap));
        inside |= heap->was_inside;
    }
    return !inside;
}

static void give_back(void) {
    lock_take(&heap_global.lock);
    bool all = all_were_outside();
    lock_release(&heap_global.lock);
    if (!all)
        return;
    add_relaxed(&heap_views_epoch, 1); /* no thread keeps a pair with a view of these heaps */
    while (state.retired) {
        struct heap *heap = state.retired;
        state.retired = heap->retired;
        heap_free(heap);
    }
}

static void retire(uint32_t wanted, bool over) {
    lock_take(&heap_global.lock);
    uint32_t marked = mark_some(over);
    lock_release(&heap_global.lock);
    if (!marked) {
        state.in_vain++;
        return;
    }
    unmark_owners();
    lock_take(&heap_global.lock);
    uint32_t count = take_out(wanted);
    lock_release(&heap_global.lock);
    state.in_vain = count ? 0 : state.in_vain + 1;
}

void retire_look(void) {
    uint64_t now = os_now_exact_ns();
    if (now < state.next_ns)
        return;
    bool over = load_relaxed(&sweeps_over_limit);
    if (state.retired) {
        give_back();
    } else {
        uint32_t wanted = count_wanted(over);
        if (!wanted)
            state.in_vain = 0;
        else if (os_barrier_in_threads())
            retire(wanted, over);
    }
    unsigned doubled = state.in_vain < DOUBLED_MOST ? state.in_vain : DOUBLED_MOST;
    state.next_ns = now + ((over || state.retired ? LOOK_OVER_NS : LOOK_NS) << doubled);
}
