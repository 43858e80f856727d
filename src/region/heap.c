/* SPDX-License-Identifier: MIT */
/*
 * Makes heaps for threads, parks a heap when its thread exits, and lets the next new thread adopt
 * it whole.
 *
 * For: programs in which the number of threads rises and falls. A parked heap without chunks may be
 * given back (context/retire.c). Cannot do: give a heap's free blocks to a running thread that has
 * a heap of its own.
 */
#include "region/heap.h"
#include "base/options.h"
#include "os/meta.h"
#include "region/bins.h"
#include "region/hooks.h"
#include "region/punch.h"
#include "region/region.h"

/* the waste cap is a sixteenth (6 %) of the live bytes, but at least waste_kib */
#define WASTE_SHARE 16
/* A heap updates heap_global.own_free when its own_free has changed by this many bytes. */
#define PUBLISH_STEP (16L << 10)
/* newest_max in a forked child, where writing the slots copies an OS page */
#define NEWEST_VIEWS 8U

const struct region_hooks *region_hooks START_PAGE;
struct heap_global heap_global FORK_PAGE
    __attribute__((aligned(OS_PAGE_BYTES))) = {.lock = LOCK_INIT(RANK_HEAPS)};
/* The heap of the first thread. This file is linked first, so that the heap stands directly behind
 * the data of FORK_PAGE, and the first HEAP_HOT_BYTES of the heap are in the same OS page. */
static struct heap first_heap;
/* Most processes never use the shared heap, so it stands behind the data that START_PAGE collects,
 * not in the OS page of START_PAGE. */
static struct heap shared_heap __attribute__((section("memctx_shared"))) = {
    .state = HEAP_SHARED, .lock = LOCK_INIT(RANK_PARKED)};
/* A forked child makes this shared heap if another thread was changing the shared heap during the
 * fork. NULL: shared_heap is in use. */
static struct heap *shared_of_child;

static struct heap *the_shared(void) {
    struct heap *anew = load_relaxed(&shared_of_child);
    return UNLIKELY(anew != NULL) ? anew : &shared_heap;
}

static void heap_init(struct heap *heap) {
    heap->lock.rank = RANK_PARKED;
    heap->trims = load_relaxed(&trim_number);
    bins_init_mixed(heap);
}

/* Adds a heap to the list of all heaps. */
static void add_to_list(struct heap *heap) {
    struct heap *first = load_relaxed(&heap_global.first);
    do
        heap->next = first;
    while (!cas_release(&heap_global.first, &first, heap));
}

uint32_t heap_numbers(void) {
    const struct heap *heap = load_acquire(&heap_global.first);
    while (heap && !heap->number) /* the shared heap; a forked child may have two */
        heap = heap->next;
    return heap ? heap->number + 1 : 1;
}

/* Returns the heap behind which a heap is missing in the list, so that the number below its own is
 * free. NULL: the numbers of all heaps from the first one down to 1 are in use. */
static struct heap *before_gap(void) {
    struct heap *last = NULL;
    for (struct heap *heap = heap_global.first; heap; heap = heap->next) {
        if (!heap->number) /* the shared heap */
            continue;
        if (last && last->number > heap->number + 1)
            return last;
        last = heap;
    }
    return last && last->number > 1 ? last : NULL;
}

/* Numbers a new heap, and adds the heap to the list of all heaps. Numbers of retired heaps are used
 * again, because heap.freed_of has an element for each number. The caller holds heap_global.lock.
 * shared_locked adds the shared heap without this lock, so add_to_list needs a compare-and-swap. */
static void heap_publish(struct heap *heap) {
    uint32_t next = heap_numbers();
    struct heap *before = next > heap_global.heaps + 1 ? before_gap() : NULL;
    heap->number = before ? before->number - 1 : next;
    if (before) {
        heap->next = before->next;
        store_release(&before->next, heap);
    } else {
        add_to_list(heap);
    }
    heap_global.heaps++;
}

/* Gives a parked heap to the thread. The caller holds heap_global.lock. NULL: no heap is parked. */
static struct heap *adopt_parked(uint32_t tid) {
    for (struct heap *heap = heap_global.first; heap; heap = heap->next) {
        if (load_acquire(&heap->state) != HEAP_PARKED || !lock_try(&heap->lock))
            continue;
        bool mine = load_acquire(&heap->state) == HEAP_PARKED;
        if (mine) {
            tables_count_heap(1, heap->kept_bytes ? heap->kept_bytes : TABLES_HEAP_BYTES);
            heap->kept_bytes = 0;
            heap->tid = tid;
            heap->thread_exits = 0;
            store_owner(&heap->may_retire, false);
            heap->busy = 1; /* until heap_acquire has tidied the heap up */
            store_release(&heap->state, HEAP_OWNED);
        }
        lock_release(&heap->lock);
        if (mine) {
            add_relaxed(&heap_global.parked, -1);
            return heap;
        }
    }
    return NULL;
}

