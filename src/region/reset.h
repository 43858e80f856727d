/* SPDX-License-Identifier: MIT */
/*
 * reset.h - regions of named contexts: all chunks of such a region can be freed at once (a
 * *reset*).
 *
 * For: lifetimes that the program knows. Such a region has pages of its own from the first chunk
 * on, whatever the waste cap, and shares them with no other context. Its full pages stand in
 * region->pages and its large chunks in region->large, so that a reset finds all pages without
 * looking at each chunk. Cannot do: hold chunks that other threads allocated.
 *
 * Cost: allocating and freeing cost as much as in any region; for a large chunk, each also takes
 * and releases region_lock. A reset costs some ten ns a page. It reads the records of all chunks
 * only if the chunks have to be counted one by one, see region_alive.
 *
 * Threads: the owner of the heap. Any thread frees large chunks.
 */
#ifndef MEMCTX_RESET_H
#define MEMCTX_RESET_H

#include "region/terms.h"
#include "region/tiny.h"

INTERNAL uint32_t region_named_any; /* atomic: not 0 once the process has made a named context */

/* True if there may be a context with a limit, or with guarded chunks. */
INLINE bool limits_exist(void) {
    return load_relaxed(&region_named_any) || terms_exist();
}

/* Makes the view's context, which has no chunks, a named context. `placement` is PLACE_APART, or a
 * policy from PLACE_SLAB on. False: out of memory. */
bool region_make_named(struct heap *heap, struct view *view, enum placement placement);
INLINE bool region_is_named(const struct view *view) {
    return view->region ? region_of(view->region)->named
                        : load_relaxed(&region_named_any) && tiny_of(view->context);
}
/* Gives the context a region if it has none. A tiny context (region/tiny.h) needs a region for
 * every operation that tiny.h does not support. False: out of memory. */
bool region_make_whole(struct heap *heap, struct view *view);
/* True for a named context that has no region. */
INLINE bool region_is_tiny(const struct view *view) {
    return !view->region && region_is_named(view);
}

/* The chunks of a region, or of a tiny context, that are alive. */
struct region_alive {
    uint64_t chunks, bytes; /* number of chunks, and their requested bytes */
};
/* Counts the chunks that are alive. Costs a few ns a page; but reads the record of each chunk if
 * other threads freed some of the chunks since the last count, and at the first count after the
 * context was made or moved. */
struct region_alive region_alive(struct heap *heap, struct view *view);
/* Frees all chunks and returns what was alive. No thread may free one of the chunks meanwhile. */
struct region_alive region_reset(struct heap *heap, struct view *view);
/* Limits the context to `bytes` requested bytes; 0: no limit. False: out of memory, nothing
 * changed. */
bool region_limit(struct heap *heap, struct view *view, uint64_t bytes);
/* True when the context would pass its limit if it got `more` bytes and gave up `fewer` bytes.
 * False for a chunk that does not grow, even in a context above its limit. */
bool region_is_past_limit(struct heap *heap, struct view *view, size_t more, size_t fewer);

struct region_size {
    /* bytes of the region's pages, requested bytes of its large chunks, and bytes of the blocks
     * that a tiny context has in shared pages */
    uint64_t reserved_bytes;
    uint32_t pages; /* number of the region's pages, without large chunks */
};
/* Returns the memory that the context occupies. */
struct region_size region_size(struct heap *heap, struct view *view);

/* Moves the region and the numbers of its view to the heap `to`, where `to_view` is the view of the
 * context. The caller owns both heaps or holds their locks, and holds heap_global.lock. No thread
 * frees a chunk of the context meanwhile. */
void region_move(struct heap *from, struct view *view, struct heap *to, struct view *to_view);

/* Returns the view of the chunk's context. NULL: the chunk belongs to no named context of this
 * heap. */
struct view *region_named_view(struct heap *heap, const void *chunk);

/* region_named_large adds the header of a large chunk to the list of large chunks of the view's
 * region. region_named_large_gone removes the header from this list. */
void region_named_large(struct view *view, struct page *page);
void region_named_large_gone(struct page *page);

/* Checks that the lists and counts of the region's pages agree. Returns NULL if they do, else a
 * text that names the fault. */
const char *region_named_check(struct heap *heap, struct view *view);

#endif
