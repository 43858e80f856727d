/* SPDX-License-Identifier: MIT */
/*
 * replaced.h - whether call paths grow because their chunks replace those of other paths.
 */
#ifndef MEMCTX_REPLACED_H
#define MEMCTX_REPLACED_H

#include "diagnosis/growth.h"

/* Returns for each suspect, by its index, whether other paths shrink as it grows. The caller frees
 * the array. */
bool *replaced_find(const struct look *look, const struct series *series,
                    const struct blame *blame);

#endif
