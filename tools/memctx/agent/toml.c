/* SPDX-License-Identifier: MIT */
/* toml.c - reads a part of TOML. Takes memory in proportion to the length of the text. */
#include "agent/toml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"

struct reader {
    const char *at; /* the text ends with a 0 */
    unsigned line;
    struct toml *toml;
    struct toml_error *error;
};

#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static bool fail(struct reader *reader, const char *text) {
    reader->error->line = reader->line;
    snprintf(reader->error->text, sizeof reader->error->text, "%s", text);
    return false;
}

static bool fail_name(struct reader *reader, const char *format, const char *name) {
    char *text = cli_format("\"%.60s\" %s", name, format);
    fail(reader, text);
    free(text);
    return false;
}

/* --- spaces and lines ------------------------------------------------------------------------ */

static void skip_spaces(struct reader *reader) {
    reader->at += strspn(reader->at, " \t");
}

static bool end_line(struct reader *reader) {
    if (reader->at[0] == '\r' && reader->at[1] == '\n')
        reader->at++;
    if (*reader->at != '\n')
        return false;
    reader->at++;
    reader->line++;
    return true;
}

static void skip_comment(struct reader *reader) {
    if (*reader->at == '#')
        reader->at += strcspn(reader->at, "\r\n");
}

/* Skips spaces, comments and ends of lines. */
static void skip_lines(struct reader *reader) {
    do {
        skip_spaces(reader);
        skip_comment(reader);
    } while (end_line(reader));
}

/* Reads the rest of a line, behind a value or the head of a table. Only a comment may follow. */
static bool finish_line(struct reader *reader) {
    skip_spaces(reader);
    skip_comment(reader);
    if (*reader->at == '\0' || end_line(reader))
        return true;
    return fail(reader, "something stands behind the value; put each key on a line of its own");
}

/* --- strings --------------------------------------------------------------------------------- */

