/* SPDX-License-Identifier: MIT */
/*
 * walk.h - a fresh walk of the calling thread's stack, by rules.
 *
 * The walk records every stack word that it read to find its way: each return address, each saved
 * rbp that a later frame needed, each pointer to a realigned or interrupted stack. If all of these
 * words are the same at another time, relative to the stack pointer, a fresh walk would read the
 * same words in the same order and so give the same path: that is what the cache verifies.
 */
#ifndef MEMCTX_WALK_H
#define MEMCTX_WALK_H

#include "path/rules.h"
#include <memctx/options.h>

#define WALK_CHECKS_MAX (MEMCTX_DEPTH_MAX * 3)

enum walk_end {
    WALK_COMPLETE = 0, /* reached the outermost frame */
    WALK_TRUNCATED,    /* more frames than MEMCTX_DEPTH */
    WALK_NO_CFI,       /* a frame without usable unwind information */
    WALK_BROKEN,       /* the stack does not hold what the information says */
};

struct walk_frame {
    uintptr_t address;
    uint16_t module;
    bool exact; /* the address itself was interrupted */
};

struct walk {
    uint32_t frame_count, check_count;
    enum walk_end end;
    bool cacheable;
    struct walk_frame frames[MEMCTX_DEPTH_MAX]; /* innermost first */
    /* What was read: offset from the stack pointer, in bytes; the lowest bit says that the value is
     * an address, kept relative to the stack pointer too. */
    int32_t offsets[WALK_CHECKS_MAX];
    uint64_t values[WALK_CHECKS_MAX];
};

/* The part of the stack that is known to be mapped; the thread's own, kept between walks. */
struct walk_stack {
    uintptr_t low, high;
};

/* Walks from the exported function whose frame pointer is `frame`: the caller's rbp is saved at
 * frame, the return address at frame + 8, the caller's stack pointer is frame + 16. */
void walk_stack(struct walk *walk, uintptr_t frame, unsigned depth, struct walk_stack *stack);

#endif
