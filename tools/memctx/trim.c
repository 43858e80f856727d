/* SPDX-License-Identifier: MIT */
/* trim.c - `memctx trim`: hands all empty memory to the kernel now. */
#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "reading.h"
#include "render.h"

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             {"human", no_argument, NULL, READING_HUMAN},
                                             CLI_COMMON_OPTIONS};

static void print_json(const struct target *target, const struct wire_trim *trim) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-trim/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_integer(&json, "released_bytes", trim->released_bytes);
    json_put_integer(&json, "rss_before_bytes", trim->rss_before);
    json_put_integer(&json, "rss_after_bytes", trim->rss_after);
    json_put_close(&json, '}');
    putchar('\n');
}

int trim_main(int argc, char **argv) {
    bool json = false, human = false;
    struct target target;
    struct client_answer answer;
    struct cli_failure failure;
    struct wire_trim trim;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        json = json || option == READING_JSON;
        human = human || option == READING_HUMAN;
    }
    target_open(&target, reading_target_word(argc, argv, 1), true);
    if (!client_ask(&target.client, WIRE_TRIM, NULL, 0, &answer, &failure)) {
        cli_die_failure(&failure);
    }
    if (answer.status != WIRE_OK) {
        cli_die(CLI_REFUSED, "%s says no: %.500s", target.client.source,
                cli_clean((char *)answer.body));
    }
    if (answer.length != sizeof(trim)) {
        cli_die(CLI_REFUSED, "%s: damaged answer; %zu bytes are not what a trim has",
                target.client.source, answer.length);
    }
    memcpy(&trim, answer.body, sizeof(trim));
    if (json) {
        print_json(&target, &trim);
    } else {
        char released[RENDER_NUMBER_BYTES], before[RENDER_NUMBER_BYTES];
        char after[RENDER_NUMBER_BYTES];
        printf("returned %s to the kernel; resident set %s -> %s\n",
               render_bytes(released, trim.released_bytes, human),
               render_bytes(before, trim.rss_before, human),
               render_bytes(after, trim.rss_after, human));
    }
    return cli_finish_output(CLI_DONE);
}
