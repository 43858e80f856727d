/* SPDX-License-Identifier: MIT */
/*
 * heap.h - what one thread owns: its views of contexts, their regions, its mixed pages.
 *
 * A heap belongs to one thread at a time, its owner. Only the owner allocates from the heap and
 * counts in its views. Other threads write only atomic words of the heap. A visitor writes more,
 * but the owner waits for it (heap_await). So the owner needs no lock and no atomic
 * read-modify-write. When the thread exits, the heap is parked, and the next new thread adopts the
 * heap with all its pages. A thread that frees a chunk of a parked heap holds heap->lock meanwhile,
 * or, if the lock is taken, leaves the chunk to be collected later (region/remote.c).
 * The shared heap is always used under its lock: by threads that have allocated little so far
 * (api/thread.c), by threads whose end was already noticed (thread_exits) and by signal handlers
 * that interrupt the allocator.
 *
 * A *view* holds one thread's numbers in one context: the chunks that the thread allocated there,
 * and the chunks that the thread freed there. A chunk may be freed by another thread than the one
 * that allocated it; each thread counts in its own view. So the sum over all views of a context is
 * exact, and no counter needs an atomic instruction.
 */
#ifndef MEMCTX_HEAP_H
#define MEMCTX_HEAP_H

#include "region/tables.h"
#include "segment/segment.h"

#define SIZE_CLASSES 49
/* number of narrow classes: blocks up to 1 KiB, in pages of one slice, or of four if terms ask for
 * that (region/terms.h) */
#define NARROW_CLASSES 24
#define SMALL_MAX 9216UL /* larger chunks are PAGE_SPAN or PAGE_HUGE */
#define NARROW_MAX 1024UL
#define WIDE_PAGE_SLICES 4U
#define VIEWS_PER_BLOCK 4096U
#define VIEW_BLOCKS 1024U
#define VIEW_TWINS 16U /* number of entries in the cache heap.twins */
/* each heap gets this many bytes of tables, even if the budget is used up */
#define HEAP_TABLES_BYTES (4 << 10)
#define HEAP_PATHS_BYTES 384U /* room for struct paths (path/cache.h) */
/* The start of the first heap, up to the field twins, has at most this many bytes. It shares an OS
 * page with the data of FORK_PAGE, so that a fork copies one OS page for both. */
#define HEAP_HOT_BYTES 3008U

struct bins;

/* The numbers of one thread in one context, and the pages for the context's next chunks. A view
 * fills one cache line. Only the owner of the heap counts in the view; dumps read the view at any
 * time. The counts grow until heap_fold moves them to another view. A dump reads the frees before
 * the allocations, so that it never counts a free without its allocation. Other threads may set
 * `bins` to heap_no_bins (heaps_reconsider). */
struct view {
    uint64_t allocs, frees;       /* number of chunks that the thread allocated and freed */
    uint64_t requested_cum_bytes; /* requested bytes of all chunks that the thread allocated */
    /* requested bytes of all chunks that the thread freed. These bytes may exceed
     * requested_cum_bytes, because the thread also frees chunks that other threads allocated. */
    uint64_t freed_cum_bytes;
    int64_t peak_bytes; /* greatest value of view_live_bytes so far */
    /* pages for the next chunks: the bins of the region, heap->mixed, or the bins of heap->apart.
     * heap_no_bins: region_alloc serves the next allocation, and chooses the bins anew. */
    struct bins *bins;
    struct bins *region; /* the context's own pages in this heap; NULL: the context has none */
    /* id of the context; 0: the view waits for a context, see heap_view_drop */
    uint32_t context;
    uint32_t index; /* number of the view in heap->views */
};
/* Pages by size class. `current` is never NULL: heap_no_page, which has no free block, takes the
 * place of a missing page. In the bins of mixed pages the current pages of narrow classes are
 * stand-ins, see heap.recent_room. */
