/* SPDX-License-Identifier: MIT */
/*
 * heap.h - what one thread owns: its views of contexts, their regions, its mixed pages.
 *
 * A heap belongs to one thread at a time, which alone writes it (no atomics, no lock). When the
 * thread exits the heap is parked; the next new thread adopts it whole, with every page. While it
 * is parked, whoever frees one of its chunks does so under heap->lock. One heap, the shared one,
 * is always used under its lock: by threads that have allocated little so far (api/thread.c), by
 * threads past their end and by signal handlers that interrupt the allocator.
 *
 * A *view* is the part of a context's numbers that one thread owns: what this thread allocated in
 * the context minus what it freed there, whoever had allocated it. The sum over all views of a
 * context is therefore exact without one atomic, whichever thread frees.
 */
#ifndef MEMCTX_HEAP_H
#define MEMCTX_HEAP_H

#include "region/tables.h"
#include "segment/segment.h"

#define SIZE_CLASSES 36
#define NARROW_CLASSES 24 /* blocks up to 1 KiB, in pages of one slice */
#define SMALL_MAX 8192UL  /* larger chunks are spans or huge */
#define NARROW_MAX 1024UL
#define WIDE_PAGE_SLICES 4U
#define VIEWS_PER_BLOCK 4096U
#define VIEW_BLOCKS 1024U
#define VIEW_TWINS 32U
#define HEAP_TABLES_BYTES (4 << 10) /* of views, whatever the budget */
#define HEAP_PATHS_BYTES 384U
#define HEAP_HOT_BYTES 2816U /* of a heap, from its start; see tests/abuse/names.py */

struct bins;

/* The numbers of one thread in one context, and the place of its next chunks. A view fills one
 * cache line. Only the owner writes it; dumps read it at any time. The counts only grow, which
 * lets a dump read the frees before the allocations. */
struct view {
    uint64_t allocs, frees;
    uint64_t requested_cum_bytes; /* allocated */
    uint64_t freed_cum_bytes;     /* of what was requested; may be more: see above */
    int64_t peak_bytes;           /* of view_live_bytes */
    struct bins *bins; /* where its next chunks go: its region's, the heap's mixed ones, or, to have
                        * that decided anew, heap_no_bins */
    struct bins *region; /* pages of its own; NULL: none yet */
    uint32_t context;    /* id; 0: this view waits for another context, see heap_view_drop */
    uint32_t index;      /* in heap->views */
};
/* Pages by size class. `current` is never NULL: a stand-in without free blocks takes the place
 * of a missing page. For mixed pages up to 1 KiB the current page is one of heap->recent_room. */
struct bins {
    struct page *current[SIZE_CLASSES];
    struct page *partial[SIZE_CLASSES]; /* other pages with free blocks */
    /* The place where the search for the next page begins. A heap's bins use it for mixed pages
     * and for small regions. */
    uintptr_t next_page;
    uint64_t allocs_at_release; /* of a region: the view's when its empty pages were given back */
    uint16_t policy; /* of a region: enum placement, from PLACE_SLAB on; else PLACE_DEFAULT */
    uint8_t terms;   /* of a region: what its pages are made by, see region/terms.h */
    uint8_t slices;  /* of its pages; 0: as many as usual */
};
_Static_assert(sizeof(struct view) == CACHE_LINE, "a view is one line");

enum heap_state {
    HEAP_OWNED = 0, /* by the thread `tid` */
    HEAP_PARKED,    /* no thread; used under heap->lock */
    HEAP_SHARED,    /* the shared heap: used under heap->lock */
    HEAP_ORPHAN,    /* its thread ended inside it, or did not come along in a fork: it is given
                     * up, and only its remote list grows */
    HEAP_TOTALS,    /* holds the views of exited threads; owns no pages */
};

