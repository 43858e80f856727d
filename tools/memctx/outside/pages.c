/* SPDX-License-Identifier: MIT */
/*
 * pages.c - reads the header of each page from the target's memory. scan_content.c reads the chunks
 * in the page.
 *
 * The figures are those of src/figures, with three exceptions: pages that are alike are not put
 * together, no page is marked as aligned, and pages have their ages in the light form of a dump,
 * too. In the light form, pages of one context have no figures of OS pages and no spare bytes. A
 * page may be given back and made anew while it is read, so a header that contradicts itself is
 * skipped.
 */
#include <stdlib.h>
#include <string.h>

#include "outside/scan.h"
#include "outside/serial.h"

#define SLICES_MOST 65U       /* greatest number of slices of a page or of a span */
#define HUGE_MOST (1UL << 42) /* greatest number of bytes of a chunk */

static void take_header(const struct scan *scan, const char *from, uint64_t start,
                        struct scan_header *to) {
    const struct tables *tables = scan->tables;
    *to = (struct scan_header){.start = start};
#define TAKE(to_name, name) to->to_name = (__typeof__(to->to_name))FIELD(tables, from, page, name)
    TAKE(run, run);
    TAKE(heap, heap);
    TAKE(view, view);
    TAKE(next_block, next_block);
    TAKE(remote, remote);
    TAKE(gone, gone);
    TAKE(requested, requested_bytes);
    TAKE(punched, punched);
    TAKE(owners, owners);
    TAKE(block_bytes, block_bytes);
    TAKE(used, used);
    TAKE(fresh_left, fresh_left);
    TAKE(first, first);
    TAKE(granule_mask, granule_mask);
    TAKE(records, records);
    TAKE(flags, flags);
    TAKE(kind, kind);
    TAKE(meta, meta_shift);
    TAKE(granule_capacity, granule_capacity);
    TAKE(context, context);
    TAKE(filled, filled);
    TAKE(slices, slices);
    TAKE(capacity, capacity);
    TAKE(born, born);
#undef TAKE
    to->bytes = to->slices * scan->slice_bytes;
    if (!(to->meta & IS(META_PUNCHED)))
        to->punched = 0;
}

static bool header_is_sound(const struct scan *scan, const char *from,
                            const struct scan_header *page, uint32_t slice) {
    if (page->kind == 0 || FIELD(scan->tables, from, page, back) != 0 || page->slices == 0 ||
        page->slices > SLICES_MOST || slice + page->slices > scan->slices)
        return false;
    if (page->kind == IS(PAGE_SPAN))
        return true;
    return page->heap && page->granule_capacity && page->block_bytes &&
           page->next_block >= page->start && page->next_block <= page->start + page->bytes;
}

uint64_t scan_reached_bytes(const struct scan_header *page) {
    uint64_t bytes = page->next_block - page->start;
    bool open = page->granule_mask < OS_PAGE_BYTES || !(bytes & page->granule_mask);
    uint64_t reached = scan_align_os(bytes + (open && page->fresh_left));
    return reached < page->bytes ? reached : page->bytes;
}

int64_t scan_resident_in(const struct scan *scan, uint64_t start, uint64_t bytes) {
    int64_t sum = 0;
    size_t first = (start & (scan->segment_bytes - 1)) / OS_PAGE_BYTES;
    size_t end = ((start & (scan->segment_bytes - 1)) + bytes + OS_PAGE_BYTES - 1) / OS_PAGE_BYTES;
    for (size_t i = first; i < end && i < scan->segment_bytes / OS_PAGE_BYTES; i++)
        sum += scan->resident[i] ? OS_PAGE_BYTES : 0;
    return sum;
}

/* Returns the age of the page. A page without a time was made before the library's constructor ran,
 * so its age counts from the constructor. */
static uint32_t oldest_age(const struct scan *scan, uint32_t born) {
    uint32_t age = scan->clock - (born ? born : scan->begun);
    return age > UINT32_MAX - WIRE_AGE_LAG ? 0 : age;
}

