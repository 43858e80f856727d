/* SPDX-License-Identifier: MIT */
/*
 * setns, unshare and capset, which the program calls in place of libc's functions, and the system
 * calls of other functions that change the privileges of one thread.
 *
 * The kernel lets only a process with one thread enter another user, mount or time namespace.
 * capset, the securebits of prctl, and setresuid and the like by libc's syscall (sandbox.c), change
 * the privileges of the calling thread alone. A later setuid or setgroups, which glibc makes in all
 * threads, then succeeds in one thread and fails in another, and glibc aborts the process. So the
 * control thread ends before such a call. Afterwards it starts again when it is due, with the
 * privileges of the thread that starts it.
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
    return (flags & (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) != 0;
}

/* Some servers, such as smbd, change the user of a thread for each request, and never by the
 * functions that change all threads. After so many changes the control thread stays. */
#define USER_CHANGES_MAX 8U
static uint32_t user_changes; /* atomic */

bool namespaces_change_thread(long number, unsigned long option) {
    switch (number) {
    case SYS_capset: return true;
    case SYS_prctl: return option == PR_SET_SECUREBITS;
    case SYS_setuid:
    case SYS_setgid:
    case SYS_setreuid:
    case SYS_setregid:
    case SYS_setresuid:
    case SYS_setresgid:
    case SYS_setgroups:
    case SYS_setfsuid:
    case SYS_setfsgid:
        return load_relaxed(&user_changes) < USER_CHANGES_MAX &&
               add_relaxed(&user_changes, 1) < USER_CHANGES_MAX;
    default: return false;
    }
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
