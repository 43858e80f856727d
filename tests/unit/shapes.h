/* SPDX-License-Identifier: MIT */
/* Functions whose frames have all shapes that compilers make, calling each other at random. */
#ifndef MEMCTX_SHAPES_H
#define MEMCTX_SHAPES_H

#include "base/base.h"

/* What stands for malloc at the end of each path; the frame pointer is its own. */
extern void (*at_leaf)(uintptr_t frame);
extern uint64_t leaves; /* calls of it */
void shapes_leaf(void);
void shapes_run(int levels);

#endif
