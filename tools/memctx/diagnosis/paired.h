/* SPDX-License-Identifier: MIT */
/*
 * paired.h - finds leaks below a load that swings, beside paths that allocate as often.
 *
 * If a server forgets one of forty rows while its number of rows swings between 2000 and 58 000,
 * the path of the rows does not grow from look to look: the leak shows only when several low points
 * have become higher. But objects mostly have several chunks. If another path allocates as many
 * chunks as this one in each interval, and the numbers of live chunks of both swing alike, both
 * belong to the same objects, and the difference of the two numbers swings hardly at all. If that
 * difference rises as objects are freed, chunks of one path stay when their objects are freed.
 */
#ifndef MEMCTX_PAIRED_H
#define MEMCTX_PAIRED_H

#include "diagnosis/growth.h"

/* Looks for such a path beside each path that did not grow. Sets growths[n] to the growth beside
 * that path, and figures[n] to its bytes. Needs five looks. */
void paired_find(const struct look *look, const struct series *series, struct growth *growths,
                 int64_t *figures);

#endif
