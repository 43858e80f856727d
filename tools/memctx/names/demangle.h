/* SPDX-License-Identifier: MIT */
/* demangle.h - the readable form of a C++ or Rust name. */
#ifndef MEMCTX_DEMANGLE_H
#define MEMCTX_DEMANGLE_H

/* Returns NULL if `name` is not a mangled name. The caller frees the result. */
char *demangle_name(const char *name);

#endif
