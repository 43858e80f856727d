/* SPDX-License-Identifier: MIT */
/*
 * limits.h - how much memory a process may take and may still get, and how long tasks wait for
 * memory.
 *
 * Reads cgroups of version 1 and 2, resource limits, and pressure stall information. `root` stands
 * before every path: "" for this machine, a made-up tree in the tests. A figure that cannot be read
 * is left out. No function of this header ends the command or prints.
 */
#ifndef MEMCTX_LIMITS_H
#define MEMCTX_LIMITS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* Where the memory controllers of version 2 and 1 are mounted. `point` is empty if there is no such
 * mount. */
struct limits_mounts {
    const char *root;
    struct limits_mount {
        char point[512]; /* the mount point */
        char top[512];   /* the cgroup that is mounted at `point` */
    } v2, v1;
};

#define LIMITS_UNKNOWN (-1)

struct limits_found {
    int64_t bytes;      /* the limit */
    int64_t left_bytes; /* bytes that may still be taken, at least 0; or LIMITS_UNKNOWN */
    uint64_t group;     /* inode number of the folder of the group with the limit; 0: no group */
    char from[320];     /* "memory.max of /a/b", for messages; a long path lacks its middle */
};

/* True if the limit counts addresses, touched or not (RLIMIT_AS, RLIMIT_DATA, CommitLimit), and not
 * resident memory. */
static inline bool limits_counts_addresses(const struct limits_found *limit) {
    return strncmp(limit->from, "RLIMIT_", 7) == 0 || strncmp(limit->from, "CommitLimit", 11) == 0;
}

#define LIMITS_MOST 24

/* A control group whose memory.high is used up, so that the kernel makes its threads wait. */
struct limits_throttled {
    int64_t high_bytes;
    int64_t used_bytes; /* without memory that the kernel can take back */
    int waited_percent; /* share of the last minute in which at least one task waited for memory */
    char group[256];    /* a long path lacks its middle */
};

/* The limits of a process. If there are more than LIMITS_MOST, the list lacks the limits that leave
 * the process most memory. */
struct limits_left {
    struct limits_found list[LIMITS_MOST];
    size_t count;
    struct limits_throttled throttled; /* set by the caller of limits_find_throttled */
};

/* Reads the mounts that this process sees. `root` must stay valid. */
void limits_read_mounts(struct limits_mounts *mounts, const char *root);
/* Finds the smallest limit: memory.max and memory.high (version 2) and memory.limit_in_bytes
 * (version 1) of the process's cgroup and of all above it, RLIMIT_AS, RLIMIT_DATA, and the memory
 * of the machine. Sets left_bytes to LIMITS_UNKNOWN. Returns false if not even the machine's memory
 * can be read. */
bool limits_find_smallest(const struct limits_mounts *mounts, pid_t pid,
                          struct limits_found *found);
/* Finds all limits of limits_find_smallest except memory.high, and CommitLimit of the machine if
 * vm.overcommit_memory is 2, and how much each of them leaves at this moment. The limit that leaves
 * least comes first. The limit of a cgroup counts all its processes, RLIMIT_AS counts address
 * space. In a cgroup, the contents of files and reclaimable caches of the kernel count as left, and
 * swap does not. A limit is left out if its use cannot be read. The member `from` is "memory.max of
 * cgroup /a/b". */
void limits_find_left(const struct limits_mounts *mounts, pid_t pid, struct limits_left *left);
/* Finds the innermost control group, from the process's own outwards, that has used up its
 * memory.high and has tasks that waited for memory for a twentieth of the last minute or longer.
 * False: there is no such group. */
bool limits_find_throttled(const struct limits_mounts *mounts, pid_t pid,
                           struct limits_throttled *throttled);
/* Finds the file of the process's memory pressure: the file of its cgroup, or of the nearest cgroup
 * above it that has one, else the file of the machine. Returns false if there is none. */
bool limits_find_pressure(const struct limits_mounts *mounts, pid_t pid, char *path,
                          size_t path_bytes);
/* Returns the microseconds, since some time in the past, in which at least one task waited for
 * memory; -1: the file cannot be read. */
int64_t limits_read_pressure(const char *path);
/* Asks the kernel to report pressure: the descriptor is ready with POLLPRI when tasks waited for
 * `stall_us` within `window_us`. Returns -1 if the kernel or the permissions do not allow it. */
int limits_open_trigger(const char *path, int64_t stall_us, int64_t window_us);

#endif
