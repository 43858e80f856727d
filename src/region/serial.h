/* SPDX-License-Identifier: MIT */
/*
 * serial.h - pages in which chunks stand one behind the other, in the order in which they were
 * allocated.
 *
 * For: the policies generation and bump: contexts whose chunks die in the order in which they were
 * born, or all together. Nothing is rounded but to 16 bytes, and nothing is looked for: a chunk is
 * what stands behind the last one. Cannot do: use again what was freed, until everything in its
 * page was; so contexts that keep one chunk of many lose by it.
 *
 * A page has 16 KiB, or 64 KiB for chunks over 1 KiB and contexts with SERIAL_LARGE_BYTES alive.
 * What stands where is kept by runs, of chunks that are alike. The last run is a word of the page's
 * header, so a chunk like the one before costs nothing beside itself: its end in units of 16 bytes
 * (13), units of a chunk (10), bytes of each that were not requested (8), chunks (13), records (13)
 * The others are records at the page's end, the first one last, away from what programs write to, a
 * word for a chunk that is alone, two for more: first unit (12), units of a chunk (10), bytes not
 * requested (8), enum serial_record (2) first unit once more (12), chunks (13), enum serial_record
 * They are in the order of their chunks, so a chunk's is found by bisection, mostly at once: it is
 * in the last run, or in the one that was looked for last, or behind that. What is not alive any
 * more stands in a table beside the page, which the first free makes that leaves others alive: by
 * unit, a bit for what the owner freed or collected, then one for what others freed.
 *
 * Cost: nothing for a chunk like the one before, else 4 bytes, 8 for the end of a run of several; a
 * page with frees 1/64 of its size.
 *
 * Sources: PostgreSQL's generation contexts (Tomas Vondra, 2017) and bump contexts (David Rowley,
 * 2024).
 *
 * Threads: the page's owner, but for what says otherwise. That a chunk is not alive is noted by who
 * held it.
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
/* A chunk of up to SMALL_MAX bytes, the alignment counted in, for a context whose region has one of
 * these policies. *fresh becomes true when it is zero. NULL: out of memory. */
void *serial_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment,
                   bool *fresh);

enum serial_record { SERIAL_ALONE = 0, SERIAL_SEVERAL, SERIAL_COUNT };

/* The last run, and the records. */
#define SERIAL_END_BITS 13
#define SERIAL_UNITS_BITS 10
#define SERIAL_SLACK_BITS 8
#define SERIAL_SHAPE_SHIFT SERIAL_END_BITS
#define SERIAL_SHAPE_BITS (SERIAL_UNITS_BITS + SERIAL_SLACK_BITS)
#define SERIAL_COUNT_SHIFT (SERIAL_SHAPE_SHIFT + SERIAL_SHAPE_BITS)
#define SERIAL_RECORDS_SHIFT (SERIAL_COUNT_SHIFT + SERIAL_END_BITS)
#define SERIAL_FIRST_BITS 12 /* in a record; what follows it: */
#define SERIAL_KIND_SHIFT 30
struct serial_run {
    uint32_t first, units, slack, count; /* of a chunk: units and slack */
};
INLINE uint32_t serial_shape(uint32_t units, uint32_t slack) {
    return units | slack << SERIAL_UNITS_BITS;
}
INLINE uint32_t serial_bits(uint64_t word, unsigned shift, unsigned bits) {
    return (uint32_t)(word >> shift) & ((1U << bits) - 1);
}
INLINE uint32_t serial_end(uint64_t run) {
    return serial_bits(run, 0, SERIAL_END_BITS);
}
INLINE uint32_t serial_records(uint64_t run) {
    return (uint32_t)(run >> SERIAL_RECORDS_SHIFT);
}
INLINE struct serial_run serial_last_run(uint64_t run) {
    struct serial_run last = {
        .units = serial_bits(run, SERIAL_SHAPE_SHIFT, SERIAL_UNITS_BITS),
        .slack = serial_bits(run, SERIAL_SHAPE_SHIFT + SERIAL_UNITS_BITS, SERIAL_SLACK_BITS),
        .count = serial_bits(run, SERIAL_COUNT_SHIFT, SERIAL_END_BITS)};
    last.first = serial_end(run) - last.units * last.count;
    return last;
}
/* The record of that number; those before it stand behind it. */
INLINE uint32_t *serial_record(const struct page *page, const char *start, unsigned number) {
    return (uint32_t *)(uintptr_t)(start + page->granule_mask + 1) - 1 - number;
}

