/* SPDX-License-Identifier: MIT */
/*
 * named.h - the regions of named contexts, whose chunks may be freed all at once.
 *
 * For: lifetimes that the program knows. Such a region has pages of its own from the first chunk
 * on, whatever the waste cap, and shares them with no other context. Its full pages stand in
 * region->pages and its large chunks in region->large, so that a reset finds all chunks without
 * looking at each. Cannot do: hold chunks of other threads.
 *
 * Cost: allocating and freeing cost what they cost in any region; a large chunk costs one lock
 * more. A reset costs some ten ns a page, and reads each record only where another thread freed
 * some chunks.
 *
 * Threads: the owner of the heap. Any thread frees large chunks.
 */
#ifndef MEMCTX_NAMED_REGION_H
#define MEMCTX_NAMED_REGION_H

#include "region/tiny.h"

/* Protects the lists of large chunks, and the table of contexts: context/named.h. */
INTERNAL struct lock region_lock;
INTERNAL uint32_t region_named_any; /* atomic: there was a named context */

/* Makes the view's context, which has no chunks, a named context with that policy (PLACE_APART
 * or one from PLACE_SLAB on). False: out of memory. */
bool region_make_named(struct heap *heap, struct view *view, enum placement placement);
INLINE bool region_is_named(const struct view *view) {
    return view->region ? region_of(view->region)->named
                        : load_relaxed(&region_named_any) && tiny_of(view->context);
}
/* Gives the context a region if it has none. A tiny context needs one before any operation that
 * region/tiny.h does not support. False: out of memory. */
bool region_make_whole(struct heap *heap, struct view *view);
INLINE bool region_is_tiny(const struct view *view) {
    return !view->region && region_is_named(view);
}

struct region_alive {
    uint64_t chunks, bytes; /* requested */
};
/* Counts the chunks that are alive. Costs a few ns a page, and reads each record where other
 * threads freed some chunks since the last count. */
struct region_alive region_alive(struct heap *heap, struct view *view);
/* Frees all chunks and returns what was alive. No thread may free one of the chunks meanwhile. */
struct region_alive region_reset(struct heap *heap, struct view *view);
/* Limits the context to `bytes` requested bytes; 0: no limit. False: out of memory, nothing
 * changed. */
bool region_limit(struct heap *heap, struct view *view, uint64_t bytes);
/* True when `more` further bytes, after `fewer` bytes are given up, would pass the limit. */
bool region_is_past_limit(struct heap *heap, struct view *view, size_t more, size_t fewer);

struct region_size {
    uint64_t reserved_bytes; /* of pages and large chunks */
    uint32_t pages;
};
struct region_size region_size(struct heap *heap, struct view *view);

/* Moves the region and its account to the other heap, to that heap's view of the same context.
 * The caller owns both heaps and holds heap_global.lock, and no thread frees a chunk meanwhile. */
void region_move(struct heap *from, struct view *view, struct heap *to, struct view *to_view);

/* Returns the view of the chunk's context, if that is a named context of this heap. NULL: it is
 * not. */
struct view *region_named_view(struct heap *heap, const void *chunk);

/* Keep the region's list of large chunks: region_named_large adds a chunk's header,
 * region_named_large_gone removes it. */
void region_named_large(struct view *view, struct page *page);
void region_named_large_gone(struct page *page);

/* Checks that the lists and counts of the region's pages agree. NULL: they do; else a text that
 * names the fault. */
const char *region_named_check(struct heap *heap, struct view *view);

#endif
