/* SPDX-License-Identifier: MIT */
/*
 * pages.c - the records of pages, a piece of a dump at a time; see pages.h. page_content.c examines
 * the blocks and chunks in a page.
 *
 * Adjacent pages of one context that are alike (goes_on) make one record. A dump reads the record
 * that the allocator keeps of each block, and in pages that are not full it counts the live bytes
 * of each OS page. The light form of a dump (WIRE_DUMP_LIGHT) reads these records only in mixed and
 * serial pages. The record of a mixed page in the dump is followed by the contexts that own blocks
 * in the page. When a piece has no room for all these contexts, the next piece continues at a block
 * of that page.
 */
#include "figures/pages.h"
#include "figures/scan.h"
#include "region/serial.h"

#define BLOCKS_BITS 14 /* bits for the number of a block in its page */

typedef uint64_t word __attribute__((may_alias));

/* Copies a page's header. A page may be given back and made anew while it is read, so the copy is
 * checked. False: the copy mixes two states, or there is no page. */
static bool copy_header(struct page *copy, const struct page *page, const char *start) {
    uint8_t kind = load_acquire(&page->kind);
    for (size_t i = 0; i < sizeof *copy; i += sizeof(word)) {
        word part = load_acquire((const word *)((const char *)page + i));
        __builtin_memcpy((char *)copy + i, &part, sizeof part);
    }
    /* Without META_PUNCHED the word page->punched may have another meaning (blocks_punched). */
    if (!(load_acquire(&page->meta_shift) & META_PUNCHED))
        copy->meta_shift &= (uint8_t)~META_PUNCHED;
    if (kind == PAGE_NONE || load_relaxed(&page->kind) != kind || copy->kind != kind ||
        copy->back || !copy->slices || copy->slices > MAX_SPAN_SLICES + 1)
        return false;
    return kind == PAGE_SPAN ||
           (copy->heap && copy->granule_capacity && copy->block_bytes &&
            copy->next_block >= start && copy->next_block <= start + copy->slices * SLICE_BYTES);
}

unsigned pages_each(const struct segment *segment, unsigned from, const unsigned char *resident,
                    bool (*visit)(const struct page *page, const char *start, void *context),
                    void *context) {
    for (unsigned i = from > HEADER_SLICES ? from : HEADER_SLICES; i < SEGMENT_SLICES;) {
        size_t os_page = i * sizeof(struct page) / OS_PAGE_BYTES;
        if (resident && !(resident[os_page] & 1)) {
            i = (unsigned)((os_page + 1) * OS_PAGE_BYTES / sizeof(struct page));
            continue;
        }
        const char *start = segment_span_start(&segment->pages[i]);
        struct page page;
        if (!copy_header(&page, &segment->pages[i], start) || i + page.slices > SEGMENT_SLICES) {
            i++;
            continue;
        }
        if (!visit(&page, start, context))
            return i;
        i += page.slices;
    }
    return 0;
}

/* --- ages ---------------------------------------------------------------------------------- */

uint32_t pages_clock_start START_PAGE;

uint32_t pages_clock_begin START_PAGE;

/* Returns the age of the page. A page that was made before the library's constructor ran has no
 * time, so its age counts from the constructor. */
static uint32_t oldest_age(const struct page *page) {
    uint32_t born = page->born ? page->born : pages_clock_begin;
    uint32_t age = load_relaxed(&segment_clock) - born;
    /* A page that is younger than the clock has the age 0: see WIRE_AGE_LAG. */
    return age > UINT32_MAX - WIRE_AGE_LAG ? 0 : age;
}

/* Returns how many ticks (WIRE_AGE_NS) have passed at least since a page got the value `then` of
 * segment_clock. The control thread sets the clock once a second, so the value may be 1.1 s old
 * when a page gets it. Before the control thread runs, the value may be older: then the time counts
 * from that thread's start. */
static uint32_t at_least_since(uint32_t then) {
    uint32_t now = load_relaxed(&segment_clock);
    uint32_t latest = then + (uint32_t)((1000 + 100) * 1000000ULL >> SEGMENT_TICK_SHIFT) + 1;
    if ((int32_t)(pages_clock_start - latest) > 0)
        latest = pages_clock_start;
    return (int32_t)(now - latest) > 0 ? now - latest : 0;
}

/* --- one page --------------------------------------------------------------------------------- */

/* In the light form, pages are alike when their occupancy is equal. */
static bool is_alike_light(const struct wire_page *a, const struct wire_page *b) {
    return !a->live == !b->live &&
           scan_occupancy_bin(a->live_bytes, (uint64_t)a->capacity * a->block_bytes) ==
               scan_occupancy_bin(b->live_bytes, (uint64_t)b->capacity * b->block_bytes);
}

