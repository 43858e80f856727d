/* SPDX-License-Identifier: MIT */
/*
 * mappings.h - reads the kernel's map of a process: which kinds of mappings hold how much memory.
 *
 * The figures come from /proc/PID/maps and /proc/PID/pagemap, not from /proc/PID/smaps, which would
 * hold the process up (residency.h).
 */
#ifndef MEMCTX_MAPPINGS_H
#define MEMCTX_MAPPINGS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "model/model.h"
#include "target/bss.h"
#include "target/residency.h"

/* The mappings of a process that have resident memory. Sorted by address. */
struct mapped_places {
    struct model_place *list;
    size_t count;
};

/* sizes of huge pages of which the kernel may have a pool */
#define MAPPINGS_POOLS 2

/* What mappings_read needs besides the text of the map. mappings_of_process fills it in for a
 * process; the unit tests, for a text. */
struct mappings_source {
    pid_t pid;
    const char *exe;             /* path of the program's file; NULL: not known */
    dev_t pools[MAPPINGS_POOLS]; /* devices of the files in the pools; 0: there is no such pool */
    struct residency residency;
    struct residency_count (*count)(const struct residency *residency, uint64_t start,
                                    uint64_t end);
    bool (*has_guard)(const struct residency *residency, uint64_t address);
    enum bss (*find_bss)(pid_t root_of, const char *path, uint64_t offset, uint64_t start,
                         uint64_t *first, uint64_t *end);
};

/* Reads the map of a process. False: this user may not read it. Takes some milliseconds for each
 * GiB that is resident. */
bool mappings_of_process(pid_t pid, struct model_mappings *mappings, struct mapped_places *places);
/* Reads the text of a maps file. The figures that the kernel itself counts, such as the peak, stay
 * WIRE_UNKNOWN. False: the text has no mapping. */
bool mappings_read(FILE *maps, const struct mappings_source *source,
                   struct model_mappings *mappings, struct mapped_places *places);

/* Finds the devices of the files in the kernel's pools of huge pages. */
void mappings_find_pools(dev_t pools[MAPPINGS_POOLS]);

#endif
