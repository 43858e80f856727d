/* SPDX-License-Identifier: MIT */
/*
 * options.c - prints the manual page's list of MEMCTX_* settings, from the list that the library's
 * parser is made from (include/memctx/options.h), so that the page cannot drift from it.
 */
#include <stdio.h>

#include "memctx/options.h"

struct option {
    const char *name;
    const char *help;
    const char *const *words; /* NULL: a number */
    long fallback, minimum, maximum;
    int live;
};

static const char *const control_mode_words[] = {MEMCTX_CONTROL_MODE_WORDS};
static const char *const fold_mode_words[] = {MEMCTX_FOLD_MODE_WORDS};
static const char *const thp_mode_words[] = {MEMCTX_THP_MODE_WORDS};
static const char *const marks_words[] = {
    "off"}; /* marks an option with values of memctx/marks.h */

#define WORDS_INT NULL
#define WORDS_CONTROL_MODE control_mode_words
#define WORDS_FOLD_MODE fold_mode_words
#define WORDS_SIZE NULL
#define WORDS_MARKS marks_words
#define WORDS_THP_MODE thp_mode_words
#define ROW(field, NAME, kind, fallback, minimum, maximum, live, help)                             \
    {#NAME, help, WORDS_##kind, fallback, minimum, maximum, live},

/* Writes a backslash as \e, because mdoc takes a backslash for the start of an escape. The caller
 * has written \& before, so that mdoc takes no leading dot or quote for a request. */
static void print_text(const char *text) {
    for (; *text != 0; text++) {
        if (*text == '\\') {
            fputs("\\e", stdout);
        } else {
            putchar(*text);
        }
    }
}

int main(void) {
    static const struct option options[] = {MEMCTX_OPTIONS(ROW)};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct option *option = &options[i];
        printf(".It Ev MEMCTX_%s\n\\&", option->name);
        print_text(option->help);
        printf(".\n");
        if (option->words == marks_words) {
            printf("The value is %s; the default is off.\n", MEMCTX_MARKS_SYNTAX);
        } else if (option->words != NULL) {
            printf("The values are");
            for (long word = option->minimum; word <= option->maximum; word++) {
                printf("\n.Cm %s%s", option->words[word], word < option->maximum ? " ," : " ;");
            }
            printf("\nthe default is\n.Cm %s .\n", option->words[option->fallback]);
        } else if (option->fallback < 0) {
            printf("Bytes from %ld on, with K, M or G, or 1%% to 50%%; the default is %ld%%.\n",
                   option->minimum, -option->fallback);
        } else {
            printf("From %ld to %ld; the default is %ld.\n", option->minimum, option->maximum,
                   option->fallback);
        }
        if (option->live) {
            printf("Can be changed while the program runs.\n");
        }
    }
    return 0;
}