/* Returns a heap whose thread ended without telling the library: there was no pthread key, or the
 * rounds of key destructors were over. The heap becomes HEAP_ORPHAN, so that only the caller parks
 * it. The caller holds heap_global.lock: otherwise another thread might park and adopt the heap
 * after its thread's id was looked at and before its state changes. NULL: there is no such heap. */
static struct heap *take_dead(void) {
    for (struct heap *heap = heap_global.first; heap; heap = heap->next) {
        if (load_relaxed(&heap->state) != HEAP_OWNED || !heap->tid || os_thread_exists(heap->tid))
            continue;
        store_owner(&heap->state, HEAP_ORPHAN);
        if (!heap->busy) /* a busy heap may be half changed: it stays HEAP_ORPHAN */
            return heap;
        tables_count_heap(-1, TABLES_HEAP_BYTES);
    }
    return NULL;
}

/* Heaps of threads that ended without telling the library are searched for only when there are more
 * heaps than FEW_HEAPS, and only at one in LOOK_EVERY calls of heap_acquire. If threads tell of
 * their end, the bound is MANY_HEAPS: a thread then leaves a heap behind only if its first
 * allocation comes in the last round of key destructors. Searches are rare because each of
 * them makes a system call for each heap that a thread owns, and a filter of the program may forbid
 * this call. */
#define FEW_HEAPS 2U
#define MANY_HEAPS 64U
#define LOOK_EVERY 16U

/* Parks the heaps of threads that ended without telling the library. */
static void park_dead(void) {
    for (;;) {
        lock_take(&heap_global.lock);
        struct heap *dead = take_dead();
        lock_release(&heap_global.lock);
        if (!dead)
            return;
        heap_park(dead);
    }
}

struct heap *heap_acquire(uint32_t tid, bool threads_tell) {
    lock_take(&heap_global.lock);
    uint32_t seen = heap_global.threads_seen++;
    struct heap *heap = adopt_parked(tid);
    bool look = !heap && heap_global.heaps > (threads_tell ? MANY_HEAPS : FEW_HEAPS) &&
                !(seen % LOOK_EVERY);
    lock_release(&heap_global.lock);
    if (look) {
        park_dead();
        lock_take(&heap_global.lock);
        heap = adopt_parked(tid);
        lock_release(&heap_global.lock);
    }
    if (heap) {
        heap_collect_remote(heap);
        /* a fork may not have copied the heap's last thread, which then gave up no contexts */
        REGION_HOOK(leave_named, heap);
        order_stores();
        store_owner(&heap->busy, 0);
        return heap;
    }
    heap = exchange_relaxed(&heap_global.first_used, true) ? meta_alloc(sizeof *heap) : &first_heap;
    if (!heap)
        return NULL;
    heap_init(heap);
    heap->tid = tid;
    tables_count_heap(1, 0);
    lock_take(&heap_global.lock);
    heap_publish(heap);
    lock_release(&heap_global.lock);
    return heap;
}

/* Moves a view's numbers to the totals of exited threads. If the tables have no room for a view of
 * the totals, the numbers stay in the view, and the next thread that has the heap continues them.
 */
static void fold_into_totals(struct heap *heap, struct view *view) {
    struct view *sum = heap_view_within(heap_global.totals, view->context, TABLES_OTHERS);
    if (sum)
        heap_fold(heap, view, heap_global.totals, sum);
}

/* Moves the heap's counts of frees of other heaps' chunks (heap.freed_of) to the totals. */
static void fold_remote(struct heap *heap) {
    for (uint32_t i = 0; i < heap->freed_of_count; i++) {
        uint64_t count = heap->freed_of[i];
        if (!count)
            continue;
        if (i >= heap_global.totals->freed_of_count) {
            heap_count_remote_grow(heap_global.totals, i);
            if (i >= heap_global.totals->freed_of_count)
                continue;
            count--; /* heap_count_remote_grow counted one free */
        }
        add_owner(&heap_global.totals->freed_of[i], count);
        store_owner(&heap->freed_of[i], 0);
    }
}

struct heap *heap_totals(void) {
    struct heap *totals = heap_global.totals;
    if (!totals && (totals = meta_alloc(sizeof *totals))) {
        heap_init(totals);
        totals->state = HEAP_TOTALS;
        heap_global.totals = totals;
        heap_publish(totals);
    }
    return totals;
}

void heap_keep_less(struct heap *heap) {
    int64_t kept = heap->kept_bytes ? heap->kept_bytes : TABLES_HEAP_BYTES;
    tables_add(TABLES_PARKED_BYTES - kept);
    heap->kept_bytes = TABLES_PARKED_BYTES;
}

