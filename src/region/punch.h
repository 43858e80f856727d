/* SPDX-License-Identifier: MIT */
/*
 * punch.h - gives back OS pages without blocks in use, inside pages that are in use.
 *
 * A page of 16 or 64 KiB in which only one small chunk is alive has mostly empty OS pages. So has
 * the last page of a size whose chunks were all freed, which its thread keeps. The blocks of the
 * empty OS pages leave the page's list, and the memory of these OS pages goes to the kernel: the OS
 * pages are *punched*. The owner punches on request (memctx trim TARGET CONTEXT, malloc_trim). The
 * control thread punches pages in which no thread has allocated or freed for some time, and on
 * request the pages of threads that sleep (context/holes.c). A mask in the page's header says which
 * OS pages are punched. Blocks return to the list one OS page at a time, when the page has no other
 * free block. So a page stays punched while nothing is allocated from it.
 *
 * A free block that touches a punched OS page is *held out*: it is not in the page's list. No block
 * in use touches a punched OS page, so the mask alone tells which blocks are held out. Blocks that
 * another thread freed and the owner has not collected yet count as used. An OS page that holds
 * records of blocks in other OS pages is not punched.
 *
 * Threads: the page's owner, the holder of the lock of a parked or shared heap, or the control
 * thread while the owner has to wait (heap_await). The control thread makes the requests.
 */
#ifndef MEMCTX_PUNCH_H
#define MEMCTX_PUNCH_H

#include "region/blocks.h"

/* True when the block touches a punched OS page. The block is free then, whatever its record says:
 * the record may have been in that OS page. */
INLINE bool blocks_is_punched(const struct page *page, const char *block) {
    uint64_t mask = blocks_punched(page);
    if (LIKELY(!mask))
        return false;
    size_t offset = (size_t)(block - segment_span_start(page));
    unsigned first = (unsigned)(offset / OS_PAGE_BYTES);
    unsigned last = (unsigned)((offset + page->block_bytes - 1) / OS_PAGE_BYTES);
    return mask >> first & ((2UL << (last - first)) - 1);
}
/* The next four functions are for the control thread, which punches the pages of a thread that is
 * outside the allocator, or of a heap whose lock the control thread holds. */
/* True when the page is not full, and its free blocks have at least the bytes of one OS page. The
 * page may be a current page of its owner, and it may be empty: a thread that sleeps for long keeps
 * an empty page of each size that it used. False for pages with META_OWNERS, META_CHECKED or
 * META_APART, which the control thread does not punch. May be called for a header that its owner is
 * changing. */
bool punch_may_help(const struct page *page);
/* Sets META_PUNCHED. The common free (api/fast.h) leaves pages with this flag to the free of their
 * page kind, which waits until the visit is over (heap_await). */
void punch_announce(struct page *page);
/* Punches the empty OS pages of the page, and returns their bytes. Adds to *waste the bytes of the
 * free blocks that leave the page's list, because they touch a punched OS page. The caller
 * subtracts *waste from heap_global.own_free, because only the owner writes heap->own_free. */
size_t punch_announced(struct page *page, int64_t *waste);
/* Clears META_PUNCHED if no OS page of the page is punched. */
void punch_end(struct page *page);
/* Returns the number of blocks that are held out. */
size_t punch_held(const struct page *page);

/* A request of the control thread to all heaps: to give back pages that are kept empty and, with
 * `punch`, empty OS pages. A thread answers for its heap in its next look_around (alloc.c). The
 * control thread answers for heaps without a thread. It writes `all` and `punch` before it changes
 * trim_number. */
INTERNAL struct trim_wanted {
    /* `all`: the request holds for every context, not only for those with TRIM_MARK. `punch`: OS
     * pages are punched, too, in mixed pages and in pages of contexts with TRIM_MARK. */
    bool all, punch;
    int64_t released; /* atomic: bytes of the OS pages that were punched for this request */
} trim_wanted;
/* Atomic: number of the last request. A heap stores the number in heap->trims when it has answered
 * the request. */
INTERNAL uint32_t trim_number;
/* A flag in a context's byte of heap_placed, beside the placement: the trim request names the
 * context. */
#define TRIM_MARK 128U
INLINE bool trim_is_marked(const struct view *view) {
    return heap_leaf_byte(heap_placed, view->context) & TRIM_MARK;
}
/* Answers the request for one heap. The caller is the heap's thread or holds the heap's lock. */
void trim_heap(struct heap *heap);
/* Gives back all empty pages of a heap, and all empty OS pages in its other pages. Returns the
 * bytes of these OS pages. The caller is the heap's thread or holds the heap's lock. */
size_t trim_whole(struct heap *heap);

#endif
