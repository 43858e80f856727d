/* SPDX-License-Identifier: MIT */
/* Pages in which chunks stand one behind the other; see serial.h. */
#include "region/serial.h"
#include "region/aset.h"
#include "region/region.h"
#include "region/terms.h"

#define SMALL_PAGE_MAX 1024U /* larger chunks would leave too much at the end of a small page */
#define UNITS_MAX ((1U << (SERIAL_STATE_SHIFT - SERIAL_UNITS_SHIFT)) - 1)
#define SLACK_MAX 255U
_Static_assert(WIDE_PAGE_SLICES *SLICE_BYTES / SERIAL_UNIT <= 1U << SERIAL_UNITS_SHIFT,
               "offsets fit");
_Static_assert(SMALL_MAX / SERIAL_UNIT <= UNITS_MAX, "chunks fit");

static struct serial_chunk chunk_of(uint32_t word) {
    return (struct serial_chunk){
        .offset = (word & ((1U << SERIAL_UNITS_SHIFT) - 1)) * SERIAL_UNIT,
        .bytes = (word >> SERIAL_UNITS_SHIFT & UNITS_MAX) * SERIAL_UNIT,
        .slack = word >> SERIAL_SLACK_SHIFT,
        .state = (enum serial_state)(word >> SERIAL_STATE_SHIFT & 3),
    };
}

bool serial_next(const struct page *page, const char *start, unsigned *number,
                 struct serial_chunk *chunk) {
    unsigned count = load_acquire(&page->serial.records);
    size_t bytes = page->slices * SLICE_BYTES;
    if (*number >= count || count > bytes / SERIAL_UNIT || bytes > WIDE_PAGE_SLICES * SLICE_BYTES)
        return false;
    const uint32_t *record = serial_record(page, start, *number);
    *chunk = chunk_of(load_relaxed(record));
    *number += 1;
    return chunk->bytes && chunk->offset + chunk->bytes <= bytes;
}

/* The record of the chunk that begins there; NULL: none does. */
static uint32_t *find(const struct page *page, const void *chunk) {
    const char *start = segment_span_start(page);
    size_t offset = (size_t)((const char *)chunk - start);
    uint32_t unit = (uint32_t)(offset / SERIAL_UNIT), mask = (1U << SERIAL_UNITS_SHIFT) - 1;
    unsigned count = load_acquire(&page->serial.records);
    unsigned likely = load_relaxed(&page->serial.found);
    if (offset % SERIAL_UNIT || !count)
        return NULL;
    for (unsigned i = likely; i < count && i < likely + 2; i++)
        if ((load_relaxed(serial_record(page, start, i)) & mask) == unit)
            return serial_record(page, start, i);
    unsigned low = 0, high = count - 1, at = high;
    while (low < high) {
        uint32_t there = load_relaxed(serial_record(page, start, at)) & mask;
        if (there == unit)
            return serial_record(page, start, at);
        if (there < unit)
            low = at + 1;
        else
            high = at;
        at = low + (high - low) / 2;
    }
    uint32_t *record = serial_record(page, start, low);
    return (load_relaxed(record) & mask) == unit ? record : NULL;
}

/* Of a chunk that is alive, or the program ends. */
static uint32_t *find_alive(const struct page *page, const void *chunk) {
    uint32_t *record = find(page, chunk);
    if (UNLIKELY(!record))
        region_report(MISUSE_INTERIOR, page, chunk);
    if (UNLIKELY(chunk_of(load_relaxed(record)).state != SERIAL_LIVE))
        region_report(MISUSE_DOUBLE_FREE, page, chunk);
    return record;
}

static struct serial_chunk set_state(uint32_t *record, enum serial_state state) {
    struct serial_chunk chunk = chunk_of(load_relaxed(record));
    chunk.state = state;
    store_owner(record, serial_word(chunk));
    return chunk;
}

/* --- pages ---------------------------------------------------------------------------------- */

static struct region *region_for(const struct page *page) {
    return region_of(page->view->region);
}

static void add_dead(struct heap *heap, struct page *page, int64_t bytes) {
    page->serial.dead_bytes += (uint32_t)bytes;
    store_owner(&heap->own_free, heap->own_free + bytes);
}

