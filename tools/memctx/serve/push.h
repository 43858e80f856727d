/* SPDX-License-Identifier: MIT */
/*
 * push.h - sends profiles or metrics of processes to a server at intervals, for hosts that a
 * server cannot reach.
 *
 * What could not be sent is not kept: the next round has newer figures. After a failure the pauses
 * become longer.
 */
#ifndef MEMCTX_PUSH_H
#define MEMCTX_PUSH_H

#include "serve/fleet.h"

enum push_format { PUSH_PYROSCOPE, PUSH_PUSHGATEWAY };

struct push_options {
    struct fleet_wanted wanted;
    enum push_format format;
    const char *url;   /* without a slash at its end */
    const char *token; /* NULL: none */
    int64_t every_s;
    int64_t limit_samples;
    bool once;
};

/* Sends until SIGINT or SIGTERM, or once. Returns the exit code. */
int push_run(const struct push_options *options);

#endif
