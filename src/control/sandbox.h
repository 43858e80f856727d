/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - whether the kernel may end the process for what a control thread asks of it.
 *
 * Filters of system calls (seccomp) that the process installs itself are seen coming: src/api/sandbox.c
 * stands in front of libc's prctl and syscall. Filters that were there before the program was started
 * are found in /proc/self/status, which can be read under any filter under which the dynamic loader
 * could load this library: it opens, reads and closes files itself.
 */
#ifndef MEMCTX_SANDBOX_H
#define MEMCTX_SANDBOX_H

#include "base/text.h"

/* True: a thread may be made, and a socket. False: `why` says what forbids it. Under control.lock, or before the
 * program's main. room: for a file of /proc, which lists all groups of the user. */
bool sandbox_lets_thread(char *room, size_t bytes, struct text *why);

#endif
