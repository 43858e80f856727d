/* SPDX-License-Identifier: MIT */
/* Scenarios of the control thread; see sleepers.h. */
#include "sleepers.h"
#include "slots.h"

#include "api/fast.h"
#include "base/options.h"
#include "context/collect.h"
#include "context/holes.h"
#include "context/internal.h"
#include "os/syscall.h"
#include "region/bins.h"
#include "region/punch.h"
#include "region/region.h"
#include "segment/internal.h"

#include <linux/futex.h>

/* --- quiet pages that the control thread punches ---------------------------------------------- */

enum { QUIET_BLOCK = 1000, QUIET_IN_PAGE = 15 };
static int64_t waste_before;

static uint32_t reading, may_end;

static void wait_for(const uint32_t *gate) {
    while (!load_acquire(gate))
        model_futex(gate, FUTEX_WAIT_PRIVATE, 0);
}

static void open_gate(uint32_t *gate) {
    store_release(gate, 1);
    model_futex(gate, FUTEX_WAKE_PRIVATE, 1);
}

/* At its first barrier the visitor (thread 0) waits until thread 2 holds the unmap lock. By then
 * the visitor has seen that the owner (thread 1) is outside the allocator, and it has to wait for
 * the lock. So the owner may begin a free before any page is announced. */
static void first_barrier(void) {
    wait_for(&reading);
}

/* Makes a full page of one context, and a chunk in the context's next page. Returns the full page.
 */
static const struct page *fill_page(void) {
    new_heaps(3);
    options.promote_bytes = 0;
    waste_before = heap_global.own_free;
    for (unsigned i = 0; i <= QUIET_IN_PAGE; i++)
        take_sized(heaps[0], i, 0, QUIET_BLOCK);
    return segment_page_of(chunks[0]);
}

/* Makes a listed page of one context that has two empty OS pages. One look has passed; the next
 * punches it. */
void quiet_page(void) {
    const struct page *page = fill_page();
    /* chunk 7 last: the list of free blocks begins in an OS page that gets empty */
    for (unsigned i = 0; i < 11; i++)
        give(heaps[0], 2 + (i + 6) % 11);
    model_check(page->flags & PAGE_LISTED && segment_page_of(chunks[14]) == page, "no listed page");
    model_check(!holes_look_now(), "a page was quiet at the first look");
}

/* Frees as free_inline in api/fast.h does. */
static void free_commonly(struct heap *heap, unsigned slot) {
    void *chunk = chunks[slot];
    struct page *page = segment_page_of(chunk);
    bool changes = false;
    stamp(slot, false);
    chunks[slot] = NULL;
    store_owner(&heap->busy, 1);
    if (load_plain(&page->meta_shift) & ~META_MIXED || !free_block(heap, page, chunk, &changes))
        region_free(heap, chunk);
    else if (changes)
        page_after_free(heap, page, chunk);
    store_owner(&heap->busy, 0);
}

/* Thread 0 punches the page; thread 1, its owner, allocates and frees in it; thread 2 frees a chunk
 * of it. */
void thread_quiet(unsigned id) {
    if (!id) {
        holes_look_now();
    } else if (id == 1) {
        free_commonly(heaps[0], 13);
        for (unsigned i = 2; i < 13; i++) {
            store_owner(&heaps[0]->busy, 1);
            take_sized(heaps[0], i, 0, QUIET_BLOCK);
            store_owner(&heaps[0]->busy, 0);
        }
        free_commonly(heaps[0], 0);
    } else {
        give(heaps[2], 1);
    }
}

/* Thread 1 frees all chunks of the page, which is then destroyed; thread 2 may get its slices. */
void thread_quiet_goes(unsigned id) {
    if (!id) {
        holes_look_now();
    } else if (id == 1) {
        static const unsigned left[] = {0, 1, 13, 14};
        for (unsigned i = 0; i < sizeof left / sizeof *left; i++)
            free_commonly(heaps[0], left[i]);
    } else {
        take_sized(heaps[2], 2, 1, QUIET_BLOCK);
        give(heaps[2], 2);
    }
}

#define SPAN_BYTES 12000U

