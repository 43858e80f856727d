/* SPDX-License-Identifier: MIT */
/* Makes, counts, resets, limits, moves and checks regions of named contexts; see reset.h. */
#include "region/reset.h"
#include "os/meta.h"
#include "region/page_kinds.h"
#include "region/policy.h"
#include "region/region.h"
#include "region/terms.h"

uint32_t region_named_any;

bool region_make_whole(struct heap *heap, struct view *view) {
    uint32_t policy = policy_placed(heap_placement(view->context));
    if (!view->region) {
        struct region *region = meta_alloc(sizeof *region);
        if (!region)
            return false;
        bins_init(&region->bins);
        policy_set(&region->bins, policy);
        region->named = true;
        /* the view also counts chunks of the tiny context, which stand outside the region */
        region->others_chunks = region->others_bytes = REGION_RECOUNT;
        view->region = &region->bins;
    }
    region_change_policy(heap, view->region, policy);
    /* The region follows view->region->terms until the next call of region_alloc, which makes the
     * region follow terms_number. */
    bool no_bins =
        view->region->recipe & RECIPE_CHAINED || view->region->terms || terms_number(view->context);
    view->bins = no_bins ? (struct bins *)&heap_no_bins : view->region;
    return true;
}

bool region_make_named(struct heap *heap, struct view *view, enum placement placement) {
    store_owner(&region_named_any, 1);
    bool tiny = placement == PLACE_APART && !options.check && !terms_number(view->context) &&
                tiny_begin(view->context, heap);
    if (tiny && !view->region) {
        view->bins = (struct bins *)&heap_no_bins;
        return true;
    }
    if (!region_make_whole(heap, view))
        return false;
    struct region *region = region_of(view->region);
    region->named = true;
    region->limit = 0;
    /* The view may count chunks that other threads freed of earlier contexts with this node. */
    region->others_chunks = region->others_bytes = REGION_RECOUNT;
    return true;
}

/* Returns the view of the tiny context that has the chunk in its list. NULL: the chunk is of no
 * tiny context of this heap. */
static struct view *tiny_view(struct heap *heap, const void *chunk) {
    uint32_t context = region_context_of(chunk);
    const struct tiny *tiny = context == REGION_NO_CONTEXT ? NULL : tiny_of(context);
    return tiny && load_acquire(&tiny->owner) == heap->number ? heap_view(heap, context) : NULL;
}

struct view *region_named_view(struct heap *heap, const void *chunk) {
    const struct page *page = segment_page_of(chunk);
    if (!page)
        page = segment_huge_of(chunk);
    if (!page || page->kind == PAGE_NONE)
        return NULL;
    if (page->kind == PAGE_MIXED)
        return page->meta_shift & META_APART ? tiny_view(heap, chunk) : NULL;
    bool large = page->kind == PAGE_SPAN || page->kind == PAGE_HUGE;
    struct view *view = page->view;
    if (!view || !region_is_named(view))
        return NULL;
    /* The header of a large chunk names no heap. The chunk is this heap's if its view is one of
     * this heap's views. */
    bool mine =
        large
            ? view->index < heap->view_count &&
                  heap->views[view->index / VIEWS_PER_BLOCK] + view->index % VIEWS_PER_BLOCK == view
            : page->heap == heap;
    return mine ? view : NULL;
}

/* --- large chunks ----------------------------------------------------------------------------- */

void region_named_large(struct view *view, struct page *page) {
    page->view = view;
    lock_take(&region_lock);
    region_list(&region_of(view->region)->large, page);
    lock_release(&region_lock);
}

void region_named_large_gone(struct page *page) {
    lock_take(&region_lock);
    region_unlist(&region_of(page->view->region)->large, page);
    lock_release(&region_lock);
    page->view = NULL;
}

/* --- counting and freeing all chunks ---------------------------------------------------------- */

/* Calls `each` for every page of the region, except those of large chunks. `each` may give the page
 * back. */
static void for_each_page(struct heap *heap, struct region *region,
                          void (*each)(struct heap *heap, struct region *region, struct page *page,
                                       void *context),
                          void *context) {
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        struct page *page = region->bins.current[i];
        if (page != &heap_no_page)
            each(heap, region, page, context);
        for (struct page *next = region->bins.partial[i]; (page = next);) {
            next = page->next;
            each(heap, region, page, context);
        }
    }
    for (struct page *next = region->pages, *page; (page = next);) {
        next = page->next;
        each(heap, region, page, context);
    }
}

static void count_page(struct heap *heap, struct region *region, struct page *page, void *context) {
    (void)heap, (void)region;
    *(uint64_t *)context += page->used;
}

static void add_chunk(char *chunk, uint32_t room, uint32_t requested, void *context) {
    struct region_alive *sum = context;
    (void)chunk, (void)room;
    sum->chunks++;
    sum->bytes += requested;
}