struct bins {
    struct page *current[SIZE_CLASSES]; /* the page that serves the next request */
    struct page *partial[SIZE_CLASSES]; /* list of the other pages with free blocks */
    /* The address where the search for slices for a new page begins. A region with few live bytes
     * uses the address in heap->mixed instead. */
    uintptr_t next_page;
    /* The fields below are those of a region; in other bins they are 0. */
    uint64_t allocs_at_release; /* view.allocs when empty pages were last given back */
    uint16_t policy;            /* enum placement, from PLACE_SLAB on; else PLACE_DEFAULT */
    uint8_t terms;              /* number of the region's terms, see region/terms.h */
    /* number of slices of a new page; 0: blocks_page_slices chooses by size class */
    uint8_t slices;
    uint8_t recipe; /* how pages are made and chunks are placed: sum of enum recipe_flag */
};
/* Properties of a region's pages. Policies (region/policy.h) and terms (region/terms.h) set them.
 */
enum recipe_flag {
    /* chunks are placed one behind the other (region/serial.h). Without the flag each chunk has a
     * block. */
    RECIPE_SERIAL = 1,
    RECIPE_SPARE = 2,                /* one empty page is kept for the next chunks */
    RECIPE_EXACT = 4,                /* blocks have exactly the requested sizes: region/slab.h */
    RECIPE_ZEROED = 8,               /* a free overwrites the block with zeros */
    RECIPE_CHAINED = PAGE_CHAINED,   /* each chunk is in a list of the region: region/simple.h */
    RECIPE_OF_TERMS = RECIPE_ZEROED, /* the flags that terms set; policies set all other flags */
};
_Static_assert(sizeof(struct view) == CACHE_LINE, "a view is one line");

enum heap_state {
    HEAP_OWNED = 0, /* the thread heap->tid owns the heap */
    /* no thread owns the heap; threads that free its chunks use it under heap->lock */
    HEAP_PARKED,
    HEAP_SHARED, /* the shared heap; threads use it under heap->lock */
    /* The heap is given up, and only its list remote_pages grows. The heap's thread ended inside
     * the allocator, or a fork did not copy the thread while it was inside the allocator. */
    HEAP_ORPHAN,
    HEAP_TOTALS, /* holds the numbers of exited threads; owns no pages */
};

/* "Owner" means that only the heap's thread accesses the field, or, in a parked or shared heap, the
 * thread that holds the heap's lock, or a visitor while the heap's thread waits (heap_await).
 * "Atomic" means that other threads access the field, too. */
