/* SPDX-License-Identifier: MIT */
/*
 * search.h - searches all processes again and again for those that a command wants.
 *
 * A look at a process reads its memory map, to see whether the process has the library. That takes
 * long on a machine with thousands of processes. So a process that was not wanted is looked at
 * again after a pause, which doubles up to a minute. A process whose name has changed has executed
 * another program, and is looked at again at once; names are compared at most once a second. A
 * process that no search has seen is looked at at once. For one thread.
 */
#ifndef MEMCTX_SEARCH_H
#define MEMCTX_SEARCH_H

#include "target/process.h"

/* A process that was not wanted. */
struct search_seen {
    pid_t pid;
    int64_t due_ms, pause_ms;
    char name[PROCESS_NAME_BYTES]; /* at the last look */
};

/* Zeroed memory is a search that has seen nothing. */
struct search {
    /* processes that this search and the last one did not want, in the order of /proc */
    struct search_seen *seen, *before;
    size_t count, capacity, before_count, before_capacity, at;
    struct search_seen present; /* the process of the last search_is_due */
    int64_t now_ms, names_due_ms;
    bool reads_names; /* this search compares names with those of the last looks */
};

/* Begins a search: the caller calls search_is_due for all processes, by process_for_each. */
void search_begin(struct search *search, int64_t now_ms);
/* Returns true if the caller is to look at the process now. */
bool search_is_due(struct search *search, pid_t pid);
/* Tells that the process of the last search_is_due, which returned true, is not wanted. */
void search_put_off(struct search *search);
void search_free(struct search *search);

#endif
