/* SPDX-License-Identifier: MIT */
/*
 * Allocates a chunk where the common malloc (api/fast.h) cannot, and decides which pages a
 * context's next chunks come from.
 *
 * For: any program. Small contexts share the thread's mixed pages. A context that has grown gets a
 * region, that is, pages of its own, so that its frees leave whole pages empty. Cannot do: move a
 * live chunk. Chunks that a context allocated before it got its region stay in mixed pages until
 * they are freed.
 */
#include "os/meta.h"
#include "region/aset.h"
#include "region/check.h"
#include "region/guard.h"
#include "region/hooks.h"
#include "region/punch.h"
#include "region/reset.h"
#include "region/serial.h"
#include "region/slab.h"

#define PROMOTE_LIVE_LOG 16 /* logarithm of 64 KiB */
#define PROMOTE_SHARE 64

/* Each region has a few pages that are not full. To keep them a small part of the whole, a context
 * must hold more bytes to get a region when more bytes are alive in the process:
 * MEMCTX_PROMOTE_BYTES up to 2^PROMOTE_LIVE_LOG live bytes, and then twice as many each time the
 * live bytes quadruple. But a context that holds 1/PROMOTE_SHARE of the live bytes gets its region
 * once it has MEMCTX_PROMOTE_BYTES alive: there are few such contexts, and their chunks in mixed
 * pages would keep many of these pages in use. The live bytes are the bytes in pages minus the
 * waste. A page of this heap that belongs to one context and is not used up counts as half full. */
static int64_t promote_bytes(const struct heap *heap) {
    int64_t live = segment_used_bytes() - load_relaxed(&heap_global.own_free) -
                   (int64_t)heap->open_slices * (int64_t)(SLICE_BYTES / 2);
    int log = live > 0 ? 63 - __builtin_clzl((uint64_t)live) : 0;
    int64_t bytes = options.promote_bytes
                    << (log > PROMOTE_LIVE_LOG ? (log - PROMOTE_LIVE_LOG) / 2 : 0);
    return live / PROMOTE_SHARE < bytes ? live / PROMOTE_SHARE : bytes;
}

/* Gives the context a region if the context has enough bytes alive, or if its terms ask for a
 * region. If the context has left a region (region.left), that region serves the context again. */
static void promote(struct heap *heap, struct view *view, enum placement placement) {
    bool at_once = UNLIKELY(terms_with(view->context, TERMS_OWN) != NULL);
    int64_t live = view_live_bytes(view);
    if (!at_once &&
        (live < options.promote_bytes || placement == PLACE_SHARED ||
         (placement == PLACE_DEFAULT && (live < promote_bytes(heap) || !heap_may_segregate(heap)))))
        return;
    if (view->region) {
        region_of(view->region)->left = false;
        region_of(view->region)->asked = at_once;
        return;
    }
    /* A program may have as many regions as call paths, so the tables' budget counts regions. */
    int64_t bytes = (int64_t)meta_block_bytes(sizeof(struct region));
    enum tables_share share = placement == PLACE_DEFAULT ? TABLES_OTHERS : TABLES_PLACED;
    if (!tables_take(bytes, share))
        return;
    struct region *region = meta_alloc(sizeof *region);
    if (!region) {
        tables_add(-bytes);
        return;
    }
    bins_init(&region->bins);
    region->asked = at_once;
    view->region = &region->bins;
}

void region_free_empty(struct bins *bins) {
    struct region *region = bins ? region_of(bins) : NULL;
    if (!region)
        return;
    slab_free_bands(region);
    tables_add(region->named ? 0 : -(int64_t)meta_block_bytes(sizeof *region));
    meta_free(region, sizeof *region);
}

