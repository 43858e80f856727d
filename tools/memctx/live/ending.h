/* SPDX-License-Identifier: MIT */
/*
 * ending.h - says how a process ended, as far as the kernel tells a process that is not its parent.
 *
 * Linux 6.15 and later tell the exit status of a process whose pidfd is open. Before that the
 * status can be read while the process waits for its parent to collect it, and not afterwards.
 */
#ifndef MEMCTX_ENDING_H
#define MEMCTX_ENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "target/process.h"

/* Returns a pidfd of the process, which the caller closes; -1: the kernel has none. */
int ending_watch(pid_t pid);
/* Returns true if the process of these facts has ended, and writes how: "pid 12 (prog) has exited
 * with status 3". `program` is the name that the text gives the process. `pidfd` is that of
 * ending_watch. */
bool ending_tell(const struct process_facts *facts, const char *program, int pidfd, char *text,
                 size_t bytes);

#endif
