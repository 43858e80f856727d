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

/* The answer of totals_read_outside. */
struct totals_outside {
    struct totals totals;
    bool has_totals;
    bool is_incomplete; /* some of the library's tables were missing or damaged */
    char library_version[sizeof((struct client *)0)->hello.library_version];
};

/* Returns false and the reason if the target refuses or its answer is damaged. */
bool totals_ask(struct client *client, struct totals *totals, struct cli_failure *failure);
/* Reads the sums from outside (outside/outside.h). The tables of the process may be damaged, so a
 * child reads them, with bounds on its memory and its time. `why`: as for client_open_outside. If
 * the tables have no sums, has_totals is false, and answer->totals keeps the figures that the
 * caller has set. Returns false if there is no answer. */
bool totals_read_outside(const struct process_facts *facts, const char *why,
                         struct totals_outside *answer);

/* What totals_ask_each found out about a process. */
struct totals_found {
    struct totals totals; /* WIRE_UNKNOWN: a figure that is not known */
    bool has_socket;
    bool is_outside;    /* the figures were read from outside, out of the process's memory */
    bool is_incomplete; /* some of the library's tables were missing or damaged */
    char library_version[sizeof((struct client *)0)->hello.library_version];
    char
        reason[sizeof((struct cli_failure *)0)->text]; /* why it cannot be asked; "": it answered */
};

/* Asks processes for their sums, or reads the sums from outside. Each process has a child of this
 * command for itself, so that processes that do not answer are waited for at the same time. */
void totals_ask_each(const struct process_facts *const *processes, struct totals_found *found,
                     size_t count);

#endif
