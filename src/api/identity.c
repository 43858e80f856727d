/* SPDX-License-Identifier: MIT */
/*
 * Changes of user and group: the control thread steps aside for each of them.
 *
 * glibc changes every thread that it knows of, and aborts the program when one of them fails where
 * another does not. A program of one thread may change more after it gave up its user, with the
 * capabilities that it kept in that thread (setpriv does); ours does not have them. So it ends before
 * the change and is started anew, with what the program's thread then is. Source: nptl(7), "UID/GID
 * synchronization"; capabilities(7).
 */
#ifndef MEMCTX_UNIT
#include "base/base.h"
#include "control/control.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <unistd.h>

#define CHANGE(name, parameters, ...)                                                              \
    EXPORT int name parameters {                                                                   \
        int(*change) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name);                      \
        if (!change) {                                                                             \
            errno = ENOSYS;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
        bool paused = control_pause();                                                             \
        int result = change(__VA_ARGS__);                                                          \
        if (paused)                                                                                \
            control_resume();                                                                      \
        return result;                                                                             \
    }

CHANGE(setuid, (uid_t uid), uid)
CHANGE(setgid, (gid_t gid), gid)
CHANGE(seteuid, (uid_t uid), uid)
CHANGE(setegid, (gid_t gid), gid)
CHANGE(setreuid, (uid_t real, uid_t effective), real, effective)
CHANGE(setregid, (gid_t real, gid_t effective), real, effective)
CHANGE(setresuid, (uid_t real, uid_t effective, uid_t saved), real, effective, saved)
CHANGE(setresgid, (gid_t real, gid_t effective, gid_t saved), real, effective, saved)
CHANGE(setgroups, (size_t count, const gid_t *groups), count, groups)
CHANGE(initgroups, (const char *user, gid_t group), user, group)
#endif
