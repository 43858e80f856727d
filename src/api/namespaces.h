/* SPDX-License-Identifier: MIT */
/*
 * namespaces.h - tells which system calls need a process with one thread, and which change the
 * calling thread alone. Any thread, at any time; no memory is read.
 */
#ifndef API_NAMESPACES_H
#define API_NAMESPACES_H

#include <stdbool.h>

/* True for a call of setns that may need a process with one thread. With `type` 0, the kernel takes
 * a namespace of any type. If the descriptor is a pidfd, `type` may hold several types. */
bool namespaces_enter_alone(int type);
/* True for a call of unshare that the kernel refuses to a process with several threads: it asks for
 * a new user namespace, or has CLONE_THREAD, CLONE_SIGHAND or CLONE_VM, which end the sharing of
 * signal handlers or memory between threads. Also true for a new mount namespace, which the kernel
 * does not refuse, but gives to the calling thread alone. */
bool namespaces_unshare_alone(int flags);

/* True for a call that changes the privileges of the calling thread alone: capset, and prctl with
 * PR_SET_SECUREBITS. `option`: the first argument of prctl. */
bool namespaces_change_thread(long number, unsigned long option);

#endif