void heap_park(struct heap *heap) {
    heap_collect_remote(heap);
    REGION_HOOK(leave_named, heap);
    bins_release_empty(heap, &heap->mixed);
    lock_take(&heap_global.lock);
    heap_totals();
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        struct view *view = heap_view_at(heap, i);
        if (heap_global.totals && (view->allocs || view->frees))
            fold_into_totals(heap, view);
    }
    if (heap_global.totals)
        fold_remote(heap);
    regions_release_empty(heap);
    segment_span_cache_end(&heap->span_cache);
    heap_publish_waste(heap);
    tables_count_heap(-1, heap->kept_bytes ? heap->kept_bytes : TABLES_HEAP_BYTES);
    heap->tid = 0;
    heap->busy = 0;
    store_release(&heap->state, HEAP_PARKED);
    add_relaxed(&heap_global.parked, 1);
    lock_release(&heap_global.lock);
}

/* Takes a heap out of the list. The heap's own `next` stays, because a thread may be reading it. */
static void remove_from_list(struct heap *heap) {
    struct heap *at = heap;
    if (cas_release(&heap_global.first, &at, heap->next))
        return;
    while (at->next != heap)
        at = at->next;
    store_release(&at->next, heap->next);
}

bool heap_retire(struct heap *heap) {
    struct heap *totals = heap_totals();
    if (!totals || heap == &first_heap || load_relaxed(&heap->remote_pages))
        return false;
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        struct view *view = heap_view_at(heap, i), *sum;
        if (!view->allocs && !view->frees)
            continue;
        /* never refused: the heap's own view, which is given back, takes as much memory */
        if (!(sum = heap_view_within(totals, view->context, TABLES_MUST)))
            return false;
        heap_fold(heap, view, totals, sum);
    }
    fold_remote(heap);
    /* the counts for which the totals have no room */
    for (uint32_t i = 0; i < heap->freed_of_count; i++)
        add_relaxed(&heap_global.lost_remote, heap->freed_of[i]);
    segment_span_cache_end(&heap->span_cache);
    remove_from_list(heap);
    store_release(&heap->state, HEAP_ORPHAN);
    heap_global.heaps--;
    add_relaxed(&heap_global.parked, -1);
    /* heap_global.own_free stays: without pages, the heap's part (own_free_published) and the
     * changes by visitors add up to 0. */
    return true;
}

void heap_free(struct heap *heap) {
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i))
        region_free_empty(heap_view_at(heap, i)->region);
    meta_free(heap->apart, sizeof *heap->apart);
    heap_free_views(heap);
    tables_add(-(int64_t)(heap->kept_bytes ? heap->kept_bytes : TABLES_HEAP_BYTES));
    meta_free(heap, sizeof *heap);
}

static bool is_listed(const struct heap *wanted) {
    const struct heap *heap = load_acquire(&heap_global.first);
    while (heap && heap != wanted)
        heap = heap->next;
    return heap;
}

static bool shared_is_made(const struct heap *heap) {
    return load_relaxed(&heap->mixed.current[0]) != NULL;
}

static struct heap *shared_locked(struct heap *heap) {
    if (!shared_is_made(heap)) {
        /* heap_global.lock cannot be taken here, because its rank comes before that of the shared
         * heap's lock. The heap is listed first and made second. A child that is forked between the
         * two steps makes the heap, but does not list it again. */
        if (!is_listed(heap))
            add_to_list(heap);
        heap_init(heap);
    }
    heap_collect_remote(heap);
    return heap;
}

struct heap *heap_shared_lock(void) {
    struct heap *heap = the_shared();
    if (lock_is_mine(&heap->lock))
        return NULL;
    lock_take(&heap->lock);
    if (UNLIKELY(heap != the_shared())) { /* a signal handler forked while this thread waited */
        lock_release(&heap->lock);
        return heap_shared_lock();
    }
    return shared_locked(heap);
}

struct heap *heap_shared_try(void) {
    struct heap *heap = the_shared();
    return lock_try(&heap->lock) ? shared_locked(heap) : NULL;
}

bool heap_shared_is_locked(void) {
    return load_acquire(&the_shared()->lock.word);
}

void heap_shared_unlock(struct heap *heap) {
    lock_release(&heap->lock);
}

void heap_publish_waste(struct heap *heap) {
    int64_t change = heap->own_free - heap->own_free_published;
    add_relaxed(&heap_global.own_free, change);
    heap->own_free_published = heap->own_free;
}