struct heap {
    /* atomic, written by the owner: not 0 while the thread is inside the allocator. This field
     * tells a signal handler of the thread, a forked child and a visitor that the heap may be half
     * changed. */
    uint32_t busy;
    uint32_t tid; /* id of the thread; 0: no thread owns the heap */
    /* The waste that the waste cap limits, in pages that are or were a context's own: the bytes of
     * free blocks that were in use once, and one OS page for each page that still has blocks that
     * were never handed out. */
    int64_t own_free;
    int64_t own_free_published; /* the part of own_free that heap_global.own_free contains */
    uint32_t view_count;        /* atomic: views with lower indices exist */
    uint32_t views_in_slots;    /* atomic: views with lower indices are in `slots` */
    uint32_t newest_max;        /* greatest number of views that may be missing in `slots` */
    uint32_t slot_mask;         /* number of `slots` minus 1 */
    /* Owner: a hash table from the id of a context to the index of its view; 0: the slot is free.
     * The hash is the id itself, so that contexts that were made one after the other have
     * neighbouring slots. Other threads use slots_shown. */
    uint32_t *slots;
    /* number of requests for a page of a context's own that the waste cap refused, since all
     * regions were last searched for empty pages */
    uint32_t denied;
    uint32_t open_slices; /* owner: slices of the contexts' own pages that are not used up */
    /* index of the view at which the next search of share_own_page (bins.c) begins */
    uint32_t donor;
    uint32_t pages_used_up; /* how often a page ran out of free blocks, see look_is_due (alloc.c) */
    /* Other threads read the fields below when they free and at a fork. These fields stand apart
     * from the fields that the owner writes all the time. */
    /* atomic: list of the pages with blocks that other threads freed */
    struct page *remote_pages __attribute__((aligned(CACHE_LINE)));
    struct lock lock;
    uint32_t state;        /* atomic: enum heap_state */
    uint32_t forks;        /* owner: number of forks of this thread that are under way */
    uint32_t thread_exits; /* rounds of key destructors that the ending thread has gone through */
    uint32_t number;       /* from 1 on; each heap in the list has its own; 0: the shared heap */
    int64_t table_bytes;   /* owner: bytes of this heap's tables that hold views */
    struct heap *next;     /* next in the list of all heaps; stays after heap_retire */
    uint32_t idle_bytes;   /* owner: bytes of views that wait for a context */
    /* the bytes that the tables' budget counts for the heap while it has no thread; 0:
     * TABLES_HEAP_BYTES */
    uint32_t kept_bytes;
    /* Room for the thread's path cache, a struct of the path layer (path/cache.h). */
    char paths_room[HEAP_PATHS_BYTES] __attribute__((aligned(CACHE_LINE)));
    struct bins mixed __attribute__((aligned(CACHE_LINE))); /* mixed pages of this heap */
    /* The blocks of mixed pages that were freed last, and so are likely to be in the CPU's cache.
     * Each narrow size class has a stand-in, which has the form of a page header and is the current
     * page of `mixed`. The `free` of a stand-in is the list of the blocks, its `used` is the room
     * left in this list, and its `behind` is the real current page. `free_with_owners` is a second
     * list, of the blocks of pages with META_OWNERS, whose records have another form; both lists
     * share the room. The blocks count as used in their own pages. A stand-in is only the first
     * cache line of a struct page, so that all stand-ins and the data of FORK_PAGE fit one OS page.
     */
    char recent_room[NARROW_CLASSES][CACHE_LINE] __attribute__((aligned(CACHE_LINE)));
    /* The size class that serves a request: by the request's size (up to NARROW_MAX, in steps of
     * 16), and by its size class. At first the largest class of a group of classes serves the whole
     * group (largest_of, bins.c), so that few sizes touch few pages. Later a class serves itself,
     * or a pair of wide classes is served by the larger one (bins_split_class, bins_own_class). */
    uint8_t size_served_by[NARROW_MAX / 16 + 1], served_by[SIZE_CLASSES];
    /* A cache of pairs: a view of another heap, and this heap's view of the same context. With the
     * cache, a free of another thread's chunk need not read the other view. The owner of the other
     * view writes that view all the time, so reading the view would cost a cache miss. */
    struct {
        const struct view *of_other;
        struct view *ours;
    } twins[VIEW_TWINS];
    uint32_t twins_of; /* value of heap_views_epoch when `twins` was last emptied */
    /* See context/evict.h. `looks` is odd while the owner looks up a path in the tree. */
    uint32_t looks;      /* atomic */
    uint32_t looks_then; /* value of `looks` when a sweep last took nodes out of the tree */
    uint32_t looked_at;  /* owner: value of evict_round that the owner has acted upon */
    /* Atomic: another thread holds heap_visit_lock and may change this heap's views and caches. */
    uint32_t visited;
    uint32_t views_dropped; /* owner: number of views that wait for another context */
    /* owner: no view with a lower index waits for another context, except in OS pages that were
     * given to the kernel */
    uint32_t dropped_from;
    /* Atomic, written by the owner: how often this heap freed chunks of another heap, by that
     * heap's number. The counts grow until the heap is parked. */
    uint64_t *freed_of;
    uint32_t freed_of_count; /* atomic: number of elements of freed_of */
    uint32_t trims;          /* atomic: trim_number of the last request that the heap answered */
    uint64_t ran_ns;         /* control thread: the owner's processor time, see context/collect.c */
    uint32_t rests;          /* control thread: number of next looks that leave the heap out */
    uint32_t placings;       /* owner: value of heap_placings that the heap has acted upon */
    struct pool *apart;      /* owner: mixed pages of PLACE_APART; NULL: none yet */
    /* freed spans that the heap keeps for its next pages and large chunks: segment/segment.h */
    struct span_cache span_cache;
    /* Under heap_global.lock: blocks of BASELINES_PER_BLOCK baselines, by index of the view; NULL:
     * no reset was made yet. */
    struct baseline **baselines;
    struct resizes *resizes; /* atomic: see region/resizes.h; NULL: no chunk was resized yet */
    /* For threads that look up views of other threads, see heap_views_next. slots_shown: the
     * current slots. slots_retired: the old slots, if the table grew while another thread looked up
     * views. The low bits of each value hold the logarithm of the table's length. */
    uintptr_t slots_shown;   /* atomic */
    uintptr_t slots_retired; /* atomic */
    /* Atomic: a pointer to atomic words. Each block of views has a word, and each OS page of the
     * block has a bit in this word; 1: the OS page was given to the kernel. NULL: no OS page was
     * ever given. */
    uint64_t *views_discarded;
    struct heap *retired; /* control thread: next heap that waits for heap_free, context/retire.c */
    /* Control thread: the parked heap may be retired. Also written under heap_global.lock by the
     * thread that adopts the heap. */
    bool may_retire;
    bool was_inside; /* control thread: the owner was inside the allocator, see context/retire.c */
    struct view *views[VIEW_BLOCKS]; /* atomic: blocks of views, by index; index 0 is unused */
};

