/* SPDX-License-Identifier: MIT */
/* rebind.h - redirects libc's own malloc family to this library. */
#ifndef MEMCTX_REBIND_H
#define MEMCTX_REBIND_H

#include "base/base.h"

/* number of libc's functions that were redirected to this library */
INTERNAL uint32_t rebind_count;

/* Changes the addresses of the malloc family in libc's symbol table to those of this library's
 * functions. The constructor calls this function while there is one thread. `malloc_in_use` is the
 * address of `malloc` that the loader gives this library. Nothing changes if the kernel refuses, or
 * if libc lacks one of the names. If the program calls a malloc of another object, the addresses
 * are changed only with `passed_on`: that malloc takes its chunks from this library. */
void rebind_libc(uintptr_t malloc_in_use, bool passed_on);
/* Returns the name of the object that malloc comes from, if that is not this library; NULL: malloc
 * comes from this library, or the object is not known. */
const char *rebind_other_malloc(uintptr_t malloc_in_use);

/* True if the object that malloc comes from has constructors, which may not have run yet. */
bool rebind_other_has_constructors(uintptr_t malloc_in_use);

/* Returns the address of the function `name` that a call would reach if this library did not define
 * it. That is the function in the first object behind this library in the loader's list, up to the
 * loader, or else in an object before this library; 0: none of them has the function. Only reads
 * memory, so it may be called at any time, also in a signal handler: these objects were loaded with
 * the program and stay. */
uintptr_t rebind_next(const char *name);
struct link_map;
/* Returns the address of the function `name` that a loaded object defines; 0: it defines none. Only
 * reads the object's memory. */
uintptr_t rebind_in_object(const struct link_map *map, const char *name);
/* Returns the address of libc's function `name`, even if the program or another library defines one
 * of this name; 0: libc is not found. */
uintptr_t rebind_in_libc(const char *name);
/* True if calls of malloc reach this library. `malloc_in_use` is the address of `malloc` that the
 * loader gives this library. Only reads memory, so it may be called at any time. */
bool rebind_malloc_is_ours(uintptr_t malloc_in_use);

#endif
