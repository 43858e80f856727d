/* SPDX-License-Identifier: MIT */
/*
 * shell.h - the HTML of live pages, and the list of processes.
 *
 * The HTML has the page's scripts but no figures. It is the same for all processes and clients,
 * except for the nonce of its scripts. The page asks the user for a token if the server needs one.
 */
#ifndef MEMCTX_SHELL_H
#define MEMCTX_SHELL_H

#include "serve/answer.h"
#include "serve/fleet.h"

/* Makes the answer with the HTML. `gzip`: the client accepts Content-Encoding gzip. */
struct answer *shell_answer(unsigned status, bool gzip);
/* Returns the JSON of the processes that are served. */
char *shell_list(const struct fleet *fleet, size_t *length);

#endif