struct heap {
    uint32_t busy; /* owner: inside the allocator; a signal handler or a fork sees it */
    uint32_t tid;
    /* The waste that the cap limits: the free bytes of blocks that were in use once, in pages
     * that are or were a context's own, plus one OS page for each such page that is not used up. */
    int64_t own_free;
    int64_t own_free_published; /* what of it stands in heap_global.own_free */
    uint32_t view_count;        /* atomic: indices below it are valid */
    uint32_t views_in_slots;    /* those below it stand in `slots` */
    uint32_t newest_max;        /* so many may stand in none */
    uint32_t slot_mask;
    /* Owner: context -> view index. Other threads use slots_shown. The index is not hashed:
     * contexts that are walked one after the other were mostly made in that order, and stand
     * side by side. */
    uint32_t *slots;
    uint32_t denied;        /* since the last sweep: pages of its own that a context did not get */
    uint32_t donor;         /* index of the view whose own pages are shared next, past the cap */
    uint32_t pages_used_up; /* see region_alloc_next */
    /* Other threads read the fields below when they free and at a fork. They stand apart from
     * the fields that the owner writes all the time. */
    struct page *remote_pages
        __attribute__((aligned(CACHE_LINE))); /* atomic list: pages with blocks freed by others */
    struct lock lock;
    uint32_t state;        /* atomic: enum heap_state */
    uint32_t forks;        /* owner: this thread's that are under way */
    uint32_t thread_exits; /* rounds of key destructors seen */
    uint32_t number;       /* of heaps in the order they were made; 0: the shared one */
    int64_t table_bytes;   /* owner: of the tables' budget, for views */
    struct heap *next;     /* all heaps; never shrinks */
    uint32_t idle_bytes;   /* owner: of views that wait for another context */
    /* Of TABLES_HEAP_BYTES, the part that the heap keeps while it has no thread; 0: all of it. */
    uint32_t kept_bytes;
    /* Room for the thread's path cache, which belongs to the context layer. */
    char paths_room[HEAP_PATHS_BYTES] __attribute__((aligned(CACHE_LINE)));
    struct bins mixed __attribute__((aligned(CACHE_LINE)));
    /* The blocks of mixed pages that were freed last and are still in the CPU cache. For each
     * size class there is a stand-in for a page, which is the current page of `mixed`: `free` is
     * the list of the blocks, `used` the room left in that list, `behind` the real current page.
     * The blocks count as used in their own pages. Only the first cache line of a struct page is
     * stored, so that all recent blocks and the data of FORK_PAGE fit one OS page. */
    char recent_room[NARROW_CLASSES][CACHE_LINE] __attribute__((aligned(CACHE_LINE)));
    /* The size class that serves a request, by size (up to NARROW_MAX, in steps of 16) and by
     * size class. The largest class of each doubling serves the whole doubling as long as all
     * blocks fit into one page of that class; after that each class serves itself. */
    uint8_t size_served_by[NARROW_MAX / 16 + 1], served_by[SIZE_CLASSES];
    /* A cache: views of other heaps, and this heap's view of each one's context. With it, a free
     * of another thread's chunk need not read the other view, which its owner writes all the
     * time. */
    struct {
        const struct view *of_other;
        struct view *ours;
    } twins[VIEW_TWINS];
    uint32_t twins_of; /* heap_views_epoch when the first of them was found */
    /* See context/evict.h. `looks` is odd while the owner looks up a path in the tree. */
    uint32_t looks;      /* atomic */
    uint32_t looks_then; /* when nodes were taken out of the tree the last time; of who does that */
    uint32_t looked_at;  /* owner: evict_round that it has seen */
    /* Atomic: another thread holds heap_visit_lock and may change this heap's views and caches. */
    uint32_t visited;
    uint32_t views_dropped; /* owner: views that wait for another context */
    uint32_t dropped_from;  /* owner: none of these is below */
    /* Owner: how often this heap freed chunks of another heap, by that heap's number; only
     * grows. */
    uint64_t *freed_of;
    uint32_t freed_of_count;     /* atomic: of its elements */
    uint32_t trims;              /* atomic: the last of heap_trim.wanted that it has done */
    uint32_t placings;           /* owner: how often contexts were placed when it last looked */
    struct pool *apart;          /* owner: mixed pages of PLACE_APART; NULL: none yet */
    struct baseline **baselines; /* VIEW_BLOCKS of them; control thread, under heap_global.lock */
    /* For threads that look up views of other threads, see heap_views_next: the current slots,
     * and the old slots if the table grew during such a walk. The low bits of each value hold
     * the logarithm of the table's length. */
    uintptr_t slots_shown;           /* atomic */
    uintptr_t slots_retired;         /* atomic */
    struct view *views[VIEW_BLOCKS]; /* published with release; index 0 is unused */
};

_Static_assert(offsetof(struct heap, twins) <= HEAP_HOT_BYTES, "fits the page of FORK_PAGE");

struct baseline { /* what a reset subtracts from a view */
    uint64_t allocs, frees, requested_cum_bytes;
};

