/* SPDX-License-Identifier: MIT */
/*
 * toml.h - reads the part of TOML 1.0 that a file of settings needs, and refuses everything else
 * with the number of the line.
 *
 * The reader takes tables ([name], [[name]]), bare keys, strings on one line ("basic" with escapes,
 * 'literal'), whole numbers, true and false, and arrays of strings, which may take several lines.
 * It refuses dotted and quoted keys, inline tables, strings of several lines, fractions, dates, and
 * arrays of anything else. If this reader takes a file, any other reader of TOML reads the same
 * values from it. Not thread-safe.
 */
#ifndef MEMCTX_TOML_H
#define MEMCTX_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum toml_kind { TOML_TEXT, TOML_NUMBER, TOML_BOOLEAN, TOML_LIST };

struct toml_value {
    char *key;
    enum toml_kind kind;
    char **texts; /* `count` strings: one with TOML_TEXT, any number with TOML_LIST */
    size_t count;
    int64_t number; /* TOML_NUMBER; TOML_BOOLEAN: 0 or 1 */
    unsigned line;
};

struct toml_table {
    char *name;    /* "": the keys before the first table */
    bool repeated; /* [[name]] */
    unsigned line;
    struct toml_value *values;
    size_t count;
};

struct toml {
    struct toml_table *tables; /* the tables, in the order of the file */
    size_t count;
};

struct toml_error {
    unsigned line;
    char text[256];
};

/* Reads a text of `length` bytes, behind which a 0 byte stands. Returns false and fills in the
 * error if the text is not in the part of TOML above. The caller calls toml_free in either case. */
bool toml_parse(struct toml *toml, const char *text, size_t length, struct toml_error *error);
void toml_free(struct toml *toml);

#endif
