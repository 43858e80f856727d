/* SPDX-License-Identifier: MIT */
/* socket.c - makes the socket that clients connect to, and removes it; see socket.h. */
#include "control/socket.h"
#include "control/control.h"
#include "control/socket_path.h"
#include "control/socket_sweep.h"
#include "os/libc.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct socket_path path START_PAGE;
static uint32_t socket_pid FORK_PAGE; /* atomic: pid of the process that made the socket */
struct held socket_listener FORK_PAGE = {.fd = -1};
/* The process had no descriptor or no memory left, or the disk no room, when the thread wanted to
 * make the socket. Not in FORK_PAGE, which has no room left, so a child writes it only if it is
 * set. */
static bool is_postponed START_PAGE;
static struct { /* the root directory of the process when it made the socket */
    dev_t device;
    ino_t inode;
} root START_PAGE;

/* True when this process made the socket. Asks for the process id only if there is a socket: a
 * filter of system calls may forbid getpid. */
static bool is_of_this_process(void) {
    uint32_t pid = load_acquire(&socket_pid);
    return pid && pid == os_process_id();
}

/* Prints the message only for the thread's first try: later, standard error may be closed. */
static void fail(bool first, const char *what, const char *detail) {
    is_postponed = os_is_momentary(-errno) || errno == ENOSPC || errno == EDQUOT;
    if (first)
        control_complain(what, detail);
}

/* Makes a socket that listens at `path`. False: errno says why, and nothing is left. */
static bool listen_at_path(struct held *listener) {
    if (!descriptors_hold(listener, OS_TRY(os_socket())))
        return false;
    os_unlink(path.temporary.sun_path);
    if (!OS_TRY(os_bind(listener->fd, &path.temporary, sizeof path.temporary)) &&
        !OS_TRY(os_chmod(path.temporary.sun_path, 0600)) && !OS_TRY(os_listen(listener->fd, 16)) &&
        !OS_TRY(os_rename(path.temporary.sun_path, path.final.sun_path)))
        return true;
    int error = errno;
    os_unlink(path.temporary.sun_path);
    descriptors_let_go(listener);
    errno = error;
    return false;
}

bool socket_open(bool first) {
    struct stat status = {0};
    char reason[256] = "there is no directory for the socket";
    struct text why = {.bytes = reason, .capacity = sizeof reason - 1};
    struct held listener;
    errno = 0;
    for (int tries = 1;; tries++) {
        if (!socket_path_find(&path, os_process_id(), &why)) {
            reason[why.length ? why.length : text_length(reason)] = 0;
            fail(first, reason, "");
            return false;
        }
        if (listen_at_path(&listener))
            break;
        /* ENOENT: another process that ended has just removed the directory (socket_path_leave). */
        if (errno != ENOENT || tries == DIRECTORY_TRIES) {
            fail(first, "cannot create the socket at ", path.final.sun_path);
            return false;
        }
    }
    is_postponed = false;
    descriptors_let_go(&socket_listener);
    socket_listener = listener;
    (void)OS_TRY(os_stat("/", &status));
    root.device = status.st_dev;
    root.inode = status.st_ino;
    store_release(&socket_pid, os_process_id());
    socket_sweep(&path.final);
    return true;
}

/* False after the process has changed its root directory (chroot): the path then names another
 * place, and the socket may still exist at the old place. */
static bool is_lost(void) {
    struct stat status;
    return is_of_this_process() && descriptors_is_held(&socket_listener) &&
           OS_TRY(os_lstat(path.final.sun_path, &status)) && errno == ENOENT &&
           !OS_TRY(os_stat("/", &status)) && status.st_dev == root.device &&
           status.st_ino == root.inode;
}

bool socket_is_missing(void) {
    return is_postponed || is_lost();
}

COLD void socket_remove(void) {
    if (!is_of_this_process())
        return;
    os_unlink(path.final.sun_path);
    socket_path_leave(&path);
    store_release(&socket_pid, 0);
}

bool socket_wake(void) {
    if (!is_of_this_process())
        return false;
    int fd = OS_TRY(os_socket());
    if (fd < 0)
        return false;
    bool connected = !os_connect(fd, &path.final, sizeof path.final);
    os_close(fd);
    return connected;
}

void socket_forget(void) {
    socket_listener.fd = -1;
    store_owner(&socket_pid, 0);
    if (UNLIKELY(is_postponed))
        is_postponed = false;
}
