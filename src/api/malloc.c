/* SPDX-License-Identifier: MIT */
/*
 * The malloc family, as glibc and POSIX define it.
 *
 * The common cases are in api/fast.h; this file has the cases that api/fast.h does not serve.
 * Sources: malloc(3), posix_memalign(3), POSIX.1-2024, C23 7.24.3.
 */
#include "api/fast.h"
#include "context/tree.h"
#include "control/control.h"
#include "named/named.h"
#include "region/aset.h"
#include "region/terms.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"

struct request {
    size_t size, alignment; /* alignment 1: the alignment of every chunk, 16 bytes, is enough */
    bool zero;              /* all bytes of the chunk are to be zero */
    void *old;              /* the chunk to resize; NULL: allocate */
    bool asked;             /* the function of the exceeded limit was called already */
};

/* Value of `limited` in the functions below: the request would exceed the limit of a placement
 * rule, not that of a named context. */
#define LIMIT_OF_RULE UINT32_MAX

/* True if the request would exceed the limit of a named context or of a rule. If the limit is that
 * of a named context, *limited becomes this context: its limit may have a function that makes room.
 * If it is that of a rule, *limited becomes LIMIT_OF_RULE.
 */
static bool is_past_limit(struct heap *heap, struct view *view, const struct request *request,
                          uint32_t *limited) {
    uint32_t had_in = request->old ? region_context_of(request->old) : REGION_NO_CONTEXT;
    size_t had = had_in != REGION_NO_CONTEXT ? region_requested(request->old) : 0;
    if (!terms_allow(view->context, request->size, had_in, had)) {
        *limited = LIMIT_OF_RULE;
        return true;
    }
    if (!region_is_named(view) ||
        !region_is_past_limit(heap, view, request->size, had_in == view->context ? had : 0))
        return false;
    *limited = view->context;
    return true;
}

/* Allocates or resizes. `view` NULL: looks up the view that pays. Returns NULL when memory is
 * short, or when a limit would be exceeded; *limited as in is_past_limit. */
static void *serve(struct heap *heap, struct view *view, const struct request *request,
                   uintptr_t frame, uint32_t *limited) {
    if (!view && request->old && UNLIKELY(load_relaxed(&region_named_any)))
        view = context_view_kept(heap, request->old);
    if (!view)
        view = view_of_path(heap, frame, request->size);
    if (!view)
        return NULL;
    if (UNLIKELY(limits_exist()) && is_past_limit(heap, view, request, limited))
        return NULL;
    if (request->old)
        return region_realloc(heap, view, request->old, request->size);
    if (request->alignment > 16)
        return region_alloc_aligned(heap, view, request->size, request->alignment);
    return region_alloc(heap, view, request->size, request->zero);
}

/* Allocates for a signal handler or a fork handler while its thread holds a lock of this library.
 * The chunk comes straight from the kernel. The next call of thread_settle, in any thread, charges
 * the chunk to [unwinding]. */
static void *serve_emergency(const struct request *request) {
    size_t keep = request->old ? region_usable(request->old) : 0;
    if (request->old && !region_page_of(request->old)) { /* a chunk of another allocator */
        add_relaxed(&heap_global.foreign_frees, 1);
        return NULL;
    }
    struct page *header =
        segment_emergency_alloc(request->size, request->alignment, TREE_UNWINDING);
    if (!header)
        return request->old && request->size <= keep ? request->old : NULL;
    if (request->old) {
        memcpy(header->chunk, request->old, keep < request->size ? keep : request->size);
        thread_defer_free(request->old);
    }
    return header->chunk;
}

/* Serves the request of a thread that has entered, and leaves the allocator. When the kernel
 * refuses memory, the library returns all memory that it keeps for reuse, and tries once more. */
static void *serve_entered(struct heap *heap, enum thread_access access, struct view *view,
                           const struct request *request, uintptr_t frame) {
    thread_settle(heap);
    uint32_t refused = os_refused(), limited = 0;
    void *chunk = serve(heap, view, request, frame, &limited);
    if (UNLIKELY(!chunk) && os_refused() != refused) {
        segment_purge(true);
        limited = 0;
        chunk = serve(heap, view, request, frame, &limited);
    }
    /* Programs do not expect that a chunk cannot become smaller. Without memory for the smaller
     * chunk, the chunk stays as it is, and keeps its requested bytes. */
    if (UNLIKELY(!chunk) && request->old && !limited &&
        request->size <= region_usable(request->old))
        chunk = request->old;
    bool start_control = UNLIKELY(load_relaxed(&control_waiting)) && access != THREAD_SHARED &&
                         control_is_due() && os_process_is_known();
    thread_leave_any(heap, access);
    if (UNLIKELY(start_control))
        control_start();
    if (UNLIKELY(limited) && limited != LIMIT_OF_RULE && !request->asked &&
        named_limit_reached(limited, request->size)) {
        enum thread_access again = thread_enter_any(&heap);
        struct request once_more = *request;
        once_more.asked = true;
        if (again == access)
            return serve_entered(heap, access, heap_view(heap, limited), &once_more, frame);
        thread_leave_any(heap, again); /* the thread got a heap of its own meanwhile */
    }
    if (!chunk)
        errno = ENOMEM;
    return chunk;
}

