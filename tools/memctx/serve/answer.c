/* SPDX-License-Identifier: MIT */
/* answer.c - makes answers, with the headers that all of them have. */
#include "serve/answer.h"

#include <stdlib.h>
#include <string.h>

struct answer *answer_make_of(unsigned status, struct MHD_Response *response, const char *type) {
    struct answer *answer = cli_alloc(1, sizeof *answer);
    answer->status = status;
    answer->response = response;
    if (!response)
        cli_die(CLI_REFUSED, "out of memory");
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
