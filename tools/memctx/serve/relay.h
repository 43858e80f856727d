/* SPDX-License-Identifier: MIT */
/*
 * relay.h - an answer that is sent while a job still writes it, to one or several clients.
 *
 * The relay keeps the whole text, so a client that asks later gets it from the beginning. A client
 * that has read all that was written is suspended, and costs no CPU time. The relay is freed after
 * relay_end, when its last client has gone. For one thread.
 */
#ifndef MEMCTX_RELAY_H
#define MEMCTX_RELAY_H

#include <stddef.h>

#include "serve/connection.h"
#include "serve/mhd.h"

struct relay;

struct relay *relay_begin(void);
/* Makes the response for one more client. The response owns the client's place in the relay. */
struct MHD_Response *relay_join(struct relay *relay, struct MHD_Connection *http,
                                struct connection *connection);
/* Appends a part of the text. */
void relay_add(struct relay *relay, const char *text, size_t length);
/* Ends the text. `whole`: false if a part is missing; then the clients see that their connection
 * breaks off. */
void relay_end(struct relay *relay, bool whole);
/* Returns the number of clients that have not read the whole text. */
size_t relay_count(const struct relay *relay);

#endif
