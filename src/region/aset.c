/* SPDX-License-Identifier: MIT */
/* Places chunks in blocks of their size class; see aset.h. */
#include "region/aset.h"
#include "region/region.h"
#include "region/reset.h"
#include "region/simple.h"
#include "region/slab.h"

/* True for a context without a region whose chunks go to the mixed pages of heap->apart: it has
 * PLACE_APART, or its freed chunks are to be zeroed, which heap->mixed cannot do. */
INLINE bool goes_apart(const struct view *view) {
    return UNLIKELY(heap_placement(view->context) == PLACE_APART) ||
           UNLIKELY(terms_with(view->context, TERMS_ZERO) != NULL);
}

/* Chooses the bins for the view's next chunks, and returns a page of these bins with a free block.
 * See aset_page_of. */
INLINE struct page *page_of(struct heap *heap, struct view *view, unsigned size_class,
                            size_t room) {
    struct page *page = NULL;
    struct bins *region = region_serving(view);
    struct pool *apart = !region && goes_apart(view) ? bins_apart(heap) : NULL;
    if (apart) {
        size_class = bins_split_class(heap, size_class);
        aset_set_bins(view, &apart->bins); /* until the context's placement or terms change */
        return bins_next_page(heap, &apart->bins, NULL, size_class);
    }
    if (region) { /* in a region each class, or pair of classes, has pages of its own */
        size_class = bins_own_class(heap, view, size_class);
        if (UNLIKELY(region->recipe & RECIPE_EXACT))
            slab_fit(heap, region, size_class, room);
        page = bins_next_page(heap, region, view, size_class);
    } else {
        size_class = bins_share_class(heap, size_class);
    }
    /* a reset of a named context would not find a chunk in a mixed page */
    if (UNLIKELY(!page) && region_is_named(view))
        return NULL;
    aset_set_bins(view, page ? region : &heap->mixed);
    return page ? page : bins_next_page(heap, &heap->mixed, NULL, heap->served_by[size_class]);
}

struct page *aset_page_of(struct heap *heap, struct view *view, unsigned size_class, size_t room) {
    return page_of(heap, view, size_class, room);
}

struct page *aset_page(struct heap *heap, struct view *view, size_t size, unsigned size_class,
                       size_t room) {
    /* Another class may serve this class. If the records of its larger blocks cannot store the
     * slack, this class has to serve itself. The alignment needs no check: a block of the serving
     * class is aligned as well as the blocks of each class that is served. */
    if (!aset_slack_fits(blocks_bytes_table[heap->served_by[size_class]], size))
        bins_split_class(heap, size_class);
    if (!aset_slack_fits(blocks_bytes_table[size_class], size))
        size_class = NARROW_CLASSES; /* the first wide class: its records store any slack */
    return aset_page_of(heap, view, size_class, room);
}

/* Like aset_alloc, but for a chunk with an alignment above 16 bytes, or of the policy simple. The
 * block has room for the alignment, and for the links of the region's list (simple.h). */
static void *alloc_with_room(struct heap *heap, struct view *view, size_t size, size_t alignment,
                             bool *fresh) {
    unsigned recipe = view->region ? view->region->recipe : 0;
    size_t node = recipe & RECIPE_CHAINED ? sizeof(struct simple_node) : 0;
    if (size + node + alignment > SMALL_MAX)
        return region_alloc_large(heap, view, size, alignment, false);
    if (view->region && alignment > 16)
        store_owner(&region_of(view->region)->aligned, true);
    bool plain = !(recipe & ~RECIPE_OF_TERMS);
    size_t room = aset_aligned_room(size, alignment);
    unsigned size_class = blocks_class_of(room);
    uint32_t bytes = blocks_bytes_table[size_class];
    bool aligned =
        !(bytes & (alignment - 1)) && (bytes <= NARROW_MAX || alignment <= WIDE_ALIGNMENT_MAX);
    if (!plain || !aligned || !aset_slack_fits(bytes, size)) {
        room = (size ? size : 1) + node + alignment - 16; /* blocks start at multiples of 16 */
        size_class = blocks_class_of(room);
    }
    struct page *page = aset_page(heap, view, size, size_class, room);
    if (!page)
        return NULL;
    char *block = region_take(heap, page, view, size, false, fresh);
    char *chunk = (char *)align_up((uintptr_t)block, alignment);
    if (chunk != block)
        blocks_mark(page, META_ALIGNED);
    if (simple_is(page))
        simple_link(page, block);
    return chunk;
}

void *aset_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment, bool *fresh) {
    if (alignment > 16 || (view->region && UNLIKELY(view->region->recipe & RECIPE_CHAINED)))
        return alloc_with_room(heap, view, size, alignment, fresh);
    struct page *page = page_of(heap, view, blocks_class_of(size), size);
    return page ? region_take(heap, page, view, size, false, fresh) : NULL;
}
