/* SPDX-License-Identifier: MIT */
/* answer.h - what is sent to one or several requests. */
#ifndef MEMCTX_ANSWER_H
#define MEMCTX_ANSWER_H

#include <stddef.h>

#include "serve/mhd.h"

struct answer {
    struct MHD_Response *response;
    unsigned status;
    size_t users; /* requests that have this answer and have not sent it yet */
};

/* Makes an answer of a text that it then owns. */
struct answer *answer_make(unsigned status, char *text, size_t length, const char *type);
/* Like answer_make, but compresses a long text if the client takes gzip's encoding (`gzip`). */
struct answer *answer_make_text(unsigned status, char *text, size_t length, const char *type,
                                bool gzip);
/* Adds headers that say how the body is encoded, for the client and for caches on the way. */
void answer_tell_encoding(struct answer *answer, bool gzip);
/* Makes an answer of a response that it then owns. */
struct answer *answer_make_of(unsigned status, struct MHD_Response *response, const char *type);
/* Makes an answer that says why there is no other one. */
struct answer *answer_refuse(unsigned status, const char *why);
/* Lets go of an answer, which may be NULL. */
void answer_drop(struct answer *answer);

#endif
