/* SPDX-License-Identifier: MIT */
/*
 * sockets.h - where the control sockets of processes are.
 *
 * The library makes a socket PID.sock in the first directory that it may write to: memctx in
 * XDG_RUNTIME_DIR or in /run/user/UID, else /tmp/memctx-UID. A process may have changed its user or
 * its root directory since then, so several directories are searched.
 */
#ifndef MEMCTX_SOCKETS_H
#define MEMCTX_SOCKETS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "target/process.h"

#define SOCKET_DIRECTORIES_MAX 28

struct socket_directories {
    char paths[SOCKET_DIRECTORIES_MAX][512];
    size_t count;
    /* the first `own_count` paths are those that the process's own library would choose */
    size_t own_count;
};

/* Lists the directories in which the socket of this process may be, most likely first. */
void sockets_list_directories(const struct process_facts *facts,
                              struct socket_directories *directories);
/* Lists the directories in which sockets of this user may be (root: of all users). */
void sockets_list_all_directories(struct socket_directories *directories);

/* Opens a socket directory. It must belong to root, to this user or to the target's user, and no
 * other user may write to it. Returns -1 if there is no such directory. */
int sockets_open_directory(const char *path, const struct process_facts *facts);
/* Connects to the socket `name` in an open directory, however long the directory's path is. Returns
 * the descriptor or -errno. If the process is in another user namespace, root appears as the user
 * of the process. SOCKETS_NEED_SETUID: root lacks the capability SETUID for that. */
#define SOCKETS_NEED_SETUID INT_MIN
int sockets_connect_as(const struct process_facts *facts, int directory, const char *name,
                       int patience_ms);
/* Returns true if a socket with the name of this process is there, whoever listens at it. */
bool sockets_has_one(const struct process_facts *facts);
/* Writes why the library could make no directory for the socket where the process runs: the
 * directories in which it makes one are read-only, or not there. Returns false if there may be one.
 */
bool sockets_explain_no_place(const struct process_facts *facts, char *reason, size_t bytes);
/* Returns true if nobody listens at this socket any more (connection refused). */
bool sockets_is_stale(const char *directory, const char *name);

#endif
