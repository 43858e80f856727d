/* SPDX-License-Identifier: MIT */
/*
 * fast.h - the common malloc and the common free, from top to bottom.
 *
 * allocate, below, calls for malloc(24):
 *   1. thread_enter marks the thread's heap busy.
 *   2. view_guessed guesses the call path, proves the guess by comparing the words of the stack,
 *      and returns the view that pays.
 *   3. take_block_of_own_page takes the block that was freed last off the page's list, if the
 *      context has pages of its own. Otherwise take_block_of_mixed_page takes it off the heap's
 *      list of recently freed blocks. Both write the block's record and count the chunk in the
 *      view.
 *   4. thread_leave marks the heap as not busy.
 * free(chunk) calls thread_enter and computes the page's header from the pointer. Then free_block
 * reads the block's record, counts the free and puts the block on the list from which step 3 takes
 * blocks. thread_leave ends the call.
 *
 * A step that cannot serve the request ends in a call of a function with the name of the case
 * (allocate_not_entered, allocate_path_not_guessed, free_foreign, ...). All these calls are tail
 * calls, so the common case saves no callee-saved register. All functions here are inlined into
 * each exported function, which reads its own frame pointer first (FRAME): the return address, the
 * caller's rbp and the caller's stack pointer are at fixed offsets from the frame pointer, and
 * nothing else is needed to find the call path. A tail call gives up the exported function's frame,
 * but the words of the frame stay valid: the called function first pushes the same rbp to the same
 * address, below the same return address (-fno-omit-frame-pointer).
 *
 * "Entered" means that the thread is inside the allocator: its heap is marked busy.
 *
 * The structs: struct heap and struct view (region/heap.h), struct page (segment/segment.h), block
 * records (region/blocks.h), struct trace and struct paths (path/cache.h). "Narrow" blocks have at
 * most NARROW_MAX bytes.
 *
 * Cost of malloc: the cache lines of the heap, the trace, the words of the stack, the view, the
 * page header's first line, the block's record and the block. No atomic read-modify-write, no lock,
 * no division, no system call.
 */
#ifndef MEMCTX_FAST_H
#define MEMCTX_FAST_H

#include "api/thread.h"

#include <string.h>

#define FRAME ((uintptr_t)__builtin_frame_address(0))

enum allocate_how {
    ALLOCATE_PLAIN,
    ALLOCATE_ZEROED,
    ALLOCATE_NEW, /* never returns NULL: fails as operator new does */
};

/* --- where the common malloc cannot go on (malloc.c) ----------------------------------------- */

/* The thread has not entered. Mostly thread_enter has returned NULL: the thread has no heap, or its
 * heap is busy, because a signal handler interrupted the allocator or a fork handler runs during a
 * fork. Also refuses requests of more than REGION_SIZE_MAX bytes. When memory is short, returns
 * NULL with errno set, except for ALLOCATE_NEW. */
void *allocate_not_entered(size_t size, enum allocate_how how, uintptr_t frame);
/* The thread has not entered. Allocates more than NARROW_MAX bytes. */
void *allocate_wide_or_large(size_t size, enum allocate_how how, uintptr_t frame);
/* The thread has entered, and the first guess of the call path is wrong. */
void *allocate_path_not_guessed(struct heap *heap, size_t size, enum allocate_how how,
                                uintptr_t frame);
/* The thread has entered, and `view` pays. take_block_of_mixed_page or take_block_of_own_page found
 * no freed block. Takes a block of heap.recent_room from a page with META_OWNERS, or else a block
 * of the view's current page, such as one that was never handed out. */
void *allocate_untouched_block(struct heap *heap, struct view *view, size_t size,
                               enum allocate_how how, uintptr_t frame);
/* The thread has entered, and `view` pays. Allocates more than NARROW_MAX and at most SMALL_MAX
 * bytes. */
void *allocate_wide_block(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                          uintptr_t frame);
/* The thread has entered, and the current page cannot serve the request. With MEMCTX_CHECK, also
 * serves all requests whose path was looked up. `view` is NULL when there was no memory for a view.
 */
void *allocate_page_used_up(struct heap *heap, struct view *view, size_t size,
                            enum allocate_how how, uintptr_t frame);
