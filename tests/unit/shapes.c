/* SPDX-License-Identifier: MIT */
/* Functions with all shapes of frames; see shapes.h. Built without frame pointers, as most programs
 * are; linked_shapes.c builds them with frame pointers. */
#include "shapes.h"

#include <stdlib.h>

#include "api/names.h"

#ifndef LINKED_SHAPES
void (*at_leaf)(uintptr_t frame);
uint64_t leaves;
#endif

static NOINLINE void leaf_with_frame(void) {
    at_leaf((uintptr_t)__builtin_frame_address(0));
    __asm__ volatile("" ::: "memory");
}

NOINLINE void shapes_leaf(void) {
    static void *kept;
    if (at_leaf) {
        leaf_with_frame();
    } else {
        free(kept);
        kept = malloc(32);
    }
    leaves++;
}

static NOINLINE void realigned(int levels) {
    volatile char room[128] __attribute__((aligned(128)));
    room[0] = 1;
    shapes_run(levels);
    room[1] = room[0];
}

/* narrow and wide leave rbp unchanged. Their frames have different sizes, so a frame of one may
 * stand on the stack where a frame of the other stood before. */
static NOINLINE void narrow(int levels) {
    volatile char room[24];
    room[0] = 1;
    shapes_leaf();
    if (levels > 0)
        narrow(levels - 1);
    if (levels % 2)
        shapes_run(levels);
    room[1] = room[0];
}

/* The unwinder finds the caller of this function by rbp, which the callee leaves unchanged. The
 * frames below vary in number and size, so only rbp tells such stacks apart. */
static NOINLINE void with_alloca(int levels) {
    volatile char *room = __builtin_alloca((size_t)(rand() % 4) * 48 + 16);
    room[0] = 1;
    narrow(0);
    shapes_run(levels);
    room[0] = 2;
}

static NOINLINE void wide(int levels) {
    volatile char room[72];
    room[0] = 1;
    shapes_leaf();
    shapes_run(levels);
    room[1] = room[0];
}

#ifdef LINKED_SHAPES
#undef shapes_run
#define THIS_RUN linked_shapes_run
#define last_shape shapes_run /* the last function calls those without frame pointers */
#else
#define THIS_RUN shapes_run
static NOINLINE void overwrites_rbp(int levels) {
    __asm__ volatile("xor %%ebp, %%ebp" ::: "rbp");
    shapes_leaf();
    shapes_run(levels);
    __asm__ volatile("" ::: "memory");
}
#define last_shape overwrites_rbp

NOINLINE void shapes_apart(void (*run)(int levels), int levels) {
    __asm__ volatile("xor %%ebp, %%ebp" ::: "rbp");
    run(levels);
    __asm__ volatile("" ::: "memory");
}
#endif

static NOINLINE void two_sites(int drawn) {
    if (drawn & 1) {
        shapes_leaf();
        __asm__ volatile("# the first site" ::: "memory");
    }
    if (drawn & 2) {
        shapes_leaf();
        __asm__ volatile("# the second site" ::: "memory");
    }
}
static NOINLINE void between(int drawn) {
    two_sites(drawn);
    __asm__ volatile("# between" ::: "memory");
}
static NOINLINE void by_one(int drawn) {
    between(drawn);
    __asm__ volatile("# by one" ::: "memory");
}
static NOINLINE void by_other(int drawn) {
    between(drawn);
    __asm__ volatile("# by other" ::: "memory");
}
NOINLINE void shapes_two_sites(int drawn) {
    (drawn & 4 ? by_one : by_other)(drawn);
    __asm__ volatile("" ::: "memory");
}

NOINLINE void THIS_RUN(int levels) {
    static void (*const shapes[])(int) = {THIS_RUN, with_alloca, realigned,
                                          narrow,   wide,        last_shape};
    for (int i = rand() % 3; levels > 0 && i >= 0; i--)
        shapes[rand() % 6](levels - 1 - rand() % levels);
    shapes_leaf();
    __asm__ volatile("" ::: "memory");
}
