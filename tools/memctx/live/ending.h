/* SPDX-License-Identifier: MIT */
/*
 * ending.h - says how a process ended: exit status or signal, if the kernel tells them to a process
 * that is not the parent.
 *
 * Linux 6.15 and later tell the exit status of an ended process through an open pidfd. On older
 * kernels the status can be read only while the process is a zombie.
 */
#ifndef MEMCTX_ENDING_H
#define MEMCTX_ENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "target/process.h"

/* Returns a pidfd of the process, which the caller closes; -1: pidfd_open failed. */
int ending_watch(pid_t pid);
/* Returns true if the process has ended, and writes how to `text`: "pid 12 (PROGRAM) has exited
 * with status 3". `pidfd` is the result of ending_watch. */
bool ending_tell(const struct process_facts *facts, const char *program, int pidfd, char *text,
                 size_t bytes);

#endif
