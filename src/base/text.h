/* SPDX-License-Identifier: MIT */
/*
 * text.h - formatted output without libc: bounded, no allocation, usable in any state.
 *
 * A struct text appends to a buffer of the caller's; what does not fit is dropped and `full` set.
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
void text_add_number(struct text *text, int64_t value);
void text_add_hex(struct text *text, uint64_t value);

/* Parses a decimal number (with an optional k, m or g suffix); false: not a number or over 2^62. */
bool text_to_number(const char *string, int64_t *value);
bool text_equal(const char *a, const char *b);
bool text_has(const char *text, const char *part);
size_t text_length(const char *string);

#endif
