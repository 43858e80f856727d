/* SPDX-License-Identifier: MIT */
/* watch_options.c - the command line of `memctx watch`. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/watch.h"

#define EVERY_MS_MIN 20
#define MEMORY_DEFAULT_BYTES (INT64_C(256) << 20)
#define MEMORY_MIN_BYTES (INT64_C(16) << 20)

enum {
    OPTION_WHEN = 1,
    OPTION_DO,
    OPTION_KEEP,
    OPTION_COOL,
    OPTION_DIR,
    OPTION_EVERY,
    OPTION_TIMEOUT,
    OPTION_MEMORY,
    OPTION_ALL,
    OPTION_MATCH,
    OPTION_CHECK
};

static const struct option options_list[] = {{"when", required_argument, NULL, OPTION_WHEN},
                                             {"do", required_argument, NULL, OPTION_DO},
                                             {"keep", required_argument, NULL, OPTION_KEEP},
                                             {"cool", required_argument, NULL, OPTION_COOL},
                                             {"dir", required_argument, NULL, OPTION_DIR},
                                             {"every", required_argument, NULL, OPTION_EVERY},
                                             {"timeout", required_argument, NULL, OPTION_TIMEOUT},
                                             {"memory", required_argument, NULL, OPTION_MEMORY},
                                             {"all", no_argument, NULL, OPTION_ALL},
                                             {"match", required_argument, NULL, OPTION_MATCH},
                                             {"check", no_argument, NULL, OPTION_CHECK},
                                             {"json", no_argument, NULL, READING_JSON},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

static struct watch_settings settings = {.every_ms = 1000,
                                         .cool_ms = 300000,
                                         .timeout_ms = 300000,
                                         .keep = 5,
                                         .memory_bytes = MEMORY_DEFAULT_BYTES};

static int64_t parse_time(const char *option, const char *text, int64_t least_ms) {
    int64_t ms;
    if (!condition_parse_time(text, &ms) || ms < least_ms)
        cli_usage("%s takes a time from %s to 24h, a number and ms, s, m or h; got \"%s\"", option,
                  least_ms == 0      ? "0"
                  : least_ms >= 1000 ? "1s"
                                     : "20ms",
                  text);
    return ms;
}

static int64_t parse_memory(const char *text) {
    int64_t bytes = cli_parse_bytes("--memory", text);
    settings.sets_memory = true;
    if (bytes != 0 && bytes < MEMORY_MIN_BYTES)
        cli_usage("--memory takes at least 16M, or 0 for no limit; got \"%s\"", text);
    return bytes;
}

static void add_condition(const char *text) {
    char error[CONDITION_ERROR_BYTES];
    if (settings.condition_count == WATCH_CONDITIONS_MAX)
        cli_usage("too many conditions; watch takes at most %d", WATCH_CONDITIONS_MAX);
    struct condition *condition = &settings.conditions[settings.condition_count++];
    if (!condition_parse(text, condition, error, sizeof error))
        cli_usage("--when: %s; a condition is %s; for example --when 'rss>85%%limit'", error,
                  CONDITION_GRAMMAR);
    settings.needs_target = settings.needs_target || condition_needs_target(condition);
    settings.needs_limit = settings.needs_limit || condition_needs_limit(condition);
    settings.needs_used = settings.needs_used || condition->kind == CONDITION_USED;
    settings.needs_pressure = settings.needs_pressure || condition->kind == CONDITION_PSI;
}

static void add_action(const char *text) {
    struct watch_action action = {.text = text};
    if (strcmp(text, "snapshot") == 0)
        action.kind = WATCH_SNAPSHOT;
    else if (strcmp(text, "doctor") == 0)
        action.kind = WATCH_DOCTOR;
    else if (strncmp(text, "exec:", 5) == 0 && text[5] != '\0')
        action = (struct watch_action){.kind = WATCH_EXEC, .text = "exec", .command = text + 5};
    else
        cli_usage("--do takes snapshot, doctor or exec:COMMAND; got \"%s\"", text);
    if (settings.action_count == WATCH_ACTIONS_MAX)
        cli_usage("too many actions; watch takes at most %d", WATCH_ACTIONS_MAX);
    settings.actions[settings.action_count++] = action;
}

static void take_option(int option) {
    switch (option) {
    case OPTION_WHEN: add_condition(optarg); break;
    case OPTION_DO: add_action(optarg); break;
    case OPTION_KEEP: settings.keep = cli_parse_number("--keep", optarg, 1, 100000); break;
    case OPTION_COOL: settings.cool_ms = parse_time("--cool", optarg, 0); break;
    case OPTION_DIR: settings.directory = optarg; break;
    case OPTION_EVERY: settings.every_ms = parse_time("--every", optarg, EVERY_MS_MIN); break;
    case OPTION_TIMEOUT: settings.timeout_ms = parse_time("--timeout", optarg, 1000); break;
    case OPTION_MEMORY: settings.memory_bytes = parse_memory(optarg); break;
    case OPTION_ALL: settings.all = true; break;
    case OPTION_MATCH:
        settings.match = optarg;
        settings.all = true;
        break;
    case OPTION_CHECK: settings.only_check = true; break;
    case READING_JSON: settings.json = true; break;
    default: reading_take(&settings.names, option); break;
    }
}

static void check_directory(const char *path) {
    struct stat status;
    bool found = stat(path, &status) == 0;
    if (!found || !S_ISDIR(status.st_mode))
        cli_die(CLI_REFUSED, "%s: files cannot be written there; %s; name a directory with --dir",
                path, strerror(found ? ENOTDIR : errno));
    if (access(path, W_OK | X_OK) != 0)
        cli_warn("%s cannot be written now; %s; files will fail until that changes", path,
                 strerror(errno));
}

/* Returns true if every condition is `ends`, and every action needs a process that has not ended.
 */
static bool never_acts(void) {
    for (size_t i = 0; i < settings.condition_count; i++)
        if (settings.conditions[i].kind != CONDITION_ENDS)
            return false;
    for (size_t i = 0; i < settings.action_count; i++)
        if (settings.actions[i].kind == WATCH_EXEC)
            return false;
    return true;
}

struct watch_settings watch_parse(int argc, char **argv) {
    int option;
    bool files = false;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1)
        take_option(option);
    if (settings.condition_count == 0)
        cli_usage(
            "watch needs a condition; give one with --when: %s; for example --when 'rss>85%%limit'",
            CONDITION_GRAMMAR);
    if (settings.all && optind < argc)
        cli_usage("%s takes no TARGET; got %s", settings.match ? "--match" : "--all", argv[optind]);
    if (settings.action_count == 0)
        add_action("snapshot");
    if (never_acts())
        cli_usage("a process that has ended cannot be asked; use --do exec:COMMAND with --when "
                  "ends, or add another condition");
    for (size_t i = 0; i < settings.action_count; i++)
        files = files || settings.actions[i].kind == WATCH_SNAPSHOT ||
                (settings.actions[i].kind == WATCH_DOCTOR && settings.json);
    if (files || settings.directory)
        check_directory(settings.directory ? settings.directory : ".");
    return settings;
}
