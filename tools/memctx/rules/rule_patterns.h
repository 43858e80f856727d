/* SPDX-License-Identifier: MIT */
/*
 * rule_patterns.h - compares the patterns of rules that the command resolves with names.
 *
 * A function of C++ or Rust is compared by several names: its mangled name;
 * namespace::type::function, without template arguments, parameters and hash; each part of that
 * name between two "::"; and the name that memctx dump shows. A source file is compared by its name
 * and by its path. docs/rules.md says which patterns the library resolves itself.
 */
#ifndef MEMCTX_RULE_PATTERNS_H
#define MEMCTX_RULE_PATTERNS_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cli.h"

#define RULE_PATTERNS_MAX 64 /* greatest number of rules that the library takes */

enum rule_pattern_kind { RULE_FUNCTION, RULE_FILE, RULE_REGEX, RULE_OTHER };

struct rule_pattern {
    enum rule_pattern_kind kind;
    const char *rule; /* the whole text of the rule */
    char *glob;       /* the pattern in fnmatch's syntax */
    regex_t regex;
};

struct rule_patterns {
    struct rule_pattern list[RULE_PATTERNS_MAX]; /* in the order of the rules */
    size_t count;
    bool any;           /* the command can resolve some pattern */
    bool shown;         /* some pattern may match parameters or template arguments */
    bool command_alone; /* some pattern is a regex: or file:, which the library cannot resolve */
};

/* Adds a rule, PATTERN=WHAT. Returns false and sets the failure if the pattern is invalid, or if
 * there is no room. */
bool rule_patterns_add(struct rule_patterns *patterns, const char *rule,
                       struct cli_failure *failure);
/* Returns the number of the first rule that matches a function, from 1 on; 0: none. `symbol`: the
 * function's name in the symbol table or its linkage name, which may be mangled, or its name in the
 * source. */
unsigned int rule_patterns_of_function(const struct rule_patterns *patterns, const char *symbol);
/* Returns the number of the first rule that matches a source file; 0: none. `directory`: where the
 * compiler ran; NULL: not known. */
unsigned int rule_patterns_of_file(const struct rule_patterns *patterns, const char *file,
                                   const char *directory);

#endif