/* Returns the time that has passed at least since segment_clock had the value `then`. segment_clock
 * may lag by 1.1 s, because the control thread sets it once a second; before that thread ran, no
 * thread set it. */
static uint32_t at_least_since(const struct scan *scan, uint32_t then) {
    uint32_t latest = then + (uint32_t)(1100000000UL >> IS(SEGMENT_TICK_SHIFT)) + 1;
    if ((int32_t)(scan->started - latest) > 0)
        latest = scan->started;
    return (int32_t)(scan->clock - latest) > 0 ? scan->clock - latest : 0;
}

/* --- records of the model -------------------------------------------------------------------- */

static struct seen_page *new_page(struct tables *tables) {
    tables->room -= tables->room > 0;
    if (tables->page_count == tables->page_room) {
        tables->page_room = 2 * tables->page_room + 64;
        tables->pages = cli_grow(tables->pages, tables->page_room, sizeof *tables->pages);
    }
    struct seen_page *page = &tables->pages[tables->page_count++];
    page->first_share = tables->share_count;
    return page;
}

/* --- pages ----------------------------------------------------------------------------------- */

/* `touched`: bytes of the OS pages that hold or held blocks or records, also of those that were
 * given back. */
static struct wire_page fill_page(struct scan *scan, const struct scan_header *page,
                                  uint64_t touched) {
    const struct seen_heap *heap = tables_heap_at(scan->tables, page->heap);
    uint64_t punched = (uint64_t)__builtin_popcountl(page->punched) * OS_PAGE_BYTES;
    touched -= punched < touched ? punched : touched;
    struct wire_page out = {.start = page->start,
                            .bytes = page->bytes,
                            .touched_bytes = touched,
                            .untouched_bytes = page->bytes - touched,
                            .resident_bytes = WIRE_UNKNOWN,
                            .context = WIRE_NONE,
                            .block_bytes = page->block_bytes,
                            .capacity = page->capacity,
                            .pages = 1,
                            .tid = heap ? heap->tid : 0,
                            .oldest_age = oldest_age(scan, page->born),
                            .kind = WIRE_PAGE_OWN,
                            .state = page->flags & IS(PAGE_FULL)     ? WIRE_PAGE_FULL
                                     : page->flags & IS(PAGE_LISTED) ? WIRE_PAGE_LISTED
                                                                     : WIRE_PAGE_CURRENT};
    if (scan->resident_known)
        out.resident_bytes = scan_resident_in(scan, page->start, page->bytes);
    return out;
}

/* Adds a page of one context: of blocks, or serial. */
static void scan_own(struct scan *scan, const struct scan_header *page) {
    /* the number of blocks that other threads freed and the owner has not collected */
    uint32_t pending = (uint32_t)(page->remote >> 48);
    bool serial = page->kind == IS(PAGE_SERIAL);
    uint64_t records = serial ? scan_align_os(serial_record_bytes(scan->tables, page->run)) : 0;
    uint64_t reached = scan_reached_bytes(page);
    uint64_t context = tables_word(scan->tables, page->view + OFFSET(scan->tables, view, context),
                                   sizeof(uint32_t));
    if (context == 0 || context >= scan->tables->node_count)
        return;
    struct seen_page *out = new_page(scan->tables);
    out->wire =
        fill_page(scan, page, records < page->bytes - reached ? reached + records : page->bytes);
    struct wire_page *wire = &out->wire;
    wire->context = (uint32_t)context;
    wire->newest_age = wire->state == WIRE_PAGE_CURRENT ? 0 : at_least_since(scan, page->filled);
    if (serial) {
        scan_chunks(scan, page, wire);
        return;
    }
    wire->live = page->used > pending ? page->used - pending : 0;
    wire->live_bytes = (uint64_t)wire->live * wire->block_bytes;
    if (!scan->light)
        scan_blocks(scan, page, out);
}

static void scan_mixed(struct scan *scan, const struct scan_header *page) {
    struct seen_page *out = new_page(scan->tables);
    out->wire = fill_page(scan, page, scan_reached_bytes(page));
    out->wire.kind = WIRE_PAGE_MIXED;
    out->wire.apart = (page->meta & IS(META_APART)) != 0;
    scan_blocks(scan, page, out);
    out->wire.live_bytes = (uint64_t)out->wire.live * out->wire.block_bytes;
}

