/* SPDX-License-Identifier: MIT */
/*
 * pages.h - reads pages while their owners use them, and tells them as a piece of a dump.
 *
 * For: dumps, `memctx frag`, the automatic choice. No thread is stopped. A page is read from its
 * header and its records by relaxed loads, and a page that changes meanwhile may appear in its old
 * or in its new state. Segments stay mapped meanwhile: segment_each holds the unmap lock.
 *
 * Cost: a header a page, and the record of each block or chunk; in the light form of a dump only
 * the records in mixed and serial pages.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_FIGURES_PAGES_H
#define MEMCTX_FIGURES_PAGES_H

#include "figures/pieces.h"

struct page;
struct segment;

/* Returns the smallest slack (block size less requested size) of the live blocks of a page that
 * belongs to one context, in units of 16 bytes, rounded down. With blocks of exactly the requested
 * sizes (policy slab) each block would be smaller by at least this slack. */
uint8_t pages_spare_units(const struct page *page, const char *start);
/* Calls `visit` with a copy of each page's header, for each page of a sliced segment from the slice
 * `from` on, until `visit` returns false. Returns the slice of the page for which `visit`
 * returned false; 0: all pages were visited. `resident`: the vector from os_resident_vector. With
 * the vector, pages are skipped whose headers were given back to the kernel, because a read would
 * map the headers again. `resident` NULL: every header is read. */
unsigned pages_each(const struct segment *segment, unsigned from, const unsigned char *resident,
                    bool (*visit)(const struct page *page, const char *start, void *context),
                    void *context);
/* Returns the resident bytes of all segments, huge chunks and mappings that wait in the freelist;
 * -1: the kernel does not tell. Cost: the kernel looks at each OS page, about 1 ms for each GiB.
 * The unmap lock is released every 64 segments. */
int64_t pages_resident_bytes(void);
/* Early values of segment_clock. pages_clock_begin: the value when the library's constructor ran,
 * in this process or in the process that forked it. pages_clock_start: the value when the control
 * thread began to serve. */
INTERNAL uint32_t pages_clock_begin, pages_clock_start;
/* Writes the records of pages (WIRE_PART_PAGES) into a piece. Returns enum wire_status. */
uint32_t pages_piece(struct piece *piece);

#endif