/* The thread has not entered. Allocates at an alignment above 16, which is a power of two. */
void *allocate_aligned(size_t size, size_t alignment, uintptr_t frame);
/* The thread has entered, and `view` pays. Allocates any size. */
void *allocate_entered(struct heap *heap, struct view *view, size_t size, size_t alignment,
                       enum allocate_how how, uintptr_t frame);
/* Resize a chunk of any kind to any size; realloc.c calls them when it cannot serve the request
 * itself. For resize_entered the thread has entered, and `view` pays; NULL: find the view. For
 * resize_not_entered the thread has not entered. */
void *resize_entered(struct heap *heap, struct view *view, void *old, size_t size, uintptr_t frame);
void *resize_not_entered(void *old, size_t size, uintptr_t frame);
/* For operator new when memory is short: calls the new-handler and tries again, or throws. */
void *new_retry(size_t size, size_t alignment, uintptr_t frame);
/* True if the program defines a throwing operator new itself. Then the nothrow operators must call
 * the program's operator. */
bool new_is_replaced(void);
/* This library's malloc, for a function that is called less often than malloc. */
void *allocate_plain(size_t size, uintptr_t frame);
/* This library's free, whatever the program defines. */
void free_plain(void *chunk);
/* This library's operators new(size_t) and new(size_t, align_val_t), whatever the program defines.
 */
void *new_plain(size_t size);
void *new_aligned(size_t size, size_t alignment);

/* --- where the common free cannot go on (free.c) --------------------------------------------- */

/* The thread has not entered. Frees the chunk, or notes it for a later free. */
void free_not_entered(void *chunk);
/* The thread has entered. Frees a chunk that is in a page of another heap, or for which
 * segment_is_near is false: it is far from the library's first segment, has a mapping of its own,
 * or belongs to another allocator. */
void free_foreign(struct heap *heap, void *chunk);
/* The thread has entered. Frees a chunk in a page of this heap, or reports the misuse. */
void free_by_page_kind(struct heap *heap, struct page *page, void *chunk);
/* The thread has entered, and free_block has freed the block. The page was full and can serve
 * requests again, or it is empty, or it changes its band (region/slab.h): it moves to another list,
 * or is given back. */
void free_changes_page(struct heap *heap, struct page *page, void *block);

/* --- 1. enter and leave ---------------------------------------------------------------------- */

/* Marks the thread's heap busy and returns it. Returns NULL when the thread has no heap or is
 * inside the allocator already; the caller then uses thread_enter_any. */
INLINE struct heap *thread_enter(void) {
    struct heap *heap = thread_heap;
    if (UNLIKELY(heap->busy))
        return NULL;
    store_owner(&heap->busy, 1);
    order_stores();
    heap_entered(heap);
    return heap;
}

INLINE void thread_leave(struct heap *heap) {
    order_stores();
    heap_set_left(heap);
}

/* --- 2. find the view that pays -------------------------------------------------------------- */

/* True when four words of the stack equal those of the trace. The cost is the number of loads, so
 * one load reads the offsets of two words, and one comparison compares two words. All four words
 * are read before the first word is compared. The read is safe: the four words are in one OS page,
 * and the earlier groups matched, so this OS page belongs to the stack. */
INLINE bool trace_group_matches(const struct trace_checks *checks, const stack_word *words) {
    uint64_t first, second;
    __builtin_memcpy(&first, &checks->word[0], sizeof first);
    __builtin_memcpy(&second, &checks->word[2], sizeof second);
#ifdef CACHE_WORDS_IN_PAIRS
    /* these doubles are only moved; no arithmetic is done with them */
    const double *at = (const double *)(const void *)words;
    __m128d a = _mm_loadh_pd(_mm_load_sd(&at[(uint32_t)first]), &at[first >> 32]);
    __m128d b = _mm_loadh_pd(_mm_load_sd(&at[(uint32_t)second]), &at[second >> 32]);
    const __m128i *values = (const __m128i *)(const void *)checks->value;
    __m128i equal = _mm_and_si128(_mm_cmpeq_epi32(_mm_castpd_si128(a), _mm_load_si128(&values[0])),
                                  _mm_cmpeq_epi32(_mm_castpd_si128(b), _mm_load_si128(&values[1])));
    return LIKELY(_mm_movemask_epi8(equal) == 0xffff);
#else
    return LIKELY(words[(uint32_t)first] == checks->value[0]) &&
           LIKELY(words[first >> 32] == checks->value[1]) &&
           LIKELY(words[(uint32_t)second] == checks->value[2]) &&
           LIKELY(words[second >> 32] == checks->value[3]);
#endif
}

