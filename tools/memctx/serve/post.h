/* SPDX-License-Identifier: MIT */
/*
 * post.h - sends a body to an HTTP server, with libcurl, which is loaded at the first use (mhd.h
 * says why).
 *
 * One request is under way at a time, and the caller goes on meanwhile: post_wait moves the bytes
 * while it waits for the caller's own descriptors. For one thread.
 */
#ifndef MEMCTX_POST_H
#define MEMCTX_POST_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cli.h"

/* A request. All of it must stay until the request has ended. */
struct post {
    const char *method;             /* POST, PUT or DELETE */
    const char *url, *type, *token; /* token: NULL for none */
    const char *encoding;           /* encoding of the body, such as gzip; NULL: none */
    bool otlp; /* the server speaks OTLP, which has rules of its own for retries and answers */
    const void *body;
    size_t length;
};

enum post_outcome {
    POST_SENT,   /* the server answered with a status of 2xx */
    POST_AGAIN,  /* no answer, 429 or 5xx (OTLP: 502 to 504): a later try may succeed */
    POST_REFUSED /* any other status, or OTLP's server took a part only: another try is no use */
};

struct post_result {
    enum post_outcome outcome;
    long status;     /* status of HTTP; 0: there was no answer */
    int64_t wait_ms; /* the server asks for this pause (Retry-After); 0: it does not */
    char text[512];  /* why it was not sent */
};

bool post_load(struct cli_failure *failure);
/* Returns NULL if libcurl can read the URL, or why it cannot. Call post_load first. */
const char *post_find_mistake(const char *url);
/* Starts a request, which takes at most 30 s. Returns false if memory runs out. */
bool post_begin(const struct post *post);
/* Waits until something comes for the request or the entries, or for `timeout_ms`. Sets the
 * entries' `revents`. Returns early when a signal comes. */
void post_wait(struct pollfd *entries, size_t count, int timeout_ms);
/* Returns true and fills in the result if the request has ended. */
bool post_end(struct post_result *result);
/* Gives the request up that is under way, if there is one. */
void post_abandon(void);
/* Returns a text for a part of a URL. The caller frees it. */
char *post_escape(const char *text);

#endif
