/* SPDX-License-Identifier: MIT */
/*
 * recording.h - what recording.c and recording_entries.c share: the state of a reader of a
 * recording, its moments, and the entries of a moment.
 */
#ifndef MEMCTX_RECORDING_H
#define MEMCTX_RECORDING_H

#include <memctx/record.h>

#include "model/wire_load.h"
#include "snapshot/snapshot.h"

/* A moment with right checksums. */
struct recording_moment {
    uint64_t sequence;
    const char *body; /* the entries */
    size_t bytes;
    struct record_moment moment;
    struct record_pages pages; /* valid if moment.paged */
    struct wire_dump dump;
};

/* The figures of one context in a moment. */
struct recording_entry {
    struct wire_sums sums;
    struct record_held held; /* valid if the moment is paged */
};

struct snapshot_replay {
    const char *bytes;
    size_t length;
    struct model *model;
    struct cli_failure *failure;
    struct record_head head;
    const char *directory;
    size_t directory_bytes;
    struct recording_moment *found; /* the moments, by rising sequence */
    size_t count, room;
    struct record_since *since; /* the entries of RECORD_SINCE in the directory, by rising id */
    size_t since_count;
    int64_t *alone_free; /* by index of a context: record_held.alone_free_bytes */
    struct loader loader;
    /* The arguments of snapshot_replay_moment. */
    void (*take)(void *argument, uint32_t index, const struct wire_sums *sums);
    void *argument;
};

/* Sets the failure "damaged recording" with the detail `what`. Returns false. */
bool recording_damaged(const struct snapshot_replay *reader, const char *what);
/* Calls `take` for each context of the moment that the directory has, for the context RECORD_REST,
 * and for the context RECORD_FORGOTTEN with the sum of all others. */
bool recording_each_entry(struct snapshot_replay *reader, const struct recording_moment *found,
                          void (*take)(struct snapshot_replay *, uint32_t index,
                                       const struct recording_entry *));

#endif
