/* SPDX-License-Identifier: MIT */
/*
 * memory_left.h - how much memory a process may still get: from its control groups, its resource limits
 * and the machine.
 *
 * The figures are those of the moment. What a limit counts differs: a control group counts all its
 * processes, RLIMIT_AS counts address space. Swap is not counted as memory that is left.
 */
#ifndef MEMCTX_MEMORY_LEFT_H
#define MEMCTX_MEMORY_LEFT_H

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
