/* SPDX-License-Identifier: MIT */
/*
 * text.h - formatted output without libc: bounded, without allocation, usable in signal handlers
 * and under locks.
 *
 * A struct text appends to a buffer that the caller provides. Bytes that do not fit are dropped,
 * and `full` is set.
 */
#ifndef MEMCTX_TEXT_H
#define MEMCTX_TEXT_H

#include "base/base.h"

struct text {
    char *bytes;
    size_t length, capacity;
    bool full;
};

void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const void *bytes, size_t length);
/* Adds a text that somebody else chose, such as a name. Each control character becomes '?'. Of a
 * text of more than `max` bytes, adds the first characters that end within `max` bytes, and "...".
 */
void text_add_word(struct text *text, const char *word, size_t max);
/* Returns how many bytes of a string fit into `max` bytes without a part of a character of UTF-8 at
 * the end. Where the string is not UTF-8, the end may be anywhere. */
size_t text_cut(const char *string, size_t max);
void text_add_number(struct text *text, int64_t value);
void text_add_hex(struct text *text, uint64_t value);

/* Parses a decimal number with an optional suffix k, m or g (either case; factors 2^10, 2^20,
 * 2^30). False: `string` is not such a number, or the number is 2^62 or more. */
bool text_to_number(const char *string, int64_t *value);
bool text_equal(const char *a, const char *b);
/* True when `text` contains `part`. */
bool text_has(const char *text, const char *part);
size_t text_length(const char *string);

#endif
