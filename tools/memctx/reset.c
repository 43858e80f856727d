/* SPDX-License-Identifier: MIT */
/* reset.c - `memctx reset`: counters to zero and peaks to the present; no chunk is touched. */
#include <stdlib.h>
#include <string.h>

#include "reading.h"
#include "view.h"

enum { OPTION_CONTEXT = 1, OPTION_SITE };

static const struct option options_list[] = {{"context", required_argument, NULL, OPTION_CONTEXT},
                                             {"site", required_argument, NULL, OPTION_SITE},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

static char *reset_context(struct target *target, uint32_t id) {
    struct wire_reset_request request = {.context = id};
    char *text = target_ask_text(target, WIRE_RESET, &request, sizeof(request));
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void reset_site(struct target *target, const char *site, const struct reading_names *names) {
    struct model model;
    struct target_load_options load = {0};
    regex_t regex;
    size_t count = 0;
    view_compile_site(&regex, site);
    target_load(target, &model, &load);
    reading_resolve(&model, target, names);
    for (size_t i = 0; i < model.context_count; i++) {
        if (view_matches_site(&model, &model.contexts[i], &regex)) {
            free(reset_context(target, model.contexts[i].id));
            count++;
        }
    }
    regfree(&regex);
    if (count == 0) {
        cli_die(CLI_REFUSED,
                "%s has no allocation site that matches \"%s\"; nothing was reset; "
                "see memctx dump --flat",
                model.source, site);
    }
    printf("reset %zu contexts\n", count);
}

int reset_main(int argc, char **argv) {
    struct reading_names names = {0};
    const char *site = NULL;
    int64_t context = -1;
    struct target target;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        if (option == OPTION_CONTEXT) {
            context = cli_parse_number("--context", optarg, 0, WIRE_NONE - 1);
        } else if (option == OPTION_SITE) {
            site = optarg;
        } else {
            reading_take(&names, option);
        }
    }
    const char *word = reading_target_word(argc, argv, 1);
    if (site != NULL && context >= 0) {
        cli_usage("--context and --site exclude each other");
    }
    if (site != NULL) {
        regex_t regex;
        view_compile_site(&regex, site);
        regfree(&regex);
    }
    target_open(&target, word, true);
    if (site != NULL) {
        reset_site(&target, site, &names);
    } else {
        printf("%s\n", reset_context(&target, context >= 0 ? (uint32_t)context : WIRE_NONE));
    }
    return cli_finish_output(CLI_DONE);
}