static void add_page(struct heap *heap, struct region *region, struct page *page, void *context) {
    (void)heap, (void)region;
    page_kind_of(page)->each_used(page, add_chunk, context);
}

static void tell_watcher(char *chunk, uint32_t room, uint32_t requested, void *context) {
    (void)room, (void)requested, (void)context;
    segment_watch(chunk);
}

static void zero_chunk(char *chunk, uint32_t room, uint32_t requested, void *context) {
    (void)requested, (void)context;
    __builtin_memset(chunk, 0, room);
}

/* After a reset of more bytes than this, the control thread, not the thread that resets, gives
 * memory back to the kernel: see segment_purge_later. */
#define RESET_MUCH_BYTES (4UL << 20)

static void reset_page(struct heap *heap, struct region *region, struct page *page, void *context) {
    const struct page_kind *kind = page_kind_of(page);
    if (blocks_are_watched(page))
        kind->each_used(page, tell_watcher, NULL);
    /* region_alive has collected the chunks that other threads had freed. So a thread freed a chunk
     * of this page during the reset. */
    if (UNLIKELY(load_acquire(&page->remote)))
        region_report(MISUSE_FREED_IN_RESET, page, segment_span_start(page));
    if (UNLIKELY(region->bins.terms) && terms_with(page->view->context, TERMS_ZERO))
        kind->each_used(page, zero_chunk, NULL);
    kind->reset(heap, region, page, context);
}

static struct region_alive large_alive(const struct region *region) {
    struct region_alive sum = {0, 0};
    lock_take(&region_lock);
    for (const struct page *page = region->large; page; page = page->next)
        add_chunk(NULL, 0, 0, &sum), sum.bytes += page->requested_bytes;
    lock_release(&region_lock);
    return sum;
}

static void free_large_chunks(struct heap *heap, struct region *region) {
    for (;;) {
        lock_take(&region_lock);
        struct page *page = region->large;
        if (page)
            region_unlist(&region->large, page);
        lock_release(&region_lock);
        if (!page)
            return;
        page->view = NULL;
        region_give_large(heap, page);
    }
}

struct region_alive region_alive(struct heap *heap, struct view *view) {
    struct tiny_sum tiny = {0, 0, 0};
    struct region *region = region_of(view->region);
    if (tiny_any(view->context))
        tiny = tiny_sum(view->context);
    if (!region)
        return (struct region_alive){tiny.chunks, tiny.bytes};
    heap_collect_if_any(heap);
    struct region_alive large = large_alive(region), alive;
    large.chunks += tiny.chunks;
    large.bytes += tiny.bytes;
    alive = large;
    for_each_page(heap, region, count_page, &alive.chunks);
    int64_t chunks = (int64_t)(view->allocs - view->frees);
    if (chunks - region->others_chunks == (int64_t)alive.chunks) {
        alive.bytes = (uint64_t)(view_live_bytes(view) - region->others_bytes);
        return alive;
    }
    /* Other threads counted frees in views of their own, or nothing was counted yet
     * (REGION_RECOUNT): counts each chunk. */
    alive = large;
    for_each_page(heap, region, add_page, &alive);
    region->others_chunks = chunks - (int64_t)alive.chunks;
    region->others_bytes = view_live_bytes(view) - (int64_t)alive.bytes;
    return alive;
}

bool region_limit(struct heap *heap, struct view *view, uint64_t bytes) {
    if (!bytes && !view->region)
        return true;
    if (!region_make_whole(heap, view))
        return false;
    region_of(view->region)->limit = bytes;
    view->bins = (struct bins *)&heap_no_bins;
    return true;
}

bool region_is_past_limit(struct heap *heap, struct view *view, size_t more, size_t fewer) {
    const struct region *region = region_of(view->region);
    if (!region || LIKELY(!region->limit))
        return false;
    if (fewer && more <= fewer) /* a chunk may shrink although the context is above its limit */
        return false;
    int64_t bytes = view_live_bytes(view) - region->others_bytes - (int64_t)fewer;
    if (bytes < 0 || more > region->limit || (uint64_t)bytes > region->limit - more) {
        bytes = (int64_t)region_alive(heap, view).bytes - (int64_t)fewer;
        return more > region->limit || (bytes > 0 && (uint64_t)bytes > region->limit - more);
    }
    return false;
}

struct move {
    struct heap *to;
    struct view *view;
};

/* Moves a page, and moves its free bytes from one heap's own_free to the other's. */
static void move_page(struct heap *from, struct region *region, struct page *page, void *context) {
    const struct move *move = context;
    int64_t waste = page_kind_of(page)->waste(page);
    (void)region;
    store_owner(&from->own_free, from->own_free - waste);
    store_owner(&move->to->own_free, move->to->own_free + waste);
    if (page->flags & PAGE_TAIL) {
        from->open_slices -= page->slices;
        move->to->open_slices += page->slices;
    }
    store_release(&page->view, move->view);
    store_release(&page->heap, move->to);
}

