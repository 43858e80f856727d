/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes the records of blocks, in each of their four sizes; see blocks.h.
 *
 * For: all pages of blocks. The common malloc and free access the records of narrow blocks
 * themselves (api/fast.h). Cannot do: say whether a record is valid while its OS page is given back
 * (punch.h).
 */
#include "region/blocks.h"

/* Returns the entry in page->owners for the block of this record. NULL: the page was reused
 * meanwhile, and its table is gone. This happens only to a dump, which reads a copy of the page's
 * header. A dump may also read a table that was freed. It can do so safely, because memory of the
 * library's tables stays mapped. */
static uint32_t *owner_of(const struct page *page, const void *record) {
    struct owners *owners = page->owners;
    if (!owners)
        return NULL;
    size_t offset = (size_t)((const char *)record - owners->start);
    bool many = page->granule_mask < OS_PAGE_BYTES; /* the page has many granules */
    size_t number = ((many ? offset & page->granule_mask : offset) - page->records) >>
                    (page->meta_shift & META_WIDE);
    if (many)
        number += offset / OS_PAGE_BYTES * page->granule_capacity;
    return offset < WIDE_PAGE_SLICES * SLICE_BYTES && number < owners->count
               ? &owners->views[number]
               : NULL;
}

void record_write(const struct page *page, void *record, uint32_t view, uint32_t slack) {
    if (UNLIKELY(page->meta_shift & META_OWNERS))
        store_owner(owner_of(page, record), view);
    switch (page->meta_shift & META_SHIFT) {
    case 0: store_owner((uint8_t *)record, (uint8_t)slack); break;
    case 1: store_owner((uint16_t *)record, (uint16_t)slack); break;
    case 2: store_owner((uint32_t *)record, view << 8 | (slack + 1)); break;
    default: store_owner((uint64_t *)record, (uint64_t)view << 32 | (slack + 1));
    }
}

void record_set(const struct page *page, const void *block, uint32_t view, uint32_t slack) {
    const char *granule = blocks_granule(page, block);
    bool exact;
    unsigned index = blocks_index(page, granule, block, &exact);
    record_write(page, blocks_record(page, granule, index), view, slack);
}

/* Reads a record. `shift` is page->meta_shift, read once, so that its flags belong together. With
 * `release`, also marks the block free. */
INLINE struct record record_visit(const struct page *page, uint8_t shift, void *record,
                                  bool release) {
    uint32_t view = 0;
    if (UNLIKELY(shift & META_OWNERS)) {
        const uint32_t *owner = owner_of(page, record);
        view = owner ? load_relaxed(owner) : 0;
    }
    switch (shift & META_SHIFT) {
    case 0: {
        uint8_t slack = load_relaxed((uint8_t *)record);
        if (release)
            store_owner((uint8_t *)record, UINT8_MAX);
        return (struct record){slack == UINT8_MAX ? RECORD_FREE : slack, view};
    }
    case 1: {
        uint16_t slack = load_relaxed((uint16_t *)record);
        if (release)
            store_owner((uint16_t *)record, UINT16_MAX);
        return (struct record){slack == UINT16_MAX ? RECORD_FREE : slack, view};
    }
    case 2: {
        uint32_t word = load_relaxed((uint32_t *)record);
        if (release)
            store_owner((uint8_t *)record, 0);
        return (struct record){(word & 0xff) - 1, word >> 8};
    }
    default: {
        uint64_t word = load_relaxed((uint64_t *)record);
        if (release)
            store_owner((uint32_t *)record, 0);
        return (struct record){(uint32_t)word - 1, (uint32_t)(word >> 32)};
    }
    }
}

struct record record_read(const struct page *page, const void *record) {
    return record_visit(page, load_acquire(&page->meta_shift), (void *)(uintptr_t)record, false);
}

struct record record_release(const struct page *page, void *record) {
    return record_visit(page, load_acquire(&page->meta_shift), record, true);
}
