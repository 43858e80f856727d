/* SPDX-License-Identifier: MIT */
/*
 * free, and the cases that free_inline (api/fast.h) does not serve.
 *
 * Nothing here looks up a call path, so the Makefile builds this file without frame pointers,
 * unlike most others.
 */
#include "api/fast.h"

#include <errno.h>
#include <stdlib.h>

#include "api/names.h"

NOINLINE void free_not_entered(void *chunk) {
    struct heap *heap;
    if (!chunk)
        return;
    int saved = errno; /* free keeps errno (POSIX.1-2024); pthread_setspecific may change it */
    enum thread_access access = thread_enter_any(&heap);
    if (access == THREAD_NONE) {
        if (segment_page_of(chunk) || segment_huge_of(chunk))
            thread_defer_free(chunk);
        else
            add_relaxed(&heap_global.foreign_frees, 1);
    } else {
        thread_settle(heap);
        region_free(heap, chunk);
        thread_leave_any(heap, access);
    }
    errno = saved;
}

NOINLINE void free_foreign(struct heap *heap, void *chunk) {
    if (LIKELY(segment_is_near(chunk))) {
        struct page *page = segment_slice_of(chunk);
        page -= page->back;
        struct heap *owner = page->heap;
        if (UNLIKELY(!owner) || !region_free_block_by_other_thread(heap, owner, page, chunk))
            region_free_in(heap, page, chunk);
    } else {
        region_free(heap, chunk);
    }
    thread_leave(heap);
}

NOINLINE void free_by_page_kind(struct heap *heap, struct page *page, void *chunk) {
    unsigned meta = load_plain(&page->meta_shift);
    bool changes, done = false;
    if (LIKELY(meta == META_OWNERS))
        done = free_block_with_owner(heap, page, chunk, &changes);
    else if ((meta & ~(META_MIXED | META_OWNERS)) == META_WIDE)
        done = free_wide_block(heap, page, chunk, &changes);
    if (UNLIKELY(!done))
        page_kind_of(page)->free_own(heap, page, chunk);
    else if (UNLIKELY(changes))
        page_after_free(heap, page, chunk);
    thread_leave(heap);
}

NOINLINE void free_changes_page(struct heap *heap, struct page *page, void *block) {
    page_after_free(heap, page, block);
    thread_leave(heap);
}

EXPORT void free(void *chunk) {
    free_inline(chunk);
}

EXPORT void free_sized(void *chunk, size_t size) {
    (void)size;
    free(chunk);
}

EXPORT void free_aligned_sized(void *chunk, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    free(chunk);
}

EXPORT void cfree(void *chunk) {
    free(chunk);
}

#ifndef MEMCTX_UNIT
void free_plain(void *chunk) HIDDEN_ALIAS(free);
EXPORT void __libc_free(void *chunk) ALIAS(free);
#endif