COLD void region_change_policy(struct heap *heap, struct bins *bins, uint32_t policy) {
    if (bins->policy == policy)
        return;
    slab_one_band(bins);
    policy_set(bins, policy);
    serial_put_aside(heap, region_of(bins));
    serial_release_empty(region_of(bins));
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        if (bins->recipe & RECIPE_SERIAL)
            bins_put_aside(heap, bins, i);
        else
            bins_put_aside_unfit(heap, bins, i);
}

static unsigned recipe_of_terms(const struct terms *terms) {
    return load_relaxed(&terms->flags) & TERMS_ZERO ? RECIPE_ZEROED : 0;
}

/* True when the region's next pages follow the terms with this number. The number alone does not
 * tell, because a new rule may get the number of a rule that was cleared. */
static bool follows_terms(const struct bins *bins, unsigned number) {
    const struct terms *terms = &terms_table[number];
    return bins->terms == number && bins->slices == terms->slices &&
           (bins->recipe & RECIPE_OF_TERMS) == recipe_of_terms(terms);
}

/* Makes the region's next pages follow the terms with this number (terms.h). */
COLD static void region_change_terms(struct heap *heap, struct bins *bins, unsigned number) {
    bins->terms = (uint8_t)number;
    bins->slices = terms_table[number].slices;
    bins->recipe &= (uint8_t)~RECIPE_OF_TERMS;
    bins->recipe |= (uint8_t)recipe_of_terms(&terms_table[number]);
    serial_put_aside(heap, region_of(bins));
    serial_release_empty(region_of(bins));
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        bins_put_aside_unfit(heap, bins, i);
}

/* Called when no rule asks for the context's region any more. Unless the context has a placement,
 * its next chunks go to mixed pages, and the region's pages may become mixed pages (share_own_page,
 * bins.c). */
COLD static void leave(struct heap *heap, struct view *view, struct region *region) {
    region->asked = false;
    if (heap_placement(view->context) != PLACE_DEFAULT)
        return;
    region->left = true;
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        bins_put_aside(heap, &region->bins, i);
}

/* Called when placements or terms have changed. Each context whose region no rule asks for any more
 * leaves the region, also a context that will never allocate again. The region first follows the
 * present policy and terms, because mixed pages cannot have those of the rule. */
COLD static void leave_unasked(struct heap *heap) {
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        struct view *view = heap_view_at(heap, i);
        struct region *region = view->region ? region_of(view->region) : NULL;
        if (!region || !region->asked || terms_with(view->context, TERMS_OWN))
            continue;
        region_change_policy(heap, view->region, policy_placed(heap_placement(view->context)));
        if (!follows_terms(view->region, terms_number(view->context)))
            region_change_terms(heap, view->region, terms_number(view->context));
        leave(heap, view, region);
    }
}

/* Makes the region follow the context's terms, and prints the warning of a limit if it is due. */
COLD static void look_at_terms(struct heap *heap, struct view *view) {
    unsigned number = terms_number(view->context);
    struct terms *terms = &terms_table[number];
    struct region *region = view->region ? region_of(view->region) : NULL;
    if (region && !follows_terms(view->region, number))
        region_change_terms(heap, view->region, number);
    if (load_relaxed(&terms->to_tell) && exchange_relaxed(&terms->to_tell, 0))
        REGION_HOOK(tell_limit, terms, view->context);
}

/* Does the periodic work of the heap and the context before a chunk is placed. The context may get
 * a region, or another policy for its region. Returns the recipe of the region. The recipe is 0
 * when the context has no region, and in a region of policy aset whose frees do not zero blocks. */
