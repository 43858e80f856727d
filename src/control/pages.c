/* SPDX-License-Identifier: MIT */
/*
 * What stands in which page, segment by segment, so that an answer has a bound whatever the size of the heap. Full
 * pages of one context side by side are one record; of others every block is looked at. No thread is stopped.
 */
#include "context/tree.h"
#include "control/control.h"
#include "region/member.h"
#include "region/serial.h"

typedef uint64_t word __attribute__((may_alias));

/* A page may be given back and made anew while it is read: what is used is a copy that hangs together. False: it does
 * not. */
static bool copy_header(struct page *copy, const struct page *page, const char *start) {
    uint8_t kind = load_acquire(&page->kind);
    for (size_t i = 0; i < sizeof *copy; i += sizeof(word)) {
        word part = load_acquire((const word *)((const char *)page + i));
        __builtin_memcpy((char *)copy + i, &part, sizeof part);
    }
    if (!(load_acquire(&page->meta_shift) &
          META_PUNCHED)) /* the word behind it may be another one */
        copy->meta_shift &= (uint8_t)~META_PUNCHED;
    if (kind == PAGE_NONE || load_relaxed(&page->kind) != kind || copy->kind != kind ||
        copy->back || !copy->slices || copy->slices > MAX_SPAN_SLICES + 1)
        return false;
    return kind == PAGE_SPAN ||
           (copy->heap && copy->granule_capacity && copy->block_bytes &&
            copy->next_block >= start && copy->next_block <= start + copy->slices * SLICE_BYTES);
}

void pages_each(const struct segment *segment, const unsigned char *resident,
                void (*visit)(const struct page *page, const char *start, void *context),
                void *context) {
    for (unsigned i = HEADER_SLICES; i < SEGMENT_SLICES;) {
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
        visit(&page, start, context);
        i += page.slices;
    }
}

unsigned pages_occupancy_bin(uint64_t live, uint64_t capacity) {
    static const uint8_t bounds[] = {6, 12, 25, 50, 75, 99};
    unsigned bin = 0;
    if (live >= capacity)
        return WIRE_OCCUPANCY_BINS - 1;
    while (bin < 5 && live * 100 > (uint64_t)bounds[bin] * capacity)
        bin++;
    return bin;
}

int64_t pages_resident_in(const unsigned char *resident, uintptr_t start, uintptr_t end) {
    int64_t sum = 0;
    size_t first = (start & (SEGMENT_BYTES - 1)) / OS_PAGE_BYTES;
    size_t count = (align_up(end, OS_PAGE_BYTES) - (start & ~(OS_PAGE_BYTES - 1))) / OS_PAGE_BYTES;
    for (size_t i = first; i < first + count && i < SEGMENT_BYTES / OS_PAGE_BYTES; i++)
        sum += (resident[i] & 1) * (int64_t)OS_PAGE_BYTES;
    return sum;
}

/* --- ages ---------------------------------------------------------------------------------- */

uint32_t pages_clock_start START_PAGE;

uint32_t pages_clock_begin START_PAGE;

/* Before the constructor nobody had looked at the clock. */
static uint32_t oldest_age(const struct page *page) {
    uint32_t born = page->born ? page->born : pages_clock_begin;
    uint32_t age = load_relaxed(&segment_clock) - born;
    return (int32_t)age > 0 ? age : 0;
}

/* At least so long ago was what the clock said `then`: it is looked at every second, once the thread runs. */
static uint32_t at_least_since(uint32_t then) {
    uint32_t now = load_relaxed(&segment_clock);
    uint32_t latest = then + (uint32_t)((1000 + 100) * 1000000ULL >> SEGMENT_TICK_SHIFT) + 1;
    if ((int32_t)(pages_clock_start - latest) > 0)
        latest = pages_clock_start;
    return (int32_t)(now - latest) > 0 ? now - latest : 0;
}

/* --- one page ---------------------------------------------------------------------------------- */

