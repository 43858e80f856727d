/* SPDX-License-Identifier: MIT */
/* socket.h - the listening socket of this process. The control thread makes the socket, and removes
 * it when the thread ends; an exiting process removes it, too. A forked child makes a socket of its
 * own. */
#ifndef MEMCTX_CONTROL_SOCKET_H
#define MEMCTX_CONTROL_SOCKET_H

#include "control/descriptors.h"

INTERNAL struct held socket_listener; /* fd -1: there is none. Only the control thread uses it */

/* Makes the socket at a temporary path with mode 0600, and renames it, so that nobody connects
 * before it listens. Closes the socket that the process had before, if any. False: no new socket
 * was made; an older one stays. `first`: with MEMCTX_VERBOSE, a message then says why. */
bool socket_open(bool first);
/* True when socket_open failed because the process had no descriptor or no memory left at that
 * moment, or when this process made the socket and somebody has removed the socket's path. False if
 * the process has changed its root directory since then. */
bool socket_is_missing(void);
/* Removes the socket's path if this process made it. */
void socket_remove(void);
/* Connects to the socket, which wakes the control thread from poll. False: the connection failed,
 * and the thread wakes by itself within a second. */
bool socket_wake(void);
/* Forgets the socket in a forked child, without removing it: the socket is the parent's. */
void socket_forget(void);

#endif
