/* SPDX-License-Identifier: MIT */
/* ring.c - tests of control/ring.h: no block is split and none covers a newer block, whichever
 * reservations of disk space are refused. */
#include "control/ring.h"

#include <criterion/criterion.h>

#define STEP 1024
#define MOST 4000 /* not a multiple of STEP */

static struct ring new_ring(void) {
    return (struct ring){.most = MOST, .step = STEP, .unit = 64};
}

/* Takes a place for `bytes` bytes in the ring, while the file system has `disk` bytes for the
 * file. */
static uint64_t take(struct ring *ring, uint64_t bytes, uint64_t disk) {
    uint64_t wanted = ring_wanted(ring, bytes);
    if (wanted && wanted <= disk)
        ring->end = wanted;
    return ring_take(ring, bytes);
}

Test(ring, grows_in_steps_and_turns_at_its_end) {
    struct ring ring = new_ring();
    cr_assert_eq(take(&ring, 1000, MOST), 0);
    cr_assert_eq(ring.end, STEP);
    cr_assert_eq(take(&ring, 100, MOST), 1024);
    cr_assert_eq(ring.end, 2 * STEP);
    cr_assert_eq(take(&ring, 2500, MOST), 1152);
    cr_assert_eq(ring.end, MOST, "the last step is cut");
    cr_assert_eq(take(&ring, 400, MOST), 0, "a block that does not fit behind begins anew");
    cr_assert_eq(take(&ring, 10, MOST), 448);
    cr_assert_eq(ring.end, MOST);
}

Test(ring, turns_in_what_it_has) {
    struct ring ring = new_ring();
    cr_assert_eq(take(&ring, 1000, STEP), 0);
    cr_assert_eq(take(&ring, 900, STEP), 0, "the second step is refused");
    cr_assert_eq(take(&ring, 64, STEP), 960);
    cr_assert_eq(take(&ring, 64, STEP), 0);
    cr_assert_eq(take(&ring, 1000, MOST), 64, "there is room again");
    cr_assert_eq(ring.end, 2 * STEP);
}

Test(ring, has_no_room_for_what_is_longer) {
    struct ring ring = new_ring();
    cr_assert_eq(take(&ring, 100, 0), RING_NO_ROOM);
    cr_assert_eq(take(&ring, MOST + 1, MOST), RING_NO_ROOM);
    cr_assert_eq(take(&ring, 1, MOST), 0, "a refusal changes nothing");
}

Test(ring, turns_where_a_write_is_refused) {
    struct ring ring = new_ring();
    uint64_t at = take(&ring, 500, MOST);
    cr_assert_not(ring_refuse(&ring, at, 500), "nothing was written yet");
    cr_assert_eq(take(&ring, 500, MOST), at, "a refused block takes no place");
    ring_wrote(&ring, at, 500);
    at = take(&ring, 600, MOST);
    cr_assert_not(ring_refuse(&ring, at, 600), "longer than the written room");
    cr_assert_eq(take(&ring, 300, MOST), at);
    cr_assert(ring_refuse(&ring, at, 300));
    cr_assert_eq(take(&ring, 300, 0), 0, "the block goes to the start");
    ring_wrote(&ring, 0, 300);
    cr_assert_eq(take(&ring, 100, 0), 320);
    cr_assert_eq(take(&ring, 100, 0), 0, "the ring ends where the written room ends");
    cr_assert_not(ring_refuse(&ring, 0, 100), "inside the written room");
    cr_assert_eq(take(&ring, 500, MOST), 0);
    cr_assert_eq(take(&ring, 500, MOST), 512, "there is room again");
}

Test(ring, splits_no_block_and_reuses_the_oldest) {
    for (uint64_t disk = 0; disk <= 4 * STEP; disk += STEP) {
        struct ring ring = new_ring();
        uint64_t last_end = 0, draw = 28;
        for (int i = 0; i < 10000; i++) {
            draw = draw * 6364136223846793005UL + 1442695040888963407UL;
            uint64_t bytes = 1 + (draw >> 33) % 900, at = take(&ring, bytes, disk);
            if (at == RING_NO_ROOM) {
                cr_assert_eq(ring.end, 0);
                continue;
            }
            cr_assert(at % 64 == 0 && at + bytes <= ring.end && ring.end <= MOST);
            cr_assert(at == 0 || at >= last_end, "the block before is covered");
            last_end = at + bytes;
        }
    }
}
