/* SPDX-License-Identifier: MIT */
/* connection.h - what the server knows of a connection, so that it can end a connection that takes
 * too long. */
#ifndef MEMCTX_CONNECTION_H
#define MEMCTX_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

struct connection {
    int fd;
    /* time of the last of these steps: the connection or a request began, the server made the
     * answer, a part of a stream of events was sent, the request ended */
    int64_t since_ms;
    /* When the connection began or its last request ended, plus the time for which the server has
     * kept the client waiting since then. The time from here to now is the client's own. */
    int64_t client_ms;
    int64_t waits_ms; /* when the client began to wait for the server */
    bool asks;  /* a request is under way: its head has come, its answer has not been sent yet */
    bool waits; /* true while the client waits for the server; such a connection is not ended */
    bool long_query; /* the query of the request that comes was cut off, because it was too long */
    struct connection *next;
};

#endif
