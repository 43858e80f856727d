/* SPDX-License-Identifier: MIT */
/*
 * listeners.h - the clients that get events (text/event-stream) about processes.
 *
 * Each listener has a buffer of LISTENER_BUFFER bytes. A client reads too slowly if its buffer has
 * no room for an event, or if nothing could be sent to it within the server's time limit for a
 * connection. Such a client is dropped and counted. A listener whose buffer is empty is suspended,
 * and costs no CPU time. For one thread.
 */
#ifndef MEMCTX_LISTENERS_H
#define MEMCTX_LISTENERS_H

#include <poll.h>
#include <stddef.h>

#include "serve/connection.h"
#include "serve/mhd.h"

#define LISTENERS_MAX 32
#define LISTENER_BUFFER 65536

struct listener {
    struct listeners *all;
    struct MHD_Connection *http; /* NULL: the request has ended */
    struct connection *connection;
    const void *subject;
    bool suspended, over; /* over: the stream ends when the buffer has been sent */
    char buffer[LISTENER_BUFFER];
    size_t length;
};

struct listeners {
    struct listener *list[LISTENERS_MAX];
    size_t count;
    uint64_t dropped;
};

/* Makes a listener for the events of a subject (any pointer that names a process), and the response
 * that sends these events. The response owns the listener. Returns NULL if there are LISTENERS_MAX
 * listeners. */
struct MHD_Response *listeners_add(struct listeners *listeners, struct MHD_Connection *http,
                                   struct connection *connection, const void *subject);
/* Returns the number of listeners of a subject. */
size_t listeners_of(const struct listeners *listeners, const void *subject);
/* Sends an event to all listeners of a subject. `data` has no newline. */
void listeners_tell(struct listeners *listeners, const void *subject, const char *event,
                    const char *data);
/* Ends the streams of a subject (NULL: all streams) after the events that are in their buffers. */
void listeners_end(struct listeners *listeners, const void *subject);
/* Call this when a request ends. `late`: the request was ended because its client did not read.
 * Returns false if the request had no listener. */
bool listeners_forget(struct listeners *listeners, const struct MHD_Connection *http, bool late);
/* Adds the connections of suspended listeners to a poll list. */
size_t listeners_poll(const struct listeners *listeners, struct pollfd *entries);
/* Ends the listeners whose clients have gone. */
void listeners_read(struct listeners *listeners, const struct pollfd *entries, size_t count);

#endif