_Static_assert(offsetof(struct heap, twins) <= HEAP_HOT_BYTES, "fits the page of FORK_PAGE");
_Static_assert(offsetof(struct heap, views) < OS_PAGE_BYTES, "an idle heap touches one OS page");

/* The numbers of a view at the last reset of the figures; dumps subtract them. */
struct baseline {
    uint64_t allocs, frees, requested_cum_bytes;
};

struct heap_global {
    struct lock lock; /* RANK_HEAPS: held to park or adopt a heap, and to fold views */
    /* atomic: head of the list of all heaps, by falling number; the shared heap may stand anywhere.
     * heap_retire takes heaps out of the list. */
    struct heap *first;
    struct heap *totals;    /* the heap of HEAP_TOTALS; NULL: not made yet */
    int64_t own_free;       /* atomic: sum of own_free_published, and of the changes by visitors */
    uint64_t foreign_frees; /* atomic: ignored frees of pointers that are not the library's */
    uint32_t threads_seen;  /* atomic: how often a thread was given a heap */
    uint32_t heaps;         /* number of heaps in the list, without the shared one */
    /* The thread that forks, by its id in the parent. A signal handler may fork while its thread
     * gets its first heap, or gives it up. The api layer then does not know the heap, but the heap
     * has this id. */
    uint32_t forking_tid;
    uint32_t parked; /* atomic: number of parked heaps */
    bool first_used; /* atomic: first_heap (heap.c), which needs no memory, was given out */
    /* atomic: a thread looks up views of other threads, so no slots may be freed */
    bool reading;
    uint16_t at_once; /* atomic: threads that got a heap at their first entry, see api/thread.c */
    /* atomic: frees of other heaps' chunks that no heap's freed_of counts */
    uint64_t lost_remote;
    uint64_t lost_views; /* atomic: operations that could not be accounted; 0 means exact */
};
INTERNAL struct heap_global heap_global;
/* Guards the accounts of emergency chunks, the lists of large chunks of named contexts
 * (region/reset.h), guarded chunks (region/guard.h), terms that the program asks for
 * (region/terms.h), and the table of named contexts (named/named.h). */
INTERNAL struct lock region_lock;
/* The control thread may take views and caches from the heap of a thread that is not inside the
 * allocator: see context/visit.c. The owner calls heap_await before it uses slots, caches, or the
 * list of its views, and waits until such a visit is over. The owner need not call heap_await to
 * count a free: a visit changes no view that has live chunks. */
INTERNAL struct lock heap_visit_lock; /* RANK_VISIT */
void heap_await_visitor(struct heap *heap);
INLINE void heap_await(struct heap *heap) {
    if (UNLIKELY(load_relaxed(&heap->visited)))
        heap_await_visitor(heap);
}
/* The thread sanitizer does not know membarrier, by which a visitor learns that the owner is
 * outside, nor that the owner, when it enters later, sees what the visitor has done. These two
 * tell it: the first after the owner has set `busy`, the second in place of store_owner. */
