/* SPDX-License-Identifier: MIT */
/* set.c - `memctx set`: changes options of a running process. */
#include <stdlib.h>
#include <string.h>

#include "reading.h"

static const struct option options_list[] = {CLI_COMMON_OPTIONS};

int set_main(int argc, char **argv) {
    struct target target;
    while (cli_next_option(argc, argv, ":hV", options_list) != -1) {
    }
    const char *word = reading_target_word(argc, argv, argc);
    if (optind + 1 >= argc) {
        cli_usage("set needs at least one name=value; see memctx options");
    }
    /* All of them are looked at before the first one is sent. */
    for (int i = optind + 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (equals == NULL || equals == argv[i] || strlen(argv[i]) > WIRE_REQUEST_MAX) {
            cli_usage("an option is set by name=value; got \"%.100s\"", argv[i]);
        }
    }
    target_open(&target, word, true);
    for (int i = optind + 1; i < argc; i++) {
        char *text = target_ask_text(&target, WIRE_SET, argv[i], strlen(argv[i]));
        text[strcspn(text, "\n")] = '\0';
        printf("%s\n", text);
        free(text);
    }
    return cli_finish_output(CLI_DONE);
}
