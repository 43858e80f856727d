/* SPDX-License-Identifier: MIT */
/* listeners.c - sends events to clients that keep a request open. */
#include "serve/listeners.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define KERNEL_BUFFER 8192 /* bytes that the kernel keeps for a client that does not read */

/* Gives the HTTP library the next bytes of the buffer. If the buffer is empty, suspends the
 * connection until wake() is called. */
static ssize_t give(void *closure, uint64_t position, char *to, size_t room) {
    struct listener *listener = closure;
    size_t part = listener->length < room ? listener->length : room;
    (void)position;
    if (part > 0) {
        memcpy(to, listener->buffer, part);
        listener->length -= part;
        memmove(listener->buffer, listener->buffer + part, listener->length);
        listener->connection->since_ms = listener->connection->client_ms = clock_now_ms();
        return (ssize_t)part;
    }
    if (listener->over)
        return MHD_CONTENT_READER_END_OF_STREAM;
    listener->suspended = true;
    listener->connection->waits = true;
    mhd.suspend_connection(listener->http);
    return 0;
}

static void wake(struct listener *listener) {
    if (!listener->suspended)
        return;
    listener->suspended = false;
    listener->connection->waits = false;
    listener->connection->since_ms = listener->connection->client_ms = clock_now_ms();
    mhd.resume_connection(listener->http);
}

static void remove_listener(void *closure) {
    struct listener *listener = closure;
    struct listeners *all = listener->all;
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i] == listener) {
            all->list[i] = all->list[--all->count];
            break;
        }
    }
    free(listener);
}

struct MHD_Response *listeners_add(struct listeners *listeners, struct MHD_Connection *http,
                                   struct connection *connection, const void *subject) {
    if (listeners->count == LISTENERS_MAX)
        return NULL;
    struct listener *listener = cli_alloc(1, sizeof *listener);
    *listener = (struct listener){
        .all = listeners, .http = http, .connection = connection, .subject = subject};
    int bytes = KERNEL_BUFFER;
    setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    struct MHD_Response *response =
        mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, give, listener, remove_listener);
    if (!response)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    listeners->list[listeners->count++] = listener;
    return response;
}

size_t listeners_of(const struct listeners *listeners, const void *subject) {
    size_t count = 0;
    for (size_t i = 0; i < listeners->count; i++)
        count += listeners->list[i]->http && listeners->list[i]->subject == subject;
    return count;
}

/* Appends an event to the buffer. If it does not fit, the client reads too slowly, and its
 * connection is ended. */
static void put(struct listener *listener, const char *text, size_t length) {
    if (listener->over)
        return;
    if (listener->length + length > LISTENER_BUFFER) {
        listener->over = true;
        listener->all->dropped++;
        shutdown(listener->connection->fd, SHUT_RDWR);
    } else {
        memcpy(listener->buffer + listener->length, text, length);
        listener->length += length;
    }
    wake(listener);
}

void listeners_tell(struct listeners *listeners, const void *subject, const char *event,
                    const char *data) {
    if (listeners_of(listeners, subject) == 0)
        return;
    char *text = cli_format("event: %s\ndata: %s\n\n", event, data);
    for (size_t i = 0; i < listeners->count; i++)
        if (listeners->list[i]->http && listeners->list[i]->subject == subject)
            put(listeners->list[i], text, strlen(text));
    free(text);
}

void listeners_end(struct listeners *listeners, const void *subject) {
    for (size_t i = 0; i < listeners->count; i++) {
        struct listener *listener = listeners->list[i];
        if (!listener->http || (subject && listener->subject != subject))
            continue;
        listener->over = true;
        wake(listener);
    }
}

bool listeners_forget(struct listeners *listeners, const struct MHD_Connection *http, bool late) {
    for (size_t i = 0; i < listeners->count; i++) {
        struct listener *listener = listeners->list[i];
        if (listener->http != http)
            continue;
        listeners->dropped += late && !listener->over;
        listener->http = NULL;
        listener->suspended = false;
        listener->over = true;
        return true;
    }
    return false;
}

size_t listeners_poll(const struct listeners *listeners, struct pollfd *entries) {
    size_t count = 0;
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->list[i]->suspended) {
            entries[count++] =
                (struct pollfd){.fd = listeners->list[i]->connection->fd, .events = POLLRDHUP};
        }
    }
    return count;
}

void listeners_read(struct listeners *listeners, const struct pollfd *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; entries[i].revents != 0 && k < listeners->count; k++) {
            struct listener *listener = listeners->list[k];
            if (listener->suspended && listener->connection->fd == entries[i].fd) {
                listener->over = true;
                wake(listener);
                break;
            }
        }
    }
}
