/* SPDX-License-Identifier: MIT */
/*
 * render.h - a model as text: names of frames, the lines in PostgreSQL's words, tree and list.
 */
#ifndef MEMCTX_RENDER_H
#define MEMCTX_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "model.h"
#include "view.h"

#define RENDER_NUMBER_BYTES 32

struct render_options {
    bool human; /* 1.5 MiB instead of 1572864 */
    bool color;
    bool peak;      /* the most that was requested at a time */
    bool threads;   /* each context's thread views */
    int64_t levels; /* tree: levels shown; list: frames of each path; -1: all */
    int64_t limit;  /* list: contexts shown; 0: all */
};

/* True where standard output is a terminal and NO_COLOR is not set. */
bool render_wants_color(void);
/* A number of bytes in `text`, "?" where it is not known. Returns text. */
char *render_bytes(char *text, int64_t bytes, bool human);
/* "function (file.c:12)", "function (library.so)", "library.so+0x12", "[label]"; with what was
 * inlined after " > ". free() it. `whole`: full paths and names instead of shortened ones. */
char *render_frame(const struct model *model, const struct model_context *context, bool whole);
/* The frame as a step of a path: in short form, and of a recursive context with its loop,
 * "visit  (recursive: visit > generic_visit > visit_Call)". free() it. */
char *render_step(const struct model *model, uint32_t index);
/* The frames from a context outward, joined by " < ", at most `frames` of them (-1: all). */
char *render_path(const struct model *model, uint32_t index, int64_t frames);
/* The head of a text dump: what and how it is. */
void render_head(const struct model *model, const struct render_options *options);
/* "NAME: ... total in N pages; ..." for these figures. */
void render_line(const char *name, const struct model_totals *totals,
                 const struct render_options *options);
void render_tree(const struct model *model, const struct view *view,
                 const struct render_options *options);
void render_flat(const struct model *model, const struct view *view,
                 const struct render_options *options);
/* Mixed pages, freelist, metadata, control thread, then the grand total. */
void render_foot(const struct model *model, const struct render_options *options);

#endif