#ifdef __SANITIZE_THREAD__
#define heap_entered(heap) ((void)load_acquire(&(heap)->visited))
#define heap_set_left(heap) store_release(&(heap)->busy, 0)
#else
#define heap_entered(heap) ((void)0)
#define heap_set_left(heap) store_owner(&(heap)->busy, 0)
#endif
INTERNAL uint32_t heap_views_epoch; /* atomic: counts calls of heap_views_dropped */
INLINE struct page *heap_recent(struct heap *heap, unsigned size_class) {
    return (struct page *)heap->recent_room[size_class];
}

INTERNAL struct page heap_no_page; /* stands for a missing current page; has no free block */
/* Bins without pages. The common malloc finds no block in them, so each allocation of a view with
 * these bins comes to region_alloc. */
INTERNAL const struct bins heap_no_bins;

/* Puts the blocks that other threads freed back into this heap's pages: region/remote.c. */
void heap_collect_remote(struct heap *heap);
/* Calls heap_collect_remote if other threads freed blocks of this heap. First waits for a visitor,
 * because the visitor may have taken the pages of these blocks off the list. */
INLINE void heap_collect_if_any(struct heap *heap) {
    heap_await(heap);
    if (load_relaxed(&heap->remote_pages))
        heap_collect_remote(heap);
}
/* A visitor calls these two functions (context/collect.c). They do the work of heap_collect_remote
 * for an owner that is outside the allocator. remote_announce takes up to `most` pages off the list
 * remote_pages, and announces that their lists of free blocks will change (punch_announce). It
 * leaves further pages in the list. remote_collect collects the blocks and gives empty pages back.
 * If the owner is not `outside`, remote_collect puts the pages back on the list instead.
 * remote_collect adds the change of the heap's waste to *waste, and returns the number of pages
 * whose blocks it collected. The caller adds *waste to heap_global.own_free, because only the owner
 * writes heap->own_free. */
struct page *remote_announce(struct heap *heap, unsigned most);
unsigned remote_collect(struct heap *heap, struct page *taken, bool outside, int64_t *waste);
/* Returns a heap for the calling thread: a parked heap, else a new one. NULL: out of memory.
 * `threads_tell`: every thread that ends parks its heap. */
struct heap *heap_acquire(uint32_t tid, bool threads_tell);
/* Parks the heap of a thread that ends: adds the numbers of its views to heap_global.totals and
 * gives its empty pages back. */
void heap_park(struct heap *heap);
/* Returns the heap that has the figures of ended threads. The caller holds heap_global.lock. NULL:
 * out of memory. */
struct heap *heap_totals(void);
/* From now on the tables' budget counts a heap without a thread as TABLES_PARKED_BYTES, because the
 * heap's memory for traces and for the walked stack was given back. The caller holds the heap's
 * lock. */
void heap_keep_less(struct heap *heap);
/* Returns a number above the number of every heap. */
uint32_t heap_numbers(void);
/* Takes a parked heap out of the list of all heaps, if its figures could move to the totals. The
 * caller is the control thread, holds heap_global.lock and the heap's lock, and knows that no page
 * and no named context belongs to the heap, and that the heap has no caches. Another thread may
 * still read the heap, so the caller calls heap_free later (context/retire.c). False: the heap
 * stays. */
bool heap_retire(struct heap *heap);
/* Gives back all memory of a heap that heap_retire took out of the list. No thread may know the
 * heap any more. */
void heap_free(struct heap *heap);
/* Counts the free of another heap's chunk in this heap's view of the context. If the budget has no
 * room for that view, counts in the view of heap_totals. */
void heap_count_free(struct heap *heap, uint32_t context, size_t requested);
/* Moves the numbers of `view` to `sum`, a view of the same context in the heap `to`. The caller
 * holds heap_global.lock, so that no dump counts the numbers twice. */
void heap_fold(struct heap *heap, struct view *view, struct heap *to, struct view *sum);
/* Returns the shared heap, locked and ready. NULL: this thread holds the lock already, so the
 * caller is a signal handler that interrupted a use of the shared heap. */
struct heap *heap_shared_lock(void);
bool heap_shared_is_locked(void); /* any thread */
/* Like heap_shared_lock, but for a caller that holds no lock; never waits. NULL: another thread
 * holds the lock. */
struct heap *heap_shared_try(void);
void heap_shared_unlock(struct heap *heap);