static char *put_code_point(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char heads[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(heads[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    return to;
}

/* Reads an escape sequence behind its backslash, and writes its character to `to`. Returns the end
 * of the written bytes. NULL: no such sequence exists. */
static char *read_escape(struct reader *reader, char *to) {
    static const char from[] = "btnfr\"\\", plain[] = "\b\t\n\f\r\"\\";
    char letter = *reader->at++;
    const char *found = letter == '\0' ? NULL : strchr(from, letter);
    if (found) {
        *to++ = plain[found - from];
        return to;
    }
    size_t digits = letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0 || strspn(reader->at, "0123456789abcdefABCDEF") < digits)
        return NULL;
    char hex[9] = "";
    memcpy(hex, reader->at, digits);
    reader->at += digits;
    unsigned long code = strtoul(hex, NULL, 16);
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return NULL;
    return put_code_point(to, (uint32_t)code);
}

/* Reads a string; NULL: a mistake. The caller frees it. */
static char *read_string(struct reader *reader) {
    char quote = *reader->at++;
    size_t room = strcspn(reader->at, "\n") + 1;
    /* an escape sequence is never shorter than its character */
    char *text = cli_alloc(room, 1), *to = text;
    if (reader->at[0] == quote && reader->at[1] == quote) {
        fail(reader, "strings of several lines are not read here; write one line");
        free(text);
        return NULL;
    }
    while (*reader->at != quote) {
        if (*reader->at == '\0' || *reader->at == '\n' || *reader->at == '\r') {
            fail(reader, "the string does not end on its line; add the closing quote");
            free(text);
            return NULL;
        }
        if (*reader->at == '\\' && quote == '"') {
            reader->at++;
            to = read_escape(reader, to);
        } else {
            *to++ = *reader->at++;
        }
        if (!to) {
            fail(reader, "no such escape in a string; write \\\\ for a backslash");
            free(text);
            return NULL;
        }
    }
    reader->at++;
    *to = '\0';
    return text;
}

/* --- values ---------------------------------------------------------------------------------- */

static void add_text(struct toml_value *value, char *text) {
    value->texts = cli_grow(value->texts, value->count + 1, sizeof *value->texts);
    value->texts[value->count++] = text;
}

static bool read_list(struct reader *reader, struct toml_value *value) {
    value->kind = TOML_LIST;
    reader->at++;
    for (;;) {
        skip_lines(reader);
        if (*reader->at == ']')
            break;
        if (*reader->at != '"' && *reader->at != '\'')
            return fail(reader, *reader->at == '\0'
                                    ? "the array does not end; add ]"
                                    : "an array may have strings only; quote each element");
        char *text = read_string(reader);
        if (!text)
            return false;
        add_text(value, text);
        skip_lines(reader);
        if (*reader->at == ',')
            reader->at++;
        else if (*reader->at != ']')
            return fail(reader, "a , or ] is missing behind a string of the array");
    }
    reader->at++;
    return true;
}

static bool read_number(struct reader *reader, struct toml_value *value) {
    char digits[24], *to = digits;
    const char *from = reader->at;
    size_t length = strcspn(from, " \t\r\n#"), start = *from == '-' || *from == '+';
    value->kind = TOML_NUMBER;
    for (size_t i = 0; i < length; i++) {
        bool digit = from[i] >= '0' && from[i] <= '9';
        bool between = from[i] == '_' && i > start && from[i - 1] != '_' && i + 1 < length;
        if (!digit && !between && !(i == 0 && start))
            return fail(reader, "this is no whole number; quote a text: key = \"text\"");
        if (!between && to - digits == (ptrdiff_t)sizeof digits - 1)
            return fail(reader, "this number is too large; write a smaller one");
        if (!between)
            *to++ = from[i];
    }
    *to = '\0';
    if (length == start || (from[start] == '0' && length > start + 1))
        return fail(reader, "a whole number has digits and does not begin with 0");
    if (to - digits > 18)
        return fail(reader, "this number is too large; write a smaller one");
    value->number = strtoll(digits, NULL, 10);
    reader->at += length;
    return true;
}

static bool read_value(struct reader *reader, struct toml_value *value) {
    static const char *const words[] = {"false", "true"};
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(reader->at, words[i], length) == 0 &&
            strchr(" \t\r\n#", reader->at[length])) { /* strchr also finds the final 0 */
            *value = (struct toml_value){.key = value->key, .kind = TOML_BOOLEAN, .number = i};
            reader->at += length;
            return true;
        }
    }
    if (*reader->at == '"' || *reader->at == '\'') {
        char *text = read_string(reader);
        value->kind = TOML_TEXT;
        if (text)
            add_text(value, text);
        return text;
    }
    if (*reader->at == '[')
        return read_list(reader, value);
    if (*reader->at == '{')
        return fail(reader, "inline tables are not read here; give the table a head: [name]");
    if (*reader->at == '\0' || strchr("\r\n#", *reader->at))
        return fail(reader, "the key has no value; write KEY = VALUE");
    return read_number(reader, value);
}

/* --- tables and keys ------------------------------------------------------------------------- */

static char *read_key(struct reader *reader) {
    size_t length = strspn(reader->at, KEY_LETTERS);
    char *key = cli_format("%.*s", (int)length, reader->at);
    reader->at += length;
    return key;
}

static struct toml_table *add_table(struct reader *reader, char *name, bool repeated) {
    struct toml *toml = reader->toml;
    toml->tables = cli_grow(toml->tables, toml->count + 1, sizeof *toml->tables);
    struct toml_table *table = &toml->tables[toml->count++];
    *table = (struct toml_table){.name = name, .repeated = repeated, .line = reader->line};
    return table;
}

