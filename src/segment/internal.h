/* SPDX-License-Identifier: MIT */
/*
 * internal.h - the state of the layer, and the functions that its files share.
 *
 * Threads: any. The lock is segment_global.lock. A function takes it by itself, unless the
 * function's comment says that the caller holds it.
 */
#ifndef MEMCTX_SEGMENT_INTERNAL_H
#define MEMCTX_SEGMENT_INTERNAL_H

#include "segment/segment.h"

#define HUGE_CACHE_MAX 64

struct segment_global {
    struct lock lock;       /* guards the fields below, unless a comment says otherwise */
    struct lock unmap_lock; /* held while a dump reads segments, and while a thread unmaps one */
    /* list of segments with dirty slices; the first one has the slices that have been dirty for
     * longest */
    uint32_t dirty_first, dirty_last; /* numbers of the segments; 0: none */
    uint64_t segments;                /* number of segments */
    /* empty_segments counts the segments with no slice in use; clean_segments counts those with no
     * slice in use or dirty. Both are also read without the lock. */
    uint64_t empty_segments, clean_segments;
    uint64_t free_slices, dirty_slices; /* sums over all segments, see struct segment_state */
    /* bytes in pages, huge chunks and span caches; any thread reads the field without the lock */
    int64_t used_bytes;
    int64_t huge_bytes;     /* bytes of the mappings of huge chunks */
    uint64_t next_purge_ns; /* atomic: when segment_purge_when_due purges next */
    /* atomic: until this time, threads that free pages give no memory back to the kernel; 0: they
     * do */
    uint64_t later_until_ns;
    uint32_t calls; /* atomic: calls of segment_purge_when_due */
    /* bytes and number of mappings in segment_huge_cache; the number is read without the lock, too
     */
    int64_t huge_cached_bytes, huge_cached;
    struct page *deferred;          /* atomic: mappings of huge chunks that wait to be unmapped */
    struct span_cache *span_caches; /* list of the caches that have had a place */
    int64_t span_caches_room;       /* slices that fit the places of all caches */
};
INTERNAL struct segment_global segment_global;

/* Freed mappings of huge chunks, and spare ends of mappings in use (PAGE_SPARE), kept for reuse;
 * guarded by segment_global.lock. This table is not in struct segment_global, because most
 * processes never write it. */
INTERNAL struct huge_cached {
    char *start; /* NULL: the entry is empty */
    size_t bytes;
    uint64_t since_ns;   /* when the mapping came into the cache */
    struct page *before; /* a spare end: the chunk in front of it; NULL: a freed mapping */
} segment_huge_cache[HUGE_CACHE_MAX];

/* atomic: the kernel uses huge pages without being asked, and MEMCTX_THP does not say otherwise;
 * see segment_learn_huge_pages */
INTERNAL bool segment_huge_by_default;

/* The first segments get no huge pages: these would make up to 4 MiB resident for each segment of a
 * small process, which uses only parts of its segments. */
#define SEGMENTS_WITHOUT_HUGE 4U
#define SLICES_MAX (SEGMENT_SLICES - HEADER_SLICES) /* slices of a segment that pages may use */
INLINE struct segment *segment_numbered(uint32_t number) {
    return (struct segment *)((uintptr_t)number << SEGMENT_SHIFT);
}
INLINE bool segment_is_empty(const struct segment *segment) {
    return segment->state.free_count == SLICES_MAX;
}
/* Takes free slices out of the maps of free and dirty slices. Returns how many of them were dirty.
 * The caller holds the lock. */
unsigned segment_take_slices(struct segment *segment, unsigned start, unsigned count);
/* Puts slices back into the map of free slices and, with `dirty`, into the map of dirty slices. The
 * caller holds the lock. */
void segment_return_slices(struct segment *segment, unsigned start, unsigned count, bool dirty);
/* Moves a segment with dirty slices to the end of the list by age, as if its oldest dirty slice had
 * become dirty at `now`. The caller holds the lock. */
void segment_dirty_since(struct segment *segment, uint64_t now);
/* Unmaps empty segments that have no dirty slices, until one empty segment is left. Unmaps none
 * while another thread holds the unmap lock, for example for a dump: a later call unmaps them. */
void segment_release_empty(void);
/* Called after slices came back to the freelist; the caller holds the lock. Releases the lock, and
 * gives memory back to the kernel if the freelist exceeds its bound or the time has come, but not
 * while segment_purge_later forbids it. */
