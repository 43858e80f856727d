/* SPDX-License-Identifier: MIT */
/*
 * shorten.h - long C++ and Rust names in the length that a line of text bears.
 */
#ifndef MEMCTX_SHORTEN_H
#define MEMCTX_SHORTEN_H

/* The name as it is while it is short; else without template arguments ("vector<>"), then without
 * parameters ("f(...)"), then cut. free() it. The JSON always has the whole name. */
char *shorten_function(const char *name);

#endif
