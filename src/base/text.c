/* SPDX-License-Identifier: MIT */
/* Formatted output and number parsing without libc; see text.h. */
#include "base/text.h"

size_t text_length(const char *string) {
    size_t length = 0;
    while (string[length])
        length++;
    return length;
}

bool text_equal(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

void text_add_bytes(struct text *text, const void *bytes, size_t length) {
    const char *from = bytes;
    for (size_t i = 0; i < length; i++) {
        if (text->length >= text->capacity) {
            text->full = true;
            return;
        }
        text->bytes[text->length++] = from[i];
    }
}

void text_add(struct text *text, const char *string) {
    text_add_bytes(text, string, text_length(string));
}

size_t text_cut(const char *string, size_t max) {
    size_t length = 0, cut;
    while (length < max && string[length])
        length++;
    cut = length;
    while (cut && length - cut < 3 && ((unsigned char)string[cut] & 0xc0) == 0x80)
        cut--;
    return (unsigned char)string[cut] >= 0xc0 ? cut : length;
}

void text_add_word(struct text *text, const char *word, size_t max) {
    size_t length = text_cut(word, max);
    for (size_t i = 0; i < length; i++)
        text_add_bytes(text, (unsigned char)word[i] < ' ' || word[i] == 0x7f ? "?" : word + i, 1);
    text_add(text, word[length] ? "..." : "");
}

static void add_unsigned(struct text *text, uint64_t value, unsigned base) {
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    text_add_bytes(text, digits + at, sizeof digits - at);
}

void text_add_number(struct text *text, int64_t value) {
    if (value < 0)
        text_add(text, "-");
    add_unsigned(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

void text_add_hex(struct text *text, uint64_t value) {
    text_add(text, "0x");
    add_unsigned(text, value, 16);
}

bool text_to_number(const char *string, int64_t *value) {
    uint64_t number = 0;
    const char *at = string;
    while (*at >= '0' && *at <= '9') {
        if (number > (1UL << 62) / 10)
            return false;
        number = number * 10 + (uint64_t)(*at++ - '0');
    }
    if (at == string)
        return false;
    unsigned shift = *at == 'k' || *at == 'K'   ? 10
                     : *at == 'm' || *at == 'M' ? 20
                     : *at == 'g' || *at == 'G' ? 30
                                                : 0;
    if (shift)
        at++;
    if (*at || number >> (62 - shift))
        return false;
    *value = (int64_t)(number << shift);
    return true;
}

bool text_has(const char *text, const char *part) {
    for (; *text; text++) {
        const char *a = text, *b = part;
        while (*b && *a == *b) {
            a++;
            b++;
        }
        if (!*b)
            return true;
    }
    return false;
}