/* Serves the request of a thread that has not entered yet. */
static void *serve_not_entered(const struct request *request, uintptr_t frame) {
    void *chunk = NULL;
    struct heap *heap;
    enum thread_access access;
    if (request->size <= REGION_SIZE_MAX) {
        access = thread_enter_any(&heap);
        if (access != THREAD_NONE)
            return serve_entered(heap, access, NULL, request, frame);
        chunk = serve_emergency(request);
    }
    if (!chunk)
        errno = ENOMEM;
    return chunk;
}

/* Returns the chunk. For operator new, NULL becomes a call of the new-handler or an exception. */
INLINE void *result(void *chunk, size_t size, enum allocate_how how, uintptr_t frame) {
    return UNLIKELY(!chunk) && how == ALLOCATE_NEW ? new_retry(size, 1, frame) : chunk;
}

NOINLINE void *allocate_not_entered(size_t size, enum allocate_how how, uintptr_t frame) {
    struct request request = {.size = size, .alignment = 1, .zero = how == ALLOCATE_ZEROED};
    return result(serve_not_entered(&request, frame), size, how, frame);
}

NOINLINE void *allocate_page_used_up(struct heap *heap, struct view *view, size_t size,
                                     enum allocate_how how, uintptr_t frame) {
    bool fresh = false;
    void *chunk = NULL;
    /* Of the functions that this one calls, only serve_entered writes the patterns of MEMCTX_CHECK
     * (in region_alloc) and starts the control thread. So with MEMCTX_CHECK, and while the control
     * thread waits for its start, the quicker functions are left out. */
    bool may =
        LIKELY(view != NULL) && LIKELY(!load_relaxed(&control_waiting)) && LIKELY(!options.check);
    if (may && ((chunk = region_alloc_serial(heap, view, size, &fresh)) ||
                (chunk = region_alloc_listed(heap, view, size, &fresh))))
        return allocate_done(heap, view, size, how, frame, chunk, fresh);
    context_time_soon(heap);
    if (may)
        chunk = region_alloc_next_page(heap, view, size, &fresh);
    if (chunk)
        return allocate_done(heap, view, size, how, frame, chunk, fresh);
    struct request request = {.size = size, .alignment = 1, .zero = how == ALLOCATE_ZEROED};
    return result(serve_entered(heap, THREAD_OWN, view, &request, frame), size, how, frame);
}

/* Takes a block of the view's current page. For mixed pages, the heap's lists of recently freed
 * blocks (heap.recent_room) have no block of this size class. */
static NOINLINE void *allocate_current_page(struct heap *heap, struct view *view, size_t size,
                                            enum allocate_how how, uintptr_t frame) {
    bool fresh = false;
    void *chunk = region_alloc_narrow(heap, view, size, &fresh);
    return allocate_done(heap, view, size, how, frame, chunk, fresh);
}

/* The context has no pages of its own. Takes a recently freed block of a page that has become
 * mixed, or else a block of the current page. */
static NOINLINE void *allocate_with_owner(struct heap *heap, struct view *view, size_t size,
                                          enum allocate_how how, uintptr_t frame) {
    void *chunk = take_block_with_owner(heap, view, size);
    if (!chunk)
        return allocate_current_page(heap, view, size, how, frame);
    return allocate_done(heap, view, size, how, frame, chunk, false);
}

/* A program that grows takes most of its blocks here. So for pages of one context, this function
 * does itself the part of region_take that is needed, in half as many instructions. */
