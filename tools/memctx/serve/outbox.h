/* SPDX-License-Identifier: MIT */
/*
 * outbox.h - the requests of `memctx push` that wait in memory for the server. This module decides
 * which requests are sent again or dropped, and which messages the user gets.
 *
 * Requests are sent one at a time, in the order in which they were added. After an error that may
 * pass (no answer, 429, 5xx) the first request is sent again after a pause. The pause doubles with
 * each failure up to a minute; a random part of it, at most half, is taken off, so that many hosts
 * do not try at the same moment. A process has a bounded number of requests; if there are more, its
 * oldest one is dropped. All requests together have at most 64 MiB; if there are more, the oldest
 * one of any process is dropped. A message that repeats is written to standard error once an hour;
 * events in JSON go to standard output. For one thread; no function of this header waits.
 */
#ifndef MEMCTX_OUTBOX_H
#define MEMCTX_OUTBOX_H

#include "serve/engine.h"
#include "serve/post.h"

#define OUTBOX_TOLD_MAX 64

enum outbox_haste {
    OUTBOX_PATIENT, /* the first request is sent again until a newer one pushes it out */
    OUTBOX_LAST, /* no new requests are added; after four tries of one request all are given up */
    OUTBOX_NOW   /* each request is sent at once; at the first failure all are given up */
};

/* The process or the metrics that a request or an event belongs to. */
struct outbox_source {
    const char *program; /* NULL: all processes of this machine */
    unsigned number;
};

struct outbox {
    const char *token; /* NULL: none */
    struct post_tls tls;
    size_t room;     /* greatest number of requests of one source */
    int64_t keep_ms; /* older requests are dropped: their process may have ended long ago */
    bool json;       /* events go to standard output */
    enum outbox_haste haste;
    size_t sent, retried, dropped, failed; /* numbers of requests so far */
    /* The fields below belong to outbox.c. */
    struct outbox_item *first;
    bool under_way; /* `first` is being sent */
    bool down;      /* the last try failed */
    unsigned failures;
    int64_t resume_ms;
    uint64_t told[OUTBOX_TOLD_MAX];
    size_t told_count;
    int64_t told_since_ms; /* when `told` was emptied last */
};

/* Adds a request. The outbox frees its URL and body. */
void outbox_add(struct outbox *outbox, struct outbox_source source, struct engine_request request);
/* Counts a request that could not be made. */
void outbox_fail(struct outbox *outbox, struct outbox_source source, const char *text);
/* Drops the waiting requests, but not the request that is under way. */
void outbox_drop_waiting(struct outbox *outbox);
/* Takes the answer to the request that is under way. Sends the next request, unless the pause after
 * a failure is not over yet. */
void outbox_run(struct outbox *outbox, int64_t now_ms);
/* Returns the milliseconds until outbox_run has a request to send; -1: it has none until a request
 * is added or an answer comes. */
int64_t outbox_rest_ms(const struct outbox *outbox, int64_t now_ms);
/* Gives up all requests, also the one that is being sent, and counts them as failed. `why`: the
 * reason, for messages. */
void outbox_give_up(struct outbox *outbox, const char *why);
/* Writes the last line, with the numbers of requests sent, retried, dropped and failed. */
void outbox_tell_end(const struct outbox *outbox);

#endif
