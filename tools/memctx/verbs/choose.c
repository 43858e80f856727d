/* SPDX-License-Identifier: MIT */
/* choose.c - finds the contexts that a command line chooses (ids, --context, --site), and sends
 * requests about them. */
#include "verbs/choose.h"

#include <inttypes.h>
#include <stdlib.h>

#include "model/selector.h"
#include "model/view.h"

/* Adds the context with the id `word`, and all contexts below it. A parent stands before its
 * children in the model, so one pass finds them. */
static void choose_below(struct chosen *chosen, const struct model *model, const char *word) {
    int64_t id;
    uint32_t root = WIRE_NONE;
    if (!cli_is_number(word, &id)) {
        cli_usage("a CONTEXT is a number that memctx frag or memctx dump --json shows; got \"%s\"",
                  word);
    }
    if (id >= 0 && id < WIRE_NONE)
        root = model_find_context(model, (uint32_t)id);
    if (root == WIRE_NONE)
        cli_die(CLI_REFUSED, "%s has no context %s; see memctx frag %" PRId64, model->source, word,
                model->pid);
    bool *below = cli_alloc(model->context_count, sizeof *below);
    for (size_t i = root; i < model->context_count; i++) {
        uint32_t parent = model->contexts[i].parent;
        below[i] = i == root || (parent != WIRE_NONE && below[parent]);
        chosen->members[i] |= below[i];
    }
    free(below);
}

static const struct option options[] = {{"json", no_argument, NULL, READING_JSON},
                                        READING_UNIT_OPTIONS,
                                        {"site", required_argument, NULL, CHOOSE_SITE},
                                        {"context", required_argument, NULL, CHOOSE_CONTEXT},
                                        READING_NAME_OPTIONS,
                                        CLI_COMMON_OPTIONS};

void choose_take(struct choice *choice, int option) {
    switch (option) {
    case READING_JSON: choice->json = true; break;
    case READING_HUMAN:
    case READING_BYTES:
        choice->human = option == READING_HUMAN;
        choice->units = true;
        break;
    case CHOOSE_SITE: choice->site = optarg; break;
    case CHOOSE_CONTEXT:
        selector_check(optarg);
        choice->selector = optarg;
        break;
    default: reading_take(&choice->names, option); break;
    }
}

void choose_check(const struct choice *choice) {
    if ((choice->id_count > 0) + (choice->site != NULL) + (choice->selector != NULL) > 1)
        cli_usage("contexts are chosen twice; give their numbers, --context or --site REGEX");
}

void choose_parse(struct choice *choice, int argc, char **argv) {
    int option;
    *choice = (struct choice){.human = reading_wants_human()};
    while ((option = cli_next_option(argc, argv, ":hV", options)) != -1)
        choose_take(choice, option);
    choice->target = reading_target_word(argc, argv, INT32_MAX);
    choice->ids = argv + optind + 1;
    choice->id_count = (size_t)(argc - optind - 1);
    choose_check(choice);
}

bool choose_chooses(const struct choice *choice) {
    return choice->id_count > 0 || choice->site || choice->selector;
}

char *choose_write(const struct choice *choice) {
    char *text = choice->site       ? cli_quote(choice->site)
                 : choice->selector ? cli_copy(choice->selector)
                                    : cli_copy(choice->ids[0]);
    const char *option = choice->site ? "--site " : choice->selector ? "--context " : "";
    char *words = cli_format("%s%s", option, text);
    free(text);
    for (size_t i = 1; i < choice->id_count; i++) {
        char *longer = cli_format("%s %s", words, choice->ids[i]);
        free(words);
        words = longer;
    }
    return words;
}

void choose_contexts(struct chosen *chosen, struct target *target, struct model *model,
                     const struct choice *choice) {
    struct target_load_options load = {
        .flags = MODEL_PINNED | MODEL_RESIDENT | MODEL_THREADS, .pages = true, .held = true};
    const char *site = choice->site;
    target_load(target, model, &load);
    if (site)
        reading_resolve(model, target, &choice->names);
    chosen->members = cli_alloc(model->context_count, sizeof *chosen->members);
    chosen->count = 0;
    for (size_t i = 0; i < choice->id_count; i++)
        choose_below(chosen, model, choice->ids[i]);
    if (choice->selector) {
        bool *selected = selector_members(model, choice->selector);
        for (size_t i = 0; i < model->context_count; i++)
            chosen->members[i] |= selected[i];
        free(selected);
    }
    if (site) {
        regex_t regex;
        view_compile_site(&regex, site);
        for (size_t i = 0; i < model->context_count; i++)
            chosen->members[i] |= view_matches_site(model, &model->contexts[i], &regex);
        regfree(&regex);
    }
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_totals *self = &model->contexts[i].figures->self;
        chosen->members[i] = chosen->members[i] && (model_totals_any(self) || self->allocs > 0);
        if (chosen->members[i] && chosen->count++ == 0)
            chosen->first = model->contexts[i].id;
    }
    if (chosen->count == 0 && site) {
        cli_die(CLI_REFUSED,
                "%s: nothing was allocated at a site that matches \"%s\"; " VIEW_SITE_HINT
                "; see memctx dump --flat %" PRId64,
                model->source, site, model->pid);
    }
    if (chosen->count == 0)
        cli_die(CLI_REFUSED,
                "%s: nothing was allocated in these contexts; see memctx dump --flat %" PRId64,
                model->source, model->pid);
}

void choose_send(struct target *target, const struct model *model, const struct chosen *chosen,
                 enum wire_type type, uint32_t verb, struct client_answer *answer) {
    size_t head = sizeof(struct wire_contexts_request), sent = 0, next = 0;
    struct wire_contexts_request *request =
        cli_alloc(1, head + WIRE_CONTEXTS_MAX * sizeof request->contexts[0]);
    do {
        struct cli_failure failure;
        request->count = 0;
        for (; next < model->context_count && request->count < WIRE_CONTEXTS_MAX; next++)
            if (chosen->members[next])
                request->contexts[request->count++] = model->contexts[next].id;
        sent += request->count;
        request->verb = verb | (sent < chosen->count ? WIRE_MORE : 0);
        if (!client_ask(&target->client, type, request,
                        head + request->count * sizeof request->contexts[0], answer, &failure))
            cli_die_failure(&failure);
        if (answer->status != WIRE_OK) {
            client_fail_refused(&target->client, answer, &failure);
            cli_die_failure(&failure);
        }
        if (sent < chosen->count)
            free(answer->body);
    } while (sent < chosen->count);
    free(request);
}
