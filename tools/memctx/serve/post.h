/* SPDX-License-Identifier: MIT */
/*
 * post.h - sends a body to an HTTP server, with libcurl. The command is not linked with libcurl,
 * because its many libraries would slow down the start of every verb (mhd.h).
 *
 * One request is under way at a time. post_begin returns at once; post_wait moves the request's
 * bytes while it waits for the caller's own descriptors. For one thread.
 */
#ifndef MEMCTX_POST_H
#define MEMCTX_POST_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cli.h"

/* Files for TLS, in PEM; NULL: none. libcurl reads them for each new connection. */
struct post_tls {
    const char *ca_file; /* the authorities that are trusted, instead of those of the system */
    const char *certificate, *key; /* of the client itself, for a server that asks for them */
};

/* A request. The texts and the body must stay valid until the request has ended. */
struct post {
    const char *method;             /* POST, PUT or DELETE */
    const char *url, *type, *token; /* token: NULL for none */
    const struct post_tls *tls;     /* NULL: no files */
    const char *encoding;           /* encoding of the body, such as gzip; NULL: none */
    bool otlp; /* the server speaks OTLP, which has rules of its own for retries and answers */
    const void *body;
    size_t length;
};

enum post_outcome {
    POST_SENT,   /* the server answered with a status of 2xx */
    POST_AGAIN,  /* no answer, 429 or 5xx (OTLP: 502 to 504): a later try may succeed */
    POST_REFUSED /* any other status, or an OTLP server took only a part: another try cannot succeed
                  */
};

struct post_result {
    enum post_outcome outcome;
    long status;     /* status of HTTP; 0: there was no answer */
    int64_t wait_ms; /* the pause that the server asks for (Retry-After); 0: none */
    char text[512];  /* why the request failed */
};

/* Loads libcurl. Returns false and the reason if that fails. */
bool post_load(struct cli_failure *failure);
/* Returns NULL if libcurl can parse the URL, else the reason why not. Call post_load first. */
const char *post_find_mistake(const char *url);
/* Starts a request, which takes at most 30 s. Returns false if memory runs out. */
bool post_begin(const struct post *post);
/* Waits until the request moves on or a descriptor of the entries is ready, at most `timeout_ms`.
 * Sets the entries' `revents`. A signal ends the wait. */
void post_wait(struct pollfd *entries, size_t count, int timeout_ms);
/* Returns true and fills in the result if the request has ended. */
bool post_end(struct post_result *result);
/* Abandons the request that is under way, if any. */
void post_abandon(void);
/* Returns the text escaped for use in a URL (%XX). The caller frees it. */
char *post_escape(const char *text);

#endif
