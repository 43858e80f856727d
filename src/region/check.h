/* SPDX-License-Identifier: MIT */
/*
 * check.h - MEMCTX_CHECK=1: what is written where no chunk is.
 *
 * Behind each chunk at least CHECK_TAIL bytes hold a pattern, which its free looks at: an overflow.
 * A freed block holds another one, but for the word that links it to the next, which is looked at
 * when the block is handed out again: a write after free. Both end the program with a line that
 * names the paths. In this mode no allocation takes the common way; pages made in it have
 * META_CHECKED, so that their frees do not either.
 *
 * Not found: what lies beyond the tail, what is written into a block that is in use again, reads.
 */
#ifndef MEMCTX_CHECK_H
#define MEMCTX_CHECK_H

#include "base/options.h"
#include "region/region.h"

#define CHECK_TAIL 16U

INLINE size_t check_tail_bytes(void) {
    return UNLIKELY(options.check) ? CHECK_TAIL : 0;
}
INLINE bool check_is_on(const struct page *page) {
    return UNLIKELY(load_relaxed(&page->meta_shift) & META_CHECKED);
}

/* The tail of a chunk that was just handed out, from its end to that of what is its own. */
void check_seal(char *chunk, size_t size, const char *end);
/* Before a free: the tail is as it was, or the program ends. */
void check_sealed(const struct page *page, const char *chunk, size_t size, const char *end);
/* A block that is free from now on. */
void check_fill(const struct page *page, char *block);
/* The page's first free block, if there is one, is as check_fill left it, or the program ends. */
void check_filled(const struct page *page);

#endif