/* Whether there is room for chunks up to that unit, and so many records. */
INLINE bool serial_has_room(const struct page *page, uint32_t end, uint32_t records) {
    return (size_t)end * SERIAL_UNIT + records * sizeof(uint32_t) <= (size_t)page->granule_mask + 1;
}
/* One more of the same at the end of `run`, for which there is room. It is one word, so what a dump
 * reads is in order at any moment, and what a fork finds as well. */
INLINE char *serial_extend(struct page *page, uint64_t run, uint32_t units) {
    char *chunk = segment_span_start(page) + (size_t)serial_end(run) * SERIAL_UNIT;
    store_release(&page->next_block, chunk + (size_t)units * SERIAL_UNIT);
    store_release(&page->run, run + units + (1UL << SERIAL_COUNT_SHIFT));
    return chunk;
}
/* A chunk from that unit on, behind `run`: the last one, or what it will be without a chunk that is
 * to be replaced. NULL: there is no room. */
char *serial_append(struct page *page, uint64_t run, uint32_t first, uint32_t units,
                    uint32_t slack);

/* The same from the current page only, at 16 bytes' alignment, where the chunk is like the last
 * one, or that is alone: NULL: use serial_alloc_current. */
INLINE void *serial_alloc_quick(struct view *view, size_t size, bool *fresh) {
    struct page *page = region_of(view->region)->serial;
    if (UNLIKELY(!page))
        return NULL;
    uint64_t run = page->run;
    uint32_t bytes = (uint32_t)align_up(size | !size, SERIAL_UNIT), units = bytes / SERIAL_UNIT;
    uint32_t shape = serial_shape(units, bytes - (uint32_t)size), end = serial_end(run);
    uint32_t last = serial_bits(run, SERIAL_SHAPE_SHIFT, SERIAL_SHAPE_BITS);
    uint32_t records = serial_records(run);
    char *chunk;
    if (shape != last && serial_bits(run, SERIAL_COUNT_SHIFT, SERIAL_END_BITS) == 1 &&
        serial_has_room(page, end + units, records + 1)) { /* as serial_append would */
        uint32_t first = end - serial_bits(last, 0, SERIAL_UNITS_BITS);
        store_owner(serial_record(page, segment_span_start(page), records),
                    first | last << SERIAL_FIRST_BITS);
        run = end | (uint64_t)shape << SERIAL_SHAPE_SHIFT |
              (uint64_t)(records + 1) << SERIAL_RECORDS_SHIFT;
        chunk = serial_extend(page, run, units);
    } else if (shape == last && serial_has_room(page, end + units, records)) {
        chunk = serial_extend(page, run, units);
    } else {
        return NULL;
    }
    add_owner(&page->used, 1);
    *fresh = page->fresh;
    view_account_alloc(view, size);
    return chunk;
}
/* The same, whatever stands before it. NULL: the page is full, and others have to be looked for. */
void *serial_alloc_current(struct heap *heap, struct view *view, size_t size, bool *fresh);
void serial_free(struct heap *heap, struct page *page, void *chunk);
/* Another thread's free, before blocks_free_remote, and the bytes that were requested. Any thread.
 * False: there is no memory to note it, and the chunk stays alive. */
bool serial_release(struct page *page, void *chunk, size_t *requested);
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

/* Bytes of the OS pages that chunks or records are or were in, without those that were given back.
 */
size_t serial_touched(const struct page *page, const char *start);
/* The chunks of a page, one after the other; for dumps, of a copy of its header. False: there are
 * no more. Any thread. */
struct serial_walk {
    uint64_t run;           /* as it was when the walk began */
    uint32_t number;        /* records that were read, and one for the last run */
    struct serial_run rest; /* of the current one */
};
INLINE struct serial_walk serial_walk(const struct page *page) {
    return (struct serial_walk){.run = load_acquire(&page->run)};
}
bool serial_next(const struct page *page, const char *start, struct serial_walk *walk,
                 struct serial_chunk *chunk);
/* Bytes of its records. */
INLINE size_t serial_record_bytes(const struct page *page) {
    return serial_records(load_acquire(&page->run)) * sizeof(uint32_t);
}

struct serial_sum {
    uint32_t chunks, bytes;
};
struct serial_sum serial_live(const struct page *page, const char *start);

#endif
