/* SPDX-License-Identifier: MIT */
/*
 * scan_content.c - reads the chunks of a page from the target's memory: the records of its blocks,
 * or the runs of a serial page. Counts the live chunks of each context, and the live bytes of each
 * OS page.
 */
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "outside/scan.h"
#include "outside/serial.h"

#define UNIT_BYTES 16U
#define OS_PAGES_MOST 16U
/* greatest number of contexts in one page: an answer has room for their shares */
#define SHARES_MOST 1024U

/* Adds a live block to its context's share of the last page. Neighbouring blocks often belong to
 * one context, so the search begins at the last share. */
static void add_share(struct tables *tables, struct seen_page *page, uint32_t context,
                      bool resident) {
    struct wire_share *share = NULL;
    for (size_t i = tables->share_count; i > page->first_share && !share; i--)
        if (tables->shares[i - 1].context == context)
            share = &tables->shares[i - 1];
    if (!share && tables->share_count - page->first_share < SHARES_MOST) {
        if (tables->share_count == tables->share_room) {
            tables->share_room = 2 * tables->share_room + 256;
            tables->shares = cli_grow(tables->shares, tables->share_room, sizeof *tables->shares);
        }
        share = &tables->shares[tables->share_count++];
        *share = (struct wire_share){.context = context};
        page->wire.share_count++;
    }
    if (!share)
        return;
    share->live++;
    share->resident += resident;
}

/* --- blocks ---------------------------------------------------------------------------------- */

/* Returns the context that pays for a crowd's member; 0: not known. */
static uint32_t member_context(struct tables *tables, uint32_t number) {
    uint32_t per_block = CONSTANT(tables, MEMBERS_PER_BLOCK);
    char member[64];
    uint64_t block = tables_word(
        tables, ADDRESS(tables, member_blocks) + number / per_block * sizeof block, sizeof block);
    if (number >= tables_word(tables, ADDRESS(tables, member_count), sizeof(uint32_t)) ||
        SIZE(tables, member) > sizeof member ||
        !reach_read(&tables->reach, block + number % per_block * SIZE(tables, member), member,
                    SIZE(tables, member)))
        return 0;
    uint64_t chunk = FIELD(tables, member, member, chunk);
    return (chunk & 3) == CONSTANT(tables, MEMBER_GROWN)
               ? (uint32_t)(chunk >> CONSTANT(tables, MEMBER_ID_SHIFT))
               : (uint32_t)FIELD(tables, member, member, crowd);
}

/* Returns the context that pays for a block; 0: not known. */
static uint32_t payer(struct tables *tables, const struct seen_heap *heap, uint32_t view) {
    uint32_t members = CONSTANT(tables, MEMBER_VIEW), context = 0;
    if (view & members)
        context = member_context(tables, view & (members - 1));
    else if (heap && view < heap->view_count)
        context = heap->context_of[view];
    return context < tables->node_count ? context : 0;
}

struct walk { /* a walk over the blocks of a page */
    const struct scan_header *page;
    const struct seen_heap *heap;
    uint32_t *owners; /* index of the view of each block; NULL: the records name the views */
    size_t owner_count;
    uint32_t live_in[OS_PAGES_MOST];
    uint32_t live, spare;
};

static void add_live(struct walk *walk, uint64_t offset, uint32_t bytes) {
    for (uint64_t number = offset / OS_PAGE_BYTES; bytes > 0 && number < OS_PAGES_MOST; number++) {
        uint32_t room = OS_PAGE_BYTES - offset % OS_PAGE_BYTES, part = bytes < room ? bytes : room;
        walk->live_in[number] += part;
        offset += part;
        bytes -= part;
    }
}

/* Reads the record `index` of a granule, which is record `number` of the page. Sets *view to the
 * index of the view that paid; 0: the record names no view. Returns false if the block is free: a
 * record of 1 or 2 bytes has all bits set, of 4 bytes the lowest 8 bits are 0, of 8 bytes the
 * lowest 32. */
