/* SPDX-License-Identifier: MIT */
/*
 * shorten.h - shortens names of functions and files, so that they fit a line of text.
 */
#ifndef MEMCTX_SHORTEN_H
#define MEMCTX_SHORTEN_H

#include <stdbool.h>

/* Returns a copy of a name of at most 60 bytes. From a longer name, removes a return type
 * "decltype(...)", then template arguments ("vector<...>"), then parameters ("f(...)"), until it
 * has at most 60 bytes. Cuts a name that still has more than 100 bytes. The caller frees the text.
 * JSON always has the whole name. */
char *shorten_function(const char *name);
/* Returns the name of a function for use in a sentence: without parameters, return type, anonymous
 * namespaces and the hash of a Rust name. Template arguments become "<...>" if they are long or
 * nested; `plain` leaves all of them out ("std::vector::push_back"). The caller frees the text. */
char *shorten_to_name(const char *name, bool plain);
/* True if a function's name has a list of parameters, as the names of C++ have. */
bool shorten_has_parameters(const char *name);
/* Returns the file name without directories; it points into `path`. */
const char *shorten_path(const char *path);

#endif
