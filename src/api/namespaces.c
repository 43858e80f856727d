/* SPDX-License-Identifier: MIT */
/*
 * setns and unshare, which the program calls in place of libc's functions.
 *
 * The kernel lets only a process with one thread enter another user, mount or time namespace. So
 * the control thread ends before such a call. Afterwards it starts again when it is due.
 */
#include "control/control.h"
#include "path/rebind.h"

#include <errno.h>
#include <sched.h>

#ifndef MEMCTX_UNIT
#ifndef CLONE_NEWTIME /* glibc is older than 2.32 */
#define CLONE_NEWTIME 0x80
#endif

static int call_alone(bool alone, const char *name, int first, int second) {
    int (*next)(int, int) = (int (*)(int, int))rebind_next(name);
    bool paused = alone && control_pause();
    int result = next ? next(first, second) : (errno = ENOSYS, -1);
    if (paused)
        control_resume();
    return result;
}

/* With `type` 0, the kernel takes a namespace of any type. If `fd` is a pidfd, `type` may hold
 * several types. */
EXPORT int setns(int fd, int type) {
    bool alone = type == 0 || (type & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWTIME)) != 0;
    return call_alone(alone, "setns", fd, type);
}

/* The kernel wants one thread for a new user namespace, and for the flags that undo what threads
 * share. A new mount namespace may have several threads. */
EXPORT int unshare(int flags) {
    bool alone = (flags & (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) != 0;
    return call_alone(alone, "unshare", flags, 0);
}
#endif