int64_t heap_live_bytes(void) {
    int64_t live = 0;
    bool may_lock = !lock_any_is_mine();
    if (may_lock)
        lock_take(&heap_global.lock);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t count = load_acquire(&heap->view_count);
        for (uint32_t i = 1; i < count; i = heap_view_after(heap, i))
            live += view_live_bytes(heap_view_at(heap, i));
    }
    if (may_lock)
        lock_release(&heap_global.lock);
    return live;
}

void heap_note_waste(struct heap *heap) {
    int64_t change = heap->own_free - heap->own_free_published;
    if (change > PUBLISH_STEP || change < -PUBLISH_STEP)
        heap_publish_waste(heap);
}

bool heap_may_segregate(struct heap *heap) {
    heap_note_waste(heap);
    int64_t waste = load_relaxed(&heap_global.own_free);
    int64_t live = segment_used_bytes() - waste;
    int64_t cap = load_relaxed(&options.waste_kib) << 10;
    if (live / WASTE_SHARE > cap)
        cap = live / WASTE_SHARE;
    return waste < cap;
}

/* Gives up the shared heap in a forked child, because the thread that used it was not copied. The
 * lists of the shared heap may be half changed, so the child never follows them. The child gets
 * another shared heap, which the next user sets up (shared_locked). If there is no memory for that
 * heap, the child keeps the old one with empty lists. */
static void shared_give_up(struct heap *heap) {
    /* not by meta_alloc: the fork may be in a signal handler that interrupted meta_alloc */
    struct heap *anew = os_map(align_up(sizeof *anew, OS_PAGE_BYTES));
    if (!anew) {
        bins_init_mixed(heap);
        __builtin_memset(heap->paths_room, 0, sizeof heap->paths_room);
        return;
    }
    anew->state = HEAP_SHARED;
    anew->lock.rank = RANK_PARKED;
    store_owner(&heap->state, HEAP_ORPHAN);
    store_owner(&shared_of_child, anew);
}

/* Takes the locks. The shared heap's lock is taken only if that heap was ever used, because parent
 * and child both write the lock, which copies an OS page. */
void heap_fork_prepare(bool interrupted) {
    lock_fork_prepare(&heap_global.lock, interrupted);
    heap_global.forking_tid = os_thread_id();
    if (shared_is_made(the_shared()))
        lock_fork_prepare(&the_shared()->lock, interrupted);
}

bool heap_fork_done(bool child) {
    struct heap *shared = the_shared();
    bool made = shared_is_made(shared);
    bool whole = !made || lock_fork_done(&shared->lock, child);
    /* Another thread may have been about to make the shared heap. That thread does not exist in the
     * child, so the next user makes the heap. */
    if (child && !made && load_relaxed(&shared->lock.word) && !lock_is_mine(&shared->lock))
        lock_reset(&shared->lock);
    if (child && !whole)
        shared_give_up(shared);
    return whole & lock_fork_done(&heap_global.lock, child);
}

void heap_fork_child(struct heap *self) {
    if (heap_global.reading) /* the reading thread does not exist in the child */
        heap_global.reading = false;
    uint32_t parked = 0;
    for (struct heap *heap = heap_global.first; heap; heap = heap->next) {
        bool held_by_other = load_relaxed(&heap->lock.word) && !lock_is_mine(&heap->lock);
        if (UNLIKELY(!self && heap->state == HEAP_OWNED && heap->tid == heap_global.forking_tid))
            self = heap;
        if (heap == self || heap == heap_global.totals || heap->state == HEAP_SHARED)
            continue;
        if (heap->state == HEAP_OWNED) {
            /* the owner, or a visitor who is not in the child, may have been changing the heap */
            bool torn = heap->busy || heap->visited;
            store_owner(&heap->state, torn ? HEAP_ORPHAN : HEAP_PARKED);
            tables_count_heap(-1, TABLES_HEAP_BYTES);
        } else if (held_by_other) { /* the thread that used the heap does not exist in the child */
            store_owner(&heap->state, HEAP_ORPHAN);
        }
        if (held_by_other)
            lock_reset(&heap->lock);
        parked += heap->state == HEAP_PARKED;
        if (heap->tid) /* the comparison avoids a write, which costs the child an OS page */
            heap->tid = 0;
        if (heap->visited) /* the visitor does not exist in the child */
            heap->visited = 0;
    }
    if (heap_visit_lock.word)
        lock_reset(&heap_visit_lock);
    if (heap_global.parked != parked)
        heap_global.parked = parked;
    if (self) {
        if (self->visited)
            self->visited = 0;
        /* A trim request was made to the parent, so the child does not answer it. The comparison
         * avoids a write, which costs the child an OS page. */
        if (self->trims != trim_number)
            store_owner(&self->trims, trim_number);
        self->tid = os_thread_id();
        self->newest_max = NEWEST_VIEWS;
    }
}
