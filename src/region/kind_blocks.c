/* SPDX-License-Identifier: MIT */
/*
 * Chunks in pages of blocks (PAGE_OWN and PAGE_MIXED): the functions of page_kinds.h.
 *
 * The free functions of the api layer (api/fast.h, api/free.c) free chunks of pages whose only
 * flags are META_MIXED, META_OWNERS or META_WIDE. Frees in pages with other flags (META_ALIGNED,
 * META_CHECKED, META_APART, ...) come to this file, and so do misuses, frees by other threads that
 * remote.c does not serve itself, realloc, and resets. The record of a chunk's block holds the
 * chunk's slack and, in mixed pages, the index of the view that paid.
 */
#include "region/aset.h"
#include "region/check.h"
#include "region/page_kinds.h"
#include "region/punch.h"
#include "region/region.h"
#include "region/reset.h"
#include "region/simple.h"
#include "region/terms.h"

/* A chunk starts inside its block only because of its alignment: the chunk's address is a multiple
 * of the alignment, the block's start is not, and the chunk begins at the first such multiple in
 * the block. So the largest power of two that divides the chunk's address is greater than the
 * distance from the block's start. The slack includes this distance. */
COLD char *region_block_around(const struct page *page, const char *granule, unsigned index,
                               const void *chunk) {
    char *block = (char *)(uintptr_t)granule + page->first + (size_t)index * page->block_bytes;
    uintptr_t address = (uintptr_t)chunk, distance = address - (uintptr_t)block;
    if (index >= page->granule_capacity || !(load_relaxed(&page->meta_shift) & META_ALIGNED) ||
        (address & -address) <= distance ||
        record_read(page, blocks_record(page, granule, index)).slack < distance)
        region_report(MISUSE_INTERIOR, page, chunk);
    return block;
}

struct member *member_blocks[MEMBER_BLOCKS];
uint32_t member_count;

/* Notes that the member's chunk is freed, and returns the context that pays for the chunk. *grown
 * becomes true when the member is an ordinary context now. In that case the ordinary context pays,
 * and has the chunk in its list (tiny.h). */
static uint32_t member_freed(uint32_t number, bool *grown) {
    struct member *member = member_at(number);
    uint32_t crowd = load_relaxed(&member->crowd);
    uint64_t chunk = load_acquire(&member->chunk), had;
    do {
        *grown = member_state(chunk) == MEMBER_GROWN;
        if (*grown)
            return (uint32_t)(chunk >> MEMBER_ID_SHIFT);
        had = (uint64_t)member_bytes(chunk) << MEMBER_BYTES_SHIFT | MEMBER_HAD;
    } while (!cas_acq_rel(&member->chunk, &chunk,
                          had)); /* another thread may be making the member grow */
    return crowd;
}

/* Returns the view that paid for a block; `at` is the place of the block's record. The owner may be
 * turning its page into a mixed one at the same time. The owner first completes the table of views
 * (META_OWNERS), and then clears page->view. So when page->view is NULL and the record that the
 * caller read names no view, the record is read again, and now names the view. */
static struct view *paid_by(struct heap *owner, const struct page *page, const void *at,
                            const struct record *record) {
    struct view *view = load_acquire(&page->view);
    if (view)
        return view;
    uint32_t index = record->view_index ? record->view_index : record_read(page, at).view_index;
    uint32_t member = member_of_record(index);
    return UNLIKELY(member) ? heap_view(owner, member_context(member)) : heap_view_at(owner, index);
}

/* Like paid_by, but for a block that the thread of `heap` is freeing. Also removes the chunk from
 * the list of its tiny context (tiny.h), or from its crowd member (member.h). */
static struct view *paid_until_now(struct heap *heap, const struct page *page, const void *at,
                                   const struct record *record, const void *chunk) {
    bool apart = load_relaxed(&page->meta_shift) & META_APART;
    uint32_t member = UNLIKELY(apart) ? member_of_record(record->view_index) : 0;
    bool listed = apart && !member;
    uint32_t payer = member ? member_freed(member, &listed) : 0;
    struct view *paid = member ? heap_view(heap, payer) : paid_by(page->heap, page, at, record);
    if (UNLIKELY(listed)) /* without memory for a view, `paid` is not the view of `payer` */
        tiny_freed(member ? payer : paid->context, chunk);
    return paid;
}

COLD static void check_freed(const struct page *page, char *block, const char *chunk,
                             size_t requested) {
    check_sealed(page, chunk, requested, block + page->block_bytes);
    check_fill(page, block);
}

/* The flags of pages in which a free may have to overwrite the block. */
#define META_WIPES (META_CHECKED | META_ALIGNED | META_APART)

/* Overwrites a freed block: with a pattern in the checking mode (check.h), or with zeros if the
 * terms of the context that paid ask for that. Contexts with such terms have pages of their own, or
 * share the mixed pages of heap->apart. */