/* True when all words of the trace are on the stack. */
INLINE bool trace_matches(const struct trace *trace, const stack_word *words) {
    const struct trace_tail *tail = trace->tail;
    if (!trace_group_matches(&trace->checks[0], words) ||
        (trace->groups > 1 && !trace_group_matches(&trace->checks[1], words)))
        return false;
    for (; tail; tail = tail->outer)
        if (!trace_group_matches(&tail->checks[0], (const stack_word *)tail->base) ||
            !trace_group_matches(&tail->checks[1], (const stack_word *)tail->base))
            return false;
    return true;
}

/* Returns the view of the call path, or paths.fixed if this view pays for every allocation. NULL:
 * the first guess is wrong, or the traces are of an older generation of unwind rules, or
 * context/lookup.c has closed the way by guesses for now (ways_open). */
INLINE struct view *view_guessed(struct paths *paths, uintptr_t frame) {
    uint32_t fast = load_plain(&paths->fast_generation);
    if (UNLIKELY(fast != load_relaxed(&unwind_rules_generation))) {
        uint32_t fixed = load_plain(&paths->fixed_generation);
        return fixed == load_relaxed(&unwind_rules_generation) ? paths->fixed : NULL;
    }
    uint32_t next = *first_guess(paths, frame);
    const struct trace *trace = &paths->traces[next];
    if (UNLIKELY(trace->sp != frame + 16) || !trace_matches(trace, (const stack_word *)frame))
        return NULL;
    paths->last = next * (uint32_t)sizeof *trace;
    paths->found++;
    struct view *view = trace->view;
    if (!view) /* never, so the compiler omits the callers' tests for NULL here */
        __builtin_unreachable();
    return view;
}

/* Returns the view of the call path, guessed or searched. NULL: there is no memory for the heap's
 * first view. */
INLINE struct view *view_of_path(struct heap *heap, uintptr_t frame, size_t size) {
    struct view *view = view_guessed(paths_of(heap), frame);
    return LIKELY(view != NULL) ? view : context_view_searched(heap, frame, size);
}

/* --- 3. take a block ------------------------------------------------------------------------- */

/* Allocates up to NARROW_MAX bytes for a context without pages of its own, from the blocks of mixed
 * pages that were freed last (heap.recent_room). NULL: no block of the size class is in that list.
 */
INLINE void *take_block_of_mixed_page(struct heap *heap, struct view *view, size_t size) {
    struct page *recent = heap_recent(heap, bins_class_narrow(heap, size));
    char *block = recent->free;
    if (UNLIKELY(!block))
        return NULL;
    blocks_unlink(recent, block);
    order_stores();
    add_owner(&recent->used, 1);
    char *granule = blocks_granule_narrow(recent, block);
    bool exact;
    unsigned index = blocks_index_narrow(recent, granule, block, &exact);
    uint32_t *records = (uint32_t *)(void *)(granule + blocks_color_of(recent, block));
    uint32_t slack = recent->block_bytes - (uint32_t)size;
    store_owner(records + index, view->index << 8 | (slack + 1));
    view_account_alloc(view, size);
    return block;
}

/* Like take_block_of_mixed_page, but from the recent blocks of pages that were a context's own
 * pages before they became mixed (META_OWNERS). */
INLINE void *take_block_with_owner(struct heap *heap, struct view *view, size_t size) {
    struct page *recent = heap_recent(heap, bins_class_narrow(heap, size));
    char *block = recent->free_with_owners;
    if (!block)
        return NULL;
    recent->free_with_owners = *(void **)block;
    order_stores();
    add_owner(&recent->used, 1);
    struct page *page = segment_slice_of(block);
    page -= page->back;
    char *granule = blocks_granule_narrow(page, block);
    bool exact;
    unsigned index = blocks_index_narrow(page, granule, block, &exact);
    store_owner(blocks_owner(page, granule, index), view->index);
    store_owner((uint8_t *)granule + page->records + index, (uint8_t)(page->block_bytes - size));
    view_account_alloc(view, size);
    return block;
}