INLINE struct view *heap_view_at(struct heap *heap, uint32_t index) {
    return &heap->views[index / VIEWS_PER_BLOCK][index % VIEWS_PER_BLOCK];
}

#define VIEWS_PER_PAGE (uint32_t)(OS_PAGE_BYTES / sizeof(struct view))
_Static_assert(VIEWS_PER_BLOCK / VIEWS_PER_PAGE == 64, "a bit for each OS page of a block");

/* Returns the index of the next view, for loops over all views. Leaves out OS pages that were given
 * to the kernel, because reading them would map them again. */
INLINE uint32_t heap_view_after(const struct heap *heap, uint32_t index) {
    const uint64_t *discarded = load_plain(&heap->views_discarded);
    index++;
    while (UNLIKELY(discarded != NULL) && !(index % VIEWS_PER_PAGE) &&
           index < VIEW_BLOCKS * VIEWS_PER_BLOCK &&
           load_relaxed(&discarded[index / VIEWS_PER_BLOCK]) >>
                   (index % VIEWS_PER_BLOCK / VIEWS_PER_PAGE) &
               1)
        index += VIEWS_PER_PAGE;
    return index;
}

/* Returns this heap's view of a context and makes it if it is missing. Never NULL once the heap
 * has one view: if no view can be made, the first view ([unknown]) is charged, and the failure
 * is counted. */
struct view *heap_view_make(struct heap *heap, uint32_t context);
/* Like heap_view_make, but returns NULL when the view is missing and either `share` of the tables'
 * budget is used up or memory is short. */
struct view *heap_view_within(struct heap *heap, uint32_t context, enum tables_share share);
/* Returns the context's view if it stands in the first slot for the context; else NULL, although
 * the view may exist. */
INLINE struct view *heap_view_in_slot(struct heap *heap, uint32_t context) {
    heap_await(heap);
    if (UNLIKELY(!heap->slots))
        return NULL;
    uint32_t index = heap->slots[context & heap->slot_mask];
    struct view *view = heap_view_at(heap, index);
    return LIKELY(index) && LIKELY(view->context == context) ? view : NULL;
}
INLINE struct view *heap_view(struct heap *heap, uint32_t context) {
    struct view *view = heap_view_in_slot(heap, context);
    return LIKELY(view != NULL) ? view : heap_view_make(heap, context);
}

/* heap_view_drop takes a view without numbers and chunks from its context. The view then waits for
 * another context. The caller is the owner or a visitor and holds heap_global.lock. Before it
 * releases the lock, it calls heap_views_dropped, which takes the dropped views out of `slots`. */
void heap_view_drop(struct heap *heap, struct view *view);
void heap_views_dropped(struct heap *heap);

/* Gives back the memory of a heap's views, slots, baselines and freed_of, for heap_free. */
void heap_free_views(struct heap *heap);

/* Walks over the views of one context in all heaps, for a thread that owns none of these heaps.
 * The same thread calls heap_read_begin, walks, and calls heap_read_end, under heap_global.lock.
 * The walk may miss a view made during the walk; it never misses a view that had counted
 * something before the walk began. A context has no list of its views, so the walk searches each
 * heap's slots. */
struct heap_views {
    uint32_t context;
    struct heap *next; /* the heap that the walk looks at next; NULL: none is left */
    struct heap *heap; /* the heap of the view that the walk found last */
};
void heap_read_begin(void);
void heap_read_end(void);
INLINE struct heap_views heap_views_of(uint32_t context) {
    return (struct heap_views){.context = context, .next = load_acquire(&heap_global.first)};
}
const struct view *heap_views_next(struct heap_views *walk); /* NULL: no view is left */

/* Empties the cache heap->twins, because views of other heaps may belong to other contexts now. */
void heap_forget_twins(struct heap *heap);
/* Returns this heap's view of the context to which another heap's view belongs. NULL: the tables'
 * budget has no room for the view; the caller then counts the free by heap_count_free. There may be
 * very many of these views, so they get a small share of the budget (TABLES_OTHERS): they must not
 * take the room of sites, whose figures could be counted nowhere else. */
