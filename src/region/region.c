/* SPDX-License-Identifier: MIT */
/*
 * Regions: where a context's small chunks go, and what is rare about them.
 *
 * For: any program; small contexts share the thread's mixed pages, larger ones get their own, so
 * that a context's free leaves whole pages empty. Cannot do: move a live chunk, so what a context
 * allocated before its promotion stays in mixed pages until it is freed.
 */
#include "region/region.h"
#include "os/meta.h"
#include "region/aset.h"
#include "region/check.h"
#include "region/guard.h"
#include "region/hooks.h"
#include "region/named.h"
#include "region/punch.h"
#include "region/serial.h"
#include "region/simple.h"
#include "region/slab.h"
#include "region/terms.h"
#include "region/tiny.h"

#define PROMOTE_LIVE_LOG 16 /* 64 KiB */

/* Each region has a few pages that are not full. To keep them a small part of the whole, a
 * context must hold more bytes to get a region when more bytes are alive in the process:
 * MEMCTX_PROMOTE_BYTES in a small process, and twice that whenever the live bytes grow to four
 * times, beginning at 2^PROMOTE_LIVE_LOG. */
static int64_t promote_bytes(void) {
    int64_t live = segment_used_bytes() - load_relaxed(&heap_global.own_free);
    int log = live > 0 ? 63 - __builtin_clzl((uint64_t)live) : 0;
    return options.promote_bytes << (log > PROMOTE_LIVE_LOG ? (log - PROMOTE_LIVE_LOG) / 2 : 0);
}

static void promote(struct heap *heap, struct view *view, enum placement placement) {
    bool at_once = UNLIKELY(terms_with(view->context, TERMS_OWN) != NULL);
    int64_t live = view_live_bytes(view);
    if (!at_once &&
        (live < options.promote_bytes || placement == PLACE_SHARED ||
         (placement == PLACE_DEFAULT && (live < promote_bytes() || !heap_may_segregate(heap)))))
        return;
    /* A program may have as many regions as call paths, so the tables' budget counts them. Without
     * one, the context's chunks stay in mixed pages. */
    int64_t bytes = (int64_t)meta_block_bytes(sizeof(struct region));
    if (!tables_take(bytes, placement == PLACE_DEFAULT ? TABLES_OTHERS : TABLES_SITE))
        return;
    struct region *region = meta_alloc(sizeof *region);
    if (!region) {
        tables_add(-bytes);
        return;
    }
    bins_init(&region->bins);
    view->region = &region->bins;
}

COLD void region_change_policy(struct heap *heap, struct bins *bins, uint32_t policy) {
    if (bins->policy == policy)
        return;
    slab_one_band(bins);
    bins->policy = policy;
    serial_put_aside(heap, region_of(bins));
    serial_release_empty(region_of(bins));
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        if (policy_of(bins)->in_order)
            bins_put_aside(heap, bins, i);
        else
            bins_put_aside_others(heap, bins, i);
}

/* Makes the region's next pages follow those terms. */
COLD static void region_change_terms(struct heap *heap, struct bins *bins, unsigned number) {
    bins->terms = (uint8_t)number;
    bins->slices = terms_table[number].slices;
    serial_put_aside(heap, region_of(bins));
    serial_release_empty(region_of(bins));
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        bins_put_aside_others(heap, bins, i);
}

COLD static void look_at_terms(struct heap *heap, struct view *view) {
    unsigned number = terms_number(view->context);
    struct terms *terms = &terms_table[number];
    if (view->region && view->region->terms != number)
        region_change_terms(heap, view->region, number);
    if (load_relaxed(&terms->to_tell) && exchange_relaxed(&terms->to_tell, 0))
        REGION_HOOK(tell_limit, terms, view->context);
}

/* Does the periodic work of the heap and the context before a chunk is placed. The context may
 * get a region, or another policy for its region. Returns the policy. */
