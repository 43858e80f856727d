/* SPDX-License-Identifier: MIT */
/*
 * snapshot.h - reads snapshot files of each form (packed, stream, JSON) and recordings; writes the
 * packed form, and names into recordings.
 */
#ifndef MEMCTX_SNAPSHOT_H
#define MEMCTX_SNAPSHOT_H

#include <stdio.h>

#include "model/model.h"

#define SNAPSHOT_NOT_ONE "%s: not a memctx snapshot; make one with memctx dump TARGET -o FILE"

/* Fills in an empty model from a snapshot file or a recording, whose first bytes tell the form.
 * `when` chooses a moment of a recording: "now" or NULL is the last moment, "start" the first,
 * "-TIME" the moment this time before the last one. */
bool snapshot_load(struct model *model, const char *path, const char *when,
                   struct cli_failure *failure);

/* Writes the whole model in the packed form (snapshot_format.h). Uses only `threads` and `names` of
 * the options. After a failed write ferror(file) is set. */
void snapshot_write(const struct model *model, FILE *file,
                    const struct model_write_options *options);

/* A recording that is open to be read moment by moment. */
struct snapshot_replay;
/* Loads the model of a recording at a moment, as snapshot_load does, and keeps the file for
 * snapshot_replay_moment. The model must not move in memory until snapshot_end_replay.
 * model->recording lists all moments; some of them become the model's marks. Returns NULL and sets
 * the failure if the file cannot be read or is no recording. */
struct snapshot_replay *snapshot_open_replay(struct model *model, const char *path,
                                             const char *when, struct cli_failure *failure);
/* Calls `take` for each context that has figures in the moment, with its index and these figures.
 */
void snapshot_replay_moment(struct snapshot_replay *replay, size_t moment,
                            void (*take)(void *argument, uint32_t index,
                                         const struct wire_sums *sums),
                            void *argument);

/* Frees the file's bytes and the buffers, but not the model. */
void snapshot_end_replay(struct snapshot_replay *replay);

/* Writes the names of functions that the model has into the recording `path`, from which the model
 * was read, so that a reader needs no files of the program. Removes the model's marks. Returns
 * false and the reason if that fails. */
bool snapshot_add_names(struct model *model, const char *path, struct cli_failure *failure);

/* --- the readers, for snapshot.c -------------------------------------------------------------- */

/* In each function `bytes` is the whole file, which the caller frees. model->source is set already.
 */

/* Reads a recording that a process wrote with MEMCTX_RECORD. Up to 24 moments before the chosen one
 * become marks. */
bool snapshot_read_recording(struct model *model, const char *bytes, size_t length,
                             const char *when, struct cli_failure *failure);
/* Like snapshot_read_recording, but keeps `bytes`, which snapshot_end_replay frees. Returns NULL on
 * failure. */
struct snapshot_replay *snapshot_begin_replay(struct model *model, const char *bytes, size_t length,
                                              const char *when, struct cli_failure *failure);
/* `bytes` is a recording from which the model was read. Gives the model's frames the names that the
 * file has. Sets model->has_names if the file has the names of all frames. */
void snapshot_read_names(struct model *model, const char *bytes, size_t length);
/* Reads the packed form, which memctx dump -o writes. */
bool snapshot_read_packed(struct model *model, const char *bytes, size_t length,
                          struct cli_failure *failure);
/* Reads the JSON form, which memctx dump --json -o writes; a 0 byte must follow the text. */
bool snapshot_read_json(struct model *model, const char *bytes, size_t length,
                        struct cli_failure *failure);

#endif
