/* SPDX-License-Identifier: MIT */
/*
 * request.h - what a request asks for: checks method, rights and query, and finds the process.
 *
 * Only GET and HEAD exist, and no address changes anything.
 */
#ifndef MEMCTX_REQUEST_H
#define MEMCTX_REQUEST_H

#include "serve/exposition.h"
#include "serve/fleet.h"
#include "serve/mhd.h"
#include "serve/watched.h"

#define REQUEST_SECONDS_MAX 60
#define REQUEST_SAMPLES_MAX 1000000

enum request_kind {
    REQUEST_METRICS,
    REQUEST_HEAP,
    REQUEST_ALLOCS,
    REQUEST_DOCTOR,
    REQUEST_PAGE,
    REQUEST_PROCESSES,
    /* addresses of live pages, /p/WORD/... */
    REQUEST_SHELL,
    REQUEST_HISTORY,
    REQUEST_DATA,
    REQUEST_EVENTS
};

struct request_query {
    enum request_kind kind;
    enum exposition_format format;
    /* the process that HEAP, ALLOCS, DOCTOR or a live page is about */
    struct fleet_process *process;
    /* the figures and moments that a live page shows; NULL for the page's HTML */
    struct watched *watched;
    unsigned seconds, limit_samples; /* 0: not given */
    unsigned moment, before;         /* ids of kept moments; 0: not given */
    bool gzip;                       /* the client takes this encoding */
};

/* An answer that is no success. */
struct request_refusal {
    unsigned status;
    char text[1024];
};

/* The conditions that each request has to meet. */
struct request_rules {
    const char *token;  /* NULL: none is needed */
    bool local_host;    /* the Host header must name this machine or an address */
    bool *token_logged; /* true: the message about a wrong token was printed */
};

/* Returns false with a refusal if the client may not ask. */
bool request_permit(struct MHD_Connection *connection, const struct request_rules *rules,
                    struct request_refusal *refusal);
/* Returns true if the client takes answers in gzip's format. */
bool request_takes_gzip(struct MHD_Connection *connection);
/* Returns true if a request without a token may have the HTML of a live page, which has no figures
 * and asks for the token: a browser sends none when it opens an address. */
bool request_wants_shell(struct MHD_Connection *connection, const char *url);
/* Reads address and query. Looks for new processes, if the query is about one; a process that a
 * live page asks about is watched from now on. */
bool request_read(struct request_query *query, struct MHD_Connection *connection, const char *url,
                  struct fleet *fleet, struct watching *watching, struct request_refusal *refusal);

#endif
