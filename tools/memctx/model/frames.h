/* SPDX-License-Identifier: MIT */
/*
 * frames.h - writes the frames of a context as text: "parse (json.c:12) < main (main.c:4)".
 */
#ifndef MEMCTX_FRAMES_H
#define MEMCTX_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/* Returns the name of a module without folders. The main program has the name by which the user
 * started it (model_program), even if that is a symbolic link to a file of another name. An
 * interpreter has the name of its file, because the user may have started a script. */
const char *frames_module_name(const struct model *model, uint32_t module);
/* Returns a frame as "function (file.c:12)", "function (library.so)", "library.so+0x12" or
 * "[label]"; inlined functions follow after " > ". `whole`: with full paths and names; otherwise
 * both are shortened. The caller frees the text. */
char *frames_write_frame(const struct model *model, const struct model_frame *frame, bool whole);
/* Returns the frame of a context, with the functions around it that ended in tail calls (tails.h):
 * "outer [tail call] (file.c:4) > function (file.c:12)". If the context has no children, the
 * functions between the frame and malloc follow. The caller frees the text. */
char *frames_write(const struct model *model, const struct model_context *context, bool whole);
/* Returns the frame of a context as a step of a path, in short form, followed by the loop if the
 * context is recursive: "visit (recursive: visit > generic_visit > visit_Call)". The text has no
 * bytes that a terminal would obey (cli_clean_bytes). The caller frees it. */
char *frames_write_step(const struct model *model, uint32_t index);

/* The steps of a path in short form, innermost first: frames, and functions that ended in tail
 * calls. They have no bytes that a terminal would obey. */
struct frames_path {
    char **steps;
    size_t count, capacity;
    bool cut; /* frames at the outer end of the path were left out */
};
/* Makes the path of a context's own chunks, with at most `frames` frames (-1: no limit).
 * frames_free_path frees it. */
void frames_make_path(struct frames_path *path, const struct model *model, uint32_t index,
                      int64_t frames);
void frames_free_path(struct frames_path *path);
/* Returns the path that frames_make_path makes, as steps joined by " < ". The caller frees the
 * text. */
char *frames_write_path(const struct model *model, uint32_t index, int64_t frames);

#endif
