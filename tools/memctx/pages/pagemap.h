/* SPDX-License-Identifier: MIT */
/*
 * pagemap.h - draws a map of the pages of a heap in the terminal. One character stands for one or
 * several pages, and shows how much of them is live.
 */
#ifndef MEMCTX_PAGEMAP_H
#define MEMCTX_PAGEMAP_H

#include "model/model.h"

/* Prints the map, in colour or as digits, at most `rows` lines high. Its width is that of the
 * variable COLUMNS, or else that of the terminal (terminal_columns). */
void pagemap_print(const struct model *model, bool color, size_t rows);

#endif
