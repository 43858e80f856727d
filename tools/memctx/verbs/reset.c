/* SPDX-License-Identifier: MIT */
/* reset.c - `memctx reset`: sets counters to zero and peaks to the live bytes; touches no chunk.
 * With --named, asks the program to reset contexts that the program created; only this frees
 * chunks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "model/selector.h"
#include "model/view.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

enum { OPTION_CONTEXT = 1, OPTION_SITE, OPTION_NAMED, OPTION_TIMEOUT };

#define TIMEOUT_S 10     /* of --named, unless --timeout says another time */
#define LOOK_EVERY_MS 20 /* pause between two questions how many contexts were reset */

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             {"context", required_argument, NULL, OPTION_CONTEXT},
                                             {"site", required_argument, NULL, OPTION_SITE},
                                             {"named", required_argument, NULL, OPTION_NAMED},
                                             {"timeout", required_argument, NULL, OPTION_TIMEOUT},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

struct request {
    const char *selector; /* --context (model/selector.h); NULL: not given */
    const char *site, *named;
    int64_t timeout_s;
    bool json;
    struct reading_names names;
};

static void begin_json(struct json_writer *json, const struct target *target) {
    json_put_open(json, NULL, '{');
    json_put_text(json, "schema", "memctx-reset/1");
    json_put_integer(json, "pid", target->facts.pid);
}

static void end_json(struct json_writer *json) {
    json_put_close(json, '}');
    putchar('\n');
}

/* Resets a context and all below it; WIRE_NONE: the whole tree. */
static char *reset_context(struct target *target, uint32_t id) {
    struct wire_reset_request request = {.context = id};
    char *text = target_ask_text(target, WIRE_RESET, &request, sizeof request);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* Prints that counters and peaks were reset. `text`: the answer of the process. `count`: the number
 * of contexts that the command line chose; WIRE_UNKNOWN: the whole tree. */
static void tell_counters(const struct target *target, const struct request *request,
                          const char *text, int64_t count) {
    struct json_writer json = {.file = stdout};
    if (!request->json) {
        if (count > 1)
            printf("%" PRId64 " contexts: ", count);
        printf("%s\n", text);
        return;
    }
    begin_json(&json, target);
    json_put_integer(&json, "contexts", count);
    json_put_text(&json, "text", text);
    end_json(&json);
}

/* Resets the contexts of --context or --site, each with all below it. */
static void reset_chosen(struct target *target, const struct request *request) {
    struct model model;
    struct target_load_options load = {.held = true};
    regex_t regex;
    int64_t count = 0;
    char *text = NULL;
    target_load(target, &model, &load);
    bool *members = request->selector ? selector_members(&model, request->selector) : NULL;
    if (!members) {
        view_compile_site(&regex, request->site);
        reading_resolve(&model, target, &request->names);
    }
    for (size_t i = 0; i < model.context_count; i++) {
        if (members ? members[i] : view_matches_site(&model, &model.contexts[i], &regex)) {
            free(text);
            text = reset_context(target, model.contexts[i].id);
            count++;
        }
    }
    if (count == 0) {
        cli_die(
            CLI_REFUSED,
            "%s has no allocation site that matches \"%s\", and nothing was reset; " VIEW_SITE_HINT
            "; see memctx dump --flat %" PRId64,
            model.source, request->site, model.pid);
    }
    tell_counters(target, request, text, count);
    free(text);
    free(members);
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

static void tell_named(const struct target *target, const struct request *request,
                       const struct answers *answers) {
    struct json_writer json = {.file = stdout};
    if (!request->json) {
        printf("%" PRId64 " of %" PRId64 " contexts named \"%s\" were reset, %" PRId64
               " bytes freed\n",
               answers->reset, answers->asked, request->named, answers->freed_bytes);
        return;
    }
    begin_json(&json, target);
    json_put_text(&json, "name", request->named);
    json_put_integer(&json, "asked", answers->asked);
    json_put_integer(&json, "reset", answers->reset);
    json_put_integer(&json, "freed_bytes", answers->freed_bytes);
    end_json(&json);
}

static void reset_named(struct target *target, const struct request *request) {
    struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    struct answers answers = ask_named(target, "ask", request->named);
    if (answers.asked == 0) {
        cli_die(CLI_REFUSED, "%s has no context named \"%s\"; see memctx dump %d",
                target->client.source, request->named, (int)target->facts.pid);
    }
    for (int64_t left = request->timeout_s * 1000; answers.reset < answers.asked && left > 0;
         left -= LOOK_EVERY_MS) {
        nanosleep(&pause, NULL);
        answers = ask_named(target, "look", request->named);
    }
    if (answers.asked == 0) {
        cli_die(CLI_REFUSED,
                "%s no longer knows the contexts named \"%s\" that were asked; see memctx dump %d",
                target->client.source, request->named, (int)target->facts.pid);
    }
    tell_named(target, request, &answers);
    if (answers.reset < answers.asked) {
        cli_die(CLI_REFUSED,
                "the other contexts were not reset within %" PRId64
                " s; the program resets them when it next calls memctx_reset_requested()",
                request->timeout_s);
    }
}

static struct request parse(int argc, char **argv) {
    struct request request = {.timeout_s = -1};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case READING_JSON: request.json = true; break;
        case OPTION_CONTEXT:
            selector_check(optarg);
            request.selector = optarg;
            break;
        case OPTION_SITE: request.site = optarg; break;
        case OPTION_NAMED: request.named = optarg; break;
        case OPTION_TIMEOUT:
            request.timeout_s = cli_parse_seconds("--timeout", optarg, 0, 86400);
            break;
        default: reading_take(&request.names, option); break;
        }
    }
    return request;
}

int reset_main(int argc, char **argv) {
    struct request request = parse(argc, argv);
    struct target target;
    int64_t id = 0;
    const char *word = reading_target_word(argc, argv, 1);
    if ((request.site != NULL) + (request.selector != NULL) + (request.named != NULL) > 1)
        cli_usage("--context, --site and --named exclude each other; give one of them");
    if (request.timeout_s >= 0 && !request.named)
        cli_usage("--timeout says how long --named waits; add --named NAME");
    if (request.timeout_s < 0)
        request.timeout_s = TIMEOUT_S;
    if (request.site) {
        regex_t regex;
        view_compile_site(&regex, request.site);
        regfree(&regex);
    }
    target_open_socket(&target, word);
    if (request.named) {
        reset_named(&target, &request);
    } else if (request.site || (request.selector && !cli_is_number(request.selector, &id))) {
        reset_chosen(&target, &request);
    } else {
        /* Neither one context, given by its number, nor the whole tree requires that the contexts
         * are loaded. */
        char *text = reset_context(&target, request.selector ? (uint32_t)id : WIRE_NONE);
        tell_counters(&target, &request, text, request.selector ? 1 : WIRE_UNKNOWN);
        free(text);
    }
    return cli_finish_output(CLI_DONE);
}