/* Adds a chunk with its own span or mapping. `headed`: bytes of the mapping before the chunk. */
static void scan_large(struct scan *scan, const struct scan_header *page, uint64_t bytes,
                       uint64_t headed) {
    uint64_t touched = scan_align_os(page->requested);
    if (page->context >= scan->tables->node_count || page->requested > bytes || headed > bytes)
        return;
    struct seen_page *out = new_page(scan->tables);
    out->wire = (struct wire_page){
        .start = page->start,
        .bytes = bytes,
        .touched_bytes = touched,
        .live_bytes = touched,
        .untouched_bytes = bytes > touched + headed ? bytes - touched - headed : 0,
        .resident_bytes =
            scan->resident_known ? scan_resident_in(scan, page->start, bytes) : WIRE_UNKNOWN,
        .context = page->context,
        .live = 1,
        .capacity = 1,
        .pages = 1,
        .oldest_age = oldest_age(scan, page->born),
        .newest_age = at_least_since(scan, page->born),
        .kind = WIRE_PAGE_LARGE,
        .state = WIRE_PAGE_FULL};
    if (page->flags & IS(PAGE_GUARDED))
        out->wire.guard_bytes = (uint16_t)(touched - ((page->requested + 15) & ~15UL));
}

/* Returns the resident bytes of a mapping; WIRE_UNKNOWN: they cannot be read. */
static int64_t huge_resident(struct scan *scan, uint64_t start, uint64_t bytes) {
    int64_t resident = 0;
    for (uint64_t at = 0; at < bytes; at += scan->segment_bytes) {
        uint64_t part = bytes - at < scan->segment_bytes ? bytes - at : scan->segment_bytes;
        if (!reach_read_resident(&scan->tables->reach, start + at, scan->resident,
                                 part / OS_PAGE_BYTES))
            return WIRE_UNKNOWN;
        resident += scan_resident_in(scan, 0, part / OS_PAGE_BYTES * OS_PAGE_BYTES);
    }
    return resident;
}

static void scan_huge(struct scan *scan, uint64_t segment) {
    struct tables *tables = scan->tables;
    struct scan_header page;
    if (!reach_read(&tables->reach, segment, scan->headers, SIZE(tables, page))) {
        tables_miss(tables, "pages", segment);
        return;
    }
    take_header(scan, scan->headers, segment, &page);
    uint64_t bytes = FIELD(tables, scan->headers, page, mapped_bytes);
    uint64_t chunk = FIELD(tables, scan->headers, page, chunk);
    if (page.kind != IS(PAGE_HUGE) || bytes > HUGE_MOST || chunk < segment)
        return;
    scan->resident_known = false;
    size_t before = tables->page_count;
    scan_large(scan, &page, bytes, chunk - segment);
    if (tables->page_count == before)
        return;
    int64_t resident = huge_resident(scan, segment, bytes);
    if (resident == WIRE_UNKNOWN)
        return;
    tables->pages[before].wire.resident_bytes = resident;
    tables->segments_resident += resident;
}

static void scan_segment(struct scan *scan, uint64_t segment) {
    struct tables *tables = scan->tables;
    uint64_t header_bytes = IS(HEADER_SLICES) * scan->slice_bytes;
    if (!reach_read_touched(&tables->reach, segment, scan->headers, header_bytes)) {
        tables_miss(tables, "pages", segment);
        return;
    }
    scan->resident_known = reach_read_resident(&tables->reach, segment, scan->resident,
                                               scan->segment_bytes / OS_PAGE_BYTES);
    if (scan->resident_known)
        tables->segments_resident += scan_resident_in(scan, 0, scan->segment_bytes);
    for (uint32_t i = IS(HEADER_SLICES); i < scan->slices;) {
        const char *from = scan->headers + i * SIZE(tables, page);
        struct scan_header page;
        take_header(scan, from, segment + i * scan->slice_bytes, &page);
        if (!header_is_sound(scan, from, &page, i)) {
            i++;
            continue;
        }
        if (page.kind == IS(PAGE_SPAN))
            scan_large(scan, &page, page.bytes, 0);
        else if (page.kind == IS(PAGE_OWN) || page.kind == IS(PAGE_SERIAL))
            scan_own(scan, &page);
        else if (page.kind == IS(PAGE_MIXED))
            scan_mixed(scan, &page);
        i += page.slices;
    }
}

