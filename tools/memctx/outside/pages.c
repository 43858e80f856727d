/* SPDX-License-Identifier: MIT */
/*
 * pages.c - reads the header of each page, and the records of its blocks, from the target's memory.
 *
 * The figures are those of src/figures/pages.c, with two exceptions: pages that are alike are not
 * put together, and no page is marked as aligned. In the light form of a dump, pages of one context
 * have no figures of OS pages and no spare bytes. A page may be given back and made anew while it
 * is read, so a header that contradicts itself is skipped.
 */
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "outside/serial.h"
#include "outside/tables.h"

#define OS_PAGE_BYTES 4096U
#define UNIT_BYTES 16U
#define SLICES_MOST 65U /* greatest number of slices of a page or of a span */
#define OS_PAGES_MOST 16U
/* greatest number of contexts in one page: an answer has room for their shares */
#define SHARES_MOST 1024U
#define HUGE_MOST (1UL << 42) /* greatest number of bytes of a chunk */

struct scan {
    struct tables *tables;
    /* segment_clock now, pages_clock_begin and pages_clock_start (src/figures/pages.h) */
    uint32_t clock, begun, started;
    uint64_t segment_bytes, slice_bytes;
    uint32_t slices; /* number of slices of a segment */
    char *headers;   /* page headers of one segment */
    char *blocks;    /* the content of one page */
    unsigned char *resident;
    bool resident_known;
    bool light; /* blocks in pages of one context are not examined */
};

struct header { /* the header of a page, copied from the target */
    uint64_t start, bytes, run, heap, view, next_block, remote, gone, requested, punched, owners;
    uint32_t block_bytes, used, fresh_left, first, granule_mask, records;
    uint32_t flags, kind, meta, granule_capacity, context, filled, slices, capacity, born;
};

#define IS(name) CONSTANT(scan->tables, name)

static uint64_t align_page(uint64_t bytes) {
    return (bytes + OS_PAGE_BYTES - 1) & ~(uint64_t)(OS_PAGE_BYTES - 1);
}

static void take_header(const struct scan *scan, const char *from, uint64_t start,
                        struct header *to) {
    const struct tables *tables = scan->tables;
    *to = (struct header){.start = start};
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

static bool header_is_sound(const struct scan *scan, const char *from, const struct header *page,
                            uint32_t slice) {
    if (page->kind == 0 || FIELD(scan->tables, from, page, back) != 0 || page->slices == 0 ||
        page->slices > SLICES_MOST || slice + page->slices > scan->slices)
        return false;
    if (page->kind == IS(PAGE_SPAN))
        return true;
    return page->heap && page->granule_capacity && page->block_bytes &&
           page->next_block >= page->start && page->next_block <= page->start + page->bytes;
}

/* Returns the bytes up to the end of the last block that was ever handed out, in whole OS pages. */
static uint64_t reached_bytes(const struct header *page) {
    uint64_t bytes = page->next_block - page->start;
    bool open = page->granule_mask < OS_PAGE_BYTES || !(bytes & page->granule_mask);
    uint64_t reached = align_page(bytes + (open && page->fresh_left));
    return reached < page->bytes ? reached : page->bytes;
}

static int64_t resident_in(const struct scan *scan, uint64_t start, uint64_t bytes) {
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
    const struct header *page;
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
    const struct header *page = walk->page;
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
                      scan->resident_known && resident_in(scan, page->start + offset, 1) > 0);
        }
        add_live(walk, offset, page->block_bytes);
    }
}

