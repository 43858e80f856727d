/* SPDX-License-Identifier: MIT */
/*
 * frames.h - writes the frames of a context as text: "parse (json.c:12) < main (main.c:4)".
 */
#ifndef MEMCTX_FRAMES_H
#define MEMCTX_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/* Returns the name of a module without folders. The main program has its own name (model_program),
 * also where it was started by a symbolic link to a file of another name; an interpreter, whose
 * program may be a script, has the name of its file. */
const char *frames_module_name(const struct model *model, uint32_t module);
/* Returns a frame as "function (file.c:12)", "function (library.so)", "library.so+0x12" or
 * "[label]"; inlined functions follow after " > ". `whole`: full paths and names instead of
 * shortened ones. The caller frees the text. */
char *frames_write_frame(const struct model *model, const struct model_frame *frame, bool whole);
/* Returns the frame of a context, with the functions around it that ended in tail calls (tails.h):
 * "outer [tail call] (file.c:4) > function (file.c:12)". The functions between the frame and malloc
 * follow it if nothing is below the context. The caller frees the text. */
char *frames_write(const struct model *model, const struct model_context *context, bool whole);
/* Returns the frame as a step of a path, in short form. A recursive context has its loop: "visit
 * (recursive: visit > generic_visit > visit_Call)". The caller frees the text. */
char *frames_write_step(const struct model *model, uint32_t index);

/* The steps of a path in short form, innermost first: frames, and functions that ended in tail
 * calls. */
struct frames_path {
    char **steps;
    size_t count, capacity;
    bool cut; /* there are more frames outside */
};
/* Makes the path of a context's own chunks with at most `frames` frames (-1: all). */
void frames_make_path(struct frames_path *path, const struct model *model, uint32_t index,
                      int64_t frames);
void frames_free_path(struct frames_path *path);
/* Returns the steps of such a path, joined by " < ". The caller frees the text. */
char *frames_write_path(const struct model *model, uint32_t index, int64_t frames);

#endif
