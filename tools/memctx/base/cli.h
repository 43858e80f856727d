/* SPDX-License-Identifier: MIT */
/*
 * cli.h - what every verb of the command shares: exit codes, messages, memory, argument parsing.
 *
 * The command is one short-lived process with one thread: memory is taken and not given back, and
 * a failure that ends a verb ends the process. What must survive a failure (ps looks at many
 * processes) takes a struct cli_failure instead.
 */
#ifndef MEMCTX_CLI_H
#define MEMCTX_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLI_VERSION MEMCTX_VERSION /* the Makefile says which */

enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1,       /* the target said no, or an answer is incomplete */
    CLI_USAGE = 2,         /* the command line makes no sense */
    CLI_NO_TARGET = 3,     /* no such process, no library in it, or no socket */
    CLI_NOT_PERMITTED = 4, /* it belongs to somebody else */
    CLI_FOUND = 5,         /* doctor --fail-on found something */
    CLI_CANNOT_EXECUTE = 126,
    CLI_NOT_FOUND = 127,
};

/* One verb. The table of them is in main.c; the help and the dispatch come from it. */
struct cli_verb {
    const char *name;
    const char *arguments; /* after the name in the usage line */
    const char *summary;   /* one line in `memctx --help` */
    const char *help;      /* what `memctx VERB --help` prints below the usage line */
    int (*run)(int argc, char **argv);
};

/* Why something did not work: the exit code it leads to and the message. */
struct cli_failure {
    int code;
    char text[1024];
};

/* The verb that runs; main.c sets it before the verb starts. */
extern const struct cli_verb *cli_current_verb;

#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Writes "memctx: TEXT" and a newline to standard error. */
void cli_warn(const char *format, ...) CLI_PRINTF(1, 2);
/* The same, then exits with this code. */
_Noreturn void cli_die(int code, const char *format, ...) CLI_PRINTF(2, 3);
/* A mistake on the command line: says it, names the verb's help, exits with CLI_USAGE. */
_Noreturn void cli_usage(const char *format, ...) CLI_PRINTF(1, 2);
/* Fills in a failure; false, so that callers can return it. A macro, so that the compiler and
 * clang's analyzer know this value, too. */
#define cli_fail(...) (cli_set_failure(__VA_ARGS__), false)
void cli_set_failure(struct cli_failure *failure, int code, const char *format, ...)
    CLI_PRINTF(3, 4);
_Noreturn void cli_die_failure(const struct cli_failure *failure);

/* Memory; these never return NULL. */
void *cli_alloc(size_t count, size_t size_bytes); /* zeroed */
void *cli_grow(void *array, size_t count, size_t size_bytes);
char *cli_copy(const char *text);
char *cli_format(const char *format, ...) CLI_PRINTF(1, 2);

/* Replaces control characters, which could drive a terminal, by '?'. Returns its argument. */
char *cli_clean(char *text);

/* The value of the next option as getopt_long gives it; -1 at the end. --help and --version are
 * handled here, mistakes end the process. The list ends in CLI_COMMON_OPTIONS. */
int cli_next_option(int argc, char **argv, const char *letters, const struct option *options);
#define CLI_COMMON_OPTIONS                                                                         \
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {                       \
        NULL, 0, NULL, 0                                                                           \
    }

/* Whole numbers, and bytes with an optional K, M or G; what else is there is a usage error. */
int64_t cli_parse_number(const char *what, const char *text, int64_t minimum, int64_t maximum);
int64_t cli_parse_bytes(const char *what, const char *text);
/* False unless the whole text is a decimal number. */
bool cli_is_number(const char *text, int64_t *value);

/* Flushes standard output; CLI_REFUSED with a message where it could not be written, else code. */
int cli_finish_output(int code);

void cli_print_verb_help(const struct cli_verb *verb);

#endif