/* Nothing in it is alive. */
static void rewind_page(struct heap *heap, struct page *page) {
    add_dead(heap, page, -(int64_t)page->serial.dead_bytes);
    page->fresh = 0;
    page->serial.found = 0;
    if (load_relaxed(&page->meta_shift) & META_PUNCHED) {
        and_release(&page->meta_shift, (uint8_t)~META_PUNCHED);
        store_owner(&page->punched, 0);
    }
    store_release(&page->serial.records, 0);
    store_release(&page->next_block, segment_span_start(page));
}

static void destroy(struct heap *heap, struct region *region, struct page *page) {
    add_dead(heap, page, -(int64_t)page->serial.dead_bytes);
    region_unlist(&region->pages, page);
    segment_span_free(page);
}

/* Its last chunk was freed. */
static void got_empty(struct heap *heap, struct page *page) {
    struct region *region = region_for(page);
    if (page == region->serial) {
        rewind_page(heap, page);
    } else if (policy_of(&region->bins)->keeps_spare && !region->spare) {
        rewind_page(heap, page);
        region->spare = page;
    } else {
        destroy(heap, region, page);
    }
}

void serial_reset(struct heap *heap, struct region *region, struct page *page) {
    store_owner(&page->used, 0);
    if (page == region->serial)
        rewind_page(heap, page);
    else if (page != region->spare)
        destroy(heap, region, page);
}

void serial_put_aside(struct heap *heap, struct region *region) {
    struct page *page = region->serial;
    region->serial = NULL;
    if (!page)
        return;
    store_owner(&page->filled, load_relaxed(&segment_clock));
    flag_set(page, PAGE_FULL);
    if (!page->used)
        got_empty(heap, page);
}

void serial_release_empty(struct region *region) {
    struct page *page = region->serial;
    if (page && !page->used) {
        region_unlist(&region->pages, page);
        region->serial = NULL;
        segment_span_free(page);
    }
    if (region->spare) {
        region_unlist(&region->pages, region->spare);
        segment_span_free(region->spare);
        region->spare = NULL;
    }
}

static struct page *create(struct heap *heap, struct view *view, uint32_t slices) {
    struct region *region = region_of(view->region);
    struct page *page = segment_span_alloc_grouped(slices, 64, &region->bins.next_page);
    if (!page)
        return NULL;
    page->block_bytes = SERIAL_UNIT;
    page->granule_mask = (uint16_t)(slices * SLICE_BYTES - 1);
    page->granule_capacity = 1;
    page->capacity = slices * SLICE_BYTES / SERIAL_UNIT;
    page->meta_shift = META_ALIGNED; /* what makes a free go the further way */
    page->next_block = segment_span_start(page);
    page->view = view;
    page->heap = heap;
    region_list(&region->pages, page);
    store_release(&page->kind, PAGE_SERIAL);
    return page;
}

/* Where a chunk of so many bytes fits behind the last one; NULL: nowhere. */
static char *fit(const struct page *page, size_t bytes, size_t alignment) {
    char *start = segment_span_start(page);
    char *chunk = (char *)align_up((uintptr_t)page->next_block, alignment);
    unsigned records = page->serial.records + (chunk != page->next_block) + 1U;
    return chunk + bytes <= (char *)serial_record(page, start, records - 1) ? chunk : NULL;
}

static struct page *next_page(struct heap *heap, struct view *view, size_t bytes) {
    struct region *region = region_of(view->region);
    bool large = bytes > SMALL_PAGE_MAX || view_live_bytes(view) >= SERIAL_LARGE_BYTES;
    uint32_t slices = large ? WIDE_PAGE_SLICES : 1;
    if (UNLIKELY(region->bins.slices)) /* what is small fits into either */
        slices = region->bins.slices;
    serial_put_aside(heap, region);
    if (load_relaxed(&heap->remote_pages))
        bins_collect_remote(heap);
    heap_publish_waste(heap);
    struct page *page = region->spare;
    if (page && page->slices >= slices) {
        region->spare = NULL;
        flag_clear(page, PAGE_FULL);
        store_owner(&page->born, load_relaxed(&segment_clock));
    } else {
        page = create(heap, view, slices);
    }
    region->serial = page;
    return page;
}