static unsigned look_around(struct heap *heap, struct view *view) {
    heap_collect_if_any(heap);
    if (UNLIKELY(heap->trims != load_relaxed(&trim_number)))
        trim_heap(heap);
    if (UNLIKELY(heap->placings != load_relaxed(&heap_placings))) {
        heap_reconsider(heap);
        leave_unasked(heap);
    }
    /* The placement is read after heap_placings. If the placement changes later, the next call
     * finds a new heap_placings. */
    enum placement placement = heap_placement(view->context);
    uint32_t policy = policy_placed(placement);
    if (!region_serving(view) && !region_is_tiny(view))
        promote(heap, view, placement);
    if (view->region) {
        if (UNLIKELY(placement != PLACE_DEFAULT))
            region_of(view->region)->left = false;
        region_of(view->region)->looked = heap->placings;
        if (UNLIKELY(view->region->policy != policy))
            region_change_policy(heap, view->region, policy);
    }
    if (terms_exist())
        look_at_terms(heap, view);
    return view->region ? view->region->recipe : 0;
}

void *region_alloc_wide(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    return region_take(heap, view->bins->current[bins_class_of(heap, size)], view, size, false,
                       fresh);
}

/* A heap does its periodic work (look_around) when no page with free blocks is left. A thread that
 * frees as many blocks as it allocates never runs out of such pages. So the heap also does the work
 * after every LOOK_EVERY pages that were used up, if other threads have freed chunks or placements
 * have changed. */
#define LOOK_EVERY 16U

static bool look_is_due(struct heap *heap) {
    return UNLIKELY(!(++heap->pages_used_up % LOOK_EVERY)) &&
           (load_relaxed(&heap->remote_pages) || heap->placings != load_relaxed(&heap_placings));
}

/* Lets a context whose own pages are used up continue in mixed pages, because the waste cap refuses
 * the context another page. False: the cap allows a page, or no mixed page has free blocks, or
 * something else has to be decided (placement, terms, a search for empty pages); use
 * region_alloc. */
static bool go_mixed(struct heap *heap, struct view *view, unsigned size_class) {
    if (view->region->recipe || region_of(view->region)->looked != heap->placings ||
        heap_placement(view->context) != PLACE_DEFAULT || region_is_named(view) || terms_exist() ||
        heap_may_segregate(heap) || !bins_refuse_page(heap, view->region, size_class))
        return false;
    view->bins = &heap->mixed;
    return bins_switch(heap, &heap->mixed, size_class);
}

static bool next_page(struct heap *heap, struct view *view, size_t size) {
    if (size > SMALL_MAX || view->bins == &heap_no_bins || look_is_due(heap) ||
        UNLIKELY(view->bins->recipe & RECIPE_SERIAL))
        return false;
    unsigned size_class = bins_class_of(heap, size);
    return bins_switch(heap, view->bins, size_class) ||
           (view->bins == view->region && go_mixed(heap, view, size_class));
}

void *region_alloc_next_page(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    if (!next_page(heap, view, size))
        return NULL;
    return size <= NARROW_MAX ? region_alloc_narrow(heap, view, size, fresh)
                              : region_alloc_wide(heap, view, size, fresh);
}

/* Like region_alloc and region_alloc_aligned, but for the checking mode (check.h): puts a pattern
 * behind the chunk, which the chunk's free compares. */
COLD static void *alloc_checked(struct heap *heap, struct view *view, size_t size, size_t alignment,
                                bool zero) {
    if (size > SMALL_MAX || size + CHECK_TAIL + alignment > SMALL_MAX)
        return region_alloc_large(heap, view, size, alignment, zero);
    size_t room = size + CHECK_TAIL + alignment - 16; /* blocks start at multiples of 16 */
    look_around(heap, view);
    struct page *page = aset_page(heap, view, size, blocks_class_of(room), room);
    if (!page)
        return NULL;
    bool fresh = false, checked = check_is_on(page);
    if (checked)
        check_filled(page);
    char *block = region_take(heap, page, view, size, false, &fresh);
    char *chunk = (char *)align_up((uintptr_t)block, alignment);
    if (chunk != block)
        blocks_mark(page, META_ALIGNED);
    if (checked)
        check_seal(chunk, size, block + page->block_bytes);
    return zero ? __builtin_memset(chunk, 0, size) : chunk;
}