struct heap_global {
    struct lock lock;       /* RANK_HEAPS: parking, adopting, folding */
    struct heap *first;     /* atomic head; heaps are added only */
    struct heap *totals;    /* views of exited threads */
    int64_t own_free;       /* atomic: sum of the published figures */
    uint64_t foreign_frees; /* atomic: frees of pointers that are not ours, ignored */
    uint32_t threads_seen;  /* atomic: heaps given to threads, ever */
    uint32_t heaps;
    uint32_t parked;      /* atomic: of these, heaps that wait for a thread */
    bool first_used;      /* atomic: the heap that needs no memory */
    bool reading;         /* atomic: somebody looks up others' views: no slots are freed */
    uint16_t at_once;     /* atomic: threads that did not wait for a heap, see api/thread.c */
    uint64_t lost_remote; /* atomic: frees of others' chunks that stand in no heap's freed_of */
    uint64_t lost_views;  /* atomic: operations that could not be accounted; 0 means exact */
};
INTERNAL struct heap_global heap_global;
/* The control thread may take views and caches from the heap of a thread that is not inside the
 * allocator: see context/evict.c. The owner calls heap_await before it uses slots, caches, or the
 * list of its views, and waits until such a visit is over. It need not call it to free a chunk:
 * views with chunks that are alive stay as they are. */
INTERNAL struct lock heap_visit_lock; /* RANK_VISIT */
void heap_await_visitor(struct heap *heap);
INLINE void heap_await(struct heap *heap) {
    if (UNLIKELY(load_relaxed(&heap->visited)))
        heap_await_visitor(heap);
}
INTERNAL uint32_t heap_views_epoch; /* atomic: how often views were taken from their contexts */
INLINE struct page *heap_recent(struct heap *heap, unsigned size_class) {
    return (struct page *)heap->recent_room[size_class];
}

INTERNAL struct page heap_no_page; /* stands in for a current page; has no free block */
/* Bins without pages: an allocation from them takes the slow path. */
INTERNAL const struct bins heap_no_bins;

/* Returns a heap for the calling thread: a parked heap, else a new one. NULL: out of memory.
 * `threads_tell`: threads that end park their heaps. */
struct heap *heap_acquire(uint32_t tid, bool threads_tell);
/* Folds the views into the totals, gives empty pages back and parks the heap. */
void heap_park(struct heap *heap);
/* Returns the heap that has the figures of ended threads. Under heap_global.lock. NULL: out of
 * memory. */
struct heap *heap_totals(void);
/* The heap, which has no thread, has lost its room for traces and a walked stack. Under its lock.
 */
void heap_keep_less(struct heap *heap);
/* Counts the free of another heap's chunk: in this heap's view of the context, or, where the budget
 * has no room for one, in that of heap_totals. */
void heap_count_free(struct heap *heap, uint32_t context, size_t requested);
/* Moves a view's numbers to another one of the same context, in that heap. Under heap_global.lock,
 * so that no dump sees them twice. */
void heap_fold(struct heap *heap, struct view *view, struct heap *to, struct view *sum);
/* The shared heap, locked and ready; NULL: this thread holds it already (a handler within). */
struct heap *heap_shared_lock(void);
/* As heap_shared_lock, for a caller that holds no lock; never waits. NULL: another thread holds
 * it. */
struct heap *heap_shared_try(void);
void heap_shared_unlock(struct heap *heap);

INLINE struct view *heap_view_at(struct heap *heap, uint32_t index) {
    return &heap->views[index / VIEWS_PER_BLOCK][index % VIEWS_PER_BLOCK];
}

/* Returns this heap's view of a context and makes it if it is missing. Never NULL once the heap
 * has one view: if no view can be made, the first view ([unknown]) is charged, and the failure
 * is counted. */
struct view *heap_view_further(struct heap *heap, uint32_t context);
/* As heap_view_further, but NULL when the view is missing and either `share` of the tables'
 * budget is used up or memory is short. */
struct view *heap_view_within(struct heap *heap, uint32_t context, enum tables_share share);
INLINE struct view *heap_view(struct heap *heap, uint32_t context) {
    heap_await(heap);
    if (LIKELY(heap->slots)) {
        uint32_t index = heap->slots[context & heap->slot_mask];
        struct view *view = heap_view_at(heap, index);
        if (LIKELY(index) && LIKELY(view->context == context))
            return view;
    }
    return heap_view_further(heap, context);
}

/* Sets a view without numbers and chunks aside for another context. The owner calls it under
 * heap_global.lock, and calls heap_views_dropped before it releases the lock. */
