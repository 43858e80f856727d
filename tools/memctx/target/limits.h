/* SPDX-License-Identifier: MIT */
/*
 * limits.h - how much memory a process may still get: from its control groups, its resource limits
 * and the machine.
 *
 * The figures are those of the moment. What a limit counts differs: a control group counts all its
 * processes, RLIMIT_AS counts address space. Swap is not counted as memory that is left.
 */
#ifndef MEMCTX_LIMITS_H
#define MEMCTX_LIMITS_H

#include <stdint.h>
#include <sys/types.h>

struct limit {
    char *name;         /* such as "memory.max of cgroup /web"; NULL: no limit is known */
    int64_t bytes;      /* the limit */
    int64_t left_bytes; /* at least 0 */
};

/* Returns the limit of the process that leaves the least memory. Files that cannot be read are no
 * limit. The caller frees the name. */
struct limit limits_tightest(pid_t pid);

#endif