COLD static void wipe_freed(const struct page *page, const struct view *paid, char *block,
                            const char *chunk, size_t requested) {
    if (check_is_on(page))
        check_freed(page, block, chunk, requested);
    else if (terms_with(paid->context, TERMS_ZERO))
        __builtin_memset(block, 0, page->block_bytes - simple_bytes(page));
}

/* Marks a block free in its record, which is at `at`. Ends the program if the block is free
 * already. */
INLINE struct record release_record(const struct page *page, void *at, const char *block,
                                    const void *chunk) {
    struct record record = record_release(page, at);
    if (record.slack == RECORD_FREE || blocks_is_punched(page, block))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    return record;
}

/* --- free ----------------------------------------------------------------------------------- */

static void free_block(struct heap *heap, struct page *page, void *chunk) {
    if (load_relaxed(&page->meta_shift) & META_PUNCHED)
        heap_await(heap); /* the control thread may be punching the page */
    char *block;
    void *at = region_block_of(page, chunk, &block);
    struct record record = release_record(page, at, block, chunk);
    size_t requested = page->block_bytes - record.slack;
    struct view *paid = paid_until_now(heap, page, at, &record, chunk);
    view_account_free(paid, requested);
    if (simple_is(page))
        simple_unlink(page, block);
    if (UNLIKELY(load_relaxed(&page->meta_shift) & META_WIPES))
        wipe_freed(page, paid, block, chunk, requested);
    bool changes = load_plain(&page->meta_shift) == META_MIXED
                       ? blocks_free_mixed(heap, page, block)
                       : blocks_free_owned(heap, page, block);
    if (UNLIKELY(changes || blocks_are_watched(page)))
        page_after_free(heap, page, block);
}

static bool release(struct heap *heap, struct page *page, void *chunk, struct freed *freed) {
    char *block;
    void *at = region_block_of(page, chunk, &block);
    struct record record = release_record(page, at, block, chunk);
    freed->paid = paid_until_now(heap, page, at, &record, chunk);
    freed->requested = page->block_bytes - record.slack;
    freed->block = block;
    if (UNLIKELY(load_relaxed(&page->meta_shift) & META_WIPES))
        wipe_freed(page, freed->paid, block, chunk, freed->requested);
    return true;
}

/* The caller must not read the page afterwards: a page that gets empty is given back, perhaps with
 * its segment. */
static void free_parked(struct heap *owner, struct page *page, void *block) {
    if (simple_is(page))
        simple_unlink(page, block);
    bool is_current = !(page->flags & (PAGE_FULL | PAGE_LISTED));
    bool changes = blocks_free_owned(owner, page, block) || blocks_are_watched(page);
    if (is_current && !page->used) /* it may be long until a thread uses the heap again */
        bins_release_page(owner, page, block);
    else if (changes)
        page_after_free(owner, page, block);
}

static void collect(struct heap *heap, struct page *page, void *chain, void *last,
                    uint16_t length) {
    if (simple_is(page))
        simple_unlink_all(page, chain);
    blocks_take_back(page, chain, last, length);
    store_owner(&heap->own_free, heap->own_free + (int64_t)length * page->waste_unit);
    if (bins_freed_into(heap, page))
        blocks_page_destroy(heap, page);
}

/* --- resize --------------------------------------------------------------------------------- */

/* True when the page may hold chunks of the view. */
static bool may_stand_in(const struct page *page, const struct view *view) {
    if (page->view)
        return page->view == view;
    if (UNLIKELY(terms_with(view->context, TERMS_OWN | TERMS_ZERO | TERMS_GUARD) != NULL))
        return false; /* heap->mixed cannot keep such terms; the chunk may get a region */
    bool apart = page->meta_shift & META_APART;
    return apart == (heap_placement(view->context) == PLACE_APART);
}

/* True when a chunk in a page of PLACE_APART may pass from one view to the other without a move. If
 * one of the two views belongs to a named context, the chunk moves, because the context's list of
 * chunks must stay complete. */
static bool may_change_hands(const struct view *from, const struct view *to) {
    return from == to || (!region_is_named(from) && !region_is_named(to));
}

/* Resizes a chunk in its block. NULL, so that the chunk moves: the block is too small, or more than
 * twice as large as needed while another class would serve `size`. In the checking mode (check.h)
 * every chunk moves. */
static void *resize(struct heap *heap, struct view *view, struct page *page, void *chunk,
                    size_t size, size_t *was) {
    char *block;
    void *at = region_block_of(page, chunk, &block);
    struct record record = record_read(page, at);
    if (record.slack == RECORD_FREE || blocks_is_punched(page, block))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    size_t room = (size_t)(block + page->block_bytes - (char *)chunk) - simple_bytes(page);
    if (UNLIKELY(options.check) || page->heap != heap || !may_stand_in(page, view) || size > room ||
        !aset_may_stay(heap, page, size))
        return NULL;
    struct view *old = paid_by(heap, page, at, &record);
    size_t had = page->block_bytes - record.slack;
    bool apart = UNLIKELY(load_relaxed(&page->meta_shift) & META_APART);
    if (apart && !may_change_hands(old, view))
        return NULL;
    if (apart)
        tiny_resized(view->context, chunk, size);
    if (size < had && UNLIKELY(terms_with(old->context, TERMS_ZERO) != NULL))
        __builtin_memset((char *)chunk + size, 0, had - size);
    *was = had;
    view_account_free(old, had);
    view_account_alloc(view, size);
    record_write(page, at, view->index, page->block_bytes - (uint32_t)size);
    return chunk;
}