static bool read_head(struct reader *reader) {
    bool repeated = reader->at[1] == '[';
    const char *end = repeated ? "]]" : "]";
    reader->at += repeated ? 2 : 1;
    skip_spaces(reader);
    char *name = read_key(reader);
    skip_spaces(reader);
    struct toml_table *table = add_table(reader, name, repeated);
    if (name[0] == '\0' || strncmp(reader->at, end, strlen(end)) != 0)
        return fail(reader, "the head of a table is [name] or [[name]]");
    reader->at += strlen(end);
    for (struct toml_table *other = reader->toml->tables; other < table; other++) {
        if (strcmp(other->name, name) != 0)
            continue;
        if (other->repeated != repeated)
            return fail_name(
                reader, "is [name] in one place and [[name]] in another; write [[name]]", name);
        if (!repeated)
            return fail_name(reader, "has two tables; put their keys into one", name);
    }
    return finish_line(reader);
}

static bool read_pair(struct reader *reader) {
    struct toml *toml = reader->toml;
    struct toml_table *table =
        toml->count > 0 ? &toml->tables[toml->count - 1] : add_table(reader, cli_copy(""), false);
    if (!strchr(KEY_LETTERS, *reader->at))
        return fail(reader, "a line is KEY = VALUE, [TABLE] or a comment; keys have letters, "
                            "digits, - and _");
    struct toml_value value = {.key = read_key(reader)};
    table->values = cli_grow(table->values, table->count + 1, sizeof value);
    struct toml_value *place = &table->values[table->count++];
    *place = value;
    for (size_t i = 0; i + 1 < table->count; i++)
        if (strcmp(table->values[i].key, value.key) == 0)
            return fail_name(reader, "stands twice in its table; keep one", value.key);
    skip_spaces(reader);
    if (*reader->at != '=')
        return fail(reader, *reader->at == '.'
                                ? "dotted keys are not read here; use [TABLE]"
                                : "a = is missing behind the key; write KEY = VALUE");
    reader->at++;
    skip_spaces(reader);
    unsigned line = reader->line;
    bool good = read_value(reader, place);
    place->line = line;
    return good && finish_line(reader);
}

/* Refuses bytes that no TOML file may have: bytes that are not UTF-8, and control characters. */
static bool check_text(struct reader *reader, const char *text, size_t length) {
    for (size_t at = 0, step; at < length; at += step) {
        step = json_utf8_length(text + at);
        unsigned char byte = (unsigned char)text[at];
        bool line_end = byte == '\n' || (byte == '\r' && text[at + 1] == '\n');
        if (step == 0 || byte == 0x7f || (byte < ' ' && byte != '\t' && !line_end))
            return fail(reader, step == 0 ? "the file is not UTF-8; write it in UTF-8"
                                          : "the file has a control character; remove it");
        reader->line += byte == '\n';
    }
    reader->line = 1;
    return true;
}

bool toml_parse(struct toml *toml, const char *text, size_t length, struct toml_error *error) {
    char *copy = cli_format("%.*s", (int)length, text);
    struct reader reader = {.at = copy, .line = 1, .toml = toml, .error = error};
    *toml = (struct toml){0};
    bool good = strlen(copy) == length
                    ? check_text(&reader, text, length)
                    : fail(&reader, "the file has a byte of the value 0; remove it");
    if (good)
        skip_lines(&reader);
    while (good && *reader.at != '\0') {
        good = *reader.at == '[' ? read_head(&reader) : read_pair(&reader);
        if (good)
            skip_lines(&reader);
    }
    free(copy);
    return good;
}

void toml_free(struct toml *toml) {
    for (size_t i = 0; i < toml->count; i++) {
        struct toml_table *table = &toml->tables[i];
        for (size_t k = 0; k < table->count; k++) {
            for (size_t n = 0; n < table->values[k].count; n++)
                free(table->values[k].texts[n]);
            free(table->values[k].texts);
            free(table->values[k].key);
        }
        free(table->values);
        free(table->name);
    }
    free(toml->tables);
    *toml = (struct toml){0};
}