void region_move(struct heap *from, struct view *view, struct heap *to, struct view *to_view) {
    struct region *region = region_of(view->region);
    struct move move = {.to = to, .view = to_view};
    int64_t peak = view->peak_bytes;
    heap_fold(from, view, to, to_view);
    if (peak > to_view->peak_bytes)
        store_owner(&to_view->peak_bytes, peak);
    tiny_move(view->context, to);
    /* region_alloc chooses the bins at the next allocation */
    to_view->bins = (struct bins *)&heap_no_bins;
    view->bins = &from->mixed;
    /* The other heap's view may have a region from an earlier time, when the context belonged to
     * that heap. This region is empty. */
    struct bins *empty = to_view->region;
    if (empty) {
        region_of(empty)->limit = 0;
        region_of(empty)->others_chunks = region_of(empty)->others_bytes = REGION_RECOUNT;
    }
    if (!region)
        return;
    heap_collect_if_any(from);
    for_each_page(from, region, move_page, &move);
    heap_publish_waste(from);
    heap_publish_waste(to);
    region->others_chunks = region->others_bytes = REGION_RECOUNT;
    lock_take(&region_lock); /* a free of a large chunk finds the region by page->view->region */
    for (struct page *page = region->large; page; page = page->next)
        page->view = to_view;
    to_view->region = view->region;
    view->region = empty;
    lock_release(&region_lock);
}

struct region_alive region_reset(struct heap *heap, struct view *view) {
    struct region *region = region_of(view->region);
    struct region_alive gone = region_alive(heap, view), rest = gone;
    bool tiny = tiny_any(view->context);
    if (tiny) /* tiny_reset frees the chunks one by one, and counts each free */
        tiny_reset(heap, view->context);
    if (!region)
        return gone;
    if (gone.bytes >= RESET_MUCH_BYTES)
        segment_purge_later();
    if (tiny)
        rest = region_alive(heap, view);
    region->chunks = NULL;
    uint32_t kept = 0;
    for_each_page(heap, region, reset_page, &kept);
    free_large_chunks(heap, region);
    add_owner(&view->frees, rest.chunks);
    add_owner(&view->freed_cum_bytes, rest.bytes);
    return gone;
}

static void size_page(struct heap *heap, struct region *region, struct page *page, void *context) {
    struct region_size *size = context;
    (void)heap, (void)region;
    size->reserved_bytes += page->slices * SLICE_BYTES;
    size->pages++;
}

struct region_size region_size(struct heap *heap, struct view *view) {
    struct region *region = region_of(view->region);
    struct region_size size = {.reserved_bytes = tiny_sum(view->context).block_bytes};
    if (!region)
        return size;
    for_each_page(heap, region, size_page, &size);
    size.reserved_bytes += large_alive(region).bytes;
    return size;
}

/* --- checks ----------------------------------------------------------------------------------- */

static const char damaged[] = "a freed chunk was overwritten: the free list of its page is damaged";

/* check_page waits at most this long for frees of other threads that are under way */
#define CHECK_FOR_NS 200000000U

/* True if the page's count of used blocks agrees with its chunks. The count may disagree while
 * another thread frees a chunk. */
static bool count_agrees(struct page *page) {
    struct region_alive alive = {0, 0};
    page_kind_of(page)->each_used(page, add_chunk, &alive);
    /* `remote` is read after the chunks. So a chunk that another thread frees meanwhile counts as
     * alive, as pending, or as both. */
    unsigned pending = (unsigned)(load_acquire(&page->remote) >> 48);
    return alive.chunks + pending >= page->used && alive.chunks <= page->used;
}

static void check_page(struct heap *heap, struct region *region, struct page *page, void *context) {
    const char **wrong = context;
    uint64_t until_ns = os_now_ns() + CHECK_FOR_NS;
    if (*wrong)
        return;
    if (page->heap != heap || !page->view || page->view->region != &region->bins) {
        *wrong = "the context's list of pages has a page of another context";
        return;
    }
    while (!count_agrees(page)) {
        if (os_now_ns() > until_ns) {
            *wrong = "the count of a page does not match its chunks";
            return;
        }
        __builtin_ia32_pause();
    }
    if (!page_kind_of(page)->list_holds(page))
        *wrong = damaged;
}

const char *region_named_check(struct heap *heap, struct view *view) {
    const char *wrong = tiny_check(heap, view->context) ? NULL : damaged;
    if (view->region)
        for_each_page(heap, region_of(view->region), check_page, &wrong);
    return wrong;
}