INLINE struct view *heap_view_twin(struct heap *heap, const struct view *of_other) {
    unsigned place = ((uintptr_t)of_other / sizeof *of_other) % VIEW_TWINS;
    if (UNLIKELY(heap->twins_of != load_relaxed(&heap_views_epoch)))
        heap_forget_twins(heap);
    if (UNLIKELY(heap->twins[place].of_other != of_other)) {
        struct view *ours = heap_view_within(heap, of_other->context, TABLES_OTHERS);
        if (UNLIKELY(!ours))
            return NULL;
        heap->twins[place].of_other = of_other;
        heap->twins[place].ours = ours;
    }
    return heap->twins[place].ours;
}

/* Counts a free of another heap's chunk in heap->freed_of. */
void heap_count_remote_grow(struct heap *heap, uint32_t owner);
INLINE void heap_count_remote(struct heap *heap, const struct heap *owner) {
    if (LIKELY(owner->number < heap->freed_of_count))
        add_owner(&heap->freed_of[owner->number], 1);
    else
        heap_count_remote_grow(heap, owner->number);
}

/* The pages in which a context's next chunks are to be placed. */
enum placement {
    /* The context's live bytes and the waste cap decide whether it gets pages of its own. */
    PLACE_DEFAULT = 0,
    /* The context's chunks share no page with contexts of another placement. Once the context has
     * MEMCTX_PROMOTE_BYTES alive, its next chunks go to a region of its own, whatever the waste
     * cap; before that, to pages that all such contexts of the thread share. */
    PLACE_APART,
    PLACE_SHARED, /* The context gets no new pages of its own. */
    /* The values below give the context a region with that policy, whatever the waste cap. A named
     * context, and a context with TERMS_OWN (region/terms.h), has the region from its first chunk
     * on. Any other context gets it once it has MEMCTX_PROMOTE_BYTES alive. */
    PLACE_SLAB,       /* blocks have exactly the requested sizes: region/slab.h */
    PLACE_GENERATION, /* chunks are placed one behind the other: region/serial.h */
    PLACE_BUMP,       /* like PLACE_GENERATION, but no empty page is kept */
    PLACE_SIMPLE,     /* each chunk has a block and is in a list: region/simple.h */
    PLACE_COUNT,
    PLACE_MASK = 7,
};

/* A region in memory: its bins, and the fields for policies, terms and named contexts. */
struct region {
    struct bins bins;
    /* For RECIPE_EXACT, arrays by size class. `units`: size of a block in units of 16 bytes; 0: no
     * block was requested. `emptier`: the first page of the list of pages with free blocks that is
     * at most half full; NULL: the array is not made yet. */
    uint16_t units[SIZE_CLASSES];
    struct page **emptier;
    struct page *serial;        /* RECIPE_SERIAL: the page that new chunks come from; NULL: none */
    struct page *spare;         /* RECIPE_SPARE: an empty page that is kept; NULL: none */
    struct simple_node *chunks; /* RECIPE_CHAINED: list of all chunks, see region/simple.h */
    uint32_t looked; /* value of heap.placings when the region's policy was last looked at */
    /* A list linked by page.next and page.prev. It has all serial pages of the region, and, if
     * `named`, the full pages of blocks. */
    struct page *pages;
    struct page *large; /* if `named`: list of the large chunks' pages, under region_lock */
    /* If `named`: the live chunks and bytes of the view, minus those of the region, when they were
     * last counted. View and region differ, for example, because other threads freed chunks of the
     * region and counted these frees in views of their own. */
    int64_t others_chunks, others_bytes;
    /* If `named`: the most requested bytes that may be alive; 0: no limit. With a limit the view's
     * `bins` are heap_no_bins. */
    uint64_t limit;
    /* The region belongs to a named context: the program can free all its chunks at once, see
     * region/reset.h. */
    bool named;
    /* A rule asked for the region (TERMS_OWN). When the rule is gone, the region is `left`: the
     * context's next chunks go to mixed pages until the context is due for a region again. */
    bool asked, left;
    bool aligned; /* atomic; some chunk was requested with an alignment above 16 bytes */
};
/* A value of others_chunks: the chunks have to be counted one by one before the view's numbers can
 * be compared with the region's. */
#define REGION_RECOUNT (INT64_MAX / 2)
INLINE struct region *region_of(struct bins *bins) {
    return (struct region *)(void *)bins;
}

