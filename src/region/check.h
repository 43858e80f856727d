/* SPDX-License-Identifier: MIT */
/*
 * check.h - MEMCTX_CHECK=1: finds writes to memory that belongs to no chunk.
 *
 * Behind each chunk at least CHECK_TAIL bytes hold a pattern. The free of the chunk looks at the
 * pattern and so finds an overflow. A freed block holds another pattern, except in the word that
 * links the block to the next free one. The library looks at this pattern when it hands the block
 * out again, and so finds a write after free. Either finding ends the program with a report that
 * shows the call paths. In this mode the common malloc (api/fast.h) serves no allocation. Pages
 * made in this mode have META_CHECKED, so that the common free leaves their chunks to the free of
 * their page kind.
 *
 * Not found: writes beyond the tail, writes into a block that is in use again, reads.
 */
#ifndef MEMCTX_CHECK_H
#define MEMCTX_CHECK_H

#include "base/options.h"
#include "region/region.h"

#define CHECK_TAIL 16U

/* Returns the bytes that MEMCTX_CHECK adds to a request; 0 without MEMCTX_CHECK. */
INLINE size_t check_tail_bytes(void) {
    return UNLIKELY(options.check) ? CHECK_TAIL : 0;
}
/* True when the chunks of the page have a pattern behind them. */
INLINE bool check_is_on(const struct page *page) {
    return UNLIKELY(load_relaxed(&page->meta_shift) & META_CHECKED);
}

/* Writes the pattern behind a chunk that was just handed out, from the end of the chunk to
 * `end`, the end of the memory that belongs to the chunk. */
void check_seal(char *chunk, size_t size, const char *end);
/* Looks at the pattern behind a chunk before its free, and ends the program if it was
 * overwritten. */
void check_sealed(const struct page *page, const char *chunk, size_t size, const char *end);
/* Fills a block that is free from now on with the pattern of free blocks. */
void check_fill(const struct page *page, char *block);
/* Looks at the page's first free block, if there is one, and ends the program if the block is
 * not as check_fill left it. */
void check_filled(const struct page *page);

#endif
