/* SPDX-License-Identifier: MIT */
/*
 * replay.h - shows the moments of a recording as if each moment were a look at a process.
 *
 * A watch (watch.h) that replays a recording has no process. Its rates cover the time from the
 * previous moment to the shown one.
 */
#ifndef MEMCTX_LIVE_REPLAY_H
#define MEMCTX_LIVE_REPLAY_H

#include "live/rows.h"
#include "live/watch.h"
#include "snapshot/snapshot.h"

struct replay {
    struct snapshot_replay *file;
    /* the model of `file`, if replay_begin_of made it and replay_end frees it; NULL: it belongs to
     * the caller of replay_begin */
    struct model *model;
    size_t at;                        /* index of the moment that is shown */
    int64_t *bytes, *chunks, *allocs; /* buffers for the figures of one moment, by context */
    int64_t *frees;                   /* buffer for the frees of one moment, by context */
    int64_t *allocs_before;           /* allocations at the moment before */
};

/* Begins a watch of a recording. `model` is the model that snapshot_open_replay filled in, with the
 * names of its functions. The watch shares the model's contexts and names. It first shows the
 * moment that the model was loaded at. */
void replay_begin(struct watch *watch, const struct model *model, struct snapshot_replay *file);
/* Begins a watch of the recording of the process that `of` watches; the recording may be switched
 * off by now. Returns false and writes the reason to `why` if the process has no recording. */
bool replay_begin_of(struct watch *watch, struct watch *of, char *why, size_t bytes);
/* Ends the watch. Frees the file and the figures. */
void replay_end(struct watch *watch);
/* Shows the moment with this index, or the last moment if the index is too large. */
void replay_go(struct watch *watch, size_t moment);
/* Return the number of moments, and the moment that is shown. */
size_t replay_count(const struct watch *watch);
const struct model_moment *replay_moment(const struct watch *watch);

/* Fills a history with the live bytes of a line, or of the process if `line` is NULL: `width`
 * values at equal distances in time, from the first moment to the last one. */
void replay_fill_history(struct watch *watch, const struct rows_line *line, bool tree,
                         struct rates_history *history, size_t width);
/* Returns the index of the shown moment in a history of `width` values. */
size_t replay_column(const struct watch *watch, size_t width);

#endif