/* --- look ----------------------------------------------------------------------------------- */

/* Reads the record of the block that contains the address `chunk`. False: no block contains it. */
static bool record_at(const struct page *page, const void *chunk, struct record *record) {
    bool exact;
    const char *granule = blocks_granule(page, chunk);
    unsigned index = blocks_index(page, granule, chunk, &exact);
    if (index >= page->granule_capacity && index >= page->capacity)
        return false;
    *record = record_read(page, blocks_record(page, granule, index));
    return true;
}

/* Returns the context that pays for the chunk; for a free block, the context of its last chunk. */
static uint32_t context_of(const struct page *page, const void *chunk) {
    struct record record;
    if (!page->heap || !record_at(page, chunk, &record))
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

static size_t requested(const struct page *page, const void *chunk) {
    char *block;
    const void *at = region_block_of(page, chunk, &block);
    return page->block_bytes - record_read(page, at).slack;
}

static size_t usable(const struct page *page, const void *chunk) {
    char *block;
    if (check_is_on(page))
        return requested(page, chunk);
    (void)region_block_of(page, chunk, &block);
    return (size_t)(block + page->block_bytes - (const char *)chunk) - simple_bytes(page);
}

static void describe(const struct page *page, struct text *text) {
    text_add(text, "; block of ");
    text_add_number(text, page->block_bytes);
    text_add(text, " bytes");
}

/* --- all chunks of a page ------------------------------------------------------------------- */

static void each_used(const struct page *page, page_visit *visit, void *context) {
    char *start = segment_span_start(page);
    size_t granule_bytes = (size_t)page->granule_mask + 1;
    /* In a page of larger granules, no record is in a punched OS page. */
    uint64_t punched = granule_bytes == OS_PAGE_BYTES ? blocks_punched(page) : 0;
    for (size_t i = 0; i * granule_bytes < blocks_reached(page, start); i++) {
        char *granule = start + i * granule_bytes;
        unsigned count = punched >> i & 1 ? 0 : page->granule_capacity;
        for (unsigned index = 0; index < count; index++) {
            struct record record = record_read(page, blocks_record(page, granule, index));
            if (record.slack != RECORD_FREE)
                visit(granule + page->first + (size_t)index * page->block_bytes, page->block_bytes,
                      page->block_bytes - record.slack, context);
        }
    }
}

/* A reset keeps current pages of the region until the touched bytes of the kept pages would sum up
 * to more than this: the next chunks will need about as many bytes. */
#define KEEPER_BYTES (128U << 10)

static void reset(struct heap *heap, struct region *region, struct page *page, uint32_t *kept) {
    bool current = !(page->flags & (PAGE_FULL | PAGE_LISTED));
    /* Policy simple keeps no page if there is no freelist, see simple.h. */
    bool keeps = !(region->bins.recipe & RECIPE_CHAINED) || load_relaxed(&options.freelist_kib);
    uint32_t touched = (uint32_t)blocks_touched(page, segment_span_start(page));
    if (keeps && current && *kept + touched <= KEEPER_BYTES &&
        !(load_relaxed(&page->meta_shift) & META_PUNCHED)) {
        *kept += touched;
        blocks_rewind(heap, page);
        return;
    }
    if (page->flags & PAGE_FULL)
        region_unlist(&region->pages, page);
    else if (current)
        region->bins.current[page->size_class] = &heap_no_page;
    else
        bins_unlist(&region->bins, page);
    /* blocks_page_destroy subtracts the waste of all blocks, so all have to count as free */
    store_owner(&heap->own_free, heap->own_free + (int64_t)page->used * page->waste_unit);
    page->used = 0;
    blocks_page_destroy(heap, page);
}

static int64_t waste(const struct page *page) {
    size_t free_blocks = blocks_handed_out(page) - page->used;
    if (load_relaxed(&page->meta_shift) & META_PUNCHED)
        free_blocks -= punch_held(page);
    return (int64_t)free_blocks * page->waste_unit +
           (page->flags & PAGE_TAIL ? (int64_t)OS_PAGE_BYTES : 0);
}

const struct page_kind page_kind_blocks = {
    .free_own = free_block,
    .free_foreign = region_free_by_other_thread,
    .release = release,
    .free_parked = free_parked,
    .collect = collect,
    .resize = resize,
    .context_of = context_of,
    .usable = usable,
    .requested = requested,
    .describe = describe,
    .each_used = each_used,
    .reset = reset,
    .waste = waste,
    .list_holds = blocks_list_holds,
};
