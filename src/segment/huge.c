/* SPDX-License-Identifier: MIT */
/*
 * Huge chunks: each has a mapping of its own, aligned to a segment (4 MiB), with the page header in
 * the mapping's first OS page.
 *
 * Serves chunks that need more than 1 MiB together with the padding for their alignment. To grow a
 * chunk, realloc asks the kernel to extend the mapping where it is. If that fails, mremap moves the
 * OS pages to a new place that is aligned to a segment. The bytes are copied only if the mapping
 * has cuts (struct huge_cuts), if the chunk has an alignment above an OS page, during a dump, or if
 * a limit of the process leaves no room for the new place beside the old one.
 *
 * huge_cache.c keeps freed mappings. Chunks cannot share a mapping.
 */
#include <errno.h>

#include "segment/huge.h"

#define global segment_global
#define FEW_CHUNKS 4096 /* see segment_huge_are_few */

struct page *segment_huge_of(const void *pointer) {
    uintptr_t number = ((uintptr_t)pointer - 1) >> SEGMENT_SHIFT;
    if (!segment_map_test(SEGMENT_HUGE, number))
        return NULL;
    struct page *header = &((struct segment *)(number << SEGMENT_SHIFT))->huge;
    return header->chunk == pointer ? header : NULL;
}

static int64_t chunks; /* atomic: number of huge chunks */

bool segment_huge_are_few(void) {
    return load_relaxed(&chunks) < FEW_CHUNKS;
}

/* Adds `bytes` to the bytes in use. `fresh`: how many of these bytes came from the kernel. More
 * bytes in use lower the bound that the freelist has learnt, so the cache may have to shrink. */
static void account(int64_t bytes, int64_t fresh) {
    lock_take(&global.lock);
    global.huge_bytes += bytes;
    add_owner(&global.used_bytes, bytes);
    segment_note_taken(fresh);
    int64_t excess = fresh > 0 && global.huge_cached ? huge_cache_excess() : 0;
    lock_release(&global.lock);
    while (UNLIKELY(excess > 0)) {
        huge_cache_cut((size_t)excess);
        lock_take(&global.lock);
        excess = global.huge_cached ? huge_cache_excess() : 0;
        lock_release(&global.lock);
    }
}

/* Adds the change of a mapping's size to the bytes in use; new bytes came from the kernel. */
static void account_resized(int64_t more) {
    account(more, more > 0 ? more : 0);
}

struct page *segment_emergencies START_PAGE;

struct page *segment_emergency_alloc(size_t bytes, size_t alignment, uint32_t context) {
    size_t offset = alignment <= OS_PAGE_BYTES ? HUGE_HEADER_BYTES : SEGMENT_BYTES;
    size_t mapped = align_up(bytes ? bytes : 1, OS_PAGE_BYTES) + offset;
    if (mapped < bytes || mapped >> (ADDRESS_BITS - 1) || alignment > SEGMENT_BYTES)
        return NULL;
    struct page *header = segment_map_memory(mapped);
    if (!header)
        return NULL;
    header->kind = PAGE_HUGE;
    header->flags = PAGE_EMERGENCY;
    header->chunk = (char *)header + offset;
    header->mapped_bytes = mapped;
    header->requested_bytes = bytes;
    header->context = context;
    header->born = load_relaxed(&segment_clock);
    segment_map_set(SEGMENT_HUGE, header, true);
    struct page *first = load_relaxed(&segment_emergencies);
    do
        header->next = first;
    while (!cas_release(&segment_emergencies, &first, header));
    return header;
}

struct page *segment_emergency_take(void) {
    return exchange_acquire(&segment_emergencies, NULL);
}

void segment_emergency_booked(struct page *header) {
    account((int64_t)header->mapped_bytes, (int64_t)header->mapped_bytes);
    add_relaxed(&chunks, 1);
    store_release(&header->flags, 0);
}

