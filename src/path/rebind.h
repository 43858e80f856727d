/* SPDX-License-Identifier: MIT */
/* rebind.h - whoever asks libc for malloc and its family gets this library's. */
#ifndef MEMCTX_REBIND_H
#define MEMCTX_REBIND_H

#include "base/base.h"

INTERNAL uint32_t rebind_count; /* names of libc's that lead here */

/* Once, from the constructor, by the only thread. `malloc_in_use`: what malloc is to this library, as to the program;
 * nothing is changed where that is not our own, where the kernel refuses, or libc has not all the names. */
void rebind_libc(uintptr_t malloc_in_use);
/* The file that malloc comes from, if that is not this library; else NULL. */
const char *rebind_other_malloc(uintptr_t malloc_in_use);

#endif