static bool is_full(const struct wire_page *page) {
    return page->state == WIRE_PAGE_FULL && page->live == page->capacity;
}

/* True when the page extends the last record: it lies directly behind the pages of that record, has
 * their context, thread and block size, and is alike. In the full form of a dump only full pages
 * are alike. */
static bool goes_on(const struct scan *scan, const struct wire_page *out) {
    const struct wire_page *last = scan->last;
    return last && out->kind == WIRE_PAGE_OWN && last->kind == WIRE_PAGE_OWN &&
           (scan->light ? is_alike_light(last, out) : is_full(last) && is_full(out)) &&
           last->context == out->context && last->block_bytes == out->block_bytes &&
           last->tid == out->tid && last->start + last->bytes == out->start &&
           last->os_pages[WIRE_OCCUPANCY_BINS - 1] < UINT16_MAX - OS_PAGES_MAX;
}

static void add_to_last(struct wire_page *last, const struct wire_page *out) {
    last->bytes += out->bytes;
    last->touched_bytes += out->touched_bytes;
    last->live_bytes += out->live_bytes;
    last->untouched_bytes += out->untouched_bytes;
    if (out->resident_bytes != WIRE_UNKNOWN)
        last->resident_bytes += out->resident_bytes;
    last->live += out->live;
    last->capacity += out->capacity;
    last->pages += out->pages;
    last->os_pages[WIRE_OCCUPANCY_BINS - 1] += out->os_pages[WIRE_OCCUPANCY_BINS - 1];
    if (out->oldest_age > last->oldest_age)
        last->oldest_age = out->oldest_age;
    if (out->newest_age < last->newest_age)
        last->newest_age = out->newest_age;
    if (out->spare_units < last->spare_units)
        last->spare_units = out->spare_units;
}

/* Extends the last record by a page, or writes a new record. False: no room for the record. */
static bool add_page(struct scan *scan, const struct wire_page *out) {
    if (goes_on(scan, out)) {
        add_to_last(scan->last, out);
        return true;
    }
    struct wire_page *room = piece_record(scan->piece, sizeof *room);
    if (room)
        *room = *out;
    scan->last = room;
    return room;
}

static struct wire_page fill_page(const struct scan *scan, const struct page *page,
                                  const char *start, uint64_t touched) {
    uint64_t bytes = page->slices * SLICE_BYTES;
    struct wire_page out = {
        .start = (uint64_t)start,
        .bytes = bytes,
        .touched_bytes = touched,
        .untouched_bytes = bytes > touched ? bytes - touched : 0,
        .resident_bytes = WIRE_UNKNOWN,
        .block_bytes = page->block_bytes,
        .capacity = page->capacity,
        .pages = 1,
        .tid = load_relaxed(&page->heap->tid),
        .oldest_age = scan->light ? 0 : oldest_age(page),
        .kind = WIRE_PAGE_OWN,
        .state = page->flags & PAGE_FULL ? WIRE_PAGE_FULL : WIRE_PAGE_CURRENT,
    };
    if (scan->resident_known)
        out.resident_bytes = scan_resident_in(scan->resident, out.start, out.start + out.bytes);
    return out;
}

static bool scan_serial(struct scan *scan, const struct page *page, const char *start) {
    const struct view *view = page->view;
    if (!view)
        return true;
    struct serial_sum live = serial_live(page, start);
    struct wire_page out = fill_page(scan, page, start, serial_touched(page, start));
    out.context = view->context;
    out.live = live.chunks;
    out.live_bytes = live.bytes;
    if (!scan->light) {
        if (out.state != WIRE_PAGE_CURRENT)
            out.newest_age = at_least_since(page->filled);
        scan_chunks(scan, page, start, &out);
    }
    return add_page(scan, &out);
}

static bool scan_own(struct scan *scan, const struct page *page, const char *start) {
    const struct view *view = page->view;
    uint64_t pending = load_relaxed(&page->remote) >> 48;
    if (!view)
        return true;
    struct wire_page out = fill_page(scan, page, start, blocks_touched(page, start));
    if (page->flags & PAGE_LISTED && out.state != WIRE_PAGE_FULL)
        out.state = WIRE_PAGE_LISTED;
    out.context = view->context;
    out.live = page->used > pending ? (uint32_t)(page->used - pending) : 0;
    out.live_bytes = (uint64_t)out.live * out.block_bytes;
    if (!scan->light) {
        struct bins *bins = load_acquire(&view->region);
        out.apart = bins && load_relaxed(&region_of(bins)->aligned) ? WIRE_PAGE_ALIGNED : 0;
        if (out.state != WIRE_PAGE_CURRENT)
            out.newest_age = at_least_since(page->filled);
        out.spare_units = pages_spare_units(page, start);
        if (out.live == out.capacity)
            out.os_pages[WIRE_OCCUPANCY_BINS - 1] = (uint16_t)(out.touched_bytes / OS_PAGE_BYTES);
        else
            scan_blocks(scan, page, start, &out);
    }
    return add_page(scan, &out);
}

