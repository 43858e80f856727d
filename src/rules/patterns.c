/* SPDX-License-Identifier: MIT */
/* Whether names match the patterns of rules; see patterns.h. */
#include "rules/patterns.h"

/* * and ?, of the first `length` bytes of a name. */
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

/* A name of C++ as it stands in the source, as far as that takes no more than reading:
 * ns::type::function, without what templates are made for. `each` is called for the parts, too;
 * true: that was it. */
static bool each_mangled(const char *symbol,
                         bool (*each)(const char *name, size_t length, const void *context),
                         const void *context) {
    char joined[256];
    struct text whole = {.bytes = joined, .capacity = sizeof joined};
    unsigned deep = 0; /* in < > */
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
                break; /* its parameters follow */
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

/* What compilers put behind the name of a part of a function (.part.0, .cold) is not the name's. */
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