static const struct policy *look_around(struct heap *heap, struct view *view) {
    if (load_relaxed(&heap->remote_pages))
        bins_collect_remote(heap);
    if (UNLIKELY(heap->trims != load_relaxed(&trim_number)))
        trim_heap(heap);
    if (UNLIKELY(heap->placings != load_relaxed(&heap_placings)))
        heap_reconsider(heap);
    /* The placement is read after heap_placings. If it changes later, the next call finds a new
     * heap_placings. */
    enum placement placement = heap_placement(view->context);
    uint32_t policy = policy_placed(placement);
    if (!view->region && !region_is_tiny(view))
        promote(heap, view, placement);
    if (view->region) {
        region_of(view->region)->looked = heap->placings;
        if (UNLIKELY(view->region->policy != policy))
            region_change_policy(heap, view->region, policy);
    }
    if (terms_exist())
        look_at_terms(heap, view);
    return view->region ? policy_of(view->region) : &policy_aset;
}

void *region_alloc_wide(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    return region_take(heap, view->bins->current[bins_class_of(heap, size)], view, size, false,
                       fresh);
}

/* The heap collects chunks that other threads freed when no page is left, and after every
 * LOOK_EVERY pages that were used up: if the thread itself frees enough, it never runs out of
 * pages. The same look notices that contexts were placed. */
#define LOOK_EVERY 16U

static bool look_is_due(struct heap *heap) {
    return UNLIKELY(!(++heap->pages_used_up % LOOK_EVERY)) &&
           (load_relaxed(&heap->remote_pages) || heap->placings != load_relaxed(&heap_placings));
}

void *region_alloc_next(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    if (size > SMALL_MAX || view->bins == &heap_no_bins || look_is_due(heap))
        return NULL;
    void *chunk = NULL;
    if (serial_is(view->bins->policy) || !bins_switch(heap, view->bins, bins_class_of(heap, size)))
        return NULL;
    if (size <= NARROW_MAX && view->bins != &heap->mixed)
        chunk = region_alloc_own(heap, view, size);
    return chunk ? chunk : region_alloc_wide(heap, view, size, fresh);
}

