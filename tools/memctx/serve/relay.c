/* SPDX-License-Identifier: MIT */
/* relay.c - sends the output of a job to clients while the job writes it. */
#include "serve/relay.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define PART_BYTES 16384 /* most bytes that the HTTP library takes at once */

struct reader {
    struct relay *relay;
    struct MHD_Connection *http;
    struct connection *connection;
    bool suspended;
    struct reader *next;
};

struct relay {
    char *text;
    size_t length;
    bool over, whole;
    struct reader *readers;
};

static void free_if_unused(struct relay *relay) {
    if (!relay->over || relay->readers)
        return;
    free(relay->text);
    free(relay);
}

/* Gives the HTTP library the next bytes of the text. If there are none yet, suspends the connection
 * until wake() is called. */
static ssize_t give(void *closure, uint64_t position, char *to, size_t room) {
    struct reader *reader = closure;
    const struct relay *relay = reader->relay;
    size_t left = position < relay->length ? relay->length - position : 0;
    size_t part = left < room ? left : room;
    if (part > 0) {
        memcpy(to, relay->text + position, part);
        return (ssize_t)part;
    }
    if (relay->over)
        return relay->whole ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
    reader->suspended = true;
    reader->connection->waits = true;
    reader->connection->waits_ms = clock_now_ms();
    mhd.suspend_connection(reader->http);
    return 0;
}

static void wake(struct reader *reader) {
    struct connection *connection = reader->connection;
    if (!reader->suspended)
        return;
    reader->suspended = false;
    connection->waits = false;
    connection->since_ms = clock_now_ms();
    connection->client_ms += connection->since_ms - connection->waits_ms;
    mhd.resume_connection(reader->http);
}

static void wake_all(const struct relay *relay) {
    for (struct reader *reader = relay->readers; reader; reader = reader->next)
        wake(reader);
}

static void remove_reader(void *closure) {
    struct reader *reader = closure;
    struct relay *relay = reader->relay;
    struct reader **at = &relay->readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    free(reader);
    free_if_unused(relay);
}

struct relay *relay_begin(void) {
    return cli_alloc(1, sizeof(struct relay));
}

struct MHD_Response *relay_join(struct relay *relay, struct MHD_Connection *http,
                                struct connection *connection) {
    struct reader *reader = cli_alloc(1, sizeof *reader);
    *reader = (struct reader){
        .relay = relay, .http = http, .connection = connection, .next = relay->readers};
    relay->readers = reader;
    struct MHD_Response *response = mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, PART_BYTES,
                                                                      give, reader, remove_reader);
    if (!response)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    return response;
}

void relay_add(struct relay *relay, const char *text, size_t length) {
    relay->text = cli_grow(relay->text, relay->length + length, 1);
    memcpy(relay->text + relay->length, text, length);
    relay->length += length;
    wake_all(relay);
}

void relay_end(struct relay *relay, bool whole) {
    relay->over = true;
    relay->whole = whole;
    wake_all(relay);
    free_if_unused(relay);
}

size_t relay_count(const struct relay *relay) {
    size_t count = 0;
    for (const struct reader *reader = relay->readers; reader; reader = reader->next)
        count++;
    return count;
}
