/* SPDX-License-Identifier: MIT */
/*
 * memory.h - the ledger: what the kernel says the process holds, explained line by line.
 */
#ifndef MEMCTX_MEMORY_H
#define MEMCTX_MEMORY_H

#include <stdbool.h>
#include <sys/types.h>

#include "model/model.h"

#define MEMORY_LINES_MAX 20

struct memory_line {
    const char *key;  /* in JSON */
    const char *name; /* in text */
    int64_t bytes;
};

/* The lines add up to rss_bytes exactly: the last one is the residue, whatever its sign. */
struct memory_ledger {
    int64_t rss_bytes;
    struct memory_line lines[MEMORY_LINES_MAX];
    size_t count;
};

/* Reads /proc/PID/smaps; false where it may not be read. Costs the kernel a walk over the page
 * tables: some milliseconds for each GiB that is resident. */
bool memory_read_mappings(pid_t pid, struct model_mappings *mappings);

/* What memctx itself takes in the process: its tables, the control thread's stack and answers. */
int64_t memory_own_bytes(const struct model *model);

/* Adds the ledger up. The dump must have asked for RESIDENT; where the mappings are missing, they
 * are part of the residue. */
void memory_make_ledger(const struct model *model, struct memory_ledger *ledger);

#endif