static bool take_record(const struct scan *scan, const struct walk *walk, const char *records,
                        uint32_t index, size_t number, uint32_t *view, uint32_t *slack) {
    uint64_t word = 0;
    unsigned shift = walk->page->meta & IS(META_SHIFT);
    memcpy(&word, records + ((size_t)index << shift), 1UL << shift);
    *view = walk->owners && number < walk->owner_count ? walk->owners[number] : 0;
    *slack = (uint32_t)word;
    if (shift == 0)
        return word != UINT8_MAX;
    if (shift == 1)
        return word != UINT16_MAX;
    *view = (uint32_t)(shift == 2 ? word >> 8 : word >> 32);
    return shift == 2 ? (word & 0xff) != 0 : (uint32_t)word != 0;
}

static void look_at_granule(const struct scan *scan, struct walk *walk, struct seen_page *out,
                            uint64_t at, uint64_t reached) {
    const struct scan_header *page = walk->page;
    size_t number = at / ((size_t)page->granule_mask + 1) * page->granule_capacity;
    unsigned shift = page->meta & IS(META_SHIFT);
    if (at + page->records + ((uint64_t)page->granule_capacity << shift) > reached)
        return;
    for (uint32_t i = 0; i < page->granule_capacity; i++) {
        uint64_t offset = at + page->first + (uint64_t)i * page->block_bytes;
        uint32_t view, slack;
        bool live = take_record(scan, walk, scan->blocks + at + page->records, i, number + i, &view,
                                &slack);
        walk->spare = slack < walk->spare ? slack : walk->spare;
        if (!live)
            continue;
        if (page->kind == IS(PAGE_MIXED)) {
            uint32_t context = payer(scan->tables, walk->heap, view);
            if (context == 0)
                continue;
            walk->live++;
            add_share(scan->tables, out, context,
                      scan->resident_known && scan_resident_in(scan, page->start + offset, 1) > 0);
        }
        add_live(walk, offset, page->block_bytes);
    }
}

/* Counts the OS pages of a page by the bytes of live blocks in each. */
static void count_os_pages(const struct scan *scan, const struct walk *walk, struct wire_page *out,
                           uint64_t reached) {
    const struct scan_header *page = walk->page;
    bool many = page->granule_mask < OS_PAGE_BYTES;
    bool stays = page->meta & (IS(META_OWNERS) | IS(META_CHECKED)) ||
                 !(page->flags & IS(PAGE_LISTED)) || !out->live;
    size_t granule_pages = ((size_t)page->granule_mask + 1) / OS_PAGE_BYTES;
    uint64_t record_bytes = (uint64_t)page->granule_capacity << (page->meta & IS(META_SHIFT));
    size_t first = page->records / OS_PAGE_BYTES;
    size_t last = (page->records + record_bytes - 1) / OS_PAGE_BYTES;
    for (size_t i = 0; i < reached / OS_PAGE_BYTES && i < OS_PAGES_MOST; i++) {
        size_t at = many || granule_pages == 0 ? i : i % granule_pages;
        bool records = !many && at >= first && at <= last;
        bool may = !scan->resident_known ||
                   scan_resident_in(scan, page->start + i * OS_PAGE_BYTES, OS_PAGE_BYTES) > 0;
        if (page->punched >> i & 1)
            continue;
        if (!walk->live_in[i] && !records && !stays && may)
            out->os_empty++;
        else
            out->os_pages[model_occupancy_bin(walk->live_in[i], OS_PAGE_BYTES)]++;
    }
}

static void read_owners(struct scan *scan, struct walk *walk) {
    struct tables *tables = scan->tables;
    char head[64];
    if (!(walk->page->meta & IS(META_OWNERS)) || SIZE(tables, owners) > sizeof head ||
        !reach_read(&tables->reach, walk->page->owners, head, SIZE(tables, owners)))
        return;
    uint64_t count = FIELD(tables, head, owners, count);
    if (count == 0 || count > walk->page->bytes / UNIT_BYTES)
        return;
    walk->owners = cli_alloc(count, sizeof *walk->owners);
    if (reach_read(&tables->reach, walk->page->owners + SIZE(tables, owners), walk->owners,
                   count * sizeof *walk->owners))
        walk->owner_count = count;
}

/* True if a walk over the blocks is short: the granules have a size that is a power of 2, and each
 * block of a granule begins in it. */
