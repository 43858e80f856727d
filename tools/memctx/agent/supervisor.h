/* SPDX-License-Identifier: MIT */
/*
 * supervisor.h - runs the parts of `memctx agent` as child processes.
 *
 * A part that ends is started again after a second. The pause doubles each time, up to a minute;
 * after a run of a minute it is a second again. After SIGHUP the agent reads the file again. If the
 * file has no mistake, all parts are ended and started anew; otherwise they go on. After SIGTERM or
 * SIGINT the agent sends SIGTERM to all parts, and after 10 seconds SIGKILL. If the agent ends in
 * any other way, the kernel sends SIGTERM to the parts. Not thread-safe; the agent waits only in
 * poll.
 */
#ifndef MEMCTX_SUPERVISOR_H
#define MEMCTX_SUPERVISOR_H

#include "agent/config.h"

/* Runs the parts until SIGTERM or SIGINT. Takes the config over. `json`: writes events as JSON.
 * Returns the exit code of the command. */
int supervisor_run(struct config *config, const char *path, bool json);
/* Runs each part's verb with --check. If a check fails, returns false and fills in the failure of
 * the first such part; its text begins with FILE:LINE. */
bool supervisor_check(const struct config *config, const char *path, struct cli_failure *failure);

#endif
