/* SPDX-License-Identifier: MIT */
/*
 * threads.h - the figures of each thread at each call path, with rates between two readings.
 *
 * A reading covers some contexts or all. A reading of all costs about as much as loading the
 * contexts, so threads_read_all makes one only after WATCH_SHARE_CONTEXTS times the duration of the
 * last one.
 */
#ifndef MEMCTX_LIVE_THREADS_H
#define MEMCTX_LIVE_THREADS_H

#include "live/watch.h"

#define THREADS_NAME_BYTES 48

/* The figures of one thread in one context. The waste is not known. */
struct threads_part {
    uint32_t tid; /* 0: all threads that have exited or have allocated little yet */
    uint32_t id;  /* id of the context */
    /* index of the context in the model of the watch; WIRE_NONE: the model lacks it */
    uint32_t context;
    struct rates_sums own;
};

/* A line of the list: a thread, or a call path below its thread. */
struct threads_line {
    bool is_thread;
    uint32_t tid;
    uint32_t context; /* for a call path: index of its context in the model of the watch */
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
    /* when the model of the watch was loaded; readings before that may have other contexts with
     * these ids */
    double loaded_s;
    bool all;         /* the reading covered all contexts */
    uint32_t version; /* version of the watch's model to which the `context` of the parts belongs */
    struct watch_due due;
    struct threads_line *list;
    size_t list_count, list_room;
};

/* Reads the figures of threads in these contexts (all if `contexts` is NULL). A context that the
 * previous reading covered gets rates. Returns false and keeps the previous reading if the process
 * did not answer. */
bool threads_read(struct threads *threads, struct watch *watch, const uint32_t *contexts,
                  size_t count);
/* Reads the figures of threads in all contexts, if a reading is due. Returns false if the process
 * did not answer. */
bool threads_read_all(struct threads *threads, struct watch *watch);

struct threads_options {
    /* counts[index of a context]: false if the context is left out; NULL: no context is left out */
    const bool *counts;
    enum rates_column sort;
    size_t limit;      /* greatest number of call paths that are listed below each thread */
    uint32_t wide;     /* tid of the thread that has the limit `wide_limit`; WIRE_NONE: no thread */
    size_t wide_limit; /* greatest number of call paths that are listed below the thread `wide` */
};
/* Makes the lines: threads by falling sort key, and below each thread its call paths by falling
 * sort key. */
void threads_make(struct threads *threads, const struct watch *watch,
                  const struct threads_options *options);
/* Frees the reading and the lines. */
void threads_clear(struct threads *threads);

#endif
