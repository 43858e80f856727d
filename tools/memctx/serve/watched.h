/* SPDX-License-Identifier: MIT */
/*
 * watched.h - the processes for which a live web page is open: the figures of their last
 * WATCHED_SAMPLES looks, snapshots (moments), events.
 *
 * A process is looked at from the first request for its live page until a minute
 * (WATCHED_LINGER_MS) after its last client has gone. One child process (pulse.h) looks at it for
 * all clients. Its figures and moments are kept for an hour (WATCHED_KEEP_MS) after the last
 * request. A child process `memctx dump` takes a snapshot every ten looks, or less often, so that
 * snapshots take at most a fifth of the time. No function of this header waits: the caller polls
 * the descriptors. For one thread.
 */
#ifndef MEMCTX_WATCHED_H
#define MEMCTX_WATCHED_H

#include "serve/fleet.h"
#include "serve/job.h"
#include "serve/listeners.h"
#include "serve/moments.h"
#include "serve/pulse.h"

#define WATCHED_MAX 8
#define WATCHED_SAMPLES 3600
#define WATCHED_FDS (1 + JOB_FDS) /* descriptors of one watched process */

struct watched {
    struct process_facts facts;
    char *program;
    unsigned number;
    int64_t wanted_ms; /* clock_now_ms of the last request */
    bool ended;
    char *how;        /* why no figures come at present; NULL: figures come */
    char *no_moment;  /* why the last snapshot failed; NULL: it did not fail */
    pid_t pulse;      /* 0: none runs */
    int fd;           /* pipe from the pulse; -1: no pulse runs */
    int64_t pulse_ms; /* when the pulse was started */
    char incoming[sizeof(struct pulse_record) + PULSE_TEXT_MAX];
    size_t incoming_bytes;
    struct pulse_record samples[WATCHED_SAMPLES]; /* a ring */
    size_t sample_count; /* number of samples since the process is watched */
    struct moments moments;
    struct job job; /* the running `memctx dump` that makes the next moment */
    int64_t job_wall_ms, job_began_ms, next_moment_ms;
};

struct watching {
    struct watched *list[WATCHED_MAX];
    size_t count;
    struct listeners listeners;
    int64_t every_ms;
    /* id of the last moment of any process: an entry that was dropped and begun again must not give
     * an id of its old moments to another moment */
    uint64_t last_moment;
};

/* Returns the entry of a process, and watches the process from now on. NULL: WATCHED_MAX processes
 * are watched already. */
struct watched *watching_begin(struct watching *watching, const struct fleet_process *process);
/* Returns the entry of a process that is no longer served: the last process with this pid or, if
 * `program` is not NULL, with this program's name. NULL: there is no such entry. */
struct watched *watching_find(struct watching *watching, pid_t pid, const char *program);
/* Adds the descriptors of all entries to a poll list. Returns their number. */
size_t watching_poll(const struct watching *watching, struct pollfd *entries);
/* Reads the figures that have arrived, takes moments, and stops watching processes that nobody
 * looks at. */
void watching_run(struct watching *watching);
/* Returns the milliseconds until watching_run has something to do, at most `most`. */
int watching_timeout_ms(const struct watching *watching, int most);
/* Returns the entry as JSON of schema memctx-live/1, without the contents of its moments. */
char *watching_write(const struct watching *watching, const struct watched *watched,
                     size_t *length);
/* Ends all pulses and snapshots, and frees all entries. */
void watching_end(struct watching *watching);

#endif
