/* SPDX-License-Identifier: MIT */
/*
 * Bins: the pages of a region, or of a heap's small contexts, by size class.
 *
 * For: finding a page with a free block without a search. A bin is one size class: its current
 * page, and a list of other pages with free blocks. A full page joins the list when enough of its
 * blocks are free (spare_of). Cannot do: move blocks from one page to another.
 */
#include "region/bins.h"
#include "base/options.h"
#include "os/meta.h"
#include "region/punch.h"
#include "region/serial.h"

/* When the waste cap has refused this many pages, plus one for each view, all regions are searched
 * for empty pages. The views count because each view makes the search longer. */
#define SWEEP_EVERY 64U
/* A context that has made fewer allocations than this since its empty pages were last given back
 * keeps an empty current page. See current_is_empty. */
#define RELEASE_EVERY 256
/* a full page is used again when more than 1/32 of its blocks are free: spare_of */
#define SPARE_SHIFT 5
#define EXACT_SPARE_SHIFT 4 /* like SPARE_SHIFT, but with RECIPE_EXACT */
#define DONORS_MAX 64U      /* number of views that one call of share_own_page looks at */
/* A context with this many live bytes gets pages for both sizes of a pair of wide classes. */
#define EXACT_BYTES (1L << 20)
#define DONATIONS_MAX 8U /* number of pages that share_own_page looks at in each view */

/* For each class, the class that can serve it in mixed pages (heap.served_by): the largest class of
 * its group. The groups are 16 and 32, 48 and 64, and then the classes above one power of two up to
 * the next. But the classes from 288 to 512 bytes make two groups, and each class from 640 to 1024
 * bytes serves itself, because a narrow record stores at most SLACK_NARROW_MAX bytes of slack. */
static const uint8_t largest_of[SIZE_CLASSES] = {1,  1,  3,  3,  7,  7,  7,  7,  11, 11, 11, 11, 15,
                                                 15, 15, 15, 19, 19, 19, 19, 20, 21, 22, 23, 31, 31,
                                                 31, 31, 31, 31, 31, 31, 39, 39, 39, 39, 39, 39, 39,
                                                 39, 47, 47, 47, 47, 47, 47, 47, 47, 48};

struct page heap_no_page FORK_PAGE;
#define NO_PAGE_4 &heap_no_page, &heap_no_page, &heap_no_page, &heap_no_page
#define NO_PAGE_16 NO_PAGE_4, NO_PAGE_4, NO_PAGE_4, NO_PAGE_4
const struct bins heap_no_bins = {.current = {NO_PAGE_16, NO_PAGE_16, NO_PAGE_16, &heap_no_page}};

/* True when a page fits the terms of its region: the page has the number of slices that the terms
 * ask for. If frees have to zero the block, the page also has META_ALIGNED, so that its frees go to
 * page_kinds.h. */
static bool serves_terms(const struct bins *bins, const struct page *page) {
    return page->slices == blocks_page_slices(bins, page->size_class) &&
           (!(bins->recipe & RECIPE_ZEROED) || load_relaxed(&page->meta_shift) & META_ALIGNED);
}

/* True when the page may serve new chunks of its class: the next page of the class would have
 * the same layout. */
INLINE bool bins_serve(struct bins *bins, const struct page *page) {
    return page->block_bytes == bins_block_bytes(bins, page->size_class) &&
           (LIKELY(!bins->terms) || serves_terms(bins, page)) &&
           !((load_relaxed(&page->flags) ^ bins->recipe) & PAGE_CHAINED);
}

void bins_init(struct bins *bins) {
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        bins->current[i] = &heap_no_page;
        bins->partial[i] = NULL;
    }
}

/* At most this many bytes, and this many blocks, of a size class wait as recent blocks
 * (heap.recent_room). */
#define RECENT_BYTES 2048U
#define RECENT_MAX 32U

static uint16_t recent_room(unsigned size_class) {
    unsigned room = RECENT_BYTES / blocks_bytes_table[size_class];
    return (uint16_t)(room < RECENT_MAX ? room : RECENT_MAX);
}

