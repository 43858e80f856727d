/* SPDX-License-Identifier: MIT */
/* demangle.h - the readable form of a C++ or Rust name. */
#ifndef MEMCTX_DEMANGLE_H
#define MEMCTX_DEMANGLE_H

/* Returns the readable form, which the caller frees; NULL if `name` is not mangled, has more than
 * 4096 bytes, or its readable form has more than 64 KiB. */
char *demangle_name(const char *name);

#endif
