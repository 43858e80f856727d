/* SPDX-License-Identifier: MIT */
/* answer.c - makes answers, with the headers that all of them have. */
#include "serve/answer.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP_LEAST 1024 /* shorter texts fit into one packet uncompressed */
#define GZIP_LEVEL 1    /* the fastest level: all requests share the server's one thread */

struct answer *answer_make_of(unsigned status, struct MHD_Response *response, const char *type) {
    struct answer *answer = cli_alloc(1, sizeof *answer);
    answer->status = status;
    answer->response = response;
    if (!response)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    mhd.add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    mhd.add_response_header(response, "X-Content-Type-Options", "nosniff");
    mhd.add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    mhd.add_response_header(response, "Referrer-Policy", "no-referrer");
    return answer;
}

struct answer *answer_make(unsigned status, char *text, size_t length, const char *type) {
    return answer_make_of(
        status, mhd.create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE), type);
}

void answer_tell_encoding(struct answer *answer, bool gzip) {
    mhd.add_response_header(answer->response, MHD_HTTP_HEADER_VARY,
                            MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (gzip)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
}

/* Returns the text in gzip's format, and its length; NULL: out of memory. */
static char *compress_text(const char *text, size_t *length) {
    z_stream stream = {0};
    char *packed = NULL;
    if (deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, MAX_WBITS + 16, MAX_MEM_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    size_t room = deflateBound(&stream, *length);
    if (*length <= UINT32_MAX && room <= UINT32_MAX && (packed = malloc(room))) {
        stream.next_in = (Bytef *)(uintptr_t)text;
        stream.avail_in = (uInt)*length;
        stream.next_out = (Bytef *)packed;
        stream.avail_out = (uInt)room;
        if (deflate(&stream, Z_FINISH) == Z_STREAM_END) {
            *length = stream.total_out;
        } else {
            free(packed);
            packed = NULL;
        }
    }
    deflateEnd(&stream);
    return packed;
}

struct answer *answer_make_text(unsigned status, char *text, size_t length, const char *type,
                                bool gzip) {
    char *packed = gzip && length >= GZIP_LEAST ? compress_text(text, &length) : NULL;
    if (packed)
        free(text);
    struct answer *answer = answer_make(status, packed ? packed : text, length, type);
    answer_tell_encoding(answer, packed != NULL);
    return answer;
}

struct answer *answer_refuse(unsigned status, const char *why) {
    char *text = cli_format("memctx: %s\n", why);
    struct answer *answer = answer_make(status, text, strlen(text), "text/plain; charset=utf-8");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    return answer;
}

void answer_drop(struct answer *answer) {
    if (answer && --answer->users == 0) {
        mhd.destroy_response(answer->response);
        free(answer);
    }
}