void heap_view_drop(struct heap *heap, struct view *view);
void heap_views_dropped(struct heap *heap);

/* Walks over the views of one context in all heaps, for a thread that owns none of these heaps.
 * The same thread calls heap_read_begin, walks, and calls heap_read_end, under heap_global.lock.
 * The walk may miss a view made during the walk; it never misses a view that had counted
 * something before the walk began. No other code knows which views belong to a context. */
struct heap_views {
    uint32_t context;
    struct heap *next; /* to be looked at */
    struct heap *heap; /* of the view that was found last */
};
void heap_read_begin(void);
void heap_read_end(void);
INLINE struct heap_views heap_views_of(uint32_t context) {
    return (struct heap_views){.context = context, .next = load_acquire(&heap_global.first)};
}
const struct view *heap_views_next(struct heap_views *walk); /* NULL: that was all */

/* Empties the cache `twins`, because views of other heaps may belong to other contexts now. */
void heap_forget_twins(struct heap *heap);
/* Returns this heap's view of the context to which another heap's view belongs. NULL: there is no
 * room for it. */
INLINE struct view *heap_view_twin(struct heap *heap, const struct view *of_other) {
    unsigned place = ((uintptr_t)of_other / sizeof *of_other) % VIEW_TWINS;
    if (UNLIKELY(heap->twins_of != load_relaxed(&heap_views_epoch)))
        heap_forget_twins(heap);
    if (UNLIKELY(heap->twins[place].of_other != of_other)) {
        struct view *ours = heap_view_within(heap, of_other->context, TABLES_STACK);
        if (UNLIKELY(!ours))
            return NULL;
        heap->twins[place].of_other = of_other;
        heap->twins[place].ours = ours;
    }
    return heap->twins[place].ours;
}

/* Counts a free of another heap's chunk. */
void heap_count_remote_further(struct heap *heap, uint32_t owner);
INLINE void heap_count_remote(struct heap *heap, const struct heap *owner) {
    if (LIKELY(owner->number < heap->freed_of_count))
        add_owner(&heap->freed_of[owner->number], 1);
    else
        heap_count_remote_further(heap, owner->number);
}

/* Where a context's next chunks are to stand, by its id. */
enum placement {
    PLACE_DEFAULT = 0, /* as its live bytes and the waste cap decide */
    /* The context's chunks share no page with contexts of another placement. From
     * MEMCTX_PROMOTE_BYTES on they stand in a region of their own, whatever the waste cap; before
     * that, in pages that all such contexts of the thread share. */
    PLACE_APART,
    PLACE_SHARED, /* no new pages of its own */
    /* The values below give the context a policy of its own once it has MEMCTX_PROMOTE_BYTES alive,
     * whatever the waste cap. */
    PLACE_SLAB,       /* blocks of the very sizes it asks for: region/slab.h */
    PLACE_GENERATION, /* chunks one behind the other: region/serial.h */
    PLACE_BUMP,       /* the same, and no empty page is kept */
    PLACE_SIMPLE,     /* each chunk by itself, in a list: region/simple.h */
    PLACE_COUNT,
    PLACE_MASK = 7,
};

/* A region in memory: its bins, and the fields that only contexts with a policy use. */
struct region {
    struct bins bins;
    /* For region/slab.h, by size class. `units`: size of a block in units; 0: no block was
     * requested. `emptier`: in the list of pages with free blocks, the first page that is at
     * most half full; NULL: the array is not made yet. */
    uint16_t units[SIZE_CLASSES];
    struct page **emptier;
    struct page *serial; /* region/serial.h: the page that new chunks come from; NULL: none */
    struct page *spare;  /* an empty one */
    struct simple_node *chunks; /* region/simple.h: all of them */
    uint32_t looked;            /* heap.placings when its policy was looked at, the last time */
    /* Linked by `next` and `prev`: all pages of region/serial.h; where `named`, full pages, too. */
    struct page *pages;
    struct page *large; /* where `named`: large chunks, under region_lock */
    /* Where `named`: chunks and bytes that the view's account cannot tell, because other threads
     * freed them or for another reason, as last counted. */
    int64_t others_chunks, others_bytes;
    /* Where `named`: the limit of requested bytes; 0: none. With a limit the `bins` of its view are
     * heap_no_bins. */
    uint64_t limit;
    bool named; /* all that is allocated there is freed together: region/named.h */
};
/* A value of others_chunks: the view's account is not known to cover the region any more. */
#define REGION_RECOUNT (INT64_MAX / 2)
INLINE struct region *region_of(struct bins *bins) {
    return (struct region *)(void *)bins;
}

