/* SPDX-License-Identifier: MIT */
/* internal.h - what segment.c and huge.c share: the state of the layer, and its locks. */
#ifndef MEMCTX_SEGMENT_INTERNAL_H
#define MEMCTX_SEGMENT_INTERNAL_H

#include "segment/segment.h"

#define HUGE_CACHE_MAX 16

struct segment_global {
    struct lock lock;        /* guards the fields below, except where a comment says otherwise */
    struct lock unmap_lock;  /* held while a dump reads segments, and while a thread unmaps one */
    struct segment *partial; /* segments with free slices, most recently used first */
    uint64_t segments, empty_segments; /* empty_segments is also read without the lock */
    uint64_t free_slices, dirty_slices;
    int64_t used_bytes; /* written under lock, read by any thread */
    int64_t huge_bytes;
    uint64_t next_purge_ns; /* atomic */
    /* atomic: until this time a thread that frees gives nothing back to the kernel; 0: it does */
    uint64_t later_until_ns;
    uint32_t calls; /* atomic */
    /* Huge mappings kept for reuse, guarded by `lock`. */
    struct huge_cached {
        char *start;
        size_t bytes;
        uint64_t since_ns;
    } huge_cache[HUGE_CACHE_MAX];
    int64_t huge_cached_bytes, huge_cached;
    struct page *deferred; /* atomic list: huge chunks that must still be unmapped */
};
INTERNAL struct segment_global segment_global;
INTERNAL int64_t segment_returned; /* atomic: bytes given back to the kernel since the start */

/* Makes room in the table of segments, so that segment_map_set can set a bit. False: no memory for
 * the leaf. Takes no lock. */
bool segment_map_reserve(const void *segment);
/* Calls segment_map_reserve, and asks the kernel for huge pages or for none, as the options say.
 * False: no memory for the leaf, and the mapping has been unmapped. Takes no lock. */
bool segment_claim_memory(void *start, size_t bytes);
/* Maps memory aligned to a segment and claims it with segment_claim_memory. NULL: out of memory. */
void *segment_map_memory(size_t bytes);
void segment_map_set(enum segment_map map, const void *segment, bool set);
/* Gives cached mappings back to the kernel: all, or those older than the decay time. Returns the
 * bytes given back. */
size_t segment_huge_purge(bool all);
/* The most bytes of slices that the freelist keeps, and the most bytes of cached mappings. */
int64_t segment_freelist_bound(void);
/* Unmaps the huge chunks on the `deferred` list. If another thread holds the unmap lock, leaves
 * them to that thread: each thread calls this function after it releases the unmap lock. */
void segment_unmap_deferred(void);

#endif
