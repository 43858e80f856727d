/* SPDX-License-Identifier: MIT */
/*
 * notes.h - predicted savings of isolate, merge, set and trim. The target keeps them until memctx
 * verify reads them.
 */
#ifndef MEMCTX_NOTES_H
#define MEMCTX_NOTES_H

#include "target/target.h"

struct note {
    char action[16];         /* trim, or a placing's */
    double uptime_s;         /* of the target then */
    int64_t contexts, first; /* how many, and the id of one */
    int64_t predicted_bytes;
    int64_t before_bytes,
        after_bytes; /* trim: resident before and after; else: their waste before, 0 */
};

/* Leaves it in the target. */
void note_write(struct target *target, const struct note *note);
/* False: the text is none of ours. */
bool note_read(struct note *note, const char *text);

#endif
