/* SPDX-License-Identifier: MIT */
/*
 * scan.h - the state of a scan over pages, which pages.c and page_content.c share.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_FIGURES_SCAN_H
#define MEMCTX_FIGURES_SCAN_H

#include "figures/pieces.h"
#include "region/heap.h"

/* OS pages in the largest page of blocks. */
#define OS_PAGES_MAX (WIDE_PAGE_SLICES * SLICE_BYTES / OS_PAGE_BYTES)
/* Size of a hash table from contexts to their shares of a mixed page. A page has at most half as
 * many blocks as the table has slots, so it has at most half as many contexts. */
#define SHARES_HASH 2048U
#define SHARES_MAX (SHARES_HASH / 2)

struct scan {
    struct piece *piece;
    /* Where the piece begins: place of the segment (segment_place), slice, and in a mixed page the
     * block. */
    uint64_t place;
    uint32_t slice, block;
    bool light; /* blocks in pages of one context are not examined */
    unsigned char resident[SEGMENT_BYTES / OS_PAGE_BYTES]; /* for the segment that is read */
    bool resident_known;                                   /* `resident` is filled */
    struct wire_page *last; /* last record of this segment; the next page may extend it */
    /* The mixed page that is examined. Blocks with numbers below from_block were written into an
     * earlier piece of the dump; block_now is the number of the block that is examined. */
    uint32_t from_block, block_now;
    bool full; /* the answer had no room from block from_block on */
    struct {
        uint32_t context, serial; /* a slot with another page's serial is empty */
    } hash[SHARES_HASH];
    uint16_t share_of[SHARES_HASH]; /* by slot of the hash table: index in `shares` */
    struct wire_share *shares;      /* in the answer, behind the page's record */
    uint32_t share_count, serial;   /* `serial` counts mixed pages */
};

/* Returns the bin of wire_page.os_pages for `live` of `capacity` bytes. */
unsigned scan_occupancy_bin(uint64_t live, uint64_t capacity);
/* Returns the resident bytes from `start` to `end`; `resident` as in struct scan. */
int64_t scan_resident_in(const unsigned char *resident, uintptr_t start, uintptr_t end);
/* Examines each block: counts the live bytes of each OS page, and in a mixed page the blocks of
 * each context. */
void scan_blocks(struct scan *scan, const struct page *page, const char *start,
                 struct wire_page *out);
/* Examines a serial page, whose chunks follow each other without blocks of fixed size: counts the
 * live bytes of each OS page. */
void scan_chunks(const struct scan *scan, const struct page *page, const char *start,
                 struct wire_page *out);

#endif
