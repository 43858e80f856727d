/* SPDX-License-Identifier: MIT */
/*
 * serial.h - pages in which chunks stand one behind the other, in the order in which they were allocated.
 *
 * For: the policies generation and bump: contexts whose chunks die in the order in which they were born, or all
 * together. Nothing is rounded but to 16 bytes, and nothing is looked for: a chunk is what stands behind the last one. Cannot do:
 * use again what was freed, until everything in its page was; so contexts that keep one chunk of many lose by it.
 *
 * A page has 16 KiB, or 64 KiB for chunks over 1 KiB and contexts with SERIAL_LARGE_BYTES alive. Its records
 * stand at its end, the first one last, away from what programs write to; each is a word:
 *   first unit of 16 bytes (12), units (10), enum serial_state (2), bytes that were not requested (8)
 * and they are in the order of their chunks, so a chunk's is found by bisection, mostly at once: it is the one that was looked for last,
 * or the one behind it, or the last one.
 *
 * Sources: PostgreSQL's generation contexts (Tomas Vondra, 2017) and bump contexts (David Rowley, 2024).
 *
 * Threads: the page's owner, but for what says otherwise. A record's state belongs to who holds the chunk.
 */
#ifndef MEMCTX_SERIAL_H
#define MEMCTX_SERIAL_H

#include "region/blocks.h"

#define SERIAL_UNIT 16U
#define SERIAL_LARGE_BYTES (256L << 10)

enum serial_state {
    SERIAL_DEAD = 0,
    SERIAL_LIVE,
    SERIAL_FREED, /* by another thread, which may just link it to the page's `remote` */
};
struct serial_chunk {
    uint32_t offset, bytes, slack;
    enum serial_state state;
};

INLINE bool serial_is(uint32_t policy) {
    return UNLIKELY(policy == PLACE_GENERATION || policy == PLACE_BUMP);
}
/* A chunk of up to SMALL_MAX bytes, the alignment counted in, for a context whose region has one of these policies.
 * *fresh becomes true when it is zero. NULL: out of memory. */
void *serial_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment,
                   bool *fresh);

/* A record: where the chunk begins and how long it is, in units; its state; the bytes that were not requested. */
#define SERIAL_UNITS_SHIFT 12
#define SERIAL_STATE_SHIFT 22
#define SERIAL_SLACK_SHIFT 24
INLINE uint32_t serial_word(struct serial_chunk chunk) {
    return chunk.offset / SERIAL_UNIT | chunk.bytes / SERIAL_UNIT << SERIAL_UNITS_SHIFT |
           (uint32_t)chunk.state << SERIAL_STATE_SHIFT | chunk.slack << SERIAL_SLACK_SHIFT;
}
/* The record of that number; those before it stand behind it. */
INLINE uint32_t *serial_record(const struct page *page, const char *start, unsigned number) {
    return (uint32_t *)(uintptr_t)(start + page->granule_mask + 1) - 1 - number;
}

/* The same from the current page only, at 16 bytes' alignment. NULL: it is full, and others have to be looked for. */
INLINE void *serial_alloc_current(struct view *view, size_t size, bool *fresh) {
    struct page *page = region_of(view->region)->serial;
    if (UNLIKELY(!page))
        return NULL;
    uint32_t bytes = (uint32_t)align_up(size | !size, SERIAL_UNIT);
    char *start = segment_span_start(page), *chunk = page->next_block;
    uint32_t *record = serial_record(page, start, page->serial.records);
    if (UNLIKELY(chunk + bytes > (char *)record))
        return NULL;
    add_owner(&page->used, 1);
    store_owner(record, serial_word((struct serial_chunk){.offset = (uint32_t)(chunk - start),
                                                          .bytes = bytes,
                                                          .slack = bytes - (uint32_t)size,
                                                          .state = SERIAL_LIVE}));
    store_release(&page->next_block, chunk + bytes);
    store_release(&page->serial.records, (uint16_t)(page->serial.records + 1));
    *fresh = page->fresh;
    view_account_alloc(view, size);
    return chunk;
}
void serial_free(struct heap *heap, struct page *page, void *chunk);
/* Another thread's free, before blocks_free_remote: the bytes that were requested. Any thread. */
size_t serial_release(const struct page *page, void *chunk);
/* After it, instead: by who holds the lock of the owner, which is parked. */
void serial_free_of_parked(struct heap *owner, struct page *page, void *chunk);
/* What others freed, linked by their first words. */
void serial_collect(struct heap *heap, struct page *page, void *chunks);
/* The new size where the chunk stands. False: nothing changed. */
bool serial_resize(struct page *page, void *chunk, size_t size);
size_t serial_usable(const struct page *page, const void *chunk);    /* any thread */
size_t serial_requested(const struct page *page, const void *chunk); /* the same */

/* None of the page's chunks is alive any more; the accounts are the caller's. */
void serial_reset(struct heap *heap, struct region *region, struct page *page);
/* No chunk comes from the current page any more. */
void serial_put_aside(struct heap *heap, struct region *region);
/* Gives back what is kept empty. */
void serial_release_empty(struct region *region);
/* The OS pages of its pages in which nothing is alive: bytes that went back. */
size_t serial_punch(struct region *region);

/* Bytes of the OS pages that chunks or records are or were in, without those that were given back. */
size_t serial_touched(const struct page *page, const char *start);
/* The records of a page, from 0 on; for dumps, of a copy of its header. False: there are no more. Any thread. */
bool serial_next(const struct page *page, const char *start, unsigned *number,
                 struct serial_chunk *chunk);

struct serial_sum {
    uint32_t chunks, bytes;
};
struct serial_sum serial_live(const struct page *page, const char *start);

#endif
