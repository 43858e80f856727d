/* SPDX-License-Identifier: MIT */
/*
 * scan.h - what pages.c and scan_content.c share: a scan over all pages of the target, and a page's
 * header.
 */
#ifndef MEMCTX_OUTSIDE_SCAN_H
#define MEMCTX_OUTSIDE_SCAN_H

#include "outside/tables.h"

#define OS_PAGE_BYTES 4096U

struct scan {
    struct tables *tables;
    /* segment_clock now, pages_clock_begin and pages_clock_start (src/figures/pages.h) */
    uint32_t clock, begun, started;
    uint64_t segment_bytes, slice_bytes;
    uint32_t slices; /* number of slices of a segment */
    char *headers;   /* page headers of one segment */
    char *blocks;    /* the content of one page */
    unsigned char *resident;
    bool resident_known;
    bool light; /* blocks in pages of one context are not examined */
};

struct scan_header { /* the header of a page, copied from the target */
    uint64_t start, bytes, run, heap, view, next_block, remote, gone, requested, punched, owners;
    uint32_t block_bytes, used, fresh_left, first, granule_mask, records;
    uint32_t flags, kind, meta, granule_capacity, context, filled, slices, capacity, born;
};

#define IS(name) CONSTANT(scan->tables, name)

/* Rounds up to a multiple of OS_PAGE_BYTES. */
static inline uint64_t scan_align_os(uint64_t bytes) {
    return (bytes + OS_PAGE_BYTES - 1) & ~(uint64_t)(OS_PAGE_BYTES - 1);
}

/* Returns the bytes up to the end of the last block that was ever handed out, in whole OS pages. */
uint64_t scan_reached_bytes(const struct scan_header *page);
/* Returns the resident bytes of a part of the segment that is being scanned. */
int64_t scan_resident_in(const struct scan *scan, uint64_t start, uint64_t bytes);
/* Sets the figures of a page of blocks that come from the records of its blocks. */
void scan_blocks(struct scan *scan, const struct scan_header *page, struct seen_page *out);
/* Sets the figures of a serial page that come from its chunks. */
void scan_chunks(struct scan *scan, const struct scan_header *page, struct wire_page *out);

#endif
