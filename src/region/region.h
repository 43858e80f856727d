/* SPDX-License-Identifier: MIT */
/*
 * region.h - chunks of one (thread, context): allocate, free, resize, look at.
 *
 * A function that allocates, resizes or frees takes the heap that the calling thread has entered
 * (api/thread.h). A function that allocates or resizes also takes the view of the context that
 * pays. Small chunks (up to SMALL_MAX bytes) stand in pages: in pages of the context's own once the
 * context has enough bytes alive (promote, alloc.c) and the waste cap allows, in mixed pages before
 * that. Larger chunks are spans of slices or huge mappings. The common malloc and free are in
 * api/fast.h and call these functions for the cases that they do not serve.
 *
 * Unless a comment says otherwise, NULL means out of memory, and nothing has changed. errno is
 * never written.
 */
#ifndef MEMCTX_REGION_H
#define MEMCTX_REGION_H

#include "base/options.h"
#include "region/member.h"
#include "region/page_kinds.h"
#include "region/serial.h"
#include "region/simple.h"
#include "region/terms.h"

#define REGION_SIZE_MAX ((size_t)PTRDIFF_MAX)

/* Allocates a chunk of any size; `zero`: with all bytes zero. */
void *region_alloc(struct heap *heap, struct view *view, size_t size, bool zero);
/* Like region_alloc, but for chunks that need more than SMALL_MAX bytes with their alignment. */
void *region_alloc_large(struct heap *heap, struct view *view, size_t size, size_t alignment,
                         bool zero);
void *region_alloc_aligned(struct heap *heap, struct view *view, size_t size, size_t alignment);
/* Copies the contents of a chunk to a new chunk of at least as many bytes. OS pages of a large
 * chunk that contain only zeros, because the program never wrote them, do not become resident. */
void region_copy(void *to, const void *from, size_t bytes);
/* Gives back the memory of a large chunk. The caller has already updated the accounts and
 * removed the chunk from its lists. */
void region_give_large(struct heap *heap, struct page *page);
/* Frees a chunk that is in no page of this heap: a large chunk, or a chunk of another heap. Does
 * nothing for NULL. Counts and ignores a pointer that is not the library's. `page` is the page that
 * segment_page_of found; NULL: it found none. */
void region_free_foreign(struct heap *heap, struct page *page, void *chunk);
/* Frees a chunk in a page that belongs to another thread's heap, or to a parked heap. */
void region_free_by_other_thread(struct heap *heap, struct page *page, void *chunk);
/* The common case of region_free_by_other_thread: a narrow page without META_ flags except
 * META_MIXED, of a heap whose thread still runs. `chunk` is in `page`, and `owner` is the heap that
 * the page's header names. False: nothing changed, and the caller uses region_free_in. */
bool region_free_block_by_other_thread(struct heap *heap, struct heap *owner, struct page *page,
                                       void *chunk);
/* Resizes a chunk where it stands, if its page kind allows that (page_kinds.h); the chunk then
 * belongs to `view`. False: nothing changed; use region_realloc. */
bool region_resize(struct heap *heap, struct view *view, void *chunk, size_t size);
/* Resizes a chunk, keeps its contents and may move it; the chunk then belongs to `view`. NULL: out
 * of memory, or the pointer is not the library's; the old chunk is intact. */
void *region_realloc(struct heap *heap, struct view *view, void *chunk, size_t size);
/* Like region_alloc, but for a chunk that replaces a chunk of `had` usable bytes. If the new chunk
 * is larger by less than a quarter, its block mostly has room for a quarter more than `had`, so
 * that the chunk can grow again in its block. */
void *region_alloc_grown(struct heap *heap, struct view *view, size_t size, size_t had);
/* Adds to the accounts the chunks that signal handlers got from segment_emergency_alloc, which
 * counts no chunk. */
