/* SPDX-License-Identifier: MIT */
/* rebind.h - gives this library's malloc family to code that asks libc for these functions. */
#ifndef MEMCTX_REBIND_H
#define MEMCTX_REBIND_H

#include "base/base.h"

INTERNAL uint32_t rebind_count; /* libc's names that lead to this library */

/* The constructor calls this once, while there is one thread. `malloc_in_use` is the address that
 * malloc has for this library, and so for the program. Nothing is changed if that is not our own
 * malloc, if the kernel refuses, or if libc lacks one of the names. */
void rebind_libc(uintptr_t malloc_in_use);
/* Returns the file that malloc comes from if that is not this library, else NULL. */
const char *rebind_other_malloc(uintptr_t malloc_in_use);

#endif
