/* SPDX-License-Identifier: MIT */
/* internal.h - what segment.c and huge.c share: the one state of the layer and its locks. */
#ifndef MEMCTX_SEGMENT_INTERNAL_H
#define MEMCTX_SEGMENT_INTERNAL_H

#include "segment/segment.h"

#define HUGE_CACHE_MAX 16

struct segment_global {
    struct lock lock;        /* guards everything below but where said */
    struct lock unmap_lock;  /* held while segments are read by a dump, or one is unmapped */
    struct segment *partial; /* segments with free slices, most recently used first */
    uint64_t segments, empty_segments; /* the latter is read without the lock, too */
    uint64_t free_slices, dirty_slices;
    int64_t used_bytes; /* written under lock, read by any thread */
    int64_t huge_bytes;
    uint64_t next_purge_ns;  /* atomic */
    uint64_t later_until_ns; /* atomic: until then who frees gives nothing back; 0: does */
    uint32_t calls;          /* atomic */
    /* Huge mappings kept for reuse, under lock. */
    struct huge_cached {
        char *start;
        size_t bytes;
        uint64_t since_ns;
    } huge_cache[HUGE_CACHE_MAX];
    int64_t huge_cached_bytes, huge_cached;
    struct page *deferred; /* atomic list: huge chunks that are to be unmapped */
};
INTERNAL struct segment_global segment_global;
INTERNAL int64_t segment_returned; /* atomic: bytes given back since the start */

/* Room in the map, before a bit is set; false: no memory for the leaf. No lock. */
bool segment_map_reserve(const void *segment);
/* Reserves that, and asks for huge pages or none. False: no memory for that, and the
 * mapping is gone. No lock. */
bool segment_claim_memory(void *start, size_t bytes);
/* From the kernel, aligned to a segment, and claimed. */
void *segment_map_memory(size_t bytes);
void segment_map_set(enum segment_map map, const void *segment, bool set);
/* Gives cached mappings back: all, or the old ones. Bytes given back. */
size_t segment_huge_purge(bool all);
/* Of the slices in the freelist, and of the mappings in it: bytes each. */
int64_t segment_freelist_bound(void);
/* Unmaps the huge chunks that had to wait, unless somebody has the lock, who then does it: whoever releases the unmap
 * lock calls this. */
void segment_unmap_deferred(void);

#endif
