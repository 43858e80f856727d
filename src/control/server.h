/* SPDX-License-Identifier: MIT */
/* server.h - the clients of the socket, and the poll loop of the control thread. Only the control
 * thread calls these functions, except server_let_go and server_dumps_asked.
 */
#ifndef MEMCTX_CONTROL_SERVER_H
#define MEMCTX_CONTROL_SERVER_H

#include <stdint.h>

/* Begins without a client. */
void server_begin(void);
/* Serves clients until the thread has to end (control_must_end). */
void server_run(void);
/* Closes all connections and gives the memory for answers back. */
void server_end(void);
/* Returns the process's start time, field 22 of /proc/self/stat; 0: not known. Any thread. */
uint64_t server_start_ticks(void);
/* Returns how many dumps and sums clients have asked for. Any thread. */
uint64_t server_dumps_asked(void);
/* For a forked child whose descriptor table has its parent's connections: closes them. */
void server_let_go(void);

#endif
