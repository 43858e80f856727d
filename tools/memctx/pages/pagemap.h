/* SPDX-License-Identifier: MIT */
/*
 * pagemap.h - draws a map of the pages of a heap in the terminal: one character for one or several
 * pages shows how much of them is live.
 */
#ifndef MEMCTX_PAGEMAP_H
#define MEMCTX_PAGEMAP_H

#include "model/model.h"

/* Prints the map at most `rows` lines high, in colour or as digits. It is as wide as the variable
 * COLUMNS says, else as the terminal (terminal_columns). */
void pagemap_print(const struct model *model, bool color, size_t rows);

#endif