static void scan_leaf(struct scan *scan, uint64_t address, uint64_t first) {
    size_t count = 1UL << IS(SEGMENT_LEAF_SHIFT);
    uint8_t *flags = cli_alloc(count, 1);
    if (!reach_read(&scan->tables->reach, address, flags, count)) {
        tables_miss(scan->tables, "pages", address);
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t segment = (first + i) << IS(SEGMENT_SHIFT);
        if (flags[i] == 0)
            continue;
        if (scan->tables->room == 0) {
            tables_miss(scan->tables, "pages", segment);
            break;
        }
        scan->tables->room--;
        if (flags[i] & IS(SEGMENT_HUGE))
            scan_huge(scan, segment);
        else if (flags[i] & IS(SEGMENT_SLICED))
            scan_segment(scan, segment);
    }
    free(flags);
}

/* Adds the resident bytes of the mappings and spare ends in the freelist. */
static void add_cached(struct scan *scan) {
    struct tables *tables = scan->tables;
    size_t size = SIZE(tables, huge_cached), count = IS(HUGE_CACHE_MAX);
    char *list = cli_alloc(count, size);
    if (!reach_read(&tables->reach, ADDRESS(tables, segment_huge_cache), list, count * size)) {
        tables_miss(tables, "mappings in the freelist", ADDRESS(tables, segment_huge_cache));
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t start = FIELD(tables, list + i * size, huge_cached, start);
        uint64_t bytes = FIELD(tables, list + i * size, huge_cached, bytes);
        int64_t resident = start % OS_PAGE_BYTES == 0 && bytes <= HUGE_MOST
                               ? huge_resident(scan, start, bytes)
                               : WIRE_UNKNOWN;
        tables->segments_resident += resident == WIRE_UNKNOWN ? 0 : resident;
    }
    free(list);
}

void tables_read_pages(struct tables *tables, bool light) {
    struct scan the_scan = {.tables = tables, .light = light}, *scan = &the_scan;
    tables->page_count = tables->share_count = 0;
    tables->segments_resident = 0;
    tables->room = TABLES_RECORDS_MOST;
    scan->segment_bytes = 1UL << IS(SEGMENT_SHIFT);
    scan->slice_bytes = 1UL << IS(SLICE_SHIFT);
    scan->slices = (uint32_t)(scan->segment_bytes / scan->slice_bytes);
    scan->headers = cli_alloc(IS(HEADER_SLICES), scan->slice_bytes);
    scan->blocks = cli_alloc(SLICES_MOST, scan->slice_bytes);
    scan->resident = cli_alloc(scan->segment_bytes / OS_PAGE_BYTES, 1);
    scan->clock = (uint32_t)tables_word(tables, ADDRESS(tables, segment_clock), 4);
    scan->begun = (uint32_t)tables_word(tables, ADDRESS(tables, pages_clock_begin), 4);
    scan->started = (uint32_t)tables_word(tables, ADDRESS(tables, pages_clock_start), 4);
    uint64_t near = tables_word(tables, ADDRESS(tables, segment_near_first), sizeof near);
    if (near)
        scan_leaf(scan, ADDRESS(tables, segment_near), near);
    for (uint64_t place = 0; place < 1U << IS(SEGMENT_ROOT_BITS); place++) {
        uint64_t leaf =
            tables_word(tables, ADDRESS(tables, segment_root) + place * sizeof leaf, sizeof leaf);
        if (leaf)
            scan_leaf(scan, leaf, place << IS(SEGMENT_LEAF_SHIFT));
    }
    add_cached(scan);
    free(scan->headers);
    free(scan->blocks);
    free(scan->resident);
}
