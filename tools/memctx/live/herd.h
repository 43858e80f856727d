/* SPDX-License-Identifier: MIT */
/*
 * herd.h - several processes, of which only the totals are asked for.
 */
#ifndef MEMCTX_HERD_H
#define MEMCTX_HERD_H

#include "live/watch.h"

/* Seconds between two searches for new processes, and between two questions to a process that does
 * not answer. */
#define HERD_SCAN_S 5

struct herd {
    struct watch **watches; /* the processes; herd_look sorts them by falling live bytes */
    size_t count, capacity;
    bool all;      /* look for new processes, too */
    double scan_s; /* when new processes were last looked for */
    bool no_names; /* options of every watch */
    const char *debug_directory;
    double interval_s;
};

/* Adds a process. The herd owns the watch. */
struct watch *herd_add(struct herd *herd, const struct process_facts *facts);
/* Asks every process for its totals. With `all`, first looks for new processes with the library,
 * and forgets those that have ended. */
void herd_look(struct herd *herd);

#endif
