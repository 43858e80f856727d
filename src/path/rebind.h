/* SPDX-License-Identifier: MIT */
/* rebind.h - whoever asks libc for malloc and its family gets this library's. */
#ifndef MEMCTX_REBIND_H
#define MEMCTX_REBIND_H

#include "base/base.h"

#define REBIND_MAX 16U

struct rebind_name {
    const char *name;
    uintptr_t ours;
};

INTERNAL uint32_t rebind_count; /* names of libc's that lead here */

/* Once, from the constructor, by the only thread. A kernel that refuses, or a libc without one of the
 * names, leaves them as they are. */
void rebind_libc(const struct rebind_name *names, size_t count);

#endif