void region_settle(struct heap *heap);
/* Returns the page of a chunk, also of a huge one. NULL: the pointer is not the library's. */
struct page *region_page_of(const void *chunk);
/* True for a pointer to a multiple of SEGMENT_BYTES. segment_page_of would take such a pointer for
 * the first slice of a segment, but the pointer can only be the start of a huge chunk
 * (segment/segment.h). */
INLINE bool region_is_behind_segment(const void *chunk) {
    return !((uintptr_t)chunk & (SEGMENT_BYTES - 1));
}
/* Returns the context that pays for the chunk, or paid for it if its block is free.
 * REGION_NO_CONTEXT: the chunk is not the library's, or nothing is known of it any more. */
uint32_t region_context_of(const void *chunk);
/* Returns the number of the crowd member (region/member.h) that owns the chunk; 0: no member
 * owns it. */
uint32_t region_member_of(const void *chunk);
/* region_usable returns the bytes of the chunk that the program may use, region_requested the bytes
 * that the program requested. 0: the pointer is NULL or not the library's. */
size_t region_usable(const void *chunk);
size_t region_requested(const void *chunk);

enum region_misuse {
    MISUSE_DOUBLE_FREE,
    MISUSE_INTERIOR, /* a pointer that is not the start of a chunk */
    /* The misuses below are found later than they were made. */
    MISUSE_OVERFLOW,
    MISUSE_WRITTEN_FREE,
    MISUSE_FREED_IN_RESET
};
void region_free_empty(struct bins *bins); /* frees a region without pages; `bins` may be NULL */
/* Sets the policy of a region's next chunks (PLACE_DEFAULT, or a value from PLACE_SLAB on). Pages
 * that do not fit the new policy get no new chunks, and each of these pages is given back when it
 * is empty. */
void region_change_policy(struct heap *heap, struct bins *bins, uint32_t policy);
/* Prints a line that names the misuse and the address, and then the call paths. Ends the program.
 */
__attribute__((noreturn)) void region_report(enum region_misuse misuse, const struct page *page,
                                             const void *chunk);

/* Returns the start of the block that holds a chunk which does not start there. `index` is the
 * block's number within its granule. Ends the program if no chunk can start at the pointer. */
char *region_block_around(const struct page *page, const char *granule, unsigned index,
                          const void *chunk);

/* Returns the number, within its granule, of the block that holds the chunk, and the block's start
 * in *block. Ends the program for a pointer that cannot be the start of a chunk. */
INLINE unsigned region_block_index(const struct page *page, const char *granule, const void *chunk,
                                   char **block) {
    bool exact;
    unsigned index = blocks_index(page, granule, chunk, &exact);
    *block = (char *)(uintptr_t)chunk;
    if (UNLIKELY(index >= page->granule_capacity || !exact))
        *block = region_block_around(page, granule, index, chunk);
    if (UNLIKELY(!blocks_was_handed_out(page, *block)))
        region_report(MISUSE_INTERIOR, page, chunk);
    return index;
}

/* Returns the record of the block that holds the chunk, and the block's start in *block. */
INLINE void *region_block_of(const struct page *page, const void *chunk, char **block) {
    const char *granule = blocks_granule(page, chunk);
    return blocks_record(page, granule, region_block_index(page, granule, chunk, block));
}

/* Takes a block of the current page for a chunk of `size` bytes. `narrow`: the page is a narrow
 * one; else it may be wide. *fresh becomes true when the memory is zero. NULL: the page has no
 * freed block, and its open granule has no untouched block left; or its blocks are too small. */
