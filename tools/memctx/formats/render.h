/* SPDX-License-Identifier: MIT */
/*
 * render.h - writes a model as text: a tree or a list, in the words of PostgreSQL's dumps of memory
 * contexts.
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
    bool human; /* print 1.5 MiB instead of 1572864 */
    bool color;
    bool peak;      /* also print the peak of requested bytes */
    bool threads;   /* also print the figures of each thread in each context */
    int64_t levels; /* tree: levels shown; list: frames of each path; -1: all */
    int64_t limit;  /* list: contexts shown; 0: all */
};

/* Returns true if standard output is a terminal, NO_COLOR is empty or not set, and TERM is not
 * "dumb". */
bool render_wants_color(void);
/* Writes a number of bytes into `text`, or "?" for WIRE_UNKNOWN. Returns `text`. */
char *render_bytes(char *text, int64_t bytes, bool human);
/* Returns the plural "s" for a noun behind a number: "" for 1 and -1. */
const char *render_plural(int64_t count);
/* If --site or --context chose no context in which anything was allocated, prints a line that says
 * so. */
void render_nothing(const struct model *model, const struct view *view,
                    const struct view_options *options);
/* Prints the head of a text dump: the process, its resident set, its marks. */
void render_head(const struct model *model, const struct render_options *options);
void render_tree(const struct model *model, const struct view *view,
                 const struct render_options *options);
void render_flat(const struct model *model, const struct view *view,
                 const struct render_options *options);
/* Prints the foot: shares of full call paths, memory of the library, the grand total. */
void render_foot(const struct model *model, const struct render_options *options);

#endif