NOINLINE void *allocate_untouched_block(struct heap *heap, struct view *view, size_t size,
                                        enum allocate_how how, uintptr_t frame) {
    if (view->bins == &heap->mixed)
        return allocate_with_owner(heap, view, size, how, frame);
    struct page *page = view->bins->current[bins_class_narrow(heap, size)];
    uint32_t bytes = page->block_bytes, left = page->fresh_left;
    if (UNLIKELY(!left) || UNLIKELY(size > bytes))
        return allocate_current_page(heap, view, size, how, frame);
    char *block = page->next_block;
    store_owner(&page->next_block, block + bytes);
    store_owner(&page->fresh_left, (uint16_t)(left - 1));
    order_stores(); /* a child that is forked between the two stores loses one block: safe */
    add_owner(&page->used, 1);
    char *granule = blocks_granule_narrow(page, block);
    bool exact;
    unsigned index = blocks_index_narrow(page, granule, block, &exact);
    store_owner((uint8_t *)granule + page->records + index, (uint8_t)(bytes - size));
    view_account_alloc(view, size);
    bool zero = how == ALLOCATE_ZEROED && !page->fresh;
    thread_leave(heap);
    return UNLIKELY(zero) ? memset(block, 0, size) : block;
}

NOINLINE void *allocate_wide_block(struct heap *heap, struct view *view, size_t size,
                                   enum allocate_how how, uintptr_t frame) {
    bool fresh = false;
    void *chunk = region_alloc_wide(heap, view, size, &fresh);
    return allocate_done(heap, view, size, how, frame, chunk, fresh);
}

static void *allocate_looked_up(struct heap *heap, size_t size, enum allocate_how how,
                                uintptr_t frame, struct view *view) {
    if (UNLIKELY(!view) || UNLIKELY(options.check))
        return allocate_page_used_up(heap, view, size, how, frame);
    if (UNLIKELY(size > NARROW_MAX))
        return allocate_wide_block(heap, view, size, how, frame);
    return allocate_narrow(heap, view, size, how, frame);
}

static NOINLINE void *allocate_timed(struct heap *heap, size_t size, enum allocate_how how,
                                     uintptr_t frame) {
    struct context_timing timing = context_time_begins(heap);
    void *chunk = allocate_looked_up(heap, size, how, frame, view_of_path(heap, frame, size));
    context_time_ends(&timing);
    return chunk;
}

NOINLINE void *allocate_path_not_guessed(struct heap *heap, size_t size, enum allocate_how how,
                                         uintptr_t frame) {
    if (context_is_timed(heap))
        return allocate_timed(heap, size, how, frame);
    return allocate_looked_up(heap, size, how, frame, context_view_searched(heap, frame, size));
}

/* Allocates a chunk that no block serves: size and alignment together exceed SMALL_MAX. The thread
 * has entered. */
static NOINLINE void *allocate_large(struct heap *heap, size_t size, size_t alignment,
                                     enum allocate_how how, uintptr_t frame) {
    thread_settle(heap);
    struct view *view = view_of_path(heap, frame, size);
    void *chunk = NULL;
    if (LIKELY(view != NULL) && LIKELY(!load_relaxed(&control_waiting)) && LIKELY(!options.check) &&
        LIKELY(!limits_exist()))
        chunk = region_alloc_large(heap, view, size, alignment, how == ALLOCATE_ZEROED);
    if (LIKELY(chunk != NULL)) {
        thread_leave(heap);
        return chunk;
    }
    struct request request = {.size = size, .alignment = alignment, .zero = how == ALLOCATE_ZEROED};
    return result(serve_entered(heap, THREAD_OWN, view, &request, frame), size, how, frame);
}

NOINLINE void *allocate_wide_or_large(size_t size, enum allocate_how how, uintptr_t frame) {
    struct heap *heap;
    if (UNLIKELY(size > REGION_SIZE_MAX) || UNLIKELY(!(heap = thread_enter())))
        return allocate_not_entered(size, how, frame);
    if (size > SMALL_MAX)
        return allocate_large(heap, size, 1, how, frame);
    struct view *view = view_guessed(paths_of(heap), frame);
    if (UNLIKELY(!view))
        return allocate_path_not_guessed(heap, size, how, frame);
    return allocate_wide_block(heap, view, size, how, frame);
}

void *allocate_entered(struct heap *heap, struct view *view, size_t size, size_t alignment,
                       enum allocate_how how, uintptr_t frame) {
    struct request request = {.size = size, .alignment = alignment, .zero = how == ALLOCATE_ZEROED};
    return serve_entered(heap, THREAD_OWN, view, &request, frame);
}

void *resize_entered(struct heap *heap, struct view *view, void *old, size_t size,
                     uintptr_t frame) {
    struct request request = {.size = size, .alignment = 1, .old = old};
    return serve_entered(heap, THREAD_OWN, view, &request, frame);
}

void *resize_not_entered(void *old, size_t size, uintptr_t frame) {
    struct request request = {.size = size, .alignment = 1, .old = old};
    return serve_not_entered(&request, frame);
}

