/* SPDX-License-Identifier: MIT */
/*
 * turns.h - finds chunks that several call paths make larger in turn.
 *
 * realloc moves a chunk to the account of the path that called realloc. If several functions add to
 * one buffer, the buffer belongs to the path that made it larger last, so each path holds the
 * buffer only for a while, and none of the paths grows from look to look. Their sum does.
 */
#ifndef MEMCTX_TURNS_H
#define MEMCTX_TURNS_H

#include "diagnosis/growth.h"

/* Finds the sites (replaced.h) whose paths take turns, and whose sum grew by 256 KiB or more.
 * Makes a joined suspect of the paths of each site, with a part for each path. The growth of the
 * sum becomes growths[n] of the suspect's first member. Clears growths[n] of the other paths, and
 * figures[n] of all of them, so that they make no suspects of their own. */
void turns_find(const struct look *look, struct series *series, struct growth *growths,
                int64_t *figures, struct blame *turns);

#endif
