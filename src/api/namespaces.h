/* SPDX-License-Identifier: MIT */
/*
 * Which calls need a process with one thread, or change one thread alone. Any thread, at any time;
 * no memory is read.
 */
#ifndef API_NAMESPACES_H
#define API_NAMESPACES_H

#include <stdbool.h>

/* setns: with `type` 0, the kernel takes a namespace of any type. If the descriptor is a pidfd,
 * `type` may hold several types. */
bool namespaces_enter_alone(int type);
/* unshare: the kernel wants one thread for a new user namespace, and for the flags that undo what
 * threads share. A new mount namespace may have several threads. */
bool namespaces_unshare_alone(int flags);

/* True for a call that changes the privileges of the calling thread alone: capset, and prctl with
 * PR_SET_SECUREBITS. `option`: the first argument of prctl. */
bool namespaces_change_thread(long number, unsigned long option);

#endif
