/* SPDX-License-Identifier: MIT */
/*
 * serial.h - pages in which chunks stand one behind the other, in the order of their allocation.
 *
 * For: the policies generation and bump, that is, contexts whose chunks are freed in the order of
 * their allocation, or all together. Sizes are rounded to 16 bytes only, and nothing is searched: a
 * new chunk stands behind the last one. Cannot do: use freed memory again before all chunks of its
 * page are free. A context that keeps one chunk of many alive therefore wastes memory with these
 * policies.
 *
 * A page has 16 KiB, or 64 KiB for chunks over 1 KiB and for contexts with SERIAL_LARGE_BYTES
 * alive. Its memory is counted in units of 16 bytes. A *run* is a number of neighbouring chunks
 * that have the same number of units and the same slack (bytes that were not requested). The page
 * stores its runs, not its chunks. The last run is a word of the page's header (page.run), so a
 * chunk like the previous one needs no further memory. page.run has these fields, from the lowest
 * bit on, each with its number of bits:
 *   end of the run in units (13), units of a chunk (10), slack of a chunk (8),
 *   number of chunks (13), number of record words in the page (13)
 * All other runs have records at the page's end, away from the memory that programs write to. The
 * record of the first run stands last. A record has one word of 32 bits for a run of one chunk, and
 * a second word for a longer run:
 *   first word: first unit (12), units of a chunk (10), slack of a chunk (8), enum serial_record
 *   second word: first unit once more (12), number of chunks (13), enum serial_record
 * Records are numbered in the order of their chunks, so bisection finds the record of a chunk. No
 * bisection over all records is needed for a chunk in the last run, in the run that the owner's
 * last free found (page.found), or in the run behind that one.
 *
 * A table beside the page (page.gone) notes the chunks that are not alive any more. The first free
 * makes this table, unless the owner frees the only chunk in use. The table has two bits for each
 * unit: one for chunks that the owner freed or collected, one for chunks that other threads freed.
 *
 * Cost: no bytes for a chunk like the previous one; else 4 bytes for the record of the run that
 * ends, or 8 if that run has several chunks. A page with frees costs 1/64 of its size.
 *
 * Sources: PostgreSQL's generation contexts (Tomas Vondra, 2017) and bump contexts (David Rowley,
 * 2024).
 *
 * Threads: the page's owner, unless a function says otherwise. The thread that frees a chunk,
 * whether owner or not, notes that the chunk is not alive any more.
 */
#ifndef MEMCTX_SERIAL_H
#define MEMCTX_SERIAL_H

#include "region/blocks.h"

#define SERIAL_UNIT 16U
#define SERIAL_LARGE_BYTES (256L << 10) /* a context with so many live bytes gets large pages */

enum serial_state {
    SERIAL_DEAD = 0, /* freed or collected by the owner */
    SERIAL_LIVE,
    /* freed by another thread, and not collected by the owner yet. The thread may not have put the
     * chunk on page.remote yet. */
    SERIAL_FREED,
};
struct serial_chunk {
    /* distance from the page's start; bytes with the slack; bytes that were not requested */
    uint32_t offset, bytes, slack;
    enum serial_state state;
};

/* Allocates a chunk of up to SMALL_MAX bytes for a context whose region has RECIPE_SERIAL. If
 * `alignment` is above 16, size and alignment together are at most SMALL_MAX. The caller has called
 * look_around (alloc.c). *fresh becomes true when the memory is zero. NULL: out of memory. */
void *serial_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment,
                   bool *fresh);

/* The kinds of record words: the only word of a run of one chunk, and the first and second word of
 * a longer run. */
enum serial_record { SERIAL_ALONE = 0, SERIAL_SEVERAL, SERIAL_COUNT };