/* Allocates a chunk with a guard behind it (guard.h). NULL: the chunk needs no guard, or can have
 * none. */
COLD static void *alloc_guarded(struct heap *heap, struct view *view, size_t size, size_t alignment,
                                bool zero) {
    struct terms *terms = terms_with(view->context, TERMS_GUARD);
    if (!terms)
        return NULL;
    look_around(heap, view);
    struct page *page = guard_alloc(size, alignment);
    add_relaxed(page ? &terms->guarded : &terms->unguarded, 1);
    if (!page)
        return NULL;
    page->requested_bytes = size;
    page->context = view->context;
    view->bins = (struct bins *)&heap_no_bins;
    view_account_alloc(view, size);
    if (region_is_named(view))
        region_named_large(view, page);
    if (zero && !page->fresh)
        __builtin_memset(page->chunk, 0, size);
    return page->chunk;
}

/* Allocates a chunk from the pages of the view's region, or from mixed pages. */
static void *alloc_by_recipe(struct heap *heap, struct view *view, size_t size, size_t alignment,
                             bool *fresh) {
    return look_around(heap, view) & RECIPE_SERIAL
               ? serial_alloc(heap, view, size, alignment, fresh)
               : aset_alloc(heap, view, size, alignment, fresh);
}

static void *zeroed(void *chunk, size_t size, bool zero, bool fresh) {
    return chunk && zero && !fresh ? __builtin_memset(chunk, 0, size) : chunk;
}

void *region_alloc(struct heap *heap, struct view *view, size_t size, bool zero) {
    bool fresh = false;
    if (UNLIKELY(region_is_tiny(view))) {
        look_around(heap, view);
        void *chunk = tiny_alloc(heap, view, size, &fresh);
        if (chunk || !region_make_whole(heap, view))
            return zeroed(chunk, size, zero, fresh);
    }
    void *guarded = terms_exist() ? alloc_guarded(heap, view, size, 16, zero) : NULL;
    if (UNLIKELY(guarded != NULL))
        return guarded;
    if (UNLIKELY(options.check))
        return alloc_checked(heap, view, size, 16, zero);
    if (size > SMALL_MAX)
        return region_alloc_large(heap, view, size, 1, zero);
    return zeroed(alloc_by_recipe(heap, view, size, 16, &fresh), size, zero, fresh);
}

void *region_alloc_aligned(struct heap *heap, struct view *view, size_t size, size_t alignment) {
    if (UNLIKELY(region_is_tiny(view)) && !region_make_whole(heap, view))
        return NULL;
    void *guarded = terms_exist() ? alloc_guarded(heap, view, size, alignment, false) : NULL;
    if (UNLIKELY(guarded != NULL))
        return guarded;
    if (UNLIKELY(options.check))
        return alloc_checked(heap, view, size, alignment, false);
    if (size > SMALL_MAX || size + alignment > SMALL_MAX)
        return region_alloc_large(heap, view, size, alignment, false);
    bool fresh = false;
    return alloc_by_recipe(heap, view, size, alignment, &fresh);
}

void *region_alloc_grown(struct heap *heap, struct view *view, size_t size, size_t had) {
    size_t room = aset_grown_room(had, size);
    bool fresh;
    if (room == size || UNLIKELY(options.check) || UNLIKELY(region_is_tiny(view)) ||
        UNLIKELY(terms_with(view->context, TERMS_GUARD) != NULL))
        return region_alloc(heap, view, size, false);
    if (!aset_slack_fits(blocks_bytes_table[bins_class_of(heap, room)], size))
        return region_alloc(heap, view, size, false);
    /* only aset adds room */
    if (UNLIKELY(look_around(heap, view) & ~RECIPE_OF_TERMS))
        return region_alloc(heap, view, size, false);
    struct page *page = aset_page_of(heap, view, blocks_class_of(room), room);
    return page ? region_take(heap, page, view, size, false, &fresh) : NULL;
}
