/* SPDX-License-Identifier: MIT */
/*
 * watch.h - looks at one process again and again.
 *
 * A look never ends the command: a process that ends, stops or does not answer sets the state.
 * Each look asks for the figures of at most WATCH_RECORDS contexts. If there are more, the next
 * look goes on behind them. A rate covers the time between two readings of the same context,
 * measured by the uptime that the process tells with its figures. New contexts, pages and names
 * are asked for less often, so that they take a few hundredths of the time.
 */
#ifndef MEMCTX_WATCH_H
#define MEMCTX_WATCH_H

#include "live/rates.h"
#include "model/wire_load.h"
#include "target/client.h"

#define WATCH_RECORDS 110000U
#define WATCH_TARGET_SHARE 0.04
#define WATCH_SHARE_CONTEXTS 33 /* loading new contexts takes a 33rd of the time at most */

enum watch_state {
    WATCH_NEW,    /* the process has not answered yet */
    WATCH_RUNS,   /* the last look succeeded */
    WATCH_SILENT, /* the process exists and does not answer; watch->how says why */
    WATCH_ENDED,  /* watch->how says how */
};

/* When the contexts, pages or names were loaded last, and how long that took. */
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

struct watch {
    struct process_facts facts;
    char *program; /* name of the program as the user started it */
    int pidfd;
    struct client client;
    enum watch_state state;
    /* why the process is silent or how it ended; as long as the text of a failure */
    char how[1024];
    struct cli_failure failure;
    bool no_names;
    const char *debug_directory;
    double interval_s; /* between two looks */
    double tried_s;    /* set by the caller: when it asked the process last */

    struct loader loader;
    struct model model; /* figures in it are not kept up to date; `rates` has them */
    bool loaded;
    uint32_t version; /* rises when the model gets other contexts or names */
    bool stale;       /* the library has given an id of the model to another path */
    bool behind;      /* there are contexts that the model does not have */
    bool *asked;      /* asked[index of a context]: its names were asked for */
    size_t asked_count, asked_room;
    struct rates rates;
    struct watch_totals totals;
    struct watch_totals base;     /* `totals` at the time of the base */
    struct rates_history history; /* live bytes of the process */
    uint64_t from;                /* where the next look begins, as in struct wire_piece_request */
    double read_s;                /* uptime of the process when its last figures were read */
    struct watch_due contexts_due, pages_due, names_due, reload_due;
    char *recording;       /* the answer to a question for the path of its recording */
    struct replay *replay; /* the recording that is shown (replay.h); NULL: a process is watched */
};

/* Begins to watch a process. It is asked at the first look. */
void watch_begin(struct watch *watch, const struct process_facts *facts);
/* Takes the connection of a caller who has one. */
void watch_take(struct watch *watch, const struct client *client);
void watch_end(struct watch *watch);

/* Looks at the process. True: it answered. Otherwise see watch->state and watch->how. */
bool watch_look(struct watch *watch);
/* Like watch_look, but asks for the totals alone. */
bool watch_look_at_totals(struct watch *watch);
/* Returns the live bytes of call paths that are not loaded yet; 0 if all are. */
int64_t watch_not_loaded(const struct watch *watch);
/* Makes the present figures the base that later figures are compared with. */
void watch_mark(struct watch *watch);

/* Opens the recording that the process writes, or wrote until the recording was switched off. Asks
 * the process for the path only where it does not write. Returns as recording_open. */
int watch_open_recording(struct watch *watch);

/* The figures of one heap of a thread in one context. */
struct watch_view {
    uint32_t tid; /* 0: of threads that have exited, or have allocated little yet */
    uint32_t id;  /* of the context */
    struct wire_sums sums;
};
struct watch_views {
    struct watch_view *list;
    struct model_thread *threads;
    size_t count, thread_count;
};
/* Asks for the figures of threads in some contexts (by index), or in all if `contexts` is NULL.
 * The caller frees the views. False: the process did not answer, and there are none. */
bool watch_ask_views(struct watch *watch, const uint32_t *contexts, size_t count,
                     struct watch_views *views);
void watch_free_views(struct watch_views *views);

/* Returns true if loading is due again: when a pause of `share` times the duration of the last
 * loading is over. */
bool watch_is_due(struct watch_due *due, int share);
void watch_was_done(struct watch_due *due);

#endif
