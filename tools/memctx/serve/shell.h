/* SPDX-License-Identifier: MIT */
/*
 * shell.h - the HTML of live pages, and the list of processes.
 *
 * The HTML has the page's program and no figures: one text for all processes and all clients, but
 * for the nonce of its scripts. It asks the user for a token, if the server wants one.
 */
#ifndef MEMCTX_SHELL_H
#define MEMCTX_SHELL_H

#include "serve/answer.h"
#include "serve/fleet.h"

/* `gzip`: the client takes this encoding. */
struct answer *shell_answer(unsigned status, bool gzip);
/* Returns the JSON of the processes that are served. */
char *shell_list(const struct fleet *fleet, size_t *length);

#endif
