/* SPDX-License-Identifier: MIT */
/*
 * ring.h - finds places for blocks of different lengths in a ring. The room of the ring is reserved
 * step by step.
 *
 * No block is split: a block that does not fit behind the last block goes to the start of the ring.
 * If a step is refused, new blocks overwrite old ones in the room that is reserved. ring_wanted
 * asks for the step again each time that the ring reaches the end of that room. If a write in the
 * reserved room is refused, new blocks overwrite old ones in the room that was written before.
 *
 * Threads: one at a time.
 */
#ifndef MEMCTX_CONTROL_RING_H
#define MEMCTX_CONTROL_RING_H

#include "base/base.h"

struct ring {
    uint64_t at;      /* where the next block begins */
    uint64_t end;     /* where the reserved room ends */
    uint64_t most;    /* bytes of the ring, at most */
    uint64_t step;    /* bytes that are reserved at a time */
    uint64_t unit;    /* a block begins at a multiple of `unit` bytes */
    uint64_t written; /* end of the room that blocks were written to so far */
};

#define RING_NO_ROOM UINT64_MAX

/* Returns where the reserved room must end so that a block of `bytes` bytes fits behind the last
 * block. 0: the block fits already, or the ring may not grow that far. */
INLINE uint64_t ring_wanted(const struct ring *ring, uint64_t bytes) {
    uint64_t end = ring->at + bytes, wanted = align_up(end, ring->step);
    if (end <= ring->end || end > ring->most)
        return 0;
    return wanted < ring->most ? wanted : ring->most;
}

/* Returns the place of the next block, which has `bytes` bytes, in the ring. The caller has set
 * `end` to the end of the reserved room. RING_NO_ROOM: the block is longer than that room. */
INLINE uint64_t ring_take(struct ring *ring, uint64_t bytes) {
    if (ring->at + bytes > ring->end)
        ring->at = 0;
    if (bytes > ring->end)
        return RING_NO_ROOM;
    uint64_t at = ring->at;
    ring->at = align_up(at + bytes, ring->unit);
    return at;
}

/* The block at `at` was written. */
INLINE void ring_wrote(struct ring *ring, uint64_t at, uint64_t bytes) {
    if (at + bytes > ring->written)
        ring->written = at + bytes;
}

/* The last block, which ring_take placed at `at`, could not be written for want of room. True: the
 * ring now ends where the written room ends, and ring_take gives the block a place in it. False:
 * the block is longer than that room, or lies in it already; the next block goes to `at` again. */
INLINE bool ring_refuse(struct ring *ring, uint64_t at, uint64_t bytes) {
    bool fits = at + bytes > ring->written && bytes <= ring->written;
    ring->at = fits ? 0 : at;
    if (fits)
        ring->end = ring->written;
    return fits;
}

#endif
