/* SPDX-License-Identifier: MIT */
/*
 * post.h - sends a body to an HTTP server, with libcurl, which is loaded at the first use (mhd.h
 * says why).
 */
#ifndef MEMCTX_POST_H
#define MEMCTX_POST_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cli.h"

struct post {
    const char *method;             /* POST, PUT or DELETE */
    const char *url, *type, *token; /* token: NULL for none */
    const void *body;
    size_t length;
    const volatile sig_atomic_t *ended; /* ends the transfer when it is not 0 */
};

bool post_load(struct cli_failure *failure);
/* Returns true if the server answered with a status of 2xx. Takes at most 30 s. */
bool post_send(const struct post *post, struct cli_failure *failure);
/* Returns a text for a part of a URL. The caller frees it. */
char *post_escape(const char *text);

#endif