struct page *segment_huge_alloc(size_t bytes, size_t alignment) {
    /* The chunk starts one OS page into the mapping, or, if it needs a larger alignment, exactly
     * one segment into the mapping. In both cases segment_huge_of finds the header by `p - 1`. */
    size_t offset = alignment <= OS_PAGE_BYTES ? HUGE_HEADER_BYTES : SEGMENT_BYTES;
    size_t mapped = align_up(bytes ? bytes : 1, OS_PAGE_BYTES) + offset;
    if (mapped < bytes || mapped >> (ADDRESS_BITS - 1))
        return NULL;
    bool fresh = false;
    struct huge_parts parts = {.mapped = mapped};
    char *start = offset == HUGE_HEADER_BYTES ? huge_cache_take(mapped, &parts) : NULL;
    if (!start) {
        fresh = true;
        if (alignment > SEGMENT_BYTES) {
            /* The padding before the header and the padding behind the chunk go back to the kernel
             * at once. */
            size_t padded = mapped + alignment;
            char *padding = padded < mapped ? NULL : os_map_aligned(padded, SEGMENT_BYTES);
            if (!padding)
                return NULL;
            start = (char *)align_up((uintptr_t)padding + SEGMENT_BYTES, alignment) - SEGMENT_BYTES;
            if (start > padding)
                os_unmap(padding, (size_t)(start - padding));
            os_unmap(start + mapped, (size_t)(padding + padded - start) - mapped);
            if (!segment_claim_memory(start, mapped))
                return NULL;
        } else {
            start = segment_map_memory(mapped);
        }
        if (!start)
            return NULL;
    }
    /* The segment in front of the chunk uses only one OS page, for the header, so this segment must
     * not get a huge page. */
    if (UNLIKELY(offset == SEGMENT_BYTES))
        os_advise_huge(start, SEGMENT_BYTES, false);
    struct page *header = (struct page *)start;
    if (!fresh)
        __builtin_memset(header, 0, sizeof *header);
    store_owner(&header->mapped_bytes, parts.mapped);
    header->chunk = start + offset;
    header->fresh = fresh;
    header->flags = (parts.spare ? PAGE_SPARE : 0) | segment_largest(parts.mapped);
    header->stale_bytes = parts.fresh > offset ? parts.fresh - offset : 0;
    header->born = load_relaxed(&segment_clock);
    if (UNLIKELY(offset == SEGMENT_BYTES)) /* the advice has split the mapping into two areas */
        huge_cut_add(huge_cuts_of(start), SEGMENT_BYTES);
    store_release(&header->kind, PAGE_HUGE);
    if (!parts.counted)
        account((int64_t)parts.mapped, (int64_t)(parts.mapped - parts.reused));
    add_relaxed(&chunks, 1);
    segment_map_set(SEGMENT_HUGE, start, true);
    return header;
}

void segment_huge_free(struct page *header) {
    bool plain = header->chunk == (char *)header + HUGE_HEADER_BYTES;
    store_owner(&header->kind, PAGE_NONE);
    segment_map_set(SEGMENT_HUGE, header, false);
    add_relaxed(&chunks, -1);
    huge_cache_put(header, plain);
    segment_purge_when_due();
}

struct page *segment_huge_resize(struct page *header, size_t bytes) {
    size_t offset = (size_t)(header->chunk - (char *)header);
    size_t mapped = align_up(bytes, OS_PAGE_BYTES) + offset;
    size_t old = header->mapped_bytes;
    if (mapped < bytes || mapped >> (ADDRESS_BITS - 1))
        return NULL;
    if (mapped == old)
        return header;
    header->flags |= segment_largest(mapped);
    if (mapped > old)
        old += huge_spare_use(header, mapped - old);
    else if (header->flags & PAGE_SPARE)
        huge_spare_end(header);
    if (mapped == old)
        return header;
    int error = huge_resize_in_place((char *)header, old, mapped);
    if (!error) {
        header->mapped_bytes = mapped;
        account_resized((int64_t)mapped - (int64_t)old);
        return header;
    }
    /* The mapping cannot move: the chunk has an alignment that a new place might not give, or the
     * kernel would refuse the move. The caller copies the chunk. */
    if (offset != HUGE_HEADER_BYTES || error != -ENOMEM)
        return NULL;
    char *target = segment_map_memory(mapped);
    segment_map_set(SEGMENT_HUGE, header, false);
    bool moved = target && huge_move_to((char *)header, old, target, mapped);
    if (!target && mapped > old)
        moved = (target = huge_grow_elsewhere((char *)header, old, mapped)) != NULL;
    if (!moved) {
        segment_map_set(SEGMENT_HUGE, header, true);
        return NULL;
    }
    struct page *new_header = (struct page *)target;
    new_header->chunk = target + offset;
    new_header->mapped_bytes = mapped;
    account_resized((int64_t)mapped - (int64_t)old);
    segment_map_set(SEGMENT_HUGE, target, true);
    return new_header;
}