/* Like thread_quiet_goes, but thread 2 gets the slices for a large chunk, which stays. */
void thread_quiet_becomes_large(unsigned id) {
    if (id < 2)
        thread_quiet_goes(id);
    else
        take_sized(heaps[2], 2, 1, SPAN_BYTES);
}

void quiet_page_and_gate(void) {
    quiet_page();
    model_barrier = first_barrier;
}

void thread_quiet_between(unsigned id) {
    if (!id) {
        holes_look_now();
    } else if (id == 1) {
        open_gate(&may_end);
        free_commonly(heaps[0], 13);
    } else {
        lock_take(&segment_global.unmap_lock); /* like a thread that reads all segments */
        open_gate(&reading);
        wait_for(&may_end);
        lock_release(&segment_global.unmap_lock);
    }
}

void check_quiet(void) {
    const struct page *page = chunks[14] ? segment_page_of(chunks[14]) : NULL;
    size_t listed = 0;
    for (const void *block = page ? page->free : NULL; block; block = *(void *const *)block)
        listed++;
    for (unsigned i = 0; page && i < CHUNKS; i++)
        if (chunks[i] && segment_page_of(chunks[i]) == page)
            stamp(i, false);
    model_check(!page || load_relaxed(&page->remote) ||
                    listed + punch_held(page) == blocks_handed_out(page) - page->used,
                "a free block is lost, or there twice");
    check_all_gone();
    model_check(heap_global.own_free == waste_before, "the waste is not what it was");
}

void check_large(void) {
    model_check(region_requested(chunks[2]) == SPAN_BYTES, "the header of a large chunk changed");
    give(heaps[2], 2);
    check_quiet();
}

/* --- chunks that others freed, for an owner that sleeps --------------------------------------- */

/* The owner of the first heap has a full page of 15 blocks, and a chunk in the next page. Another
 * thread has freed all chunks of the full page but 0, 1 and 13. */
void handed_page(void) {
    const struct page *page = fill_page();
    model_check(page->flags & PAGE_FULL && segment_page_of(chunks[14]) == page, "no full page");
    for (unsigned i = 2; i < QUIET_IN_PAGE; i++)
        if (i != 13)
            give(heaps[1], i);
    model_check(heaps[0]->remote_pages == page, "the page is not listed");
}

static void visit_owner(void) {
    lock_take(&heap_global.lock);
    collect_visit(heaps[0]);
    lock_release(&heap_global.lock);
}

/* Thread 0 collects for the owner, thread 1, which frees and allocates meanwhile; thread 2 frees a
 * chunk of the page. */
void thread_collects(unsigned id) {
    if (!id) {
        visit_owner();
    } else if (id == 1) {
        free_commonly(heaps[0], 13);
        store_owner(&heaps[0]->busy, 1);
        take_sized(heaps[0], 2, 0, QUIET_BLOCK);
        store_owner(&heaps[0]->busy, 0);
        free_commonly(heaps[0], QUIET_IN_PAGE);
    } else {
        give(heaps[2], 1);
    }
}

/* The last chunks of the page go, so that the visitor or the owner destroys it. Thread 2 may get
 * its slice. */
void thread_collects_last(unsigned id) {
    if (!id) {
        visit_owner();
        visit_owner();
    } else if (id == 1) {
        free_commonly(heaps[0], 0);
        free_commonly(heaps[0], 13);
    } else {
        give(heaps[2], 1);
        take_sized(heaps[2], 3, 1, QUIET_BLOCK);
    }
}

void check_collected(void) {
    heap_collect_remote(heaps[0]);
    for (unsigned i = 0; i < CHUNKS; i++) {
        const struct page *page = chunks[i] ? segment_page_of(chunks[i]) : NULL;
        size_t listed = 0;
        for (const void *block = page ? page->free : NULL; block; block = *(void *const *)block)
            listed++;
        model_check(!page || listed == blocks_handed_out(page) - page->used,
                    "a free block is lost, or there twice");
        model_check(!page || !(page->meta_shift & META_PUNCHED), "the visit left its flag");
    }
    check_all_gone();
    model_check(heap_global.own_free == waste_before, "the waste is not what it was");
}
