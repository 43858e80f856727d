/* SPDX-License-Identifier: MIT */
/*
 * bins.h - pages of blocks by size class: the current page of each class, and the other pages with
 * free blocks.
 *
 * A region has bins for its own pages, and a heap has bins for mixed pages. The owner of a page
 * calls these functions when the current page is used up, and when a free makes a page empty or
 * usable again. struct bins is in heap.h; its recipe says how the next page is made.
 *
 * Threads: the owner of the heap.
 */
#ifndef MEMCTX_BINS_H
#define MEMCTX_BINS_H

#include "region/blocks.h"

/* The mixed pages of contexts that stand apart from others (PLACE_APART). As in heap.mixed,
 * stand-ins are the current pages of narrow classes. These stand-ins hold no recent blocks: a freed
 * block goes back to its page. */
struct pool {
    struct bins bins;
    char stand_ins[NARROW_CLASSES][CACHE_LINE] __attribute__((aligned(CACHE_LINE)));
};

/* With RECIPE_EXACT, the list of pages with free blocks has two bands: pages that are at most half
 * full stand behind all others. Returns where the region stores the pointer to the first page of
 * the second band, for the class of `page`. NULL: the list has one band. */
INLINE struct page **bins_second_band(struct bins *bins, const struct page *page) {
    if (LIKELY(!(bins->recipe & RECIPE_EXACT)) || !region_of(bins)->emptier)
        return NULL;
    return &region_of(bins)->emptier[page->size_class];
}

/* If the current page of the class has no free block left, makes another page with free blocks the
 * current page. False: no page of the class has free blocks. */
bool bins_switch(struct heap *heap, struct bins *bins, unsigned size_class);
/* For a region that has no free block of the class, and to which the waste cap refuses a new page.
 * Leaves the region without a current page of the class. False: nothing changed, and the caller has
 * to use bins_next_page, because a search of all regions for empty pages is due. */
bool bins_refuse_page(struct heap *heap, struct bins *region, unsigned size_class);
/* Returns a page of the class with free blocks, perhaps a new page, and makes it the current page.
 * `view` is the view that the region of `bins` belongs to; NULL: the bins are those of mixed pages.
 * Returns NULL when memory is short, or when the context may get no new page of its own because of
 * the waste cap or PLACE_SHARED. */
struct page *bins_next_page(struct heap *heap, struct bins *bins, struct view *view,
                            unsigned size_class);
/* bins_put_aside leaves a region without a current page of the class. The page stays in the region,
 * unless it is empty.
 * bins_put_aside_unfit puts aside all pages of the class that do not fit the region's recipe,
 * terms or block size any more. Their free blocks are not handed out, and each of these pages is
 * given back when it is empty. */
void bins_put_aside(struct heap *heap, struct bins *bins, unsigned size_class);
void bins_put_aside_unfit(struct heap *heap, struct bins *bins, unsigned size_class);
void bins_init(struct bins *bins);
void bins_init_mixed(struct heap *heap);
/* Returns heap->apart, and makes it if it is missing. NULL: out of memory. */
struct pool *bins_apart(struct heap *heap);
/* Returns the size class from whose mixed pages this class takes its blocks: a larger class, which
 * several classes share, or the class itself. If the shared page is full, bins_split_class is
 * called. */
unsigned bins_share_class(struct heap *heap, unsigned size_class);
/* From now on a narrow class uses mixed pages of its own, and the two classes of a wide pair, such
 * as 4 608 and 5 120 bytes, share the mixed pages of the larger one. Returns the class whose pages
 * are used. */
unsigned bins_split_class(struct heap *heap, unsigned size_class);
/* Returns the size class from whose pages, in the view's region, this class takes its blocks: the
 * class itself, or the larger one of a wide pair. The smaller class of a pair gets pages of its own
 * when the view has EXACT_BYTES alive and the pair's pages are used up: then the memory that the
 * smaller blocks save exceeds the part of a page that waits for further blocks. */
unsigned bins_own_class(struct heap *heap, struct view *view, unsigned size_class);
/* Gives back a current page that became empty when `block` was freed. */
void bins_release_page(struct heap *heap, struct page *page, void *block);
/* bins_release_empty gives back the empty current pages of `bins`, regions_release_empty those of
 * all regions and of heap->apart. */
void bins_release_empty(struct heap *heap, struct bins *bins);
void regions_release_empty(struct heap *heap);
/* Called after some blocks of a page were freed. A page that was full goes to the list of pages
 * with free blocks. True: the page is empty and in no list; the caller destroys it. */
bool bins_freed_into(struct heap *heap, struct page *page);
/* Takes the page out of the list of pages with free blocks. */
void bins_unlist(struct bins *bins, struct page *page);
/* Called after a free that left page.changes_at blocks in use (see flags_set), or in a watched
 * page. If the page is watched, reports the free to segment_watch. Then calls bins_freed_into, and
 * destroys the page if it is empty. */
void page_after_free(struct heap *heap, struct page *page, void *block);

#endif
