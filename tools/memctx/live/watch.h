/* SPDX-License-Identifier: MIT */
/*
 * watch.h - looks at one process again and again.
 *
 * A look never ends the command: if the process has ended, is stopped or does not answer,
 * watch->state says so. Each look asks for the figures of at most WATCH_RECORDS contexts; if there
 * are more, the next look begins with the first context that was not read. A rate covers the time
 * between two readings of a context, measured by the uptime that the process sends with its
 * figures. New contexts, pages and names are each loaded after a pause, which is a multiple (10
 * to 100) of the time that the last loading took.
 */
#ifndef MEMCTX_LIVE_WATCH_H
#define MEMCTX_LIVE_WATCH_H

#include "live/rates.h"
#include "model/wire_load.h"
#include "target/client.h"

#define WATCH_RECORDS 110000U /* greatest number of contexts that one look reads */
/* a look ends early if the process has spent this share of the interval on its answers */
#define WATCH_TARGET_SHARE 0.04
#define WATCH_SHARE_CONTEXTS 33 /* loading new contexts takes at most 1/33 of the time */

enum watch_state {
    WATCH_NEW,    /* the process has not answered yet */
    WATCH_RUNS,   /* the last look succeeded */
    WATCH_SILENT, /* the process exists but does not answer; watch->how says why */
    WATCH_ENDED,  /* the process has ended; watch->how says how */
};

/* Times of the last loading of contexts, pages or names, from which watch_is_due computes the next.
 */
struct watch_due {
    double begun_s, ended_s, took_s;
};

/* The figures of a whole process. */
struct watch_totals {
    int64_t live_bytes, live_chunks, allocs, rss_bytes;
    int64_t growth, alloc_rate; /* per second; WIRE_UNKNOWN at the first look */
    int64_t contexts;
    double uptime_s; /* uptime of the process when these figures were read */
};

/* The sums of contexts that were loaded, until `rates` takes them. */
struct watch_new {
    struct watch_new_sums {
        uint32_t context; /* index */
        int64_t live_bytes, live_chunks, allocs;
    } * list;
    size_t count, room;
};

struct watch {
    struct process_facts facts;
    char *program; /* name of the program as the user started it */
    int pidfd;
    uint64_t stack_start; /* facts.stack_start at the present look; 0: not known */
    struct client client;
    bool outside;   /* the user named the process: if it does not answer, its memory is read */
    double asked_s; /* while it is read from outside: when the socket was last tried */
    enum watch_state state;
    /* why the process is silent, or how it ended; the size is that of cli_failure.text */
    char how[1024];
    struct cli_failure failure;
    bool no_names;
    const char *debug_directory;
    double interval_s; /* between two looks */
    double tried_s;    /* time when the caller last asked the process; set by the caller */

    struct loader loader;
    struct model model; /* tree and names, without figures, which are in `rates` */
    struct watch_new new;
    bool loaded;
    uint32_t version; /* rises when the model gets other contexts or names */
    bool stale;       /* the library has given an id of the model to another path */
    bool behind;      /* the process has contexts that the model does not have */
    bool *asked;      /* asked[index of a context]: its names were asked for */
    size_t asked_count, asked_room;
    struct rates rates;
    struct watch_totals totals;
    struct watch_totals base;     /* `totals` at the time of the base */
    struct rates_history history; /* live bytes of the process */
    uint64_t from; /* where the next look begins (`from` of struct wire_piece_request) */
    double read_s; /* uptime of the process when its last figures were read */
    struct watch_due contexts_due, pages_due, names_due, reload_due;
    char *recording;       /* path of the process's recording, as the process answered */
    int recording_fd;      /* the recording, kept open for the time after the process; -1: none */
    struct replay *replay; /* the recording that is shown (replay.h); NULL: a process is watched */
};

/* Begins to watch a process. Sends nothing to it before the first look. */
void watch_begin(struct watch *watch, const struct process_facts *facts);
/* Uses the caller's connection to the process, or its way to read it from outside, and closes it in
 * watch_end. */
void watch_take(struct watch *watch, const struct client *client);
void watch_end(struct watch *watch);

/* Looks at the process. Returns true if it answered, else sets watch->state and watch->how. */
bool watch_look(struct watch *watch);
/* Like watch_look, but asks for the totals alone. */
bool watch_look_at_totals(struct watch *watch);
/* Returns the live bytes of call paths that are not in the model yet; 0 if all paths are. */
int64_t watch_not_loaded(const struct watch *watch);
/* Makes the present figures the base that later figures are compared with. */
void watch_mark(struct watch *watch);

/* Opens the recording that the process writes, or wrote until the recording was switched off; only
 * in the second case the process is asked for the path. After the end of the process, opens the
 * recording that an earlier look or call has found. Returns a descriptor, which the caller closes;
 * -1: no recording was found. */
int watch_open_recording(struct watch *watch);

/* The figures of one heap of a thread in one context. */
struct watch_view {
    uint32_t tid; /* 0: threads that have exited, or have allocated little yet */
    uint32_t id;  /* id of the context */
    struct wire_sums sums;
};
struct watch_views {
    struct watch_view *list;
    struct model_thread *threads;
    size_t count, thread_count;
};
/* Asks for the figures of threads in the contexts with these indices, or in all if `contexts` is
 * NULL. The caller calls watch_free_views. Returns false, without views, if the process did not
 * answer. */
bool watch_ask_views(struct watch *watch, const uint32_t *contexts, size_t count,
                     struct watch_views *views);
void watch_free_views(struct watch_views *views);

/* Returns true if loading is due: since the end of the last loading, `share` times its duration has
 * passed. Notes the present time as the beginning of the next loading; watch_was_done notes its
 * end.
 */
bool watch_is_due(struct watch_due *due, int share);
void watch_was_done(struct watch_due *due);

#endif