struct scan {
    uint64_t from, next;
    uint32_t flags, count, contexts;
    struct answer *pages; /* behind the head */
    struct answer shares;
    unsigned char resident[SEGMENT_BYTES / OS_PAGE_BYTES];
    bool resident_known;
    bool goes_on;   /* the last page is of this segment, and the next one may go on with it */
    uint64_t *seen; /* by context: the page that last had it (32), and its share there */
    uint32_t serial;
};

#define OS_PAGES_MAX (WIDE_PAGE_SLICES * SLICE_BYTES / OS_PAGE_BYTES)

static uint32_t known(const struct scan *scan, uint32_t context) {
    return context < scan->contexts ? context : TREE_UNKNOWN;
}

static void share_add(struct scan *scan, struct wire_page *out, uint32_t context) {
    uint64_t seen = scan->seen[context];
    if (seen >> 32 == scan->serial) {
        struct wire_share *shares = (void *)scan->shares.bytes;
        shares[out->first_share + (uint32_t)seen].live++;
        return;
    }
    struct wire_share *share = answer_add(&scan->shares, sizeof *share);
    if (!share)
        return;
    *share = (struct wire_share){context, 1};
    scan->seen[context] = (uint64_t)scan->serial << 32 | out->share_count++;
}

/* Adds a block that is alive to the OS pages that it touches. */
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

/* The blocks of one granule of a page of one context with records of a byte, of which there are very many. */
static void look_at_bytes(const struct page *page, const char *granule, size_t at,
                          uint32_t *live_in) {
    const uint8_t *records = (const uint8_t *)granule + page->records;
    size_t offset = at + page->first;
    for (unsigned index = 0; index < page->granule_capacity; index++, offset += page->block_bytes)
        if (load_relaxed(&records[index]) != UINT8_MAX)
            add_live(live_in, offset, page->block_bytes);
}

/* Those of any page; of mixed ones, whose they are. */
static void look_at_records(struct scan *scan, const struct page *page, const char *granule,
                            size_t at, uint32_t *live_in, struct wire_page *out) {
    size_t offset = at + page->first;
    for (unsigned index = 0; index < page->granule_capacity; index++, offset += page->block_bytes) {
        struct record record = record_read(page, blocks_record(page, granule, index));
        if (record.free)
            continue;
        if (out->context == WIRE_NONE) {
            uint32_t context = member_payer(page->heap, record.view_index);
            if (context == REGION_NO_CONTEXT)
                continue;
            out->live++;
            share_add(scan, out, known(scan, context));
        }
        add_live(live_in, offset, page->block_bytes);
    }
}

/* The slack of a free block is larger than any other. */
uint8_t pages_spare_units(const struct page *page, const char *start) {
    uint32_t least = UINT32_MAX;
    size_t granule_bytes = (size_t)page->granule_mask + 1, reached = blocks_reached(page, start);
    bool many = page->granule_mask < OS_PAGE_BYTES;
    for (size_t at = 0; at < reached; at += granule_bytes) {
        const void *records = start + at + page->records;
        if (many && blocks_punched(page) >> at / OS_PAGE_BYTES & 1)
            continue; /* its records went with it */
        for (unsigned i = 0; i < page->granule_capacity; i++) {
            uint32_t slack = page->meta_shift & META_WIDE
                                 ? load_relaxed(&((const uint16_t *)records)[i])
                                 : load_relaxed(&((const uint8_t *)records)[i]);
            least = slack < least ? slack : least;
        }
    }
    return least < page->block_bytes ? (uint8_t)(least / SERIAL_UNIT) : 0;
}

