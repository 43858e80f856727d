/* SPDX-License-Identifier: MIT */
/*
 * control.h - the control thread: serves a socket on which the command asks for dumps, marks,
 * resets.
 *
 * The thread is one pthread named `memctx`. Its attributes block all signals, its stack is small,
 * and it has its own descriptor table (it unshares the table and closes everything in it), so the
 * program's descriptor numbers do not change. It never calls malloc and stops no other thread. It
 * starts at once in the program that `memctx run` started, or with MEMCTX_CONTROL=eager. Elsewhere
 * it starts with the first slow allocation after 20 ms of life and 20 ms after the last fork (after
 * 1 s of life at the latest), or with a second thread, if the call comes from outside libc and the
 * loader. A forked child starts its own thread in the same way; launchers (api/init.c) have none.
 * The thread reports what it cannot get only with MEMCTX_VERBOSE.
 *
 * A process whose system calls are filtered (seccomp) has no control thread. The thread ends before
 * the process restricts itself (api/sandbox.c). It does not start where a filter was installed
 * before the program started, except in containers (sandbox.h) and with MEMCTX_CONTROL=always.
 */
#ifndef MEMCTX_CONTROL_H
#define MEMCTX_CONTROL_H

#include "os/os.h"
#include <memctx/wire.h>

INTERNAL uint32_t control_waiting; /* atomic: the thread has still to start, once control_is_due */

/* True when the time to start the thread has come. The caller checks that it does not run inside
 * libc (context_outside_libc). */
bool control_is_due(void);
/* Starts the thread, once. Called by a slow allocation, but from outside the allocator. */
void control_start(void);

/* The program's first thread is ending by itself (pthread_exit). When the last other thread has
 * ended, the control thread must not keep the process alive, and the exit handlers run in the
 * control thread. So the control thread starts anew, now with the program's descriptors. */
void control_first_thread_ended(void);
void control_init(bool at_once);
/* The process is about to restrict itself: ends the thread, removes its socket, and lets no thread
 * start again, here or in forked children. False: nothing changed; also returned in a vfork child,
 * which is another process. *before (enum os_restriction) is the argument for control_unrestrict,
 * which the caller calls when the kernel refuses the restriction. */
bool control_restrict(bool strictly, uint32_t *before);
void control_unrestrict(uint32_t before);
/* Removes the socket if this process made it; prints the statistics with MEMCTX_VERBOSE=2. */
void control_exit(void);
void control_fork_prepare(void);
void control_fork_done(bool child);

/* --- within the layer ------------------------------------------------------------------------ */

uint64_t control_uptime_ns(void);
/* With MEMCTX_VERBOSE: prints that there is no control socket, and why. */
void control_complain(const char *what, const char *detail);
/* True when the control thread has to end: it was asked to, or is the last thread. */
bool control_must_end(void);
/* True when the first thread of the program has ended, so that the control thread may become the
 * last one. */
bool control_may_be_last(void);

#endif
