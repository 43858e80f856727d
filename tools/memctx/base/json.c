/* SPDX-License-Identifier: MIT */
/* json.c - writes JSON to a stream, value by value. */
#include "base/json.h"

#include <string.h>

#include <memctx/wire.h>

static void write_text(FILE *file, const char *text, size_t length) {
    fwrite_unlocked(text, 1, length, file);
}

size_t json_utf8_length(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    size_t length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                    : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90))
        return 0; /* overlong, a surrogate, or past the last code point */
    return length;
}

static void write_string(FILE *file, const char *text) {
    putc_unlocked('"', file);
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t plain = 0;
        while (at[plain] >= 0x20 && at[plain] < 0x7f && at[plain] != '"' && at[plain] != '\\')
            plain++;
        write_text(file, (const char *)at, plain);
        at += plain;
        if (*at == '\0')
            break;
        if (*at == '"' || *at == '\\') {
            putc_unlocked('\\', file);
            putc_unlocked(*at++, file);
        } else if (*at < 0x20 || *at == 0x7f) {
            fprintf(file, "\\u%04x", *at++);
        } else {
            size_t length = json_utf8_length((const char *)at);
            if (length == 0) {
                write_text(file, "\\ufffd", 6);
                at++;
            } else {
                write_text(file, (const char *)at, length);
                at += length;
            }
        }
    }
    putc_unlocked('"', file);
}

static void begin_value(struct json_writer *json, const char *key) {
    if (json->comma)
        putc_unlocked(',', json->file);
    json->comma = true;
    if (key) {
        write_string(json->file, key);
        putc_unlocked(':', json->file);
    }
}

void json_put_open(struct json_writer *json, const char *key, char bracket) {
    begin_value(json, key);
    putc_unlocked(bracket, json->file);
    json->comma = false;
}

void json_put_close(struct json_writer *json, char bracket) {
    putc_unlocked(bracket, json->file);
    json->comma = true;
}

void json_put_integer(struct json_writer *json, const char *key, int64_t value) {
    if (value == WIRE_UNKNOWN) {
        json_put_null(json, key);
        return;
    }
    begin_value(json, key);
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0)
        digits[--at] = '-';
    write_text(json->file, digits + at, sizeof digits - at);
}

void json_put_hex(struct json_writer *json, const char *key, uint64_t value) {
    begin_value(json, key);
    char digits[20];
    size_t at = sizeof digits;
    digits[--at] = '"';
    do {
        digits[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    write_text(json->file, "\"0x", 3);
    write_text(json->file, digits + at, sizeof digits - at);
}

void json_put_text(struct json_writer *json, const char *key, const char *text) {
    if (!text) {
        json_put_null(json, key);
        return;
    }
    begin_value(json, key);
    write_string(json->file, text);
}

void json_put_boolean(struct json_writer *json, const char *key, bool value) {
    begin_value(json, key);
    write_text(json->file, value ? "true" : "false", value ? 4 : 5);
}

void json_put_null(struct json_writer *json, const char *key) {
    begin_value(json, key);
    write_text(json->file, "null", 4);
}

void json_put_decimal(struct json_writer *json, const char *key, double value) {
    begin_value(json, key);
    fprintf(json->file, "%.6f", value);
}

void json_put_newline(struct json_writer *json) {
    if (json->comma) {
        putc_unlocked(',', json->file);
        json->comma = false;
    }
    putc_unlocked('\n', json->file);
}
