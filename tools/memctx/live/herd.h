/* SPDX-License-Identifier: MIT */
/*
 * herd.h - watches several processes, and asks each only for its totals.
 */
#ifndef MEMCTX_HERD_H
#define MEMCTX_HERD_H

#include "live/watch.h"

/* Seconds between two searches for new processes, and least time between two requests to a process
 * that does not answer. */
#define HERD_SCAN_S 5

struct herd {
    struct watch **watches; /* the processes; herd_look sorts them by falling live bytes */
    size_t count, capacity;
    bool all;                    /* also search for new processes */
    const char *match;           /* with `all`: a pattern for the names of programs; NULL: none */
    double scan_s;               /* time of the last search for new processes */
    struct watch_due silent_due; /* the last request to a process that had not answered before */
    bool no_names;               /* this field and the next two fields are options of every watch */
    const char *debug_directory;
    double interval_s;
};

/* Adds a process. The herd owns the watch. */
struct watch *herd_add(struct herd *herd, const struct process_facts *facts);
/* Asks the processes for their totals. With `all`, first adds new processes that have the library,
 * and forgets processes that have ended. If processes do not answer, a look ends before it has
 * asked all others, and the next look goes on with these, unless it is to be `whole`. */
void herd_look(struct herd *herd, bool whole);

#endif