/* Allocates up to NARROW_MAX bytes for a context with pages of its own, from the current page.
 * NULL: the page has no freed block, or its blocks are too small, or view.bins is heap_no_bins
 * because the placement of the context has to be decided anew or the context has a limit. */
INLINE void *take_block_of_own_page(struct heap *heap, struct view *view, size_t size) {
    struct page *page = view->bins->current[bins_class_narrow(heap, size)];
    char *block = page->free;
    uint32_t bytes = page->block_bytes;
    if (UNLIKELY(!block) || UNLIKELY(size > bytes))
        return NULL;
    blocks_unlink(page, block);
    order_stores();
    add_owner(&page->used, 1);
    add_owner(&heap->own_free, -(int64_t)bytes);
    char *granule = blocks_granule_narrow(page, block);
    bool exact;
    unsigned index = blocks_index_narrow(page, granule, block, &exact);
    store_owner((uint8_t *)granule + page->records + index, (uint8_t)(bytes - size));
    view_account_alloc(view, size);
    return block;
}

/* --- malloc ---------------------------------------------------------------------------------- */

/* The thread has entered, and `view` pays. Ends an allocation: leaves the allocator and returns
 * `chunk`. `chunk` NULL: the current page could not serve the request. `fresh`: all bytes of the
 * chunk are zero already. */
INLINE void *allocate_done(struct heap *heap, struct view *view, size_t size, enum allocate_how how,
                           uintptr_t frame, void *chunk, bool fresh) {
    if (UNLIKELY(!chunk))
        return allocate_page_used_up(heap, view, size, how, frame);
    thread_leave(heap);
    return how == ALLOCATE_ZEROED && !fresh ? memset(chunk, 0, size) : chunk;
}

/* The thread has entered, and `view` pays. Allocates up to NARROW_MAX bytes. */
INLINE void *allocate_narrow(struct heap *heap, struct view *view, size_t size,
                             enum allocate_how how, uintptr_t frame) {
    void *chunk;
    /* The processor predicts this branch, and so starts to take a block of the heap before the
     * cache line of the view has arrived. */
    if (view->bins == &heap->mixed)
        chunk = take_block_of_mixed_page(heap, view, size);
    else
        chunk = take_block_of_own_page(heap, view, size);
    if (UNLIKELY(!chunk))
        return allocate_untouched_block(heap, view, size, how, frame);
    return allocate_done(heap, view, size, how, frame, chunk, false);
}

INLINE void *allocate(size_t size, enum allocate_how how, uintptr_t frame) {
    struct heap *heap;
    if (UNLIKELY(size > NARROW_MAX))
        return allocate_wide_or_large(size, how, frame);
    if (UNLIKELY(!(heap = thread_enter())))
        return allocate_not_entered(size, how, frame);
    struct view *view = view_guessed(paths_of(heap), frame);
    if (UNLIKELY(!view))
        return allocate_path_not_guessed(heap, size, how, frame);
    return allocate_narrow(heap, view, size, how, frame);
}

/* --- free ------------------------------------------------------------------------------------ */

/* Frees a chunk of a page of this heap. The page has no META_ flag, or only META_MIXED. *changes
 * becomes true when the caller must call free_changes_page next. False: nothing changed, because
 * the pointer is not the start of a chunk, or the chunk is free; free_by_page_kind then reports the
 * misuse. */