void segment_unlock_and_purge(void);
/* Called in a forked child: frees the slices that a purge of another thread had taken. `whole`: the
 * maps of slices are consistent; else the slices stay taken. The lock is free. */
void segment_purges_fork_child(bool whole);
/* Forgets a part of what the freelist has learnt (`demand`, demand.c). Called once in each quarter
 * of the decay time. With `all`, forgets everything; may be called at any time. The caller holds
 * the lock. */
void segment_demand_fades(bool all);
/* Visits the segments from place `from` on (see segment_each_from). The caller makes sure that no
 * segment is unmapped meanwhile. */
void segment_each_of_map(uint64_t from, bool (*visit)(struct segment *, bool, void *),
                         void *context);

/* Makes sure that the table of segments has a leaf for this segment, so that segment_map_set can
 * set a flag. False: no memory for the leaf, or the address is outside the table. Takes no lock. */
bool segment_map_reserve(const void *segment);
/* Prepares a new mapping: calls segment_map_reserve, and asks the kernel for huge pages or for
 * none, as MEMCTX_THP says. False: segment_map_reserve failed, and the mapping has been unmapped.
 * Takes no lock. */
bool segment_claim_memory(void *start, size_t bytes);
/* Maps memory that is aligned to a segment, and calls segment_claim_memory. NULL: out of memory. */
void *segment_map_memory(size_t bytes);
/* Sets or clears a flag of a segment, after segment_map_reserve. Both are releases: a dump, which
 * loads the flag with acquire, then finds the segment's header whole. */
void segment_map_set(enum segment_map map, const void *segment, bool set);
/* Gives cached mappings back to the kernel: all, or those that waited longer than the decay time.
 * Returns the bytes given back. */
size_t segment_huge_purge(bool all);
/* Returns the bound for one of the two parts of the freelist: the bytes of empty slices, or of
 * mappings in segment_huge_cache. `others` are the bytes in the other part. *plain becomes the
 * bound without what the library has learnt: MEMCTX_FREELIST_KIB, or 5 % of the bytes in use if
 * that is more. The result exceeds *plain by the bytes that the program took again shortly after
 * they had gone to the kernel (demand.again in demand.c). But the excess has a limit: the freelist
 * and the bytes in use together may exceed the peak of the bytes in use by at most a sixteenth, or
 * 1.5 MiB if that is more: a buffer that has grown out of slices leaves up to 1 MiB of dirty slices
 * in the freelist, and its mapping shall fit beside them. Where no control thread purges, the
 * result is *plain, because no thread would give back memory that the program does not take again.
 */
int64_t segment_freelist_bound(int64_t others, int64_t *plain);
/* Returns the bound for the bytes of empty slices. Like segment_freelist_bound, but these and the
 * bytes in use may exceed the peak by a quarter up to 12 MiB, if that is more than a sixteenth. The
 * caller holds the lock. */
int64_t segment_slices_bound(int64_t *plain);
/* Notes in the header of a freed page that it holds no page any more. */
void segment_forget_page(struct page *page);
/* Puts the slices of a page into the freelist, after segment_forget_page. The caller holds the
 * lock. */
void segment_return_span(struct page *page);
/* Takes the places of span caches (struct span_cache) away that were not used since the last call,
 * and puts their spans into the freelist. With `all`, takes all places away. The caller holds the
 * lock. */
void segment_span_caches_fade(bool all);
/* Returns the slices of all spans in span caches. The caller holds the lock. */
int64_t segment_span_caches_slices(void);
/* Returns an upper bound of the slices in span caches: looks into a few caches, and takes all
 * places of the other caches as full. The caller holds the lock. */
int64_t segment_span_caches_most(void);
/* Counts the room of all caches anew, in a forked child whose count may be inconsistent. */
void segment_span_caches_recount(void);
/* Counts bytes that go back to the kernel only because the freelist is full. The caller holds the
 * lock. */
void segment_note_early(int64_t bytes);
/* Called after the program took bytes, when used_bytes already counts them. `fresh`: how many of
 * these bytes came from the kernel, not from the freelist. The caller holds the lock. */
void segment_note_taken(int64_t fresh);
/* Unmaps the mappings in the `deferred` list. If another thread holds the unmap lock, leaves them
 * to that thread: each thread calls this function after it releases the unmap lock. */
void segment_unmap_deferred(void);

#endif
