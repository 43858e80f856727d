/* SPDX-License-Identifier: MIT */
/*
 * push.h - sends profiles or metrics of processes to a server at intervals, for hosts that a server
 * cannot reach. One thread, which waits in one poll; outbox.h says which requests are sent again.
 */
#ifndef MEMCTX_PUSH_H
#define MEMCTX_PUSH_H

#include "serve/engine.h"
#include "serve/fleet.h"
#include "serve/post.h"

struct push_options {
    struct fleet_wanted wanted;
    struct engine_server server;
    const char *token; /* NULL: none */
    struct post_tls tls;
    int64_t every_ms;
    int64_t limit_samples;
    bool once, json;
};

/* Sends one round if `once`, else until SIGINT, SIGTERM or SIGHUP, or until all processes that were
 * named by pid have ended. Returns the exit code. */
int push_run(const struct push_options *options);

#endif
