/* SPDX-License-Identifier: MIT */
/* set.c - `memctx set`: changes options of a running process, or how its contexts are placed. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "target/recording.h"
#include "verbs/place.h"
#include "verbs/rule_check.h"
#include "verbs/settings.h"
#include "verbs/unfold.h"
#include "verbs/verbs.h"

enum { OPTION_FOR = CHOOSE_CONTEXT + 1 };

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             {"site", required_argument, NULL, CHOOSE_SITE},
                                             {"context", required_argument, NULL, CHOOSE_CONTEXT},
                                             {"for", required_argument, NULL, OPTION_FOR},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

/* Returns true if the text is more than a policy: it has options of rules behind a policy, or is
 * the option own, zero or guard. */
static bool asks_for_options(const char *wanted) {
    static const char *const options[] = {"own", "zero", "guard"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(wanted, options[i]) == 0)
            return true;
    return strpbrk(wanted, ",:") != NULL;
}

/* Sets a policy with options: each context gets a rule, which also applies to all contexts below
 * it. */
static void set_by_rule(const struct choice *choice, const char *wanted) {
    struct target target;
    if (choice->json || choice->units)
        cli_usage("--json, --human and --bytes do not go with policy options; see memctx rules "
                  "TARGET --json");
    if (choice->site) {
        cli_usage("--site takes no policy options; use a rule: memctx rules TARGET --add "
                  "'regex:%.100s=%.100s'",
                  choice->site, wanted);
    }
    if (choice->selector) {
        cli_usage("--context takes no policy options; give the numbers of contexts; got \"%.100s\"",
                  wanted);
    }
    if (strlen(wanted) > WIRE_REQUEST_MAX / 2)
        cli_usage("too many options; got \"%.100s\"", wanted);
    const char **rules = cli_alloc(choice->id_count + 1, sizeof *rules);
    /* All rules are checked before the first one is sent. */
    for (size_t i = 0; i < choice->id_count; i++) {
        int64_t id;
        if (!cli_is_number(choice->ids[i], &id)) {
            cli_usage("a CONTEXT is a number that memctx frag or memctx dump --json shows; got "
                      "\"%.100s\"",
                      choice->ids[i]);
        }
        rules[i] = cli_format("context:%s=%s", choice->ids[i], wanted);
        rule_check(rules[i]);
    }
    target_open_socket(&target, choice->target);
    rule_check_target(&target, rules, choice->id_count, false);
    for (size_t i = 0; i < choice->id_count; i++) {
        free(target_ask_text(&target, WIRE_RULES, rules[i], strlen(rules[i])));
        printf("added the rule %s; it applies to chunks allocated from now on\n", rules[i]);
    }
    free(rules);
}

static void set_policy(const struct choice *choice, const char *assignment) {
    static const char name[] = "policy=";
    if (strncmp(assignment, name, strlen(name)) != 0) {
        cli_usage("a context takes policy=POLICY, unfold or fold; "
                  "got \"%.100s\"",
                  assignment);
    }
    if (asks_for_options(assignment + strlen(name))) {
        set_by_rule(choice, assignment + strlen(name));
        return;
    }
    const struct placing *placing = placing_by_policy(assignment + strlen(name));
    if (!placing) {
        cli_usage("unknown policy \"%.100s\"; use default, aset, mixed, slab, "
                  "generation, bump or simple",
                  assignment + strlen(name));
    }
    place_contexts(choice, placing);
}

static bool is_about_folding(const char *what) {
    return strcmp(what, "unfold") == 0 || strcmp(what, "fold") == 0;
}

static void set_context(const struct choice *choice, const char *what, int64_t seconds) {
    bool unfold = strcmp(what, "unfold") == 0;
    choose_check(choice);
    if (!unfold && seconds >= 0)
        cli_usage("--for applies to unfold only; got \"%.100s\"", what);
    if (!is_about_folding(what)) {
        set_policy(choice, what);
        return;
    }
    if (choice->selector)
        cli_usage("--context does not go with %s; give the numbers of contexts", what);
    if (!choice->site && choice->id_count == 0) {
        cli_usage(
            "missing contexts; memctx dump shows recursive ones as (recursive: ...); give --site "
            "REGEX, or their numbers from memctx dump --json");
    }
    unfold_contexts(choice, !unfold ? 0 : seconds >= 0 ? seconds : UNFOLD_SECONDS);
}

/* Ends the command if the assignment NAME=VALUE, one of several, names no option that can be
 * changed while the program runs, or no value of that option. */
static void check_several(const char *assignment) {
    static const char none[] = "no option is changed";
    const char *value = strchr(assignment, '=') + 1;
    char *name = cli_format("%.*s", (int)(value - 1 - assignment), assignment);
    const struct settings_entry *entry = settings_find(name);
    if (strcmp(name, "record") == 0) /* not in the table of settings; the process judges it */
        return;
    if (!entry)
        cli_usage("%s; unknown option name \"%.100s\"; see memctx options", none, name);
    if (!entry->settable)
        cli_usage("%s; %s is fixed when the program starts; set it with memctx run --set %.100s",
                  none, name, assignment);
    if (!settings_accepts(entry, value))
        cli_usage("%s; %s takes %s; got \"%.100s\"", none, name, settings_describe(entry), value);
    free(name);
}

