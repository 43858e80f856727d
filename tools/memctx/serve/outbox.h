/* SPDX-License-Identifier: MIT */
/*
 * outbox.h - requests of `memctx push` that wait in memory for the server: which is sent again,
 * which is dropped, which messages the user gets.
 *
 * One request is under way at a time, in the order in which they came. After an error that may
 * pass (no answer, 429, 5xx) the first request is sent again after a pause. The pause doubles with
 * each failure up to a minute; half of it is random, so that many hosts do not come at once. A
 * process has a bounded number of requests here: its oldest one is dropped for a new one. Each
 * message is written to standard error once; events in JSON go to standard output. For one thread;
 * nothing here waits.
 */
#ifndef MEMCTX_OUTBOX_H
#define MEMCTX_OUTBOX_H

#include "serve/engine.h"

#define OUTBOX_TOLD_MAX 64

enum outbox_haste {
    OUTBOX_PATIENT, /* tries until a request is dropped */
    OUTBOX_LAST,    /* nothing new comes: four tries for a request */
    OUTBOX_NOW      /* each request is sent at once, until one fails */
};

/* The process or the metrics that a request or an event belongs to. */
struct outbox_source {
    const char *program; /* NULL: all processes of this machine */
    unsigned number;
};

struct outbox {
    const char *token; /* NULL: none */
    size_t room;       /* requests a source */
    bool json;         /* events go to standard output */
    bool broken;       /* standard output cannot be written */
    enum outbox_haste haste;
    size_t sent, retried, dropped, failed; /* so far */
    /* The fields below belong to outbox.c. */
    struct outbox_item *first;
    bool under_way; /* `first` is being sent */
    bool down;      /* the last try failed */
    unsigned failures;
    int64_t resume_ms;
    uint64_t told[OUTBOX_TOLD_MAX];
    size_t told_count;
};

/* Adds a request and takes its address and body over. */
void outbox_add(struct outbox *outbox, struct outbox_source source, struct engine_request request);
/* Counts a request that could not be made. */
void outbox_fail(struct outbox *outbox, struct outbox_source source, const char *text);
/* Drops the waiting requests, but not the request that is under way. */
void outbox_drop_waiting(struct outbox *outbox);
/* Takes the answer of the request that is under way, and starts the next one if it is time. */
void outbox_run(struct outbox *outbox, int64_t now_ms);
/* Returns how long outbox_run has nothing to start; -1: until something is added or an answer
 * comes. */
int64_t outbox_rest_ms(const struct outbox *outbox, int64_t now_ms);
/* Gives up everything that waits, and counts it as failed. */
void outbox_give_up(struct outbox *outbox, const char *why);
/* Writes the line with the sums. */
void outbox_tell_end(struct outbox *outbox);

#endif
