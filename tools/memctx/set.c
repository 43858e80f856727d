/* SPDX-License-Identifier: MIT */
/* set.c - `memctx set`: changes options of a running process, or how one of its contexts is placed. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

/* More than a policy by itself: options as rules have them, or one of them without a policy. */
static bool asks_for_options(const char *wanted) {
    static const char *const options[] = {"own", "zero", "guard"};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (strcmp(wanted, options[i]) == 0) {
            return true;
        }
    }
    return strpbrk(wanted, ",:") != NULL;
}

/* With options the contexts get a rule of their own, which holds for all below them, too. */
static void set_by_rule(const struct choice *choice, const char *wanted) {
    struct target target;
    if (choice->site != NULL) {
        cli_usage("options are set for contexts by number, or by a rule: memctx rules TARGET --add "
                  "'regex:%.100s=%.100s'",
                  choice->site, wanted);
    }
    if (strlen(wanted) > WIRE_REQUEST_MAX / 2) {
        cli_usage("so many options cannot be; got \"%.100s\"", wanted);
    }
    target_open(&target, choice->target, true);
    for (size_t i = 0; i < choice->id_count; i++) {
        int64_t id;
        if (!cli_is_number(choice->ids[i], &id)) {
            cli_usage("a CONTEXT is a number, as memctx dump --flat shows it; got \"%.100s\"",
                      choice->ids[i]);
        }
        char *rule = cli_format("context:%s=%s", choice->ids[i], wanted);
        free(target_ask_text(&target, WIRE_RULES, rule, strlen(rule)));
        printf("added the rule %s, for what is allocated from now on\n", rule);
        free(rule);
    }
}

static void set_policy(const struct choice *choice, const char *assignment) {
    static const char name[] = "policy=";
    if (strncmp(assignment, name, strlen(name)) != 0) {
        cli_usage("of a context the policy can be set: policy=slab, say; got \"%.100s\"",
                  assignment);
    }
    if (asks_for_options(assignment + strlen(name))) {
        set_by_rule(choice, assignment + strlen(name));
        return;
    }
    const struct placing *placing = placing_by_policy(assignment + strlen(name));
    if (placing == NULL) {
        cli_usage("there is no policy \"%.100s\"; there are default, aset, mixed, slab, "
                  "generation, bump and simple",
                  assignment + strlen(name));
    }
    place_contexts(choice, placing);
}

int set_main(int argc, char **argv) {
    struct target target;
    struct choice choice = {.site = NULL};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", choose_options)) != -1) {
        choose_take(&choice, option);
    }
    const char *word = reading_target_word(argc, argv, argc);
    if (optind + 1 >= argc) {
        cli_usage("set needs at least one name=value; see memctx options");
    }
    int64_t context;
    if (choice.site != NULL || cli_is_number(argv[optind + 1], &context)) {
        choice.target = word;
        choice.ids = argv + optind + 1;
        choice.id_count = (size_t)(argc - optind - 2);
        set_policy(&choice, argv[argc - 1]);
        return cli_finish_output(CLI_DONE);
    }
    if (choice.json || choice.human) {
        cli_usage(
            "--json and --human tell of contexts; for options see memctx options TARGET --json");
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
