/* SPDX-License-Identifier: MIT */
/*
 * waiting.h - how a request gets its answer: at once, from the next scrape, or from a job.
 *
 * A request that gets no answer at once is suspended and waits in a list. The end of a scrape or of
 * a job resumes all requests that wait for it, and they send one answer. Only the server's thread
 * calls these functions.
 */
#ifndef MEMCTX_WAITING_H
#define MEMCTX_WAITING_H

#include "serve/answer.h"
#include "serve/job.h"
#include "serve/relay.h"
#include "serve/request.h"
#include "serve/server.h"

#define SCRAPE_MS 2000 /* a process that takes longer to answer a scrape is reported as down */

/* A request. While it is suspended, it is in the list server.waiting. */
struct waiting {
    struct MHD_Connection *http;
    struct connection *connection;
    struct job *job; /* NULL in a suspended request: it waits for the scrape */
    struct request_query query;
    bool head;             /* the method is HEAD: no body is sent */
    bool half_closed;      /* the client sends no more, but may read the answer */
    struct answer *answer; /* NULL: no answer has been made yet */
    struct waiting *next;
};

struct server {
    const struct server_options *options;
    struct MHD_Daemon *daemon;
    struct fleet fleet;
    struct watching watching;
    bool ending; /* new requests are refused */
    /* the last figures made for a live page: all clients of the page ask for the same figures */
    struct answer *data;
    char *data_key;
    struct request_rules rules;
    bool token_logged;
    bool scrapes;
    int64_t scrape_ms; /* when the running scrape began */
    struct job jobs[JOBS_MAX];
    /* relays[i] sends the output of jobs[i] as it comes; NULL: it is sent when the job is done */
    struct relay *relays[JOBS_MAX];
    struct waiting *waiting;
    struct connection *connections;
    size_t connection_count, connections_most; /* most: further clients are not accepted */
    bool again;       /* a connection has ended: a waiting client may be accepted */
    bool started;     /* the HTTP library runs; messages that it logs from now on are left out */
    char reason[256]; /* the first message that the HTTP library logged before it ran */
    int signals;
};

/* Sends the answer that the request has. */
enum MHD_Result waiting_send(struct waiting *request);
enum MHD_Result waiting_refuse(struct waiting *request, unsigned status, const char *why);
/* Lets go of a request's answer. */
void waiting_drop_answer(struct waiting *request);
/* Reads the address of a request, and answers the request or suspends it. */
enum MHD_Result waiting_begin(struct server *server, struct waiting *request, const char *url,
                              const char *version);
/* Resumes a suspended request, which then sends this answer. */
void waiting_resume(struct server *server, struct waiting *request, struct answer *answer);
/* Ends the scrape if all processes have answered or SCRAPE_MS have passed. */
void waiting_run_scrape(struct server *server);
/* Goes on with the jobs, and answers the requests that wait for those that are done. */
void waiting_run_jobs(struct server *server);
/* Ends all jobs, and the answers that are being sent. */
void waiting_drop_jobs(struct server *server);

#endif
