/* SPDX-License-Identifier: MIT */
/*
 * socket_path.h - chooses the path of the socket and checks that its directory is safe.
 *
 * Threads: the control thread; socket_path_leave also in a thread that ends the process.
 */
#ifndef MEMCTX_CONTROL_SOCKET_PATH_H
#define MEMCTX_CONTROL_SOCKET_PATH_H

#include "base/text.h"
#include <sys/un.h>

/* greatest number of tries to use a directory that other processes remove (socket_path_leave) */
#define DIRECTORY_TRIES 8

struct socket_path {
    struct sockaddr_un final, temporary; /* bound as `temporary`, then renamed to `final` */
    /* The directory is $XDG_RUNTIME_DIR/memctx. */
    bool below_runtime_directory;
};

/* Saves $XDG_RUNTIME_DIR. Called by the constructor, because the program may rewrite its
 * environment later. */
void socket_path_init(void);

/* Finds or makes the directory DIR (mode 0700, owned by this user, not a link; with the sticky bit
 * if the library made it) and sets the paths to DIR/PID.sock. False: no directory is fit; `why`
 * gives the reason for the last one tried. */
bool socket_path_find(struct socket_path *found, uint32_t pid, struct text *why);
/* Returns the length of the path of the socket's directory, with the final '/'. */
size_t socket_path_directory_length(const struct sockaddr_un *address);
/* Removes the directory of a removed socket if it is $XDG_RUNTIME_DIR/memctx, is empty, and was
 * made by the library, in this process or in another one. A program may remove its runtime
 * directory when it ends, and expect that only its own files stand in it. (dbus-daemon's tests fail
 * otherwise.) */
void socket_path_leave(const struct socket_path *path);

#endif
