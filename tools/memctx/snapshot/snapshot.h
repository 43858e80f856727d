/* SPDX-License-Identifier: MIT */
/*
 * snapshot.h - the two kinds of snapshot files, which model_load_snapshot (model.h) tells apart.
 *
 * Both get the whole file in memory, which stays the caller's, and a model that has its source.
 */
#ifndef MEMCTX_SNAPSHOT_H
#define MEMCTX_SNAPSHOT_H

#include "model/model.h"

#define SNAPSHOT_NOT_ONE "%s: not a memctx snapshot; make one with memctx dump TARGET -o FILE"

/* What memctx dump -o writes (snapshot_format.h). */
bool snapshot_read_packed(struct model *model, const char *bytes, size_t length,
                          struct cli_failure *failure);
/* What memctx dump --json -o writes, and at first memctx dump -o; a 0 byte follows it. */
bool snapshot_read_json(struct model *model, const char *bytes, size_t length,
                        struct cli_failure *failure);

#endif
