/* SPDX-License-Identifier: MIT */
/*
 * pagemap.h - draws a map of the pages of a heap in the terminal: one character for one or several
 * pages shows how much of them is live.
 */
#ifndef MEMCTX_PAGEMAP_H
#define MEMCTX_PAGEMAP_H

#include "model/model.h"

/* Prints the map as wide as the terminal (COLUMNS, or 100) and at most `rows` lines high, in
 * colour or as digits. */
void pagemap_print(const struct model *model, bool color, size_t rows);

#endif
