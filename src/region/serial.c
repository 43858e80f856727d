/* SPDX-License-Identifier: MIT */
/* Allocates, frees and finds chunks in pages where they stand one behind the other; see serial.h.
 */
#include "region/serial.h"
#include "os/meta.h"
#include "region/aset.h"
#include "region/page_kinds.h"
#include "region/region.h"
#include "region/serial_pages.h"
#include "region/terms.h"

#define SLACK_MAX ((1U << SERIAL_SLACK_BITS) - 1)
_Static_assert(WIDE_PAGE_SLICES *SLICE_BYTES / SERIAL_UNIT <= 1U << SERIAL_FIRST_BITS,
               "offsets fit");
_Static_assert(SMALL_MAX / SERIAL_UNIT < 1U << SERIAL_UNITS_BITS, "chunks fit");
_Static_assert(SERIAL_FIRST_BITS + SERIAL_SHAPE_BITS <= SERIAL_KIND_SHIFT, "records fit");
_Static_assert(SERIAL_RECORDS_SHIFT + SERIAL_END_BITS <= 64, "the last run fits");

static struct serial_run run_of(uint32_t record) {
    return (struct serial_run){
        .first = serial_bits(record, 0, SERIAL_FIRST_BITS),
        .units = serial_bits(record, SERIAL_FIRST_BITS, SERIAL_UNITS_BITS),
        .slack = serial_bits(record, SERIAL_FIRST_BITS + SERIAL_UNITS_BITS, SERIAL_SLACK_BITS),
        .count = 1};
}

static enum serial_record kind_of(uint32_t record) {
    return (enum serial_record)(record >> SERIAL_KIND_SHIFT);
}

/* --- the table of chunks that are not alive --------------------------------------------------- */

INLINE enum serial_state state_of(const struct page *page, uint32_t unit) {
    const uint64_t *gone = load_acquire(&page->gone);
    if (!gone)
        return SERIAL_LIVE;
    if (load_relaxed(&gone[unit / 64]) >> unit % 64 & 1)
        return SERIAL_DEAD;
    return load_relaxed(&gone[serial_gone_words(page) + unit / 64]) >> unit % 64 & 1 ? SERIAL_FREED
                                                                                     : SERIAL_LIVE;
}

/* Slow path of gone_of: makes the table page->gone, unless another thread has just made it. */
NOINLINE static uint64_t *make_gone(struct page *page) {
    uint64_t *gone = meta_alloc(serial_gone_bytes(page)), *there = NULL;
    if (gone && !cas_acq_rel(&page->gone, &there, gone)) {
        meta_free(gone, serial_gone_bytes(page));
        return there;
    }
    return gone;
}

/* Returns the table page->gone, and makes it if the page has none. NULL: out of memory. Any thread
 * that holds a chunk of the page may call this function. */
INLINE uint64_t *gone_of(struct page *page) {
    uint64_t *gone = load_acquire(&page->gone);
    return LIKELY(gone != NULL) ? gone : make_gone(page);
}

/* Notes that the chunk at `unit` is not alive. Only the owner may call this function. */
INLINE void set_dead(uint64_t *gone, uint32_t unit) {
    store_owner(&gone[unit / 64], gone[unit / 64] | 1UL << unit % 64);
}

/* --- finding a chunk -------------------------------------------------------------------------- */

bool serial_next(const struct page *page, const char *start, struct serial_walk *walk,
                 struct serial_chunk *chunk) {
    struct serial_run *rest = &walk->rest;
    size_t units = page->slices * (SLICE_BYTES / SERIAL_UNIT);
    uint32_t records = serial_records(walk->run);
    if (!rest->count) {
        if (walk->number > records || records * sizeof(uint32_t) > units * SERIAL_UNIT)
            return false;
        if (walk->number == records) {
            *rest = serial_last_run(walk->run);
        } else {
            uint32_t record = load_relaxed(serial_record(page, start, walk->number));
            *rest = run_of(record);
            if (kind_of(record) == SERIAL_SEVERAL && ++walk->number < records)
                rest->count = serial_bits(load_relaxed(serial_record(page, start, walk->number)),
                                          SERIAL_FIRST_BITS, SERIAL_END_BITS);
        }
        walk->number++;
        /* A dump may read a page while the page is reused for another purpose. */
        if (!rest->count || !rest->units || rest->first + (size_t)rest->units * rest->count > units)
            return false;
    }
    *chunk = (struct serial_chunk){.offset = rest->first * SERIAL_UNIT,
                                   .bytes = rest->units * SERIAL_UNIT,
                                   .slack = rest->slack,
                                   .state = state_of(page, rest->first)};
    rest->first += rest->units;
    rest->count--;
    return true;
}

