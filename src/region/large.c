/* SPDX-License-Identifier: MIT */
/*
 * Large chunks (PAGE_SPAN and PAGE_HUGE): a chunk of up to 1 MiB has a run of slices, a larger
 * chunk a mapping of its own.
 *
 * For: buffers. The page header names the context that pays, so any thread can free the chunk
 * without the thread that allocated it. Cannot do: share an OS page with another chunk.
 */
#include "region/check.h"
#include "region/guard.h"
#include "region/page_kinds.h"
#include "region/reset.h"
#include "region/terms.h"

/* More bytes than this are zeroed by the kernel, which takes their OS pages back. So a program that
 * writes a small part of a very large zeroed chunk does not make the rest resident. For fewer bytes
 * the library writes zeros, because page faults would take longer. glibc takes zeroed memory from
 * the kernel above the same size. */
#define WRITE_ZEROS_MOST (32UL << 20)
/* Before a reused chunk of ASK_LEAST bytes or more is zeroed, the kernel is asked whether samples
 * of its memory are resident: one sample of SAMPLE_BYTES in SAMPLE_EVERY bytes, at most
 * SAMPLES_MOST samples. */
#define ASK_LEAST (2 * SAMPLE_EVERY)
#define SAMPLE_EVERY (256UL << 10)
#define SAMPLES_MOST 8UL
#define SAMPLE_BYTES (4 * OS_PAGE_BYTES)
/* When realloc shrinks a chunk in a mapping to STAY_LEAST bytes or more, the chunk stays in the
 * mapping, unless there are many mappings. If the mapping's end that becomes free has STAY_LEAST
 * bytes or more, the freelist may keep the end. */
#define STAY_LEAST (64UL << 10)
#define COPY_PAGES_LEAST (64UL << 10) /* region_copy looks for zeros in chunks of this size */

/* True if less than half of the samples is resident. `bytes` are at least 2 * SAMPLE_BYTES for each
 * sample. False where a filter of system calls may forbid the call that asks the kernel: without a
 * control thread, which ends before the program installs a filter, and if os_mincore_forbidden. */
static bool is_mostly_absent(const char *start, size_t bytes, size_t samples) {
    size_t distance = bytes / samples & ~(2 * OS_PAGE_BYTES - 1); /* samples begin at OS pages */
    int64_t resident = 0, half = (int64_t)(samples * SAMPLE_BYTES / 2);
    if (!segment_is_purged() || load_relaxed(&os_mincore_forbidden))
        return false;
    for (size_t i = 0; i < samples && resident < half; i++) {
        int64_t here = os_resident_bytes(start + i * distance + distance / 2, SAMPLE_BYTES);
        if (here < 0)
            return false;
        resident += here;
    }
    return resident < half;
}

/* Zeroes memory of a large chunk that was used before. Memory of which most OS pages are not
 * resident goes back to the kernel: to write zeros would take a page fault for each of these OS
 * pages, and would make all of the memory resident. */
static void zero_reused(char *start, size_t bytes) {
    size_t samples = bytes / SAMPLE_EVERY < SAMPLES_MOST ? bytes / SAMPLE_EVERY : SAMPLES_MOST;
    if (bytes > WRITE_ZEROS_MOST || (bytes >= ASK_LEAST && is_mostly_absent(start, bytes, samples)))
        os_discard(start, bytes);
    else
        __builtin_memset(start, 0, bytes);
}

