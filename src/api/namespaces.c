/* SPDX-License-Identifier: MIT */
/*
 * setns, unshare and capset, which the program calls in place of libc's functions.
 *
 * The kernel lets only a process with one thread enter another user, mount or time namespace. A new
 * mount namespace is for the calling thread alone, and the control thread would keep the old one
 * and its working directory there in use, so that an unmount fails.
 * capset, and the securebits of prctl (sandbox.c), change the privileges of the calling thread
 * alone, and the control thread would keep those that the program gives up. So the control thread
 * ends before such a call. Afterwards it starts again when it is due, with the privileges of the
 * thread that starts it.
 */
#include "api/namespaces.h"

#include "control/control.h"
#include "path/rebind.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/syscall.h>

#ifndef MEMCTX_UNIT
#ifndef CLONE_NEWTIME /* glibc is older than 2.32 */
#define CLONE_NEWTIME 0x80
#endif

bool namespaces_enter_alone(int type) {
    return type == 0 || (type & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWTIME)) != 0;
}

bool namespaces_unshare_alone(int flags) {
    return (flags & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) != 0;
}

bool namespaces_change_thread(long number, unsigned long option) {
    return number == SYS_capset || (number == SYS_prctl && option == PR_SET_SECUREBITS);
}

static int call_alone(bool alone, const char *name, int first, int second) {
    int (*next)(int, int) = (int (*)(int, int))rebind_next(name);
    bool paused = alone && control_pause();
    int result = next ? next(first, second) : (errno = ENOSYS, -1);
    if (paused)
        control_resume();
    return result;
}

EXPORT int setns(int fd, int type) {
    return call_alone(namespaces_enter_alone(type), "setns", fd, type);
}

EXPORT int unshare(int flags) {
    return call_alone(namespaces_unshare_alone(flags), "unshare", flags, 0);
}

/* No header of libc declares capset. */
EXPORT int capset(void *header, const void *data);
EXPORT int capset(void *header, const void *data) {
    int (*next)(void *, const void *) = (int (*)(void *, const void *))rebind_next("capset");
    bool paused = control_pause();
    int result = next ? next(header, data) : (errno = ENOSYS, -1);
    if (paused)
        control_resume();
    return result;
}
#endif
