/* SPDX-License-Identifier: MIT */
/*
 * Frees of chunks in pages that belong to another thread's heap, or to no thread.
 *
 * The freeing thread notes in the page that the chunk is free and counts the free in its own view
 * of the context that paid. Then the thread puts the block on the page's list `remote`. The thread
 * that puts the first block on an empty list also puts the page on the list `remote_pages` of the
 * page's heap. A block counts as used until the owner collects it, and the owner collects blocks
 * only from pages in that list. So no page is given back after another thread put a block on
 * `remote` and before that thread puts the page on `remote_pages`. If the owner's thread has ended,
 * and in the shared heap, the freeing thread does the owner's part under the heap's lock.
 *
 * Cost: one compare-and-swap a chunk, and another one for the first chunk of a page.
 */
#include "region/page_kinds.h"
#include "region/punch.h"
#include "region/region.h"

/* page.remote holds the address of the list's first block in its low bits, and the number of blocks
 * in its high bits. */
#define POINTER_BITS 48
#define POINTER_MASK ((1UL << POINTER_BITS) - 1)

/* Puts a page on the list `remote_pages` of its heap. */
static void list_page(struct page *page) {
    struct heap *heap = load_acquire(&page->heap);
    struct page *first = load_relaxed(&heap->remote_pages);
    do
        store_owner(&page->remote_next, first);
    while (!cas_release(&heap->remote_pages, &first, page));
}

/* Puts a block that another thread freed on its page's list. The page's owner collects it. */
static void push_remote(struct page *page, void *block) {
    if (UNLIKELY(blocks_are_watched(page)))
        segment_watch(block);
    uint64_t head = load_relaxed(&page->remote);
    uint64_t new_head;
    /* The compare-and-swap acquires: if the list is empty, the owner emptied it after it had read
     * remote_next and remote_last. So these reads come before this thread writes the two fields. */
    do {
        *(void **)block = (void *)(head & POINTER_MASK);
        new_head = ((head >> POINTER_BITS) + 1) << POINTER_BITS | (uintptr_t)block;
    } while (!cas_acq_rel(&page->remote, &head, new_head));
    if (!head) {
        store_owner(&page->remote_last, (uint32_t)((char *)block - segment_span_start(page)));
        list_page(page);
    }
}

void heap_collect_remote(struct heap *heap) {
    heap_await(heap);
    struct page *page = exchange_acquire(&heap->remote_pages, NULL);
    while (page) {
        /* `remote_next` and `remote_last` are read first: after the exchange another thread may put
         * the page on the list anew. */
        struct page *next = load_relaxed(&page->remote_next);
        char *last = segment_span_start(page) + load_relaxed(&page->remote_last);
        if (LIKELY(load_acquire(&page->heap) == heap)) {
            uint64_t head = exchange_acq_rel(&page->remote, 0);
            void *chain = (void *)(head & POINTER_MASK);
            page_kind_of(page)->collect(heap, page, chain, last, (uint16_t)(head >> POINTER_BITS));
        } else { /* region_move gave the page to another heap while a thread listed the page */
            list_page(page);
        }
        page = next;
    }
}

/* --- for an owner that sleeps ----------------------------------------------------------------- */

/* True if a visitor can collect the page's blocks. The owner's frees must wait meanwhile, which
 * they do in a page of blocks with META_PUNCHED. A page with META_OWNERS cannot be announced:
 * page.owners takes the word of page.punched. Blocks with links (PAGE_CHAINED) would have to leave
 * the list of their region. A reset changes the pages of named contexts outside malloc and free, so
 * it does not wait for the visitor. */
static bool may_collect(const struct heap *heap, const struct page *page) {
    uint8_t kind = load_acquire(&page->kind);
    const struct view *view = load_acquire(&page->view);
    return load_acquire(&page->heap) == heap && (kind == PAGE_OWN || kind == PAGE_MIXED) &&
           !(load_relaxed(&page->meta_shift) & (META_OWNERS | META_CHECKED | META_APART)) &&
           !(page->flags & PAGE_CHAINED) &&
           !(view && view->region && region_of(view->region)->named);
}

