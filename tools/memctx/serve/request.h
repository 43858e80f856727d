/* SPDX-License-Identifier: MIT */
/*
 * request.h - reads a request: checks the client's rights, the address and the query, and finds the
 * process.
 *
 * Only GET and HEAD are allowed; no request changes a process or a setting of the server.
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
    /* the process, for HEAP, ALLOCS, DOCTOR, HISTORY, DATA and EVENTS; NULL if it is not served any
     * more, and only its kept figures are asked for */
    struct fleet_process *process;
    /* the figures and moments that a live page shows; NULL for the page's HTML */
    struct watched *watched;
    unsigned seconds, limit_samples; /* 0: the query has none */
    unsigned moment, before;         /* ids of kept moments; 0: the query has none */
    bool gzip;                       /* the client accepts Content-Encoding gzip */
};

/* An answer that refuses a request. */
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

/* Returns the path of a request's address, which is "/PATH", or "http://HOST/PATH" from clients
 * that were written for proxies; HTTP demands that a server takes both. */
const char *request_path(const char *url);
/* Fills in `refusal` and returns false if the client has no right to ask. `url`: the address as the
 * client sent it. `version`: the version of HTTP, such as "HTTP/1.1". */
bool request_permit(struct MHD_Connection *connection, const char *url, const char *version,
                    const struct request_rules *rules, struct request_refusal *refusal);
/* Returns true if the client accepts answers in gzip's format. */
bool request_takes_gzip(struct MHD_Connection *connection);
/* Returns true if a browser opens / or a live page (Accept has text/html). Without a token the
 * browser then gets the HTML of a live page, because a browser sends no token when it opens an
 * address. This HTML has no figures and asks the user for the token. */
bool request_wants_shell(struct MHD_Connection *connection, const char *url);
/* Reads address and query. If they name a process, first looks for new processes. For the figures,
 * moments and events of a live page (not for its HTML), begins to watch the process. */
bool request_read(struct request_query *query, struct MHD_Connection *connection, const char *url,
                  struct fleet *fleet, struct watching *watching, struct request_refusal *refusal);

#endif
