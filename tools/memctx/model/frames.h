/* SPDX-License-Identifier: MIT */
/*
 * frames.h - the frames of a context as text: "parse (json.c:12) < main (main.c:4)".
 */
#ifndef MEMCTX_FRAMES_H
#define MEMCTX_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/* "function (file.c:12)", "function (library.so)", "library.so+0x12", "[label]"; with what was
 * inlined after " > ". free() it. `whole`: full paths and names instead of shortened ones. */
char *frames_write(const struct model *model, const struct model_context *context, bool whole);
/* The frame as a step of a path: in short form, and of a recursive context with its loop,
 * "visit  (recursive: visit > generic_visit > visit_Call)". free() it. */
char *frames_write_step(const struct model *model, uint32_t index);
/* The frames from a context outward, joined by " < ", at most `frames` of them (-1: all). */
char *frames_write_path(const struct model *model, uint32_t index, int64_t frames);

#endif