/* Puts pages back on the list remote_pages, behind the pages that other threads have listed
 * meanwhile. */
static void list_put_back(struct heap *heap, struct page *pages) {
    struct page *listed = NULL;
    while (!cas_release(&heap->remote_pages, &listed, pages)) {
        struct page *last = listed = exchange_acquire(&heap->remote_pages, NULL);
        while (last->remote_next)
            last = last->remote_next;
        store_owner(&last->remote_next, pages);
        pages = listed;
        listed = NULL;
    }
}

struct page *remote_announce(struct heap *heap, unsigned most) {
    struct page *taken = exchange_acquire(&heap->remote_pages, NULL), *last = NULL;
    struct page *page = taken;
    for (; page && most; page = page->remote_next, most--) {
        if (may_collect(heap, page))
            punch_announce(page);
        last = page;
    }
    if (page && last) {
        store_owner(&last->remote_next, (struct page *)NULL);
        list_put_back(heap, page);
    }
    return taken;
}

/* Collects the blocks of one page, as heap_collect_remote does. Only the owner changes
 * heap->open_slices and the current pages of bins. So the visitor does not destroy the current page
 * of a bin, or a page that is not used up (PAGE_TAIL, counted in heap->open_slices), even if it is
 * empty. */
static void collect_visited(struct heap *heap, struct page *page, int64_t *waste) {
    char *last = segment_span_start(page) + load_relaxed(&page->remote_last);
    uint64_t head = exchange_acq_rel(&page->remote, 0);
    uint16_t length = (uint16_t)(head >> POINTER_BITS);
    blocks_take_back(page, (void *)(head & POINTER_MASK), last, length);
    *waste += (int64_t)length * page->waste_unit;
    bool stays = !(page->flags & (PAGE_FULL | PAGE_LISTED)) || page->flags & PAGE_TAIL;
    if (!stays && bins_freed_into(heap, page))
        *waste -= blocks_page_destroy_visited(page);
    else
        punch_end(page);
}

unsigned remote_collect(struct heap *heap, struct page *taken, bool outside, int64_t *waste) {
    unsigned count = 0;
    struct page *left = NULL; /* pages that stay listed, behind all others */
    for (struct page *page = taken, *next; page; page = next) {
        next = load_relaxed(&page->remote_next);
        bool may = may_collect(heap, page);
        if (may && outside) {
            collect_visited(heap, page, waste);
            count++;
            continue;
        }
        if (may)
            punch_end(page);
        if (load_acquire(&page->heap) == heap) {
            store_owner(&page->remote_next, left);
            left = page;
        } else {
            list_page(page);
        }
    }
    if (left)
        list_put_back(heap, left);
    return count;
}

/* Counts a free in the view that paid, which belongs to the parked or shared heap `owner`. The
 * caller holds the lock of that heap. So a thread that frees chunks of ended threads needs no views
 * of its own for these frees. */
static void account_parked(struct heap *heap, struct heap *owner, const struct view *paid,
                           size_t requested) {
    struct view *view = NULL;
    if (paid->index < owner->view_count)
        view = heap_view_at(owner, paid->index);
    if (view != paid) /* the chunk of a crowd member: `paid` is a view of `heap` */
        view = heap_view_twin(heap, paid);
    if (view)
        view_account_free(view, requested);
    else
        heap_count_free(heap, paid->context, requested);
}

/* If the heap `owner` is parked or shared, gives the block back to its page in the owner's place:
 * it may be long until a thread uses the heap again. False: another thread owns the heap, its lock
 * cannot be taken, or the page went to another heap (region_move). True: the caller must not read
 * the page any more, because it may be gone. */
