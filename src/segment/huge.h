/* SPDX-License-Identifier: MIT */
/*
 * huge.h - what huge.c, huge_cache.c and huge_moves.c share: the parts of a mapping, and how it is
 * moved, cached and given back.
 *
 * Threads: any; the caller is the only user of the mapping. The functions of huge_cache.c take
 * segment_global.lock by themselves, unless their comment says that the caller holds it.
 */
#ifndef MEMCTX_SEGMENT_HUGE_H
#define MEMCTX_SEGMENT_HUGE_H

#include "segment/internal.h"

#define HUGE_HEADER_BYTES OS_PAGE_BYTES
#define CUTS_MAX 31 /* greatest number of cuts that one mapping may have */

/* OS pages that mremap moved to the end of a mapping stay a separate area (VMA) of the kernel, and
 * one call of mremap can extend or move only one area. So the first OS page of a mapping holds,
 * behind struct page, the *cuts*: the offsets at which the second and each later area begin. */
struct huge_cuts {
    uint32_t count;
    uint32_t at[CUTS_MAX]; /* OS pages from the mapping's start, ascending */
};

/* A move of areas into one mapping. */
struct huge_move {
    char *target;        /* the mapping that the OS pages come to */
    size_t fresh;        /* the bytes of the target from here on are new, and so zero */
    size_t hole, beyond; /* if the kernel refused, [hole, beyond) of the target may be unmapped */
};

/* The parts of a mapping that was made for a chunk. */
struct huge_parts {
    size_t mapped; /* bytes of the mapping */
    size_t reused; /* bytes that come from the cache */
    size_t fresh;  /* the bytes from here on come from the kernel, and so are zero */
    bool spare;    /* the mapping has a spare end */
    bool counted;  /* the bytes in use count the mapping already */
};

/* --- huge_moves.c ----------------------------------------------------------------------------- */

/* Releases the unmap lock, and unmaps the mappings that waited for that. */
void huge_unmap_lock_release(void);
/* Returns the cuts of a mapping, which stand in its first OS page. */
struct huge_cuts *huge_cuts_of(void *start);
/* Forgets the cuts from `bytes` on: the mapping ends there now. */
void huge_cuts_drop(struct huge_cuts *cuts, size_t bytes);
/* Returns the end of the area that contains an address of the mapping; the largest address: it is
 * the last area. */
char *huge_area_ends(const struct page *header, const char *address);
/* Extends or shrinks a mapping where it is. Returns 0, or the error of os_resize_in_place. */
int huge_resize_in_place(char *start, size_t old_bytes, size_t bytes);
/* Moves a whole mapping with its header page, and so with its cuts, to the start of the target. The
 * areas are moved from the last to the first, so that the header stays in its place until all other
 * areas are moved. Returns how many bytes of the mapping were not moved: 0, or those before the
 * area that the kernel refused to move. */
size_t huge_move_whole(struct huge_move *move, char *from, size_t bytes);
/* Notes that an area begins at this offset, behind all other cuts. The caller has made sure that
 * there are fewer than CUTS_MAX cuts. */
void huge_cut_add(struct huge_cuts *cuts, size_t offset);
/* Moves the part [begin, end) of a mapping to an offset in the target, behind all cuts of the
 * target. Goes from the part's end to its beginning. Stops when the target or all mappings together
 * would have too many cuts, or when the kernel refuses. Returns how many bytes are left of the
 * mapping, counted from its start. */
size_t huge_move_part(struct huge_move *move, char *from, size_t begin, size_t end, size_t offset);
/* Moves bytes that are one area, or a part of one, to an offset in the target, behind all cuts of
 * the target. False: there would be too many cuts, or the kernel refused; the bytes are where they
 * were. */
bool huge_move_area(struct huge_move *move, char *area, size_t bytes, size_t offset);
/* Unmaps a mapping that holds no chunk and is not in the cache; during a dump, defers the unmapping
 * (unmap_or_defer). */
void huge_unmap(char *start, size_t bytes);
/* Moves a mapping to a new place, which has `mapped` bytes. A mapping with cuts is copied: if the
 * kernel refused to move one of its areas, the kernel might also refuse to move the other areas
 * back. False: a dump is running, or the kernel refused. The caller must not use or unmap `target`
 * then. */
bool huge_move_to(char *start, size_t bytes, char *target, size_t mapped);
/* Grows a mapping when the kernel grants no second place beside it, because a limit of the process
 * (RLIMIT_AS, RLIMIT_DATA) would count both places. The kernel moves the mapping to a place of its
 * choice, with room for the alignment, and then the bytes move up to the alignment. Returns the new
 * place. NULL: a dump is running, the mapping has cuts, or the kernel refused; nothing changed. */
char *huge_grow_elsewhere(char *start, size_t bytes, size_t mapped);

/* --- huge_cache.c ----------------------------------------------------------------------------- */

/* Gives the spare end of a mapping back to the kernel. */
void huge_spare_end(struct page *header);
/* Grows a chunk by up to `most` bytes of its mapping's spare end. Returns the bytes. */
size_t huge_spare_use(struct page *header, size_t most);
/* Takes a mapping for `bytes` from the cache. A mapping of `bytes` or at most a quarter more is
 * used as it is: its OS pages need no page faults. For other sizes than 4 to 64 MiB, the smallest
 * of the larger mappings is used, and its end stays in the cache as a spare end. Otherwise the
 * largest of the smaller mappings, the *base*, is extended. The end of another mapping, or of a
 * spare end if there is no other mapping, is the *donor*. It is moved behind the base, or into a
 * new mapping if there is no base: to move an OS page takes a hundredth of the time of a page
 * fault. A base for less than 4 MiB gets a donor only if the base's end is resident. Describes the
 * mapping in *parts. NULL: the cache has nothing that fits, or the mapping could not be made;
 * *parts is unchanged. */
char *huge_cache_take(size_t bytes, struct huge_parts *parts);
/* Counts a chunk as freed. Puts its mapping with the spare end, or as much of the beginning as
 * cache_share allows, into the cache, and gives the rest back to the kernel. Not `plain`: keeps
 * nothing, because the chunk has a large alignment. */
void huge_cache_put(struct page *header, bool plain);
/* Returns by how many bytes the cache exceeds its bound; 0 or less: it does not. The caller holds
 * the lock. */
int64_t huge_cache_excess(void);
/* Takes up to `excess` bytes from the end of the oldest cached mapping, or the whole mapping if too
 * little of it would be left, and gives them back to the kernel. */
void huge_cache_cut(size_t excess);

#endif
