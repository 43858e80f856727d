/* SPDX-License-Identifier: MIT */
/* server.h - the clients of the socket, and the poll loop of the control thread. Control thread
 * only, except for the functions whose comment names other threads. */
#ifndef MEMCTX_CONTROL_SERVER_H
#define MEMCTX_CONTROL_SERVER_H

#include <stdint.h>

/* Makes the places of all clients free. */
void server_begin(void);
/* Serves clients until the thread has to end (control_must_end). */
void server_run(void);
/* Closes all connections and gives the memory for answers back. */
void server_end(void);
/* Returns the process's start time, field 22 of /proc/self/stat; 0: not known. Any thread. */
uint64_t server_start_ticks(void);
/* Returns the number of WIRE_DUMP requests so far, without those that end a dump. Any thread. */
uint64_t server_dumps_asked(void);
/* Closes the parent's connections that a forked child has in its descriptor table. Called in the
 * child, by the thread that forked. */
void server_let_go(void);

#endif