/* Returns the bins of the region that serves the view's next chunks; NULL: there is none. */
INLINE struct bins *region_serving(const struct view *view) {
    return view->region && LIKELY(!region_of(view->region)->left) ? view->region : NULL;
}

/* A flag in a context's byte of heap_placed, beside the placement: a user chose the placement, and
 * no rule changes it. */
#define PLACED_BY_HAND 64U
#define PLACED_PER_LEAF 4096U
#define PLACED_LEAVES 1024U
/* Atomic: a bit 1 << placement for each placement that some context has, and HEAP_TERMS. */
INTERNAL uint32_t heap_placed_any;
/* Atomic: arrays (leaves) with a byte for each context: its enum placement, and flags. NULL: all
 * contexts of the leaf have PLACE_DEFAULT. */
INTERNAL void *heap_placed[PLACED_LEAVES];
/* Returns the context's byte in an array of leaves, such as heap_placed. 0: no byte of the
 * context's leaf was ever set. */
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
 * the leaf if it is missing. Any thread. NULL: out of memory, or the array has no leaf for so large
 * an id. */
void *heap_leaf_entry(void **leaves, uint32_t context, size_t bytes);
/* Like heap_leaf_entry, but always in heap_placed. */
uint8_t *heap_placed_byte(uint32_t context);
/* Sets a context's placement. False: out of memory. */
bool heap_set_placement(uint32_t context, enum placement placement);
/* heaps_reconsider makes every heap decide again, at each context's next allocation, which pages
 * the context uses. The function is called after placements changed; heap_placings counts its
 * calls. */
INTERNAL uint32_t heap_placings; /* atomic */
void heaps_reconsider(void);
/* Makes one heap decide again about all its contexts; the heap's owner calls it. */
void heap_reconsider(struct heap *heap);

/* Returns the view's numbers at the last reset of the figures, which dumps subtract; NULL: there
 * are none. With `make` other than TABLES_UNCOUNTED, makes a missing entry if that share of the
 * tables' budget has room; NULL then means that there is no room. */
#define BASELINES_PER_BLOCK 170U /* number of baselines that fit in BASELINE_BLOCK_BYTES */
#define BASELINE_BLOCK_BYTES 4096
struct baseline *heap_baseline(struct heap *heap, uint32_t view_index, enum tables_share make);

/* True while the waste cap lets contexts get new pages of their own: the free bytes in such pages
 * are bounded (docs/architecture.md, invariant 5). */
bool heap_may_segregate(struct heap *heap);
/* Adds to heap_global.own_free the change of heap->own_free since the last call. */
void heap_publish_waste(struct heap *heap);
/* Calls heap_publish_waste if the change is large. */
void heap_note_waste(struct heap *heap);
/* Returns the requested bytes that are alive in all heaps. Reads every view under heap_global.lock.
 * If this thread holds a lock already (in a signal handler or a fork handler), reads without the
 * lock, and a thread that ends meanwhile may be counted twice or not at all. */
int64_t heap_live_bytes(void);

/* Take the locks of heaps before a fork, and release them after the fork; see lock_fork_prepare in
 * os/os.h. heap_fork_done returns false in a child if another thread was changing the list of heaps
 * or the shared heap during the fork: figures may be lost. */
void heap_fork_prepare(bool interrupted);
bool heap_fork_done(bool child);
/* In a forked child, gives up the heaps of threads that the fork did not copy. `self`: the
 * forking thread's heap, or NULL. */
void heap_fork_child(struct heap *self);

/* Each time the peak of a view passes a multiple of 2^10 bytes, the next allocation checks whether
 * the context should get pages of its own. */
#define PROMOTION_STEP 10

/* Returns the requested bytes of all chunks that the thread allocated minus those of all chunks
 * that the thread freed. Negative when the thread freed chunks that other threads had allocated. */
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
            view->bins = (struct bins *)&heap_no_bins; /* nobody writes to these bins */
    }
}

INLINE void view_account_free(struct view *view, size_t requested) {
    add_owner(&view->frees, 1);
    add_owner(&view->freed_cum_bytes, requested);
}

#endif
