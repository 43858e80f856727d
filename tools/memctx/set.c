/* SPDX-License-Identifier: MIT */
/* set.c - `memctx set`: changes options of a running process, or how one of its contexts is placed. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

static const struct option options_list[] = {CLI_COMMON_OPTIONS};

static const struct {
    const char *word;
    enum wire_placement placement;
} policies[] = {
    {"default", WIRE_PLACE_DEFAULT}, {"aset", WIRE_PLACE_APART}, {"mixed", WIRE_PLACE_SHARED}};

static void set_policy(const char *word, char *const *context, const char *assignment) {
    static const char name[] = "policy=";
    struct choice choice = {.target = word, .ids = context, .id_count = 1};
    if (strncmp(assignment, name, strlen(name)) != 0) {
        cli_usage(
            "of a context the policy can be set: policy=aset, mixed or default; got \"%.100s\"",
            assignment);
    }
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (strcmp(policies[i].word, assignment + strlen(name)) == 0) {
            place_contexts(&choice, policies[i].placement);
            return;
        }
    }
    cli_usage("there is no policy \"%.100s\"; there are aset, mixed and default",
              assignment + strlen(name));
}

int set_main(int argc, char **argv) {
    struct target target;
    while (cli_next_option(argc, argv, ":hV", options_list) != -1) {
    }
    const char *word = reading_target_word(argc, argv, argc);
    if (optind + 1 >= argc) {
        cli_usage("set needs at least one name=value; see memctx options");
    }
    int64_t context;
    if (optind + 3 == argc && cli_is_number(argv[optind + 1], &context)) {
        set_policy(word, argv + optind + 1, argv[optind + 2]);
        return cli_finish_output(CLI_DONE);
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
