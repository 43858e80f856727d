/* SPDX-License-Identifier: MIT */
/* totals.c - asks for the head of a dump alone. */
#include "target/totals.h"

#include <stdlib.h>
#include <string.h>

#include "model/memory.h"

bool totals_ask(struct client *client, struct totals *totals, struct cli_failure *failure) {
    struct wire_dump_request request = {.flags = WIRE_DUMP_SUMS | WIRE_DUMP_RESIDENT};
    struct client_answer answer;
    struct wire_dump dump;
    if (!client_read(client, WIRE_DUMP, &request, sizeof request, &answer, failure))
        return false;
    if (answer.status != WIRE_OK)
        return client_fail_refused(client, &answer, failure);
    bool whole = answer.length == sizeof dump;
    if (whole) {
        memcpy(&dump, answer.body, sizeof dump);
        totals->requested_bytes = dump.requested_bytes;
        totals->contexts = dump.contexts;
        totals->own_bytes = memory_own_bytes(&dump.ledger);
        totals->uptime_s = (double)dump.uptime_ns / 1e9;
    }
    free(answer.body);
    return whole || cli_fail(failure, CLI_REFUSED,
                             "%s: damaged answer; it is not the head of a dump", client->source);
}
