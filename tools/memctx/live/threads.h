/* SPDX-License-Identifier: MIT */
/*
 * threads.h - what each thread has allocated at each call path, from one reading to the next.
 *
 * A reading is of some contexts or of all. Reading all of them costs about as much as loading the
 * contexts, so threads_read_all does it only after a pause in proportion to the duration.
 */
#ifndef MEMCTX_LIVE_THREADS_H
#define MEMCTX_LIVE_THREADS_H

#include "live/watch.h"

#define THREADS_NAME_BYTES 48

/* The figures of one thread in one context. The waste is not known. */
struct threads_part {
    uint32_t tid; /* 0: all threads that have exited, and those that have allocated little yet */
    uint32_t id;  /* of the context */
    /* index of the context in the model of the watch; WIRE_NONE: the model lacks it */
    uint32_t context;
    struct rates_sums own;
};

/* A thread, or one of its call paths below it. */
struct threads_line {
    bool is_thread;
    uint32_t tid;
    uint32_t context; /* index in the model of the watch; of a call path */
    size_t left_out;  /* call paths of this thread that are not listed */
    struct rates_sums sums;
    char name[THREADS_NAME_BYTES]; /* name of the thread, if is_thread */
};

struct threads {
    struct threads_part *parts; /* the figures, by rising tid and id */
    size_t count;
    struct model_thread *names; /* names of the threads, by rising tid */
    size_t name_count;
    double read_s; /* uptime of the process at the reading */
    /* when the model of the watch was loaded: at earlier readings the same ids may belong to other
     * contexts */
    double loaded_s;
    bool all;         /* the reading was of all contexts */
    uint32_t version; /* version of the watch's model, to which the indices in `parts` belong */
    struct watch_due due;
    struct threads_line *list;
    size_t list_count, list_room;
};

/* Reads the figures of some contexts. A context that the reading before had, too, gets its rates
 * since then. Returns false if the process did not answer; the figures of the reading before then
 * stay. */
bool threads_read(struct threads *threads, struct watch *watch, const uint32_t *contexts,
                  size_t count);
/* Reads the figures of all contexts, if they are due. */
bool threads_read_all(struct threads *threads, struct watch *watch);

struct threads_options {
    /* counts[index of a context]: false if the context is left out; NULL: none is */
    const bool *counts;
    enum rates_column sort;
    size_t limit;      /* call paths that are listed of each thread */
    uint32_t wide;     /* tid of the thread that has a limit of its own; WIRE_NONE: no thread has */
    size_t wide_limit; /* call paths that are listed of that thread */
};
/* Makes the lines: the threads with most of the sort key first, and below each thread the call
 * paths with most of it. */
void threads_make(struct threads *threads, const struct watch *watch,
                  const struct threads_options *options);
/* Forgets everything. */
void threads_clear(struct threads *threads);

#endif
