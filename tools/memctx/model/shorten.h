/* SPDX-License-Identifier: MIT */
/*
 * shorten.h - long names of functions and files, in a length that fits a line of text.
 */
#ifndef MEMCTX_SHORTEN_H
#define MEMCTX_SHORTEN_H

/* The name as it is while it is short; else without template arguments ("vector<>"), then without
 * parameters ("f(...)"), then cut. free() it. The JSON always has the whole name. */
char *shorten_function(const char *name);
/* The file's name without its directories; points into `path`. */
const char *shorten_path(const char *path);

#endif