/* Looks at each block: how much of each OS page is alive, and in mixed pages whose. */
static void look_at_blocks(struct scan *scan, const struct page *page, const char *start,
                           struct wire_page *out) {
    uint32_t live_in[OS_PAGES_MAX] = {0};
    uint64_t punched = blocks_punched(page);
    size_t granule_bytes = (size_t)page->granule_mask + 1;
    size_t reached = blocks_reached(page, start);
    bool many = page->granule_mask < OS_PAGE_BYTES;
    bool bytes = !(page->meta_shift & (META_SHIFT | META_OWNERS));
    for (size_t at = 0; at < reached; at += granule_bytes) {
        if (many && punched >> at / OS_PAGE_BYTES & 1)
            continue; /* its records went with it */
        if (bytes)
            look_at_bytes(page, start + at, at, live_in);
        else
            look_at_records(scan, page, start + at, at, live_in, out);
    }
    size_t count = reached / OS_PAGE_BYTES;
    bool stays = page->meta_shift & (META_OWNERS | META_CHECKED) || !(page->flags & PAGE_LISTED) ||
                 !out->live;
    size_t records_first = page->records / OS_PAGE_BYTES;
    size_t records_last = (page->records + blocks_record_bytes(page) - 1) / OS_PAGE_BYTES;
    for (size_t i = 0; i < count && i < OS_PAGES_MAX; i++) {
        size_t at = many ? i : i % (granule_bytes / OS_PAGE_BYTES);
        bool records = !many && at >= records_first && at <= records_last;
        if (punched >> i & 1)
            continue;
        if (!live_in[i] && !records && !stays)
            out->os_empty++;
        else
            out->os_pages[pages_occupancy_bin(live_in[i], OS_PAGE_BYTES)]++;
    }
}

static struct wire_page *last_page(const struct scan *scan) {
    return (struct wire_page *)(void *)(scan->pages->bytes + scan->pages->length) - 1;
}

/* A full page beside full ones of the same context and size: they are told as one. */
static bool goes_on(const struct scan *scan, const struct wire_page *out) {
    const struct wire_page *last = scan->goes_on ? last_page(scan) : NULL;
    return last && out->state == WIRE_PAGE_FULL && last->state == WIRE_PAGE_FULL &&
           out->kind == WIRE_PAGE_OWN && last->kind == WIRE_PAGE_OWN &&
           out->live == out->capacity && last->live == last->capacity &&
           last->context == out->context && last->block_bytes == out->block_bytes &&
           last->tid == out->tid && last->start + last->bytes == out->start &&
           last->os_pages[WIRE_OCCUPANCY_BINS - 1] < UINT16_MAX - OS_PAGES_MAX;
}

static void add_to_last(struct wire_page *last, const struct wire_page *out) {
    last->bytes += out->bytes;
    last->touched_bytes += out->touched_bytes;
    last->live_bytes += out->live_bytes;
    if (out->resident_bytes != WIRE_UNKNOWN)
        last->resident_bytes += out->resident_bytes;
    last->live += out->live;
    last->capacity += out->capacity;
    last->os_pages[WIRE_OCCUPANCY_BINS - 1] += out->os_pages[WIRE_OCCUPANCY_BINS - 1];
    if (out->oldest_age > last->oldest_age)
        last->oldest_age = out->oldest_age;
    if (out->newest_age < last->newest_age)
        last->newest_age = out->newest_age;
    if (out->spare_units < last->spare_units)
        last->spare_units = out->spare_units;
}

static void add_page(struct scan *scan, const struct wire_page *out) {
    if (goes_on(scan, out)) {
        add_to_last(last_page(scan), out);
        return;
    }
    struct wire_page *room = answer_add(scan->pages, sizeof *room);
    scan->goes_on = room;
    if (room) {
        *room = *out;
        scan->count++;
    }
}

