/* SPDX-License-Identifier: MIT */
/*
 * flame.h - writes a flame graph of one figure as an SVG file that needs no other file.
 *
 * The picture is a flame graph as B. Gregg defined it. Each function on a call path is a box above
 * its caller, as wide as its share of the figure. Functions with equal names above one caller share
 * one box. A box narrower than a tenth of a pixel is not drawn, but its figure is part of its
 * caller's width.
 */
#ifndef MEMCTX_FLAME_H
#define MEMCTX_FLAME_H

#include "model/model.h"
#include "model/view.h"

void flame_write(const struct model *model, FILE *file, enum view_sort metric);

#endif
