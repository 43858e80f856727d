/* SPDX-License-Identifier: MIT */
/* fork.h - what a forked child does first. */
#ifndef MEMCTX_FORK_H
#define MEMCTX_FORK_H

#include <sys/types.h>

/* Lets this process be killed when its parent ends. `parent`: the parent's pid, read before the
 * fork. If the parent has ended already, ends this process. */
void fork_follow(pid_t parent);
/* Closes every descriptor from `first` on. */
void fork_close_from(int first);

#endif
