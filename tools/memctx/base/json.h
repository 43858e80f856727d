/* SPDX-License-Identifier: MIT */
/*
 * json.h - writes JSON to a stream, value by value, without building a tree of the values.
 *
 * A dump of 10 000 contexts holds half a million numbers: they go straight into the buffer of the
 * stream. jansson reads JSON (snapshot/snapshot_json.c).
 */
#ifndef MEMCTX_JSON_H
#define MEMCTX_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_writer {
    FILE *file;
    bool comma; /* the next value needs a comma before it */
};

/* `key` is NULL inside arrays and for the outermost value. */
void json_put_open(struct json_writer *json, const char *key, char bracket);
void json_put_close(struct json_writer *json, char bracket);
void json_put_integer(struct json_writer *json, const char *key,
                      int64_t value); /* writes WIRE_UNKNOWN as null */
void json_put_hex(struct json_writer *json, const char *key, uint64_t value); /* "0x…" */
void json_put_text(struct json_writer *json, const char *key,
                   const char *text); /* writes NULL as null */
void json_put_boolean(struct json_writer *json, const char *key, bool value);
void json_put_null(struct json_writer *json, const char *key);
void json_put_decimal(struct json_writer *json, const char *key, double value); /* six decimals */
void json_put_newline(struct json_writer *json); /* starts a line before the next value */

/* Returns the length of the UTF-8 sequence at the start of `text`: 1 if the text is empty, 0 if it
 * begins with no valid sequence. */
size_t json_utf8_length(const char *text);

#endif
