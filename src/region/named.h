/* SPDX-License-Identifier: MIT */
/*
 * named.h - regions whose chunks may be freed all at once: those of named contexts.
 *
 * For: lifetimes that the program knows. Such a region has pages of its own from the first chunk
 * on, whatever the waste cap, which no other context shares; its full pages stand in region->pages
 * and its large chunks in region->large, so that a reset finds them all without looking at chunks.
 * Cannot do: hold chunks of other threads.
 *
 * Cost: allocating and freeing as in any region of its own; a large chunk a lock more; a reset some
 * ten ns a page, and a look at each record only where another thread freed some.
 *
 * Threads: the owner of the heap; large chunks are freed by any.
 */
#ifndef MEMCTX_NAMED_REGION_H
#define MEMCTX_NAMED_REGION_H

#include "region/tiny.h"

INTERNAL struct lock
    region_lock; /* lists of large chunks, and the table of contexts: context/named.h */
INTERNAL uint32_t region_named_any; /* atomic: there was a named context */

/* The view's context from now on is a named one with that policy (PLACE_APART or one from
 * PLACE_SLAB on), without chunks. False: out of memory. */
bool region_make_named(struct heap *heap, struct view *view, enum placement placement);
INLINE bool region_is_named(const struct view *view) {
    return view->region ? region_of(view->region)->named
                        : load_relaxed(&region_named_any) && tiny_of(view->context);
}
/* It has a region, made when missing: what a tiny one needs before anything that region/tiny.h does
 * not do. False: out of memory. */
bool region_make_whole(struct heap *heap, struct view *view);
INLINE bool region_is_tiny(const struct view *view) {
    return !view->region && region_is_named(view);
}

struct region_alive {
    uint64_t chunks, bytes; /* requested */
};
/* In a few ns a page; at each record where others freed some since the last time. */
struct region_alive region_alive(struct heap *heap, struct view *view);
/* Frees all chunks. Nobody frees one of them meanwhile. What was alive. */
struct region_alive region_reset(struct heap *heap, struct view *view);
/* No more than so many requested bytes; 0: no limit. False: out of memory, nothing changed. */
bool region_limit(struct heap *heap, struct view *view, uint64_t bytes);
/* So many more, and fewer, would be past the limit. */
bool region_is_past_limit(struct heap *heap, struct view *view, size_t more, size_t fewer);

struct region_size {
    uint64_t reserved_bytes; /* of pages and large chunks */
    uint32_t pages;
};
struct region_size region_size(struct heap *heap, struct view *view);

/* All of it is the other heap's from now on, of its view of the same context, with the account.
 * Both heaps are the caller's, nobody frees a chunk meanwhile, and heap_global.lock is held. */
void region_move(struct heap *from, struct view *view, struct heap *to, struct view *to_view);

/* The context's view in the heap, if the chunk is in a named context of that heap; NULL: it is not.
 */
struct view *region_named_view(struct heap *heap, const void *chunk);

/* What becomes of large chunks' headers. */
void region_named_large(struct view *view, struct page *page);
void region_named_large_gone(struct page *page);

/* What hangs together in the region's pages. NULL: all; else what does not. */
const char *region_named_check(struct heap *heap, struct view *view);

#endif
