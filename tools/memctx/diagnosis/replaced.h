/* SPDX-License-Identifier: MIT */
/*
 * replaced.h - whether call paths grow because their chunks replace those of other paths.
 */
#ifndef MEMCTX_REPLACED_H
#define MEMCTX_REPLACED_H

#include "diagnosis/growth.h"

/* Returns for each suspect, by its index, whether other paths shrink as it grows. The caller frees
 * the array. Sets growths[number].slowing for the members of a suspect to which realloc moves
 * chunks of other paths of its site, if the site's growth slows down. */
bool *replaced_find(const struct look *look, struct series *series, struct growth *growths,
                    const struct blame *blame);

/* Returns a key of the site of each path (replaced.c) for which `wanted` is true: the line that
 * called malloc, or the function that called a wrapper of malloc or a library. The keys of all
 * other paths are 0. The caller frees the array. */
uint64_t *replaced_sites(const struct look *look, const bool *wanted);

#endif
