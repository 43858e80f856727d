/* SPDX-License-Identifier: MIT */
/*
 * client.h - the command's end of the control socket.
 *
 * Every operation has a deadline, and an answer that announces more than WIRE_ANSWER_MAX bytes is
 * refused. The process at the other end must be the one that was asked for: pid and start time of
 * its hello are compared with /proc, and the kernel tells which process listens.
 */
#ifndef MEMCTX_CLIENT_H
#define MEMCTX_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include <memctx/wire.h>

#include "base/cli.h"
#include "outside/outside.h"
#include "target/process.h"

/* Bound on the memory of a child that reads a process from outside although nobody may have named
 * the process. The tables of a process with a million call paths take a few hundred MiB. */
#define CLIENT_OUTSIDE_BYTES (4UL << 30)

struct client {
    int fd;
    /* NULL: the process answers. Otherwise its memory is read, and there is no connection. */
    struct outside *outside;
    /* the facts about the process, for connecting again; the caller owns them */
    const struct process_facts *facts;
    bool hurry;    /* the deadlines are short (client_connect) */
    bool closed;   /* the last question failed because the process had closed the connection */
    bool told;     /* the user was told that this client waits for a connection */
    int answer_ms; /* the longest wait for the first byte of an answer */
    struct wire_hello hello;
    char source[64]; /* "pid N", for messages */
    /* Set between WIRE_DUMP_BEGIN and WIRE_DUMP_END if the process may have given ids of contexts
     * to other call paths, because this command paused for WIRE_DUMP_QUIET_MS or had to connect
     * again. */
    bool paused;
    int64_t answered_ms; /* clock_now_ms of the last answer */
};

struct client_answer {
    void *body; /* always followed by a 0 byte; free() it */
    size_t length;
    uint32_t status; /* enum wire_status */
};

/* Connects to a process. If all its connections are in use, waits some seconds for a free one. On
 * failure gives the reason and the exit code. `hurry`: gives up after 1.5 seconds without a byte,
 * and after 3 seconds for one answer, for a caller that looks at many processes. */
bool client_connect(struct client *client, const struct process_facts *facts, bool hurry,
                    struct cli_failure *failure);
/* Opens the process's memory instead of its socket (outside/outside.h). `why`: tells the user why
 * the socket is not used. */
bool client_open_outside(struct client *client, const struct process_facts *facts, const char *why,
                         struct cli_failure *failure);
/* Returns true if client_connect failed because the process has the library but no socket, so that
 * its memory has to be read instead. */
bool client_found_no_socket(const struct process_facts *facts, const struct cli_failure *failure);
void client_close(struct client *client);

/* Sends one request and reads its answer, over a new connection if the target had closed this one
 * before. Returns false if the connection broke or the answer is damaged; a refusal by the target
 * is an answer. */
bool client_ask(struct client *client, enum wire_type type, const void *body, size_t length,
                struct client_answer *answer, struct cli_failure *failure);
/* Like client_ask, but for a request that changes nothing: if the target has given this connection
 * to another client, the request is sent again over a new connection. */
bool client_read(struct client *client, enum wire_type type, const void *body, size_t length,
                 struct client_answer *answer, struct cli_failure *failure);
/* Makes the failure for a request that the target refused. Frees the answer and returns false. */
bool client_fail_refused(const struct client *client, struct client_answer *answer,
                         struct cli_failure *failure);
/* Like client_ask, but returns the answer, which is a text. If the target refuses, its text becomes
 * the failure, and NULL is returned. */
char *client_ask_text(struct client *client, enum wire_type type, const void *body, size_t length,
                      struct cli_failure *failure);

#endif