INLINE bool free_block(struct heap *heap, struct page *page, void *chunk, bool *changes) {
    bool exact;
    char *granule = blocks_granule_narrow(page, chunk);
    unsigned index = blocks_index_narrow(page, granule, chunk, &exact);
    if (UNLIKELY(!exact))
        return false;
    granule += page->records;
    if (!(load_plain(&page->meta_shift) & META_MIXED)) { /* no thread changes this bit */
        uint8_t *at = (uint8_t *)granule + index, slack = load_relaxed(at);
        if (UNLIKELY(slack == UINT8_MAX))
            return false;
        store_owner(at, UINT8_MAX);
        view_account_free(page->view, page->block_bytes - slack);
        *changes = blocks_free_owned(heap, page, chunk);
        return true;
    }
    uint32_t *at = (uint32_t *)(void *)granule + index, record = load_relaxed(at);
    if (UNLIKELY(!(uint8_t)record))
        return false;
    store_owner((uint8_t *)at, 0);
    view_account_free(heap_view_at(heap, record >> 8), page->block_bytes + 1 - (record & 0xff));
    *changes = blocks_free_mixed(heap, page, chunk);
    return true;
}

/* Like free_block, but for a narrow page with META_OWNERS and no other flag. */
INLINE bool free_block_with_owner(struct heap *heap, struct page *page, void *chunk,
                                  bool *changes) {
    bool exact;
    char *granule = blocks_granule_narrow(page, chunk);
    unsigned index = blocks_index_narrow(page, granule, chunk, &exact);
    uint8_t *at = (uint8_t *)granule + page->records + index, slack = load_relaxed(at);
    if (UNLIKELY(!exact) || UNLIKELY(slack == UINT8_MAX))
        return false;
    store_owner(at, UINT8_MAX);
    uint32_t owner = load_relaxed(blocks_owner(page, granule, index));
    view_account_free(heap_view_at(heap, owner), page->block_bytes - slack);
    *changes = blocks_free_with_owner(heap, page, chunk);
    return true;
}

/* Like free_block, but for a page with META_WIDE and no further flag except META_MIXED or
 * META_OWNERS. The records are read here, because a call of record_release would make the free of a
 * wide block 100 instructions longer. */
INLINE bool free_wide_block(struct heap *heap, struct page *page, void *chunk, bool *changes) {
    bool exact;
    char *granule = segment_span_start(page);
    unsigned index = blocks_index(page, granule, chunk, &exact);
    unsigned meta = load_plain(&page->meta_shift);
    if (UNLIKELY(!exact) || UNLIKELY(index >= page->granule_capacity))
        return false;
    uint32_t slack, owner = 0;
    if (meta & META_MIXED) {
        uint64_t *at = (uint64_t *)(void *)(granule + page->records) + index;
        uint64_t record = load_relaxed(at);
        if (UNLIKELY(!(uint32_t)record))
            return false;
        store_owner((uint32_t *)at, 0);
        slack = (uint32_t)record - 1;
        owner = (uint32_t)(record >> 32);
    } else {
        uint16_t *at = (uint16_t *)(void *)(granule + page->records) + index;
        slack = load_relaxed(at);
        if (UNLIKELY(slack == UINT16_MAX))
            return false;
        store_owner(at, UINT16_MAX);
        if (meta & META_OWNERS)
            owner = load_relaxed(blocks_owner(page, granule, index));
    }
    struct view *paid = owner ? heap_view_at(heap, owner) : page->view;
    view_account_free(paid, page->block_bytes - slack);
    *changes = blocks_free_owned(heap, page, chunk);
    return true;
}

INLINE void free_inline(void *chunk) {
    struct heap *heap = thread_enter();
    struct page *page;
    if (UNLIKELY(!heap)) {
        free_not_entered(chunk);
        return;
    }
    if (UNLIKELY(!segment_is_near(chunk))) {
        free_foreign(heap, chunk);
        return;
    }
    page = segment_slice_of(chunk);
    /* Only the header of a page's first slice has the heap; `heap` is NULL in the others. */
    if (UNLIKELY(page->heap != heap) && (page -= page->back)->heap != heap) {
        free_foreign(heap, chunk);
        return;
    }
    bool changes = false;
    /* free_by_page_kind serves wide pages, and pages with another flag than META_MIXED. */
    if (UNLIKELY(blocks_meta(page) & ~META_MIXED) || !free_block(heap, page, chunk, &changes)) {
        free_by_page_kind(heap, page, chunk);
        return;
    }
    if (UNLIKELY(changes)) {
        free_changes_page(heap, page, chunk);
        return;
    }
    thread_leave(heap);
}

#endif
