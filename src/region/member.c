/* SPDX-License-Identifier: MIT */
/* Members of crowds, and their chunks; see member.h. */
#include "region/member.h"
#include "os/meta.h"
#include "region/region.h"
#include "region/tiny.h"

struct member *member_blocks[MEMBER_BLOCKS];
uint32_t member_count;

uint32_t member_new(void) {
    uint32_t number = member_count ? member_count : 1;
    if (number / MEMBERS_PER_BLOCK >= MEMBER_BLOCKS)
        return 0;
    struct member **block = &member_blocks[number / MEMBERS_PER_BLOCK];
    if (!*block) {
        struct member *fresh = meta_alloc(MEMBERS_PER_BLOCK * sizeof *fresh);
        if (!fresh)
            return 0;
        store_release(block, fresh);
    }
    store_release(&member_count, number + 1);
    return number;
}

void *member_alloc(struct heap *heap, struct view *crowd, uint32_t number, size_t size,
                   bool *fresh) {
    struct member *member = member_at(number);
    if (load_relaxed(&member->chunk) || size > TINY_MAX)
        return NULL;
    char *chunk = tiny_take(heap, crowd, size, fresh);
    if (!chunk)
        return NULL;
    struct page *page = segment_page_of(chunk);
    record_set(page, chunk, MEMBER_VIEW | number, page->block_bytes - (uint32_t)size);
    store_release(&member->chunk, (uintptr_t)chunk | (uint64_t)size << MEMBER_BYTES_SHIFT);
    return chunk;
}

uint32_t member_freed(uint32_t number, bool *grown) {
    struct member *member = member_at(number);
    uint32_t crowd = load_relaxed(&member->crowd);
    uint64_t chunk = load_acquire(&member->chunk), had;
    do {
        *grown = member_state(chunk) == MEMBER_GROWN;
        if (*grown)
            return (uint32_t)(chunk >> MEMBER_ID_SHIFT);
        had = (uint64_t)member_bytes(chunk) << MEMBER_BYTES_SHIFT | MEMBER_HAD;
    } while (!cas_acq_rel(&member->chunk, &chunk,
                          had)); /* another thread may be making the member grow */
    return crowd;
}
