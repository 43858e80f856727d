/* SPDX-License-Identifier: MIT */
/*
 * arrival.h - when the memory that call paths hold came, as far as earlier looks at the process
 * (marks, moments of a recording, looks of --watch) show.
 */
#ifndef MEMCTX_ARRIVAL_H
#define MEMCTX_ARRIVAL_H

#include "diagnosis/look.h"

/* Returns the index of the last look before the suspect grew: until then it had hardly grown. 0
 * if it grew from the first look on. */
size_t arrival_find_begin(const struct look *look, const struct blame_suspect *suspect);
/* Returns a clause that says when the memory of the suspect came: "came between 14:02:10 and
 * 14:02:20", "came after 14:02:10", "held since before 14:00:00" or "1.5 MiB more than at
 * 14:00:00". NULL if there was no earlier look. The caller frees it. */
char *arrival_tell(const struct look *look, const struct blame_suspect *suspect);

#endif
