/* SPDX-License-Identifier: MIT */
/*
 * page_kinds.h - the functions that free, resize, look at and visit the chunks of a page: a table
 * by page->kind.
 *
 * A chunk belongs to its page, and the page may outlive the policy that placed the chunk. So
 * freeing, resizing and looking at a chunk depend on the kind of its page alone. There are five
 * sets of functions:
 *   blocks   PAGE_OWN, PAGE_MIXED: blocks of one size (kind_blocks.c)
 *   serial   PAGE_SERIAL: chunks one behind the other (serial.c)
 *   large    PAGE_SPAN, PAGE_HUGE: one large chunk (large.c)
 *   none     PAGE_NONE: no page, and no chunk (page_kinds.c)
 *   waiting  PAGE_WAITING: a guarded chunk that was freed (page_kinds.c)
 * The common malloc and free handle pages of blocks without this table (api/fast.h).
 *
 * Threads: the owner of the page's heap, unless a field says otherwise. The table is constant.
 */
#ifndef MEMCTX_PAGE_KINDS_H
#define MEMCTX_PAGE_KINDS_H

#include "base/text.h"
#include "region/bins.h"

/* A chunk that a thread has freed in another thread's page and now hands over to the page's owner.
 */
struct freed {
    const struct view *paid; /* the view that paid for the chunk until now */
    size_t requested;        /* requested bytes of the chunk */
    void *block;             /* the start of the chunk's block */
};

/* Called for a chunk in use. `room`: the bytes of its block. */
typedef void page_visit(char *chunk, uint32_t room, uint32_t requested, void *context);

struct page_kind {
    /* Frees a chunk of a page of `heap`. Ends the program for a pointer to no chunk in use. */
    void (*free_own)(struct heap *heap, struct page *page, void *chunk);
    /* Frees a chunk of a page that does not belong to `heap`. Any thread. */
    void (*free_foreign)(struct heap *heap, struct page *page, void *chunk);
    /* The three parts of a free by another thread (remote.c); NULL for kinds whose pages belong to
     * no heap. `release` notes in the page that the chunk is free; any thread may call it. False:
     * there is no memory for the note, and the chunk stays in use. `free_parked` then frees the
     * block for an owner whose thread ended; the caller holds the lock of the owner's heap.
     * `collect` puts a chain of `length` blocks, which other threads freed, back into the page;
     * `last` is the last block of the chain. */
    bool (*release)(struct heap *heap, struct page *page, void *chunk, struct freed *freed);
    void (*free_parked)(struct heap *owner, struct page *page, void *block);
    void (*collect)(struct heap *heap, struct page *page, void *chain, void *last, uint16_t length);

    /* Resizes a chunk where it stands, or moves it without a copy; the chunk then belongs to
     * `view`. The page may belong to another heap. Returns the chunk; *had becomes the bytes that
     * were requested before. NULL: nothing changed, and *had is not set. */
    void *(*resize)(struct heap *heap, struct view *view, struct page *page, void *chunk,
                    size_t size, size_t *had);

    /* For any thread. `context_of` returns the context that pays for the chunk, or
     * REGION_NO_CONTEXT; `usable` the bytes of the chunk that the program may use; `requested` the
     * bytes that the program asked for. */
    uint32_t (*context_of)(const struct page *page, const void *chunk);
    size_t (*usable)(const struct page *page, const void *chunk);
    size_t (*requested)(const struct page *page, const void *chunk);
    /* Adds the kind of memory ("block of 64 bytes") to a report of misuse. */
    void (*describe)(const struct page *page, struct text *text);
    /* Prints the call paths behind a misuse. NULL: the caller prints the path of the chunk's
     * context. */
    void (*explain)(const struct page *page);

    /* For the pages of blocks and the serial pages of a region; NULL for other kinds. `each_used`
     * visits the chunks in use. `reset` frees all chunks of a page and leaves the accounts alone;
     * *kept adds up the bytes of the pages that this reset of the region keeps. `waste` returns the
     * page's part of heap.own_free. `list_holds` returns false when the page's list of free blocks
     * is damaged, because the program wrote to a free block. */
    void (*each_used)(const struct page *page, page_visit *visit, void *context);
    void (*reset)(struct heap *heap, struct region *region, struct page *page, uint32_t *kept);
    int64_t (*waste)(const struct page *page);
    bool (*list_holds)(const struct page *page);
};

INTERNAL const struct page_kind page_kind_blocks, page_kind_serial, page_kind_large;
INTERNAL const struct page_kind *const page_kinds[PAGE_KINDS];

INLINE const struct page_kind *page_kind_of(const struct page *page) {
    return page_kinds[load_relaxed(&page->kind)];
}

#endif