/* The layout of the last run's word and of the records. */
#define SERIAL_END_BITS 13
#define SERIAL_UNITS_BITS 10
#define SERIAL_SLACK_BITS 8
#define SERIAL_SHAPE_SHIFT SERIAL_END_BITS
#define SERIAL_SHAPE_BITS (SERIAL_UNITS_BITS + SERIAL_SLACK_BITS)
#define SERIAL_COUNT_SHIFT (SERIAL_SHAPE_SHIFT + SERIAL_SHAPE_BITS)
#define SERIAL_RECORDS_SHIFT (SERIAL_COUNT_SHIFT + SERIAL_END_BITS)
#define SERIAL_FIRST_BITS 12 /* the first unit, in the low bits of a record word */
#define SERIAL_KIND_SHIFT 30 /* enum serial_record, in the high bits of a record word */
struct serial_run {
    /* first unit of the run; units and slack of each chunk; number of chunks */
    uint32_t first, units, slack, count;
};
/* Returns the units and the slack of a chunk as page.run and the records hold them. */
INLINE uint32_t serial_shape(uint32_t units, uint32_t slack) {
    return units | slack << SERIAL_UNITS_BITS;
}
/* Returns the field of `bits` bits that starts at bit `shift`. */
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
/* Returns the record word with the number. Words with lower numbers have higher addresses. */
INLINE uint32_t *serial_record(const struct page *page, const char *start, unsigned number) {
    return (uint32_t *)(uintptr_t)(start + page->granule_mask + 1) - 1 - number;
}

/* True when the page has room for chunks up to the unit `end` and for `records` record words. */
INLINE bool serial_has_room(const struct page *page, uint32_t end, uint32_t records) {
    return (size_t)end * SERIAL_UNIT + records * sizeof(uint32_t) <= (size_t)page->granule_mask + 1;
}
/* Appends a chunk like the last one to `run`; the caller has checked that there is room. The run
 * is one word, so that a dump and a fork find a consistent page at any moment. */
INLINE char *serial_extend(struct page *page, uint64_t run, uint32_t units) {
    char *chunk = segment_span_start(page) + (size_t)serial_end(run) * SERIAL_UNIT;
    store_release(&page->next_block, chunk + (size_t)units * SERIAL_UNIT);
    store_release(&page->run, run + units + (1UL << SERIAL_COUNT_SHIFT));
    return chunk;
}

/* Like serial_alloc, but at an alignment of 16 bytes and from the current page only. Serves the
 * request only if the chunk has the units and the slack of the last chunk, or if the last run has
 * one chunk. NULL: use serial_alloc_current. */
INLINE void *serial_alloc_like_last(struct view *view, size_t size, bool *fresh) {
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
        serial_has_room(page, end + units, records + 1)) { /* append in serial.c does the same */
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
/* Allocates a chunk of up to SMALL_MAX bytes from the current page. NULL: there is no current page,
 * or it has no room. */
void *serial_alloc_current(struct heap *heap, struct view *view, size_t size, bool *fresh);
/* Leaves the region without a current page, so that the next chunk comes from another page. An
 * empty page is given back or becomes the spare page. */
void serial_put_aside(struct heap *heap, struct region *region);
/* Gives back the region's empty pages: the current page if it is empty, and the spare page. */
void serial_release_empty(struct region *region);
/* Gives back the OS pages without live chunks (punch.h) in all pages of the region except the
 * current one. Returns their bytes. */
size_t serial_punch(struct region *region);

/* Returns the bytes of the OS pages that hold or held chunks or records, without the OS pages
 * that were given back. */
size_t serial_touched(const struct page *page, const char *start);
/* A walk over the chunks of a page in order. serial_next returns false after the last chunk. A dump
 * may pass a copy of the page's header. Any thread. */
struct serial_walk {
    uint64_t run;           /* page.run when the walk began */
    uint32_t number;        /* number of record words that were read, plus one after the last run */
    struct serial_run rest; /* the chunks of the current run that were not visited yet */
};
INLINE struct serial_walk serial_walk(const struct page *page) {
    return (struct serial_walk){.run = load_acquire(&page->run)};
}
bool serial_next(const struct page *page, const char *start, struct serial_walk *walk,
                 struct serial_chunk *chunk);
/* Returns the bytes of all records of the page. */
INLINE size_t serial_record_bytes(const struct page *page) {
    return serial_records(load_acquire(&page->run)) * sizeof(uint32_t);
}

struct serial_sum {
    uint32_t chunks, bytes; /* number of chunks, and their bytes with the slack */
};
/* Adds up the live chunks of a page. Any thread. */
struct serial_sum serial_live(const struct page *page, const char *start);

#endif
