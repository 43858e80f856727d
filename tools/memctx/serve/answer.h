/* SPDX-License-Identifier: MIT */
/* answer.h - an HTTP answer, which is sent to one or several requests. */
#ifndef MEMCTX_SERVE_ANSWER_H
#define MEMCTX_SERVE_ANSWER_H

#include <stddef.h>

#include "serve/mhd.h"

struct answer {
    struct MHD_Response *response;
    unsigned status;
    size_t users; /* requests that have this answer and have not sent it yet */
};

/* Makes an answer with this text. The answer frees `text`. */
struct answer *answer_make(unsigned status, char *text, size_t length, const char *type);
/* Like answer_make, but compresses a long text if the client takes gzip's encoding (`gzip`). */
struct answer *answer_make_text(unsigned status, char *text, size_t length, const char *type,
                                bool gzip);
/* Adds headers that say how the body is encoded, for the client and for caches on the way. */
void answer_tell_encoding(struct answer *answer, bool gzip);
/* Makes an answer with this response. The answer destroys `response`. */
struct answer *answer_make_of(unsigned status, struct MHD_Response *response, const char *type);
/* Makes an answer for an error or a refusal; its text is `why`. */
struct answer *answer_refuse(unsigned status, const char *why);
/* Call this when a request no longer needs its answer (may be NULL). Frees the answer after its
 * last request. */
void answer_drop(struct answer *answer);

#endif
