/* SPDX-License-Identifier: MIT */
/*
 * ring.h - places in a ring of blocks of different lengths, whose room is reserved step by step.
 *
 * No block is split: one that does not fit behind the last one begins the ring anew. Where a step
 * is refused, the ring turns in what it has, and asks again at its next end.
 *
 * Threads: one at a time.
 */
#ifndef MEMCTX_CONTROL_RING_H
#define MEMCTX_CONTROL_RING_H

#include "base/base.h"

struct ring {
    uint64_t at;   /* where the next block begins */
    uint64_t end;  /* of what is reserved */
    uint64_t most; /* bytes of the ring, at most */
    uint64_t step; /* bytes that are reserved at a time */
    uint64_t unit; /* a block begins at a multiple of this */
};

#define RING_NO_ROOM UINT64_MAX

/* Returns the end that must be reserved before a block of so many bytes fits behind the last one;
 * 0: nothing must be, or nothing can. */
INLINE uint64_t ring_wanted(const struct ring *ring, uint64_t bytes) {
    uint64_t end = ring->at + bytes, wanted = align_up(end, ring->step);
    if (end <= ring->end || end > ring->most)
        return 0;
    return wanted < ring->most ? wanted : ring->most;
}

/* Takes a place, after `end` was set to what could be reserved. RING_NO_ROOM: the block is longer
 * than the ring. */
INLINE uint64_t ring_take(struct ring *ring, uint64_t bytes) {
    if (ring->at + bytes > ring->end)
        ring->at = 0;
    if (bytes > ring->end)
        return RING_NO_ROOM;
    uint64_t at = ring->at;
    ring->at = align_up(at + bytes, ring->unit);
    return at;
}

#endif
