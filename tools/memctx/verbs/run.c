/* SPDX-License-Identifier: MIT */
/*
 * run.c - `memctx run`: starts a program with the library preloaded.
 *
 * The command becomes the program (exec): the pid, the signals and the exit status are the
 * program's.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memctx/record.h>

#include "rules/rule_start.h"
#include "target/program.h"
#include "target/recording.h"
#include "verbs/record_names.h"
#include "verbs/rule_check.h"
#include "verbs/settings.h"
#include "verbs/verbs.h"

#define LIBRARY "libmemctx.so"

enum {
    OPTION_DEPTH = 1,
    OPTION_VERIFY,
    OPTION_NO_CHILDREN,
    OPTION_SET,
    OPTION_RULE,
    OPTION_MARKS,
    OPTION_RECORD,
    OPTION_NAMES
};

static const struct option options_list[] = {{"depth", required_argument, NULL, OPTION_DEPTH},
                                             {"verify", required_argument, NULL, OPTION_VERIFY},
                                             {"no-children", no_argument, NULL, OPTION_NO_CHILDREN},
                                             {"set", required_argument, NULL, OPTION_SET},
                                             {"rule", required_argument, NULL, OPTION_RULE},
                                             {"marks", required_argument, NULL, OPTION_MARKS},
                                             {"record", optional_argument, NULL, OPTION_RECORD},
                                             {"names", no_argument, NULL, OPTION_NAMES},
                                             {"verbose", no_argument, NULL, 'v'},
                                             CLI_COMMON_OPTIONS};

static void set_variable(const char *name, const char *value) {
    if (setenv(name, value, 1) != 0)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
}

static void set_option(const char *name, const char *value) {
    const struct settings_entry *entry = settings_find(name);
    if (!entry)
        cli_usage("unknown option name \"%s\"%s", name,
                  settings_suggest(name, "; see memctx options"));
    if (!settings_accepts(entry, value))
        cli_usage("%s takes %s; got \"%s\"; see memctx options", name, settings_describe(entry),
                  value);
    set_variable(entry->variable, value);
}

static void set_pair(const char *pair) {
    const char *equals = strchr(pair, '=');
    if (!equals)
        cli_usage("--set takes name=value; got \"%s\"", pair);
    char *name = strndup(pair, (size_t)(equals - pair));
    if (!name)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    set_option(name, equals + 1);
    free(name);
}

static void check_rule(const char *rule) {
    rule_check(rule);
    if (strncmp(rule, "context:", 8) == 0) {
        cli_usage(
            "the rule \"%.100s\" is not understood: no context has a number before the program "
            "runs; use memctx rules TARGET --add",
            rule);
    }
}

/* Checks the rules of one option --rule, which ';' or a newline separates, and adds them behind the
 * rules that MEMCTX_RULES has already: the first rule that matches a path applies. Returns the
 * number of the rules. */
static size_t add_rules_to_environment(const char *rules) {
    size_t count = 0;
    const char *before = getenv("MEMCTX_RULES");
    char *copy = cli_copy(rules), *rest = copy, *rule;
    if (rules[0] == '\0')
        check_rule(rules);
    while ((rule = strsep(&rest, ";\n"))) {
        rule += strspn(rule, " \t");
        if (rule[0] == '\0')
            continue;
        check_rule(rule);
        count++;
    }
    free(copy);
    char *all = before && before[0] != '\0' ? cli_format("%s;%s", before, rules) : cli_copy(rules);
    set_variable("MEMCTX_RULES", all);
    free(all);
    return count;
}

/* Makes the directory for recordings, and makes and removes a file in it, because the library
 * itself would only count the writes that fail. access() would not show that: root may write to
 * /proc and /sys, where nobody can make files. */
static void set_record(const char *directory) {
    char path[PATH_MAX];
    struct stat status;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        cli_die(CLI_REFUSED, "--record: %s cannot be made; %s; name another directory", directory,
                strerror(errno));
    if (!realpath(directory, path) || stat(path, &status) != 0)
        cli_die(CLI_REFUSED, "--record: %s cannot be read; %s; name another directory", directory,
                strerror(errno));
    if (!S_ISDIR(status.st_mode))
        cli_die(CLI_REFUSED, "--record takes a directory; %s is a file; name another directory",
                directory);
    if (strlen(path) > RECORD_FOLDER_MAX)
        cli_die(CLI_REFUSED, "--record: the path %s has more than %u bytes; choose a shorter one",
                path, RECORD_FOLDER_MAX);
    char *trial = cli_format("%s/.memctx-XXXXXX", path);
    int fd = mkstemp(trial);
    /* In /proc, mkstemp fails with ENOENT, although the directory is there. */
    if (fd < 0)
        cli_die(CLI_REFUSED, "--record: no file can be made in %s; %s; name another directory",
                directory, errno == ENOENT ? "it takes no files" : strerror(errno));
    close(fd);
    unlink(trial);
    free(trial);
    recording_warn_without_room(path, directory);
    set_variable("MEMCTX_RECORD", path);
}

