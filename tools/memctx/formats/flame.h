/* SPDX-License-Identifier: MIT */
/*
 * flame.h - a flame graph of one figure, as an SVG file that needs nothing else.
 *
 * After B. Gregg's flame graphs: a box for each function on a call path, as wide as its share of the
 * figure, above the one that called it; what is the same in name below the same callers is one
 * box. Boxes that would be narrower than a tenth of a pixel are left out, their share is not.
 */
#ifndef MEMCTX_FLAME_H
#define MEMCTX_FLAME_H

#include "model/model.h"
#include "model/view.h"

void flame_write(const struct model *model, FILE *file, enum view_sort metric);

#endif
