/* SPDX-License-Identifier: MIT */
/*
 * replay.h - shows the moments of a recording as if each was a look at a process.
 *
 * A watch (watch.h) that replays has no process. Its growth and its allocations a second are those
 * since the moment before.
 */
#ifndef MEMCTX_REPLAY_H
#define MEMCTX_REPLAY_H

#include "live/rows.h"
#include "live/watch.h"
#include "snapshot/snapshot.h"

struct replay {
    struct snapshot_replay *file;
    struct model *model;              /* that the file refers to; the watch has its contents */
    size_t at;                        /* the moment that is shown */
    int64_t *bytes, *chunks, *allocs; /* by context: room for one moment */
};

/* Begins a watch of a recording. The model is the one that came with the file; it has its names
 * already. The watch shares its contexts and names. Shows the moment that the model was loaded at.
 */
void replay_begin(struct watch *watch, const struct model *model, struct snapshot_replay *file);
/* Begins a watch of the recording that the process of another watch writes. False: there is none,
 * and `why` says so. */
bool replay_begin_of(struct watch *watch, const struct watch *of, char *why, size_t bytes);
void replay_end(struct watch *watch);
/* Shows a moment; one behind the last one is the last one. */
void replay_go(struct watch *watch, size_t moment);
size_t replay_count(const struct watch *watch);
const struct model_moment *replay_moment(const struct watch *watch);

/* Fills a history with `width` values at equal distances in time, from the first moment to the last
 * one: the live bytes of a line, or of the process if `line` is NULL. */
void replay_fill_history(struct watch *watch, const struct rows_line *line, bool tree,
                         struct rates_history *history, size_t width);
/* Returns the place of the moment that is shown in a history of this width. */
size_t replay_place(const struct watch *watch, size_t width);

#endif
