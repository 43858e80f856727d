/* SPDX-License-Identifier: MIT */
/*
 * setuid, setgroups and their kin, which the program calls in place of libc's functions.
 *
 * libc changes the user and the groups of all threads that it knows. It does not know the control
 * thread (os/thread.h), so that thread makes the same system call, and has made it when the
 * program's function returns; if it cannot be woken, it makes the call within a second. The control
 * thread comes first, except in initgroups: a thread that has given up root may be unable to
 * connect to the control thread's socket. setfsuid and setfsgid are not here, because libc's
 * functions, too, change the calling thread alone. Of changes that a program makes without these
 * functions, only the loss of root is found later (sandbox_keeps_root).
 */
#include "base/base.h"
#include "control/control.h"
#include "os/os.h"
#include "os/syscall.h"
#include "path/rebind.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MEMCTX_UNIT
/* Exports the function `name`, which makes the system call `number` with `first`, `second` and
 * `third` in all threads. */
#define CHANGE(name, parameters, arguments, number, first, second, third)                          \
    EXPORT int name parameters {                                                                   \
        int(*next) parameters = (int(*) parameters)rebind_next(#name);                             \
        struct control_follow follow;                                                              \
        control_follow_begin(&follow, number, (long)(first), (long)(second), (long)(third));       \
        int result = next ? next arguments : (errno = ENOSYS, -1);                                 \
        control_follow_end(&follow, !result);                                                      \
        return result;                                                                             \
    }
#define AS_IT_IS (-1) /* to setresuid and setresgid: the id stays */

CHANGE(setuid, (uid_t user), (user), SYS_setuid, user, 0, 0)
CHANGE(seteuid, (uid_t user), (user), SYS_setresuid, AS_IT_IS, user, AS_IT_IS)
CHANGE(setreuid, (uid_t real, uid_t user), (real, user), SYS_setreuid, real, user, 0)
CHANGE(setresuid, (uid_t real, uid_t user, uid_t saved), (real, user, saved), SYS_setresuid, real,
       user, saved)
CHANGE(setgid, (gid_t group), (group), SYS_setgid, group, 0, 0)
CHANGE(setegid, (gid_t group), (group), SYS_setresgid, AS_IT_IS, group, AS_IT_IS)
CHANGE(setregid, (gid_t real, gid_t group), (real, group), SYS_setregid, real, group, 0)
CHANGE(setresgid, (gid_t real, gid_t group, gid_t saved), (real, group, saved), SYS_setresgid, real,
       group, saved)
CHANGE(setgroups, (size_t count, const gid_t *groups), (count, groups), SYS_setgroups, count,
       groups, 0)

#define GROUPS_BYTES align_up(NGROUPS_MAX * sizeof(gid_t), OS_PAGE_BYTES)

/* libc's initgroups finds the groups and sets them. Then this thread reads its own groups and
 * passes them to the control thread. */
EXPORT int initgroups(const char *user, gid_t group) {
    int (*next)(const char *, gid_t) = (int (*)(const char *, gid_t))rebind_next("initgroups");
    int result = next ? next(user, group) : (errno = ENOSYS, -1), saved = errno;
    gid_t *groups = result ? NULL : os_map(GROUPS_BYTES);
    int count = groups ? (int)os_syscall(SYS_getgroups, NGROUPS_MAX, (long)groups, 0, 0, 0, 0) : -1;
    if (count >= 0) {
        struct control_follow follow;
        control_follow_begin(&follow, SYS_setgroups, count, (long)groups, 0);
        control_follow_end(&follow, true);
    }
    if (groups)
        os_unmap(groups, GROUPS_BYTES);
    errno = saved;
    return result;
}
#endif
