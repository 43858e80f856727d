/* SPDX-License-Identifier: MIT */
/*
 * toml.h - reads the part of TOML 1.0 that a settings file needs, and refuses all else with the
 * number of the line.
 *
 * Tables ([name], [[name]]), bare keys, strings on one line ("basic" with escapes, 'literal'),
 * whole numbers, true and false, and arrays of strings, which may take several lines. The reader
 * refuses dotted and quoted keys, inline tables, strings of several lines, fractions, dates, arrays
 * of anything else. A file that this reader takes means the same to every other reader of TOML. For
 * one thread.
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

/* Reads a text of `length` bytes, behind which a 0 stands. Returns false and fills in the error if
 * the text is not in the part of TOML above. toml_free is called in either case. */
bool toml_parse(struct toml *toml, const char *text, size_t length, struct toml_error *error);
void toml_free(struct toml *toml);

#endif