static void classes_init(struct heap *heap) {
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        heap->served_by[i] = largest_of[i];
    for (unsigned i = 0; i <= NARROW_MAX / 16; i++)
        heap->size_served_by[i] = largest_of[blocks_class_table[i]];
}

/* Returns the class that serves a class in mixed pages after the classes of the group no longer
 * share pages: the larger class of a wide pair, or a narrow class itself. Wide classes are served
 * in pairs, because each class with pages of its own has a page that is not full. The last class
 * belongs to no pair. */
static unsigned pair_of(unsigned size_class) {
    return size_class < NARROW_CLASSES || size_class == SIZE_CLASSES - 1 ? size_class
                                                                         : size_class | 1;
}

static void serve_by(struct heap *heap, unsigned size_class, unsigned server) {
    heap->served_by[size_class] = (uint8_t)server;
    for (unsigned i = 0; i <= NARROW_MAX / 16; i++)
        if (blocks_class_table[i] == size_class)
            heap->size_served_by[i] = (uint8_t)server;
}

unsigned bins_split_class(struct heap *heap, unsigned size_class) {
    unsigned server = heap->served_by[size_class], pair = pair_of(size_class);
    if (server == size_class || server == pair)
        return server;
    serve_by(heap, size_class, pair);
    if (heap->served_by[pair] != pair)
        serve_by(heap, pair, pair);
    return pair;
}

void bins_init_mixed(struct heap *heap) {
    bins_init(&heap->mixed);
    classes_init(heap);
    for (unsigned i = 0; i < NARROW_CLASSES; i++) {
        struct page *recent = heap_recent(heap, i);
        blocks_set_layout(recent, SLICE_BYTES, false, i, blocks_bytes_table[i]);
        recent->free = recent->free_with_owners = NULL;
        recent->used = recent_room(i);
        recent->behind = &heap_no_page;
        heap->mixed.current[i] = recent;
    }
}

static void flush_list(struct heap *heap, void *block) {
    while (block) {
        void *next = *(void **)block;
        struct page *page = segment_page_of(block);
        if (blocks_free_owned(heap, page, block))
            page_after_free(heap, page, block);
        block = next;
    }
}

/* Gives the recent blocks back to their pages. */
static void flush_recent(struct heap *heap) {
    for (unsigned i = 0; i < NARROW_CLASSES; i++) {
        struct page *recent = heap_recent(heap, i);
        void *mixed = recent->free, *with_owners = recent->free_with_owners;
        recent->free = recent->free_with_owners = NULL;
        recent->used = recent_room(i);
        flush_list(heap, mixed);
        flush_list(heap, with_owners);
    }
}

struct pool *bins_apart(struct heap *heap) {
    if (heap->apart)
        return heap->apart;
    struct pool *pool = meta_alloc(sizeof *pool);
    if (!pool)
        return NULL;
    bins_init(&pool->bins);
    for (unsigned i = 0; i < NARROW_CLASSES; i++) {
        struct page *stand_in = (struct page *)pool->stand_ins[i];
        blocks_set_layout(stand_in, SLICE_BYTES, false, i, blocks_bytes_table[i]);
        stand_in->behind = &heap_no_page;
        pool->bins.current[i] = stand_in;
    }
    heap->apart = pool;
    return pool;
}

static bool is_apart(const struct heap *heap, const struct bins *bins) {
    return UNLIKELY(heap->apart != NULL) && bins == &heap->apart->bins;
}

/* Returns where the pointer to the current page of a size class is stored, so that the caller can
 * change the pointer. If the class has a stand-in, this is the stand-in's `behind`. */
static struct page **current_of(struct heap *heap, struct bins *bins, unsigned size_class) {
    return (bins == &heap->mixed || is_apart(heap, bins)) && size_class < NARROW_CLASSES
               ? &bins->current[size_class]->behind
               : &bins->current[size_class];
}

/* Appends a page to the list of pages with free blocks. The list's first page, which waits longest,
 * is used first. With two bands (bins_second_band), a page that is more than half full is appended
 * to the first band. The `prev` of the list's first page points to the list's last page. */
