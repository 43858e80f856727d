/* SPDX-License-Identifier: MIT */
/*
 * page_content.c - examines the blocks or chunks of one page: counts the live bytes of each OS
 * page, and in a mixed page the blocks of each context.
 */
#include "figures/pages.h"
#include "figures/scan.h"
#include "region/member.h"
#include "region/serial.h"

unsigned scan_occupancy_bin(uint64_t live, uint64_t capacity) {
    static const uint8_t bounds[] = {6, 12, 25, 50, 75, 99};
    unsigned bin = 0;
    if (live >= capacity)
        return WIRE_OCCUPANCY_BINS - 1;
    while (bin < 5 && live * 100 > (uint64_t)bounds[bin] * capacity)
        bin++;
    return bin;
}

int64_t scan_resident_in(const unsigned char *resident, uintptr_t start, uintptr_t end) {
    int64_t sum = 0;
    size_t first = (start & (SEGMENT_BYTES - 1)) / OS_PAGE_BYTES;
    size_t count = (align_up(end, OS_PAGE_BYTES) - (start & ~(OS_PAGE_BYTES - 1))) / OS_PAGE_BYTES;
    for (size_t i = first; i < first + count && i < SEGMENT_BYTES / OS_PAGE_BYTES; i++)
        sum += (resident[i] & 1) * (int64_t)OS_PAGE_BYTES;
    return sum;
}

/* Returns the context's share of the page, and adds an empty share if there is none yet. NULL: no
 * room for another share. */
static struct wire_share *share_of(struct scan *scan, uint32_t context) {
    uint32_t at = (context * 0x9e3779b1U) % SHARES_HASH;
    for (; scan->hash[at].serial == scan->serial; at = (at + 1) % SHARES_HASH)
        if (scan->hash[at].context == context)
            return &scan->shares[scan->share_of[at]];
    struct wire_share *share =
        scan->share_count < SHARES_MAX ? answer_add(scan->piece->answer, sizeof *share) : NULL;
    if (!share)
        return NULL;
    share->context = context;
    scan->hash[at].context = context;
    scan->hash[at].serial = scan->serial;
    scan->share_of[at] = (uint16_t)scan->share_count++;
    return share;
}

/* Adds a live block to its context's share of the page. */
static void share_add(struct scan *scan, uint32_t context, uintptr_t block) {
    uint32_t number = scan->block_now;
    if (number < scan->from_block || scan->full)
        return;
    struct wire_share *share = share_of(scan, context);
    if (!share) {
        scan->full = true;
        scan->from_block = number; /* where the next piece continues */
        return;
    }
    share->live++;
    if (scan->resident_known && scan_resident_in(scan->resident, block, block + 1))
        share->resident++;
}

/* Adds the bytes of a live block to the OS pages that it touches. */
INLINE void add_live(uint32_t *live_in, size_t offset, uint32_t bytes) {
    size_t number = offset / OS_PAGE_BYTES;
    size_t room = OS_PAGE_BYTES - offset % OS_PAGE_BYTES;
    if (number >= OS_PAGES_MAX)
        return;
    if (LIKELY(bytes <= room)) {
        live_in[number] += bytes;
        return;
    }
    live_in[number] += (uint32_t)room;
    for (size_t left = bytes - room; left && ++number < OS_PAGES_MAX;
         left -= left < OS_PAGE_BYTES ? left : OS_PAGE_BYTES)
        live_in[number] += (uint32_t)(left < OS_PAGE_BYTES ? left : OS_PAGE_BYTES);
}

/* Handles one granule (region/blocks.h: blocks with their table of records) in a page of one
 * context with records of one byte. This is the most common case. */
static void look_at_bytes(const struct page *page, const char *granule, size_t at,
                          uint32_t *live_in) {
    const uint8_t *records = (const uint8_t *)granule + page->records;
    size_t offset = at + page->first;
    for (unsigned index = 0; index < page->granule_capacity; index++, offset += page->block_bytes)
        if (load_relaxed(&records[index]) != UINT8_MAX)
            add_live(live_in, offset, page->block_bytes);
}

/* Reads the record of a block in a page, given a copy of the page's header. The form of record that
 * nearly all mixed pages have is read here, without a call. */
INLINE struct record read_record(const struct page *page, const void *record) {
    if (UNLIKELY((page->meta_shift & (META_SHIFT | META_OWNERS)) != META_MIXED))
        return record_read(page, record);
    uint32_t both = load_relaxed((const uint32_t *)record);
    return (struct record){(both & 0xff) - 1, both >> 8};
}

/* Handles one granule in any page of blocks. In a mixed page each live block is added to its
 * context's share. */
static void look_at_records(struct scan *scan, const struct page *page, const char *granule,
                            size_t at, uint32_t *live_in, struct wire_page *out) {
    size_t offset = at + page->first;
    /* Neighbouring blocks often belong to one view, whose context is looked up once. */
    uint32_t last_view = 0, context = REGION_NO_CONTEXT;
    for (unsigned index = 0; index < page->granule_capacity;
         index++, offset += page->block_bytes, scan->block_now++) {
        struct record record = read_record(page, blocks_record(page, granule, index));
        if (record.slack == RECORD_FREE)
            continue;
        if (out->context == WIRE_NONE) {
            if (record.view_index != last_view) {
                last_view = record.view_index;
                context = member_payer(page->heap, last_view);
            }
            if (!last_view || context == REGION_NO_CONTEXT)
                continue;
            out->live++;
            share_add(scan, context, (uintptr_t)granule - at + offset);
        }
        add_live(live_in, offset, page->block_bytes);
    }
}

