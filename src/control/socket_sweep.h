/* SPDX-License-Identifier: MIT */
/* socket_sweep.h - removes sockets of processes that have ended without removing them. A process
 * that a signal kills, or that ends by _exit, leaves its socket. A server with such workers would
 * fill the directory with files. */
#ifndef MEMCTX_CONTROL_SOCKET_SWEEP_H
#define MEMCTX_CONTROL_SOCKET_SWEEP_H

#include "base/base.h"
#include <sys/un.h>

/* Looks at some entries of the directory of the process's own socket, and removes the sockets of at
 * most eight processes that have ended. Called by the control thread after it has made its socket:
 * each process that leaves a socket has made one, so the sockets that are left stay few. Asks the
 * kernel for each entry whether the process exists, and connects only if it does not. */
void socket_sweep(const struct sockaddr_un *own);

#endif
