/* SPDX-License-Identifier: MIT */
/*
 * punch.h - giving back the OS pages, of pages that are in use, in which no block is.
 *
 * A page of 16 or 64 KiB that one small chunk keeps alive has mostly OS pages with nothing in them.
 * Asked for it (memctx trim TARGET CONTEXT) the owner takes their blocks out of the page's list and
 * hands the memory to the kernel; a mask in the page's header says which. Blocks come back an OS
 * page at a time, when the page has no other free one, so a page that is not allocated from stays
 * punched.
 *
 * Held out are the free blocks that touch such an OS page: no block in use does, so the mask alone
 * tells them. Blocks that another thread just freed and the owner has not collected yet count as
 * used. An OS page with the records of blocks beyond it stays.
 *
 * Threads: the page's owner, or who has the lock of a parked heap. trim_ask: the control thread.
 */
#ifndef MEMCTX_PUNCH_H
#define MEMCTX_PUNCH_H

#include "region/blocks.h"

/* Whether a free block's memory went back: its record says nothing then. */
INLINE bool blocks_is_punched(const struct page *page, const char *block) {
    uint64_t mask = blocks_punched(page);
    if (LIKELY(!mask))
        return false;
    size_t offset = (size_t)(block - segment_span_start(page));
    unsigned first = (unsigned)(offset / OS_PAGE_BYTES);
    unsigned last = (unsigned)((offset + page->block_bytes - 1) / OS_PAGE_BYTES);
    return mask >> first & ((2UL << (last - first)) - 1);
}
/* How many blocks are held out. */
size_t punch_held(const struct page *page);

/* What the control thread asks of the heaps, each of which answers with its next slow allocation:
 * to give back pages that are kept empty, and, with `punch`, OS pages, of the contexts that are
 * marked. */
INTERNAL struct trim_wanted {
    bool all, punch;  /* every context, not only the marked ones */
    int64_t released; /* atomic: bytes of punched OS pages */
} trim_wanted;
INTERNAL uint32_t trim_number; /* atomic: of the last one; heap->trims follows */
#define TRIM_MARK 128U         /* beside the placement in heap_placed */
/* Under the heap's lock, or by its thread. */
void trim_heap(struct heap *heap);

#endif
