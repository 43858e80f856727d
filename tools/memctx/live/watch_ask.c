/* SPDX-License-Identifier: MIT */
/* watch_ask.c - asks a watched process for the head of a dump and for pieces of it. */
#include "live/watch_internal.h"

#include <stdlib.h>
#include <string.h>

bool watch_ask(struct watch *watch, enum wire_type type, const void *body, size_t length,
               struct client_answer *answer) {
    if (!client_read(&watch->client, type, body, length, answer, &watch->failure)) {
        client_close(&watch->client);
        return false;
    }
    return answer->status == WIRE_OK ||
           client_fail_refused(&watch->client, answer, &watch->failure);
}

bool watch_ask_head(struct watch *watch, uint32_t flags, struct wire_dump *head) {
    /* From outside, the tables are read only when a dump begins. */
    if (watch->client.outside && flags == WIRE_DUMP_SUMS)
        flags |= WIRE_DUMP_BEGIN;
    struct wire_dump_request request = {.flags = flags};
    struct client_answer answer;
    if (!watch_ask(watch, WIRE_DUMP, &request, sizeof request, &answer))
        return false;
    bool whole = answer.length == sizeof *head;
    if (whole) {
        memcpy(head, answer.body, sizeof *head);
        watch->read_s = (double)head->uptime_ns / 1e9;
    }
    free(answer.body);
    return whole ||
           cli_fail(&watch->failure, CLI_REFUSED,
                    "%s: damaged answer; %zu bytes are not the head of a dump" CLI_ASK_AGAIN,
                    watch->client.source, answer.length);
}

bool watch_ask_piece(struct watch *watch, struct loader *loader,
                     struct wire_piece_request *request) {
    struct client_answer answer;
    if (!watch_ask(watch, WIRE_PIECE, request, sizeof *request, &answer))
        return false;
    bool good = loader_take_piece(loader, (enum wire_part)request->part, answer.body, answer.length,
                                  &request->from);
    free(answer.body);
    return good;
}

bool watch_ask_pieces(struct watch *watch, struct loader *loader,
                      struct wire_piece_request *request) {
    uint64_t before;
    bool good;
    do {
        before = request->from;
        good = watch_ask_piece(watch, loader, request);
    } while (good && request->from > before);
    return good;
}

bool watch_is_open(const struct watch *watch) {
    return watch->client.fd >= 0 || watch->client.outside;
}
