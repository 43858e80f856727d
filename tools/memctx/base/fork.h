/* SPDX-License-Identifier: MIT */
/* fork.h - what a forked child does first, and the limit of descriptors that it inherits. */
#ifndef MEMCTX_FORK_H
#define MEMCTX_FORK_H

#include <stdio.h>
#include <sys/types.h>

/* Lets this process be killed when its parent ends. `parent`: the parent's pid, read before the
 * fork. If the parent has ended already, ends this process. */
void fork_follow(pid_t parent);
/* Lets the kernel end this process when it has used `cpu_s` more seconds of processor time. */
void fork_bound_time(unsigned cpu_s);
/* For a child that reads files, which may be damaged: calls fork_follow, lets the kernel end the
 * child after `cpu_s` seconds of processor time, and forbids a core file. Returns a stream that
 * writes to `fd`; if there is no memory for one, ends this process. */
FILE *fork_bounded(pid_t parent, unsigned cpu_s, int fd);
/* Closes every descriptor from `first` on. */
void fork_close_from(int first);
/* Lets this process open as many descriptors as the hard limit allows, for a command that looks at
 * many processes. */
void fork_raise_limit(void);
/* Undoes fork_raise_limit, in a child that is to execute a command of the user: some programs
 * cannot use descriptors above 1023. */
void fork_restore_limit(void);

#endif