/* The OS pages of a page whose chunks stand one behind the other. */
static void look_at_chunks(const struct page *page, const char *start, struct wire_page *out) {
    uint32_t live_in[OS_PAGES_MAX] = {0};
    uint64_t held = blocks_punched(page);
    struct serial_chunk chunk;
    struct serial_walk walk = serial_walk(page);
    while (serial_next(page, start, &walk, &chunk)) {
        if (chunk.state == SERIAL_LIVE)
            add_live(live_in, chunk.offset, chunk.bytes);
        else if (chunk.state == SERIAL_FREED) /* not collected yet */
            held |= 1UL << chunk.offset / OS_PAGE_BYTES;
    }
    size_t count = (size_t)(page->next_block - start + OS_PAGE_BYTES - 1) / OS_PAGE_BYTES;
    size_t whole = (size_t)(page->next_block - start) / OS_PAGE_BYTES;
    size_t records_at = (page->slices * SLICE_BYTES - serial_record_bytes(page)) / OS_PAGE_BYTES;
    bool stays = out->state == WIRE_PAGE_CURRENT || !out->live;
    for (size_t i = 0; i < count && i < OS_PAGES_MAX; i++) {
        if (blocks_punched(page) >> i & 1)
            continue;
        if (!live_in[i] && !stays && !(held >> i & 1) && i < whole && i < records_at)
            out->os_empty++;
        else
            out->os_pages[pages_occupancy_bin(live_in[i], OS_PAGE_BYTES)]++;
    }
}

static void scan_serial(struct scan *scan, const struct page *page, const char *start) {
    const struct view *view = page->view;
    if (!view)
        return;
    struct serial_sum live = serial_live(page, start);
    struct wire_page out = {
        .start = (uint64_t)start,
        .bytes = page->slices * SLICE_BYTES,
        .touched_bytes = serial_touched(page, start),
        .resident_bytes = WIRE_UNKNOWN,
        .context = known(scan, view->context),
        .block_bytes = page->block_bytes,
        .live = live.chunks,
        .capacity = page->capacity,
        .live_bytes = live.bytes,
        .tid = load_relaxed(&page->heap->tid),
        .oldest_age = oldest_age(page),
        .kind = WIRE_PAGE_OWN,
        .state = page->flags & PAGE_FULL ? WIRE_PAGE_FULL : WIRE_PAGE_CURRENT,
    };
    if (out.state != WIRE_PAGE_CURRENT)
        out.newest_age = at_least_since(page->filled);
    if (scan->resident_known)
        out.resident_bytes = pages_resident_in(scan->resident, out.start, out.start + out.bytes);
    look_at_chunks(page, start, &out);
    add_page(scan, &out);
}

static void scan_blocks(struct scan *scan, const struct page *page, const char *start) {
    uint64_t pending = load_relaxed(&page->remote) >> 48;
    uint32_t flags = page->flags;
    bool own = page->kind == PAGE_OWN;
    struct wire_page out = {
        .start = (uint64_t)start,
        .bytes = page->slices * SLICE_BYTES,
        .touched_bytes = blocks_touched(page, start),
        .resident_bytes = WIRE_UNKNOWN,
        .context = WIRE_NONE,
        .block_bytes = page->block_bytes,
        .capacity = page->capacity,
        .first_share = (uint32_t)(scan->shares.length / sizeof(struct wire_share)),
        .tid = load_relaxed(&page->heap->tid),
        .oldest_age = oldest_age(page),
        .kind = own ? WIRE_PAGE_OWN : WIRE_PAGE_MIXED,
        .state = flags & PAGE_FULL     ? WIRE_PAGE_FULL
                 : flags & PAGE_LISTED ? WIRE_PAGE_LISTED
                                       : WIRE_PAGE_CURRENT,
        .apart = (page->meta_shift & META_APART) != 0,
    };
    /* Blocks of mixed pages may be used again while their page is not the current one. */
    if (own && out.state != WIRE_PAGE_CURRENT)
        out.newest_age = at_least_since(page->filled);
    if (scan->resident_known)
        out.resident_bytes = pages_resident_in(scan->resident, out.start, out.start + out.bytes);
    scan->serial++;
    if (own) {
        const struct view *view = page->view;
        if (!view)
            return;
        out.context = known(scan, view->context);
        out.spare_units = pages_spare_units(page, start);
        out.live = page->used > pending ? (uint32_t)(page->used - pending) : 0;
    }
    if (own && out.live == out.capacity)
        out.os_pages[WIRE_OCCUPANCY_BINS - 1] = (uint16_t)(out.touched_bytes / OS_PAGE_BYTES);
    else
        look_at_blocks(scan, page, start, &out);
    out.live_bytes = (uint64_t)out.live * out.block_bytes;
    add_page(scan, &out);
}

