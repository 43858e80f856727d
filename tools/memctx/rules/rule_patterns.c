/* SPDX-License-Identifier: MIT */
/* rule_patterns.c - compares the patterns of rules with names; see rule_patterns.h. */
#include "rules/rule_patterns.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#define SYMBOL_MAX_BYTES 4096 /* the limit of demangle.c */

static const char *skip_word(const char *text, const char *word) {
    size_t length = strlen(word);
    return strncmp(text, word, length) == 0 ? text + length : NULL;
}

/* Makes a pattern for fnmatch. In a rule only * and ? are special, so the other special characters
 * of fnmatch are escaped. */
static char *make_glob(const char *pattern) {
    char *glob = cli_alloc(2 * strlen(pattern) + 1, 1), *to = glob;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '[' || *pattern == ']' || *pattern == '\\')
            *to++ = '\\';
        *to++ = *pattern;
    }
    return glob;
}

static bool compile(struct rule_pattern *pattern, const char *expression,
                    struct cli_failure *failure) {
    char why[200];
    int error = regcomp(&pattern->regex, expression, REG_EXTENDED | REG_NOSUB);
    if (error == 0)
        return true;
    regerror(error, &pattern->regex, why, sizeof why);
    return cli_fail(failure, CLI_REFUSED, "the rule \"%.100s\" is not understood: %s",
                    pattern->rule, why);
}

bool rule_patterns_add(struct rule_patterns *patterns, const char *rule,
                       struct cli_failure *failure) {
    const char *equals = strrchr(rule, '=');
    if (patterns->count == RULE_PATTERNS_MAX) {
        return cli_fail(failure, CLI_REFUSED,
                        "the rule \"%.100s\" is one too many; memctx takes at most %d rules", rule,
                        RULE_PATTERNS_MAX);
    }
    struct rule_pattern *pattern = &patterns->list[patterns->count];
    char *text = cli_copy(rule);
    text[equals ? equals - rule : 0] = '\0';
    *pattern = (struct rule_pattern){.kind = RULE_FUNCTION, .rule = cli_copy(rule)};
    const char *name = text, *rest;
    if ((rest = skip_word(text, "regex:"))) {
        pattern->kind = RULE_REGEX;
        name = rest;
    } else if ((rest = skip_word(text, "file:"))) {
        pattern->kind = RULE_FILE;
        name = rest;
    } else if (skip_word(text, "module:") || skip_word(text, "context:")) {
        pattern->kind = RULE_OTHER;
    }
    if (name[0] == '\0')
        pattern->kind = RULE_OTHER; /* the library reports the mistake */
    pattern->glob = make_glob(name);
    bool good = pattern->kind != RULE_REGEX || compile(pattern, name, failure);
    free(text);
    if (!good)
        return false;
    patterns->count++;
    patterns->any = patterns->any || pattern->kind != RULE_OTHER;
    patterns->shown =
        patterns->shown || (pattern->kind == RULE_FUNCTION && strpbrk(pattern->glob, "(<"));
    patterns->command_alone =
        patterns->command_alone || pattern->kind == RULE_REGEX || pattern->kind == RULE_FILE;
    return true;
}

/* --- names of functions ------------------------------------------------------------------ */

struct name_forms {
    const char *texts[64]; /* pointers into the buffers below */
    size_t count;
    char symbol[SYMBOL_MAX_BYTES], whole[SYMBOL_MAX_BYTES], joined[SYMBOL_MAX_BYTES];
    char parts[SYMBOL_MAX_BYTES], shown[SYMBOL_MAX_BYTES];
};

static void add_form(struct name_forms *forms, const char *text) {
    if (text[0] != '\0' && forms->count < sizeof forms->texts / sizeof forms->texts[0])
        forms->texts[forms->count++] = text;
}

/* Returns the length of an operator's name at the start of `text`; 0: there is none. `begin`: the
 * start of the whole name. */
static size_t operator_length(const char *text, const char *begin) {
    static const char word[] = "operator";
    bool starts = text == begin || !(isalnum((unsigned char)text[-1]) || text[-1] == '_');
    if (!starts || strncmp(text, word, sizeof word - 1) != 0)
        return 0;
    size_t marks = strspn(text + sizeof word - 1, "<>=!+-*/%^&|~,()[]");
    return marks > 0 ? sizeof word - 1 + marks : 0;
}

/* ns::type<int>::function<long> -> ns::type::function */
static void drop_templates(const char *name, char *to, size_t bytes) {
    size_t used = 0;
    int depth = 0;
    for (const char *at = name; *at != '\0' && used + 1 < bytes;) {
        size_t length = depth == 0 ? operator_length(at, name) : 0;
        if (length > 0 && used + length + 1 < bytes) {
            memcpy(to + used, at, length);
            used += length;
            at += length;
            continue;
        }
        depth += *at == '<';
        if (depth == 0)
            to[used++] = *at;
        depth -= *at == '>' && depth > 0;
        at++;
    }
    to[used] = '\0';
}