static void partial_push(struct bins *bins, struct page *page) {
    struct page **head = &bins->partial[page->size_class], **emptier = bins_second_band(bins, page);
    uint32_t half = page->capacity / 2;
    bool fuller = emptier && page->used > half;
    struct page *behind = fuller ? *emptier : NULL;
    if (page->view && page->view->bins != &heap_no_bins && LIKELY(!region_of(bins)->left))
        page->view->bins = bins; /* the context has free blocks of its own again */
    flag_set(page, PAGE_LISTED);
    if (fuller)
        page->changes_at = (uint16_t)half;
    else if (emptier && !*emptier)
        *emptier = page;
    page->next = behind;
    if (!*head) {
        page->prev = page;
        *head = page;
        return;
    }
    /* at->prev is the page before `behind`, or, for the head, the list's last page. */
    struct page *at = behind ? behind : *head;
    page->prev = at->prev;
    at->prev = page;
    if (behind == *head)
        *head = page;
    else
        page->prev->next = page;
}

void bins_unlist(struct bins *bins, struct page *page) {
    struct page **head = &bins->partial[page->size_class], **emptier = bins_second_band(bins, page);
    if (emptier && *emptier == page)
        *emptier = page->next;
    if (page == *head) {
        *head = page->next;
        if (page->next)
            page->next->prev = page->prev;
    } else {
        page->prev->next = page->next;
        (page->next ? page->next : *head)->prev = page->prev;
    }
    page->next = page->prev = NULL;
    flag_clear(page, PAGE_LISTED);
}

static struct bins *bins_of(struct heap *heap, const struct page *page) {
    if (page->kind == PAGE_OWN)
        return page->view->region;
    return UNLIKELY(page->meta_shift & META_APART) ? &heap->apart->bins : &heap->mixed;
}

/* Returns how many blocks of a full page may be free before the page is used again: making a page
 * current for one free block takes longer than handing out that block. Mixed pages are used from
 * the first free block on, because most of their freed blocks are handed out again from
 * heap.recent_room and never reach the page. */
static uint32_t spare_of(const struct page *page) {
    if (!page->view)
        return 0;
    return page->capacity >>
           (page->view->region->recipe & RECIPE_EXACT ? EXACT_SPARE_SHIFT : SPARE_SHIFT);
}

/* Called for a current page that has no free block left, and for a page whose free blocks are not
 * to be handed out any more. */
static void current_is_full(struct heap *heap, struct page *page) {
    if (page == &heap_no_page)
        return;
    store_owner(&page->filled, load_relaxed(&segment_clock));
    flag_set(page, PAGE_FULL);
    blocks_tail_done(heap, page);
    uint32_t spare = spare_of(page);
    page->changes_at = (uint16_t)(page->used > spare ? page->used - 1 - spare : 0);
    if (UNLIKELY(page->view && region_of(page->view->region)->named))
        region_list(&region_of(page->view->region)->pages, page);
}

void bins_put_aside(struct heap *heap, struct bins *bins, unsigned size_class) {
    struct page *page = bins->current[size_class];
    bins->current[size_class] = &heap_no_page;
    if (page == &heap_no_page)
        return;
    if (!page->used)
        blocks_page_destroy(heap, page);
    else if (bins_serve(bins, page) && blocks_has_free(page))
        partial_push(bins, page);
    else
        current_is_full(heap, page);
}

void bins_put_aside_unfit(struct heap *heap, struct bins *bins, unsigned size_class) {
    if (!bins_serve(bins, bins->current[size_class]))
        bins_put_aside(heap, bins, size_class);
    for (struct page *page = bins->partial[size_class], *next; page; page = next) {
        next = page->next;
        if (bins_serve(bins, page))
            continue;
        bins_unlist(bins, page);
        current_is_full(heap, page);
    }
}

bool bins_switch(struct heap *heap, struct bins *bins, unsigned size_class) {
    struct page **current = current_of(heap, bins, size_class);
    /* A visitor (punch, remote_collect) changes heap_global.own_free itself, not heap->own_free.
     * When the owner then uses the blocks, heap->own_free changes in the opposite direction. A heap
     * that makes no page would never publish this change without the call below. */
    heap_note_waste(heap);
    if (blocks_has_free(*current))
        return true;
    do {
        struct page *next = bins->partial[size_class];
        if (!next)
            return false;
        current_is_full(heap, *current);
        bins_unlist(bins, next);
        *current = next;
    } while (!blocks_has_free(*current)); /* blocks_has_free refills the list of a punched page */
    struct page *after = bins->partial[size_class];
    if (after) { /* the next switch needs these two cache lines; for NULL see blocks_unlink */
        __builtin_prefetch(after->free ? after->free : after, 1);
        __builtin_prefetch(after->next ? after->next : after, 1);
    }
    return true;
}