/* A free block's record holds a larger slack than any live block's, so free blocks need no test. */
uint8_t pages_spare_units(const struct page *page, const char *start) {
    uint32_t least = UINT32_MAX;
    size_t granule_bytes = (size_t)page->granule_mask + 1, reached = blocks_reached(page, start);
    bool many = page->granule_mask < OS_PAGE_BYTES; /* each OS page is a granule */
    for (size_t at = 0; at < reached; at += granule_bytes) {
        const void *records = start + at + page->records;
        if (many && blocks_punched(page) >> at / OS_PAGE_BYTES & 1)
            continue; /* the OS page was given back, with the records in it */
        for (unsigned i = 0; i < page->granule_capacity; i++) {
            uint32_t slack = page->meta_shift & META_WIDE
                                 ? load_relaxed(&((const uint16_t *)records)[i])
                                 : load_relaxed(&((const uint8_t *)records)[i]);
            least = slack < least ? slack : least;
        }
    }
    return least < page->block_bytes ? (uint8_t)(least / SERIAL_UNIT) : 0;
}

/* False: OS page `number` of the page is not in memory, so a trim would gain nothing by it. */
static bool may_be_resident(const struct scan *scan, const char *start, size_t number) {
    return !scan->resident_known ||
           scan_resident_in(scan->resident, (uintptr_t)start + number * OS_PAGE_BYTES,
                            (uintptr_t)start + (number + 1) * OS_PAGE_BYTES);
}

void scan_blocks(struct scan *scan, const struct page *page, const char *start,
                 struct wire_page *out) {
    uint32_t live_in[OS_PAGES_MAX] = {0};
    uint64_t punched = blocks_punched(page);
    size_t granule_bytes = (size_t)page->granule_mask + 1;
    size_t reached = blocks_reached(page, start);
    bool many = page->granule_mask < OS_PAGE_BYTES;
    bool bytes = !(page->meta_shift & (META_SHIFT | META_OWNERS));
    for (size_t at = 0; at < reached; at += granule_bytes) {
        scan->block_now = (uint32_t)(at / granule_bytes) * page->granule_capacity;
        if (many && punched >> at / OS_PAGE_BYTES & 1)
            continue; /* the OS page was given back, with the records in it */
        if (bytes)
            look_at_bytes(page, start + at, at, live_in);
        else
            look_at_records(scan, page, start + at, at, live_in, out);
    }
    size_t count = reached / OS_PAGE_BYTES;
    /* No OS page of these pages can be punched: see punch_page in region/punch.c. */
    bool stays = page->meta_shift & (META_OWNERS | META_CHECKED) || !(page->flags & PAGE_LISTED) ||
                 !out->live;
    size_t records_first = page->records / OS_PAGE_BYTES;
    size_t records_last = (page->records + blocks_record_bytes(page) - 1) / OS_PAGE_BYTES;
    for (size_t i = 0; i < count && i < OS_PAGES_MAX; i++) {
        size_t at = many ? i : i % (granule_bytes / OS_PAGE_BYTES);
        bool records = !many && at >= records_first && at <= records_last;
        if (punched >> i & 1)
            continue;
        if (!live_in[i] && !records && !stays && may_be_resident(scan, start, i))
            out->os_empty++;
        else
            out->os_pages[scan_occupancy_bin(live_in[i], OS_PAGE_BYTES)]++;
    }
}

void scan_chunks(const struct scan *scan, const struct page *page, const char *start,
                 struct wire_page *out) {
    uint32_t live_in[OS_PAGES_MAX] = {0};
    uint64_t held = blocks_punched(page);
    struct serial_chunk chunk;
    struct serial_walk walk = serial_walk(page);
    while (serial_next(page, start, &walk, &chunk))
        if (chunk.state == SERIAL_LIVE)
            add_live(live_in, chunk.offset, chunk.bytes);
        else if (chunk.state == SERIAL_FREED) /* freed by another thread, and not collected yet */
            held |= 1UL << chunk.offset / OS_PAGE_BYTES;
    size_t count = (size_t)(page->next_block - start + OS_PAGE_BYTES - 1) / OS_PAGE_BYTES;
    size_t whole = (size_t)(page->next_block - start) / OS_PAGE_BYTES;
    size_t records_at = (page->slices * SLICE_BYTES - serial_record_bytes(page)) / OS_PAGE_BYTES;
    bool stays = out->state == WIRE_PAGE_CURRENT || !out->live;
    for (size_t i = 0; i < count && i < OS_PAGES_MAX; i++) {
        if (blocks_punched(page) >> i & 1)
            continue;
        if (!live_in[i] && !stays && !(held >> i & 1) && i < whole && i < records_at &&
            may_be_resident(scan, start, i))
            out->os_empty++;
        else
            out->os_pages[scan_occupancy_bin(live_in[i], OS_PAGE_BYTES)]++;
    }
}
