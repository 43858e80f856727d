/* SPDX-License-Identifier: MIT */
/* rebind.h - redirects libc's own malloc family to this library. */
#ifndef MEMCTX_REBIND_H
#define MEMCTX_REBIND_H

#include "base/base.h"

/* number of libc's functions that were redirected to this library */
INTERNAL uint32_t rebind_count;

/* Changes the addresses of the malloc family in libc's symbol table to those of this library's
 * functions. The constructor calls this function while there is one thread. `malloc_in_use` is the
 * address of `malloc` that the loader gives this library. Nothing changes if the kernel refuses, if
 * libc lacks one of the names, or if the program calls a malloc of another object. `passed_on`: the
 * malloc of the other object takes its chunks from this library, so the addresses are changed
 * nevertheless. */
void rebind_libc(uintptr_t malloc_in_use, bool passed_on);
/* Returns the file that malloc comes from; NULL: malloc comes from this library. */
const char *rebind_other_malloc(uintptr_t malloc_in_use);

/* True if the object that malloc comes from has constructors, which may not have run yet. */
bool rebind_other_has_constructors(uintptr_t malloc_in_use);

/* Returns the address of the function `name` that a call would reach if this library did not define
 * it. That is the function in the first object behind this library in the loader's list, or else in
 * any other object; 0: no object has the function. Only reads memory, so it may be called at any
 * time, also in a signal handler: the objects from this library to libc were loaded with the
 * program and stay. */
uintptr_t rebind_next(const char *name);
/* Returns the address of libc's function `name`, even if the program or another library defines one
 * of this name; 0: libc is not found. */
uintptr_t rebind_in_libc(const char *name);
/* True when an address belongs to this library. */
bool rebind_is_ours(uintptr_t address);

#endif
