/* SPDX-License-Identifier: MIT */
/* cli.c - messages, memory and argument parsing of the command. */
#include "base/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/help.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "base/quantity.h"
#include "base/terminal.h"

const struct cli_verb *cli_current_verb;
static const char *const no_words[] = {NULL};
const char *const *cli_words = no_words;

/* Prints a message. Replaces control characters in it, because messages hold words that others
 * chose: names of files and processes, answers of a target. */
static void print_message(const char *format, va_list arguments) {
    char *text;
    progress_end();
    fflush(stdout);
    bool made = vasprintf(&text, format, arguments) >= 0;
    fprintf(stderr, CLI_MESSAGE_HEAD "%s\n", made ? cli_clean_bytes(text) : CLI_NO_MEMORY);
    if (made)
        free(text);
}

void cli_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
}

void cli_die(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    exit(code);
}

char *cli_find_reason(char *text) {
    static const char head[] = CLI_MESSAGE_HEAD;
    char *reason = NULL, *last = text;
    for (char *line = text; *line != '\0';) {
        last = line;
        if (strncmp(line, head, sizeof head - 1) == 0)
            reason = line + sizeof head - 1;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    reason = reason ? reason : last;
    reason[strcspn(reason, "\n")] = '\0';
    return reason;
}

void cli_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    if (cli_current_verb) {
        fprintf(stderr, "usage: memctx %s %s\n", cli_current_verb->name,
                cli_current_verb->arguments);
        fprintf(stderr, "see memctx %s --help\n", cli_current_verb->name);
    } else {
        fprintf(stderr, "see memctx --help\n");
    }
    exit(CLI_USAGE);
}

void cli_set_failure(struct cli_failure *failure, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    failure->code = code;
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
    cli_clean(failure->text);
}

void cli_die_failure(const struct cli_failure *failure) {
    cli_die(failure->code, "%s", failure->text);
}

void *cli_alloc(size_t count, size_t size_bytes) {
    void *memory = calloc(count > 0 ? count : 1, size_bytes);
    if (!memory) {
        cli_die(CLI_REFUSED, CLI_NO_MEMORY "; %zu elements of %zu bytes were needed", count,
                size_bytes);
    }
    return memory;
}

void *cli_grow(void *array, size_t count, size_t size_bytes) {
    void *memory = reallocarray(array, count > 0 ? count : 1, size_bytes);
    if (!memory) {
        cli_die(CLI_REFUSED, CLI_NO_MEMORY "; %zu elements of %zu bytes were needed", count,
                size_bytes);
    }
    return memory;
}

char *cli_copy(const char *text) {
    char *copy = strdup(text);
    if (!copy)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    return copy;
}

char *cli_format(const char *format, ...) {
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    return text;
}

char *cli_hide_password(const char *text) {
    const char *scheme = strstr(text, "://"), *at = scheme ? strrchr(scheme, '@') : NULL;
    return at ? cli_format("%.*s***%s", (int)(scheme + 3 - text), text, at) : cli_copy(text);
}

char *cli_quote(const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=-";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0')
        return cli_copy(word);
    char *text = cli_alloc(4 * strlen(word) + 3, 1), *to = text;
    *to++ = '\'';
    for (; *word != '\0'; word++)
        if (*word == '\'')
            to = stpcpy(to, "'\\''");
        else
            *to++ = *word;
    *to = '\'';
    return text;
}

/* Replaces control characters. `bytes`: also those bytes from 0x80 to 0x9f that are no UTF-8. */
static char *clean(char *text, bool bytes) {
    for (unsigned char *at = (unsigned char *)text; *at != '\0';) {
        size_t length = json_utf8_length((const char *)at);
        bool control = length == 1   ? *at < 0x20 || *at == 0x7f
                       : length == 2 ? *at == 0xc2 && at[1] < 0xa0 /* U+0080 to U+009F */
                                     : length == 0 && *at < 0xa0 && bytes;
        length = length > 0 ? length : 1;
        if (control)
            memset(at, '?', length);
        at += length;
    }
    return text;
}

