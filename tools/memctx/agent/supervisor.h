/* SPDX-License-Identifier: MIT */
/*
 * supervisor.h - runs the parts of `memctx agent` as child processes.
 *
 * A part that ends is started again after a second. The pause doubles each time, up to a minute,
 * until the part has run for a minute. After SIGHUP the agent reads the file again and, if the file
 * has no mistake, starts all parts anew; else the old parts go on. After SIGTERM or SIGINT the
 * agent ends all parts: with SIGTERM, after 10 seconds with SIGKILL. A part ends with the agent,
 * however the agent ends. For one thread, which waits only in poll.
 */
#ifndef MEMCTX_SUPERVISOR_H
#define MEMCTX_SUPERVISOR_H

#include "agent/config.h"

/* Runs the parts until SIGTERM or SIGINT. Returns the exit code. Takes the config over. */
int supervisor_run(struct config *config, const char *path, bool json);
/* Runs each part's verb with --check. Returns false and fills in the failure, whose text begins
 * with FILE:LINE, for the first part whose check fails. */
bool supervisor_check(const struct config *config, const char *path, struct cli_failure *failure);

#endif