/* Ends the command if the assignment misspells the name of an option, or is policy=POLICY, which
 * needs contexts. The process judges all other names. */
static void check_name(const char *assignment) {
    char *name = cli_format("%.*s", (int)strcspn(assignment, "="), assignment);
    if (strcmp(name, "policy") == 0) {
        cli_usage("%.100s needs contexts in front of it; give their numbers from memctx dump "
                  "--json, --context ID,... or --site REGEX",
                  assignment);
    }
    const char *suggestion = settings_suggest(name, NULL);
    if (!settings_find(name) && strcmp(name, "record") != 0 && suggestion)
        cli_usage("unknown option name \"%.100s\"%s", name, suggestion);
    free(name);
}

/* Ends the command if the first word is an assignment instead of a TARGET. `next`: the word behind
 * it; NULL: none. */
static void check_target(const char *word, const char *next) {
    if (!strchr(word, '=') || target_is_file(word))
        return;
    if (!next || strchr(next, '='))
        cli_usage("set needs a TARGET in front of %.100s", word);
    cli_usage("the TARGET comes first: memctx set %.100s %.100s", next, word);
}

/* answers[i]: the process's answer to assignment i, "NAME is now VALUE". */
static void print_json(const struct target *target, char *const *assignments, char *const *answers,
                       size_t count) {
    static const char is_now[] = " is now ";
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-set/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_open(&json, "options", '[');
    for (size_t i = 0; i < count; i++) {
        const char *value = strstr(answers[i], is_now);
        char *name = cli_format("%.*s", (int)strcspn(assignments[i], "="), assignments[i]);
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "name", name);
        json_put_text(&json, "value", value ? value + strlen(is_now) : NULL);
        json_put_close(&json, '}');
        free(name);
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
}

/* Warns if the process begins to record on a full disk. */
static void warn_without_room(const struct target *target, const char *assignment) {
    static const char record[] = "record=/";
    const char *directory = assignment + sizeof record - 2;
    if (strncmp(assignment, record, sizeof record - 1) != 0)
        return;
    char *path = cli_format("/proc/%d/root%s", (int)target->facts.pid, directory);
    recording_warn_without_room(path, directory);
    free(path);
}

/* Sends the assignments, and prints the answers of the process. */
static void set_options(struct target *target, char *const *assignments, size_t count,
                        bool as_json) {
    char **answers = cli_alloc(count, sizeof *answers);
    struct cli_failure failure;
    for (size_t i = 0; i < count; i++) {
        answers[i] = client_ask_text(&target->client, WIRE_SET, assignments[i],
                                     strlen(assignments[i]), &failure);
        if (!answers[i])
            cli_die(failure.code, "%.100s: %s", cli_clean(assignments[i]), failure.text);
        answers[i][strcspn(answers[i], "\n")] = '\0';
        if (!as_json)
            printf("%s\n", answers[i]);
        warn_without_room(target, assignments[i]);
    }
    if (as_json)
        print_json(target, assignments, answers, count);
    for (size_t i = 0; i < count; i++)
        free(answers[i]);
    free(answers);
}

int set_main(int argc, char **argv) {
    struct target target;
    struct choice choice = {.human = reading_wants_human()};
    int64_t seconds = -1;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1)
        if (option == OPTION_FOR)
            seconds = cli_parse_seconds("--for", optarg, 1, WIRE_UNFOLD_SECONDS_MAX);
        else
            choose_take(&choice, option);
    const char *word = reading_target_word(argc, argv, argc);
    check_target(word, argv[optind + 1]);
    if (optind + 1 >= argc)
        cli_usage("set needs at least one name=value; see memctx options");
    int64_t context;
    if (choice.site || choice.selector || cli_is_number(argv[optind + 1], &context) ||
        is_about_folding(argv[argc - 1])) {
        choice.target = word;
        choice.ids = argv + optind + 1;
        choice.id_count = (size_t)(argc - optind - 2);
        set_context(&choice, argv[argc - 1], seconds);
        return cli_finish_output(CLI_DONE);
    }
    if (seconds >= 0)
        cli_usage("--for applies to unfold only; see memctx set TARGET CONTEXT unfold");
    if (choice.units)
        cli_usage("--human and --bytes apply to contexts; the value of an option has its own unit");
    /* All assignments are checked before the first one is sent. */
    for (int i = optind + 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (!equals || equals == argv[i] || strlen(argv[i]) > WIRE_REQUEST_MAX)
            cli_usage("set takes name=value; got \"%.100s\"", argv[i]);
        check_name(argv[i]);
        if (argc > optind + 2)
            check_several(argv[i]);
    }
    target_open_socket(&target, word);
    set_options(&target, argv + optind + 1, (size_t)(argc - optind - 1), choice.json);
    return cli_finish_output(CLI_DONE);
}
