/* SPDX-License-Identifier: MIT */
/*
 * server.h - the HTTP server of `memctx serve`.
 *
 * One thread runs one poll loop, in which the library libmicrohttpd speaks HTTP. Work that may take
 * long is done by child processes: tellers (fleet.h) and jobs (job.h). A request is suspended until
 * the scrape or the job that it needs has ended. Requests for the same data share one scrape or
 * job, so a thousand of them cost as much as one.
 */
#ifndef MEMCTX_SERVER_H
#define MEMCTX_SERVER_H

#include "serve/address.h"
#include "serve/fleet.h"

struct server_options {
    struct address address;
    struct fleet_wanted wanted;
    const char *token;             /* NULL: none */
    const char *certificate, *key; /* PEM; NULL: no TLS */
    int64_t every_ms;              /* time between two looks at a process that a live page shows */
};

/* Ends the command with a message if TLS cannot use the certificate and the key. */
void server_check(const struct server_options *options);

/* Serves until SIGINT, SIGTERM or SIGHUP. Returns the exit code. */
int server_run(const struct server_options *options);

#endif
