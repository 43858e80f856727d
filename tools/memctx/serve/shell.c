/* SPDX-License-Identifier: MIT */
/* shell.c - answers with the HTML of live pages. */
#include "serve/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/json.h"
#include "base/text_file.h"
#include "report/report_html.h"

/* Writes 32 hexadecimal digits that nobody can guess. */
static void make_nonce(char *nonce) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        cli_die(CLI_REFUSED, "the kernel gives no random numbers; %s; try again later",
                strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
}

struct answer *shell_answer(unsigned status, bool gzip) {
    char nonce[33], *text = NULL;
    size_t length;
    make_nonce(nonce);
    FILE *file = text_file_open(&text, &length);
    report_write_live_html(file, nonce);
    fclose(file);
    struct answer *answer =
        answer_make_text(status, text, length, "text/html; charset=utf-8", gzip);
    char *policy = cli_format("default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; "
                              "connect-src 'self'; img-src data:; base-uri 'none'; "
                              "form-action 'none'; frame-ancestors 'none'",
                              nonce, nonce);
    mhd.add_response_header(answer->response, "Content-Security-Policy", policy);
    free(policy);
    if (status == MHD_HTTP_UNAUTHORIZED)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    return answer;
}

char *shell_list(const struct fleet *fleet, size_t *length) {
    char *text = NULL;
    FILE *file = text_file_open(&text, length);
    struct json_writer json = {.file = file};
    json_put_open(&json, NULL, '[');
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = fleet->processes[i];
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "program", process->program);
        json_put_integer(&json, "process", process->number);
        json_put_integer(&json, "pid", process->facts.pid);
        json_put_integer(&json, "rss_bytes", process->facts.rss_bytes);
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    fclose(file);
    return text;
}