/* Takes a block of the page if all blocks of the page have the alignment, which is at most
 * WIDE_ALIGNMENT_MAX if the page is not `narrow`. NULL: the blocks lack the alignment, or their
 * records cannot store the slack, or no block is free. */
INLINE void *take_aligned_of(struct heap *heap, struct page *page, struct view *view, size_t size,
                             size_t alignment, bool narrow) {
    bool fresh;
    return page->block_bytes & (alignment - 1) || !aset_slack_fits(page->block_bytes, size)
               ? NULL
               : region_take(heap, page, view, size, narrow, &fresh);
}

/* Takes a block of the view's current page, as take_aligned_of does. */
static void *take_aligned_block(struct heap *heap, struct view *view, size_t size,
                                size_t alignment) {
    size_t room = aset_aligned_room(size, alignment);
    if (UNLIKELY(!view) || UNLIKELY(load_relaxed(&control_waiting)) || UNLIKELY(options.check))
        return NULL;
    struct page *const *current = view->bins->current;
    if (room <= NARROW_MAX)
        return take_aligned_of(heap, current[bins_class_narrow(heap, room)], view, size, alignment,
                               true);
    if (alignment > WIDE_ALIGNMENT_MAX || room > SMALL_MAX)
        return NULL;
    return take_aligned_of(heap, current[bins_class_of(heap, room)], view, size, alignment, false);
}

void *allocate_aligned(size_t size, size_t alignment, uintptr_t frame) {
    struct request request = {.size = size, .alignment = alignment};
    struct heap *heap;
    if (size > REGION_SIZE_MAX || UNLIKELY(!(heap = thread_enter())))
        return serve_not_entered(&request, frame);
    if (size > SMALL_MAX || size + alignment > SMALL_MAX)
        return allocate_large(heap, size, alignment, ALLOCATE_PLAIN, frame);
    struct view *view = view_of_path(heap, frame, size);
    void *chunk = take_aligned_block(heap, view, size, alignment);
    if (UNLIKELY(!chunk))
        return serve_entered(heap, THREAD_OWN, view, &request, frame);
    thread_leave(heap);
    return chunk;
}

NOINLINE void *allocate_plain(size_t size, uintptr_t frame) {
    return allocate(size, ALLOCATE_PLAIN, frame);
}

EXPORT void *malloc(size_t size) {
    return allocate(size, ALLOCATE_PLAIN, FRAME);
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        bytes = SIZE_MAX; /* refused with ENOMEM */
    return allocate(bytes, ALLOCATE_ZEROED, FRAME);
}

/* Rounds the alignment up to a power of two, as glibc's memalign and aligned_alloc do. */
INLINE void *align_as_glibc(size_t alignment, size_t size, uintptr_t frame) {
    if (alignment <= 16)
        return allocate(size, ALLOCATE_PLAIN, frame);
    if (UNLIKELY(alignment > SIZE_MAX / 2 + 1)) {
        errno = EINVAL;
        return NULL;
    }
    size_t power = 1UL << (64 - __builtin_clzl(alignment - 1));
    return allocate_aligned(size, power, frame);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    return align_as_glibc(alignment, size, FRAME);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return align_as_glibc(alignment, size, FRAME);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t size) {
    if (!is_power_of_two(alignment) || alignment % sizeof(void *))
        return EINVAL;
    int saved = errno;
    void *chunk = alignment <= 16 ? allocate(size, ALLOCATE_PLAIN, FRAME)
                                  : allocate_aligned(size, alignment, FRAME);
    if (UNLIKELY(!chunk)) /* errno is ENOMEM, as with glibc, because programs read it */
        return ENOMEM;
    errno = saved;
    *result = chunk;
    return 0;
}

EXPORT void *valloc(size_t size) {
    return allocate_aligned(size, OS_PAGE_BYTES, FRAME);
}

EXPORT void *pvalloc(size_t size) {
    size_t rounded = align_up(size, OS_PAGE_BYTES);
    return allocate_aligned(rounded < size ? SIZE_MAX : rounded, OS_PAGE_BYTES, FRAME);
}

EXPORT size_t malloc_usable_size(void *chunk) {
    return region_usable(chunk);
}

#ifndef MEMCTX_UNIT
/* glibc's second names, which older programs call. */
EXPORT void *__libc_malloc(size_t size) ALIAS(malloc);
EXPORT void *__libc_calloc(size_t count, size_t size) ALIAS(calloc);
EXPORT void *__libc_memalign(size_t alignment, size_t size) ALIAS(memalign);
EXPORT void *__libc_valloc(size_t size) ALIAS(valloc);
EXPORT void *__libc_pvalloc(size_t size) ALIAS(pvalloc);
#endif
