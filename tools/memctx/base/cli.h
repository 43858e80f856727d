/* SPDX-License-Identifier: MIT */
/*
 * cli.h - what every verb of the command shares: exit codes, messages, memory, argument parsing.
 *
 * Most verbs run for a short time, so they do not free what they need until their end; a failure
 * that ends a verb ends the process. Code that must survive a failure (ps looks at many processes)
 * fills in a struct cli_failure instead.
 */
#ifndef MEMCTX_CLI_H
#define MEMCTX_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLI_VERSION MEMCTX_VERSION /* set by the Makefile */

/* The command that `make static` links loads no libraries. This text tells the user so
 * (tools/static/alone.c). In any other command the address is NULL. */
extern const char cli_static_reason[] __attribute__((weak));

enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1,          /* the target refused, an answer is incomplete, or another failure */
    CLI_USAGE = 2,            /* a mistake on the command line */
    CLI_NO_TARGET = 3,        /* no such process, a process without the library, or no socket */
    CLI_NOT_PERMITTED = 4,    /* the target belongs to another user, or may not be read */
    CLI_FOUND = 5,            /* doctor --fail-on found something */
    CLI_CANNOT_EXECUTE = 126, /* run: the program cannot be executed */
    CLI_NOT_FOUND = 127,      /* run: there is no such program */
};

/* One verb. verbs/verb_table.c has the table, from which the help and the dispatch are made. */
struct cli_verb {
    const char *name;
    const char *arguments; /* text behind the name in the usage line */
    const char *summary;   /* one line in `memctx --help` */
    const char *help;      /* text of `memctx VERB --help` below the usage line */
    int (*run)(int argc, char **argv);
};

/* A failure: the exit code of the command, and the message for the user. */
struct cli_failure {
    int code;
    char text[1024];
};

/* The verb that runs; main.c sets it before the verb starts. */
extern const struct cli_verb *cli_current_verb;
/* The words behind the verb, as they were given; the last one is NULL. main.c sets them. */
extern const char *const *cli_words;

#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Writes "memctx: TEXT" and a newline to standard error. */
void cli_warn(const char *format, ...) CLI_PRINTF(1, 2);
/* Writes the message as cli_warn does, then ends the command with this exit code. */
_Noreturn void cli_die(int code, const char *format, ...) CLI_PRINTF(2, 3);
/* Reports a mistake on the command line, points to the verb's help and exits with CLI_USAGE. */
_Noreturn void cli_usage(const char *format, ...) CLI_PRINTF(1, 2);
/* Returns the reason of a failure from all that a memctx command wrote to standard error: its last
 * message, without "memctx: ", because earlier messages are warnings. Without a message returns the
 * last line. Writes the 0 byte behind the reason into `text`. */
char *cli_find_reason(char *text);
/* Begins each message of the command. */
#define CLI_MESSAGE_HEAD "memctx: "

/* The whole message where memory is short. */
#define CLI_NO_MEMORY                                                                              \
    "out of memory; free some memory, or raise the limit (ulimit -v), and try again"
/* Ends a message about an answer of a process that cannot be right. */
#define CLI_ASK_AGAIN "; try again; if it happens again, the library in the process is broken"
/* Fills in a failure. The value of cli_fail is false, so that callers can return it. cli_fail is a
 * macro so that the compiler and clang's analyzer see this value. */
#define cli_fail(...) (cli_set_failure(__VA_ARGS__), false)
void cli_set_failure(struct cli_failure *failure, int code, const char *format, ...)
    CLI_PRINTF(3, 4);
_Noreturn void cli_die_failure(const struct cli_failure *failure);

/* These functions never return NULL: when memory runs out, they end the command. */
void *cli_alloc(size_t count, size_t size_bytes); /* returns zeroed memory */
void *cli_grow(void *array, size_t count, size_t size_bytes);
char *cli_copy(const char *text);
char *cli_format(const char *format, ...) CLI_PRINTF(1, 2);

/* Returns a word as a user writes it in a shell: in quotes, if the shell would change it. The
 * caller frees it. */
char *cli_quote(const char *word);
/* Returns a copy. If the text is a URL with a user's name and password, the copy has *** in their
 * place. */
char *cli_hide_password(const char *text);

/* Replaces control characters, which a terminal would obey, by '?'. Finds control characters above
 * U+007F in UTF-8 only. Returns `text`. */
char *cli_clean(char *text);
/* Like cli_clean, but also replaces bytes from 0x80 to 0x9f that are no UTF-8, which a terminal
 * without UTF-8 obeys. Only for text that is printed: the path of a file may have such bytes, and
 * the file could not be opened without them. */
char *cli_clean_bytes(char *text);

/* Returns the next option as getopt_long does; -1 behind the last one. Handles --help and
 * --version; a mistake on the command line ends the process. `options` must end in
 * CLI_COMMON_OPTIONS. */
int cli_next_option(int argc, char **argv, const char *letters, const struct option *options);
#define CLI_COMMON_OPTIONS                                                                         \
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {                       \
        NULL, 0, NULL, 0                                                                           \
    }

/* Parse a whole number; whole seconds, as a time with a unit or a number; and a number of bytes
 * that may end in K, M, G or T. Any other text is a usage error; `what` names the argument in the
 * message. cli_parse_seconds shows `maximum`, which is in seconds, as whole hours. */
int64_t cli_parse_number(const char *what, const char *text, int64_t minimum, int64_t maximum);
int64_t cli_parse_seconds(const char *what, const char *text, int64_t minimum, int64_t maximum);
int64_t cli_parse_bytes(const char *what, const char *text);
/* Sets *value and returns true if the whole text is a decimal number. */
bool cli_is_number(const char *text, int64_t *value);

/* Returns true if this process ignores the signal. A command that nohup started ignores SIGHUP, and
 * must not install a handler for it. */
bool cli_ignores_signal(int number);

/* Flushes standard output. Returns `code`; if the output cannot be written, prints a message and
 * returns CLI_REFUSED. */
int cli_finish_output(int code);

void cli_print_verb_help(const struct cli_verb *verb);

#endif
