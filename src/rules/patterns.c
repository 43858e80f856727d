/* SPDX-License-Identifier: MIT */
/* patterns.c - matches names against the patterns of rules; see patterns.h. */
#include "rules/patterns.h"

/* True when the pattern matches the whole name, which has `length` bytes. * and ? are the only
 * wildcards. */
static bool glob(const char *pattern, const char *name, size_t length) {
    const char *star = NULL, *from = name, *end = name + length;
    while (name < end) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

/* Decodes a mangled C++ name to the form ns::type::function, without template arguments, as far as
 * simple reading allows. Calls `each` for each part of the name and then for the whole name. Stops
 * and returns true when `each` returns true. */
static bool each_mangled(const char *symbol,
                         bool (*each)(const char *name, size_t length, const void *context),
                         const void *context) {
    char joined[256];
    struct text whole = {.bytes = joined, .capacity = sizeof joined};
    unsigned deep = 0; /* depth of nested template arguments */
    for (size_t i = 2; symbol[i];) {
        size_t length = 0;
        if (symbol[i] < '0' || symbol[i] > '9') {
            char c = symbol[i++];
            if (c == 'S' && symbol[i] == 't' && !deep) {
                text_add(&whole, "std");
                i++;
            } else if (c == 'I' || (deep && (c == 'N' || c == 'L' || c == 'X' || c == 'J'))) {
                deep++;
            } else if (c == 'E' && !deep) {
                break; /* the function's parameters follow */
            } else if (c == 'E') {
                deep--;
            }
            continue;
        }
        while (symbol[i] >= '0' && symbol[i] <= '9' && length < sizeof joined)
            length = length * 10 + (size_t)(symbol[i++] - '0');
        size_t there = 0;
        while (there < length && symbol[i + there])
            there++;
        if (!length || there < length)
            return false;
        if (each(symbol + i, length, context))
            return true;
        if (!deep) {
            text_add(&whole, whole.length ? "::" : "");
            text_add_bytes(&whole, symbol + i, length);
        }
        i += length;
        if (symbol[2] != 'N' && symbol[2] != 'S')
            break;
    }
    return whole.length && !whole.full && each(joined, whole.length, context);
}

static bool matches(const char *name, size_t length, const void *context) {
    const struct policy_rule *rule = context;
    return glob(rule->pattern, name, length);
}

/* Compilers add a suffix (.part.0, .cold) to the name of a part of a function. The suffix is
 * ignored. */
bool pattern_matches_function(const struct policy_rule *rule, const char *symbol) {
    size_t length = 0;
    while (symbol[length] && (symbol[length] != '.' || !length))
        length++;
    return matches(symbol, length, rule) ||
           (symbol[0] == '_' && symbol[1] == 'Z' && each_mangled(symbol, matches, rule));
}

static const char *base_name(const char *path) {
    const char *base = path;
    for (; *path; path++)
        if (*path == '/' && path[1])
            base = path + 1;
    return base;
}

bool pattern_matches_module(const struct policy_rule *rule, const char *path) {
    return glob(rule->pattern, base_name(path), text_length(base_name(path)));
}