/* Behind the last chunk; that it is there is told last. */
static void append(struct page *page, const char *chunk, struct serial_chunk what) {
    char *start = segment_span_start(page);
    what.offset = (uint32_t)(chunk - start);
    store_owner(serial_record(page, start, page->serial.records), serial_word(what));
    store_release(&page->next_block, start + what.offset + what.bytes);
    store_release(&page->serial.records, (uint16_t)(page->serial.records + 1));
}

/* --- chunks ---------------------------------------------------------------------------------- */

static uint32_t bytes_for(size_t size) {
    return (uint32_t)align_up(size ? size : 1, SERIAL_UNIT);
}

/* A chunk behind the page's last one. NULL: there is no room. */
static void *alloc_in(struct heap *heap, struct page *page, struct view *view, size_t size,
                      size_t alignment, bool *fresh) {
    uint32_t bytes = bytes_for(size);
    char *chunk = LIKELY(page != NULL) ? fit(page, bytes, alignment) : NULL;
    if (UNLIKELY(!chunk))
        return NULL;
    if (UNLIKELY(chunk != page->next_block)) {
        struct serial_chunk skipped = {.bytes = (uint32_t)(chunk - page->next_block)};
        append(page, page->next_block, skipped);
        add_dead(heap, page, skipped.bytes);
    }
    add_owner(&page->used, 1);
    append(page, chunk,
           (struct serial_chunk){
               .bytes = bytes, .slack = bytes - (uint32_t)size, .state = SERIAL_LIVE});
    *fresh = page->fresh;
    view_account_alloc(view, size);
    return chunk;
}

void *serial_alloc(struct heap *heap, struct view *view, size_t size, size_t alignment,
                   bool *fresh) {
    aset_set_bins(view, view->region);
    void *chunk = alloc_in(heap, region_of(view->region)->serial, view, size, alignment, fresh);
    if (chunk)
        return chunk;
    struct page *page = next_page(heap, view, bytes_for(size) + alignment);
    return alloc_in(heap, page, view, size, alignment, fresh);
}

static void is_dead(struct heap *heap, struct page *page, uint32_t bytes) {
    add_dead(heap, page, bytes);
    store_owner(&page->used, (uint16_t)(page->used - 1));
}

static void serial_zero(const struct page *page, void *chunk, size_t bytes) {
    if (UNLIKELY(terms_with(page->view->context, TERMS_ZERO) != NULL))
        __builtin_memset(chunk, 0, bytes);
}

void serial_free(struct heap *heap, struct page *page, void *chunk) {
    uint32_t *record = find_alive(page, chunk);
    struct serial_chunk freed = set_state(record, SERIAL_DEAD);
    const char *start = segment_span_start(page);
    store_owner(&page->serial.found, (uint16_t)(serial_record(page, start, 0) - record));
    view_account_free(page->view, freed.bytes - freed.slack);
    serial_zero(page, chunk, freed.bytes);
    is_dead(heap, page, freed.bytes);
    if (blocks_are_watched(page))
        segment_watch(chunk);
    if (UNLIKELY(!page->used))
        got_empty(heap, page);
}

size_t serial_release(const struct page *page, void *chunk) {
    struct serial_chunk freed = set_state(find_alive(page, chunk), SERIAL_FREED);
    serial_zero(page, chunk, freed.bytes);
    return freed.bytes - freed.slack;
}

/* Not in the page's `remote` any more, or never there. */
static void settle_freed(struct heap *heap, struct page *page, const void *chunk) {
    uint32_t *record = find(page, chunk);
    if (record)
        is_dead(heap, page, set_state(record, SERIAL_DEAD).bytes);
}

void serial_collect(struct heap *heap, struct page *page, void *chunks) {
    while (chunks) {
        void *next = *(void **)chunks;
        settle_freed(heap, page, chunks);
        chunks = next;
    }
    if (!page->used)
        got_empty(heap, page);
}

void serial_free_of_parked(struct heap *owner, struct page *page, void *chunk) {
    settle_freed(owner, page, chunk);
    if (blocks_are_watched(page))
        segment_watch(chunk);
    if (!page->used)
        got_empty(owner, page);
}

