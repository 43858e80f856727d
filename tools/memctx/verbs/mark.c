/* SPDX-License-Identifier: MIT */
/* mark.c - `memctx mark`: remembers how every context stands now, for a later diff. */
#include <stdlib.h>
#include <string.h>

#include "verbs/reading.h"
#include "verbs/verbs.h"

static const struct option options_list[] = {CLI_COMMON_OPTIONS};

int mark_main(int argc, char **argv) {
    struct wire_mark_request request = {0};
    struct target target;
    while (cli_next_option(argc, argv, ":hV", options_list) != -1) {
    }
    const char *word = reading_target_word(argc, argv, 2);
    const char *name = optind + 1 < argc ? argv[optind + 1] : "";
    if (strlen(name) >= sizeof request.name) {
        cli_usage("the name of a mark has at most %zu bytes; got \"%s\"", sizeof request.name - 1,
                  name);
    }
    for (const char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            cli_usage("the name of a mark has no control characters");
    strcpy(request.name, name);
    target_open(&target, word, true);
    char *text = target_ask_text(&target, WIRE_MARK, &request, sizeof request);
    text[strcspn(text, "\n")] = '\0';
    printf("%s\n", text);
    return cli_finish_output(CLI_DONE);
}