static bool is_bounded(const struct scan_header *page) {
    uint64_t granule = (uint64_t)page->granule_mask + 1;
    return (granule & (granule - 1)) == 0 &&
           (uint64_t)(page->granule_capacity - 1) * page->block_bytes < granule;
}

/* Returns the number of blocks of a mixed page that are free but in no list of the page. */
static uint8_t recent_blocks(const struct scan_header *page, uint32_t live) {
    uint64_t others = live + (page->remote >> 48);
    uint64_t recent = page->used > others ? page->used - others : 0;
    return recent < UINT8_MAX ? (uint8_t)recent : UINT8_MAX;
}

void scan_blocks(struct scan *scan, const struct scan_header *page, struct seen_page *out) {
    struct walk walk = {
        .page = page, .heap = tables_heap_at(scan->tables, page->heap), .spare = UINT32_MAX};
    uint64_t reached = scan_reached_bytes(page);
    bool many = page->granule_mask < OS_PAGE_BYTES;
    if (!is_bounded(page) ||
        !reach_read_touched(&scan->tables->reach, page->start, scan->blocks, reached)) {
        tables_miss(scan->tables, "pages", page->start);
        return;
    }
    read_owners(scan, &walk);
    for (uint64_t at = 0; at < reached; at += (uint64_t)page->granule_mask + 1)
        if (!many || !(page->punched >> (at / OS_PAGE_BYTES & 63) & 1))
            look_at_granule(scan, &walk, out, at, reached);
    if (page->kind == IS(PAGE_MIXED)) {
        out->wire.live = walk.live;
        out->wire.spare_units = recent_blocks(page, walk.live);
    } else if (walk.spare < page->block_bytes) {
        out->wire.spare_units = (uint8_t)(walk.spare / UNIT_BYTES);
    }
    if (page->kind == IS(PAGE_OWN) && out->wire.live == out->wire.capacity)
        out->wire.os_pages[WIRE_OCCUPANCY_BINS - 1] =
            (uint16_t)(out->wire.touched_bytes / OS_PAGE_BYTES);
    else
        count_os_pages(scan, &walk, &out->wire, reached);
    free(walk.owners);
}

/* --- chunks of serial pages ------------------------------------------------------------------- */

/* Counts the OS pages of a serial page by the bytes of live chunks in each. `held`: a bit for each
 * OS page that was given back, or in which a chunk begins that is to be collected. */
static void count_serial_pages(const struct scan *scan, const struct walk *walk,
                               struct wire_page *out, uint64_t held) {
    const struct scan_header *page = walk->page;
    uint64_t handed_out = page->next_block - page->start;
    uint64_t records_at = page->bytes - serial_record_bytes(scan->tables, page->run);
    bool stays = out->state == WIRE_PAGE_CURRENT || !out->live;
    for (size_t i = 0; i < scan_align_os(handed_out) / OS_PAGE_BYTES && i < OS_PAGES_MOST; i++) {
        bool may = !scan->resident_known ||
                   scan_resident_in(scan, page->start + i * OS_PAGE_BYTES, OS_PAGE_BYTES) > 0;
        if (page->punched >> i & 1)
            continue;
        if (!walk->live_in[i] && !stays && !(held >> i & 1) && i < handed_out / OS_PAGE_BYTES &&
            i < records_at / OS_PAGE_BYTES && may)
            out->os_empty++;
        else
            out->os_pages[model_occupancy_bin(walk->live_in[i], OS_PAGE_BYTES)]++;
    }
}

void scan_chunks(struct scan *scan, const struct scan_header *page, struct wire_page *out) {
    struct walk walk = {.page = page};
    struct serial_walk chunks;
    struct serial_chunk chunk;
    uint64_t held = page->punched;
    if (!serial_begin(&chunks, scan->tables, page->start, page->bytes, page->run, page->gone)) {
        tables_miss(scan->tables, "pages", page->start);
        return;
    }
    while (serial_next(&chunks, &chunk)) {
        if (chunk.live) {
            out->live++;
            out->live_bytes += chunk.bytes;
            add_live(&walk, chunk.offset, chunk.bytes);
        } else if (chunk.freed) {
            held |= 1UL << (chunk.offset / OS_PAGE_BYTES & 63);
        }
    }
    serial_end(&chunks);
    if (!scan->light)
        count_serial_pages(scan, &walk, out, held);
}
