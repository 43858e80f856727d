/* SPDX-License-Identifier: MIT */
/*
 * emit.h - writes a model as JSON, schema memctx/1.
 */
#ifndef MEMCTX_EMIT_H
#define MEMCTX_EMIT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/json.h"
#include "model/model.h"

/* Writes the model as one object. If the options choose contexts (`shown`), writes only these. */
void emit_json(const struct model *model, FILE *file, const struct model_write_options *options);
/* Writes the figures as an object under the key `key`. */
void emit_totals(struct json_writer *json, const char *key, const struct model_totals *totals);
/* Writes the figures as an object under the key "elsewhere", or nothing if they are not known. */
void emit_elsewhere(struct json_writer *json, const struct wire_elsewhere *elsewhere);
/* Writes the frame of a context as an object under the key `key`. */
void emit_frame(struct json_writer *json, const char *key, const struct model *model,
                const struct model_context *context, bool names);
/* Writes "path", an array of the names of at most `frames` frames from a context outwards, without
 * the root. */
void emit_path(struct json_writer *json, const struct model *model, uint32_t context,
               uint32_t frames);

#endif
