/* SPDX-License-Identifier: MIT */
/*
 * totals.h - asks a process for its sums over all contexts. The answer has one size (1.2 KiB) for
 * any number of contexts, so a process may be asked every second.
 */
#ifndef MEMCTX_TOTALS_H
#define MEMCTX_TOTALS_H

#include "target/client.h"

struct totals {
    int64_t requested_bytes, contexts;
    int64_t own_bytes; /* part of the resident set that memctx itself takes */
    double uptime_s;
};

/* Returns false and the reason if the target refuses or its answer is damaged. */
bool totals_ask(struct client *client, struct totals *totals, struct cli_failure *failure);

#endif