INLINE char *region_take(struct heap *heap, struct page *page, struct view *view, size_t size,
                         bool narrow, bool *fresh) {
    if (UNLIKELY(size > page->block_bytes)) /* happens with RECIPE_EXACT: region/slab.h */
        return NULL;
    char *block = page->free;
    /* If `page` is a stand-in, tries the page behind it. In stand-ins and mixed pages waste_unit is
     * 0. In a mixed page `behind` is NULL, because it shares its word with `view`. */
    if (UNLIKELY(!block) && !page->fresh_left) {
        page = page->waste_unit ? NULL : page->behind;
        if (!page)
            return NULL;
        block = page->free;
    }
    if (LIKELY(block != NULL)) {
        blocks_unlink(page, block);
        add_owner(&heap->own_free, -(int64_t)page->waste_unit);
    } else if (LIKELY(page->fresh_left)) {
        block = page->next_block;
        store_owner(&page->next_block, block + page->block_bytes);
        store_owner(&page->fresh_left, (uint16_t)(page->fresh_left - 1));
        *fresh = page->fresh;
    } else {
        return NULL;
    }
    order_stores(); /* a child that is forked between the two stores loses one block: safe */
    add_owner(&page->used, 1);
    uint32_t slack = page->block_bytes - (uint32_t)size;
    if (narrow)
        record_set_narrow(page, block, view->index, slack);
    else
        record_set(page, block, view->index, slack);
    view_account_alloc(view, size);
    return block;
}

/* Allocates up to NARROW_MAX bytes from the current page of the view's bins. NULL: this page cannot
 * serve the request, or the bins are heap_no_bins, because region_alloc has to choose the bins
 * anew. */
INLINE void *region_alloc_narrow(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    return region_take(heap, view->bins->current[bins_class_narrow(heap, size)], view, size, true,
                       fresh);
}

/* Like region_alloc_narrow, but for up to SMALL_MAX bytes. */
void *region_alloc_wide(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* Use this after region_alloc_narrow or region_alloc_wide returned NULL. Allocates directly behind
 * the context's last chunk, if the context's policy is generation or bump and its current page has
 * room. NULL: use region_alloc_listed. */
INLINE void *region_alloc_serial(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    if (LIKELY(!(view->bins->recipe & RECIPE_SERIAL)))
        return NULL;
    void *chunk = serial_alloc_like_last(view, size, fresh);
    return chunk ? chunk : serial_alloc_current(heap, view, size, fresh);
}
/* Like region_alloc_serial, but for the policy simple. Takes a block of the region's current page,
 * and adds the block to the region's list. NULL: the context has another policy or a limit, its
 * placement has to be looked at again, any context has terms, the page has no block, or the chunk
 * and its links need more than NARROW_MAX bytes. Use region_alloc_next_page then. */
INLINE void *region_alloc_listed(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    size_t room = (size | !size) + sizeof(struct simple_node);
    if (LIKELY(!view->region) || !(view->region->recipe & RECIPE_CHAINED) || room > NARROW_MAX ||
        terms_exist() || region_of(view->region)->limit ||
        region_of(view->region)->looked != load_relaxed(&heap_placings))
        return NULL;
    struct page *page = view->region->current[blocks_class_of(room)];
    char *block = simple_is(page) ? region_take(heap, page, view, size, true, fresh) : NULL;
    if (LIKELY(block != NULL))
        simple_link(page, block);
    return block;
}
/* Use this after region_alloc_listed returned NULL. Makes another page that has free blocks the
 * current page, and allocates from it. NULL: no other page has free blocks, or the heap's periodic
 * work is due (look_around, alloc.c); use region_alloc. */
void *region_alloc_next_page(struct heap *heap, struct view *view, size_t size, bool *fresh);

/* Frees a chunk of any kind, in a page of any heap. Does nothing for NULL. `page` is the page that
 * segment_page_of finds; NULL: it finds none. */
INLINE void region_free_in(struct heap *heap, struct page *page, void *chunk) {
    if (UNLIKELY(!page || page->heap != heap)) {
        region_free_foreign(heap, page, chunk);
        return;
    }
    page_kind_of(page)->free_own(heap, page, chunk);
}
INLINE void region_free(struct heap *heap, void *chunk) {
    region_free_in(heap, segment_page_of(chunk), chunk);
}

#endif