unsigned bins_share_class(struct heap *heap, unsigned size_class) {
    unsigned server = heap->served_by[size_class];
    if (server != size_class && *current_of(heap, &heap->mixed, server) != &heap_no_page &&
        !bins_switch(heap, &heap->mixed, server))
        return bins_split_class(heap, size_class);
    return server;
}

unsigned bins_own_class(struct heap *heap, struct view *view, unsigned size_class) {
    struct bins *region = view->region;
    unsigned server = bins_split_class(heap, size_class);
    if (server == size_class || region->recipe & RECIPE_EXACT ||
        view_live_bytes(view) < EXACT_BYTES || region->current[server] == &heap_no_page ||
        bins_switch(heap, region, server))
        return server;
    serve_by(heap, size_class, size_class);
    return size_class;
}

/* True when a page of the view's own may become a mixed page. Contexts of PLACE_SHARED are to have
 * no pages of their own, so their pages may always become mixed pages. Pages of contexts without a
 * placement may become mixed pages only past the waste cap. A page whose frees zero the block may
 * not, because the pages of heap->mixed do not zero freed chunks. */
static bool may_share(const struct view *view, bool past_cap) {
    enum placement placement = heap_placement(view->context);
    bool wanted = placement == PLACE_SHARED || (placement == PLACE_DEFAULT && past_cap);
    return wanted && !(view->region && view->region->recipe & RECIPE_ZEROED);
}

/* True when the page has enough free blocks, and the form of a mixed page: a policy or terms that
 * the context had before may have made pages of other forms. */
static bool is_worth_sharing(const struct page *page, unsigned size_class) {
    return page->used <= page->capacity - page->capacity / 8 &&
           page->block_bytes == blocks_bytes_table[size_class] &&
           page->slices == blocks_page_slices(NULL, size_class) && !(page->flags & PAGE_CHAINED);
}

/* Makes some context's own page a mixed page, and returns the page. NULL: there is no memory, or
 * none of the pages looked at has an eighth of its blocks free. */
static struct page *share_own_page(struct heap *heap, unsigned size_class, bool past_cap) {
    for (unsigned looks = 0; looks < DONORS_MAX && looks < heap->view_count; looks++) {
        if (heap->donor >= heap->view_count)
            heap->donor = 1;
        const struct view *view = heap_view_at(heap, heap->donor);
        struct bins *region = may_share(view, past_cap) ? view->region : NULL;
        struct page *page = region ? region->partial[size_class] : NULL;
        for (unsigned i = 0; i < DONATIONS_MAX && page; i++, page = page->next) {
            if (!is_worth_sharing(page, size_class))
                continue;
            if (!blocks_become_mixed(page))
                return NULL;
            bins_unlist(region, page);
            return page;
        }
        heap->donor++;
    }
    return NULL;
}

bool bins_refuse_page(struct heap *heap, struct bins *region, unsigned size_class) {
    if (heap->denied + 1 >= SWEEP_EVERY + heap->view_count)
        return false;
    heap->denied++;
    current_is_full(heap, region->current[size_class]);
    region->current[size_class] = &heap_no_page;
    return true;
}

