/* SPDX-License-Identifier: MIT */
/* Tests of src/control/sums.c and of the tree under threads: sums over heaps, marks, resets. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "context/tree.h"
#include "control/control.h"
#include "region/region.h"

static char words[256];

static uint32_t node(uint32_t parent, uintptr_t address) {
    struct tree_frame frame = {.address = address, .module = MODULE_NONE};
    return tree_child(parent, frame, TABLES_UNCOUNTED);
}

static struct sum sum_of(uint32_t context) {
    struct sums sums;
    cr_assert(sums_collect(&sums, false));
    struct sum sum = sums.rows[context];
    sums_free(&sums);
    return sum;
}

/* Two heaps at random, one parked and adopted now and then: every sum equals a plain count. */
Test(sums, invariant_1_sums_are_exact) {
    enum { CONTEXTS = 4, SLOTS = 500 };
    static struct {
        void *chunk;
        size_t size;
        int context;
    } slots[SLOTS];
    struct sum wanted[CONTEXTS] = {0};
    uint32_t ids[CONTEXTS];
    struct heap *heaps[2];
    srand(31);
    for (uintptr_t i = 0; i < CONTEXTS; i++)
        ids[i] = node(TREE_ROOT, 0x100 + i);
    for (int i = 0; i < 2; i++)
        heaps[i] = heap_acquire(os_thread_id(), false);
    for (int step = 0; step < 30000; step++) {
        int i = rand() % SLOTS;
        struct heap *heap = heaps[rand() % 2];
        if (slots[i].chunk == NULL) {
            slots[i].size = (size_t)rand() % 12000;
            slots[i].context = rand() % CONTEXTS;
            slots[i].chunk =
                region_alloc(heap, heap_view(heap, ids[slots[i].context]), slots[i].size, false);
            struct sum *sum = &wanted[slots[i].context];
            sum->allocs++;
            sum->live_bytes += (int64_t)slots[i].size;
            sum->requested_cum_bytes += (int64_t)slots[i].size;
        } else {
            region_free(heap, slots[i].chunk);
            slots[i].chunk = NULL;
            wanted[slots[i].context].frees++;
            wanted[slots[i].context].live_bytes -= (int64_t)slots[i].size;
        }
        if (step % 1000 == 999) {
            heap_park(heaps[1]);
            heaps[1] = heap_acquire(os_thread_id(), false);
        }
        for (int c = 0; step % 500 == 499 && c < CONTEXTS; c++) {
            struct sum sum = sum_of(ids[c]);
            cr_assert_eq(sum.allocs, wanted[c].allocs);
            cr_assert_eq(sum.frees, wanted[c].frees);
            cr_assert_eq(sum.live_bytes, wanted[c].live_bytes);
            cr_assert_eq(sum.requested_cum_bytes, wanted[c].requested_cum_bytes);
        }
    }
    cr_assert_eq(heap_global.lost_views, 0);
}

Test(sums, invariant_6_reset_frees_nothing_and_takes_a_subtree) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    uint32_t top = node(TREE_ROOT, 0x10), below = node(top, 0x20), other = node(TREE_ROOT, 0x30);
    char *kept = region_alloc(heap, heap_view(heap, below), 100, false);
    region_free(heap, region_alloc(heap, heap_view(heap, below), 900, false));
    cr_assert(region_alloc(heap, heap_view(heap, other), 70, false) != NULL);
    memset(kept, 5, 100);
    struct text text = {.bytes = words, .capacity = sizeof words};
    struct wire_reset_request request = {.context = top};
    cr_assert_eq(reset_run(&request, &text), WIRE_OK);
    struct sum sum = sum_of(below);
    cr_assert_eq(sum.base_allocs, 2);
    cr_assert_eq(sum.base_frees, 1);
    cr_assert_eq(sum.base_requested_cum_bytes, 1000);
    cr_assert_eq(sum.live_bytes, 100, "live bytes stay");
    cr_assert_eq(sum.peak_bytes, 100, "the peak starts anew");
    cr_assert_eq(sum_of(other).base_allocs, 0, "outside the subtree nothing changes");
    for (int i = 0; i < 1000; i++) {
        char *chunk = region_alloc(heap, heap_view(heap, below), 100, false);
        cr_assert_neq(chunk, kept);
        memset(chunk, 6, 100);
    }
    cr_assert_eq(kept[0] + kept[99], 10);
    heap_park(heap); /* the baseline moves with the numbers */
    cr_assert_eq(sum_of(below).base_allocs, 2);
    cr_assert_eq(sum_of(below).allocs, 1002);
    request.context = tree_count();
    cr_assert_eq(reset_run(&request, &text), WIRE_REFUSED);
}

Test(sums, marks_keep_their_numbers_move_and_run_out) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    uint32_t id = node(TREE_ROOT, 0x10);
    struct text text = {.bytes = words, .capacity = sizeof words};
    struct wire_mark_request request = {.name = "first"};
    region_alloc(heap, heap_view(heap, id), 10, false);
    cr_assert_eq(mark_set(&request, &text), WIRE_OK);
    region_alloc(heap, heap_view(heap, id), 10, false);
    cr_assert_eq(marks[0].sums.rows[id].allocs, 1);
    cr_assert_eq(mark_set(&request, &text), WIRE_OK);
    cr_assert_eq(marks[0].sums.rows[id].allocs, 2, "a mark of the same name moves");
    cr_assert_null(marks[1].sums.rows);
    for (int i = 1; i < WIRE_MARKS_MAX; i++) {
        request = (struct wire_mark_request){.name = {'m', (char)('A' + i)}};
        cr_assert_eq(mark_set(&request, &text), WIRE_OK);
    }
    request = (struct wire_mark_request){.name = ""};
    cr_assert_eq(mark_set(&request, &text), WIRE_REFUSED, "no slot is left");
}

enum { PATHS = 5000 };
static uint32_t found[4][PATHS];

static void *intern(void *argument) {
    uint32_t *ids = argument;
    for (uintptr_t i = 0; i < PATHS; i++)
        ids[i] = node(i % 3 && i > 3 ? ids[i / 3] : TREE_ROOT, 0x1000 + i);
    return NULL;
}

Test(tree, threads_that_intern_the_same_paths_get_equal_ids) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, intern, found[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 4; i++)
        cr_assert_eq(memcmp(found[i], found[0], sizeof found[0]), 0);
    cr_assert_eq(tree_count(), PATHS + TREE_FIXED_COUNT);
}
