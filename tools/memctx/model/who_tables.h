/* SPDX-License-Identifier: MIT */
/*
 * who_tables.h - lists of the functions, source files and modules that tell a reader nothing about
 * who allocates. who.c asks them for the kind of a function.
 */
#ifndef MEMCTX_WHO_TABLES_H
#define MEMCTX_WHO_TABLES_H

#include <stdbool.h>

#include "model/who.h"

/* The first pattern that matches a function's name decides its kind. Names are compared without
 * template arguments and parameters. `via`: the word that who_write puts behind "via" if it leaves
 * the function out at the inner end of a path. NULL: the word is the function's name, or the class
 * of a member function of a library. */
struct who_row {
    const char *pattern;
    enum who_kind kind;
    const char *via;
};
/* Returns the function's row in the tables; NULL if it has none. */
const struct who_row *who_row_of(const char *name);

/* True if the source file is of the C, C++ or Rust library; false for NULL. */
bool who_is_library_file(const char *file);
/* True if the functions of the module, such as libc.so.6, tell nothing about who allocates. */
bool who_is_runtime(const char *module);
/* True if the module belongs to glibc. */
bool who_is_c_library(const char *module);

#endif