char *cli_clean(char *text) {
    return clean(text, false);
}

char *cli_clean_bytes(char *text) {
    return clean(text, true);
}

/* Ends the command because of an unknown long option, a short form of several options, or a value
 * for an option that takes none. */
static _Noreturn void refuse_option(const char *word, const struct option *options) {
    size_t length = strcspn(word + 2, "="), count = 0;
    char *name = cli_format("%.*s", (int)length, word + 2), *matching = cli_copy("");
    struct nearest nearest = nearest_begin(name);
    for (; options->name; options++) {
        nearest_offer(&nearest, options->name);
        if (length == 0 || strncmp(options->name, name, length) != 0)
            continue;
        char *longer = cli_format("%s%s--%s", matching, count++ > 0 ? ", " : "", options->name);
        free(matching);
        matching = longer;
    }
    if (count == 1)
        cli_usage("%s takes no value; got %s", matching, word);
    if (count > 1)
        cli_usage("--%s is the beginning of %s; write more of it", name, matching);
    cli_usage("unknown option --%s%s", name, nearest_text(&nearest, "--", ""));
}

int cli_next_option(int argc, char **argv, const char *letters, const struct option *options) {
    opterr = 0;
    int at = optind;
    int option = getopt_long(argc, argv, letters, options, NULL);
    switch (option) {
    case 'h': cli_print_verb_help(cli_current_verb); exit(cli_finish_output(CLI_DONE));
    case 'V': printf("memctx %s\n", CLI_VERSION); exit(cli_finish_output(CLI_DONE));
    case ':': cli_usage("option %s needs a value", argv[optind - 1]);
    case '?': {
        /* The word of a long option stands just before optind; a short option may stand inside a
         * word. */
        const char *word = optind > at ? argv[optind - 1] : argv[optind];
        if (optopt != 0 && (!word || strncmp(word, "--", 2) != 0))
            cli_usage("unknown option -%c", optopt);
        refuse_option(word, options);
    }
    default: return option;
    }
}

bool cli_is_number(const char *text, int64_t *value) {
    char *end;
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0';
}

int64_t cli_parse_number(const char *what, const char *text, int64_t minimum, int64_t maximum) {
    int64_t value;
    if (!cli_is_number(text, &value) || value < minimum || value > maximum) {
        cli_usage("%s takes a number from %lld to %lld; got \"%s\"", what, (long long)minimum,
                  (long long)maximum, text);
    }
    return value;
}

int64_t cli_parse_seconds(const char *what, const char *text, int64_t minimum, int64_t maximum) {
    int64_t us;
    bool valid = quantity_read_time(text, text + strlen(text), &us) && us % QUANTITY_US_PER_S == 0;
    if (!valid || us / QUANTITY_US_PER_S < minimum || us / QUANTITY_US_PER_S > maximum) {
        cli_usage("%s takes a time from %llds to %lldh in whole seconds, such as 90 or 10m; got "
                  "\"%s\"",
                  what, (long long)minimum, (long long)maximum / 3600, text);
    }
    return us / QUANTITY_US_PER_S;
}

int64_t cli_parse_bytes(const char *what, const char *text) {
    int64_t bytes;
    if (!quantity_read_size(text, text + strlen(text), &bytes))
        cli_usage("%s takes a number of bytes, which may end in K, M, G or T; got \"%s\"", what,
                  text);
    return bytes;
}

bool cli_ignores_signal(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int cli_finish_output(int code) {
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    int error = errno;
    if (terminal_end())
        return code; /* the user left the pager early, so a write that failed is no error */
    if (failed) {
        fprintf(stderr, "memctx: could not write the output; %s; write it to another file\n",
                strerror(error));
        return CLI_REFUSED;
    }
    return code;
}

void cli_print_verb_help(const struct cli_verb *verb) {
    char *text = cli_format("usage: memctx %s %s\n\n%s\n", verb->name, verb->arguments, verb->help);
    help_print(text);
    free(text);
}