/* ns::function[abi:cxx11] -> ns::function */
static void drop_tags(char *name) {
    char *tag, *end;
    while ((tag = strstr(name, "[abi:")) && (end = strchr(tag, ']')))
        memmove(tag, end + 1, strlen(end + 1) + 1);
}

/* Demangles the name of a C++ or Rust function, without parameters. *rust: true for Rust. */
static char *demangle(const char *symbol, bool *rust) {
    bool older = strncmp(symbol, "_ZN", 3) == 0; /* C++, or the older names of Rust */
    char *name = older || strncmp(symbol, "_R", 2) == 0
                     ? cplus_demangle(symbol, DMGL_NO_OPTS | DMGL_RUST)
                     : NULL;
    *rust = name;
    if (!name && strncmp(symbol, "_Z", 2) == 0)
        name = cplus_demangle(symbol, DMGL_NO_OPTS | DMGL_GNU_V3);
    return name;
}

/* Adds the name of a C++ function that memctx dump shows, with parameters and template
 * arguments. */
static void add_shown(struct name_forms *forms) {
    char *name = cplus_demangle(forms->symbol, DMGL_GNU_V3 | DMGL_PARAMS | DMGL_ANSI);
    if (name && strlen(name) < sizeof forms->shown) {
        memcpy(forms->shown, name, strlen(name) + 1);
        add_form(forms, forms->shown);
    }
    free(name);
}

/* Makes the forms under which a function is compared, from the first `length` bytes of its symbol.
 * `shown`: also the name that memctx dump shows. */
static void make_forms(struct name_forms *forms, const char *symbol, size_t length, bool shown) {
    forms->count = 0;
    if (length >= sizeof forms->symbol)
        return;
    memcpy(forms->symbol, symbol, length);
    forms->symbol[length] = '\0';
    add_form(forms, forms->symbol);
    bool rust;
    char *name = demangle(forms->symbol, &rust);
    if (!name)
        return;
    drop_templates(name, forms->joined, sizeof forms->joined);
    /* the name as the command shows it: with tags, or <crate::type>::function in Rust */
    if (rust && strlen(name) < sizeof forms->whole)
        memcpy(forms->whole, name, strlen(name) + 1);
    else
        memcpy(forms->whole, forms->joined, sizeof forms->whole);
    free(name);
    if (shown && !rust)
        add_shown(forms);
    drop_tags(forms->joined);
    add_form(forms, forms->whole);
    add_form(forms, forms->joined);
    memcpy(forms->parts, forms->joined, sizeof forms->joined);
    char *part = forms->parts, *end;
    for (; (end = strstr(part, "::")); part = end + 2) {
        *end = '\0';
        add_form(forms, part);
    }
    add_form(forms, part);
}

static bool matches(const struct rule_pattern *pattern, const char *name) {
    return pattern->kind == RULE_REGEX ? regexec(&pattern->regex, name, 0, NULL, 0) == 0
                                       : fnmatch(pattern->glob, name, 0) == 0;
}

static unsigned int rule_of_forms(const struct rule_patterns *patterns,
                                  const struct name_forms *forms) {
    for (size_t i = 0; i < patterns->count; i++) {
        const struct rule_pattern *pattern = &patterns->list[i];
        if (pattern->kind != RULE_FUNCTION && pattern->kind != RULE_REGEX)
            continue;
        for (size_t k = 0; k < forms->count; k++)
            if (matches(pattern, forms->texts[k]))
                return (unsigned int)i + 1;
    }
    return 0;
}

/* Compilers add suffixes (.part.0, .cold) to the name of a part of a function. But a function may
 * also have a dot in its own name (main.make of Go). So the symbol is compared as a whole, and up
 * to each dot. */
unsigned int rule_patterns_of_function(const struct rule_patterns *patterns, const char *symbol) {
    static struct name_forms forms;
    unsigned int first = 0;
    for (size_t length = 0; symbol[length] != '\0';) {
        length += 1 + strcspn(symbol + length + 1, ".");
        make_forms(&forms, symbol, length, patterns->shown);
        unsigned int rule = rule_of_forms(patterns, &forms);
        if (first == 0 || (rule != 0 && rule < first))
            first = rule;
    }
    return first;
}

unsigned int rule_patterns_of_file(const struct rule_patterns *patterns, const char *file,
                                   const char *directory) {
    const char *slash = strrchr(file, '/');
    char *path = file[0] != '/' && directory ? cli_format("%s/%s", directory, file) : NULL;
    unsigned int rule = 0;
    for (size_t i = 0; i < patterns->count && rule == 0; i++) {
        const struct rule_pattern *pattern = &patterns->list[i];
        if (pattern->kind == RULE_FILE &&
            (matches(pattern, file) || (slash && matches(pattern, slash + 1)) ||
             (path && matches(pattern, path))))
            rule = (unsigned int)i + 1;
    }
    free(path);
    return rule;
}