struct page *bins_next_page(struct heap *heap, struct bins *bins, struct view *view,
                            unsigned size_class) {
    struct page **current = current_of(heap, bins, size_class);
    struct page *page = NULL;
    if (bins_switch(heap, bins, size_class))
        return *current;
    current_is_full(heap, *current);
    /* Past the waste cap a context without a placement gets no new page of its own. */
    enum placement placement = view ? heap_placement(view->context) : PLACE_DEFAULT;
    bool below_cap = heap_may_segregate(heap);
    bool segregate = bins->recipe & RECIPE_ZEROED ||
                     (placement == PLACE_DEFAULT ? below_cap : placement != PLACE_SHARED);
    bool apart = is_apart(heap, bins);
    if (!view && !apart && (!below_cap || load_relaxed(&heap_placed_any) & 1U << PLACE_SHARED))
        page = share_own_page(heap, size_class, !below_cap);
    if (view ? segregate : !page) {
        page = blocks_page_create(heap, view, size_class);
        if (page && apart)
            blocks_mark(page, META_APART);
        if (page && UNLIKELY(bins->recipe & (RECIPE_ZEROED | RECIPE_CHAINED)))
            blocks_mark(page, META_ALIGNED); /* the common free leaves such pages to page_kinds.h */
        if (page && UNLIKELY(bins->recipe & RECIPE_CHAINED))
            flag_set(page, PAGE_CHAINED);
    } else if (view && ++heap->denied >= SWEEP_EVERY + heap->view_count) {
        heap->denied = 0;
        regions_release_empty(heap); /* empty current pages count as waste, too */
    }
    *current = page ? page : &heap_no_page;
    return page;
}

/* Called when a context's current page got empty for the first time since it became current. Gives
 * back the empty pages of the region, unless the context made from 1 to RELEASE_EVERY - 1
 * allocations since its empty pages were last given back: such a context will soon need the pages
 * again. */
static void current_is_empty(struct heap *heap, struct page *page) {
    struct bins *region = page->view->region;
    uint64_t since = page->view->allocs - region->allocs_at_release;
    page->changes_at = UINT16_MAX;
    if (since && since < RELEASE_EVERY)
        return;
    region->allocs_at_release = page->view->allocs;
    bins_release_empty(heap, region);
}

bool bins_freed_into(struct heap *heap, struct page *page) {
    struct bins *bins = bins_of(heap, page);
    if (page->flags & (PAGE_FULL | PAGE_LISTED) && page->used > page->changes_at)
        return false;
    if (page->flags & PAGE_FULL) {
        bool listed = UNLIKELY(page->view && region_of(bins)->named);
        if (listed)
            region_unlist(&region_of(bins)->pages, page);
        flag_clear(page, PAGE_FULL);
        if (!page->used)
            return true;
        if (LIKELY(bins_serve(bins, page)))
            partial_push(bins, page);
        else { /* the page may not be used again; its next free calls this function again */
            flag_set(page, PAGE_FULL);
            if (listed)
                region_list(&region_of(bins)->pages, page);
        }
    } else if (page->flags & PAGE_LISTED) {
        bins_unlist(bins, page);
        if (!page->used)
            return true;
        /* the page is at most half full now, and moves to the second band */
        partial_push(bins, page);
    } else if (!page->used && page->kind == PAGE_OWN) {
        current_is_empty(heap, page);
    }
    return false;
}

void page_after_free(struct heap *heap, struct page *page, void *block) {
    heap_await(heap); /* a visitor may be changing the lists of pages (remote_collect) */
    if (blocks_are_watched(page))
        segment_watch(block);
    if (bins_freed_into(heap, page))
        blocks_page_destroy(heap, page);
}

void bins_release_page(struct heap *heap, struct page *page, void *block) {
    if (blocks_are_watched(page))
        segment_watch(block);
    *current_of(heap, bins_of(heap, page), page->size_class) = &heap_no_page;
    blocks_page_destroy(heap, page);
}

void bins_release_empty(struct heap *heap, struct bins *bins) {
    if (bins == &heap->mixed)
        flush_recent(heap);
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        struct page **current = current_of(heap, bins, i), *page = *current;
        if (page == &heap_no_page || page->used)
            continue;
        *current = &heap_no_page;
        blocks_page_destroy(heap, page);
    }
}

void regions_release_empty(struct heap *heap) {
    if (heap->apart)
        bins_release_empty(heap, &heap->apart->bins);
    for (uint32_t i = 1; i < heap->view_count; i = heap_view_after(heap, i)) {
        struct bins *region = heap_view_at(heap, i)->region;
        if (!region)
            continue;
        bins_release_empty(heap, region);
        serial_release_empty(region_of(region));
    }
}
