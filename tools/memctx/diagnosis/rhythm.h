/* SPDX-License-Identifier: MIT */
/*
 * rhythm.h - whether call paths without a function of the program in common grow alike.
 */
#ifndef MEMCTX_RHYTHM_H
#define MEMCTX_RHYTHM_H

#include "diagnosis/growth.h"

/* Divides suspects that share no more than the loop of an interpreter: two leaks of one script may
 * grow differently. Adds the same number to `group` of suspects that grow alike. */
void rhythm_divide(const struct look *look, const struct series *series, struct blame *blame);

/* Joins suspects of different threads that have equally many chunks at each look: one thread makes
 * a task, another thread runs it and allocates its buffers. If rhythm_divide found several groups,
 * also joins the suspects of each of these groups. */
void rhythm_join(const struct look *look, const struct series *series, struct blame *blame);

#endif