void *region_alloc_large(struct heap *heap, struct view *view, size_t size, size_t alignment,
                         bool zero) {
    struct page *page;
    size_t padding = alignment > SLICE_BYTES ? alignment - SLICE_BYTES : 0;
    size_t tail = check_tail_bytes();
    if (size > REGION_SIZE_MAX || alignment > REGION_SIZE_MAX / 2)
        return NULL;
    if (UNLIKELY(region_is_tiny(view)) && !region_make_whole(heap, view))
        return NULL;
    heap_collect_if_any(heap);
    if (size + tail + padding <= (size_t)MAX_SPAN_SLICES * SLICE_BYTES) {
        size_t bytes = (size ? size : 1) + tail + padding;
        page = segment_span_alloc_by(&heap->span_cache,
                                     (uint32_t)((bytes + SLICE_BYTES - 1) >> SLICE_SHIFT), 0, NULL);
        if (!page)
            return NULL;
        page->chunk = (char *)align_up((uintptr_t)segment_span_start(page), alignment);
        page->flags = segment_largest(page->slices * SLICE_BYTES);
        store_release(&page->kind, PAGE_SPAN);
    } else {
        page = segment_huge_alloc(size + tail, alignment);
        if (!page)
            return NULL;
    }
    if (zero && page->kind == PAGE_HUGE)
        zero_reused(page->chunk, page->stale_bytes < size ? page->stale_bytes : size);
    else if (zero && !page->fresh)
        zero_reused(page->chunk, size);
    page->requested_bytes = size;
    page->context = view->context;
    view_account_alloc(view, size);
    if (UNLIKELY(region_is_named(view)))
        region_named_large(view, page);
    if (UNLIKELY(tail)) {
        page->meta_shift = META_CHECKED;
        check_seal(page->chunk, size, page->chunk + size + tail);
    }
    return page->chunk;
}

/* --- emergency chunks ------------------------------------------------------------------------ */

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

/* Adds an emergency chunk (region_settle) to the accounts if it was not added yet. False: the chunk
 * can never be added. */
static bool is_settled(struct heap *heap, struct page *page) {
    if (LIKELY(!(load_acquire(&page->flags) & PAGE_EMERGENCY)))
        return true;
    region_settle(heap);
    if (!(load_acquire(&page->flags) & PAGE_EMERGENCY))
        return true;
    segment_emergency_booked(page); /* a fork did not copy the thread that had to add the chunk */
    add_relaxed(&heap_global.lost_views, 1);
    return false;
}

/* --- free ----------------------------------------------------------------------------------- */

/* Zeroes a large chunk: the kernel takes its OS pages back. */
static void zero_large(const struct page *page) {
    /* The chunk starts at an OS page. The program may have used the last OS page to its end. */
    os_discard(page->chunk, align_up(page->requested_bytes, OS_PAGE_BYTES));
}

void region_give_large(struct heap *heap, struct page *page) {
    /* a watched chunk is a link map or an isolate of V8; it may have a guard */
    if (UNLIKELY(blocks_are_watched(page)))
        segment_watch(page->chunk);
    if (UNLIKELY(load_relaxed(&page->flags) & PAGE_GUARDED)) {
        guard_free(page);
        return;
    }
    if (UNLIKELY(terms_with(page->context, TERMS_ZERO) != NULL))
        zero_large(page);
    if (page->kind == PAGE_HUGE)
        segment_huge_free(page);
    else if (LIKELY(!(page->flags & PAGE_LARGEST)) || segment_span_mend(page))
        segment_span_free_by(&heap->span_cache, page);
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
    region_give_large(heap, page);
}

/* --- resize --------------------------------------------------------------------------------- */

static bool is_at_os_page(const void *start) {
    return !((uintptr_t)start & (OS_PAGE_BYTES - 1));
}

static bool is_zero(const char *os_page) {
    const uint64_t *words = (const uint64_t *)(const void *)os_page;
    size_t i = 0;
    while (i < OS_PAGE_BYTES / sizeof *words && !words[i])
        i++;
    return i == OS_PAGE_BYTES / sizeof *words;
}

void region_copy(void *to, const void *from, size_t bytes) {
    size_t at = 0;
    if (bytes >= COPY_PAGES_LEAST && is_at_os_page(to) && is_at_os_page(from))
        for (; at + OS_PAGE_BYTES <= bytes; at += OS_PAGE_BYTES) {
            char *target = (char *)to + at;
            const char *source = (const char *)from + at;
            if (!is_zero(source) || !is_zero(target))
                __builtin_memcpy(target, source, OS_PAGE_BYTES);
        }
    __builtin_memcpy((char *)to + at, (const char *)from + at, bytes - at);
}

/* Resizes a mapping. NULL: the chunk has to be copied, for one of three reasons. The new size is
 * below STAY_LEAST; or there are many mappings, and the new size is at most half of the largest run
 * of slices; or memory is short. */
