/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - tells whether the kernel may kill the process for system calls of a control thread.
 *
 * The library notices filters of system calls (seccomp) that the process installs itself:
 * src/api/sandbox.c intercepts libc's prctl and syscall. Filters that were installed before the
 * program started are found in /proc/self/status. That file can be read wherever the dynamic loader
 * could load this library, because the loader opens, reads and closes files by the same calls.
 */
#ifndef MEMCTX_SANDBOX_H
#define MEMCTX_SANDBOX_H

#include "base/text.h"

enum sandbox {
    SANDBOX_FORBIDS,   /* a filter forbids the thread, or it is not known whether one does */
    SANDBOX_LETS,      /* the process may make a thread and a socket */
    SANDBOX_ASK_LATER, /* the process has no descriptor or no memory left at this moment */
};
/* If the result is SANDBOX_FORBIDS, `why` names the obstacle. Any thread; a signal handler may
 * interrupt the call, make this call itself, and leave by a jump. */
enum sandbox sandbox_examine(struct text *why);

/* For the control thread: true if it is root or may become root, and the program's first thread is
 * not and cannot. The library sees only changes of the user by functions of libc that the program
 * calls by name (api/users.c). False also where the process sees no /proc. */
bool sandbox_keeps_root(void);
/* For the control thread: gives up the capabilities that it has and the program's first thread has
 * not. A program may give up capabilities by a system call instruction of its own, which changes
 * the calling thread alone. Does nothing where the process sees no /proc. */
void sandbox_drop_capabilities(void);

#endif