/* Returns the number of the last record word whose run begins at or before the unit. The unit is
 * not before the first run. The search begins at page->found, the number that the owner's last free
 * found. */
static uint32_t record_at(const struct page *page, const char *start, uint32_t unit,
                          uint32_t records) {
    uint32_t mask = (1U << SERIAL_FIRST_BITS) - 1, low = 0, high = records - 1;
    uint32_t likely = load_relaxed(&page->found);
    if (likely < records && (load_relaxed(serial_record(page, start, likely)) & mask) <= unit) {
        low = likely;
        if (low + 2 < high && (load_relaxed(serial_record(page, start, low + 2)) & mask) > unit)
            high = low + 1;
    }
    while (low < high) {
        uint32_t middle = high - (high - low) / 2;
        if ((load_relaxed(serial_record(page, start, middle)) & mask) <= unit)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The position of a chunk in its page. */
struct position {
    struct serial_run run; /* the run of the chunk */
    uint32_t unit;         /* first unit of the chunk */
    /* number of the run's last record word; for the last run, which has none, the number of record
     * words in the page */
    uint32_t number;
};

/* Finds the chunk that begins at the pointer. False: no chunk begins there. The function is inline,
 * so that `position` stays in registers. */
INLINE bool find(const struct page *page, const void *chunk, struct position *position) {
    const char *start = segment_span_start(page);
    size_t offset = (size_t)((const char *)chunk - start);
    uint32_t unit = (uint32_t)(offset / SERIAL_UNIT);
    uint64_t last = load_acquire(&page->run);
    struct serial_run run = serial_last_run(last);
    uint32_t number = serial_records(last);
    if (unit < run.first && number) {
        number = record_at(page, start, unit, number);
        uint32_t record = load_relaxed(serial_record(page, start, number));
        bool several = kind_of(record) == SERIAL_COUNT && number;
        run = run_of(several ? load_relaxed(serial_record(page, start, number - 1)) : record);
        if (several)
            run.count = serial_bits(record, SERIAL_FIRST_BITS, SERIAL_END_BITS);
    }
    *position = (struct position){.run = run, .unit = unit, .number = number};
    uint32_t behind = unit - run.first; /* wraps around for a unit before the run */
    return offset % SERIAL_UNIT == 0 && behind < run.units * run.count && behind % run.units == 0;
}

/* Ends the program that passed a pointer at which no chunk begins. Behind the page's last chunk
 * there may have been chunks that were freed before the page was used again. So a pointer to there
 * is reported as a second free. */
COLD static void report_no_chunk(const struct page *page, const void *chunk) {
    bool behind = (const char *)chunk >= page->next_block && !((uintptr_t)chunk % SERIAL_UNIT);
    region_report(behind ? MISUSE_DOUBLE_FREE : MISUSE_INTERIOR, page, chunk);
}

/* Like find, but ends the program unless the pointer is a chunk that is alive. */
INLINE struct position find_alive(const struct page *page, const void *chunk) {
    struct position position;
    if (UNLIKELY(!find(page, chunk, &position)))
        report_no_chunk(page, chunk);
    if (UNLIKELY(state_of(page, position.unit) != SERIAL_LIVE))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    return position;
}

static uint32_t bytes_of(const struct position *position) {
    return position->run.units * SERIAL_UNIT;
}

static uint32_t requested_of(const struct position *position) {
    return bytes_of(position) - position->run.slack;
}

/* --- chunks ---------------------------------------------------------------------------------- */

static uint32_t bytes_for(size_t size) {
    return (uint32_t)align_up(size ? size : 1, SERIAL_UNIT);
}

/* Appends a chunk that starts at the unit `first` to `run`, or ends `run` and begins a new run.
 * `run` is the page's last run; when the last chunk is resized, `run` is the last run without this
 * chunk. NULL: the page has no room. */
static char *append(struct page *page, uint64_t run, uint32_t first, uint32_t units,
                    uint32_t slack) {
    uint32_t shape = serial_shape(units, slack), records = serial_records(run), end = first + units;
    if (serial_bits(run, SERIAL_SHAPE_SHIFT, SERIAL_SHAPE_BITS) == shape &&
        first == serial_end(run))
        return serial_has_room(page, end, records) ? serial_extend(page, run, units) : NULL;
    struct serial_run last = serial_last_run(run);
    uint32_t closing = last.count < 2 ? last.count : 2;
    if (!serial_has_room(page, end, records + closing))
        return NULL;
    const char *start = segment_span_start(page);
    if (closing)
        store_owner(serial_record(page, start, records),
                    last.first | serial_shape(last.units, last.slack) << SERIAL_FIRST_BITS |
                        (closing == 2 ? SERIAL_SEVERAL : SERIAL_ALONE) << SERIAL_KIND_SHIFT);
    if (closing == 2)
        store_owner(serial_record(page, start, records + 1),
                    last.first | last.count << SERIAL_FIRST_BITS |
                        (uint32_t)SERIAL_COUNT << SERIAL_KIND_SHIFT);
    run = first | (uint64_t)shape << SERIAL_SHAPE_SHIFT |
          (uint64_t)(records + closing) << SERIAL_RECORDS_SHIFT;
    return serial_extend(page, run, units);
}

/* Allocates a chunk behind the last chunk of the page. NULL: `page` is NULL or has no room. */
static void *alloc_in(struct heap *heap, struct page *page, struct view *view, size_t size,
                      size_t alignment, bool *fresh) {
    uint32_t bytes = bytes_for(size);
    if (UNLIKELY(!page))
        return NULL;
    uint32_t end = serial_end(page->run);
    uintptr_t start = (uintptr_t)segment_span_start(page);
    uint32_t first =
        (uint32_t)((align_up(start + (size_t)end * SERIAL_UNIT, alignment) - start) / SERIAL_UNIT);
    char *chunk = append(page, page->run, first, bytes / SERIAL_UNIT, bytes - (uint32_t)size);
    if (UNLIKELY(!chunk))
        return NULL;
    if (UNLIKELY(first != end))
        serial_add_dead(heap, page, (int64_t)(first - end) * SERIAL_UNIT);
    add_owner(&page->used, 1);
    *fresh = page->fresh;
    view_account_alloc(view, size);
    return chunk;
}

void *serial_alloc_current(struct heap *heap, struct view *view, size_t size, bool *fresh) {
    return alloc_in(heap, region_of(view->region)->serial, view, size, SERIAL_UNIT, fresh);
}

void *serial_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment,
                   bool *fresh) {
    aset_set_bins(view, view->region);
    void *chunk = alloc_in(heap, region_of(view->region)->serial, view, size, alignment, fresh);
    if (chunk)
        return chunk;
    struct page *page = serial_next_page(heap, view, bytes_for(size) + alignment);
    return alloc_in(heap, page, view, size, alignment, fresh);
}

/* Counts a chunk of `bytes` bytes as not alive any more. */
static void count_dead(struct heap *heap, struct page *page, uint32_t bytes) {
    serial_add_dead(heap, page, bytes);
    store_owner(&page->used, (uint16_t)(page->used - 1));
}

INLINE void serial_zero(const struct page *page, void *chunk, size_t bytes) {
    if (UNLIKELY(terms_with(page->view->context, TERMS_ZERO) != NULL))
        __builtin_memset(chunk, 0, bytes);
}

static void free_chunk(struct heap *heap, struct page *page, void *chunk) {
    struct position position = find_alive(page, chunk);
    if (page->used > 1) { /* a page without live chunks needs no table */
        uint64_t *gone = gone_of(page);
        if (UNLIKELY(!gone))
            return; /* the free cannot be noted, so the chunk stays alive */
        set_dead(gone, position.unit);
    }
    store_owner(&page->found, (uint16_t)position.number);
    view_account_free(page->view, requested_of(&position));
    serial_zero(page, chunk, bytes_of(&position));
    count_dead(heap, page, bytes_of(&position));
    if (blocks_are_watched(page))
        segment_watch(chunk);
    if (UNLIKELY(!page->used))
        serial_page_got_empty(heap, page);
}

static bool release(struct heap *heap, struct page *page, void *chunk, struct freed *freed) {
    (void)heap;
    struct position position = find_alive(page, chunk);
    uint64_t *gone = gone_of(page), bit = 1UL << position.unit % 64;
    if (UNLIKELY(!gone))
        return false;
    if (UNLIKELY(or_release(&gone[serial_gone_words(page) + position.unit / 64], bit) & bit))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    serial_zero(page, chunk, bytes_of(&position));
    *freed =
        (struct freed){.paid = page->view, .requested = requested_of(&position), .block = chunk};
    return true;
}

/* Does the owner's part of a free by another thread. The chunk was taken off the list page->remote,
 * or never was in that list. */
static void settle_freed(struct heap *heap, struct page *page, const void *chunk) {
    struct position position;
    if (find(page, chunk, &position)) {
        set_dead(page->gone, position.unit);
        count_dead(heap, page, bytes_of(&position));
    }
}

static void collect(struct heap *heap, struct page *page, void *chain, void *last,
                    uint16_t length) {
    (void)last;
    (void)length;
    while (chain) {
        void *next = *(void **)chain;
        settle_freed(heap, page, chain);
        chain = next;
    }
    if (!page->used)
        serial_page_got_empty(heap, page);
}

static void free_parked(struct heap *owner, struct page *page, void *chunk) {
    struct region *region = serial_region(page);
    settle_freed(owner, page, chunk);
    if (blocks_are_watched(page))
        segment_watch(chunk);
    if (!page->used)
        serial_page_got_empty(owner, page);
    serial_release_empty(region); /* a parked heap allocates nothing, so it keeps no empty page */
}

/* Returns the last run without its last chunk. */
static uint64_t run_without(uint64_t run, const struct position *last) {
    if (last->run.count > 1)
        return run - last->run.units - (1UL << SERIAL_COUNT_SHIFT);
    return last->unit | (uint64_t)serial_records(run) << SERIAL_RECORDS_SHIFT;
}

/* Resizes a chunk where it stands. False: nothing changed. */
static bool resize_here(struct page *page, void *chunk, size_t size, size_t *had) {
    struct position position = find_alive(page, chunk);
    uint32_t old = bytes_of(&position), bytes = bytes_for(size);
    char *end = (char *)chunk + old;
    if (size > SMALL_MAX)
        return false;
    if (end == page->next_block && page == serial_region(page)->serial) { /* the last chunk */
        if (!append(page, run_without(page->run, &position), position.unit, bytes / SERIAL_UNIT,
                    bytes - (uint32_t)size))
            return false;
        if (bytes < old)
            page->fresh = 0; /* the bytes behind the chunk are handed out again, and are not zero */
    } else if (size > old || size * 2 < old || old - size > SLACK_MAX) {
        return false;
    } else if (old - size != position.run.slack) {
        if (position.run.count > 1 || position.number == serial_records(page->run))
            return false; /* all chunks of a run have one slack */
        uint32_t *record = serial_record(page, segment_span_start(page), position.number);
        uint32_t shape = serial_shape(position.run.units, old - (uint32_t)size);
        store_owner(record, position.unit | shape << SERIAL_FIRST_BITS);
    }
    if (size < old)
        serial_zero(page, (char *)chunk + size, old - size);
    *had = requested_of(&position);
    view_account_free(page->view, *had);
    view_account_alloc(page->view, size);
    return true;
}

static void *resize(struct heap *heap, struct view *view, struct page *page, void *chunk,
                    size_t size, size_t *had) {
    bool mine = page->heap == heap && page->view == view;
    return mine && resize_here(page, chunk, size, had) ? chunk : NULL;
}

/* --- look ----------------------------------------------------------------------------------- */

static uint32_t context_of(const struct page *page, const void *chunk) {
    (void)chunk;
    return page->heap ? page->view->context : REGION_NO_CONTEXT;
}

static size_t usable(const struct page *page, const void *chunk) {
    struct position position = find_alive(page, chunk);
    return bytes_of(&position);
}

static size_t requested(const struct page *page, const void *chunk) {
    struct position position = find_alive(page, chunk);
    return requested_of(&position);
}

static void describe(const struct page *page, struct text *text) {
    (void)page, (void)text; /* nothing to add: the report's line has the address */
}

static void each_used(const struct page *page, page_visit *visit, void *context) {
    char *start = segment_span_start(page);
    struct serial_chunk chunk;
    for (struct serial_walk walk = serial_walk(page); serial_next(page, start, &walk, &chunk);)
        if (chunk.state == SERIAL_LIVE)
            visit(start + chunk.offset, chunk.bytes, chunk.bytes - chunk.slack, context);
}

static int64_t waste(const struct page *page) {
    return page->dead_bytes;
}

static bool list_holds(const struct page *page) {
    (void)page;
    return true; /* there is no list of free chunks */
}

struct serial_sum serial_live(const struct page *page, const char *start) {
    struct serial_sum sum = {0, 0};
    struct serial_chunk chunk;
    for (struct serial_walk walk = serial_walk(page); serial_next(page, start, &walk, &chunk);) {
        bool live = chunk.state == SERIAL_LIVE;
        sum.chunks += live;
        sum.bytes += live ? chunk.bytes : 0;
    }
    return sum;
}

size_t serial_touched(const struct page *page, const char *start) {
    size_t reached = blocks_reached(page, start), bytes = page->slices * SLICE_BYTES;
    size_t records = align_up(serial_record_bytes(page), OS_PAGE_BYTES);
    size_t all = reached + records < bytes ? reached + records : bytes;
    size_t punched = (size_t)__builtin_popcountl(blocks_punched(page)) * OS_PAGE_BYTES;
    return all > punched ? all - punched : 0;
}

const struct page_kind page_kind_serial = {
    .free_own = free_chunk,
    .free_foreign = region_free_by_other_thread,
    .release = release,
    .free_parked = free_parked,
    .collect = collect,
    .resize = resize,
    .context_of = context_of,
    .usable = usable,
    .requested = requested,
    .describe = describe,
    .each_used = each_used,
    .reset = serial_reset,
    .waste = waste,
    .list_holds = list_holds,
};
