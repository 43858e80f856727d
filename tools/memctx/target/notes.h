/* SPDX-License-Identifier: MIT */
/*
 * notes.h - writes and reads notes: predicted savings of isolate, merge, set and trim, which the
 * target keeps for memctx verify.
 */
#ifndef MEMCTX_NOTES_H
#define MEMCTX_NOTES_H

#include "target/target.h"

/* A note of WIRE_NOTE_BYTES has room for this many ids, however long its numbers are. */
#define NOTE_IDS_MAX 24

struct note {
    char action[16];         /* "trim", or the action of a struct placing */
    double uptime_s;         /* uptime of the target when the action was done */
    int64_t contexts, first; /* number of contexts, and the id of the first */
    int64_t predicted_bytes; /* WIRE_UNKNOWN: it could not be predicted */
    /* trim: the resident set before and after; otherwise: the waste before, and 0 */
    int64_t before_bytes, after_bytes;
    int64_t waiting; /* trim: threads that give back their part with their next malloc */
    /* Not set for a trim: the sum of the contexts' ids (WIRE_UNKNOWN: not known), and the ids
     * themselves if there are at most NOTE_IDS_MAX. */
    int64_t id_sum;
    size_t id_count;
    uint32_t ids[NOTE_IDS_MAX];
};

/* Leaves a note in the target. */
void note_write(struct target *target, const struct note *note);
/* Returns false if the text is not a note. */
bool note_read(struct note *note, const char *text);
/* Adds a context to id_sum and, if there is room, to the ids. */
void note_add_id(struct note *note, uint32_t id);
/* Returns whether this context may be one of the note's: its id is among the ids, or the note has
 * no ids. */
bool note_may_name(const struct note *note, uint32_t id);

#endif
