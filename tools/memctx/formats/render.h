/* SPDX-License-Identifier: MIT */
/*
 * render.h - a model as text: the lines in PostgreSQL's words, tree and list.
 */
#ifndef MEMCTX_RENDER_H
#define MEMCTX_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "model/model.h"
#include "model/view.h"

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