/* Finds the library: in MEMCTX_LIBRARY, beside the command (a build), or below ../lib (an
 * installation). */
static char *find_library(void) {
    static const char *const places[] = {"", "../lib/memctx/", "../lib/",
                                         "../lib/x86_64-linux-gnu/memctx/",
                                         "../lib/x86_64-linux-gnu/"};
    char directory[PATH_MAX];
    const char *given = getenv("MEMCTX_LIBRARY");
    if (given && given[0] != '\0') {
        char *path = realpath(given, NULL);
        if (!path) {
            cli_die(CLI_REFUSED,
                    "MEMCTX_LIBRARY names %s, which cannot be read; %s; name " LIBRARY
                    " there, or unset it",
                    given, strerror(errno));
        }
        if (access(path, R_OK) == 0 && !program_is_library(path, LIBRARY))
            cli_die(CLI_REFUSED,
                    "MEMCTX_LIBRARY names %s, which is not " LIBRARY "; name that file", given);
        return path;
    }
    ssize_t length = readlink("/proc/self/exe", directory, sizeof directory - 1);
    if (length > 0) {
        directory[length] = '\0';
        char *slash = strrchr(directory, '/');
        slash[1] = '\0';
    }
    for (size_t i = 0; length > 0 && i < sizeof places / sizeof places[0]; i++) {
        char *candidate = cli_format("%s%s%s", directory, places[i], LIBRARY);
        char *path = realpath(candidate, NULL);
        free(candidate);
        if (path)
            return path;
    }
    cli_die(CLI_REFUSED,
            LIBRARY " is neither beside this command nor in ../lib/memctx or ../lib; build it with "
                    "make, or name it in MEMCTX_LIBRARY");
}

/* Puts the library in front of LD_PRELOAD, so that its malloc is found first. Earlier entries stay.
 */
static void set_preload(const char *library) {
    const char *before = getenv("LD_PRELOAD");
    if (strpbrk(library, ": ")) {
        cli_die(
            CLI_REFUSED,
            "%s cannot be preloaded; LD_PRELOAD cannot hold a path with a space or a colon; move "
            "the library",
            library);
    }
    if (access(library, R_OK) != 0)
        cli_die(CLI_REFUSED, "%s cannot be read; %s; see its permissions (ls -l)", library,
                strerror(errno));
    char *value =
        before && before[0] != '\0' ? cli_format("%s:%s", library, before) : cli_copy(library);
    set_variable("LD_PRELOAD", value);
    free(value);
}

int run_main(int argc, char **argv) {
    struct cli_failure failure;
    const char *directory = NULL; /* directory of --record; NULL: the current directory */
    bool records = false, names = false;
    size_t rules = 0;
    char *path;
    char pid[24];
    int option;
    /* "+" ends the options at the first word that is no option; later options are the program's. */
    while ((option = cli_next_option(argc, argv, "+:vhV", options_list)) != -1) {
        switch (option) {
        case OPTION_DEPTH: set_option("depth", optarg); break;
        case OPTION_VERIFY: set_option("verify", optarg); break;
        case OPTION_NO_CHILDREN: set_variable("MEMCTX_NO_CHILDREN", "1"); break;
        case OPTION_SET: set_pair(optarg); break;
        case OPTION_MARKS: set_option("marks", optarg); break;
        case OPTION_RECORD:
            records = true;
            directory = optarg;
            break;
        case OPTION_NAMES: names = true; break;
        case OPTION_RULE: rules += add_rules_to_environment(optarg); break;
        case 'v': set_variable("MEMCTX_VERBOSE", "1"); break;
        default: break;
        }
    }
    if (optind >= argc)
        cli_usage("missing PROGRAM");
    if (names && !records)
        cli_usage("--names keeps names of functions in a recording; add --record");
    if (records)
        set_record(directory ? directory : ".");
    if (!program_find(argv[optind], &path, &failure)) {
        if (records && !directory && optind + 1 < argc)
            cli_die(failure.code, "%s; if that is the directory to record in, write --record=%s",
                    failure.text, argv[optind]);
        cli_die_failure(&failure);
    }
    if (!program_check(path, &failure))
        cli_die_failure(&failure);
    settings_warn_of_misspelled();
    char *library = find_library();
    set_preload(library);
    rule_start_resolve(path, library, rules);
    if (names)
        record_names_start(getenv("MEMCTX_RECORD"), argv, argc);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    set_variable("MEMCTX_RUN_PID", pid);
    /* The argument list begins with the name as it was given, as a shell passes it. execvp also
     * runs a script without "#!" by the shell. */
    execvp(path, argv + optind);
    int error = errno;
    cli_die(error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE,
            "%s: cannot be executed; %s; see its permissions (ls -l)", argv[optind],
            strerror(error));
}
