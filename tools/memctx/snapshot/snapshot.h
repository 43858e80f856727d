/* SPDX-License-Identifier: MIT */
/*
 * snapshot.h - reads and writes snapshot files: the packed form and the older JSON form.
 */
#ifndef MEMCTX_SNAPSHOT_H
#define MEMCTX_SNAPSHOT_H

#include <stdio.h>

#include "model/model.h"

#define SNAPSHOT_NOT_ONE "%s: not a memctx snapshot; make one with memctx dump TARGET -o FILE"

/* Fills in an empty model from a snapshot file or a recording; tells the forms apart by the first
 * bytes. */
bool snapshot_load(struct model *model, const char *path, struct cli_failure *failure);
/* Like snapshot_load, but `when` chooses a moment of a recording: "now", "start", "-TIME" before
 * the last one; NULL: the last one. */
bool snapshot_load_at(struct model *model, const char *path, const char *when,
                      struct cli_failure *failure);

/* Writes the whole model in the packed form (snapshot_format.h). Of the options it takes threads
 * and names. A write that failed shows in ferror(file). */
void snapshot_write(const struct model *model, FILE *file,
                    const struct model_write_options *options);

/* A recording that is read moment by moment. */
struct snapshot_replay;
/* Loads the model of a recording at a moment, as snapshot_load_at does, and keeps the file for
 * snapshot_replay_moment. The model must not move in memory meanwhile. Returns NULL and sets the
 * failure if the file cannot be read or is no recording. model->recording lists all moments; the
 * model's marks are some of them. */
struct snapshot_replay *snapshot_open_replay(struct model *model, const char *path,
                                             const char *when, struct cli_failure *failure);
/* Calls `take` with the index and the figures of each context that had any at a moment. */
void snapshot_replay_moment(struct snapshot_replay *replay, size_t moment,
                            void (*take)(void *argument, uint32_t index,
                                         const struct wire_sums *sums),
                            void *argument);

/* Frees the file and the buffers, but not the model. */
void snapshot_end_replay(struct snapshot_replay *replay);

/* Writes the names of functions in the model of a recording into the file of the recording, `path`,
 * so that the names are there without the program's files. Removes the model's marks. */
bool snapshot_add_names(struct model *model, const char *path, struct cli_failure *failure);

/* --- the readers, for snapshot.c ---------------------------------------------------------
 * `bytes` is the whole file, which stays the caller's; the model has its source already. */

/* The recording that a process wrote with MEMCTX_RECORD. Earlier moments become marks. */
bool snapshot_read_recording(struct model *model, const char *bytes, size_t length,
                             const char *when, struct cli_failure *failure);
/* Like snapshot_read_recording, but keeps `bytes`, which the caller must not free. NULL: a failure.
 */
struct snapshot_replay *snapshot_begin_replay(struct model *model, const char *bytes, size_t length,
                                              const char *when, struct cli_failure *failure);
/* Gives the frames of a model of a recording the names that the file has, if it has any. Sets
 * model->has_names if it has those of all frames. */
void snapshot_read_names(struct model *model, const char *bytes, size_t length);
/* The packed form, which memctx dump -o writes. */
bool snapshot_read_packed(struct model *model, const char *bytes, size_t length,
                          struct cli_failure *failure);
/* The JSON form, which memctx dump --json -o writes; a 0 byte must follow the text. */
bool snapshot_read_json(struct model *model, const char *bytes, size_t length,
                        struct cli_failure *failure);

#endif