static bool freed_parked(struct heap *heap, struct heap *owner, struct page *page,
                         const struct freed *freed) {
    uint32_t state = load_acquire(&owner->state);
    if ((state != HEAP_PARKED && state != HEAP_SHARED) || lock_any_is_mine() ||
        !lock_try(&owner->lock))
        return false;
    bool free_here = load_acquire(&owner->state) == state && load_acquire(&page->heap) == owner;
    if (free_here) {
        account_parked(heap, owner, freed->paid, freed->requested);
        heap_collect_remote(owner);
        page_kind_of(page)->free_parked(owner, page, freed->block);
        heap_publish_waste(owner); /* a parked heap has no thread that publishes it later */
    }
    lock_release(&owner->lock);
    return free_here;
}

/* Marks the block with this index free, sets *slack, and returns the view of `heap` in the context
 * that paid. The page has no META_ flag, or only META_MIXED. NULL: nothing changed, because the
 * block is free already, its page is just becoming a mixed page, or there is no room for a view of
 * `heap`. */
INLINE struct view *release_plain_block(struct heap *heap, const struct page *page, unsigned meta,
                                        char *records, unsigned index, uint32_t *slack) {
    const struct view *paid;
    struct view *view;
    if (meta) {
        uint32_t *at = (uint32_t *)(void *)records + index, record = load_relaxed(at);
        if (UNLIKELY(!(uint8_t)record))
            return NULL;
        *slack = (record & 0xff) - 1;
        paid = heap_view_at(page->heap, record >> 8);
        if (LIKELY((view = heap_view_twin(heap, paid)) != NULL))
            store_owner((uint8_t *)at, 0);
        return view;
    }
    uint8_t *at = (uint8_t *)records + index;
    *slack = load_relaxed(at);
    paid = load_acquire(&page->view);
    if (UNLIKELY(*slack == UINT8_MAX) || UNLIKELY(!paid))
        return NULL;
    if (LIKELY((view = heap_view_twin(heap, paid)) != NULL))
        store_owner(at, UINT8_MAX);
    return view;
}

bool region_free_block_by_other_thread(struct heap *heap, struct heap *owner, struct page *page,
                                       void *chunk) {
    unsigned meta = load_acquire(&page->meta_shift);
    uint8_t kind = load_relaxed(&page->kind);
    if (UNLIKELY(owner == heap) || UNLIKELY(meta & ~META_MIXED) ||
        UNLIKELY(kind != PAGE_OWN && kind != PAGE_MIXED) ||
        UNLIKELY(load_acquire(&owner->state) != HEAP_OWNED))
        return false;
    char *granule = blocks_granule_narrow(page, chunk);
    bool exact;
    unsigned index = blocks_index_narrow(page, granule, chunk, &exact);
    if (UNLIKELY(!exact) || UNLIKELY(!blocks_was_handed_out(page, chunk)))
        return false;
    uint32_t slack;
    struct view *view =
        release_plain_block(heap, page, meta, granule + page->records, index, &slack);
    if (UNLIKELY(!view))
        return false;
    heap_count_remote(heap, owner);
    view_account_free(view, page->block_bytes - slack);
    push_remote(page, chunk);
    return true;
}

void region_free_by_other_thread(struct heap *heap, struct page *page, void *chunk) {
    struct heap *owner = page->heap;
    struct freed freed;
    if (!page_kind_of(page)->release(heap, page, chunk, &freed))
        return;
    heap_count_remote(heap, owner);
    if (freed_parked(heap, owner, page, &freed))
        return;
    struct view *view = heap_view_twin(heap, freed.paid);
    if (LIKELY(view != NULL))
        view_account_free(view, freed.requested);
    else
        heap_count_free(heap, freed.paid->context, freed.requested);
    push_remote(page, freed.block);
}

static COLD void free_unknown(struct heap *heap, void *chunk) {
    if (!chunk)
        return;
    struct page *huge = segment_huge_of(chunk);
    if (huge)
        page_kind_of(huge)->free_foreign(heap, huge, chunk);
    else /* a chunk of another allocator, or of a segment that was unmapped; never read */
        add_relaxed(&heap_global.foreign_frees, 1);
}

void region_free_foreign(struct heap *heap, struct page *page, void *chunk) {
    if (!page || region_is_behind_segment(chunk))
        free_unknown(heap, chunk);
    else
        page_kind_of(page)->free_foreign(heap, page, chunk);
}
