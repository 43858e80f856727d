/* SPDX-License-Identifier: MIT */
/* shorten.c - shortens names of functions step by step, as long as they are too long. */
#include "model/shorten.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"

#define LONG_COLUMNS 60
#define CUT_COLUMNS 100

static const char operator_word[] = "operator";

/* Returns the length of an operator's name at `at`: "operator<<", "operator()", "operator->". The
 * signs < > ( ) in it are not brackets. 0: there is no such name. */
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

/* Removes a return type "decltype(...)" or "decltype (...)": all up to the next space outside of
 * brackets. */
static void drop_decltype(char *name) {
    int parentheses = 0, arguments = 0;
    if (strncmp(name, "decltype(", 9) != 0 && strncmp(name, "decltype (", 10) != 0)
        return;
    for (char *at = strchr(name, '('); *at != '\0'; at++) {
        parentheses += (*at == '(') - (*at == ')');
        if (parentheses == 0) /* the signs < and > in an expression are not brackets */
            arguments += (*at == '<') - (*at == '>');
        if (*at == ' ' && parentheses == 0 && arguments == 0) {
            memmove(name, at + 1, strlen(at + 1) + 1);
            return;
        }
    }
}

/* Replaces the text between < and > by "...", or removes it if it is shorter. Rust writes "<Type as
 * Trait>::method": if a name begins with such brackets, the text in them stays. */
static void drop_templates(char *name) {
    char *out = name;
    const char *at = name, *opened = name;
    int depth = 0, kept = name[0] == '<'; /* text at a depth up to `kept` stays */
    while (*at != '\0') {
        size_t length = operator_length(name, at);
        if (length > 0) {
            if (depth <= kept) {
                memmove(out, at, length);
                out += length;
            }
            at += length;
            continue;
        }
        bool opens = *at == '<';
        bool closes = *at == '>' && depth > 0 && at[-1] != '-';
        if (opens && depth == kept)
            opened = at;
        if (closes && depth == kept + 1 && at - opened > 3) {
            memmove(out, "...", 3);
            out += 3;
        }
        if (depth <= kept || (closes && depth == kept + 1))
            *out++ = *at;
        depth += opens - closes;
        if (closes && depth == 0)
            kept = 0;
        at++;
    }
    *out = '\0';
}

/* Returns the end of the template arguments that begin at the '<' of `at`; NULL if they do not end.
 * *nested receives whether they have template arguments of their own. */
static char *end_of_arguments(const char *name, char *at, bool *nested) {
    int depth = 0;
    *nested = false;
    for (; *at != '\0'; at++) {
        size_t length = operator_length(name, at);
        if (length > 0) {
            at += length - 1;
        } else if (*at == '<') {
            *nested = *nested || depth > 0;
            depth++;
        } else if (*at == '>' && at[-1] != '-' && --depth == 0) {
            return at;
        }
    }
    return NULL;
}

/* Replaces the parameters by "...". Parentheses stay if they are in braces (lambdas), around a
 * namespace, or in brackets with which the name begins. */