#define PLACED_BY_HAND 64U /* beside the placement: no rule changes it */
#define PLACED_PER_LEAF 4096U
#define PLACED_LEAVES 1024U
/* Atomic: a bit 1 << placement for each placement that some context has, and HEAP_TERMS. */
INTERNAL uint32_t heap_placed_any;
/* Atomic: leaves with a byte for each context, its enum placement; NULL: all have the default. */
INTERNAL void *heap_placed[PLACED_LEAVES];
/* Returns the context's byte in an array of leaves; 0: the context has no byte. */
INLINE uint8_t heap_leaf_byte(void *const *leaves, uint32_t context) {
    if (context / PLACED_PER_LEAF >= PLACED_LEAVES)
        return 0;
    const uint8_t *leaf = load_acquire(&leaves[context / PLACED_PER_LEAF]);
    return leaf ? load_relaxed(&leaf[context % PLACED_PER_LEAF]) : 0;
}
INLINE enum placement heap_placement(uint32_t context) {
    return LIKELY(!load_relaxed(&heap_placed_any))
               ? PLACE_DEFAULT
               : (enum placement)(heap_leaf_byte(heap_placed, context) & PLACE_MASK);
}
/* Returns the entry of a context in an array of leaves with entries of `bytes` bytes, and makes
 * the leaf if it is missing. Any thread. NULL: out of memory. */
void *heap_leaf_place(void **leaves, uint32_t context, size_t bytes);
uint8_t *heap_placed_byte(uint32_t context);
bool heap_place(uint32_t context, enum placement placement);
/* heaps_reconsider makes every heap decide again, at each context's next allocation, which pages
 * the context uses. It is called after placements changed; heap_placings counts the calls. */
INTERNAL uint32_t heap_placings; /* atomic: how often */
void heaps_reconsider(void);
/* Makes one heap decide again about all its contexts; the heap's owner calls it. */
void heap_reconsider(struct heap *heap);

/* Returns the numbers that a reset subtracts from the view; NULL: there are none. With `make`
 * other than TABLES_UNCOUNTED, makes a missing entry if that share of the tables' budget has
 * room; NULL then means that there is no room. */
#define BASELINES_PER_BLOCK 170U /* which fill 4 KiB */
#define BASELINE_BLOCK_BYTES 4096
struct baseline *heap_baseline(struct heap *heap, uint32_t view_index, enum tables_share make);

/* True while the waste cap lets contexts get pages of their own: DESIGN, invariant 5. */
bool heap_may_segregate(struct heap *heap);
void heap_publish_waste(struct heap *heap);
/* Returns the requested bytes that are alive in all heaps. It takes heap_global.lock and reads
 * every view. */
int64_t heap_live_bytes(void);

/* Take and release the locks around a fork, see os.h. */
void heap_fork_prepare(bool interrupted);
bool heap_fork_done(bool child);
/* In a forked child, gives up the heaps of threads that the fork did not copy. `self`: the
 * forking thread's heap, or NULL. */
void heap_fork_child(struct heap *self);

/* A context asks for pages of its own at every KiB (2^10 bytes) that its peak grows. */
#define PROMOTION_STEP 10

/* Bytes that this thread requested minus bytes that it freed. Negative when the thread freed
 * chunks that other threads had allocated. */
INLINE int64_t view_live_bytes(const struct view *view) {
    return (int64_t)(load_relaxed(&view->requested_cum_bytes) -
                     load_relaxed(&view->freed_cum_bytes));
}

INLINE void view_account_alloc(struct view *view, size_t requested) {
    uint64_t cum = view->requested_cum_bytes + requested;
    int64_t live = (int64_t)(cum - view->freed_cum_bytes);
    int64_t peak = load_relaxed(&view->peak_bytes);
    add_owner(&view->allocs, 1);
    store_owner(&view->requested_cum_bytes, cum);
    if (UNLIKELY(live > peak)) {
        store_owner(&view->peak_bytes, live);
        if (UNLIKELY((peak ^ live) >> PROMOTION_STEP) && view->bins != view->region)
            view->bins = (struct bins *)&heap_no_bins; /* never written */
    }
}

INLINE void view_account_free(struct view *view, size_t requested) {
    add_owner(&view->frees, 1);
    add_owner(&view->freed_cum_bytes, requested);
}

#endif
