/* SPDX-License-Identifier: MIT */
/*
 * frames.h - writes the frames of a context as text: "parse (json.c:12) < main (main.c:4)".
 */
#ifndef MEMCTX_FRAMES_H
#define MEMCTX_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/* Returns the frame of a context as "function (file.c:12)", "function (library.so)",
 * "library.so+0x12" or "[label]"; inlined functions follow after " > ". `whole`: full paths and
 * names instead of shortened ones. The caller frees the text. */
char *frames_write(const struct model *model, const struct model_context *context, bool whole);
/* Returns the frame as a step of a path, in short form. A recursive context has its loop: "visit
 * (recursive: visit > generic_visit > visit_Call)". The caller frees the text. */
char *frames_write_step(const struct model *model, uint32_t index);
/* Returns the frames from a context outwards, joined by " < ", at most `frames` of them (-1: all).
 * The caller frees the text. */
char *frames_write_path(const struct model *model, uint32_t index, int64_t frames);

#endif
