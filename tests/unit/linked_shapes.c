/* SPDX-License-Identifier: MIT */
/* The functions of shapes.c, built with frame pointers. */
#include "shapes.h"

#define LINKED_SHAPES
#define shapes_run linked_shapes_run
#define shapes_leaf linked_shapes_leaf
#define shapes_two_sites linked_shapes_two_sites
#include "shapes.c"
