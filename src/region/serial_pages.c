/* SPDX-License-Identifier: MIT */
/* Makes, rewinds and gives back serial pages (serial.h), and gives back the OS pages in them that
 * hold only dead chunks. */
#include "region/serial_pages.h"
#include "os/meta.h"
#include "region/region.h"

/* Larger chunks come from large pages (64 KiB): they would leave too many bytes at the end of a
 * small page (16 KiB). */
#define SMALL_PAGE_MAX 1024U

/* Brings the page into the state of a new page. No chunk in it is alive. */
static void rewind_page(struct heap *heap, struct page *page) {
    serial_add_dead(heap, page, -(int64_t)page->dead_bytes);
    page->fresh = 0;
    page->found = 0;
    if (load_relaxed(&page->meta_shift) & META_PUNCHED) {
        and_release(&page->meta_shift, (uint8_t)~META_PUNCHED);
        store_owner(&page->punched, 0);
    }
    store_release(&page->run, 0);
    store_release(&page->next_block, segment_span_start(page));
    if (page->gone)
        __builtin_memset(page->gone, 0, serial_gone_bytes(page));
}

/* Takes the page out of its region's list and gives it back. */
static void give_back(struct page **list, struct page *page) {
    uint64_t *gone = page->gone;
    region_unlist(list, page);
    store_release(&page->gone, NULL);
    meta_free(gone, serial_gone_bytes(page));
    segment_span_free(page);
}

static void destroy(struct heap *heap, struct region *region, struct page *page) {
    serial_add_dead(heap, page, -(int64_t)page->dead_bytes);
    give_back(&region->pages, page);
}

void serial_page_got_empty(struct heap *heap, struct page *page) {
    struct region *region = serial_region(page);
    if (page == region->serial) {
        rewind_page(heap, page);
    } else if (region->bins.recipe & RECIPE_SPARE && !region->spare) {
        rewind_page(heap, page);
        region->spare = page;
    } else {
        destroy(heap, region, page);
    }
}

void serial_reset(struct heap *heap, struct region *region, struct page *page, uint32_t *kept) {
    (void)kept;
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
        serial_page_got_empty(heap, page);
}

void serial_release_empty(struct region *region) {
    struct page *page = region->serial;
    if (page && !page->used) {
        region->serial = NULL;
        give_back(&region->pages, page);
    }
    if (region->spare) {
        give_back(&region->pages, region->spare);
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
    page->meta_shift = META_ALIGNED; /* the common free leaves this page to page_kinds.h */
    page->next_block = segment_span_start(page);
    page->view = view;
    page->heap = heap;
    region_list(&region->pages, page);
    store_release(&page->kind, PAGE_SERIAL);
    return page;
}

struct page *serial_next_page(struct heap *heap, struct view *view, size_t bytes) {
    struct region *region = region_of(view->region);
    bool large = bytes > SMALL_PAGE_MAX || view_live_bytes(view) >= SERIAL_LARGE_BYTES;
    uint32_t slices = large ? WIDE_PAGE_SLICES : 1;
    if (UNLIKELY(region->bins.slices)) /* terms set the size: small chunks fit into any page */
        slices = region->bins.slices;
    serial_put_aside(heap, region);
    heap_collect_if_any(heap);
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

/* --- OS pages without live chunks ------------------------------------------------------------- */

/* Returns a bit for each OS page that `bytes` bytes from `offset` on touch. */
static uint64_t os_pages_of(size_t offset, size_t bytes) {
    size_t first = offset / OS_PAGE_BYTES, last = (offset + bytes - 1) / OS_PAGE_BYTES;
    return ((2UL << ((last - first) & 63)) - 1) << first;
}

/* Gives back the OS pages before next_block that hold only dead chunks. Returns their bytes. */
static size_t punch(struct heap *heap, struct page *page) {
    char *start = segment_span_start(page);
    size_t count =
        (size_t)(page->next_block - start) / OS_PAGE_BYTES; /* whole OS pages before next_block */
    size_t records = serial_record_bytes(page);
    uint64_t used = records ? os_pages_of(page->slices * SLICE_BYTES - records, records) : 0;
    struct serial_chunk chunk;
    for (struct serial_walk walk = serial_walk(page); serial_next(page, start, &walk, &chunk);)
        if (chunk.state != SERIAL_DEAD)
            used |= os_pages_of(chunk.offset, chunk.bytes);
    uint64_t empty = ~used & ~blocks_punched(page) & ((1UL << count) - 1);
    if (!empty)
        return 0;
    size_t bytes = (size_t)__builtin_popcountl(empty) * OS_PAGE_BYTES;
    serial_add_dead(heap, page, -(int64_t)bytes); /* memory that was given back is no waste */
    store_owner(&page->punched, blocks_punched(page) | empty);
    blocks_mark(page, META_PUNCHED);
    segment_keep_gaps(page);
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