static struct page *resize_mapping(struct page *page, size_t size) {
    size_t capacity = segment_huge_capacity(page), used = align_up(size, OS_PAGE_BYTES);
    if (size > page->requested_bytes && size <= capacity)
        return page;
    if (size <= (size_t)MAX_SPAN_SLICES * SLICE_BYTES / 2 &&
        (size < STAY_LEAST || !segment_huge_are_few()))
        return NULL;
    /* The freelist keeps the mapping's end, unless most of the end is not resident. */
    if (used + STAY_LEAST <= capacity &&
        !is_mostly_absent(page->chunk + used, capacity - used, 2) &&
        segment_huge_shrink_to_spare(page, size))
        return page;
    return segment_huge_resize(page, size);
}

/* Resizes the run of slices, or the mapping. Returns the chunk's header, which may have moved.
 * NULL: the chunk has to be copied. */
static struct page *resize_memory(struct page *page, size_t size) {
    /* a resize would leave the pattern or the guard behind the chunk in the wrong place */
    if (UNLIKELY(options.check) || page->flags & PAGE_GUARDED)
        return NULL;
    if (page->kind == PAGE_HUGE)
        return resize_mapping(page, size);
    size_t offset = (size_t)(page->chunk - segment_span_start(page));
    size_t slices = (size + offset + SLICE_BYTES - 1) >> SLICE_SHIFT;
    if (size <= SMALL_MAX || slices > MAX_SPAN_SLICES)
        return NULL;
    if (slices > page->slices) {
        if (!segment_span_extend(page, (uint32_t)slices))
            return NULL;
        page->flags |= segment_largest(slices * SLICE_BYTES);
    }
    if (slices < page->slices)
        segment_span_shrink(page, (uint32_t)slices);
    return page;
}

static void *resize_large(struct heap *heap, struct view *view, struct page *page, void *chunk,
                          size_t size, size_t *had) {
    if (page->chunk != chunk)
        region_report(MISUSE_INTERIOR, page, chunk);
    /* The chunk is in the list of a named context, and another view pays from now on. So the chunk
     * moves: it must not stay in the list of a context that does not pay for it. */
    if (page->view && page->view != view)
        return NULL;
    /* The chunk passes to a context whose chunks have guards, so it moves to get a guard. */
    if (page->context != view->context && UNLIKELY(terms_with(view->context, TERMS_GUARD) != NULL))
        return NULL;
    bool settled = is_settled(heap, page);
    uint64_t old_bytes = page->requested_bytes;
    struct view *named = page->view;
    if (UNLIKELY(named != NULL)) /* the header may move, and must not be in the list then */
        region_named_large_gone(page);
    /* The bytes that the chunk loses are to be zeroed. So the chunk moves, and its free zeroes. */
    bool zero = size < old_bytes && UNLIKELY(terms_with(page->context, TERMS_ZERO) != NULL);
    struct page *resized = zero ? NULL : resize_memory(page, size);
    if (UNLIKELY(named != NULL))
        region_named_large(named, resized ? resized : page);
    if (!resized)
        return NULL;
    struct view *old = settled ? heap_view(heap, resized->context) : NULL;
    if (old)
        view_account_free(old, old_bytes);
    view_account_alloc(view, size);
    *had = old_bytes;
    resized->requested_bytes = size;
    resized->context = view->context;
    return resized->chunk;
}

/* --- look ----------------------------------------------------------------------------------- */

static uint32_t context_of(const struct page *page, const void *chunk) {
    (void)chunk;
    return page->context;
}

static size_t usable(const struct page *page, const void *chunk) {
    (void)chunk;
    return check_is_on(page) || page->flags & PAGE_GUARDED
               ? page->requested_bytes
               : align_up(page->requested_bytes, OS_PAGE_BYTES);
}

static size_t requested(const struct page *page, const void *chunk) {
    (void)chunk;
    return page->requested_bytes;
}

static void describe(const struct page *page, struct text *text) {
    text_add(text,
             page->flags & PAGE_GUARDED ? "; a chunk with a guard page" : "; in a large chunk");
}

const struct page_kind page_kind_large = {
    .free_own = free_large,
    .free_foreign = free_large,
    .resize = resize_large,
    .context_of = context_of,
    .usable = usable,
    .requested = requested,
    .describe = describe,
};
