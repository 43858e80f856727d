/* SPDX-License-Identifier: MIT */
/* transfer.c - reads and writes the frames of a connection, each within a deadline. */
#include "target/transfer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "outside/tasks.h"

#define PAUSE_DEADLINE_MS 5000 /* the longest pause between two bytes */
/* after each silence of this length, looks whether the process is stopped */
#define STOP_LOOK_MS 500
/* waits at most this often, and so long each time, for the end of a process that closed its
 * connections */
#define ENDING_TRIES 10
#define ENDING_STEP_NS 20000000L
#define FRAME_DEADLINE_MS 60000 /* the longest time from the first byte of a frame to the last */

enum transfer_result transfer_wait_ready(int fd, short events, int64_t deadline) {
    for (;;) {
        int64_t left = deadline - clock_now_ms();
        struct pollfd entry = {.fd = fd, .events = events};
        int ready = left <= 0 ? 0 : poll(&entry, 1, (int)left);
        if (ready > 0)
            return IO_DONE;
        if (ready == 0)
            return IO_LATE;
        if (errno != EINTR)
            return IO_FAILED;
    }
}

/* Waits for a byte of the process until the deadline. Gives up early if the process is found
 * stopped twice in a row, since it cannot answer then. */
static enum transfer_result wait_byte(const struct client *client, int64_t deadline) {
    bool was_stopped = false;
    /* The counts differ if a thread of the process ran meanwhile: cpulimit and strace stop a
     * process for instants only. */
    uint64_t runs, before = 0;
    for (;;) {
        int64_t look_ms = clock_now_ms() + STOP_LOOK_MS;
        enum transfer_result ready =
            transfer_wait_ready(client->fd, POLLIN, look_ms < deadline ? look_ms : deadline);
        if (ready != IO_LATE || look_ms >= deadline)
            return ready;
        bool stopped = tasks_are_stopped(client->facts->pid, &runs);
        if (stopped && was_stopped && runs == before)
            return IO_STOPPED;
        was_stopped = stopped;
        before = runs;
    }
}

enum transfer_result transfer_read(const struct client *client, char *buffer, size_t bytes,
                                   int64_t first_ms, int64_t end_ms) {
    int64_t pause_ms = first_ms < PAUSE_DEADLINE_MS ? first_ms : PAUSE_DEADLINE_MS;
    size_t used = 0;
    while (used < bytes) {
        int64_t until_ms = clock_now_ms() + (used == 0 ? first_ms : pause_ms);
        enum transfer_result ready = wait_byte(client, until_ms < end_ms ? until_ms : end_ms);
        if (ready != IO_DONE)
            return ready;
        ssize_t got = recv(client->fd, buffer + used, bytes - used, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return IO_CLOSED;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return IO_FAILED;
        used += got > 0 ? (size_t)got : 0;
    }
    return IO_DONE;
}

int64_t transfer_end_of_answer(const struct client *client, int64_t first_ms) {
    return clock_now_ms() + first_ms + (client->hurry ? HURRY_DEADLINE_MS : FRAME_DEADLINE_MS);
}

enum transfer_result transfer_write(int fd, const char *bytes, size_t length) {
    size_t used = 0;
    while (used < length) {
        enum transfer_result ready =
            transfer_wait_ready(fd, POLLOUT, clock_now_ms() + PAUSE_DEADLINE_MS);
        if (ready != IO_DONE)
            return ready;
        ssize_t put = send(fd, bytes + used, length - used, MSG_NOSIGNAL);
        if (put < 0 && (errno == EPIPE || errno == ECONNRESET))
            return IO_CLOSED;
        if (put < 0 && errno != EAGAIN && errno != EINTR)
            return IO_FAILED;
        used += put > 0 ? (size_t)put : 0;
    }
    return IO_DONE;
}

/* True if the process has ended. The kernel closes the sockets of a process some time before /proc
 * shows its end, so this function waits for the end, unless the caller is in a hurry. */
static bool has_ended(const struct client *client) {
    for (int tries = client->hurry ? 1 : ENDING_TRIES; tries > 0; tries--) {
        struct process_facts now;
        bool unknown, there = process_read_known(client->facts->pid, &now, &unknown);
        if (there ? now.start_ticks != client->facts->start_ticks || strchr("ZX", now.state)
                  : !unknown)
            return true;
        if (tries > 1)
            nanosleep(&(struct timespec){.tv_nsec = ENDING_STEP_NS}, NULL);
    }
    return false;
}

void transfer_set_failure(const struct client *client, enum transfer_result result,
                          const char *what, struct cli_failure *failure) {
    switch (result) {
    case IO_CLOSED:
        if (has_ended(client)) {
            cli_set_failure(failure, CLI_REFUSED,
                            "%s has ended and did not answer any more; memctx run --record keeps "
                            "the figures of a program beyond its end",
                            client->source);
            break;
        }
        cli_set_failure(failure, CLI_REFUSED,
                        "%s closed the connection %s; it has ended, or it already serves %d "
                        "clients; try again",
                        client->source, what, WIRE_CLIENTS_MAX);
        break;
    case IO_LATE:
        cli_set_failure(
            failure, CLI_REFUSED,
            "%s did not answer in time %s; it may be stopped, hang or be swapped out; try "
            "again; memctx dump --outside %d does not wait for it",
            client->source, what, (int)client->facts->pid);
        break;
    case IO_STOPPED:
        cli_set_failure(failure, CLI_REFUSED,
                        "%s was stopped %s, so it cannot answer; kill -CONT %d resumes it, or the "
                        "debugger that stopped it; memctx dump --outside %d does not wait for it",
                        client->source, what, (int)client->facts->pid, (int)client->facts->pid);
        break;
    default:
        cli_set_failure(failure, CLI_REFUSED, "%s: the connection failed %s; %s", client->source,
                        what, strerror(errno));
    }
}

bool transfer_check(const struct client *client, const struct wire_frame *frame,
                    enum wire_type type, struct cli_failure *failure) {
    if (frame->magic != WIRE_MAGIC) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s does not answer like libmemctx.so; another program listens on its "
                        "socket; see memctx ps",
                        client->source);
    }
    if (frame->version != WIRE_VERSION) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s speaks wire version %u and this memctx (%s) speaks %d; use the memctx "
                        "that was built with its library",
                        client->source, frame->version, CLI_VERSION, WIRE_VERSION);
    }
    if (frame->type != type) {
        return cli_fail(
            failure, CLI_REFUSED,
            "%s: damaged answer; a frame of type %u where %d was expected" CLI_ASK_AGAIN,
            client->source, frame->type, (int)type);
    }
    if (frame->length > WIRE_ANSWER_MAX) {
        return cli_fail(
            failure, CLI_REFUSED,
            "%s: damaged answer; it announces %llu bytes, more than any answer has" CLI_ASK_AGAIN,
            client->source, (unsigned long long)frame->length);
    }
    return true;
}

char *transfer_read_body(const struct client *client, uint64_t length, int64_t end_ms,
                         struct cli_failure *failure) {
    char *body = cli_alloc((size_t)length + 1, 1);
    enum transfer_result result =
        transfer_read(client, body, (size_t)length,
                      client->hurry ? HURRY_DEADLINE_MS : PAUSE_DEADLINE_MS, end_ms);
    if (result != IO_DONE) {
        free(body);
        transfer_set_failure(client, result, "in the middle of its answer", failure);
        return NULL;
    }
    body[length] = '\0';
    return body;
}