static void drop_parameters(char *name) {
    static const char anonymous[] = "(anonymous namespace)";
    int braces = 0;
    bool nested;
    char *type = name[0] == '<' ? end_of_arguments(name, name, &nested) : NULL;
    for (char *at = type ? type : name; *at != '\0'; at++) {
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

/* Cuts a text that is too long, between two letters of UTF-8. */
static void cut(char *text) {
    if (strlen(text) <= CUT_COLUMNS)
        return;
    size_t at = CUT_COLUMNS - 3;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    strcpy(text + at, "...");
}

char *shorten_function(const char *name) {
    char *text = cli_copy(name);
    if (strlen(text) > LONG_COLUMNS)
        drop_decltype(text);
    if (strlen(text) > LONG_COLUMNS)
        drop_templates(text);
    if (strlen(text) > LONG_COLUMNS)
        drop_parameters(text);
    cut(text);
    return text;
}

/* --- names in prose -------------------------------------------------------------------------- */

#define ARGUMENTS_COLUMNS 20 /* longer template arguments become "..." */

/* Removes every occurrence of `part` from a name. */
static void remove_part(char *name, const char *part) {
    size_t length = strlen(part);
    for (char *at = name; (at = strstr(at, part));)
        memmove(at, at + length, strlen(at + length) + 1);
}

/* Replaces template arguments by "..." if they are long or nested; with `plain`, removes all of
 * them. Brackets with which the name begins, as in Rust's "<Type as Trait>::method", stay. */
static void replace_arguments(char *name, bool plain) {
    for (char *at = name; *at != '\0'; at++) {
        size_t length = operator_length(name, at);
        bool nested;
        if (length > 0) {
            at += length - 1;
            continue;
        }
        if (*at != '<' || at == name)
            continue;
        char *end = end_of_arguments(name, at, &nested);
        if (!end)
            return;
        if (plain) {
            memmove(at, end + 1, strlen(end + 1) + 1);
            at--; /* the next character stands here now */
        } else if (nested || end - at > ARGUMENTS_COLUMNS) {
            if (end - at > 4) { /* there is room for the three dots */
                memcpy(at + 1, "...", 3);
                memmove(at + 4, end, strlen(end) + 1);
                end = at + 4;
            }
            at = end;
        } else {
            at = end;
        }
    }
}

/* `at` is a parameter list. Returns its end, with a " const" behind it, if the list is that of an
 * outer function, in which the named function is: "f(int)::Local::g(int)", "A::f()
 * const::{lambda()#1}::operator()() const". Returns NULL if it is the list of the named
 * function. */
static char *end_of_outer_parameters(char *at) {
    static const char constant[] = " const";
    int depth = 0;
    for (; *at != '\0'; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0)
            break;
    }
    if (*at == '\0')
        return NULL;
    at++;
    if (strncmp(at, constant, sizeof constant - 1) == 0)
        at += sizeof constant - 1;
    return strncmp(at, "::", 2) == 0 ? at : NULL;
}

/* Returns the next parameter list, from `at` on, that stands outside of template arguments and
 * lambdas; NULL if there is none. */
static char *find_parameters(char *name, char *at) {
    int braces = 0;
    bool nested;
    for (; *at != '\0'; at++) {
        size_t length = operator_length(name, at);
        char *end = *at == '<' && length == 0 ? end_of_arguments(name, at, &nested) : NULL;
        if (length > 0)
            at += length - 1;
        else if (end)
            at = end;
        else if (*at == '{' || *at == '}')
            braces += *at == '{' ? 1 : -1;
        else if (*at == '(' && braces == 0 && at > name)
            return at;
    }
    return NULL;
}

/* Removes the parameter lists of outer functions (end_of_outer_parameters), and ends the name
 * before its own parameter list. */
static void cut_parameters(char *name) {
    char *at = name;
    while ((at = find_parameters(name, at))) {
        char *outer = end_of_outer_parameters(at);
        if (!outer) {
            *at = '\0';
            return;
        }
        memmove(at, outer, strlen(outer) + 1);
    }
}

/* Removes a return type: all up to the last space outside of brackets. The spaces in "operator new"
 * and "Type::operator bool" do not count. */
static void drop_return_type(char *name) {
    int depth = 0;
    char *start = name;
    for (char *at = name; *at != '\0'; at++) {
        if (strncmp(at, operator_word, strlen(operator_word)) == 0)
            break;
        if (strchr("<({[", *at))
            depth++;
        else if (strchr(">)}]", *at) && (at == name || at[-1] != '-'))
            depth--;
        else if (*at == ' ' && depth == 0)
            start = at + 1;
    }
    memmove(name, start, strlen(start) + 1);
}

/* Removes "::h" and 16 hexadecimal digits, which older Rust compilers add to a name. */
static void drop_hash(char *name) {
    size_t length = strlen(name);
    if (length > 19 && strncmp(name + length - 19, "::h", 3) == 0 &&
        strspn(name + length - 16, "0123456789abcdef") == 16)
        name[length - 19] = '\0';
}

char *shorten_to_name(const char *name, bool plain) {
    char *text = cli_copy(name);
    remove_part(text, "(anonymous namespace)::");
    remove_part(text, "__cxx11::");
    drop_decltype(text);
    drop_hash(text);
    /* Only a name with parameters can have a return type. In a name without parameters, as of
     * JavaScript or Python code, spaces have other meanings: "JS:*resolve /srv/app.js:10:5". */
    bool has_parameters = strchr(text, '(') != NULL;
    replace_arguments(text, plain);
    cut_parameters(text);
    if (has_parameters)
        drop_return_type(text);
    if (text[0] == '\0') {
        free(text);
        return cli_copy("?");
    }
    cut(text);
    return text;
}

bool shorten_has_parameters(const char *name) {
    char *text = cli_copy(name);
    remove_part(text, "(anonymous namespace)::");
    drop_decltype(text);
    bool has_parameters = find_parameters(text, text) != NULL;
    free(text);
    return has_parameters;
}

const char *shorten_path(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] != '\0' ? slash + 1 : path;
}
