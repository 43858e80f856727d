/* SPDX-License-Identifier: MIT */
/* reset.c - `memctx reset`: sets counters to zero and peaks to the live bytes; touches no chunk.
 * With --named, asks the program to reset contexts that the program created; only this frees
 * chunks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/view.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

enum { OPTION_CONTEXT = 1, OPTION_SITE, OPTION_NAMED, OPTION_TIMEOUT };

#define LOOK_EVERY_MS 20 /* pause between two looks at what the program has reset */

static const struct option options_list[] = {{"context", required_argument, NULL, OPTION_CONTEXT},
                                             {"site", required_argument, NULL, OPTION_SITE},
                                             {"named", required_argument, NULL, OPTION_NAMED},
                                             {"timeout", required_argument, NULL, OPTION_TIMEOUT},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

static char *reset_context(struct target *target, uint32_t id) {
    struct wire_reset_request request = {.context = id};
    char *text = target_ask_text(target, WIRE_RESET, &request, sizeof request);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void reset_site(struct target *target, const char *site, const struct reading_names *names) {
    struct model model;
    struct target_load_options load = {.held = true};
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
        cli_die(
            CLI_REFUSED,
            "%s has no allocation site that matches \"%s\", and nothing was reset; " VIEW_SITE_HINT
            "; see memctx dump --flat",
            model.source, site);
    }
    printf("reset %zu contexts\n", count);
}

struct answers {
    int64_t asked, reset, freed_bytes;
};

/* Sends "ask NAME", which asks the program to reset its contexts of this name, or "look NAME",
 * which asks only how many of them it has reset. */
static struct answers ask_named(struct target *target, const char *verb, const char *name) {
    struct answers answers = {0};
    char *request = cli_format("%s %s", verb, name);
    char *text = target_ask_text(target, WIRE_RESET_NAMED, request, strlen(request));
    if (sscanf(text, "%" SCNd64 "\t%" SCNd64 "\t%" SCNd64, &answers.asked, &answers.reset,
               &answers.freed_bytes) != 3)
        cli_die(CLI_REFUSED,
                "%s: unexpected answer; use the memctx that was built with its library",
                target->client.source);
    free(text);
    free(request);
    return answers;
}

static void reset_named(struct target *target, const char *name, int64_t timeout_s) {
    struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    struct answers answers = ask_named(target, "ask", name);
    if (answers.asked == 0) {
        cli_die(CLI_REFUSED, "%s has no context named \"%s\"; see memctx dump",
                target->client.source, name);
    }
    for (int64_t left = timeout_s * 1000; answers.reset < answers.asked && left > 0;
         left -= LOOK_EVERY_MS) {
        nanosleep(&pause, NULL);
        answers = ask_named(target, "look", name);
    }
    if (answers.asked == 0) {
        cli_die(CLI_REFUSED,
                "%s no longer knows the contexts named \"%s\" that were asked; see memctx dump",
                target->client.source, name);
    }
    printf("%" PRId64 " of %" PRId64 " contexts named \"%s\" were reset, %" PRId64 " bytes freed\n",
           answers.reset, answers.asked, name, answers.freed_bytes);
    if (answers.reset < answers.asked) {
        cli_die(CLI_REFUSED,
                "the other contexts were not reset within %" PRId64
                " s; the program resets them when it next calls memctx_reset_requested()",
                timeout_s);
    }
}

int reset_main(int argc, char **argv) {
    struct reading_names names = {0};
    const char *site = NULL;
    const char *named = NULL;
    int64_t context = -1, timeout_s = 10;
    struct target target;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1)
        if (option == OPTION_CONTEXT)
            context = cli_parse_number("--context", optarg, 0, WIRE_NONE - 1);
        else if (option == OPTION_SITE)
            site = optarg;
        else if (option == OPTION_NAMED)
            named = optarg;
        else if (option == OPTION_TIMEOUT)
            timeout_s = cli_parse_number("--timeout", optarg, 0, 86400);
        else
            reading_take(&names, option);
    const char *word = reading_target_word(argc, argv, 1);
    if ((site != NULL) + (context >= 0) + (named != NULL) > 1)
        cli_usage("--context, --site and --named exclude each other; give one of them");
    if (site) {
        regex_t regex;
        view_compile_site(&regex, site);
        regfree(&regex);
    }
    target_open_socket(&target, word);
    if (named)
        reset_named(&target, named, timeout_s);
    else if (site)
        reset_site(&target, site, &names);
    else
        printf("%s\n", reset_context(&target, context >= 0 ? (uint32_t)context : WIRE_NONE));
    return cli_finish_output(CLI_DONE);
}
