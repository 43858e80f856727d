/* SPDX-License-Identifier: MIT */
/*
 * pagemap.h - the pages of a heap as a map in the terminal: a character for one or several pages, by how much is alive.
 */
#ifndef MEMCTX_PAGEMAP_H
#define MEMCTX_PAGEMAP_H

#include "model/model.h"

/* As wide as the terminal (COLUMNS; 100 where there is none), at most `rows` lines; in colour or as digits. */
void pagemap_print(const struct model *model, bool color, size_t rows);

#endif
