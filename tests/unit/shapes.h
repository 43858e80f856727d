/* SPDX-License-Identifier: MIT */
/* Functions whose frames have all shapes that compilers make, calling each other at random. */
#ifndef MEMCTX_SHAPES_H
#define MEMCTX_SHAPES_H

#include "base/base.h"

/* Called at the end of each path, in place of malloc, with the frame pointer of its caller. NULL:
 * the library's malloc is called. */
extern void (*at_leaf)(uintptr_t frame);
extern uint64_t leaves; /* number of calls of shapes_leaf */
void shapes_leaf(void);
void shapes_run(int levels);
/* Calls shapes_leaf from two places (bits 0 and 1 of `drawn` choose them), below one or the other
 * of two callers (bit 2). The two return addresses next to the leaf's are the same for both. */
void shapes_two_sites(int drawn);
/* Sets rbp to 0 and calls run(levels), so the frames further out must be found without rbp. */
void shapes_apart(void (*run)(int levels), int levels);
/* Variants of the functions above that are built with frame pointers. */
void linked_shapes_leaf(void);
void linked_shapes_run(int levels);
void linked_shapes_two_sites(int drawn);

#endif
