/* SPDX-License-Identifier: MIT */
/* The patterns of MEMCTX_CHECK; see check.h. */
#include "region/check.h"

/* Neither byte looks like a part of a pointer, a text or a small number. The two bytes differ, so
 * that no pattern is taken for the other pattern. */
#define TAIL_BYTE 0xa7
#define FREE_BYTE 0xd9

/* Returns the first byte that differs from the pattern, or `end`. */
static const char *first_changed(const char *from, const char *end, uint8_t pattern) {
    while (from < end && *(const uint8_t *)from == pattern)
        from++;
    return from;
}

void check_seal(char *chunk, size_t size, const char *end) {
    __builtin_memset(chunk + size, TAIL_BYTE, (size_t)(end - chunk) - size);
}

void check_sealed(const struct page *page, const char *chunk, size_t size, const char *end) {
    if (first_changed(chunk + size, end, TAIL_BYTE) != end)
        region_report(MISUSE_OVERFLOW, page, chunk);
}

void check_fill(const struct page *page, char *block) {
    __builtin_memset(block, FREE_BYTE, page->block_bytes);
}

void check_filled(const struct page *page) {
    const char *block = page->free;
    if (!block)
        return;
    const void *next = *(void *const *)(const void *)block;
    const char *end = block + page->block_bytes;
    const char *at = first_changed(block + sizeof next, end, FREE_BYTE);
    if (at != end)
        region_report(MISUSE_WRITTEN_FREE, page, at);
    if (next && segment_page_of(next) != page)
        region_report(MISUSE_WRITTEN_FREE, page, block);
}
