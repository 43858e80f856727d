/* SPDX-License-Identifier: MIT */
/* patterns.c - matches names against the patterns of rules; see patterns.h. */
#include "rules/patterns.h"
#include "rules/mangled.h"

#define NAME_BYTES 512U /* of a longer name, only the parts that fit are compared */

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

/* True when the pattern matches one of the parts of a name that "::" separates. With `is_whole`,
 * the name is complete, and the pattern may also match the whole name. `length`: bytes of the
 * name. */
static bool matches_parts(const char *pattern, const char *name, size_t length, bool is_whole) {
    size_t from = 0;
    if (is_whole && glob(pattern, name, length))
        return true;
    for (size_t i = 0; i + 1 < length; i++)
        if (name[i] == ':' && name[i + 1] == ':') {
            if (glob(pattern, name + from, i - from))
                return true;
            from = i + 2;
        }
    return glob(pattern, name + from, length - from);
}

static bool matches_mangled(const char *pattern, const char *symbol) {
    char room[NAME_BYTES];
    struct text name = {.bytes = room, .capacity = sizeof room};
    bool is_whole = mangled_read(symbol, &name);
    return name.length && matches_parts(pattern, room, name.length, is_whole);
}

/* Compilers add suffixes (.part.0, .cold) to the name of a part of a function, but a function may
 * also have a dot in its own name (main.make of Go). So the symbol is compared up to each dot, and
 * as a whole. */
bool pattern_matches_function(const struct policy_rule *rule, const char *symbol) {
    size_t length = 0;
    do {
        length += symbol[length] != 0;
        while (symbol[length] && symbol[length] != '.')
            length++;
        if (glob(rule->pattern, symbol, length))
            return true;
    } while (symbol[length]);
    return symbol[0] == '_' && symbol[1] == 'Z' && matches_mangled(rule->pattern, symbol);
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
