/* SPDX-License-Identifier: MIT */
/*
 * server.h - the HTTP server of `memctx serve`.
 *
 * One thread with one poll loop: the library libmicrohttpd speaks HTTP, tellers (fleet.h) and jobs
 * (job.h) are child processes that do all work which may take long. A request waits, suspended, for
 * the scrape or the job that it needs; requests for the same thing wait for the same one. So a
 * thousand requests at once cost as much as one.
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
    int64_t every_ms;              /* between two looks for live pages */
};

/* Serves until SIGINT, SIGTERM or SIGHUP. Returns the exit code. */
int server_run(const struct server_options *options);

#endif