bool serial_resize(struct page *page, void *chunk, size_t size) {
    uint32_t *record = find_alive(page, chunk);
    struct serial_chunk old = chunk_of(*record), new = old;
    char *end = (char *)chunk + old.bytes;
    if (size > SMALL_MAX)
        return false;
    if (end == page->next_block && page == region_for(page)->serial) { /* the last one */
        new.bytes = bytes_for(size);
        if ((char *)chunk + new.bytes >
            (char *)(serial_record(page, segment_span_start(page), page->serial.records - 1U)))
            return false;
    } else if (size > old.bytes || size * 2 < old.bytes || old.bytes - size > SLACK_MAX) {
        return false;
    }
    new.slack = new.bytes - (uint32_t)size;
    view_account_free(page->view, old.bytes - old.slack);
    view_account_alloc(page->view, size);
    store_owner(record, serial_word(new));
    if (new.bytes != old.bytes) {
        if (new.bytes < old.bytes)
            page->fresh = 0;
        store_release(&page->next_block, (char *)chunk + new.bytes);
    }
    return true;
}

size_t serial_usable(const struct page *page, const void *chunk) {
    return chunk_of(load_relaxed(find_alive(page, chunk))).bytes;
}

size_t serial_requested(const struct page *page, const void *chunk) {
    struct serial_chunk there = chunk_of(load_relaxed(find_alive(page, chunk)));
    return there.bytes - there.slack;
}

struct serial_sum serial_live(const struct page *page, const char *start) {
    struct serial_sum sum = {0, 0};
    struct serial_chunk chunk;
    for (unsigned i = 0; serial_next(page, start, &i, &chunk);) {
        bool live = chunk.state == SERIAL_LIVE;
        sum.chunks += live;
        sum.bytes += live ? chunk.bytes : 0;
    }
    return sum;
}

size_t serial_touched(const struct page *page, const char *start) {
    size_t reached = blocks_reached(page, start), bytes = page->slices * SLICE_BYTES;
    size_t records = align_up(page->serial.records * sizeof(uint32_t), OS_PAGE_BYTES);
    size_t all = reached + records < bytes ? reached + records : bytes;
    size_t punched = (size_t)__builtin_popcountl(blocks_punched(page)) * OS_PAGE_BYTES;
    return all > punched ? all - punched : 0;
}

/* --- OS pages in which nothing is alive ----------------------------------------------------------- */

static uint64_t os_pages_of(size_t offset, size_t bytes) {
    size_t first = offset / OS_PAGE_BYTES, last = (offset + bytes - 1) / OS_PAGE_BYTES;
    return ((2UL << ((last - first) & 63)) - 1) << first;
}

static size_t punch(struct heap *heap, struct page *page) {
    char *start = segment_span_start(page);
    size_t count = (size_t)(page->next_block - start) / OS_PAGE_BYTES; /* without what is unused */
    uint64_t used =
        os_pages_of((size_t)((char *)serial_record(page, start, page->serial.records) + 4 - start),
                    (size_t)page->serial.records * sizeof(uint32_t));
    struct serial_chunk chunk;
    for (unsigned i = 0; serial_next(page, start, &i, &chunk);)
        if (chunk.state != SERIAL_DEAD)
            used |= os_pages_of(chunk.offset, chunk.bytes);
    uint64_t empty = ~used & ~blocks_punched(page) & ((1UL << count) - 1);
    if (!empty)
        return 0;
    size_t bytes = (size_t)__builtin_popcountl(empty) * OS_PAGE_BYTES;
    add_dead(heap, page, -(int64_t)bytes); /* no waste any more */
    store_owner(&page->punched, blocks_punched(page) | empty);
    blocks_mark(page, META_PUNCHED);
    for (size_t i = 0; i < count; i++)
        if (empty >> i & 1)
            os_discard(start + i * OS_PAGE_BYTES, OS_PAGE_BYTES);
    return bytes;
}

size_t serial_punch(struct region *region) {
    size_t bytes = 0;
    for (struct page *page = region->pages; page; page = page->next)
        if (page->kind == PAGE_SERIAL && page != region->serial && page->used)
            bytes += punch(page->heap, page);
    return bytes;
}