/* Returns the number of blocks of a mixed page that are free, but neither in the page's list nor in
 * its list of blocks that other threads freed: those in heap.recent_room. The owner may be changing
 * the counts. */
static uint8_t recent_blocks(const struct page *page, uint32_t live) {
    uint64_t others = live + (load_relaxed(&page->remote) >> 48), used = load_relaxed(&page->used);
    uint64_t recent = used > others ? used - others : 0;
    return recent < UINT8_MAX ? (uint8_t)recent : UINT8_MAX;
}

/* A piece begins another mixed page only if the answer has this many bytes of room for shares. */
#define SHARES_ROOM (256U * sizeof(struct wire_share))

/* Freed blocks of a mixed page are reused even when the page is not the current one, so the age of
 * the newest block is unknown. */
static bool scan_mixed(struct scan *scan, const struct page *page, const char *start) {
    struct answer *answer = scan->piece->answer;
    uint64_t first = (scan->place & ~SEGMENT_FAR) + scan->slice * SLICE_BYTES;
    bool further = scan->block && (uint64_t)start == first;
    if (scan->piece->count &&
        answer->capacity - answer->length < sizeof(struct wire_page) + SHARES_ROOM)
        return false;
    struct wire_page out = fill_page(scan, page, start, blocks_touched(page, start));
    struct wire_page *room = piece_record(scan->piece, sizeof out);
    if (!room)
        return false;
    if (page->flags & PAGE_LISTED && out.state != WIRE_PAGE_FULL)
        out.state = WIRE_PAGE_LISTED;
    out.context = WIRE_NONE;
    out.kind = WIRE_PAGE_MIXED;
    out.apart = (page->meta_shift & META_APART) != 0;
    out.further = further;
    scan->last = NULL;
    scan->serial++;
    scan->shares = (struct wire_share *)(void *)(room + 1);
    scan->share_count = 0;
    scan->from_block = further ? scan->block : 0;
    scan->full = false;
    scan_blocks(scan, page, start, &out);
    out.live_bytes = (uint64_t)out.live * out.block_bytes;
    out.spare_units = recent_blocks(page, out.live);
    out.share_count = scan->share_count;
    *room = out;
    return !scan->full;
}

static bool scan_large(struct scan *scan, const struct page *page, const char *start,
                       uint64_t bytes, uint64_t header_bytes, int64_t resident) {
    uint64_t touched = align_up(page->requested_bytes, OS_PAGE_BYTES);
    struct wire_page out = {
        .start = (uint64_t)start,
        .bytes = bytes,
        .touched_bytes = touched,
        .live_bytes = touched,
        .untouched_bytes = bytes > touched + header_bytes ? bytes - touched - header_bytes : 0,
        .resident_bytes = resident,
        .context = page->context,
        .live = 1,
        .capacity = 1,
        .pages = 1,
        .kind = WIRE_PAGE_LARGE,
        .state = WIRE_PAGE_FULL,
    };
    /* The bytes behind the chunk in its last OS page belong to the guard, not to the rounding of
     * the program's request. */
    if (page->flags & PAGE_GUARDED)
        out.guard_bytes = (uint16_t)(touched - align_up(page->requested_bytes, 16));
    if (!scan->light) {
        out.oldest_age = oldest_age(page);
        out.newest_age = at_least_since(page->born);
    }
    return add_page(scan, &out);
}

static bool scan_page(const struct page *page, const char *start, void *context) {
    struct scan *scan = context;
    uint64_t bytes = page->slices * SLICE_BYTES;
    bool done = true;
    if (page->kind == PAGE_SPAN)
        done = scan_large(scan, page, start, bytes, 0,
                          scan->resident_known ? scan_resident_in(scan->resident, (uintptr_t)start,
                                                                  (uintptr_t)start + bytes)
                                               : WIRE_UNKNOWN);
    else if (page->kind == PAGE_SERIAL)
        done = scan_serial(scan, page, start);
    else if (page->kind == PAGE_OWN)
        done = scan_own(scan, page, start);
    else if (page->kind == PAGE_MIXED)
        done = scan_mixed(scan, page, start);
    return done;
}

