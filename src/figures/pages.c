/* SPDX-License-Identifier: MIT */
/*
 * pages.c - the content of each page, a piece of a dump at a time; see pages.h.
 *
 * Adjacent pages of one context that are alike (goes_on) make one record. In pages that are not
 * full every block is examined; the light form of a dump (WIRE_DUMP_LIGHT) does this only in mixed
 * pages. The record of a mixed page is followed by the contexts that own blocks in the page. When a
 * piece has no room for all these contexts, the next piece continues at a block of that page.
 */
#include "figures/pages.h"
#include "region/member.h"
#include "region/serial.h"

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

static unsigned occupancy_bin(uint64_t live, uint64_t capacity) {
    static const uint8_t bounds[] = {6, 12, 25, 50, 75, 99};
    unsigned bin = 0;
    if (live >= capacity)
        return WIRE_OCCUPANCY_BINS - 1;
    while (bin < 5 && live * 100 > (uint64_t)bounds[bin] * capacity)
        bin++;
    return bin;
}

static int64_t resident_in(const unsigned char *resident, uintptr_t start, uintptr_t end) {
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

/* Size of a hash table from contexts to their shares of a mixed page. A page has at most half as
 * many blocks as the table has slots, so it has at most half as many contexts. */
#define SHARES_HASH 2048U
#define SHARES_MAX (SHARES_HASH / 2)
#define BLOCKS_BITS 14 /* bits for the number of a block in its page */

struct scan {
    struct piece *piece;
    /* Where the piece begins: place of the segment (segment_place), slice, and in a mixed page the
     * block. */
    uint64_t place;
    uint32_t slice, block;
    bool light; /* blocks in pages of one context are not examined */
    unsigned char resident[SEGMENT_BYTES / OS_PAGE_BYTES]; /* for the segment that is read */
    bool resident_known;                                   /* `resident` is filled */
    struct wire_page *last; /* last record of this segment; the next page may extend it */
    /* The mixed page that is examined. Blocks with numbers below from_block were written into an
     * earlier piece of the dump; block_now is the number of the block that is examined. */
    uint32_t from_block, block_now;
    bool full; /* the answer had no room from block from_block on */
    struct {
        uint32_t context, serial; /* a slot with another page's serial is empty */
    } hash[SHARES_HASH];
    uint16_t share_of[SHARES_HASH]; /* by slot of the hash table: index in `shares` */
    struct wire_share *shares;      /* in the answer, behind the page's record */
    uint32_t share_count, serial;   /* `serial` counts mixed pages */
};

/* OS pages in the largest page of blocks. */
#define OS_PAGES_MAX (WIDE_PAGE_SLICES * SLICE_BYTES / OS_PAGE_BYTES)

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
    if (scan->resident_known && resident_in(scan->resident, block, block + 1))
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
           resident_in(scan->resident, (uintptr_t)start + number * OS_PAGE_BYTES,
                       (uintptr_t)start + (number + 1) * OS_PAGE_BYTES);
}

/* Examines each block: counts the live bytes of each OS page, and in a mixed page the blocks of
 * each context. */
static void look_at_blocks(struct scan *scan, const struct page *page, const char *start,
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
            out->os_pages[occupancy_bin(live_in[i], OS_PAGE_BYTES)]++;
    }
}

/* In the light form, pages are alike when their occupancy is equal. */
static bool is_alike_light(const struct wire_page *a, const struct wire_page *b) {
    return !a->live == !b->live &&
           occupancy_bin(a->live_bytes, (uint64_t)a->capacity * a->block_bytes) ==
               occupancy_bin(b->live_bytes, (uint64_t)b->capacity * b->block_bytes);
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

/* Examines a serial page, whose chunks follow each other without blocks of fixed size: counts the
 * live bytes of each OS page. */
static void look_at_chunks(const struct scan *scan, const struct page *page, const char *start,
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
            out->os_pages[occupancy_bin(live_in[i], OS_PAGE_BYTES)]++;
    }
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
        out.resident_bytes = resident_in(scan->resident, out.start, out.start + out.bytes);
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
        look_at_chunks(scan, page, start, &out);
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
            look_at_blocks(scan, page, start, &out);
    }
    return add_page(scan, &out);
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
    look_at_blocks(scan, page, start, &out);
    out.live_bytes = (uint64_t)out.live * out.block_bytes;
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
                          scan->resident_known ? resident_in(scan->resident, (uintptr_t)start,
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
        scan->piece->segments_resident +=
            resident_in(scan->resident, (uintptr_t)segment, (uintptr_t)segment + SEGMENT_BYTES);
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
