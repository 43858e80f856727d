/* SPDX-License-Identifier: MIT */
/* Functions whose frames have all shapes that compilers make, calling each other at random. */
#ifndef MEMCTX_SHAPES_H
#define MEMCTX_SHAPES_H

#include "base/base.h"

/* Called at the end of each path with the frame pointer of what stands for malloc. NULL: the
 * library's own malloc is called. */
extern void (*at_leaf)(uintptr_t frame);
extern uint64_t leaves; /* calls of it */
void shapes_leaf(void);
void shapes_run(int levels);
/* No frame further out depends on what rbp is there. */
void shapes_apart(void (*run)(int levels), int levels);
/* The same with frame pointers. */
void linked_shapes_leaf(void);
void linked_shapes_run(int levels);

#endif