/* Counts the OS pages of a page by the bytes of live blocks in each. */
static void count_os_pages(const struct scan *scan, const struct walk *walk, struct wire_page *out,
                           uint64_t reached) {
    const struct header *page = walk->page;
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
                   resident_in(scan, page->start + i * OS_PAGE_BYTES, OS_PAGE_BYTES) > 0;
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
static bool is_bounded(const struct header *page) {
    uint64_t granule = (uint64_t)page->granule_mask + 1;
    return (granule & (granule - 1)) == 0 &&
           (uint64_t)(page->granule_capacity - 1) * page->block_bytes < granule;
}

static void look_at_blocks(struct scan *scan, const struct header *page, struct seen_page *out) {
    struct walk walk = {
        .page = page, .heap = tables_heap_at(scan->tables, page->heap), .spare = UINT32_MAX};
    uint64_t reached = reached_bytes(page);
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
    if (page->kind == IS(PAGE_MIXED))
        out->wire.live = walk.live;
    else if (walk.spare < page->block_bytes)
        out->wire.spare_units = (uint8_t)(walk.spare / UNIT_BYTES);
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
    const struct header *page = walk->page;
    uint64_t handed_out = page->next_block - page->start;
    uint64_t records_at = page->bytes - serial_record_bytes(scan->tables, page->run);
    bool stays = out->state == WIRE_PAGE_CURRENT || !out->live;
    for (size_t i = 0; i < align_page(handed_out) / OS_PAGE_BYTES && i < OS_PAGES_MOST; i++) {
        bool may = !scan->resident_known ||
                   resident_in(scan, page->start + i * OS_PAGE_BYTES, OS_PAGE_BYTES) > 0;
        if (page->punched >> i & 1)
            continue;
        if (!walk->live_in[i] && !stays && !(held >> i & 1) && i < handed_out / OS_PAGE_BYTES &&
            i < records_at / OS_PAGE_BYTES && may)
            out->os_empty++;
        else
            out->os_pages[model_occupancy_bin(walk->live_in[i], OS_PAGE_BYTES)]++;
    }
}

static void look_at_chunks(struct scan *scan, const struct header *page, struct wire_page *out) {
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

/* --- pages ----------------------------------------------------------------------------------- */

/* `touched`: bytes of the OS pages that hold or held blocks or records, also of those that were
 * given back. */
static struct wire_page fill_page(struct scan *scan, const struct header *page, uint64_t touched) {
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
        out.resident_bytes = resident_in(scan, page->start, page->bytes);
    return out;
}

/* Adds a page of one context: of blocks, or serial. */
static void scan_own(struct scan *scan, const struct header *page) {
    /* the number of blocks that other threads freed and the owner has not collected */
    uint32_t pending = (uint32_t)(page->remote >> 48);
    bool serial = page->kind == IS(PAGE_SERIAL);
    uint64_t records = serial ? align_page(serial_record_bytes(scan->tables, page->run)) : 0;
    uint64_t reached = reached_bytes(page);
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
        look_at_chunks(scan, page, wire);
        return;
    }
    wire->live = page->used > pending ? page->used - pending : 0;
    wire->live_bytes = (uint64_t)wire->live * wire->block_bytes;
    if (!scan->light)
        look_at_blocks(scan, page, out);
}

static void scan_mixed(struct scan *scan, const struct header *page) {
    struct seen_page *out = new_page(scan->tables);
    out->wire = fill_page(scan, page, reached_bytes(page));
    out->wire.kind = WIRE_PAGE_MIXED;
    out->wire.apart = (page->meta & IS(META_APART)) != 0;
    look_at_blocks(scan, page, out);
    out->wire.live_bytes = (uint64_t)out->wire.live * out->wire.block_bytes;
}

/* Adds a chunk with its own span or mapping. `headed`: bytes of the mapping before the chunk. */
static void scan_large(struct scan *scan, const struct header *page, uint64_t bytes,
                       uint64_t headed) {
    uint64_t touched = align_page(page->requested);
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
            scan->resident_known ? resident_in(scan, page->start, bytes) : WIRE_UNKNOWN,
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
        resident += resident_in(scan, 0, part / OS_PAGE_BYTES * OS_PAGE_BYTES);
    }
    return resident;
}

static void scan_huge(struct scan *scan, uint64_t segment) {
    struct tables *tables = scan->tables;
    struct header page;
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
        tables->segments_resident += resident_in(scan, 0, scan->segment_bytes);
    for (uint32_t i = IS(HEADER_SLICES); i < scan->slices;) {
        const char *from = scan->headers + i * SIZE(tables, page);
        struct header page;
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
