/* SPDX-License-Identifier: MIT */
/* shorten.c - shortens names of functions, step by step, while they are too long. */
#include "model/shorten.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/cli.h"

#define LONG_COLUMNS 60
#define CUT_COLUMNS 100

static const char operator_word[] = "operator";

/* Returns the length of an operator's name at `at` ("operator<<", "operator()", "operator->"),
 * whose signs are not brackets; 0 if there is no such name. */
static size_t operator_length(const char *start, const char *at) {
    size_t word = strlen(operator_word);
    if (strncmp(at, operator_word, word) != 0 ||
        (at > start && (isalnum((unsigned char)at[-1]) || at[-1] == '_')))
        return 0;
    size_t signs = strspn(at + word, "<>=-!+*/%^&|~,");
    if (strncmp(at + word, "()", 2) == 0 || strncmp(at + word, "[]", 2) == 0)
        signs = 2;
    /* In "operator< <int>" the sign ends at the space that the demangler writes. */
    return signs > 0 ? word + signs : 0;
}

/* Removes the text between < and >. */
static void drop_templates(char *name) {
    char *out = name;
    const char *at = name;
    int depth = 0;
    while (*at != '\0') {
        size_t length = operator_length(name, at);
        if (length > 0) {
            if (depth == 0) {
                memmove(out, at, length);
                out += length;
            }
            at += length;
            continue;
        }
        bool opens = *at == '<';
        bool closes = *at == '>' && depth > 0;
        if ((opens && depth == 0) || (closes && depth == 1) || (depth == 0 && !closes))
            *out++ = *at;
        depth += opens - closes;
        at++;
    }
    *out = '\0';
}

/* Replaces the parameters by "...". Parentheses in braces (lambdas) and around namespaces stay. */
static void drop_parameters(char *name) {
    static const char anonymous[] = "(anonymous namespace)";
    int braces = 0;
    for (char *at = name; *at != '\0'; at++) {
        size_t length = operator_length(name, at);
        if (length > 0) {
            at += length - 1;
        } else if (strncmp(at, anonymous, strlen(anonymous)) == 0) {
            at += strlen(anonymous) - 1;
        } else if (*at == '{') {
            braces++;
        } else if (*at == '}') {
            braces--;
        } else if (*at == '(' && braces == 0 && strlen(at) > 5) {
            strcpy(at, "(...)");
            return;
        }
    }
}

char *shorten_function(const char *name) {
    char *text = cli_copy(name);
    if (strlen(text) > LONG_COLUMNS)
        drop_templates(text);
    if (strlen(text) > LONG_COLUMNS)
        drop_parameters(text);
    if (strlen(text) > CUT_COLUMNS)
        strcpy(text + CUT_COLUMNS - 3, "...");
    return text;
}

const char *shorten_path(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] != '\0' ? slash + 1 : path;
}