static void scan_large(struct scan *scan, const struct page *page, const char *start,
                       uint64_t bytes, int64_t resident) {
    struct wire_page out = {
        .start = (uint64_t)start,
        .bytes = bytes,
        .touched_bytes = align_up(page->requested_bytes, OS_PAGE_BYTES),
        .live_bytes = align_up(page->requested_bytes, OS_PAGE_BYTES),
        .resident_bytes = resident,
        .context = known(scan, page->context),
        .live = 1,
        .capacity = 1,
        .oldest_age = oldest_age(page),
        .newest_age = at_least_since(page->born),
        .kind = WIRE_PAGE_LARGE,
        .state = WIRE_PAGE_FULL,
    };
    add_page(scan, &out);
}

static void scan_page(const struct page *page, const char *start, void *context) {
    struct scan *scan = context;
    uint64_t bytes = page->slices * SLICE_BYTES;
    if (page->kind == PAGE_SPAN)
        scan_large(scan, page, start, bytes,
                   scan->resident_known ? pages_resident_in(scan->resident, (uintptr_t)start,
                                                            (uintptr_t)start + bytes)
                                        : WIRE_UNKNOWN);
    else if (page->kind == PAGE_SERIAL)
        scan_serial(scan, page, start);
    else
        scan_blocks(scan, page, start);
}

/* Where the segment stands in the order of segment_each. */
static uint64_t position(const struct segment *segment) {
    bool near = segment_near_flags((uintptr_t)segment >> SEGMENT_SHIFT) != NULL;
    return (uint64_t)segment | (near ? 0 : 1UL << 62);
}

static void scan_segment(struct segment *segment, bool huge, void *context) {
    struct scan *scan = context;
    if (position(segment) < scan->from || scan->next)
        return;
    if (scan->count >= WIRE_PAGES_MAX) {
        scan->next = position(segment);
        return;
    }
    scan->goes_on = false;
    segment_clock_set(os_now_exact_ns());
    bool resident = scan->flags & WIRE_DUMP_RESIDENT;
    if (huge) {
        const struct page *page = &segment->huge;
        if (load_acquire(&page->kind) == PAGE_HUGE) {
            uint64_t bytes = load_relaxed(&page->mapped_bytes);
            int64_t there = resident ? os_resident_bytes(segment, bytes) : -1;
            scan_large(scan, page, (const char *)segment, bytes, there < 0 ? WIRE_UNKNOWN : there);
        }
        return;
    }
    scan->resident_known = resident && os_resident_vector(segment, SEGMENT_BYTES, scan->resident);
    pages_each(segment, scan->resident_known ? scan->resident : NULL, scan_page, scan);
}

uint32_t pages_build(const struct wire_pages_request *request, struct answer *answer) {
    static struct scan scan; /* control thread only */
    scan = (struct scan){.from = request->from, .flags = request->flags, .contexts = tree_count()};
    scan.seen = control_map(scan.contexts * sizeof *scan.seen);
    scan.pages = answer;
    answer_reserve(answer, sizeof(struct wire_pages) +
                               (WIRE_PAGES_MAX + SEGMENT_SLICES) * sizeof(struct wire_page));
    if (scan.seen && answer_add(answer, sizeof(struct wire_pages))) {
        segment_each(scan_segment, &scan);
        char *room = answer_add(answer, scan.shares.length);
        if (room && scan.shares.length)
            __builtin_memcpy(room, scan.shares.bytes, scan.shares.length);
        answer->failed |= scan.shares.failed;
    }
    if (!answer->failed)
        *(struct wire_pages *)(void *)answer->bytes = (struct wire_pages){
            .next = scan.next,
            .count = scan.count,
            .share_count = (uint32_t)(scan.shares.length / sizeof(struct wire_share))};
    bool done = scan.seen && !answer->failed;
    control_unmap(scan.seen);
    answer_free(&scan.shares);
    return done ? WIRE_OK : WIRE_NO_MEMORY;
}