static bool scan_huge(struct scan *scan, const struct segment *segment, bool resident) {
    const struct page *page = &segment->huge;
    if (load_acquire(&page->kind) != PAGE_HUGE)
        return true;
    uint64_t bytes = load_relaxed(&page->mapped_bytes);
    int64_t there = resident ? os_resident_bytes(segment, bytes) : -1;
    bool done = scan_large(scan, page, (const char *)segment, bytes,
                           (uint64_t)(page->chunk - (const char *)segment),
                           there < 0 ? WIRE_UNKNOWN : there);
    if (done && there > 0)
        scan->piece->segments_resident += there;
    return done;
}

/* Packs the place where a piece begins: in the high bits the segment, below it the slice, below
 * that the block. */
static uint64_t cursor(uint64_t place, uint32_t slice, uint32_t block) {
    return place | (uint64_t)slice << BLOCKS_BITS | block;
}
_Static_assert(8 + BLOCKS_BITS <= SEGMENT_SHIFT, "and fit there");

static bool scan_segment(struct segment *segment, bool huge, void *context) {
    struct scan *scan = context;
    bool begun = segment_place(segment) == scan->place && scan->slice;
    bool resident = scan->piece->request->flags & WIRE_DUMP_RESIDENT;
    unsigned from = begun ? scan->slice : 0, stopped = 0;
    scan->last = NULL;
    segment_clock_set(os_now_exact_ns()); /* a dump may take longer than the clock may lag */
    if (huge) {
        if (!scan_huge(scan, segment, resident))
            scan->piece->next = cursor(segment_place(segment), 0, 0);
        return !scan->piece->next;
    }
    scan->full = false;
    scan->resident_known = resident && os_resident_vector(segment, SEGMENT_BYTES, scan->resident);
    stopped =
        pages_each(segment, from, scan->resident_known ? scan->resident : NULL, scan_page, scan);
    if (scan->resident_known && !begun)
        scan->piece->segments_resident += scan_resident_in(scan->resident, (uintptr_t)segment,
                                                           (uintptr_t)segment + SEGMENT_BYTES);
    if (stopped)
        scan->piece->next =
            cursor(segment_place(segment), stopped, scan->full ? scan->from_block : 0);
    return !stopped;
}

uint32_t pages_piece(struct piece *piece) {
    struct scan *scan = buffers_scratch(SCRATCH_PAGES, sizeof *scan);
    uint64_t from = piece->request->from;
    if (!scan)
        return WIRE_NO_MEMORY;
    scan->piece = piece;
    scan->place = from & ~(SEGMENT_BYTES - 1);
    scan->slice = (uint32_t)(from >> BLOCKS_BITS) % SEGMENT_SLICES;
    scan->block = (uint32_t)from % (1U << BLOCKS_BITS);
    scan->light = piece->request->flags & WIRE_DUMP_LIGHT;
    segment_each_from(scan->place, scan_segment, scan);
    if (!piece->next && piece->request->flags & WIRE_DUMP_RESIDENT)
        piece->segments_resident += segment_huge_cached_resident();
    return WIRE_OK;
}

#define SUM_AT_ONCE 64 /* segments that are looked at while the unmap lock is held */

struct resident_sum {
    int64_t bytes;
    uint64_t place; /* of the next segment; 0: there is none */
    unsigned left;
    bool failed;
};

static bool sum_segment(struct segment *segment, bool huge, void *context) {
    struct resident_sum *sum = context;
    if (!sum->left--) {
        sum->place = segment_place(segment);
        return false;
    }
    uint64_t bytes = SEGMENT_BYTES;
    if (huge)
        bytes = load_acquire(&segment->huge.kind) == PAGE_HUGE
                    ? load_relaxed(&segment->huge.mapped_bytes)
                    : 0;
    int64_t resident = os_resident_bytes(segment, bytes);
    sum->failed |= resident < 0;
    sum->bytes += resident;
    return true;
}

int64_t pages_resident_bytes(void) {
    struct resident_sum sum = {.bytes = 0};
    do {
        uint64_t from = sum.place;
        sum.place = 0;
        sum.left = SUM_AT_ONCE;
        segment_clock_set(os_now_exact_ns()); /* this may take longer than the clock may lag */
        segment_each_from(from, sum_segment, &sum);
    } while (sum.place);
    return sum.failed ? -1 : sum.bytes + segment_huge_cached_resident();
}
