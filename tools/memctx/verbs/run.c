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

#include "rules/rule_patterns.h"
#include "rules/rule_start.h"
#include "target/program.h"
#include "verbs/place.h"
#include "verbs/record_names.h"
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
        cli_die(CLI_REFUSED, "out of memory");
}

static void set_option(const char *name, const char *value) {
    const struct settings_entry *entry = settings_find(name);
    if (!entry)
        cli_usage("unknown option name \"%s\"; see memctx options", name);
    if (!settings_accepts(entry, value)) {
        if (settings_syntax(entry))
            cli_usage("%s takes %s; got \"%s\"", name, settings_syntax(entry), value);
        char lowest[24];
        snprintf(lowest, sizeof lowest, "%s", settings_text(entry, entry->minimum));
        cli_usage("%s takes a value from %s to %s; got \"%s\"; see memctx options", name, lowest,
                  settings_text(entry, entry->maximum), value);
    }
    set_variable(entry->variable, value);
}

static void set_pair(const char *pair) {
    const char *equals = strchr(pair, '=');
    if (!equals)
        cli_usage("--set takes name=value; got \"%s\"", pair);
    char *name = strndup(pair, (size_t)(equals - pair));
    if (!name)
        cli_die(CLI_REFUSED, "out of memory");
    set_option(name, equals + 1);
    free(name);
}

/* Reads a number of bytes, such as 64M. Returns -1 if the text is not such a number. */
static int64_t read_bytes(const char *text) {
    static const char units[] = "kKmMgG";
    size_t digits = strspn(text, "0123456789");
    int shift = 0;
    if (text[digits] != '\0') {
        const char *unit = strchr(units, text[digits]);
        if (!unit || text[digits + 1] != '\0')
            return -1;
        shift = 10 + (int)(unit - units) / 2 * 10;
    }
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    return digits == 0 || errno != 0 || number >= 1LL << (62 - shift) ? -1 : number << shift;
}

/* The policies, limits and options that the words of a rule, read so far, ask for. */
struct wanted {
    unsigned int policies, limits;
    bool mixed, own;
};

/* Reads the name of a policy, or one option. Returns the error in words; NULL: there is none. */
static const char *read_word(const char *word, struct wanted *wanted) {
    const struct placing *placing = placing_by_policy(word);
    bool page = strncmp(word, "page:", 5) == 0;
    if (placing) {
        wanted->mixed = placing->placement == WIRE_PLACE_SHARED;
        return wanted->policies++ == 0 ? NULL : "it has two policies";
    }
    if (strncmp(word, "limit:", 6) == 0 || strncmp(word, "warn:", 5) == 0) {
        if (read_bytes(strchr(word, ':') + 1) <= 0)
            return "a limit is a number of bytes, such as 64M";
        return wanted->limits++ == 0 ? NULL : "it has two limits";
    }
    if (page && read_bytes(word + 5) != 16 << 10 && read_bytes(word + 5) != 64 << 10)
        return "the size of a page is 16K or 64K";
    if (page || strcmp(word, "own") == 0 || strcmp(word, "zero") == 0)
        wanted->own = true;
    else if (strcmp(word, "guard") != 0)
        return "the policies are default, aset, mixed, slab, generation, bump and simple, the "
               "options own, page:16K, page:64K, limit:BYTES, warn:BYTES, guard and zero";
    return NULL;
}

/* Ends the command if the library would ignore the rule when the program starts. In the library,
 * src/rules/parse.c reads rules. */
static void check_rule(const char *rule) {
    static struct rule_patterns patterns;
    struct cli_failure failure;
    struct wanted wanted = {0};
    const char *equals = strrchr(rule, '='), *wrong = NULL;
    if (!equals || equals == rule)
        cli_usage("--rule takes PATTERN=POLICY,OPTIONS; got \"%.100s\"", rule);
    if (!rule_patterns_add(&patterns, rule, &failure))
        cli_usage("%s", failure.text);
    char *words = cli_copy(equals + 1), *rest = words, *word;
    while (!wrong && (word = strsep(&rest, ",")))
        wrong = read_word(word, &wanted);
    free(words);
    if (!wrong && wanted.mixed && wanted.own)
        wrong = "mixed has no pages of its own, but another option needs such pages";
    if (strncmp(rule, "regex:=", 7) == 0 || strncmp(rule, "file:=", 6) == 0 ||
        strncmp(rule, "module:=", 8) == 0)
        wrong = "the pattern has no name";
    if (strncmp(rule, "context:", 8) == 0)
        wrong = "no context has a number before the program runs; use memctx rules TARGET --add";
    if (wrong)
        cli_usage("the rule \"%.100s\" is not understood: %s", rule, wrong);
}

/* Checks the rules of one --rule (mostly one rule; else separated by ';'), and adds them behind the
 * rules that MEMCTX_RULES has already. If several rules match a path, the first of them applies. */
static void add_rules_to_environment(const char *rules) {
    const char *before = getenv("MEMCTX_RULES");
    char *copy = cli_copy(rules), *rest = copy, *rule;
    if (rules[0] == '\0')
        check_rule(rules);
    while ((rule = strsep(&rest, ";\n"))) {
        rule += strspn(rule, " \t");
        if (rule[0] != '\0')
            check_rule(rule);
    }
    free(copy);
    char *all = before && before[0] != '\0' ? cli_format("%s;%s", before, rules) : cli_copy(rules);
    set_variable("MEMCTX_RULES", all);
    free(all);
}

/* Makes the directory for recordings and checks that files can be made in it. The library itself
 * would only count the failed writes. */
static void set_record(const char *directory) {
    char path[PATH_MAX];
    struct stat status;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        cli_die(CLI_REFUSED, "--record: %s cannot be made; %s", directory, strerror(errno));
    if (!realpath(directory, path) || stat(path, &status) != 0)
        cli_die(CLI_REFUSED, "--record: %s cannot be read; %s", directory, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        cli_die(CLI_REFUSED, "--record takes a directory; %s is a file", directory);
    if (access(path, W_OK | X_OK) != 0)
        cli_die(CLI_REFUSED, "--record: no file can be made in %s; %s", directory, strerror(errno));
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
            cli_die(CLI_REFUSED, "MEMCTX_LIBRARY names %s, which cannot be read; %s", given,
                    strerror(errno));
        }
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
        cli_die(CLI_REFUSED, "%s cannot be read; %s", library, strerror(errno));
    char *value =
        before && before[0] != '\0' ? cli_format("%s:%s", library, before) : cli_copy(library);
    set_variable("LD_PRELOAD", value);
    free(value);
}

int run_main(int argc, char **argv) {
    struct cli_failure failure;
    const char *directory = NULL; /* directory of --record; NULL: the current directory */
    bool records = false, names = false;
    char *path;
    char pid[24];
    int option;
    /* "+" ends the options at the first word that is none; later options are the program's. */
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
        case OPTION_RULE: add_rules_to_environment(optarg); break;
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
    if (!program_find(argv[optind], &path, &failure) || !program_check(path, &failure))
        cli_die_failure(&failure);
    char *library = find_library();
    set_preload(library);
    rule_start_resolve(path, library);
    if (names)
        record_names_start(getenv("MEMCTX_RECORD"), argv, argc);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    set_variable("MEMCTX_RUN_PID", pid);
    /* The argument list begins with the name as it was given, as a shell passes it. execvp also
     * runs a script without "#!" by the shell. */
    execvp(path, argv + optind);
    int error = errno;
    cli_die(error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE, "%s: cannot be executed; %s",
            argv[optind], strerror(error));
}
