/* SPDX-License-Identifier: MIT */
/* Tests of all policies: random allocations, frees, resizes, trims and changes of policy leave
 * every byte of the live chunks as it was. */
#include <criterion/criterion.h>
#include <string.h>

#include "policy_tests.h"
#include "region/punch.h"

static uint64_t dice;
static uint64_t roll(uint64_t sides) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (dice >> 11) % sides;
}

/* A place for one chunk, all bytes of which are `mark`. */
static struct slot {
    unsigned char *chunk, mark;
    size_t size;
} slots[4000];
#define SLOTS (sizeof slots / sizeof *slots)

static void check_slot(const struct slot *slot) {
    for (size_t k = 0; k < slot->size; k++)
        cr_assert_eq(slot->chunk[k], slot->mark, "byte %zu of %zu", k, slot->size);
}

static size_t some_size(void) {
    switch (roll(8)) {
    case 0: return roll(20);
    case 1: return 1000 + roll(300);
    case 2: return roll(9000);
    case 3:
    case 4: return 16 * (1 + roll(2)); /* runs of chunks with equal sizes */
    default: return 16 + roll(200);
    }
}

static void change_slot(struct slot *slot, struct heap *heap, struct heap *other) {
    struct view *view = heap_view(heap, 7 + (uint32_t)roll(5));
    if (slot->chunk) {
        check_slot(slot);
        if (roll(4)) {
            free_like_api(roll(3) ? heap : other, slot->chunk);
            slot->chunk = NULL;
            return;
        }
        size_t size = some_size();
        if (!region_resize(heap, view, slot->chunk, size))
            slot->chunk = region_realloc(heap, view, slot->chunk, size);
        cr_assert(slot->chunk != NULL);
        slot->size = size < slot->size ? size : slot->size;
        check_slot(slot); /* realloc must keep the content */
        slot->size = size;
    } else {
        bool zero = roll(2), aligned = !roll(10);
        size_t alignment = 16UL << roll(8);
        slot->size = some_size();
        slot->chunk = aligned ? region_alloc_aligned(heap, view, slot->size, alignment)
                              : alloc(heap, view, slot->size, zero);
        cr_assert(slot->chunk != NULL);
        cr_assert_eq((uintptr_t)slot->chunk % (aligned ? alignment : 16), 0);
        for (size_t k = 0; k < slot->size && zero && !aligned; k++)
            cr_assert_eq(slot->chunk[k], 0);
    }
    slot->mark = (unsigned char)roll(256);
    memset(slot->chunk, slot->mark, slot->size);
}

/* Checks a slot's chunk, then frees it. */
static void empty_slot(struct slot *slot, struct heap *heap) {
    check_slot(slot);
    free_like_api(heap, slot->chunk);
    slot->chunk = NULL;
}

/* Checks that the views of all heaps together count the bytes that the slots hold. */
static void check_totals(uint64_t seed) {
    int64_t live = 0, requested = 0;
    for (uint32_t context = 7; context < 12; context++)
        for (struct heap *at = heap_global.first; at; at = at->next)
            live += view_live_bytes(heap_view(at, context));
    for (size_t i = 0; i < SLOTS; i++)
        requested += slots[i].chunk ? (int64_t)slots[i].size : 0;
    cr_assert_eq(live, requested, "seed %lu", (unsigned long)seed);
}

static void play(uint64_t seed, int steps) {
    dice = seed * 0x9e3779b97f4a7c15U + 1;
    struct heap *heap = heap_new(), *other = heap_acquire(1, false);
    for (int step = 0; step < steps; step++) {
        change_slot(&slots[roll(SLOTS)], heap, other);
        if (!roll(3000))
            place(7 + (uint32_t)roll(5), (enum placement)roll(PLACE_COUNT));
        for (uint32_t context = 7; context < 12 && !roll(200); context++)
            if (heap_view(heap, context)->region)
                check_lists(heap_view(heap, context)->region);
        if (!roll(2000)) {
            for (uint32_t context = 7; context < 12; context++)
                *heap_placed_byte(context) |= TRIM_MARK;
            trim_wanted.all = trim_wanted.punch = true;
            trim_number++;
            heaps_reconsider();
        }
        if (!roll(20000)) { /* frees nearly all chunks */
            for (size_t i = 0; i < SLOTS; i++)
                if (slots[i].chunk && i % 30)
                    empty_slot(&slots[i], i % 3 ? heap : other);
        }
        if (!roll(30000)) {
            heap_park(heap);
            for (int i = 0; i < 500; i++) {
                struct slot *slot = &slots[roll(SLOTS)];
                if (slot->chunk)
                    empty_slot(slot, other);
            }
            cr_assert_eq(heap_acquire(os_thread_id(), false), heap);
        }
    }
    check_totals(seed);
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].chunk)
            empty_slot(&slots[i], i % 2 ? heap : other);
    heap_park(heap);
    heap_park(other);
    cr_assert_eq(heap_global.lost_views, 0);
    cr_assert_lt(heap->own_free, (int64_t)(8 * OS_PAGE_BYTES), "seed %lu: %ld bytes of waste",
                 (unsigned long)seed, (long)heap->own_free);
    for (uint32_t context = 7; context < 12; context++) {
        struct bins *region = heap_view(heap, context)->region;
        cr_assert(!region || !region_of(region)->pages, "seed %lu: a page is left",
                  (unsigned long)seed);
        for (unsigned i = 0; region && i < SIZE_CLASSES; i++)
            cr_assert(!region->partial[i] && region->current[i] == &heap_no_page, "seed %lu",
                      (unsigned long)seed);
    }
}

Test(policies, random_use_keeps_every_byte) {
    play(1, 150000);
}
Test(policies, random_use_of_small_contexts_keeps_every_byte) {
    options.promote_bytes = 0;
    play(2, 150000);
}
Test(policies, random_use_past_the_cap_keeps_every_byte) {
    options.waste_kib = 0;
    play(3, 150000);
}
Test(policies, random_use_in_checking_mode_keeps_every_byte) {
    options.check = 1;
    play(4, 60000);
}