/* As region_alloc and region_alloc_aligned, with a checked tail behind the chunk. */
COLD static void *alloc_checked(struct heap *heap, struct view *view, size_t size, size_t alignment,
                                bool zero) {
    if (size > SMALL_MAX || size + CHECK_TAIL + alignment > SMALL_MAX)
        return region_alloc_large(heap, view, size, alignment, zero);
    size_t room = size + CHECK_TAIL + alignment - 16;
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

/* Allocates a chunk with a guard page behind it. NULL: the chunk needs no guard, or can have
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
    return zeroed(look_around(heap, view)->alloc(heap, view, size, 16, &fresh), size, zero, fresh);
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
    return look_around(heap, view)->alloc(heap, view, size, alignment, &fresh);
}

/* --- free ---------------------------------------------------------------------------------- */

struct lock region_lock FORK_PAGE = LOCK_INIT(RANK_REGION);

void region_settle(struct heap *heap) {
    lock_take(&region_lock);
    struct page *header = segment_emergency_take();
    for (struct page *next; header; header = next) {
        next = header->next;
        struct view *view = heap_view(heap, header->context);
        if (view)
            view_account_alloc(view, header->requested_bytes);
        segment_emergency_booked(header);
    }
    lock_release(&region_lock);
}

/* True when the chunk is in the accounts. Waits for a thread that is just adding it to them. */
static bool is_settled(struct heap *heap, struct page *page) {
    if (LIKELY(!(load_acquire(&page->flags) & PAGE_EMERGENCY)))
        return true;
    region_settle(heap);
    if (!(load_acquire(&page->flags) & PAGE_EMERGENCY))
        return true;
    segment_emergency_booked(page); /* who was settling it did not come along in a fork */
    add_relaxed(&heap_global.lost_views, 1);
    return false;
}

/* Zeroes a large chunk. The kernel zeroes the whole OS pages by taking them back. */
static void zero_large(const struct page *page) {
    char *start = page->chunk, *end = start + page->requested_bytes;
    char *first = (char *)align_up((uintptr_t)start, OS_PAGE_BYTES);
    if (end < first + OS_PAGE_BYTES) {
        __builtin_memset(start, 0, (size_t)(end - start));
        return;
    }
    __builtin_memset(start, 0, (size_t)(first - start));
    os_discard(first, align_up((size_t)(end - first), OS_PAGE_BYTES));
}

void region_give_large(struct page *page) {
    if (UNLIKELY(load_relaxed(&page->flags) & PAGE_GUARDED)) {
        guard_free(page);
        return;
    }
    if (UNLIKELY(terms_with(page->context, TERMS_ZERO) != NULL))
        zero_large(page);
    if (page->kind == PAGE_HUGE)
        segment_huge_free(page);
    else
        segment_span_free(page);
}

static void free_large(struct heap *heap, struct page *page, void *chunk) {
    if (page->chunk != chunk)
        region_report(MISUSE_INTERIOR, page, chunk);
    if (UNLIKELY(page->view != NULL))
        region_named_large_gone(page);
    if (check_is_on(page))
        check_sealed(page, chunk, page->requested_bytes,
                     page->chunk + page->requested_bytes + CHECK_TAIL);
    if (is_settled(heap, page))
        heap_count_free(heap, page->context, page->requested_bytes);
    region_give_large(page);
}

/* Returns the view that paid for the block of that record. The owner may be turning its page
 * into a mixed one at that moment; the owner then clears the page's view last. */
static struct view *paid_by(struct heap *owner, const struct page *page, const void *at,
                            const struct record *record) {
    struct view *view = load_acquire(&page->view);
    if (view)
        return view;
    uint32_t index = record->view_index ? record->view_index : record_read(page, at).view_index;
    uint32_t member = member_of_record(index);
    return UNLIKELY(member) ? heap_view(owner, member_context(member)) : heap_view_at(owner, index);
}

/* As paid_by, for a block that this heap's thread is freeing. Also removes the chunk from its
 * tiny context's list, or from its crowd member. */
static struct view *paid_until_now(struct heap *heap, const struct page *page, const void *at,
                                   const struct record *record, const void *chunk) {
    bool apart = load_relaxed(&page->meta_shift) & META_APART;
    uint32_t member = UNLIKELY(apart) ? member_of_record(record->view_index) : 0;
    bool listed = apart && !member;
    struct view *paid = member ? heap_view(heap, member_freed(member, &listed))
                               : paid_by(page->heap, page, at, record);
    if (UNLIKELY(listed))
        tiny_freed(paid->context, chunk);
    return paid;
}

COLD static void check_freed(const struct page *page, char *block, const char *chunk,
                             size_t requested) {
    check_sealed(page, chunk, requested, block + page->block_bytes);
    check_fill(page, block);
}

/* Overwrites the contents of a freed block if its context asks for that. Chunks to be zeroed all
 * stand in their context's own pages with META_ALIGNED. */
COLD static void wipe_freed(const struct page *page, char *block, const char *chunk,
                            size_t requested) {
    const struct view *view = load_acquire(&page->view);
    if (check_is_on(page))
        check_freed(page, block, chunk, requested);
    else if (view && terms_with(view->context, TERMS_ZERO))
        __builtin_memset(block, 0, page->block_bytes - simple_bytes(page));
}

NOINLINE void *region_free_further(struct heap *heap, struct page *page, void *chunk) {
    size_t requested;
    if (UNLIKELY(page->kind == PAGE_SERIAL)) {
        serial_free(heap, page, chunk);
        return NULL;
    }
    char *block, *granule = blocks_granule(page, chunk);
    unsigned index = region_block_index(page, granule, chunk, &block);
    void *at = blocks_record(page, granule, index);
    if ((load_plain(&page->meta_shift) & (META_SHIFT | META_OWNERS)) == META_OWNERS) {
        uint8_t slack = load_relaxed((uint8_t *)at);
        store_owner((uint8_t *)at, UINT8_MAX);
        if (UNLIKELY(slack == UINT8_MAX))
            region_report(MISUSE_DOUBLE_FREE, page, chunk);
        requested = page->block_bytes - slack;
        view_account_free(heap_view_at(heap, *blocks_owner(page, granule, index)), requested);
    } else {
        struct record record = record_release(page, at);
        if (record.free || blocks_is_punched(page, block))
            region_report(MISUSE_DOUBLE_FREE, page, chunk);
        requested = page->block_bytes - record.slack;
        view_account_free(paid_until_now(heap, page, at, &record, chunk), requested);
        if (simple_is(page))
            simple_unlink(page, block);
    }
    if (UNLIKELY(load_relaxed(&page->meta_shift) & (META_CHECKED | META_ALIGNED)))
        wipe_freed(page, block, chunk, requested);
    bool rare = load_plain(&page->meta_shift) == META_MIXED
                    ? blocks_free_mixed(heap, page, block)
                    : blocks_free_owned(heap, page, block) || blocks_are_watched(page);
    return rare ? block : NULL;
}

/* Gives the block back to its page, which belongs to a parked heap. The caller holds that heap's
 * lock. */
static void free_of_parked(struct heap *owner, struct page *page, void *block) {
    bins_collect_remote(owner);
    if (UNLIKELY(page->kind == PAGE_SERIAL)) {
        struct region *region = region_of(page->view->region);
        serial_free_of_parked(owner, page, block);
        serial_release_empty(region); /* nobody allocates here */
    } else {
        /* Any other page is given back when it gets empty, perhaps with its segment, and must
         * not be read any more. */
        if (simple_is(page))
            simple_unlink(page, block);
        bool is_current = !(page->flags & (PAGE_FULL | PAGE_LISTED));
        bool rare = blocks_free_owned(owner, page, block) || blocks_are_watched(page);
        if (is_current && !page->used) /* nobody allocates here */
            bins_release_page(owner, page, block);
        else if (rare)
            blocks_freed_rarely(owner, page, block);
    }
    heap_publish_waste(owner); /* it has no thread that would */
}

/* Accounts a free to the view of the parked owner, whose lock the caller holds. So a thread that
 * frees chunks of ended threads needs no views of its own for them. */
static void account_parked(struct heap *heap, struct heap *owner, const struct view *paid,
                           size_t requested) {
    struct view *view = NULL;
    if (paid->index < owner->view_count)
        view = heap_view_at(owner, paid->index);
    if (view != paid) /* a named context's */
        view = heap_view_twin(heap, paid);
    if (view)
        view_account_free(view, requested);
    else
        heap_count_free(heap, paid->context, requested);
}

static void free_of_other(struct heap *heap, struct page *page, void *chunk) {
    struct heap *owner = page->heap;
    const struct view *paid;
    size_t requested;
    char *block;
    if (UNLIKELY(page->kind == PAGE_SERIAL)) {
        if (!serial_release(page, chunk, &requested))
            return;
        paid = page->view;
        block = chunk;
    } else {
        void *at = region_block_of(page, chunk, &block);
        struct record record = record_release(page, at);
        if (record.free || blocks_is_punched(page, block))
            region_report(MISUSE_DOUBLE_FREE, page, chunk);
        paid = paid_until_now(heap, page, at, &record, chunk);
        requested = page->block_bytes - record.slack;
        if (UNLIKELY(load_relaxed(&page->meta_shift) & (META_CHECKED | META_ALIGNED)))
            wipe_freed(page, block, chunk, requested);
    }
    heap_count_remote(heap, owner);
    if (load_acquire(&owner->state) == HEAP_PARKED && !lock_any_is_mine() &&
        lock_try(&owner->lock)) {
        bool parked = load_acquire(&owner->state) == HEAP_PARKED;
        if (parked) {
            account_parked(heap, owner, paid, requested);
            free_of_parked(owner, page, block);
        }
        lock_release(&owner->lock);
        if (parked)
            return;
    }
    struct view *view = heap_view_twin(heap, paid);
    if (LIKELY(view != NULL))
        view_account_free(view, requested);
    else
        heap_count_free(heap, paid->context, requested);
    blocks_free_remote(page, block);
}

COLD static void free_unknown(struct heap *heap, void *chunk) {
    if (!chunk)
        return;
    struct page *huge = segment_huge_of(chunk);
    if (huge)
        free_large(heap, huge, chunk);
    else /* not ours (a library with a malloc of its own), or freed long ago: never touched */
        add_relaxed(&heap_global.foreign_frees, 1);
}

/* A pointer exactly behind a segment is looked up in it (segment.h), but no block starts there. */
static bool is_behind_segment(const void *chunk) {
    return !((uintptr_t)chunk & (SEGMENT_BYTES - 1));
}

/* True when every chunk that the page held has been freed. */
static bool holds_none(const struct page *page) {
    uint8_t kind = load_relaxed(&page->kind);
    return kind == PAGE_NONE || kind == PAGE_WAITING;
}

void region_free_slow(struct heap *heap, struct page *page, void *chunk) {
    if (!page || is_behind_segment(chunk))
        free_unknown(heap, chunk);
    else if (load_relaxed(&page->kind) == PAGE_SPAN)
        free_large(heap, page, chunk);
    else if (holds_none(page))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    else
        free_of_other(heap, page, chunk);
}

static bool is_large(const struct page *page) {
    return page->kind == PAGE_SPAN || page->kind == PAGE_HUGE;
}

/* Reads the record of the block that holds the pointer. False: no block holds the pointer. */
static bool record_at(const struct page *page, const void *chunk, struct record *record) {
    bool exact;
    const char *granule = blocks_granule(page, chunk);
    unsigned index = blocks_index(page, granule, chunk, &exact);
    if (index >= page->granule_capacity && index >= page->capacity)
        return false;
    *record = record_read(page, blocks_record(page, granule, index));
    return true;
}

/* Returns the context of the block that holds the pointer; for a free block, its last context. */
static uint32_t context_at(const struct page *page, const void *chunk) {
    struct record record;
    if (is_large(page) || page->kind == PAGE_WAITING)
        return page->context;
    if (page->kind == PAGE_NONE || !page->heap)
        return REGION_NO_CONTEXT;
    if (page->kind == PAGE_SERIAL)
        return page->view->context;
    if (!record_at(page, chunk, &record))
        return REGION_NO_CONTEXT;
    const struct view *view = load_acquire(&page->view);
    return view ? view->context : member_payer(page->heap, record.view_index);
}

uint32_t region_member_of(const void *chunk) {
    const struct page *page = segment_page_of(chunk);
    struct record record;
    bool apart = page && page->kind == PAGE_MIXED && page->meta_shift & META_APART;
    return apart && record_at(page, chunk, &record) ? member_of_record(record.view_index) : 0;
}

COLD void region_report(enum region_misuse misuse, const struct page *page, const void *chunk) {
    char line[256];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    uint32_t context = context_at(page, chunk);
    static const char *const words[] = {
        [MISUSE_DOUBLE_FREE] = "memctx: double free of ",
        [MISUSE_INTERIOR] = "memctx: free of an invalid pointer ",
        [MISUSE_OVERFLOW] = "memctx: write behind the end of ",
        [MISUSE_WRITTEN_FREE] = "memctx: write into freed memory at ",
        [MISUSE_FREED_IN_RESET] =
            "memctx: a context was reset while another thread freed a chunk in the page ",
    };
    text_add(&text, words[misuse]);
    text_add_hex(&text, (uintptr_t)chunk);
    if (page->kind == PAGE_NONE) {
        text_add(&text, "; in empty memory");
    } else if (is_large(page) || page->kind == PAGE_WAITING) {
        text_add(&text, page->kind == PAGE_WAITING || page->flags & PAGE_GUARDED
                            ? "; a chunk with a guard page"
                            : "; in a large chunk");
    } else if (page->kind != PAGE_SERIAL) {
        text_add(&text, "; block of ");
        text_add_number(&text, page->block_bytes);
        text_add(&text, " bytes");
    }
    if (context != REGION_NO_CONTEXT) {
        text_add(&text, " of context ");
        text_add_number(&text, context);
    }
    text_add(&text, "\n");
    os_print(&text);
    if (page->kind == PAGE_WAITING)
        guard_explain(page);
    else
        REGION_HOOK(explain_misuse, context, misuse >= MISUSE_OVERFLOW);
    os_abort();
}

/* --- realloc and usable size ----------------------------------------------------------------- */

static struct page *page_of_any(const void *chunk) {
    struct page *page = is_behind_segment(chunk) ? NULL : segment_page_of(chunk);
    return page ? page : segment_huge_of(chunk);
}

uint32_t region_context_of(const void *chunk) {
    struct page *page = page_of_any(chunk);
    return page ? context_at(page, chunk) : REGION_NO_CONTEXT;
}

size_t region_usable(const void *chunk) {
    struct page *page = page_of_any(chunk);
    if (!page || holds_none(page))
        return 0;
    if (is_large(page))
        return check_is_on(page) || page->flags & PAGE_GUARDED
                   ? page->requested_bytes
                   : align_up(page->requested_bytes, OS_PAGE_BYTES);
    if (page->kind == PAGE_SERIAL)
        return serial_usable(page, chunk);
    char *block;
    const void *at = region_block_of(page, chunk, &block);
    if (check_is_on(page))
        return page->block_bytes - record_read(page, at).slack;
    return (size_t)(block + page->block_bytes - (const char *)chunk) - simple_bytes(page);
}

size_t region_requested(const void *chunk) {
    struct page *page = page_of_any(chunk);
    char *block;
    if (!page || holds_none(page))
        return 0;
    if (is_large(page))
        return page->requested_bytes;
    if (page->kind == PAGE_SERIAL)
        return serial_requested(page, chunk);
    const void *at = region_block_of(page, chunk, &block);
    return page->block_bytes - record_read(page, at).slack;
}

/* True when chunks of that view may stand in that page. */
static bool may_stand_in(const struct page *page, const struct view *view) {
    if (page->view)
        return page->view == view;
    bool apart = page->meta_shift & META_APART;
    return apart == (heap_placement(view->context) == PLACE_APART);
}

/* True when a chunk may pass from one view to the other without a move. */
static bool may_change_hands(const struct view *from, const struct view *to) {
    return from == to || (!region_is_named(from) && !region_is_named(to));
}

/* Resizes a chunk in its block, if the block wastes no more than a new block would. Not for
 * blocks with a checked tail. */
static bool resize_in_block(struct heap *heap, struct view *view, struct page *page, void *chunk,
                            size_t size) {
    if (UNLIKELY(page->kind == PAGE_SERIAL))
        return page->heap == heap && page->view == view && serial_resize(page, chunk, size);
    char *block;
    void *at = region_block_of(page, chunk, &block);
    struct record record = record_read(page, at);
    if (record.free || blocks_is_punched(page, block))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    size_t room = (size_t)(block + page->block_bytes - (char *)chunk) - simple_bytes(page);
    if (UNLIKELY(options.check) || page->heap != heap || !may_stand_in(page, view) || size > room ||
        !aset_slack_fits(page->block_bytes, size) ||
        (size * 2 < page->block_bytes && bins_class_of(heap, size) != page->size_class))
        return false;
    struct view *old = paid_by(heap, page, at, &record);
    size_t had = page->block_bytes - record.slack;
    bool apart = UNLIKELY(load_relaxed(&page->meta_shift) & META_APART);
    if (apart && !may_change_hands(old, view))
        return false;
    if (apart)
        tiny_resized(view->context, chunk, size);
    if (size < had && UNLIKELY(terms_with(old->context, TERMS_ZERO) != NULL))
        __builtin_memset((char *)chunk + size, 0, had - size);
    view_account_free(old, had);
    view_account_alloc(view, size);
    record_write(page, at, view->index, page->block_bytes - (uint32_t)size);
    return true;
}

bool region_resize(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = segment_page_of(chunk);
    return page && page->heap == heap && resize_in_block(heap, view, page, chunk, size);
}

/* A chunk that has grown mostly grows again, so it gets a quarter more than it had, if its
 * record can store so much slack. */
static void *alloc_grown(struct heap *heap, struct view *view, size_t size, size_t had) {
    size_t room = had + had / 4;
    bool fresh;
    if (size <= had || size >= room || room > SMALL_MAX || UNLIKELY(options.check) ||
        UNLIKELY(region_is_tiny(view)) || UNLIKELY(terms_with(view->context, TERMS_GUARD) != NULL))
        return region_alloc(heap, view, size, false);
    if (!aset_slack_fits(blocks_bytes_table[bins_class_of(heap, room)], size))
        return region_alloc(heap, view, size, false);
    if (UNLIKELY(look_around(heap, view) != &policy_aset)) /* these grow to what they need */
        return region_alloc(heap, view, size, false);
    struct page *page = aset_page_of(heap, view, blocks_class_of(room), room);
    return page ? region_take(heap, page, view, size, false, &fresh) : NULL;
}

static struct page *resize_large(struct page *page, size_t size) {
    if (UNLIKELY(options.check) || page->flags & PAGE_GUARDED) /* the tail is to be looked at */
        return NULL;
    if (page->kind == PAGE_HUGE)
        return size > (size_t)MAX_SPAN_SLICES * SLICE_BYTES / 2 ? segment_huge_resize(page, size)
                                                                : NULL;
    size_t offset = (size_t)(page->chunk - segment_span_start(page));
    size_t slices = (size + offset + SLICE_BYTES - 1) >> SLICE_SHIFT;
    if (size <= SMALL_MAX || slices > MAX_SPAN_SLICES)
        return NULL;
    if (slices > page->slices)
        return segment_span_extend(page, (uint32_t)slices) ? page : NULL;
    if (slices < page->slices)
        segment_span_shrink(page, (uint32_t)slices);
    return page;
}

void *region_realloc(struct heap *heap, struct view *view, void *chunk, size_t size) {
    struct page *page = page_of_any(chunk);
    if (!page || size > REGION_SIZE_MAX) {
        if (!page)
            add_relaxed(&heap_global.foreign_frees, 1);
        return NULL;
    }
    if (holds_none(page))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    if (is_large(page)) {
        if (page->chunk != chunk)
            region_report(MISUSE_INTERIOR, page, chunk);
        bool settled = is_settled(heap, page);
        uint64_t old_bytes = page->requested_bytes;
        struct view *named = page->view;
        if (UNLIKELY(named != NULL)) /* its header may move */
            region_named_large_gone(page);
        bool zero = size < old_bytes && UNLIKELY(terms_with(page->context, TERMS_ZERO) != NULL);
        struct page *resized = zero ? NULL : resize_large(page, size);
        if (UNLIKELY(named != NULL))
            region_named_large(named, resized ? resized : page);
        if (resized) {
            struct view *old = settled ? heap_view(heap, resized->context) : NULL;
            if (old)
                view_account_free(old, old_bytes);
            view_account_alloc(view, size);
            resized->requested_bytes = size;
            resized->context = view->context;
            return resized->chunk;
        }
    } else if (resize_in_block(heap, view, page, chunk, size)) {
        return chunk;
    }
    size_t keep = region_usable(chunk); /* a program may have written all of that */
    void *moved = alloc_grown(heap, view, size, keep);
    if (!moved)
        return NULL;
    __builtin_memcpy(moved, chunk, keep < size ? keep : size);
    region_free(heap, chunk);
    return moved;
}
