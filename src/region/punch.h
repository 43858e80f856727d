/* SPDX-License-Identifier: MIT */
/*
 * punch.h - gives back OS pages without blocks in use, inside pages that are in use.
 *
 * A page of 16 or 64 KiB that one small chunk keeps alive has mostly empty OS pages. On request
 * (memctx trim TARGET CONTEXT) the owner takes the blocks of these OS pages out of the page's list
 * and hands the memory to the kernel. A mask in the page's header says which OS pages are gone.
 * Blocks come back one OS page at a time, when the page has no other free block; so a page that is
 * not allocated from stays punched.
 *
 * The blocks held out are the free blocks that touch such an OS page. No block in use touches one,
 * so the mask alone tells which blocks are held out. Blocks that another thread freed and the owner
 * has not collected yet count as used. An OS page with the records of blocks outside it stays.
 *
 * Threads: the page's owner, or the holder of a parked heap's lock. trim_ask: the control thread.
 */
#ifndef MEMCTX_PUNCH_H
#define MEMCTX_PUNCH_H

#include "region/blocks.h"

/* True when the memory of a free block went back to the kernel: the block's record is not valid
 * then. */
INLINE bool blocks_is_punched(const struct page *page, const char *block) {
    uint64_t mask = blocks_punched(page);
    if (LIKELY(!mask))
        return false;
    size_t offset = (size_t)(block - segment_span_start(page));
    unsigned first = (unsigned)(offset / OS_PAGE_BYTES);
    unsigned last = (unsigned)((offset + page->block_bytes - 1) / OS_PAGE_BYTES);
    return mask >> first & ((2UL << (last - first)) - 1);
}
/* Returns the number of blocks that are held out. */
size_t punch_held(const struct page *page);

/* A request of the control thread to all heaps, which each heap answers at its next slow
 * allocation: to give back pages that are kept empty and, with `punch`, the empty OS pages of
 * the marked contexts. */
INTERNAL struct trim_wanted {
    bool all, punch;  /* every context, not only the marked ones */
    int64_t released; /* atomic: bytes of punched OS pages */
} trim_wanted;
INTERNAL uint32_t trim_number; /* atomic: of the last one; heap->trims follows */
#define TRIM_MARK 128U         /* beside the placement in heap_placed */
/* Answers the request for one heap. The caller is the heap's thread or holds its lock. */
void trim_heap(struct heap *heap);

#endif
